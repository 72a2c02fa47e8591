"""Share of terms that translations use, and quality of these translations.

    python benchmarks/terms.py MODEL --test SOURCES REFERENCES [--out FILE]

Words of the test are aligned as in training. A term is a word, or two adjacent words, of at least four letters each,
that often has the same translation. It is requested in a text whose reference holds it as often as the source holds the
term, in the form of this reference. *One* requests one random term in each text, *three* requests three; texts whose
plain translation lacks a term are *lacking*. They are translated one by one, because each has terms of its own.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from catalogues import lot
from command_line import markdown, new_parser, read_sides, write_figures

import dragoman
from dragoman.data.aligning import link
from dragoman.data.corpus import PackedIds
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.translation import Translation
from dragoman.surface.terms import Terms

LEAST_LETTERS, LEAST_TIMES, LEAST_SHARE = 4, 3, 0.2
MOST_FREQUENT = 60
"""Number of words of the sources that are too frequent for a term."""
TEXTS, LONGEST = 200, 200


class Line(NamedTuple):
    source: str
    reference: str
    terms: tuple[tuple[str, str], ...] = ()

    def lacking(self, text: str) -> list[str]:
        """Return the terms that a translation lacks."""
        return Terms(self.terms).missing(self.source, text)


def words_of(text: str) -> list[str]:
    """Split a text into words and marks, in lower case."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def to_rows(texts: Sequence[Sequence[str]]) -> tuple[PackedIds, int]:
    """Return words as numbers, and how many different words there are."""
    ids: dict[str, int] = {}
    numbered = [[ids.setdefault(word, len(ids)) for word in words] for words in texts]
    offsets = np.cumsum([0, *map(len, numbered)])
    return PackedIds(np.array([number for row in numbered for number in row], np.uint16), offsets), len(ids)


def learn_terms(pairs: Sequence[Line]) -> dict[str, set[str]]:
    """Return source words, alone or two adjacent ones, and their frequent translations."""
    sources, targets = [words_of(pair.source) for pair in pairs], [words_of(pair.reference) for pair in pairs]
    (source, source_words), (target, target_words) = to_rows(sources), to_rows(targets)
    links = link(source, target, (source_words, target_words))
    frequent = {word for word, _ in Counter(word for words in sources for word in words).most_common(MOST_FREQUENT)}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for words, written, first in zip(sources, targets, target.offsets.tolist(), strict=False):
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, linked in enumerate(links[first : first + len(written)].tolist()):
            places[linked - 1].append(place)
        for begin, size in ngrams(words):
            term = words[begin : begin + size]
            own = [places[place] for place in range(begin, begin + size)]
            at = sorted(place for linked in own for place in linked)
            if not all(own) or at[-1] - at[0] > 2 or any(is_short(word) or word in frequent for word in term):
                continue
            form = written[at[0] : at[-1] + 1]
            if not (is_short(form[0]) or is_short(form[-1])):
                counts[" ".join(term)][" ".join(form)] += 1
    return {
        term: {form for form, count in forms.items() if count >= max(LEAST_TIMES, LEAST_SHARE * forms.total())}
        for term, forms in counts.items()
    }


def ngrams(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the begin and size of each word and of each two adjacent words."""
    for begin in range(len(words)):
        yield from ((begin, size) for size in (1, 2) if begin + size <= len(words))


def is_short(word: str) -> bool:
    """Return True for a word that is too short for a term, or no word."""
    return len(word) < LEAST_LETTERS or not word.isalpha()


def with_terms(pair: Line, terms: dict[str, set[str]], most: int) -> Line:
    """Return the pair with random terms that its reference holds, none of which overlap."""
    words, chosen, taken = words_of(pair.source), dict[str, str](), set[str]()
    candidates = {" ".join(words[begin : begin + size]) for begin, size in ngrams(words)}
    for term in sorted(candidates & terms.keys(), key=lambda term: lot(f"{term} {pair.source}")):
        for form in sorted(terms[term]):
            held = re.search(rf"(?<!\w){re.escape(form)}(?!\w)", pair.reference, re.IGNORECASE)
            own = {*term.split(), *form.split()}
            if held is None or taken & own or len(chosen) == most:
                continue
            wanted = (term, held[0] if held.start() else form)
            if not Terms([wanted]).missing(pair.source, pair.reference):
                chosen[term], taken = wanted[1], taken | own
                break
    return pair._replace(terms=tuple(chosen.items()))


def measure(lines: Sequence[Line], translations: Sequence[Translation]) -> dict[str, Any]:
    """Return the share of the terms that translations hold, and their scores."""
    texts = [translation.text for translation in translations]
    lacked = sum(len(line.lacking(text)) for line, text in zip(lines, texts, strict=True))
    scores = bleu_and_chrf(texts, [line.reference for line in lines])
    return {"used": 1 - lacked / sum(len(line.terms) for line in lines), **scores}


def quality(translator: dragoman.Translator, lines: Sequence[Line]) -> dict[str, Any]:
    """Return figures of plain translations and of those with terms, for all texts and for lacking texts."""
    plain = translator.translate([line.source for line in lines], progress=False)
    forced = [translator.translate([line.source], progress=False, terms=line.terms)[0] for line in lines]
    lacking = [number for number, line in enumerate(lines) if line.lacking(plain[number].text)]
    figures: dict[str, Any] = {"texts": len(lines), "lacking": len(lacking)}
    for name, translations in (("plain", plain), ("forced", forced)):
        figures[name] = measure(lines, translations)
        figures[f"{name}, lacking"] = measure([lines[at] for at in lacking], [translations[at] for at in lacking])
    return figures


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    options = parser.parse_args()
    lines = [Line(source, reference) for source, reference in read_sides(options.test)]
    pairs = sorted(dict.fromkeys(lines), key=lambda line: lot(line.source))
    terms = learn_terms(pairs)
    translator = dragoman.Translator.load(options.model, "cpu", progress=False, threads=1)
    figures: dict[str, Any] = {}
    rows = []
    for name, most in (("one", 1), ("three", 3)):
        lines = [with_terms(pair, terms, most) for pair in pairs if len(pair.source) < LONGEST]
        figures[name] = quality(translator, [line for line in lines if len(line.terms) == most][:TEXTS])
        cells = [
            f"{figures[name]['plain' + part][what] * scale:.1f} → {figures[name]['forced' + part][what] * scale:.1f}"
            for part in ("", ", lacking")
            for what, scale in (("used", 100), ("chrf", 1))
        ]
        rows.append([name, str(figures[name]["texts"]), *cells])
    print(markdown(["terms", "texts", "used, %", "chrF", "lacking: used, %", "chrF"], rows))
    write_figures(options.out, quality=figures)


if __name__ == "__main__":
    main()
