"""Precision and recall of the checks of `dragoman report`, on planted errors.

    python benchmarks/planted.py --text en it SOURCES TRANSLATIONS … [--model MODEL SOURCES REFERENCES] [--out FILE]

Of each text, up to 1,000 pairs of human translations are clean. Each kind of error is planted in all of them that can
have it: part of the source is *copied*, the second half of the translation is *omitted*, two or three words are
*repeated*, the whole text is in the *language* of the source, or a number, a name, a placeholder or a term is lost or
changed. Numbers and placeholders are appended to both sides, because few pairs have some; terms are words with one
usual translation. Clean pairs that are reported are false alarms, although some of them are true errors. *Invented*
text is planted in translations by a model that are similar to their reference (chrF of at least 70): two to four words
of another translation. The model then gives their probabilities.

The precision is that in a text in which one translation of ten has the error.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from catalogues import lot
from command_line import markdown, new_parser, read_sides, write_figures
from flags import forced, similarity
from keeping import NAMES, distinct

from dragoman import Translator
from dragoman.evaluating.error_kinds import KINDS, Judge
from dragoman.inference.translation import Translation
from dragoman.surface.protected import localised

PAIRS, LIKE_REFERENCE, SHARE = 1_000, 70, 0.1
NUMBERS = ("17", "43", "250", "1987", "3.5", "12.75", "1,250", "3,250,000", "7:30", "18:20")
CODES = (
    "{name}",
    "%s",
    "https://example.org/a?b=1",
    "info@example.org",
    "--help",
    "$HOME/bin",
    "{{ user.name }}",
    "%1$d",
)
LEAST_TERM, SHARE_OF_FORM, TERMS = 5, 0.9, 40


class Text(NamedTuple):
    """Clean pairs of a text, and what is needed to plant errors in them."""

    languages: tuple[str, str]
    pairs: list[Translation]
    terms: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, source: str, target: str, *files: str) -> "Text":
        sides = (pair for pair in read_sides([*map(Path, files)]) if all(side.strip() for side in pair))
        pairs = [Translation(pair[0], pair[1]) for pair in sorted(dict.fromkeys(sides), key=lambda pair: lot(pair[0]))]
        return cls((source, target), pairs, tuple(usual_translations(pairs)))


def usual_translations(pairs: Sequence[Translation]) -> Iterator[tuple[str, str]]:
    """Yield words of the sources with the word that nearly all of their translations have, as a list of terms."""
    together: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for line in pairs:
        words = [set(re.findall(r"[^\W\d_]{5,}", side.lower())) for side in (line.source, line.text)]
        for side, count in zip(words, counts, strict=True):
            count.update(side)
        for word in words[0]:
            together[word].update(words[1])
    for word, others in sorted(together.items(), key=lambda item: -counts[0][item[0]])[:2_000]:
        form, both = max(others.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if counts[0][word] >= LEAST_TERM and both >= SHARE_OF_FORM * max(counts[0][word], counts[1][form]):
            yield word, form


def draw(text: str, most: int) -> int:
    """Return a number below `most`, always the same for a text."""
    return int(lot(text), 16) % most


def plant_copied(line: Translation, _: Judge) -> str | None:
    """Replace a part of the translation, or all of it, by words of the source."""
    source, words = line.source.split(), line.text.split()
    if len(source) < 6 or len(words) < 6:
        return None
    if draw(line.source, 2):
        return line.source
    half = len(source) // 2
    return " ".join([*source[: max(4, half)], *words[max(4, len(words) // 2) :]])


def plant_omitted(line: Translation, _: Judge) -> str | None:
    """Cut the second half of a translation off, or all of it."""
    words = line.text.split()
    if len(words) < 6:
        return None
    return " ".join(words[: len(words) // 2]) if draw(line.source, 5) else ""


def plant_repeated(line: Translation, _: Judge) -> str | None:
    """Repeat the last word twice more, or two or three words once."""
    words = re.sub(r"\W+\Z", "", line.text).split()
    if len(words) < 4 or not all(word.isalpha() for word in words[-3:]):
        return None
    count = 1 + draw(line.source, 3)
    return " ".join([*words, *words[-count:] * (2 if count == 1 else 1)])


def plant_language(line: Translation, _: Judge) -> str | None:
    return line.source if len(line.source.split()) >= 6 and line.source.islower() is False else None


def plant_number(line: Translation, _: Judge) -> str | None:
    """Change the first digit of the number with which a text ends, or leave it out."""
    if line.source.rpartition(" ")[2] not in NUMBERS:
        return None
    text, number = line.text.rsplit(" ", 1)
    return f"{text} {int(number[0]) % 9 + 1}{number[1:]}" if draw(line.source, 2) else text


def plant_name(line: Translation, judge: Judge) -> str | None:
    """Leave out a name that both sides have, or write another one."""
    names = [line.source[span.begin : span.end] for span in judge.names.all(line.source)]
    shared = [name for name in names if re.search(rf"\b{re.escape(name)}\b", line.text)]
    if not shared:
        return None
    new = NAMES[draw(line.source, len(NAMES))] if draw(line.source, 2) else ""
    return re.sub(rf"\b{re.escape(shared[0])}\b", new, line.text)


def plant_placeholder(line: Translation, _: Judge) -> str | None:
    """Leave out the code with which a text ends, or change a letter of it."""
    code = line.source.rpartition(" ")[2]
    if code not in CODES:
        return None
    changed = re.sub(r"[a-z]", lambda letter: chr((ord(letter[0]) - 96) % 26 + 97), code, count=1)
    return line.text.removesuffix(code) + (changed if draw(line.source, 2) else "")


def plant_term(line: Translation, judge: Judge) -> str | None:
    """Leave out the form of a term."""
    spans = judge.terms.found(line.source)
    if not spans or judge.terms.missing(line.source, line.text):
        return None
    form = re.escape(judge.terms.forms[spans[0][1]][0])
    return re.sub(rf"\b{form}\b", "", line.text, flags=re.IGNORECASE)


SHARED = {"numbers": NUMBERS, "placeholders": CODES}
"""Texts that are appended to both sides, because few pairs have such."""
PLANTED: dict[str, Callable[[Translation, Judge], str | None]] = {
    "copied": plant_copied,
    "omitted": plant_omitted,
    "repeated": plant_repeated,
    "language": plant_language,
    "numbers": plant_number,
    "names": plant_name,
    "placeholders": plant_placeholder,
    "terms": plant_term,
}


class Counts(NamedTuple):
    """Planted errors and those that were reported; clean lines and false alarms among them."""

    planted: int
    reported: int
    clean: int
    false: int

    def figures(self) -> dict[str, float]:
        recall, false = self.reported / max(1, self.planted), self.false / max(1, self.clean)
        right = SHARE * recall
        precision = right / ((right + (1 - SHARE) * false) or 1)
        return {**self._asdict(), "recall": round(recall, 3), "precision": round(precision, 3)}


def judge_text(text: Text) -> dict[str, Counts]:
    """Count the errors of every kind that are planted in a text, and those that are reported."""
    counts = dict[str, Counts]()
    for kind, plant in PLANTED.items():
        clean = text.pairs
        if kind in SHARED:
            in_target = partial(localised, source=text.languages[0], target=text.languages[1])
            in_target = in_target if kind == "numbers" else str
            codes = [SHARED[kind][draw(line.source, len(SHARED[kind]))] for line in clean]
            clean = [
                Translation(f"{line.source} {code}", f"{line.text} {in_target(code)}")
                for line, code in zip(clean, codes, strict=True)
            ]
        judge = Judge(clean[:PAIRS], text.languages, terms=text.terms)
        if kind in judge.untested:
            continue
        false = sum(kind in judge.findings(line) for line in clean[:PAIRS])
        planted = ((line, plant(line, judge)) for line in clean)
        wrong = [replace(line, text=made) for line, made in planted if made is not None and made != line.text][:PAIRS]
        reported = sum(kind in judge.findings(line) for line in wrong)
        counts[kind] = Counts(len(wrong), reported, len(clean[:PAIRS]), false)
    return counts


def judge_model(model: str, files: Sequence[str]) -> Counts:
    """Count invented texts that are planted in the translations of a model, and those that are reported."""
    translator = Translator.load(model, "cpu", progress=False)
    translator = translator.with_options(align=True)
    pairs = distinct(read_sides([*map(Path, files)]))[: 2 * PAIRS]
    made = translator.translate([pair.source for pair in pairs], progress=False)
    good = [
        line
        for line, pair in zip(made, pairs, strict=True)
        if similarity(line.text, [pair.reference]) >= LIKE_REFERENCE
    ][:PAIRS]
    invented = list[tuple[str, str]]()
    for line, next_ in zip(good, [*good[1:], good[0]], strict=True):
        words, others = line.text.split(), next_.text.split()
        count, place = 2 + draw(line.source, 3), draw(line.text, max(1, len(words) - 1)) + 1
        begin = draw(next_.text, max(1, len(others) - count))
        invented.append((line.source, " ".join([*words[:place], *others[begin : begin + count], *words[place:]])))
    wrong = forced(translator, invented)
    judge = Judge(good, translator.languages)
    clean, planted = (sum("invented" in judge.findings(line) for line in lines) for lines in (good, wrong))
    return Counts(len(wrong), planted, len(good), clean)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--text", nargs=4, action="append", required=True, metavar=("FROM", "TO", "SOURCES", "TARGETS"))
    parser.add_argument("--model", nargs=3, action="append", default=[], metavar=("MODEL", "SOURCES", "REFERENCES"))
    options = parser.parse_args()
    counts = {Path(arguments[2]).stem: judge_text(Text.read(*arguments)) for arguments in options.text}
    for number, (model, *files) in enumerate(options.model):
        counts[f"{Path(files[0]).stem}, a model ({number + 1})"] = {"invented": judge_model(model, files)}
    total = {
        kind: Counts(*map(sum, zip(*(own[kind] for own in counts.values() if kind in own), strict=True)))
        for kind in KINDS
        if any(kind in own for own in counts.values())
    }
    columns = ["kind", "planted", "precision", "recall", "false alarms"]
    for name, own in {**counts, "together": total}.items():
        rows = [
            [
                kind,
                f"{count.planted:,}",
                f"{figures['precision']:.2f}",
                f"{figures['recall']:.2f}",
                f"{count.false} of {count.clean:,}",
            ]
            for kind, count in own.items()
            for figures in [count.figures()]
        ]
        print(f"{name}\n\n{markdown(columns, rows)}\n")
    write_figures(
        options.out,
        texts={name: {kind: count.figures() for kind, count in own.items()} for name, own in counts.items()},
        together={kind: count.figures() for kind, count in total.items()},
    )


if __name__ == "__main__":
    main()
