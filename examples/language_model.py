"""A language model from any text file, and a few lines that it writes.

    python examples/language_model.py TEXT [--set train.minutes=5] [--write 300]

It is the run that `dragoman train TEXT --set task=language_model` makes. Afterwards the model goes on by itself after
a newline; each token is drawn by its probability.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import dragoman


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path, help="any text file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for dragoman train")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder that holds the runs")
    parser.add_argument("--write", type=int, default=300, help="tokens that the model writes in the end")
    options = parser.parse_args(arguments)
    if not options.text.is_file():
        parser.error(f"{options.text} does not exist; name a text file")
    run = dragoman.train(options.text, overrides=["task=language_model", *options.set], runs=options.runs)
    for found in run.evaluations[-1:]:  # what comes before it is a baseline
        print(*found.scores.values(), sep="\n")
    wish = dragoman.GenerateOptions(tokens=options.write, temperature=1.0)
    print(dragoman.generate(run.folder, [""], wish)[0].text.strip())


if __name__ == "__main__":
    main()
