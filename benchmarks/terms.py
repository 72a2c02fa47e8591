"""Do terms come into translations, what does it cost, and are the translations as good as before?

    python benchmarks/terms.py MODEL --test SOURCES REFERENCES [--learn SOURCES REFERENCES] [--out FILE]

Words of the test and of `--learn` are aligned as in training. A term is a word, or two side by side, of at least four
letters each, that often has the same translation; it is asked for in a text whose reference holds it as often as the
source holds the term, in the form that stands in this reference. *One* asks each text for one term by lot, *three* for
up to three; texts whose plain translation lacks a term are *lacking*. They are translated one by one, because each has
terms of its own. Time is the median of three passes over a hundred texts, given together, with one list: any of them,
and those with the most terms, up to ten.
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
from dragoman.data.corpus import PackedIds
from dragoman.evaluating.metrics import bleu_and_chrf
from dragoman.inference.translation import Translation
from dragoman.surface.terms import Terms
from dragoman.system import machine

LEAST_LETTERS, LEAST_TIMES, LEAST_SHARE = 4, 3, 0.2
MOST_FREQUENT = 60
"""So many words of the sources are too frequent for a term."""
TEXTS, TIMED, LONGEST = 200, 100, 200


class Line(NamedTuple):
    source: str
    reference: str
    terms: tuple[tuple[str, str], ...] = ()


def read_pairs(paths: Sequence[Path]) -> list[Line]:
    return [Line(*pair) for pair in zip(*(path.read_text("utf-8").splitlines() for path in paths), strict=True)]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def rows_of(texts: Sequence[Sequence[str]]) -> tuple[PackedIds, list[str]]:
    ids: dict[str, int] = {}
    numbered = [[ids.setdefault(word, len(ids)) for word in words] for words in texts]
    offsets = np.cumsum([0, *map(len, numbered)])
    return PackedIds(np.array([id_ for row in numbered for id_ in row], np.uint16), offsets), list(ids)


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
    """Translations of some texts: which part of their terms stand in them, and how good they are."""

    used: float
    scores: dict[str, float]
    flags: dict[str, int]

    @classmethod
    def of(cls, lines: Sequence[Line], found: Sequence[Translation]) -> "Measured":
        scores = bleu_and_chrf([one.text for one in found], [line.reference for line in lines])
        count = sum(len(line.terms) for line in lines)
        lacked = sum(len(lacking(*pair)) for pair in zip(lines, found, strict=True))
        return cls(1 - lacked / count, scores, dict(Counter(flag for one in found for flag in one.flags)))


def lacking(line: Line, translation: Translation) -> list[str]:
    return Terms(line.terms).missing(line.source, translation.text)


def quality(translator: dragoman.Translator, lines: Sequence[Line]) -> dict[str, Any]:
    """Plain translations beside those with terms: of all texts, and of those whose plain one lacks a term."""
    plain = translator.translate([line.source for line in lines], progress=False)
    forced = [translator.translate([line.source], progress=False, terms=line.terms)[0] for line in lines]
    figures: dict[str, Any] = {"texts": len(lines), "terms": sum(len(line.terms) for line in lines)}
    some = [number for number, line in enumerate(lines) if lacking(line, plain[number])]
    for name, found in (("plain", plain), ("forced", forced)):
        figures[name] = Measured.of(lines, found)._asdict()
        figures[f"{name}, lacking"] = Measured.of([lines[at] for at in some], [found[at] for at in some])._asdict()
    figures["lacking"] = [
        {"source": lines[at].source, "terms": lines[at].terms, "plain": plain[at].text, "forced": forced[at].text}
        for at in some
    ]
    return figures


def seconds(translator: dragoman.Translator, texts: Sequence[str], **settings: Any) -> float:
    times: list[float] = []
    for _ in range(4):
        start = time.perf_counter()
        translator.translate(texts, progress=False, **settings)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--learn", nargs=2, type=Path, metavar=("SOURCES", "REFERENCES"))
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    test = sorted(set(read_pairs(options.test)), key=lambda line: lot(line.source))
    terms = learnt_terms([*test, *(read_pairs(options.learn) if options.learn else [])])
    translator = dragoman.Translator.load(options.model, "cpu", progress=False, threads=1)
    figures: dict[str, dict[str, Any]] = {"quality": {}, "seconds": {}}
    for name, most in (("one", 1), ("three", 3)):
        lines = [with_terms(pair, terms, most) for pair in test if len(pair.source) < LONGEST]
        found = quality(translator, [line for line in lines if len(line.terms) == most][:TEXTS])
        figures["quality"][name] = found
        cells = [
            f"{found['plain' + part][what]:.1%} → {found['forced' + part][what]:.1%}"
            if what == "used"
            else f"{found['plain' + part]['scores'][what]:.1f} → {found['forced' + part]['scores'][what]:.1f}"
            for part in ("", ", lacking")
            for what in ("used", "chrf")
        ]
        print(markdown(["terms", "texts", "used", "chrF", "lacking: used", "chrF"], [[name, str(TEXTS), *cells]]))
    listed = [(term, *sorted(forms)) for term, forms in terms.items() if forms]
    counted = [(len(Terms(listed).found(line.source)), line.source) for line in test if len(line.source) < LONGEST]
    counted = [one for one in counted if 1 <= one[0] <= 10]
    for name, some in (("any", counted[:TIMED]), ("most", sorted(counted, reverse=True)[:TIMED])):
        texts = [text for _, text in some]
        plain, forced = seconds(translator, texts), seconds(translator, texts, terms=listed)
        mean = statistics.mean(count for count, _ in some)
        figures["seconds"][name] = {"terms": mean, "listed": len(listed), "plain": plain, "forced": forced}
        print(f"{mean:.1f} terms a text ({len(listed)} listed): {plain:.2f} s, with terms {forced:.2f} s")
    if options.out:
        facts = {"command": command_line(), "machine": machine(), "date": time.strftime("%Y-%m-%d")}
        options.out.write_text(json.dumps({**facts, **figures}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
