"""Words of tokens: every token has one, and together they are the text, whatever the tokenizer cuts."""

from functools import cache
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.inference.alignment import Word, split_words
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer
from dragoman.tokenizing.words import words_of

TEXTS = [
    "The cat sleeps on the old sofa. Don't wake it!",
    "L'amica dell'uomo c'è, ma dov'è il gatto?",
    "C'était l'été d'aujourd’hui...",
]
PIECES = ("bpe", "unigram", "byte_bpe")
TRICKY = st.text(alphabet="ab'’ .,\n1è\u0301\u093e\u200d\u200c\u00a0🙂❤\ufe0f🇮🇹漢") | st.text()


@cache
def learn(kind: str) -> Tokenizer:
    settings = TokenizerSettings.model_validate({"kind": kind, "minimum_frequency": 1})
    return learn_tokenizer(TEXTS * 3, settings, language="en" if kind == "spacy" else None)


@pytest.fixture(params=["word", "spacy", *PIECES])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "spacy":
        pytest.importorskip("spacy", reason="needs the extra spacy")
    return learn(request.param)


def visible(text: str) -> str:
    """A text without spaces, and without what stands for bytes that are no character."""
    return "".join(text.split()).replace("\ufffd", "")


# Words of a text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where is it?", ["Where", "is", "it", "?"]),
        ("Don't, it’s John's.", ["Don't", ",", "it’s", "John's", "."]),
        ("l'uomo dell’arte", ["l'", "uomo", "dell’", "arte"]),
        ("c'è un po' d'io", ["c'è", "un", "po'", "d'io"]),
        ("well-known", ["well", "-", "known"]),
        ("¿3,5 € (tre)?", ["¿", "3", ",", "5", "€", "(", "tre", ")", "?"]),
        ("e\u0301t\u0323e\u0301", ["e\u0301t\u0323e\u0301"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("👨‍👩‍👧🇮🇹 ❤️!", ["👨‍👩‍👧", "🇮🇹", "❤️", "!"]),
        ("...", [".", ".", "."]),
        ("寿司を食べる。", ["寿", "司", "を", "食", "べ", "る", "。"]),
        ("ab寿司", ["ab", "寿", "司"]),
        (" \n\u00a0 ", []),
    ],
)
def test_a_text_has_these_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(text=TRICKY)
def test_words_joined_are_the_text_without_spaces(text: str) -> None:
    assert "".join("".join(split_words(text)).split()) == "".join(text.split())


@given(text=TRICKY)
def test_a_word_is_one_word_by_itself(text: str) -> None:
    for word in split_words(text):
        assert split_words(word) == [word]


# Words of tokens


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        "Don't! L'amica c'è.",
        "two  spaces and a  tab\tand a line\nend ",
        "寿司🙂🙂 e\u0323\u0301 ❤️ हिन्दी",
        "un\u00a0altro",
    ],
)
def test_tokens_spell_the_words_of_their_text(kind: str, text: str) -> None:
    tokenizer = learn(kind)
    words = words_of(tokenizer, tokenizer.encode(text))
    assert "".join(word.text for word in words) == "".join(split_words(tokenizer.normalise(text)))
    assert [*chain.from_iterable(split_words(word.text) for word in words)] == split_words(tokenizer.normalise(text))


@pytest.mark.parametrize("kind", PIECES)
@given(text=TRICKY)
@example(text="'''")
@example(text="\u00a0a")
def test_every_token_of_any_text_belongs_to_one_word(kind: str, text: str) -> None:
    tokenizer = learn(kind)
    ids = tokenizer.encode(text)
    words = words_of(tokenizer, ids)
    assert places(words) == [*range(len(ids))]
    assert visible("".join(word.text for word in words)) == visible(tokenizer.normalise(text))
    assert all(word.text for word in words) or not text.strip()


@pytest.mark.parametrize("kind", PIECES)
@given(data=st.data())
def test_every_token_that_a_model_may_write_belongs_to_one_word(kind: str, data: st.DataObject) -> None:
    tokenizer = learn(kind)
    ids = data.draw(st.lists(st.integers(END + 1, tokenizer.size - 1), max_size=12))
    words = words_of(tokenizer, ids)
    assert places(words) == [*range(len(ids))]
    assert visible("".join(word.text for word in words)) == visible(tokenizer.decode(ids))


def test_a_character_whose_bytes_begin_in_a_token_of_another_word_is_shown_whole() -> None:
    tokenizer = learn("byte_bpe")
    spellings = [tokenizer.spelling(id_) for id_ in range(tokenizer.size)]
    ids = [spellings.index(spelled) for spelled in (b"d\xe2", b"\xa1", b"\xa1")]
    assert words_of(tokenizer, ids) == [Word("d⡡", 0, 3)]


def places(words: list[Word]) -> list[int]:
    """The tokens of all words in order."""
    return [place for word in words for place in range(word.first, word.last)]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_bytes_of_one_character_belong_to_one_word(kind: str) -> None:
    tokenizer = learn(kind)
    ids = tokenizer.encode("the 寿司 cat")
    words = words_of(tokenizer, ids)
    assert [word.text for word in words] == ["the", "寿", "司", "cat"]
    assert words[1].last - words[1].first >= 3


def test_a_byte_that_is_no_character_moves_no_other_word() -> None:
    tokenizer = learn("bpe")
    first_byte = END + 1
    ids = [*tokenizer.encode("the"), first_byte + 0xE2, *tokenizer.encode("cat sleeps")]
    assert [word.text for word in words_of(tokenizer, ids)] == ["the", "\ufffd", "cat", "sleeps"]


def test_symbols_around_a_text_belong_to_no_word(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXTS[0])
    alone, framed = words_of(tokenizer, ids), words_of(tokenizer, [PADDING, START, *ids, END])
    assert framed == [Word(word.text, word.first + 2, word.last + 2) for word in alone]
    assert words_of(tokenizer, [START, END]) == words_of(tokenizer, []) == []


@pytest.mark.parametrize("tokenizer", ["word", "spacy"], indirect=True)
def test_a_token_of_a_vocabulary_of_words_is_a_word(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("The zebra sleeps .")
    assert ids[1] == UNKNOWN
    assert words_of(tokenizer, ids) == [
        Word("The", 0, 1),
        Word("[UNK]", 1, 2),
        Word("sleeps", 2, 3),
        Word(".", 3, 4),
    ]
