"""`dragoman translate`: arguments, standard input, a file, or one sentence of a run's test set."""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dragoman
from dragoman.cli.terminal import console
from dragoman.cli.terminal.lines import check_text, read, standard_input, writer
from dragoman.cli.terminal.options import Adapter, Ensemble, Format, Model, Place, Quiet, Search, grouped
from dragoman.cli.terminal.screen import Screen, open_screen
from dragoman.errors import ConfigError
from dragoman.files import check_output

if TYPE_CHECKING:
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translation import Translation
    from dragoman.inference.translator import Translator


@dataclasses.dataclass(frozen=True)
class Job:
    """What is translated, and where it goes: one of TEXT, `--input` and `--item`, or else standard input."""

    text: Annotated[
        list[str] | None,
        typer.Argument(help="One text or several, each in quotes.", show_default="standard input, a text a line"),
    ] = None
    input_file: Annotated[Path | None, typer.Option("--input", help="Translate every line of this file.")] = None
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write the translations to this file; with --input, a killed command goes on when run again."
        ),
    ] = None
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Throw away what a killed command left beside --output, and start again.")
    ] = False
    item: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence of the run's test set, from 1: shows source, target, prediction."),
    ] = None

    def check(self) -> None:
        """Refuses, before a model is loaded, what cannot be translated or written."""
        given = {"TEXT": self.text or None, "--input": self.input_file, "--item": self.item}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ConfigError(f"{' and '.join(names)} were given; translate takes one of TEXT, --input and --item")
        for text in self.text or ():
            check_text(text)
        if self.input_file is not None:
            read(self.input_file)
        if self.fresh and (self.input_file is None or self.output is None):
            raise ConfigError("--fresh starts a file again, so it needs --input and --output")
        if self.item is not None and self.output is not None:
            raise ConfigError(
                "--item shows one sentence beside its target; --output takes TEXT, --input or standard input"
            )
        if self.output is not None:
            check_output(self.output, self.input_file)
            if self.goes_on:
                from dragoman.inference.resumable import check_working_files

                check_working_files(self.output, self.input_file)

    @property
    def goes_on(self) -> bool:
        """Whether a killed command goes on when run again; a pipe or a device takes lines once."""
        if self.input_file is None or self.output is None:
            return False
        return self.output.is_file() or not self.output.exists()

    def lines(self) -> int | None:
        """The lines of `--input`, every one of which is read, so that a damaged file is refused."""
        return None if self.input_file is None else sum(1 for _ in read(self.input_file))


