"""The model that ships inside the package, and the sentences that a traveller would say to it."""

from pathlib import Path

import pytest

import dragoman
from dragoman import Translator
from dragoman.cli.train import FINISHED, SAID

TRAVELLER = Path(__file__).parents[1] / "phrasebook" / "traveller.tsv"
"""English and its right translations. Whoever writes patterns of the phrasebook does not look at it."""


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FINISHED, precision="float32")


def same(one: str, other: str) -> bool:
    """Whatever the case of the first letter."""
    return one[:1].lower() + one[1:] == other[:1].lower() + other[1:]


def test_at_least_fifty_of_a_travellers_sixty_sentences_are_right(translator: Translator):
    rows = [line.split("\t") for line in TRAVELLER.read_text(encoding="utf-8").splitlines()]
    found = translator.translate([source for source, *_ in rows])
    right = sum(
        any(same(translation.text, reference) for reference in references)
        for translation, (_, *references) in zip(found, rows, strict=True)
    )
    assert len(rows) == 60
    assert right >= 50


def test_the_sentences_of_the_demo_are_right(translator: Translator):
    assert [translation.text for translation in translator.translate(SAID)] == [
        "Dov'è la stazione? Vorrei due caffè.",
        "Potrebbe parlare più lentamente, per favore?",
        "Ho perso il mio passaporto. Può aiutarmi?",
    ]


def test_it_is_small_and_in_eight_bits():
    assert dragoman.load_model(FINISHED).quantised
    assert sum(file.stat().st_size for file in FINISHED.iterdir()) < 2_500_000
