"""Banned words: no output holds them, whatever the tokenizer, and nothing else changes."""

import functools
import random
import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from small_translators import SOURCES, TARGETS, asked, lines, make

from dragoman.config import choose
from dragoman.decoding.processors import LogitsProcessor
from dragoman.errors import ConfigError, DecodeError
from dragoman.inference import banned_words
from dragoman.inference.banned_words import BannedWords, NoBannedEnd, Tail
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

KINDS = ["word", "bpe", "unigram", "byte_bpe", "character"]
END = 3
TEXT = [*TARGETS, "la carta e la car di New York.", "caro città, cittadina: dell'auto, don't do!"] * 3


@pytest.fixture(scope="module", params=KINDS)
def translator(request: pytest.FixtureRequest) -> Translator:
    return make(request.param)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return learnt(request.param)


def learnt(kind: str) -> Tokenizer:
    settings = {"kind": kind, "minimum_frequency": 1, "vocabulary_size": 400}
    return learn_tokenizer(TEXT, TokenizerSettings.model_validate(settings))


def holds(text: str, word: str) -> bool:
    """The definition, in plain words. A combining mark joins letters too."""
    joined = "".join("\u02ad" if unicodedata.category(each)[0] == "M" else each for each in text)
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", joined) is not None


def allows(rule: BannedWords, ids: list[int]) -> bool:
    """Whether the rule lets an output be written, token by token and to its end."""
    for length, token in enumerate([*ids, END]):
        rows, tokens = np.array([0]), np.array([ids], np.int64)
        (tail,) = rule.tails(rows, tokens, np.array([length]))
        if token in rule.after(tail).anywhere:
            return False
    return True


def test_both_are_rules() -> None:
    words = BannedWords(["car"], learnt("bpe"), END)
    assert isinstance(words, LogitsProcessor) and isinstance(NoBannedEnd(words, 5), LogitsProcessor)


@pytest.mark.parametrize(
    ("banned", "text"),
    [
        ("car", "la car di New York."),
        ("car", "car"),
        ("auto", "dell'auto"),
        ("dell'auto", "caro dell'auto"),
        ("New York", "la car di New York."),
        ("New  York", "New York"),
        ("città", "caro città, cittadina"),
        ("cittadina:", "la cittadina: il"),
        ("do!", "don't do!"),
        ("don't", "caro don't"),
    ],
)
def test_a_text_with_the_word_cannot_be_written(tokenizer: Tokenizer, banned: str, text: str) -> None:
    assert not allows(BannedWords([banned], tokenizer, END), tokenizer.encode(text))
    assert allows(BannedWords(["mai", "Car"], tokenizer, END), tokenizer.encode(text)), "other words may be"


