"""Growth of vocabularies: symbols of languages, and pieces for characters that were spelled in bytes."""

import pytest
from small_directions import sentences

from dragoman.errors import ConfigError
from dragoman.tokenizing.growing import grow, origins, spelled
from dragoman.tokenizing.settings import TokenizerSettings
from dragoman.tokenizing.special_tokens import SYMBOLS
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import learn_tokenizer

ENGLISH, RUSSIAN = ([*side] for side in zip(*sentences("en", "ru", 80), strict=True))


def learn(kind: str) -> Tokenizer:
    settings = TokenizerSettings.model_validate({"kind": kind, "vocabulary_size": 400, "minimum_frequency": 1})
    return learn_tokenizer(ENGLISH, settings, symbols=["en"])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte_bpe"])
def test_a_grown_vocabulary_cuts_old_text_as_before_and_spells_new_text(kind: str) -> None:
    old = learn(kind)
    new = grow(old, ["en", "ru"], RUSSIAN)
    assert new.encode_batch(ENGLISH) == old.encode_batch(ENGLISH)
    assert [*new.languages.items()] == [("en", new.size - 2), ("ru", new.size - 1)]
    lengths = [sum(map(len, side.encode_batch(RUSSIAN))) for side in (old, new)]
    assert lengths[1] < lengths[0] if kind != "byte_bpe" else lengths[1] == lengths[0]
    assert [new.decode(row) for row in new.encode_batch(RUSSIAN)] == RUSSIAN
    if kind != "byte_bpe":
        assert spelled(new, RUSSIAN).endswith("0.0% of them bytes or unknown")
        assert not spelled(old, RUSSIAN).endswith(" 0.0% of them bytes or unknown")
    assert grow(new, ["en", "ru"], None).identity == new.identity, "nothing is missing"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_a_new_id_starts_from_those_that_spelled_it(kind: str) -> None:
    old = learn(kind)
    new = grow(old, ["en", "ru"], RUSSIAN)
    starts = origins(old, new)
    assert len(starts) == new.size and starts[: old.size - 1] == [[id_] for id_ in range(old.size - 1)]
    assert starts[-2:] == [[old.languages["en"]]] * 2, "the new symbol from the old ones"
    for id_ in range(old.size - 1, new.size - 2):
        assert b"".join(map(old.spelling, starts[id_])) == new.spelling(id_)


def test_without_symbols_a_new_one_starts_from_all_pieces() -> None:
    old = learn_tokenizer(ENGLISH, TokenizerSettings(vocabulary_size=400, minimum_frequency=1))
    assert origins(old, grow(old, ["en", "it"], None))[-1] == [*range(SYMBOLS, old.size)]


def test_whole_words_do_not_grow() -> None:
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    with pytest.raises(ConfigError, match="has whole words .kind = 'word'., to which no language can be added"):
        grow(learn_tokenizer(ENGLISH, settings), ["ru"], RUSSIAN)
