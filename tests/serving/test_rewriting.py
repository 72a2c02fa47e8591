"""Other words in a translation, and the sentence that goes on from them."""

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_translators import asked, lines, make

from dragoman import Translator
from dragoman.cli.train import FINISHED
from dragoman.errors import DecodeError
from dragoman.inference.translation import Translation
from dragoman.serving.rewriting import WORDS, OtherWord, other_words, rewritten

TEXTS = {
    "Where is the station?": [],
    "where is the station": [],
    "WHERE IS THE STATION?": [],
    "“My name is Zoë O'Hara.” I lost my passport.": ["“", "Zoë", "O'", "Hara", "”"],
    "🎉 I would like two coffees, please. 😀": ["🎉", "😀"],
    " - Where is it??\n\n12:30\nMy name is Anna. Thanks!\r\n": ["-", "?", "?"],
}
"""Texts, and the words of their translations that stand there as they were typed."""
MADE = cache(make)
"""A small translator of each kind; one that is made again may be another, because tokenizers are learnt in threads."""


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FINISHED, precision="float32")


def translated(translator: Translator, text: str, **settings: object) -> Translation:
    """The translation of a text of several lines by the way that always holds for the prefix "": from nothing."""
    return rewritten(translator, text, "", translator.options.but(align=True, **settings))


def others(translator: Translator, text: str, translation: str, word: int) -> list[OtherWord]:
    return other_words(translator, text, translation, word, translator.options)


@pytest.mark.parametrize("text", TEXTS)
def test_a_translation_goes_on_from_every_word_that_is_offered(translator: Translator, text: str):
    whole = translated(translator, text)
    kept = [*TEXTS[text]]
    for number, word in enumerate(whole.target_words):
        if word in kept:
            kept.remove(word)
            with pytest.raises(DecodeError, match="is copied from the source"):
                others(translator, text, whole.text, number)
            continue
        found = others(translator, text, whole.text, number)
        assert 1 < len({each.word for each in found}) == len(found) <= WORDS
        assert [each.probability for each in found] == sorted((each.probability for each in found), reverse=True)
        assert any(each.word.startswith(word) and whole.text.startswith(each.prefix) for each in found)
        for each in found[:3]:
            assert each.prefix.endswith(each.word)
            assert rewritten(translator, text, each.prefix, translator.options).text.startswith(each.prefix)
    assert not kept


@pytest.mark.parametrize("text", TEXTS)
def test_going_on_from_its_own_words_changes_nothing(translator: Translator, text: str):
    greedy = translator.options.but(beam_size=1)
    whole = translated(translator, text, beam_size=1)
    for number, word in enumerate(whole.target_words):
        if word not in TEXTS[text]:
            found = other_words(translator, text, whole.text, number, greedy)
            same = max((each.prefix for each in found if whole.text.startswith(each.prefix)), key=len)
            assert rewritten(translator, text, same, greedy).text == whole.text


def test_the_probability_of_a_word_is_that_of_its_tokens(translator: Translator):
    (whole,) = translator.translate(["Where is the station?"])
    assert whole.tokens == ("▁Dov'", "è", "▁la", "▁stazione", "?", "[EOS]")
    first, second, *_ = whole.token_log_probs
    (same, *_) = others(translator, whole.source, whole.text, 0)
    assert (same.word, same.probability) == ("Dov'è", pytest.approx(math.exp(first + second)))
    unlikely = "Dov'è la zuppa?"
    found = others(translator, whole.source, unlikely, 2)
    (scored,) = translator.score([whole.source], [unlikely])
    chance = math.exp(sum(scored.token_log_probs[3 : scored.tokens.index("?")]))
    assert len(found) == WORDS and found[-1].word == "zuppa"
    assert found[-1].probability == pytest.approx(chance, rel=1e-3)


def test_earlier_choices_stay(translator: Translator):
    text = "Where is the station? I would like two coffees.\nMy name is Anna."
    first = rewritten(translator, text, "Dove", translator.options).text
    assert first.startswith("Dove ") and first.endswith("Vorrei due caffè.\nMi chiamo Anna.")
    sentence = first.partition("?")[0] + "?"
    second = rewritten(translator, text, f"{sentence} Vorrei tre", translator.options).text
    assert second.startswith(f"{sentence} Vorrei tre ") and second.endswith("\nMi chiamo Anna.")
    third = rewritten(translator, text, second.partition("\n")[0] + "\nIo", translator.options).text
    assert third.startswith(second.partition("\n")[0] + "\nIo ")


def test_a_line_that_the_prefix_holds_whole_stays_as_it_is(translator: Translator):
    text, line = "I would like two coffees.\nThanks!", "Vorrei due"
    found = rewritten(translator, text, f"{line}\nGrazie", translator.options)
    assert found.text.partition("\n")[0] == line


def test_a_name_has_no_other_words_and_is_none(translator: Translator):
    text = "My name is Nakamura."
    (whole,) = translator.translate([text], align=True)
    assert whole.target_words == ("Mi", "chiamo", "Nakamura", ".")
    with pytest.raises(DecodeError, match="'Nakamura' is copied from the source"):
        others(translator, text, whole.text, 2)
    assert "Nakamura" not in {
        each.word for number in (0, 1, 3) for each in others(translator, text, whole.text, number)
    }


def test_terms_are_written_where_they_leave_the_beginning_alone(translator: Translator):
    options = translator.options.but(terms=(("station", "fermata"),))
    assert rewritten(translator, "Where is the station?", "Dove", options).unused_terms == ()
    chosen = rewritten(translator, "Where is the station?", "Dov'è la stazione", options)
    assert chosen.text == "Dov'è la stazione?" and chosen.unused_terms == ("station",)


def test_what_cannot_be_is_said(translator: Translator):
    for text, prefix, message in [
        ("Where is the <b>station</b>?", "Dove", "tags"),
        ("Where is the station?", "Dov'è\nla", "begins with"),
        ("🎉 Thanks!", "🙂 Grazie", "begins with"),
        ("Thanks!", "Grazie " * 20_000, "too many for its source"),
    ]:
        with pytest.raises(DecodeError, match=message):
            rewritten(translator, text, prefix, translator.options)
    with pytest.raises(DecodeError, match="casa is not in the vocabulary"):
        rewritten(make(), "where is the station ?", "dov'è casa", asked())
    for word in (-1, 4, 10**9):
        with pytest.raises(DecodeError, match="no word with the number"):
            others(translator, "Where is the station?", "Dov'è la stazione?", word)


@settings(max_examples=25)
@given(data=st.data(), kind=st.sampled_from(["word", "bpe", "unigram", "character"]))
def test_models_that_know_nothing_go_on_too(data: st.DataObject, kind: str):
    translator = MADE(kind)
    text = data.draw(st.sampled_from(lines(40)))
    options = asked(beam_size=2, align=True)
    whole = rewritten(translator, text, "", options)
    if not whole.target_words:
        return
    word = data.draw(st.integers(0, len(whole.target_words) - 1))
    try:
        found = other_words(translator, text, whole.text, word, options)
    except DecodeError:
        assert whole.target_words[word] in text  # a mark that stands alone behind the sentence
        return
    assert whole.target_words[word] in {each.word for each in found}
    for each in found[:2]:
        assert 0 <= each.probability <= 1
        new = rewritten(translator, text, each.prefix, options)
        assert new.text.split()[: len(each.prefix.split()) - 1] == each.prefix.split()[:-1]
