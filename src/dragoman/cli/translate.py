"""`dragoman translate`: arguments, standard input, a file, or one sentence of a run's test set."""

import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.options import Adapter, Format, Model, Place, Quiet, Search, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError, DataError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.translating.options import SearchOptions
    from dragoman.translating.translation import Translation
    from dragoman.translating.translator import Translator

LINES_AT_A_TIME = 1000
CHARACTERS_AT_A_TIME = 1_000_000


@grouped
def translate(
    model: Model,
    place: Place,
    search: Search,
    text: Annotated[
        list[str] | None,
        typer.Argument(help="One text or several, each in quotes.", show_default="standard input, a text a line"),
    ] = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="Translate every line of this file.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the translations to this file, whole or not at all.")
    ] = None,
    item: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence of the run's test set, from 1: shows source, target, prediction."),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Translations of each text; with text output: line, rank, score, text.")
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Say which word renders which; with text output: text, tab, 0-0 1-2 ….")
    ] = False,
    adapter: Adapter = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Translate text: one line in, one line out."""
    from dragoman.config import choose

    screen = open_screen(quiet)
    check_sources(text, input_file, item)
    if output is not None:
        check_output(output)
    pair = None if item is None else test_pair(model, item)
    translator = place.load(model, screen.progress, adapter)
    asked = {"n_best": n_best, "align": align or None}
    options = choose(dragoman.SearchOptions, "decode", search.overrides, translator.options, **asked)
    screen.note(f"{' → '.join(translator.languages)}, {translator.device}, {translator.precision}")
    work = Work(screen, translator, options, output_format == "json")
    if pair is not None:
        work.compare(*pair)
    elif output is None and text and len(text) == 1:
        work.say(text[0])
    elif output is None and not text and input_file is None and sys.stdin.isatty():
        work.converse()
    else:
        work.translate_all(text or (read(input_file) if input_file else standard_input()), output)


def check_sources(texts: Sequence[str] | None, input_file: Path | None, item: int | None) -> None:
    """Refuses, before a model is loaded, input that cannot be translated."""
    given = {"TEXT": texts or None, "--input": input_file, "--item": item}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} were given; translate takes one of TEXT, --input and --item")
    for text in texts or ():
        check_text(text)
    if input_file is not None:
        read(input_file)


def check_text(text: str) -> None:
    """Refuses a TEXT that is not Unicode, or that is the path of a file."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("TEXT is not valid UTF-8; give it in UTF-8, or as a file with --input")
    if os.path.isfile(text) and (Path(text).suffix or Path(text).name != text):
        raise ConfigError(
            f"TEXT {text} is the name of a file; give --input {text} for the lines in it, "
            "or pipe the name itself through standard input"
        )


