"""A character language model from any text file, and a few lines that it writes.

    python examples/language_model.py TEXT [--minutes 5] [--size tiny] [--write 300]

It is the run that `dragoman train TEXT --set task=language_model` makes, with one id a byte; then the model goes on
after a newline by itself, each character drawn by its probability.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import dragoman
from dragoman.model import LanguageModel
from dragoman.tasks.language_model import write_text


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path, help="any text file")
    parser.add_argument("--minutes", type=float, default=5.0, help="minutes of training")
    parser.add_argument("--size", default="tiny", choices=["tiny", "mini", "small", "base"])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder that holds the runs")
    parser.add_argument("--write", type=int, default=300, help="characters that the model writes in the end")
    options = parser.parse_args(arguments)
    if not options.text.is_file():
        parser.error(f"{options.text} does not exist; name a text file")
    settings = ["task=language_model", "tokenizer.kind=byte_bpe", "tokenizer.vocabulary_size=260"]
    settings += [f"model.size={options.size}", f"train.minutes={options.minutes}"]
    run = dragoman.train(options.text, overrides=settings, runs=options.runs)
    for found in run.evaluations:
        print(*found.scores.values(), sep="\n")
    stored = dragoman.load_model(run.folder)
    assert isinstance(stored.model, LanguageModel), "the task says so"
    print(write_text(stored.model, stored.tokenizers.target, "\n", options.write).strip())


if __name__ == "__main__":
    main()
