"""A translator at work for the command line: what it reads, shows, writes and counts."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cli.console import as_json as json_of
from dragoman.cli.console import note, write, write_pieces, write_text
from dragoman.cli.streams import read, writer
from dragoman.progress import Progress, silent

if TYPE_CHECKING:
    from dragoman.formats.document import Document
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translation import Flag, Translation
    from dragoman.inference.translator import Translator

PLACES = 10
"""Lines that are named for each flag."""
TRANSLATED, FLAGGED = "translated", "flagged"
"""Names under which `Flags` counts the texts that the model translated, and those with a flag that is not harmless."""
RANKED = "columns: line, rank, score, text; the nearer a score is to 0, the likelier the model finds the translation"


@dataclass(frozen=True)
class Work:
    """A translator at work for the command line."""

    progress: Progress
    translator: "Translator"
    options: "SearchOptions"
    as_json: bool = False
    known_words: frozenset[str] | None = None
    """In lower case. Other words are named as unknown; if None, those that the vocabulary does not hold."""

    def say(self, texts: Iterable[str]) -> "Flags":
        """Translates texts one by one, as they come."""
        flags = Flags(Counter(), {})
        for number, text in enumerate(texts, 1):
            flags.add(number, self._say(number, text))
        return flags

    def _say(self, number: int, text: str) -> "Translation":
        """Translates one text; on a terminal the words appear as they are found."""
        from dragoman.inference.translation import HARMLESS

        if self.as_json or self.options.align or self.options.n_best > 1 or not sys.stdout.isatty():
            (translation,) = self.translator.translate([text], self.options, silent)
            write_text("\n".join(printed(number, translation, self.options, self.as_json)))
        else:
            translation = write_pieces(self.translator.stream(text, self.options))
        if unknown := self._unknown_words(translation):
            note(f"words that the model does not know: {', '.join(unknown)}", is_warning=True)
        for rank, each in enumerate((translation, *translation.alternatives), 1):
            which = f"translation {rank} is " if translation.alternatives else ""
            for flag, meaning in meanings(set(each.flags) - {"unknown"}).items():  # those words are named above
                note(f"{which}flagged {flag}: {meaning}", flag not in HARMLESS)
        if translation.alternatives and not self.as_json:
            note(RANKED)
        return translation

    def _unknown_words(self, translation: "Translation") -> Sequence[str]:
        if self.known_words is None:
            return translation.unknown_words
        from dragoman.text.phrasebook import words

        return [word for word in words(translation.source) if word not in self.known_words]

    def compare(self, source: str, target: str) -> "Flags":
        """Shows one sentence of a test set beside the model's translation."""
        (translation,) = self.translator.translate([source], self.options, silent)
        flags = Flags(Counter(), {})
        flags.add(1, translation)
        flags.note(1)
        if self.as_json:
            write(json_of({"target": target, **asdict(translation)}))
            return flags
        write_text(f"source:     {source}\ntarget:     {target}\nprediction: {translation.text}")
        if self.options.align:
            write(f"alignment:  {pharaoh(translation)}")
        return flags

    def translate_all(self, texts: Iterable[str], output: Path | None, total: int | None = None) -> "Flags":
        """Translates every line, many at a time, but at once what has arrived if nothing more is waiting. An output
        file appears when it is complete.
        """
        with writer(output) as write_lines:
            return self._translate(texts, lambda _, lines: write_lines(lines), Flags(Counter(), {}), total)

    def complete(
        self,
        source: Path,
        document: "Document | None",
        output: Path,
        asked: dict[str, Any],
        fresh: bool,
        total: int | None,
    ) -> "Flags":
        """The same for the lines of a file, or the texts of the document that it is, into a file that a later command
        can complete.
        """
        from dragoman.inference.resumable import resumable_file
        from dragoman.runs.signals import interrupted_by_signals

        if document is None:
            texts, convert, place = read(source), None, None
        else:
            texts, convert, place, total = document.texts, document.translated, document.place, len(document.texts)
        with resumable_file(output, asked, fresh, convert) as file, interrupted_by_signals(lambda: file.state):
            rest, flags = file.rest(texts, str(source)), Flags(file.counts, file.places, place)
            self._translate(rest, file.add, flags, total, file.record.lines)
        if document is not None:
            flags.note_document(document)
        return flags

    def _translate(
        self,
        texts: Iterable[str],
        keep: Callable[[Sequence[str], str], object],
        flags: "Flags",
        total: int | None,
        done: int = 0,
    ) -> "Flags":
        """Translates the texts after those that are done. Each chunk and its translations are handed to `keep`; flags
        are counted, and noted at the end.
        """
        from dragoman.inference.documents import chunks

        with self.progress.track("translate", total, f"{flags.unit}s") as advance:
            if done:
                advance(done)
            for chunk in chunks(texts, len):
                lines: list[str] = []
                for translation in self.translator.translate(chunk, self.options, silent):
                    done += 1
                    flags.add(done, translation)
                    lines += printed(done, translation, self.options, self.as_json)
                keep(chunk, "".join(f"{line}\n" for line in lines))
                advance(len(chunk))
        flags.note(done)
        if self.options.n_best > 1 and not self.as_json:
            note(RANKED)
        return flags


