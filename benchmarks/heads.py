"""What does each attention head of a model do, and what does its removal cost?

    python benchmarks/heads.py RUN SOURCE TARGET [--trees UD.conllu] [--sentences 200] [--out results.json]

Roles are shares of attention weight beside chance: neighbouring words, symbols, aligned words (against the hand-drawn
links that come with Dragoman, if they are of these languages), and with `--trees` subjects of verbs. Each head is
removed alone: what changes are the log-probability of the references and BLEU of greedy translations. `--threads`
limits the computation, whose seconds are measured too.
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="a translation model or its run")
    parser.add_argument("test", type=Path, nargs=2, help="two files: sources and references, line by line")
    parser.add_argument("--trees", type=Path, help="a treebank of the source language in CoNLL-U")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args(arguments)

    import dragoman
    from dragoman import kernels
    from dragoman.machine import describe, machine

    kernels.prepare()
    seconds, (test, reference) = Seconds(), options.test
    try:
        found = dragoman.judge_heads(
            options.model,
            test,
            [reference],
            trees=options.trees,
            sentences=options.sentences,
            threads=options.threads,
            progress=seconds,
        )
    except dragoman.Error as error:
        raise SystemExit(f"error: {error}") from None
    for row in [found.headings, *found.rows()]:
        print("\t".join(row))
    print(*found.notes, seconds.of, f"{describe()}; {options.threads} threads", sep="\n")
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "threads": options.threads}
        measured = {"seconds": seconds.of, "table": found.facts()}
        options.out.write_text(json.dumps({**facts, **measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
