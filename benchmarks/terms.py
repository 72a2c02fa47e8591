"""Do terms come into translations, what does it cost, and are the translations as good as before?

    python benchmarks/terms.py MODEL --test SOURCES REFERENCES [--learn SOURCES REFERENCES] [--out FILE]

Words of the test and of `--learn` are aligned as in training. A term is a word, or two side by side, of at least four
letters each, that often has the same translation; it is asked for in a text whose reference holds it as often as the
source holds the term, in the form that stands in this reference. *One* asks each text for one term by lot, *three* for
up to three, *ten* for up to ten; only texts that the plain search leaves without a term are *lacking*. Texts are
translated one by one, because each has terms of its own. Time is the median of three passes over 100 texts.
"""

import argparse
import json
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from catalogues import lot
from command_line import command_line, figures_file, markdown

import dragoman
from dragoman.data.aligning import link
from dragoman.data.corpus import Rows
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.terms import Terms
from dragoman.system import machine

LEAST_LETTERS, LEAST_TIMES, LEAST_SHARE = 4, 3, 0.2
MOST_FREQUENT = 60
"""So many words of the sources are too frequent for a term."""
TEXTS, TIMED = 500, 100


class Line(NamedTuple):
    source: str
    reference: str
    terms: tuple[tuple[str, str], ...] = ()


def read_pairs(paths: Sequence[Path]) -> list[Line]:
    return [Line(*pair) for pair in zip(*(path.read_text("utf-8").splitlines() for path in paths), strict=True)]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def rows_of(texts: Sequence[Sequence[str]]) -> tuple[Rows, list[str]]:
    ids: dict[str, int] = {}
    numbered = [[ids.setdefault(word, len(ids)) for word in words] for words in texts]
    offsets = np.cumsum([0, *map(len, numbered)])
    return Rows(np.array([id_ for row in numbered for id_ in row], np.uint16), offsets), list(ids)


def learnt_terms(pairs: Sequence[Line]) -> dict[str, set[str]]:
    """Source words, alone or two side by side, and their frequent translations."""
    sources, targets = ([words_of(text) for text in side] for side in zip(*(pair[:2] for pair in pairs), strict=True))
    (source, known), (target, others) = rows_of(sources), rows_of(targets)
    links = link(source, target, (len(known), len(others)))
    frequent = {word for word, _ in Counter(word for words in sources for word in words).most_common(MOST_FREQUENT)}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for words, written, first in zip(sources, targets, target.offsets.tolist(), strict=False):
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, linked in enumerate(links[first : first + len(written)].tolist()):
            places[linked - 1].append(place)
        for begin in range(len(words)):
            for size in (1, 2):
                term = words[begin : begin + size]
                at = sorted(place for one in range(begin, begin + size) for place in places[one])
                is_whole = len(term) == size and all(places[one] for one in range(begin, begin + size))
                if not is_whole or at[-1] - at[0] > 2 or any(is_short(word) or word in frequent for word in term):
                    continue
                form = written[at[0] : at[-1] + 1]
                if not any(map(is_short, (form[0], form[-1]))):
                    counts[" ".join(term)][" ".join(form)] += 1
    return {
        term: {form for form, count in forms.items() if count >= max(LEAST_TIMES, LEAST_SHARE * forms.total())}
        for term, forms in counts.items()
    }


def is_short(word: str) -> bool:
    return len(word) < LEAST_LETTERS or not word.isalpha()


def with_terms(pair: Line, terms: dict[str, set[str]], most: int) -> Line:
    """The pair with terms that its reference holds, by lot, none over another."""
    words, chosen, taken = words_of(pair.source), dict[str, str](), set[str]()
    candidates = {" ".join(words[begin : begin + size]) for begin in range(len(words)) for size in (1, 2)}
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


class Measured(NamedTuple):
    """Translations of some texts: how many of their terms stand in them, how good they are, and how long they took."""

    texts: int
    terms: int
    used: float
    scores: dict[str, float]
    flags: dict[str, int]
    seconds: float


def measure(translator: dragoman.Translator, lines: Sequence[Line], forced: bool) -> tuple[Measured, list[Any]]:
    def translated(some: Sequence[Line]) -> list[Any]:
        return [
            translator.translate([line.source], progress=False, terms=line.terms if forced else ())[0] for line in some
        ]

    found = translated(lines)
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        translated(lines[:TIMED])
        times.append(time.perf_counter() - start)
    missing = sum(len(Terms(line.terms).missing(line.source, one.text)) for line, one in zip(lines, found, strict=True))
    count = sum(len(line.terms) for line in lines)
    flags = Counter(flag for one in found for flag in one.flags)
    scores = bleu_and_chrf([one.text for one in found], [line.reference for line in lines])
    return Measured(len(lines), count, 1 - missing / count, scores, dict(flags), statistics.median(times)), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--learn", nargs=2, type=Path, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    test = read_pairs(options.test)
    terms = learnt_terms([*test, *(read_pairs(options.learn) if options.learn else [])])
    translator = dragoman.Translator.load(options.model, "cpu", progress=False, threads=1)
    figures: dict[str, dict[str, Any]] = {}
    cells: list[list[str]] = []
    for name, most in (("one", 1), ("three", 3), ("ten", 10)):
        asked = [with_terms(line, terms, most) for line in sorted(set(test), key=lambda line: lot(line.source))]
        asked = [line for line in asked if line.terms and len(line.source) < 300]
        lines = sorted(asked, key=lambda line: -len(line.terms))[:TIMED] if most == 10 else asked[:TEXTS]
        plain, before = measure(translator, lines, False)
        lacking = [
            number
            for number, (line, one) in enumerate(zip(lines, before, strict=True))
            if Terms(line.terms).missing(line.source, one.text)
        ]
        forced, after = measure(translator, lines, True)
        parts = {
            key: bleu_and_chrf([texts[at].text for at in lacking], [lines[at].reference for at in lacking])
            for key, texts in (("plain", before), ("terms", after))
        }
        figures[name] = {
            "plain": plain._asdict(),
            "terms": forced._asdict(),
            "lacking": {"texts": len(lacking), **parts},
        }
        figures[name]["examples"] = [
            {"source": lines[at].source, "terms": lines[at].terms, "plain": before[at].text, "forced": after[at].text}
            for at in lacking[:50]
        ]
        cells.append(
            [
                f"{name} ({plain.terms / plain.texts:.1f} a text)",
                str(plain.texts),
                f"{plain.used:.1%} → {forced.used:.1%}",
                f"{plain.scores['chrf']:.1f} → {forced.scores['chrf']:.1f}",
                f"{len(lacking)}: {parts['plain']['chrf']:.1f} → {parts['terms']['chrf']:.1f}",
                f"{forced.seconds / plain.seconds:.2f}",
            ]
        )
    print(markdown(["terms", "texts", "used", "chrF", "lacking: chrF", "times as long"], cells))
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "date": time.strftime("%Y-%m-%d")}
        options.out.write_text(json.dumps({**facts, "figures": figures}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
