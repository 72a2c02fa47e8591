"""Share of names, numbers and code that a model keeps, and quality of sentences with rare words.

    python benchmarks/keeping.py MODEL … --test SOURCES REFERENCES [--strings FILE] [--ctranslate2] [--out FILE]

*Names*: 400 test sentences about Tom as they are, and with one of forty names from ten languages in his place.
*Numbers*: a hundred in all their forms, each in a sentence. *Typo*: two neighbouring letters exchanged in each of 1,000
sentences. *Joined*: two, four or eight sentences in one line, translated whole, compared with the same ones translated
one by one. *Planted*: 2,000 test sentences with one or two placeholders, tags, addresses and the like. *Strings*: those
that `catalogues.py strings` writes. Sentences are drawn at random from the distinct ones of the test, each with its
first reference; only *clean* has all lines.

A name is kept if the translation holds it as a word; a number, if it holds its digits, with the separators of either
language; spans, if those of the translation are those of the source, in any order or in the same. Losses without a flag
on their line are counted (`split` does not say that something is wrong). With `--ctranslate2`, the same weights in
CTranslate2 follow each model; it reads the text as it is.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from catalogues import SPANS, lot
from command_line import markdown, new_parser, read_sides, write_figures
from peers.runtimes import Contender, Way

import dragoman
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.store.folder import load_model

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
"""Values by the sentences that hold them."""
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
            # the end of a tag or address may look like another kind
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


class Output(NamedTuple):
    text: str
    flags: frozenset[str] = frozenset()


Translate = Callable[[Sequence[str], bool], list[Output]]
"""Translates texts, each whole or as the runtime divides it."""


def load_dragoman(model: Path, beam: int) -> Translate:
    """Return a function that translates with a model."""
    translator = dragoman.Translator.load(model, "cpu", progress=False)

    def translate(texts: Sequence[str], whole: bool) -> list[Output]:
        settings: dict[str, Any] = {"split": "never"} if whole else {}
        translations = translator.translate(texts, progress=False, beam_size=beam, **settings)
        return [Output(line.text, frozenset(line.flags) - {"split"}) for line in translations]

    return translate


def load_ctranslate2(model: Path, folder: Path, beam: int) -> Translate:
    """Return a function that translates with the same weights in CTranslate2."""
    dragoman.export(model, "ctranslate2", folder)
    contender = Contender(Way("ctranslate2", "float32", folder, threads=2), model)
    return lambda texts, _: [Output(output.text) for output in contender.turn(texts, beam).outputs]


class Kept(NamedTuple):
    kept: int
    of: int
    unflagged: int
    """Losses on a line without a flag."""

    def __str__(self) -> str:
        return f"{100 * self.kept / self.of:.1f} % ({self.unflagged} lost without a flag)"


class Measured:
    """One model with all its measures: scores and counts by their names."""

    def __init__(self, name: str, translate: Translate, language: str) -> None:
        self.name, self.translate, self.language = name, translate, language
        self.scores: dict[str, dict[str, float]] = {}
        self.kept: dict[str, Kept] = {}

    def score(self, name: str, texts: Sequence[str], references: Iterable[str]) -> None:
        """Score translations."""
        self.scores[name] = bleu_and_chrf(texts, [[reference] for reference in references], self.language)

    def count(self, name: str, outputs: Sequence[Output], kept: Sequence[bool]) -> None:
        """Count the translations that kept everything."""
        unflagged = sum(not output.flags and not is_kept for output, is_kept in zip(outputs, kept, strict=True))
        self.kept[name] = Kept(sum(kept), len(kept), unflagged)

    def translate_lines(self, name: str, lines: Sequence[Line]) -> list[Output]:
        """Translate lines as they are, and score them."""
        outputs = self.translate([line.source for line in lines], False)
        self.score(name, [output.text for output in outputs], [line.reference for line in lines])
        return outputs

    def names(self, lines: Sequence[Line]) -> None:
        """Measure sentences about Tom and about others."""
        for label, names in (("Tom", ["Tom"]), ("other names", NAMES)):
            own = [names[number % len(names)] for number in range(len(lines))]
            named = [Line(*(renamed(text, name) for text in line)) for line, name in zip(lines, own, strict=True)]
            outputs = self.translate_lines(label, named)
            self.count(label, outputs, [holds_word(line.text, name) for line, name in zip(outputs, own, strict=True)])

    def numbers(self) -> None:
        """Measure sentences with numbers."""
        both = [(value, frame) for frames, values in NUMBERS.items() for frame in frames for value in values]
        outputs = self.translate([frame.format(value) for value, frame in both], False)
        kept = [has_number(output.text, value) for output, (value, _) in zip(outputs, both, strict=True)]
        self.count("numbers", outputs, kept)

    def joined(self, lines: Sequence[Line], single: Sequence[Output]) -> None:
        """Measure several sentences in a line, compared with the same ones one by one."""
        for size in (2, 4, 8):
            starts = range(0, len(lines) - size + 1, size)
            sources = [" ".join(line.source for line in lines[start : start + size]) for start in starts]
            references = [" ".join(line.reference for line in lines[start : start + size]) for start in starts]
            apart = [" ".join(output.text for output in single[start : start + size]) for start in starts]
            self.score(f"joined, {size}", [output.text for output in self.translate(sources, True)], references)
            self.score(f"one by one, {size}", apart, references)

    def spans(self, name: str, sources: Sequence[str]) -> None:
        """Measure lines with code."""
        outputs = self.translate(sources, False)
        pairs = [(spans_of(source), spans_of(line.text)) for source, line in zip(sources, outputs, strict=True)]
        self.count(f"{name}, any order", outputs, [sorted(before) == sorted(after) for before, after in pairs])
        self.count(f"{name}, in order", outputs, [before == after for before, after in pairs])


def distinct(pairs: Iterable[tuple[str, ...]]) -> list[Line]:
    """Return the distinct sources with their first references, in random order."""
    first: dict[str, str] = {}
    for source, reference in pairs:
        first.setdefault(source, reference)
    return [Line(source, first[source]) for source in sorted(first, key=lot)]


def renamed(text: str, name: str) -> str:
    """Put a name in Tom's place."""
    return re.sub(r"\bTom\b", name, text)


