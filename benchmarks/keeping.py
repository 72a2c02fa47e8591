"""What does a model keep that must come out as it went in, and how well does it read what it seldom saw?

    python benchmarks/keeping.py MODEL … --test SOURCES REFERENCES [--strings FILE] [--ctranslate2] [--out FILE]

*Names*: 400 test sentences about Tom as they are, and with one of forty names from ten languages in his place.
*Numbers*: a hundred in all their forms, each in a sentence. *Typo*: two neighbouring letters exchanged in each of 1,000
sentences. *Joined*: two, four or eight sentences in one line, translated whole, beside the same ones translated one by
one. *Planted*: 2,000 test sentences with one or two placeholders, tags, addresses and the like. *Strings*: those that
`catalogues.py strings` writes. Sentences are drawn by lot from the distinct ones of the test, each with its first
reference; only *clean* has all lines.

A name is kept if it stands in the translation as a word; a number, if its digits do, with the separators of either
language; spans, if those of the translation are those of the source, in any order or in the same. What was lost without
a flag on its line is counted (`split` says of none that something is wrong). `--raw` gives the model each text as it is
typed. With `--ctranslate2`, the same weights in CTranslate2 stand beside, which reads the text as it is.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from catalogues import SPANS, lot
from command_line import command_line, figures_file, markdown
from peers.runtimes import Contender, Way

import dragoman
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.store.folder import load_model
from dragoman.system import machine

NAMES = [
    *("Nakamura", "Haruto", "Ishikawa", "Ryūnosuke"),  # Japanese
    *("Ayşe", "Çağlar", "Gökhan", "Yıldız"),  # Turkish
    *("O'Hara", "Siobhán", "Niamh", "McGrath"),  # Irish
    *("Jean-Luc", "Benoît", "Françoise", "Lefèvre"),  # French
    *("Wojciech", "Łukasz", "Agnieszka", "Kowalczyk"),  # Polish
    *("Nguyễn", "Thuỳ", "Phạm", "Quang"),  # Vietnamese
    *("Chukwuemeka", "Olufemi", "Ngozi", "Adebayo"),  # Yoruba and Igbo
    *("Abdulrahman", "Zaynab", "Khalil", "al-Mansur"),  # Arabic
    *("Guðrún", "Þorsteinn", "Sigurður", "Hrafnhildur"),  # Icelandic
    *("Priyanka", "Rajesh", "Subramaniam", "Lakshmi"),  # Indian
]
NUMBERS = {
    ("We have {} chairs.", "It happened in {}."): ("17", "43", "250", "1987", "2024"),
    ("It costs {} euros.", "The table is {} meters long."): ("3.5", "0.75", "12.25", "1.8", "99.99"),
    ("The city has {} inhabitants.", "They sold {} books."): ("1,000", "12,500", "3,250,000", "47,318", "999,999"),
    ("The train leaves at {}.", "I got home about {}."): ("7:30", "10:05", "12:45", "18:20", "23:59"),
    ("He ate {} of the cake.", "I need {} of a cup of milk."): ("1/2", "3/4", "2/3", "5/8", "7/10"),
    ("Prices went up by {}.", "Only {} of them came."): ("5%", "12.5%", "5 %", "100%", "0.3%"),
    ("This bag costs {}.", "She paid {} for it."): ("€20", "$1,299", "£4.50", "$15", "20 €"),
    ("The meeting is on {}.", "She was born on {}."): (
        *("May 5, 2023", "12/05/2023", "2024-02-29", "3 March 1998", "October 31"),
    ),
    ("He finished {} in the race.", "Today is the {} day."): ("3rd", "21st", "42nd", "100th", "15th"),
    ("Call me at {}.", "My number is {}."): (
        *("555-0123", "+39 06 6982", "0171 2345678", "(212) 555-0199", "1-800-555-0100"),
    ),
}
"""Values, and the sentences that hold them."""
PLANTED = (
    *(
        "{name}",
        "{0}",
        "{user.name}",
        "%s",
        "%d",
        "%1$s",
        "%(count)d",
        "${total}",
        "{{ value }}",
        "%1",
        "&amp;",
        "&nbsp;",
    ),
    *('<x id="1"/>', "<br>", "https://example.org/a?b=1&c=2", "www.example.com", "info@example.org", "/etc/hosts"),
    *(r"C:\Users\anna\notes.txt", "`ls -l`", "#travel", "@maria_92"),
    *("<b>…</b>", '<a href="https://example.org/">…</a>', "**…**"),  # around the next word
)
FORMS_OF_SPANS = re.compile(
    "|".join(
        (
            r"\{\{[^{}]*\}\}",
            r"`[^`]+`",
            r"\*\*",
            r"www\.[\w.-]+\w",
            r"[A-Z]:\\[\w\\.]+\w|(?<![\w<])/\w+(?:/\w+)+",
            r"(?<!\w)[#@]\w+",
            # what ends a tag or address may hold what looks like another kind
            *(
                SPANS[kind]
                for kind in ("markup", "address", "entity", "named printf", "variable", "printf", "numbered")
            ),
            r"\{[\w.]*(?:[:!][^{}\s]*)?\}",
            SPANS["accelerator"],
        )
    )
)


class Line(NamedTuple):
    source: str
    reference: str


class Said(NamedTuple):
    source: str
    text: str
    flags: frozenset[str] = frozenset()


Translate = Callable[[Sequence[str], bool], list[Said]]
"""Translates texts, each whole or as the runtime divides it."""


def dragoman_reads(model: Path, raw: bool, beam: int) -> Translate:
    translator = dragoman.Translator.load(model, "cpu", progress=False)

    def translate(texts: Sequence[str], whole: bool) -> list[Said]:
        settings: dict[str, Any] = {"split": "never"} if whole else {}
        found = translator.translate(texts, progress=False, raw=raw, beam_size=beam, **settings)
        return [Said(one.source, one.text, frozenset(one.flags) - {"split"}) for one in found]

    return translate


def ctranslate2_reads(model: Path, folder: Path, beam: int) -> Translate:
    dragoman.export(model, "ctranslate2", folder)
    contender = Contender(Way("ctranslate2", "float32", folder, threads=2), model)

    def translate(texts: Sequence[str], whole: bool) -> list[Said]:
        found = contender.turn(texts, beam, alone=False).said
        return [Said(source, one.text) for source, one in zip(texts, found, strict=True)]

    return translate


class Kept(NamedTuple):
    kept: int
    of: int
    unflagged: int

    @classmethod
    def counted(cls, translations: Sequence[Said], kept: Sequence[bool]) -> "Kept":
        lost = [one for one, stays in zip(translations, kept, strict=True) if not stays]
        return cls(sum(kept), len(kept), sum(not one.flags for one in lost))

    @property
    def share(self) -> float:
        return 100 * self.kept / self.of


class Measured:
    """One model, by all measures: scores and counts by their names."""

    def __init__(self, name: str, translate: Translate, language: str) -> None:
        self.name, self.translate, self.language = name, translate, language
        self.scores: dict[str, dict[str, float]] = {}
        self.kept: dict[str, Kept] = {}
        self.lost: dict[str, list[dict[str, Any]]] = {}
        """Twenty lines of each count that lost something, those without a flag first."""

    def translated(self, texts: Sequence[str], whole: bool = False) -> list[Said]:
        return self.translate(texts, whole)

    def score(self, name: str, translations: Sequence[str], references: Iterable[str]) -> None:
        self.scores[name] = bleu_and_chrf(translations, [[one] for one in references], self.language)

    def keep(self, name: str, translations: Sequence[Said], kept: Sequence[bool]) -> None:
        self.kept[name] = Kept.counted(translations, kept)
        lost = [one for one, stays in zip(translations, kept, strict=True) if not stays]
        self.lost[name] = [
            {"source": one.source, "text": one.text, "flags": sorted(one.flags)}
            for one in sorted(lost, key=lambda one: len(one.flags))[:20]
        ]

    def clean(self, lines: Sequence[Line]) -> None:
        translations = self.translated([line.source for line in lines])
        self.score("clean", [one.text for one in translations], [line.reference for line in lines])

    def names(self, lines: Sequence[Line]) -> None:
        for label, names in (("Tom", ["Tom"]), ("other names", NAMES)):
            named = [names[number % len(names)] for number in range(len(lines))]
            sources = [renamed(line.source, name) for line, name in zip(lines, named, strict=True)]
            translations = self.translated(sources)
            references = [renamed(line.reference, name) for line, name in zip(lines, named, strict=True)]
            self.score(label, [one.text for one in translations], references)
            kept = [stands_in(one.text, name) for one, name in zip(translations, named, strict=True)]
            self.keep(label, translations, kept)

    def numbers(self) -> None:
        both = [(value, frame) for frames, values in NUMBERS.items() for frame in frames for value in values]
        translations = self.translated([frame.format(value) for value, frame in both])
        kept = [has_number(one.text, value) for one, (value, _) in zip(translations, both, strict=True)]
        self.keep("numbers", translations, kept)

    def typo(self, lines: Sequence[Line]) -> None:
        for label, sources in (
            ("before the typo", [line.source for line in lines]),
            ("one typo", [exchanged(line.source) for line in lines]),
        ):
            translations = [one.text for one in self.translated(sources)]
            self.score(label, translations, [line.reference for line in lines])

    def joined(self, lines: Sequence[Line]) -> None:
        single = [one.text for one in self.translated([line.source for line in lines])]
        for size in (2, 4, 8):
            starts = range(0, len(lines) - size + 1, size)
            sources = [" ".join(line.source for line in lines[start : start + size]) for start in starts]
            references = [" ".join(line.reference for line in lines[start : start + size]) for start in starts]
            whole = [one.text for one in self.translated(sources, whole=True)]
            self.score(f"joined, {size}", whole, references)
            self.score(f"one by one, {size}", [" ".join(single[start : start + size]) for start in starts], references)

    def spans(self, name: str, sources: Sequence[str]) -> None:
        translations = self.translated(sources)
        found = [(spans_of(source), spans_of(one.text)) for source, one in zip(sources, translations, strict=True)]
        self.keep(f"{name}, any order", translations, [sorted(before) == sorted(after) for before, after in found])
        self.keep(f"{name}, in order", translations, [before == after for before, after in found])


def distinct(sources: Path, references: Path) -> list[Line]:
    """The distinct sources with their first references, by lot."""
    files = (path.read_text(encoding="utf-8").splitlines() for path in (sources, references))
    first: dict[str, str] = {}
    for source, reference in zip(*files, strict=True):
        first.setdefault(source, reference)
    return [Line(source, first[source]) for source in sorted(first, key=lot)]


def renamed(text: str, name: str) -> str:
    return re.sub(r"\bTom\b", name, text)


def stands_in(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def has_number(text: str, value: str) -> bool:
    """Whether all digits of a value stand in a text, with its own separators or the other's.

    >>> has_number("Costa 3,5 euro.", "3.5"), has_number("Ne ho 1 000.", "1,000"), has_number("Costa 13,5.", "3.5")
    (True, True, False)
    """
    for part in re.findall(r"\d+(?:[.,:/-]\d+)*", value):
        is_grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+", part)
        digits = re.sub("[.,]", r"[.,\\s’']?" if is_grouped else "[.,]", part)
        if not re.search(rf"(?<!\d)(?<!\d[.,]){digits}(?![.,]?\d)", text):
            return False
    return True


def exchanged(text: str) -> str:
    """The text with two neighbouring letters of one word exchanged, behind its first; unchanged if it has no such word.

    >>> exchanged("Tom is guilty."), exchanged("I do.")
    ('Tom is giulty.', 'I do.')
    """
    places = [match.start() for match in re.finditer(r"(?<=[^\W\d_])([^\W\d_])(?!\1)[^\W\d_]", text)]
    if not places:
        return text
    place = places[int(lot(text), 16) % len(places)]
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def planted(lines: Sequence[Line], count: int = 2_000) -> list[str]:
    """Test sentences with a span before a word of theirs, or around it; every third with two. The kinds take turns."""
    found: list[str] = []
    for number in range(count):
        words = lines[number % len(lines)].source.split(" ")
        places = sorted(range(1, len(words)), key=lambda place, number=number: lot(f"{number} {place}")) or [0]
        for turn, place in enumerate(places[: 1 + (number % 3 == 0)]):
            span = PLANTED[(number + 7 * turn) % len(PLANTED)]
            if "…" in span:
                words[place] = re.sub(
                    r"\w(?:[\w'-]*\w)?", lambda word, span=span: span.replace("…", word[0]), words[place], count=1
                )
            else:
                words[place] = f"{span} {words[place]}"
        found.append(" ".join(words))
    return found


def spans_of(text: str) -> list[str]:
    """The spans of a text, of an accelerator the mark alone, because its letter is translated."""
    return [span[0] if re.match(SPANS["accelerator"], span) else span for span in FORMS_OF_SPANS.findall(text)]


def rows(measured: Sequence[Measured]) -> list[list[str]]:
    """One of each measure, with a cell for each model."""
    first = measured[0]
    found = [
        [
            f"{name}: chrF (BLEU)",
            *(f"{one.scores[name]['chrf']:.1f} ({one.scores[name]['bleu']:.1f})" for one in measured),
        ]
        for name in first.scores
    ]
    for name in first.kept:
        cells = [one.kept[name] for one in measured]
        found.append([f"{name}: kept", *(f"{one.share:.1f} % ({one.unflagged} lost without a flag)" for one in cells)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--strings", type=Path)
    parser.add_argument("--raw", action="store_true", help="the model reads each text as it is typed")
    parser.add_argument("--ctranslate2", action="store_true", help="the same weights in CTranslate2 beside each model")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    lines = distinct(*options.test)
    toms = [line for line in lines if all(len(re.findall(r"\bTom\b", text)) == 1 for text in line)][:400]
    whole = [Line(*pair) for pair in zip(*(path.read_text("utf-8").splitlines() for path in options.test), strict=True)]
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as exported:
        for model in options.models:
            language = load_model(model).languages.target
            measured.append(Measured(model.name, dragoman_reads(model, options.raw, options.beam), language))
            if options.ctranslate2:
                translate = ctranslate2_reads(model, Path(exported) / str(len(measured)), options.beam)
                measured.append(Measured(f"{model.name} in CTranslate2", translate, language))
    for one in measured:
        one.clean(whole)
        if toms:
            one.names(toms)
        one.typo(lines[:1000])
        one.joined(lines[:1000])
        one.numbers()
        one.spans("planted", planted(lines))
        if options.strings:
            one.spans("strings", options.strings.read_text(encoding="utf-8").splitlines())
    print(markdown(["measure", *(one.name for one in measured)], rows(measured)))
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "beam": options.beam, "raw": options.raw}
        figures = {
            one.name: {
                "scores": one.scores,
                "kept": {name: {**kept._asdict(), "share": kept.share} for name, kept in one.kept.items()},
                "lost": one.lost,
            }
            for one in measured
        }
        options.out.write_text(json.dumps({**facts, "models": figures}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