@grouped
def translate(
    model: Model,
    place: Place,
    search: Search,
    job: Job,
    n_best: Annotated[
        int | None, typer.Option(help="Translations of each text; with text output: line, rank, score, text.")
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Say which word renders which; with text output: text, tab, 0-0 1-2 ….")
    ] = False,
    adapter: Adapter = None,
    ensemble: Ensemble = None,
    output_format: Format = "text",
    quiet: Quiet = False,
) -> None:
    """Translate text: one line in, one line out."""
    from dragoman.config import choose

    screen = open_screen(quiet)
    job.check()
    total = job.lines()
    pair = None if job.item is None else test_pair(model, job.item)
    translator = place.load(model, screen.progress, adapter, ensemble or ())
    asked = {"n_best": n_best, "align": align or None}
    options = choose(dragoman.SearchOptions, "decode", search.overrides, translator.options, **asked)
    screen.note(f"{' → '.join(translator.languages)}, {', '.join(place_of(translator, options))}")
    work = Work(screen, translator, options, output_format == "json")
    text, output = job.text, job.output
    if pair is not None:
        work.compare(*pair)
    elif output is None and text and len(text) == 1:
        work.say(text[0])
    elif output is None and not text and job.input_file is None and sys.stdin.isatty():
        work.converse()
    elif job.input_file is None:
        work.translate_all(text or standard_input(), output)
    elif output is None or not job.goes_on:
        work.translate_all(read(job.input_file), output, total)
    else:
        identity = facts([model, *(ensemble or ())], adapter, translator, options, output_format)
        work.translate_file(job.input_file, output, identity, job.fresh, total)


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

    def translate_all(self, texts: Iterable[str], output: Path | None, total: int | None = None) -> None:
        """Translates every line, many at a time, but at once what has arrived if nothing more is waiting. An output
        file appears when it is complete.
        """
        number = 0
        with self._screen.progress.track("translate", total, "lines") as advance, writer(output) as write:
            for chunk, lines in self._translated(texts, number, self._flags):
                write(lines)
                advance(len(chunk))
                number += len(chunk)
        self._tell_flags(number)

    def translate_file(
        self, source: Path, output: Path, asked: Mapping[str, Any], fresh: bool, total: int | None
    ) -> None:
        """The same for the lines of a file, in a file that goes on where a killed process left it."""
        from dragoman.inference.resumable import resumable_file
        from dragoman.runs.signals import interrupted_by_signals

        with (
            self._screen.progress.track("translate", total, "lines") as advance,
            resumable_file(output, asked, fresh) as file,
            interrupted_by_signals(lambda: file.state),
        ):
            rest = file.rest(read(source), str(source))
            advance(file.record.lines)
            for chunk, lines in self._translated(rest, file.record.lines, file.counts):
                file.add(chunk, lines)
                advance(len(chunk))
        self._flags = file.counts
        self._tell_flags(file.record.lines)

    def _translated(
        self, texts: Iterable[str], number: int, flags: Counter[str]
    ) -> Iterator[tuple[Sequence[str], str]]:
        """Chunks of the texts that follow so many others, and what is printed for each. The flags are counted."""
        from dragoman.inference.segments import chunks

        for chunk in chunks(texts, len):
            lines: list[str] = []
            for found in self._translator.translate(chunk, self._options):
                number += 1
                flags.update(found.flags)
                lines += self._lines(number, found)
            yield chunk, "".join(f"{line}\n" for line in lines)

    def _tell_flags(self, lines: int) -> None:
        """Says once what was flagged in so many lines."""
        for flag, meaning in meanings(self._flags).items():
            of_all = f"{self._flags[flag]:,} of {lines:,} {'line' if lines == 1 else 'lines'}"
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


def facts(
    models: Sequence[Path], adapter: Path | None, translator: "Translator", options: "SearchOptions", output_format: str
) -> dict[str, Any]:
    """All that decides what is printed for a line; its company, `batch_tokens`, does not."""
    from dragoman.files import sha256
    from dragoman.store.description import find_model
    from dragoman.store.manifest import MANIFEST

    return {
        "dragoman": dragoman.__version__,
        "model": [sha256(find_model(model) / MANIFEST) for model in models],
        "adapter": None if adapter is None else sha256(find_model(adapter) / MANIFEST),
        "device": translator.device,
        "precision": translator.precision,
        "decode": options.model_dump(mode="json", exclude={"batch_tokens"}),
        "format": output_format,
    }


def place_of(translator: "Translator", options: "SearchOptions") -> tuple[str, str, str]:
    """Where, in which numbers, and by how many workers texts are translated."""
    most = translator.workers(options)
    return translator.device, translator.precision, "1 worker" if most == 1 else f"up to {most} workers"


def test_pair(run: Path, item: int) -> tuple[str, str]:
    """One sentence of a run's test set, counted from 1."""
    from dragoman.evaluating.references import own_test_pairs

    pairs = own_test_pairs(run)
    if item > len(pairs):
        raise ConfigError(f"--item must be from 1 to {len(pairs):,}, the size of the test set, but is {item:,}")
    return pairs[item - 1]


def pharaoh(found: "Translation") -> str:
    """An alignment as Pharaoh and most tools since write it: `0-0 1-2`, source word and target word."""
    return " ".join(f"{source}-{target}" for source, target in found.alignment)


def meanings(flags: Iterable[str]) -> dict[str, str]:
    """What these flags mean, in their usual order."""
    from dragoman.inference.translation import MEANINGS

    given = set(flags)
    return {flag: meaning for flag, meaning in MEANINGS.items() if flag in given}