def holds_word(text: str, name: str) -> bool:
    """Return True if a text holds a name as a word."""
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def has_number(text: str, value: str) -> bool:
    """Return True if a text holds all digits of a value, with the separators of either language.

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
    """Exchange two neighbouring letters of one word, after its first letter, if there is such a word.

    >>> exchanged("Tom is guilty."), exchanged("I do.")
    ('Tom is giulty.', 'I do.')
    """
    places = [match.start() for match in re.finditer(r"(?<=[^\W\d_])([^\W\d_])(?!\1)[^\W\d_]", text)]
    if not places:
        return text
    place = places[int(lot(text), 16) % len(places)]
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def planted(lines: Sequence[Line], count: int = 2_000) -> list[str]:
    """Return test sentences with a span before or around a word; every third has two. The kinds are interleaved."""
    texts: list[str] = []
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
        texts.append(" ".join(words))
    return texts


def spans_of(text: str) -> list[str]:
    """Return the spans of a text; of an accelerator, the mark alone, because its letter is translated."""
    return [span[0] if re.match(SPANS["accelerator"], span) else span for span in FORMS_OF_SPANS.findall(text)]


def rows(models: Sequence[Measured]) -> list[list[str]]:
    """Return a row for each measure, with a cell for each model."""
    scores = [
        [f"{name}: chrF (BLEU)", *("{chrf:.1f} ({bleu:.1f})".format(**model.scores[name]) for model in models)]
        for name in models[0].scores
    ]
    return scores + [[f"{name}: kept", *(str(model.kept[name]) for model in models)] for name in models[0].kept]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--strings", type=Path)
    parser.add_argument("--ctranslate2", action="store_true", help="measure the same weights in CTranslate2 too")
    parser.add_argument("--beam", type=int, default=1)
    options = parser.parse_args()
    whole = [Line(*pair) for pair in read_sides(options.test)]
    lines = distinct(whole)
    toms = [line for line in lines if all(len(re.findall(r"\bTom\b", text)) == 1 for text in line)][:400]
    models: list[Measured] = []
    with tempfile.TemporaryDirectory() as exported:
        for model in options.models:
            language = load_model(model).languages.target
            models.append(Measured(model.name, load_dragoman(model, options.beam), language))
            if options.ctranslate2:
                translate = load_ctranslate2(model, Path(exported) / str(len(models)), options.beam)
                models.append(Measured(f"{model.name} in CTranslate2", translate, language))
    for model in models:
        model.translate_lines("clean", whole)
        if toms:
            model.names(toms)
        single = model.translate_lines("before the typo", lines[:1000])
        model.translate_lines("one typo", [line._replace(source=exchanged(line.source)) for line in lines[:1000]])
        model.joined(lines[:1000], single)
        model.numbers()
        model.spans("planted", planted(lines))
        if options.strings:
            model.spans("strings", options.strings.read_text(encoding="utf-8").splitlines())
    print(markdown(["measure", *(model.name for model in models)], rows(models)))
    figures = {
        model.name: {"scores": model.scores, "kept": {name: kept._asdict() for name, kept in model.kept.items()}}
        for model in models
    }
    write_figures(options.out, beam=options.beam, models=figures)


if __name__ == "__main__":
    main()