def printed(number: int, translation: "Translation", options: "SearchOptions", as_json: bool) -> list[str]:
    """What is printed for a text."""
    if as_json:
        return [json_of({"line": number, **asdict(translation)})]
    lines: list[str] = []
    for rank, each in enumerate((translation, *translation.alternatives), 1):
        ranked = [str(number), str(rank), f"{each.score:.4f}"] if options.n_best > 1 else []
        aligned = [pharaoh(each)] if options.align else []
        text = each.text.replace("\t", " ") if ranked or aligned else each.text
        lines.append("\t".join([*ranked, text, *aligned]))
    return lines


class Flags(NamedTuple):
    """The flags of many texts."""

    counts: Counter[str]
    """How many texts have each."""
    places: dict[str, list[int]]
    """The first texts that have it, from 1."""
    place: Callable[[int], str] | None = None
    """The position in a document of a text, from 0; None if texts are lines."""

    @property
    def unit(self) -> str:
        """The name of a text."""
        return "line" if self.place is None else "text"

    def add(self, number: int, translation: "Translation") -> None:
        from dragoman.inference.translation import HARMLESS

        flags: set[str] = {flag for each in (translation, *translation.alternatives) for flag in each.flags}
        if flags - HARMLESS:
            flags.add(FLAGGED)
        if translation.tokens:
            self.counts[TRANSLATED] += 1
        self.counts.update(flags)
        for flag in flags:
            if len(places := self.places.setdefault(flag, [])) < PLACES:
                places.append(number)

    def note_document(self, document: "Document") -> None:
        """Report which texts of a document were left, and sum up what became of all."""
        self.counts["left"] = len(document.left)
        for remark in document.remarks:
            note(remark, is_warning=True)
        texts, translated = len(document.texts) + len(document.left), min(self.counts[TRANSLATED], len(document.texts))
        note(
            f"{texts:,} {'text' if texts == 1 else 'texts'}: {translated:,} translated, {texts - translated:,} left, "
            f"{self.counts[FLAGGED]:,} flagged{self.where(FLAGGED)}"
        )

    def note(self, texts: int) -> None:
        """Says which flags so many texts have."""
        from dragoman.inference.translation import HARMLESS

        for flag, meaning in meanings(+self.counts).items():
            found = f"{self.counts[flag]:,} of {texts:,} {self.unit if texts == 1 else f'{self.unit}s'}"
            note(f"{found} flagged {flag}{self.where(flag)}: {meaning}", flag not in HARMLESS)

    def where(self, flag: str) -> str:
        """The texts that have a flag, in words."""
        numbers, more = self.places.get(flag, ()), ", …" if self.counts[flag] > PLACES else ""
        if not numbers:
            return ""
        if self.place is None:
            return f" (line {', '.join(map(str, numbers))}{more})"
        return f" ({', '.join(dict.fromkeys(self.place(number - 1) for number in numbers))}{more})"


def pharaoh(translation: "Translation") -> str:
    """An alignment as Pharaoh and most tools since write it: `0-0 1-2`, source word and target word."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment)


def meanings(flags: Iterable[str]) -> "dict[Flag, str]":
    """What these flags mean, in their usual order."""
    from dragoman.inference.translation import MEANINGS

    return {flag: meaning for flag, meaning in MEANINGS.items() if flag in flags}
