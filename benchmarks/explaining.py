"""How long does the page of one text take to write, and how large is it?

    python benchmarks/explaining.py MODEL [MODEL ...] --texts test.en test.it [--tokens 5 15 30 60] [--rounds 5]

Few sentences are long, so the first pairs of the files are joined by commas, and each side is cut after so many tokens;
this translation is explained (`--target`), and the model's own searches stand beside it. The model is loaded, and
explains one pair, before anything is timed. Seconds are medians: the record (passes, searches of four or five widths,
alignment, contributions), then the page. Sizes are those of the page, and of all numbers as JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from command_line import command_line, figures_file

if TYPE_CHECKING:
    from dragoman.explaining.recording import Recorder
    from dragoman.tokenizing.tokenizer import Tokenizer

COLUMNS = ("model", "tokens read", "tokens written", "record, s", "page, s", "both, s", "page, MB", "JSON, MB")


def text_of(tokenizer: "Tokenizer", lines: Sequence[str], tokens: int) -> str:
    """The beginning of a text, so many tokens long."""
    return tokenizer.decode(tokenizer.encode(", ".join(line.rstrip(".?!") for line in lines))[:tokens])


def measure(recorder: "Recorder", source: str, target: str, rounds: int) -> dict[str, Any]:
    """One pair: medians of seconds, and sizes."""
    from dragoman.explaining.writing import render

    seconds: list[tuple[float, float]] = []
    record, page = recorder.record(source, target), b""
    for _ in range(rounds):
        started = time.perf_counter()
        record = recorder.record(source, target)
        recorded = time.perf_counter()
        page = render(record, "html")
        seconds.append((recorded - started, time.perf_counter() - recorded))
    (part,) = record.parts
    return {
        "tokens": [len(stack.tokens) for stack in part.stacks],
        "record": median(each[0] for each in seconds),
        "page": median(each[1] for each in seconds),
        "both": median(sum(each) for each in seconds),
        "page_bytes": len(page),
        "json_bytes": len(render(record, "json")),
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", help="model folders or run folders")
    parser.add_argument(
        "--texts", type=Path, nargs=2, required=True, help="two files: sentences and their translations"
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[5, 15, 30, 60], help="of either side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)

    import torch

    from dragoman.compiled import kernels
    from dragoman.explaining.recording import Recorder
    from dragoman.formats.lines import read_lines
    from dragoman.store.folder import load_model
    from dragoman.system import describe, machine

    torch.set_num_threads(options.threads)
    kernels.prepare()
    sides = [list(islice(read_lines(path), max(options.tokens))) for path in options.texts]
    found = []
    print("\t".join(COLUMNS))
    for model in options.models:
        recorder = Recorder(load_model(model))
        for warm, tokens in enumerate([options.tokens[0], *options.tokens]):
            source = text_of(recorder.tokenizers.source, sides[0], tokens - 2)  # and two symbols
            target = text_of(recorder.tokenizers.target, sides[1], tokens - 1)  # and the start
            row = {"model": model.name, **measure(recorder, source, target, options.rounds if warm else 1)}
            if not warm:
                continue
            found.append(row)
            figures = [f"{row[name]:.2f}" for name in ("record", "page", "both")]
            sizes = [f"{row[name] / 1e6:.2f}" for name in ("page_bytes", "json_bytes")]
            print("\t".join([model.name, *map(str, row["tokens"]), *figures, *sizes]), flush=True)
    print(f"{describe()}; {options.threads} threads")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "results": found}
        options.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
