"""Placeholders: each is one token of its own wherever it stands, and vocabularies without them stay as they were."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from dragoman.exporting.portable_tokenizer import portable
from dragoman.surface.placeholders import NUMBERS, PLACEHOLDERS, WORDS
from dragoman.tokenizing.pretokenizing import OLDER_SUBWORD_PATTERN, OLDER_WORD_PATTERN
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizer import Tokenizer, split_words
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

TEXTS = ["The man's dog, l'uomo e 25 gatti (the cat).", "Where is don't, please?"] * 3
SUBWORDS = ("bpe", "unigram", "character")
KINDS = (*SUBWORDS, "word", "spacy")
NAME, OTHER, NUMBER = WORDS[0], WORDS[7], NUMBERS[0]
MIXED = st.lists(st.sampled_from([*PLACEHOLDERS, *" \n.,'’(-%", "a", "the", "l'", "25"]) | st.text(max_size=3))


def learn(kind: str, texts: list[str] = TEXTS) -> Tokenizer:
    settings = TokenizerSettings.model_validate({"kind": kind, "vocabulary_size": 340, "minimum_frequency": 1})
    return learn_tokenizer(texts, settings, language="en")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: learn(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", SUBWORDS)
@given(parts=MIXED)
def test_a_text_with_placeholders_in_any_place_comes_back_and_each_is_one_token(tokenizers, kind, parts):
    tokenizer, text = tokenizers[kind], "".join(parts)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalise(text)
    written = {id_: character for character, id_ in tokenizer.placeholders.items()}
    assert [written[id_] for id_ in ids if id_ in written] == [part for part in text if part in PLACEHOLDERS]


@pytest.mark.parametrize("kind", ["word", "spacy"])
@pytest.mark.parametrize(
    "text", [f"The {NAME}'s dog, {OTHER}.", f"the dog ({NUMBER})", f"the man's {NAME}, {NAME}?", f"{NAME} is {NUMBER}."]
)
def test_a_placeholder_is_a_word_with_the_spaces_of_one(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert [text[first:last] for first, last in tokenizer.offsets(text)] == [word for word, _ in split_words(text)]


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_an_elided_word_before_a_placeholder_keeps_its_apostrophe(kind):
    tokenizer = learn_tokenizer(["l'uomo"] * 9, TokenizerSettings(kind=kind), language="it")
    ids = tokenizer.encode(f"l'{NAME}")
    assert tokenizer.tokens(ids)[1:] == ["[word 1]"] and tokenizer.decode(ids) == f"l'{NAME}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_learnt_vocabulary_begins_with_the_placeholders(tokenizers, kind):
    tokenizer = tokenizers[kind]
    assert tokenizer.vocabulary.pieces[:16] == PLACEHOLDERS
    assert [tokenizer.spelling(id_).decode() for id_ in tokenizer.placeholders.values()] == [*PLACEHOLDERS]
    assert tokenizer.tokens([tokenizer.placeholders[NUMBER]]) == ["[number 1]"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_placeholder_in_the_text_that_is_learnt_from_changes_no_other_piece(tokenizers, kind):
    texts = [*TEXTS, *[f"{NAME}{OTHER} {NUMBER}"] * 9] if kind != "unigram" else [*TEXTS, NAME]
    pieces = learn(kind, texts).vocabulary.pieces
    assert len(pieces) == len(set(pieces)) and not any(
        len(piece) > 1 for piece in pieces if set(piece) & {*PLACEHOLDERS}
    )
    if kind != "unigram":
        assert set(pieces) == set(tokenizers[kind].vocabulary.pieces)


def test_a_vocabulary_of_bytes_has_no_placeholders():
    tokenizer = learn("byte_bpe")
    assert not tokenizer.placeholders
    assert len(tokenizer.encode(NAME)) == 4


@pytest.mark.parametrize(("kind", "pattern"), [("bpe", OLDER_SUBWORD_PATTERN), ("word", OLDER_WORD_PATTERN)])
def test_an_older_file_loads_and_encodes_as_before_and_has_no_placeholders(tokenizers, kind, pattern, tmp_path: Path):
    content = tokenizers[kind].vocabulary.model_dump(mode="json")
    content |= {"pattern": pattern, "pieces": content["pieces"][16:]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    older = Tokenizer.load(tmp_path / "tokenizer.json")
    assert not older.placeholders and older.size == tokenizers[kind].size - 16
    for text in TEXTS:
        assert older.tokens(older.encode(text)) == tokenizers[kind].tokens(tokenizers[kind].encode(text))
    if kind == "word":
        assert older.unknown_words(f"the ☃{NAME}") == [f"☃{NAME}"], "it cuts by its own pattern"


@pytest.mark.parametrize("kind", SUBWORDS)
@given(parts=MIXED)
def test_other_programs_encode_placeholders_as_we_do(tokenizers, kind, parts):
    tokenizer, text = tokenizers[kind], "".join(parts)
    library = Library.from_str(portable(tokenizer, Framing()).to_str())
    library.encode_special_tokens = True
    ids = tokenizer.encode(text)
    assert library.encode(text).ids == Framing().source(ids)
    assert library.decode(ids) == tokenizer.decode(ids)
