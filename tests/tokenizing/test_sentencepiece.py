"""Tokenizers of SentencePiece: the library's pieces, ids by a table, and everything else as any tokenizer has it."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_marian import ENGLISH, pieces_of, sentencepiece, spm

from dragoman.errors import MissingExtra, TokenizerError
from dragoman.tokenizing.sentencepiece import SentencePieces, SentencePieceTokenizer, model_path
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizers import Tokenizers, load_tokenizer

MODEL = spm(ENGLISH)
PIECES = tuple(pieces_of(MODEL))
PROCESSOR = sentencepiece.SentencePieceProcessor(model_proto=MODEL)
TEXT = "The station  is naïve: 漢字, ﬁne…"


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer(SentencePieces(pieces=(">>ita<<", *reversed(PIECES))), MODEL)


@given(text=st.text(max_size=40))
def test_pieces_are_the_librarys(text: str) -> None:
    tokenizer = SentencePieceTokenizer(SentencePieces(pieces=PIECES), MODEL)
    pieces = PROCESSOR.encode(text, out_type=str)
    ids = tokenizer.encode(text)
    assert ids == [PIECES.index(piece) + 4 if piece in PIECES else UNKNOWN for piece in pieces]
    assert len(tokenizer.offsets(text)) == len(ids)
    assert all(0 <= first <= last <= len(text) for first, last in tokenizer.offsets(text))


@given(words=st.lists(st.sampled_from(" ".join(ENGLISH).split())))
def test_known_text_comes_back_in_its_normal_form(words: list[str]) -> None:
    tokenizer = SentencePieceTokenizer(SentencePieces(pieces=PIECES), MODEL)
    text = "  ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalise(text) == " ".join(words)


def test_alone_and_together_texts_have_the_same_ids(tokenizer: SentencePieceTokenizer) -> None:
    texts = [*ENGLISH, "", TEXT]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_symbols_typed_by_a_person_are_text(tokenizer: SentencePieceTokenizer) -> None:
    for symbol in tokenizer.vocabulary.specials.names:
        assert not {PADDING, START, END} & set(tokenizer.encode(f"a {symbol} b"))


def test_a_language_before_the_text_is_one_piece_if_the_table_holds_it(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.encode(">>ita<< the sea") == [4, *tokenizer.encode("the sea")]
    assert tokenizer.offsets(">>ita<<the")[0] == (0, 7) and tokenizer.offsets(">>ita<<the")[1][0] == 7
    assert tokenizer.encode(">>xyz<< the sea")[0] != 4
    assert tokenizer.normalise(">>ita<< the  sea") == ">>ita<< the sea"


def test_offsets_say_where_pieces_stand_in_the_text(tokenizer: SentencePieceTokenizer) -> None:
    text = "The red  cat"
    shown = tokenizer.tokens(tokenizer.encode(text))
    places = [text[first:last] for first, last in tokenizer.offsets(text)]
    assert "".join(places).split() == text.split()
    assert [piece.replace("▁", "") for piece in shown] == [place.strip() for place in places]


def test_unknown_words_are_those_with_a_piece_that_has_no_id(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.unknown_words("The 漢字, the 漢字 and ßea.") == ["漢字", "ßea"]
    assert tokenizer.unknown_words(ENGLISH[0]) == []


def test_bytes_in_pieces_spell_characters() -> None:
    model = spm(ENGLISH, byte_fallback=True, vocab_size=330)
    tokenizer = SentencePieceTokenizer(SentencePieces(pieces=tuple(pieces_of(model))), model)
    ids = tokenizer.encode("The 漢")
    assert UNKNOWN not in ids and tokenizer.decode(ids) == "The 漢"


def test_a_surrogate_is_refused(tokenizer: SentencePieceTokenizer) -> None:
    for ask in (tokenizer.encode, tokenizer.offsets, tokenizer.normalise):
        with pytest.raises(TokenizerError, match="half of a surrogate pair"):
            ask("a\ud800")


def test_what_was_saved_is_loaded(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(loaded, SentencePieceTokenizer)
    assert loaded.identity == tokenizer.identity and loaded.size == tokenizer.size
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    other = SentencePieceTokenizer(tokenizer.vocabulary, spm(ENGLISH[:3], vocab_size=40))
    assert other.identity != tokenizer.identity and other.shares_ids(tokenizer)


def test_both_sides_may_have_a_model_and_share_their_ids(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    other = SentencePieceTokenizer(tokenizer.vocabulary, spm(ENGLISH[:3], vocab_size=40))
    Tokenizers(tokenizer, other).save(tmp_path)
    loaded = Tokenizers.load(tmp_path)
    assert loaded.joint and loaded.source is not loaded.target
    assert [side.identity for side in loaded] == [tokenizer.identity, other.identity]
    alone = SentencePieceTokenizer(SentencePieces(pieces=PIECES), MODEL)
    assert not Tokenizers(tokenizer, alone).joint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": ["a", "a"]}, "listed twice"),
        ({"pieces": ["a", ""]}, "empty"),
        ({"kind": "bpe"}, "kind"),
        ({"format": 2}, "newer than this version"),
    ],
)
def test_a_damaged_table_is_refused(
    change: dict[str, Any], message: str, tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(path)


@pytest.mark.parametrize("content", [b"", b"garbage", MODEL[: len(MODEL) // 2]])
def test_a_damaged_model_is_refused(content: bytes, tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    model_path(path).write_bytes(content)
    with pytest.raises(TokenizerError, match="SentencePiece"):
        load_tokenizer(path)


def test_without_the_library_the_extra_is_named(
    tokenizer: SentencePieceTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    plain_import = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "sentencepiece":
            raise ImportError(name)
        return plain_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'dragoman\[marian\]'"):
        load_tokenizer(tmp_path / "tokenizer.json")
