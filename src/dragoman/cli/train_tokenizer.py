"""`dragoman train-tokenizer`: learns the vocabulary of both sides of parallel text."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli import console
from dragoman.cli.options import Data, Quiet, Set, chosen, one_or_two, parted

if TYPE_CHECKING:
    from dragoman.text.inputs import ReadingSettings
    from dragoman.text.reading.readers import Address

log = logging.getLogger(__name__)


def train_tokenizer(
    data: Data,
    folder: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    kind: Annotated[
        Literal["bpe", "unigram", "byte_bpe", "word", "spacy"], typer.Option(help="How text is cut into tokens.")
    ] = "bpe",
    vocabulary_size: Annotated[
        int | None, typer.Option(help="Tokens at most.", show_default="8,000; words: all")
    ] = None,
    overrides: Set = None,
    quiet: Quiet = False,
) -> None:
    """Learn a vocabulary from parallel text, or from the training side of prepared data, and save it."""
    from dragoman.files import new_folder
    from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

    screen = console.Screen(quiet)
    reading, others = parted(overrides)
    settings = chosen(TokenizerSettings, "tokenizer", others, kind=kind, vocabulary_size=vocabulary_size)
    with new_folder(folder) as aside:
        text = TrainingText(one_or_two(data), reading)
        tokenizers = learn_tokenizers(text.pairs, settings, screen.progress, text.languages)
        tokenizers.save(aside)
    source, target = next(text.pairs())
    sides = {"source": (tokenizers.source, source), "target": (tokenizers.target, target)}
    if tokenizers.joint:
        sides = {"both": sides["source"]}
    rows = [
        (side, f"{tokenizer.size:,}", " ".join(tokenizer.tokens(tokenizer.encode(example))))
        for side, (tokenizer, example) in sides.items()
    ]
    screen.show(console.table(["side", "tokens", "the first sentence in tokens"], rows))
    screen.note(f"the tokenizer is in {folder}")


class TrainingText:
    """The training pairs of prepared data, or of parallel text as it lies there."""

    def __init__(self, address: "Address", settings: "ReadingSettings") -> None:
        from dragoman.text.reading.readers import open_pairs
        from dragoman.text.report import REPORT, read_report

        self._folder = Path(address) if isinstance(address, str) and (Path(address) / REPORT).is_file() else None
        if self._folder:
            report = read_report(self._folder)
            self.languages = report.source_language, report.target_language
        else:
            self._reading = open_pairs(address, settings.naming, settings.format, settings.encoding_errors)
            for choice, reason in self._reading.reasons.items():
                log.info("%s: %s", choice, reason)
            for doubt in self._reading.doubts:
                log.warning("%s", doubt)
            self.languages = self._reading.languages

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The pairs from the first, each time."""
        from dragoman.text.prepare import read_split
        from dragoman.text.reading.readers import Broken

        if self._folder:
            return read_split(self._folder, "train")
        return ((pair.source, pair.target) for pair in self._reading if not isinstance(pair, Broken))
