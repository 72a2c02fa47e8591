"""The model that ships inside the package, and the sentences that a traveller would say to it."""

import re
from pathlib import Path

import pytest

import dragoman
from dragoman import Translator
from dragoman.cli.train import DEMO_TEXTS, FINISHED

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
    assert [translation.text for translation in translator.translate(DEMO_TEXTS)] == [
        "Dov'è la stazione? Vorrei due caffè.",
        "Potrebbe parlare più lentamente, per favore?",
        "Ho perso il mio passaporto. Può aiutarmi?",
    ]


def test_it_is_small_and_in_eight_bits():
    assert dragoman.load_model(FINISHED).quantised
    assert sum(file.stat().st_size for file in FINISHED.iterdir()) < 2_500_000


def test_names_and_addresses_come_out_as_they_went_in(translator: Translator):
    texts = ["My name is Nakamura.", "Can you write it to me at anna@example.org?", "“My name is Zoë O'Hara.”"]
    for found, kept in zip(translator.translate(texts), ("Nakamura", "anna@example.org", "Zoë O'Hara"), strict=True):
        assert kept in found.text and not found.lost and "lost" not in found.flags
        (scored,) = translator.score([found.source], [found.text])
        assert scored.tokens == found.tokens and "[word 1]" in found.tokens
        assert scored.score == pytest.approx(found.score, abs=1e-4)


def test_what_is_lost_is_flagged(translator: Translator):
    names = [f"Xanthippe{letter}" for letter in "abcdefghij"]
    (found,) = translator.translate([f"I would like {', please, '.join(names)}."])
    assert found.lost == tuple(name for name in names if name not in found.text)
    assert found.lost and "lost" in found.flags


def test_tags_stand_in_every_way_of_translating(translator: Translator):
    text = "I lost <b>my passport</b>.<br/>Where is <i>the station</i>?"
    (found,) = translator.translate([text], n_best=2, align=True)
    assert re.fullmatch(r"Ho perso <b>\w+ mio passaporto</b>\.<br/>.*<i>.*stazione</i>\?", found.text)
    for each in (found, *found.alternatives):
        assert [each.text.count(tag) for tag in ("<b>", "</b>", "<br/>", "<i>", "</i>")] == [1] * 5
        assert not {"<", "br", "b"}.intersection(each.source_words + each.target_words)
    (alone,) = translator.translate([text])
    assert "".join(translator.stream(text)) == alone.text == found.text
    (raw,) = translator.translate([text], raw=True)
    assert raw.text != alone.text


def test_the_tags_of_a_sentence_cost_its_translation_nothing(translator: Translator):
    pairs = [("Where is the <b>station</b>?", "Where is the station?"), ("<p>I lost it.</p>", "I lost it.")]
    for tagged, plain in pairs:
        (one, other) = translator.translate([tagged, plain])
        assert re.sub("<[^>]*>", "", one.text) == other.text and one.score == other.score
        (scored,) = translator.score([tagged], [one.text])
        assert scored.score == pytest.approx(one.score, abs=1e-4)