class Work:
    """One translator that works for the command line."""

    def __init__(
        self,
        screen: Screen,
        translator: "Translator",
        options: "SearchOptions",
        as_json: bool = False,
        known_words: frozenset[str] | None = None,
    ) -> None:
        """Words that are not among the `known_words`, in lower case, are named as unknown; without `known_words`, those
        that the vocabulary does not hold.
        """
        self._screen = screen
        self._translator = translator
        self._options = options
        self._as_json = as_json
        self._known_words = known_words
        self._flags: Counter[str] = Counter()

    def say(self, text: str) -> None:
        """Translates one text; on a terminal the words appear as they are found."""
        if self._as_json or self._options.align or self._options.n_best > 1 or not sys.stdout.isatty():
            (found,) = self._translator.translate([text], self._options)
            console.write("\n".join(self._lines(1, found)))
        else:
            found = self._stream(text)
        self._explain(found)

    def converse(self) -> None:
        """Translates lines as they are typed, until the end of input."""
        self._screen.note("type a text and press Enter; Ctrl-D ends")
        for text in standard_input():
            self.say(text)

    def translate_all(self, texts: Iterable[str], output: Path | None) -> None:
        """Translates every line, many at a time. An output file appears when it is complete."""
        number = 0
        with self._screen.progress.track("translate", unit="lines") as advance, writer(output) as write:
            for batch in batches(texts):
                lines: list[str] = []
                for found in self._translator.translate(batch, self._options):
                    number += 1
                    self._flags.update(found.flags)
                    lines += self._lines(number, found)
                write("".join(f"{line}\n" for line in lines))
                advance(len(batch))
        for flag, meaning in meanings(self._flags).items():
            of_all = f"{self._flags[flag]:,} of {number:,} {'line' if number == 1 else 'lines'}"
            self._screen.note(f"{of_all} flagged {flag}: {meaning}")

    def compare(self, source: str, target: str) -> None:
        """Shows one sentence of a test set beside the model's translation."""
        (found,) = self._translator.translate([source], self._options)
        if self._as_json:
            console.write(json.dumps({"target": target, **dataclasses.asdict(found)}, ensure_ascii=False))
        else:
            console.write(f"source:     {source}\ntarget:     {target}\nprediction: {found.text}")
            if self._options.align:
                console.write(f"alignment:  {pharaoh(found)}")

    def _stream(self, text: str) -> "Translation":
        words = self._translator.stream(text, self._options)
        while True:
            try:
                console.write(next(words), end="")
                console.flush()
            except StopIteration as end:
                console.write()
                return end.value

    def _lines(self, number: int, found: "Translation") -> list[str]:
        if self._as_json:
            return [json.dumps(dataclasses.asdict(found), ensure_ascii=False)]
        ranked = enumerate((found, *found.alternatives), 1)
        columns = [
            [
                *([str(number), str(rank), f"{each.score:.4f}"] if self._options.n_best > 1 else []),
                each.text,
                *([pharaoh(each)] if self._options.align else []),
            ]
            for rank, each in ranked
        ]
        return ["\t".join(row) for row in columns]

    def _explain(self, found: "Translation") -> None:
        if unknown := self._unknown(found):
            self._screen.note(f"words that the model does not know: {', '.join(unknown)}")
        for flag, meaning in meanings(found.flags).items():
            self._screen.note(f"flagged {flag}: {meaning}")

    def _unknown(self, found: "Translation") -> Sequence[str]:
        if self._known_words is None:
            return found.unknown_words
        from dragoman.text.phrasebook import words

        return [word for word in words(found.source) if word not in self._known_words]


def test_pair(run: Path, item: int) -> tuple[str, str]:
    """One sentence of a run's test set, counted from 1."""
    from dragoman.evaluating.references import own_test_pairs

    pairs = own_test_pairs(run)
    if item > len(pairs):
        raise ConfigError(f"--item must be from 1 to {len(pairs):,}, the size of the test set, but is {item:,}")
    return pairs[item - 1]


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups the texts that are translated together, so that memory holds one batch, however many there are."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == LINES_AT_A_TIME or characters >= CHARACTERS_AT_A_TIME:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def pharaoh(found: "Translation") -> str:
    """An alignment as Pharaoh and most tools since write it: `0-0 1-2`, source word and target word."""
    return " ".join(f"{source}-{target}" for source, target in found.alignment)


@contextmanager
def writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a new file, which appears when it is complete, or at once to standard output.

    A signal to stop leaves no part of the file.
    """
    from dragoman.files import new_file
    from dragoman.runs.signals import interrupted_by_signals

    def say(text: str) -> None:
        console.write(text, end="")
        console.flush()

    if output is None:
        yield say
        return
    with interrupted_by_signals(f"{output} was not written"), new_file(output) as file:
        yield lambda text: file.write(text.encode())


def meanings(flags: Iterable[str]) -> dict[str, str]:
    """What these flags mean, in their usual order."""
    from dragoman.translating.translation import MEANINGS

    given = set(flags)
    return {flag: meaning for flag, meaning in MEANINGS.items() if flag in given}


def read(path: Path) -> Iterator[str]:
    """The lines of a file. It is opened at once, so that a missing one is refused now; an empty file has no lines."""
    from dragoman.text.reading.lines import open_bytes, read_lines

    if path.is_file() and path.stat().st_size == 0:
        return iter(())
    open_bytes(path).close()
    return read_lines(path)


def standard_input() -> Iterator[str]:
    """The lines of standard input, by the same rules as those of a file."""
    from dragoman.text.reading.lines import lines_of

    return lines_of(sys.stdin.buffer, "standard input")