def test_a_long_phrase_is_banned_to_its_last_word(tokenizer: Tokenizer) -> None:
    begun = "la car di " * 100
    rule = BannedWords([begun + "auto"], tokenizer, END)
    assert not allows(rule, tokenizer.encode(begun + "auto"))
    assert not allows(rule, tokenizer.encode("la car di " + begun + "auto")), "it may begin later than it seemed"
    assert allows(rule, tokenizer.encode(begun + "caro"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("banned", "text"), [("car", "la carta"), ("città", "cittadina"), ("arta", "la carta")])
def test_a_word_inside_another_may_be_written_if_no_token_ends_with_it(kind: str, banned: str, text: str) -> None:
    tokenizer = learnt(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    begun = [tokenizer.decode(ids[:length]) for length in range(len(ids))]
    ends_with_it = any(holds(each, banned) and each.endswith(banned) for each in begun)
    assert allows(BannedWords([banned], tokenizer, END), ids) == (kind == "character" or not ends_with_it)


@pytest.mark.parametrize("spelled", [["▁", "c", "a", "r"], ["▁c", "ar"], ["▁ca", "r"], ["▁", "ca", "r"]])
def test_every_spelling_of_a_word_counts(spelled: list[str]) -> None:
    tokenizer = learnt("bpe")
    names = tokenizer.tokens(list(range(tokenizer.size)))
    if not set(spelled) <= set(names[260:]):
        spelled = [f"<0x{byte:02X}>" for byte in b" car"]
        ids = [4 + byte for byte in b" car"]
    else:
        ids = [names.index(name, 260) for name in spelled]
    assert tokenizer.decode(ids) == "car"
    assert not allows(BannedWords(["car"], tokenizer, END), ids)


def test_bytes_that_spell_a_letter_belong_to_the_word() -> None:
    tokenizer = learnt("bpe")
    by_bytes = [4 + byte for byte in " città".encode()]
    assert tokenizer.decode(by_bytes) == "città"
    assert not allows(BannedWords(["città"], tokenizer, END), by_bytes)
    assert allows(BannedWords(["è"], tokenizer, END), [4 + byte for byte in " caffè".encode()])
    assert not allows(BannedWords(["è"], tokenizer, END), [4 + byte for byte in " è".encode()])


def test_a_space_between_bytes_keeps_them_apart() -> None:
    tokenizer = learnt("character")
    parted = [4 + byte for byte in b"\xd9\x1c\xae"]
    car = tokenizer.encode("car")
    assert not allows(BannedWords(["car"], tokenizer, END), [*parted, *car])
    null = [4]
    assert not allows(BannedWords(["car"], tokenizer, END), [*tokenizer.encode("la"), *null, *car]), (
        "written as a space"
    )
    spaced = [4 + byte for byte in "! è".encode()]
    assert not allows(BannedWords(["! è"], tokenizer, END), spaced)
    assert not allows(BannedWords(["è"], tokenizer, END), spaced)
    assert not allows(BannedWords(["è"], tokenizer, END), [4 + byte for byte in "x è".encode()])


def test_a_word_is_banned_however_its_accents_are_encoded() -> None:
    tokenizer = learnt("bpe")
    assert tokenizer.decode(tokenizer.encode("citta\u0300")) == "citt\u00e0"
    assert not allows(BannedWords(["citta\u0300"], tokenizer, END), tokenizer.encode("caro citt\u00e0"))


def test_spaces_in_a_text_do_not_hide_a_banned_phrase() -> None:
    rule = BannedWords(["New York"], learnt("bpe"), END)
    assert rule.held_by("la  New \u00a0York") == "New York" and rule.held_by("New Yorker") is None


def test_a_script_without_spaces_has_no_whole_words() -> None:
    tokenizer = learn_tokenizer(["白猫が好き", "黒猫"] * 3, TokenizerSettings(kind="character", minimum_frequency=1))
    assert not allows(BannedWords(["猫"], tokenizer, END), tokenizer.encode("白猫が好き"))


@pytest.mark.parametrize("remembered", [4, 1_000])
def test_tails_are_those_of_texts_read_from_their_beginning_and_memory_is_bounded(
    tokenizer: Tokenizer, remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(banned_words, "_REMEMBERED", remembered)
    rule, dice = BannedWords(["car", "New York", "città", "un"], tokenizer, END), random.Random(0)
    written = tokenizer.encode(TEXT[-2])
    tokens = np.array([[*written, *written], *([dice.randrange(4, tokenizer.size) for _ in written * 2],) * 5])
    for length in range(tokens.shape[1]):
        chosen = np.array([0, *(dice.randrange(6) for _ in range(5))])  # rows go on from any row, as in a beam
        tokens = tokens[chosen]
        tokens[1:, length] = [dice.randrange(4, tokenizer.size) for _ in range(5)]
        found = rule.tails(np.arange(6), tokens, np.full(6, length + 1))
        for tail, rows in found.items():
            for row in rows:
                assert tail == functools.reduce(rule._find_tail, tokens[row, : length + 1].tolist(), Tail())
    kept = [rule._recent, rule._older]
    assert all(0 < len(each) <= remembered for each in kept if remembered == 4)


def test_something_is_always_left(tokenizer: Tokenizer) -> None:
    rule = BannedWords(["c", "ca", "car", "cart"], tokenizer, END)
    tails = {Tail()}
    for _ in range(4):
        for tail in list(tails):
            forbidden = rule.after(tail)
            left = set(range(tokenizer.size)) - set(forbidden.last.tolist())
            assert any(not tokenizer.is_special(token) for token in left)
            free = sorted(set(range(4, tokenizer.size)) - set(forbidden.anywhere.tolist()))
            tails |= {next(iter(rule.tails(np.array([0]), np.array([[token]]), np.array([1])))) for token in free[::7]}


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4, "n_best": 4}, {"temperature": 1.0, "n_best": 3}])
def test_no_translation_holds_a_banned_word(translator: Translator, search: dict[str, int]) -> None:
    texts = [*SOURCES, *lines(15)]
    plain = asked(**search)
    written = [each.text for found in translator.translate(texts, plain) for each in (found, *found.alternatives)]
    common = Counter(word for text in written for word in re.findall(r"\w+", text)).most_common(12)
    banned = tuple(word for word, _ in common)
    found = translator.translate(texts, plain.but(banned_words=banned))
    for translation in found:
        for each in (translation, *translation.alternatives):
            assert not [word for word in banned if holds(each.text, word)], each.text


def test_scores_stay_those_of_the_model(translator: Translator) -> None:
    found = translator.translate(SOURCES[:2], asked(split="never", banned_words=("il", "la", "rosso")))
    for translation in found:
        if "truncated" in translation.flags or translation.tokens != spelled(translator, translation.text):
            continue
        (scored,) = translator.score([translation.source], [translation.text])
        assert scored.log_prob == pytest.approx(translation.log_prob, abs=1e-4)


def spelled(translator: Translator, text: str) -> tuple[str, ...]:
    target = translator.tokenizers.target
    return tuple(target.tokens([*target.encode(text), END]))


def test_translations_without_the_word_stay_as_they_are() -> None:
    translator = make("bpe")
    plain = asked(beam_size=1)
    before = translator.translate(lines(12), plain)
    rare = "zebra"
    after = translator.translate(lines(12), plain.but(banned_words=(rare,)))
    assert [same(each) for each in before] == [same(each) for each in after]


def same(translation: Translation) -> tuple[str, tuple[str, ...], float]:
    return translation.text, translation.tokens, translation.score


def test_a_prefix_that_holds_a_banned_word_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"^prefix holds 'gatto', which decode.banned_words forbids$"):
        make().translate(["the cat"], asked(prefix="il gatto", banned_words=("gatto",)))
    assert make().translate(["the cat"], asked(prefix="il gatto", banned_words=("gat",)))


def test_blank_words_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"decode.banned_words must hold words, but one of them is blank"):
        choose(SearchOptions, "decode", ['decode.banned_words=["gatto", " "]'])
    assert choose(SearchOptions, "decode", ['banned_words=["New York"]']).banned_words == ("New York",)
