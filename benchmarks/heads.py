"""What does each attention head of a model do, and what does its removal cost?

    python benchmarks/heads.py RUN SOURCE TARGET [--trees UD.conllu] [--sentences 200] [--out results.json]

Roles are shares of attention weight beside chance: neighbouring words, symbols, aligned words (against the hand-drawn
links that come with Dragoman, if they are of these languages), and with `--trees` subjects of verbs. Each head is
removed alone: what changes are the log-probability of the references and BLEU of greedy translations. The seconds of a
single sentence of 30 + 30 tokens, for all heads, are measured too.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command_line import command_line, figures_file


class Seconds:
    """A progress that measures how long each piece of work takes."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        started = time.perf_counter()
        print(f"{label}: {total:,} {unit}", flush=True)
        yield lambda count=1, **facts: None
        self.of[label] = round(time.perf_counter() - started, 2)


def seconds_of_one_sentence(size: str, rounds: int = 5, tokens: int = 30) -> dict[str, Any]:
    """How long `heads_of_text` of a fresh model takes on one pair, in float32: the least of some rounds."""
    import torch

    from dragoman.explaining.heads.one_text import heads_of_text
    from dragoman.explaining.heads.shares import Side
    from dragoman.explaining.heads.texts import ReadText
    from dragoman.explaining.passes import Given
    from dragoman.explaining.words import Word
    from dragoman.model import EncoderDecoder, ModelConfig, build_model, prepare_for_decoding
    from dragoman.tokenizing.framing import DEFAULT_FRAMING

    sizes: dict[str, Any] = {"size": size, "source_vocabulary": 8_000, "target_vocabulary": 8_000, "tied": "all"}
    fresh = build_model(ModelConfig(preset="modern", **sizes))
    assert isinstance(fresh, EncoderDecoder)
    model = prepare_for_decoding(fresh, "cpu", torch.float32)
    ids = torch.randint(300, 8_000, (2, tokens), generator=torch.Generator().manual_seed(1)).tolist()
    given, words = Given.of(DEFAULT_FRAMING, *ids), [Word("word", place, place + 1) for place in range(1, tokens + 1)]
    source, target = Side.of(words, tokens + 2, 1, 1), Side.of(words, tokens + 1, 1, 0)
    text = ReadText(given, source, target, tuple((word.first - 1, word.last - 1) for word in words))
    seconds = []
    for _ in range(1 + rounds):
        started = time.perf_counter()
        heads_of_text(model, text)
        seconds.append(time.perf_counter() - started)
    return {"tokens": [tokens, tokens], "seconds": round(min(seconds[1:]), 3)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="a translation model or its run")
    parser.add_argument("test", type=Path, nargs=2, help="two files: sources and references, line by line")
    parser.add_argument("--trees", type=Path, help="a treebank of the source language in CoNLL-U")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)

    import torch

    from dragoman import kernels
    from dragoman.explaining.alignment.gold import own_gold
    from dragoman.explaining.heads.subjects import read_trees
    from dragoman.explaining.heads.table import head_table
    from dragoman.explaining.heads.texts import linked_pairs
    from dragoman.machine import describe, machine
    from dragoman.text.reading.lines import read_lines
    from dragoman.translating import Translator

    torch.set_num_threads(options.threads)
    kernels.prepare()
    translator, seconds = Translator.load(options.model, "cpu", "float32"), Seconds()
    sources, references = (list(read_lines(path)) for path in options.test)
    found = head_table(
        translator,
        list(zip(sources, references, strict=True)),
        sentences=options.sentences,
        trees=read_trees(options.trees) if options.trees else None,
        aligned=linked_pairs(translator.tokenizers, own_gold(*translator.languages)),
        progress=seconds,
    )
    for row in [found.headings, *found.rows()]:
        print("\t".join(row))
    one = {size: seconds_of_one_sentence(size) for size in ("mini", "base")}
    print(*found.notes, seconds.of, one, f"{describe()}; {options.threads} threads", sep="\n")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "threads": options.threads}
        measured = {"seconds": seconds.of, "one_sentence": one, "table": found.facts()}
        options.out.write_text(json.dumps({**facts, **measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
