"""Prepared text in several directions, made by hand from a table of words in three languages."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dragoman.serialization import write_json
from dragoman.text.prepare import prepare_data
from dragoman.text.report import DirectionsReport

Pair = tuple[str, str]
WORDS = {
    "en": "the a cat dog bird horse sees seeks loves fears red big".split(),
    "it": "il un gatto cane uccello cavallo vede cerca ama teme rosso grande".split(),
    "de": "der ein Kater Hund Vogel Gaul sieht sucht liebt fürchtet rot groß".split(),
    "ru": "этот один кот пёс птах конь видит ищет любит боится красный большой".split(),
}


def sentences(source: str, target: str, count: int, seed: int = 1) -> list[Pair]:
    """Return sentences of six words, translated word by word, of which no two are the same."""
    choose, drawn = random.Random(seed), dict[str, Pair]()
    while len(drawn) < count:
        numbers = [choose.choice(part) for part in ((0, 1), range(2, 6), range(6, 10), (0, 1), range(2, 6), (10, 11))]
        sides = [" ".join(WORDS[language][number] for number in numbers) for language in (source, target)]
        drawn[sides[0]] = sides[0], sides[1]
    return list(drawn.values())


def write_direction(folder: Path, languages: Pair, pairs: Iterable[Pair], held_out: int = 6) -> Path:
    """Prepare pairs of one direction, and return their folder."""
    text = folder / f"{'-'.join(languages)}.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    text.write_text("\t".join(languages) + "\n" + "".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    rules: dict[str, Any] = {"checks": {"drop_duplicates": False}}
    named = dict(zip(("source_language", "target_language"), languages, strict=True))
    prepare_data(
        str(text), folder / "-".join(languages), False, dev_size=held_out, test_size=held_out, **named, **rules
    )
    text.unlink()
    return folder / "-".join(languages)


def write_directions(folder: Path, counts: Mapping[Pair, int], held_out: int = 6) -> Path:
    """Prepare sentences in several directions in a folder, and return it."""
    for number, (languages, count) in enumerate(counts.items()):
        write_direction(folder, languages, sentences(*languages, count, seed=number), held_out)
    report = DirectionsReport(identity="-".join(map(str, counts.values())), directions=tuple(counts))
    write_json(folder / "data.json", report.model_dump(mode="json"))
    return folder
