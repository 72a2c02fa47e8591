"""Tokenizers: what comes back, what stays text, what is refused."""

import copy
import json
import logging
import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, MissingExtra, TokenizerError
from dragoman.tokenizing import tokenizer as tokenizers_of_ours
from dragoman.tokenizing.pretokenizing import join_words
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer, learn_tokenizers
from dragoman.tokenizing.vocabulary import Vocabulary

ENGLISH = [
    "The cat sleeps on the old sofa.",
    "Where is the station, please?",
    "I don't know the man's name; it's late.",
    "We paid 25 euros for two tickets (and 3 coffees).",
    "The woman reads a well-known book.",
]
ITALIAN = [
    "Il gatto dorme sul vecchio divano.",
    "Dov'è la stazione, per favore?",
    "Non so come si chiama l'uomo; è tardi.",
    "Abbiamo pagato 25 euro per due biglietti (e 3 caffè).",
    "La donna legge un libro che l'amico le ha dato.",
]
TEXTS = (ENGLISH + ITALIAN) * 3
SUBWORDS = ("bpe", "unigram", "byte_bpe", "character")
KINDS = ("word", *SUBWORDS)
SPECIAL_LOOKALIKES = "[UNK] [PAD] [SOS] [EOS] <s> </s> <unk> <pad> <0x0A> ▁ \u2000 Ġ"
HARD = (
    "",
    " ",
    "  double  and trailing  ",
    "\n\tline\r\nends\x0b\x0c\u2028\u2029\x85",
    "\x00",
    "🙂👨‍👩‍👧🇮🇹",
    "e\u0301\u0323 lone \u0301",
    "\u1112\u1161\u11ab한 각",
    "Ω\u2126\u212b",
    "\ufeffbom\u200b",
    "寿司を食べる",
    SPECIAL_LOOKALIKES,
)


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: train(kind) for kind in KINDS}


def train(kind: str, texts: list[str] = TEXTS, **settings: Any) -> Tokenizer:
    return learn_tokenizer(texts, TokenizerSettings.model_validate({"kind": kind, **settings}))


def hard(test: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    for text in HARD:
        test = example(text=text)(test)
    return given(text=st.text())(test)


@hard
def test_decoding_gives_the_normalised_text_back(tokenizers, text):
    for kind in SUBWORDS:
        tokenizer = tokenizers[kind]
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalise(text)


@hard
def test_byte_level_gives_every_text_back(tokenizers, text):
    assert tokenizers["byte_bpe"].decode(tokenizers["byte_bpe"].encode(text)) == text


@hard
def test_no_text_can_spell_a_special_symbol(tokenizers, text):
    assert all(i > END for kind in SUBWORDS for i in tokenizers[kind].encode(text))
    assert not {PADDING, START, END} & set(tokenizers["word"].encode(text))


@hard
def test_a_batch_gives_the_ids_of_each_text_alone(tokenizers, text):
    for tokenizer in tokenizers.values():
        assert tokenizer.encode_batch(["the cat", text]) == [tokenizer.encode("the cat"), tokenizer.encode(text)]


@hard
def test_offsets_are_in_order_and_one_for_each_id(tokenizers, text):
    for tokenizer in tokenizers.values():
        offsets = tokenizer.offsets(text)
        assert len(offsets) == len(tokenizer.encode(text))
        assert all(0 <= first <= last <= len(text) for first, last in offsets)
        assert offsets == sorted(offsets)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
@given(text=st.text())
def test_offsets_of_subwords_leave_out_nothing_but_spaces(tokenizers, kind, text):
    covered = {place for first, last in tokenizers[kind].offsets(text) for place in range(first, last)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)


@pytest.mark.parametrize("text", TEXTS[:10])
def test_a_vocabulary_of_words_gives_known_sentences_back(tokenizers, text):
    assert tokenizers["word"].decode(tokenizers["word"].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_symbols_come_first_and_are_not_decoded(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("the cat")
    assert (tokenizer.unknown, 1, 2, 3) == (UNKNOWN, PADDING, START, END)
    assert tokenizer.decode([START, *ids, END, PADDING, PADDING]) == "the cat"
    assert tokenizer.tokens([0, 1, 2, 3]) == ["[UNK]", "[PAD]", "[SOS]", "[EOS]"]
    assert max(i for text in TEXTS for i in tokenizer.encode(text)) < tokenizer.size


def test_special_symbols_take_other_names():
    tokenizer = train("word", specials={"unknown": "<unk>", "padding": "<pad>", "start": "<s>", "end": "</s>"})
    assert tokenizer.tokens([2, *tokenizer.encode("the zebra"), 3]) == ["<s>", "the", "<unk>", "</s>"]
    assert tokenizer.decode(tokenizer.encode("the zebra")) == "the <unk>"


def test_special_symbols_need_different_names():
    with pytest.raises(ValueError, match="four different names"):
        TokenizerSettings.model_validate({"specials": {"unknown": "x", "padding": "x"}})


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("l'uomo", [" l'", "uomo"]),
        ("dell’acqua", [" dell’", "acqua"]),
        ("Dov'è?", [" Dov'", "è", "?"]),
        ("I don't", [" I", " don", "'t"]),
        ("it's l'a", [" it", "'s", " l'", "a"]),
        ("po' di", [" po", "'", " di"]),
        ("in 1984, ok", [" in", " 1", "9", "8", "4", ",", " ok"]),
        ("a  b\n", [" a", " ", " b", "\n"]),
    ],
)
def test_pieces_never_cross_words_numbers_and_punctuation(text, pieces):
    """With every merge learnt, what is left are the cuts themselves."""
    tokenizer = train("bpe", [text] * 50)
    spelled = [token.replace("▁", " ").replace("<0x0A>", "\n") for token in tokenizer.tokens(tokenizer.encode(text))]
    assert spelled == pieces


def test_characters_that_were_not_learnt_are_spelled_in_bytes(tokenizers):
    tokenizer = tokenizers["bpe"]
    ids = tokenizer.encode("il 寿")
    assert tokenizer.tokens(ids)[-3:] == ["<0xE5>", "<0xAF>", "<0xBF>"]
    assert tokenizer.offsets("il 寿")[-3:] == [(3, 4)] * 3


def test_a_mark_joined_to_its_letter_belongs_to_the_piece(tokenizers):
    text = "caffe\u0300 e"
    pieces = [text[first:last] for first, last in tokenizers["word"].offsets(text)]
    assert pieces == ["caffe\u0300", "e"]


def test_bytes_that_are_no_character_become_the_replacement_character(tokenizers):
    first_byte = tokenizers["bpe"].encode("寿")[-3]
    assert tokenizers["bpe"].decode([first_byte]) == "\ufffd"


def test_unknown_words_are_named_once(tokenizers):
    assert tokenizers["word"].unknown_words("The zebra and l'elefante, the zebra.") == ["zebra", "elefante"]
    assert tokenizers["bpe"].unknown_words("Il «寿司», il 🙂\n e il 寿司!") == ["寿司", "🙂"]
    assert tokenizers["unigram"].unknown_words("il 寿司 dorme") == ["寿司"]
    assert tokenizers["byte_bpe"].unknown_words("il 寿司") == []


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_surrogate_pair_is_refused(tokenizers, kind):
    for refused in (tokenizers[kind].encode, tokenizers[kind].offsets, lambda text: train(kind, [text])):
        with pytest.raises(TokenizerError, match="character 3 .* surrogate"):
            refused("ab\ud800")


@pytest.mark.parametrize("text", ["Ciao , come stai ?", "ciao.", "( a )"])
def test_words_are_joined_with_spaces_as_in_print(text):
    expected = {"Ciao , come stai ?": "Ciao, come stai?", "( a )": "(a)"}.get(text, text)
    tokenizer = train("word", [text] * 2)
    assert tokenizer.decode(tokenizer.encode(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "L'uomo disse: \"Dov'è l'acqua?\"",
        "un po' di pane, l'8 maggio",
        "I don't think it's John's; they're 3.50 euros at 10:30...",
        "¿Qué? ¡No! 50% (più o meno) [sì]",
        "The U.S. in the '90s... well, a well-known e-mail on 9/11.",
        "Costa $5 – non di più",
    ],
)
def test_words_cut_and_joined_are_the_same_text(text):
    tokenizer = train("word", [text] * 2)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_are_counted_as_a_plain_counter_counts_them():
    tokenizer = train("word", ["b a a c", "c c d b"])
    assert tokenizer.tokens(range(4 + 16, tokenizer.size)) == ["c", "a", "b"]
    counted = Counter("b a a c c c d b".split())
    assert tokenizer.size == 4 + 16 + sum(count >= 2 for count in counted.values())


def plain_bpe(words: Counter[str], merges: int) -> list[tuple[str, str]]:
    """Byte-pair encoding with loops: merge the most frequent pair, the first in the alphabet among equals."""
    cut = {word: tuple(word) for word in words}
    learnt = []
    for _ in range(merges):
        count: Counter[tuple[str, str]] = Counter()
        for word, pieces in cut.items():
            for pair in pairwise(pieces):
                count[pair] += words[word]
        best = max(count, key=lambda pair: count[pair])
        learnt.append(best)
        for word, pieces in cut.items():
            cut[word] = merged(pieces, best)
    return learnt


def merged(pieces: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    result: list[str] = []
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] += piece
        else:
            result.append(piece)
    return tuple(result)


def test_bpe_learns_the_merges_of_the_plain_algorithm(tmp_path):
    words = Counter({"aaab": 11, "aab": 6, "cb": 23, "cab": 3})  # no two pairs are ever equally frequent
    text = [" ".join(word for word, count in words.items() for _ in range(count))]
    tokenizer = train("bpe", text)
    tokenizer.save(tmp_path / "tokenizer.json")
    learnt = json.loads((tmp_path / "tokenizer.json").read_text())["merges"]
    spaced = Counter({f" {word}": count for word, count in words.items()})
    assert [tuple(pair) for pair in learnt[:4]] == plain_bpe(spaced, 4)


@pytest.mark.parametrize("kind", ["word", "bpe", "byte_bpe"])
def test_the_same_text_gives_the_same_tokenizer(kind):
    texts = TEXTS + [" ".join(reversed(text.split())) for text in TEXTS]
    assert len({train(kind, texts, vocabulary_size=400).identity for _ in range(5)}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_when_loaded(tokenizers, kind, tmp_path):
    tokenizers[kind].save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    loaded.save(tmp_path / "again.json")
    assert loaded.identity == tokenizers[kind].identity
    assert loaded.encode_batch(TEXTS) == tokenizers[kind].encode_batch(TEXTS)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


def test_vocabularies_are_no_larger_than_asked(caplog):
    assert train("unigram", vocabulary_size=320).size <= 320
    assert train("bpe", vocabulary_size=300).size == 300
    assert train("byte_bpe", vocabulary_size=300).size == 300
    assert train("word", vocabulary_size=30).size == 30
    with caplog.at_level(logging.INFO):
        assert train("bpe").size < 8_000
    assert "fewer than the 8,000 requested" in caplog.text


def test_a_unigram_vocabulary_with_no_room_for_the_characters_is_refused():
    with pytest.raises(TokenizerError, match=r"each of the \d+ characters .* room for 10; raise it"):
        train("unigram", vocabulary_size=286)


def test_more_characters_than_a_bpe_vocabulary_has_room_for_leaves_the_frequent_ones():
    tokenizer = train("bpe", ["aaa bb aaa bb cc"], vocabulary_size=263 + 16)
    assert tokenizer.unknown_words("a b c") == ["c"]


def test_rare_characters_and_words_are_not_learnt():
    tokenizer = train("bpe", ["aaa bbb aaa bbb ç"])
    assert tokenizer.unknown_words("ç a") == ["ç"]
    assert train("bpe", ["aaa bbb aaa bbb ç"], minimum_frequency=1).unknown_words("ç a") == []
    assert train("word", ["aaa bbb aaa"]).unknown_words("aaa bbb") == ["bbb"]


def test_byte_bpe_without_merges_is_one_id_a_byte():
    tokenizer = train("byte_bpe", vocabulary_size=260)
    assert tokenizer.size == 260
    assert len(tokenizer.encode("abc è")) == len("abc è".encode())


def test_each_character_of_the_text_is_a_piece_and_others_are_bytes():
    tokenizer = train("character", ["l'è 寿 e\u0301", "l'è"], minimum_frequency=1)
    assert sorted(tokenizer.vocabulary.pieces[16:]) == sorted(" 'lè寿é")
    assert tokenizer.size == 4 + 256 + 16 + 6
    assert tokenizer.tokens(tokenizer.encode("l' è")) == ["l", "'", "▁", "è"], "no space is put before the first word"
    assert tokenizer.tokens(tokenizer.encode("x é")) == ["x", "▁", "é"]
    assert len(tokenizer.encode("x🙂")) == 1 + 4
    assert tokenizer.unknown_words("è xè") == ["xè"]


def test_rare_characters_are_spelled_in_bytes_and_a_limit_keeps_the_frequent_ones():
    assert train("character", ["aaa bb c"]).vocabulary.pieces[16:] == ("a", " ", "b")
    assert train("character", ["aaa bb ccc"], vocabulary_size=278).vocabulary.pieces[16:] == ("a", "c")


def test_a_character_vocabulary_with_longer_pieces_is_refused(tmp_path):
    train("character").save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, "pieces": ["a", "ab"]}))
    with pytest.raises(TokenizerError, match="kind 'character' has pieces of one character"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_short_text_is_enough(kind):
    tokenizer = train(kind, ["a"], minimum_frequency=1)
    assert tokenizer.decode(tokenizer.encode("a")) == "a"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_no_text_is_refused(kind, texts):
    with pytest.raises(TokenizerError, match="no text to learn"):
        train(kind, texts)


def test_texts_are_read_once_from_any_iterator_and_their_errors_pass_through():
    def broken() -> Iterator[str]:
        yield "one"
        raise TokenizerError("line 2 is bad")

    assert learn_tokenizer(iter(TEXTS)).identity == learn_tokenizer(TEXTS).identity
    with pytest.raises(TokenizerError, match="line 2 is bad"):
        learn_tokenizer(broken())


def test_settings_derive_size_and_sides_from_the_kind():
    assert (TokenizerSettings().vocabulary_size, TokenizerSettings().joint) == (8_000, True)
    words = TokenizerSettings(kind="word")
    assert (words.vocabulary_size, words.joint) == (None, False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "bpe", "vocabulary_size": 100}, r"at least 276 \(4 special symbols, 256 bytes, 16 placeholders\)"),
        ({"kind": "byte_bpe", "vocabulary_size": 259}, r"at least 260 \(4 special symbols, 256 bytes\)"),
        ({"kind": "word", "vocabulary_size": 19}, r"at least 20 \(4 special symbols, 16 placeholders\)"),
        ({"kind": "wordpiece"}, "byte_bpe"),
        ({"minimum_frequency": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TokenizerSettings.model_validate(settings)


def test_a_vocabulary_of_bytes_with_another_character_is_refused(tokenizers):
    content = tokenizers["byte_bpe"].vocabulary.model_dump(mode="json")
    with pytest.raises(ValueError, match="256 characters"):
        Vocabulary.model_validate_json(json.dumps({**content, "pieces": [*content["pieces"], "寿"]}))


def test_both_sides_share_one_tokenizer_or_have_their_own(tmp_path):
    def pairs() -> Iterator[tuple[str, str]]:
        return zip(ENGLISH * 2, ITALIAN * 2, strict=True)

    joint = learn_tokenizers(pairs)
    apart = learn_tokenizers(pairs, TokenizerSettings(kind="word"))
    assert joint.joint
    assert not apart.joint
    assert apart.source.unknown_words("The gatto") == ["gatto"]
    assert apart.target.unknown_words("The gatto") == ["The"]
    for tokenizers in (joint, apart):
        folder = tmp_path / f"joint-{tokenizers.joint}"
        folder.mkdir()
        tokenizers.save(folder)
        loaded = Tokenizers.load(folder)
        assert loaded.joint == tokenizers.joint
        assert [side.identity for side in loaded] == [side.identity for side in tokenizers]


def test_a_folder_with_both_ways_or_one_side_only_is_refused(tokenizers, tmp_path):
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is missing"):
        Tokenizers.load(tmp_path)
    Tokenizers(tokenizers["bpe"], tokenizers["word"]).save(tmp_path)
    (tmp_path / "tokenizer.target.json").rename(tmp_path / "moved")
    with pytest.raises(TokenizerError, match=r"tokenizer\.target\.json is missing"):
        Tokenizers.load(tmp_path)
    tokenizers["bpe"].save(tmp_path / "tokenizer.json")
    with pytest.raises(TokenizerError, match="remove the wrong ones"):
        Tokenizers.load(tmp_path)


def edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts `value` at a dotted path, or deletes what is there if value is `...`."""

    def apply(content: dict[str, Any]) -> None:
        *groups, last = path.split(".")
        place: Any = content
        for group in groups:
            place = place[group]
        if value is ...:
            del place[last]
        else:
            place[int(last) if last.isdecimal() else last] = value

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit("format", 2), r"has format 2, newer than this version reads \(1\); upgrade dragoman"),
        (edit("format", ...), "not Dragoman's: it has no format number"),
        (edit("kind", "sentencepiece"), "kind should be .*byte_bpe"),
        (edit("kind", "unigram"), "kind 'unigram' has no merges"),
        (edit("kind", "byte_bpe"), "rules that this version does not know"),
        (edit("kind", "spacy"), "rules that this version does not know"),
        (edit("language", 7), "language should be a valid string, but is 7"),
        (edit("pattern", "[a"), "rules that this version does not know"),
        (edit("pattern", ...), "pattern must be given"),
        (edit("specials", []), "specials"),
        (edit("specials.end", "[UNK]"), "four different names"),
        (edit("specials.stop", "x"), "unknown setting specials.stop"),
        (edit("pieces", ...), "pieces must be given"),
        (edit("pieces", {"a": 1}), "pieces should be"),
        (edit("pieces.5", 7), "pieces.5 should be a valid string, but is 7"),
        (edit("pieces.5", "\u2000"), "reserved"),
        (edit("pieces.5", "a"), "listed twice"),
        (edit("pieces.5", ""), "empty"),
        (edit("pieces.5", "\ud800"), "surrogate"),
        (edit("merges", [["q", "zz"]]), "pieces that are not in the vocabulary"),
        (edit("merges", [["a"]]), "is damaged: merges.0"),
        (edit("scores", [0.0]), "kind 'unigram' has one score"),
        (edit("added_tokens", []), "unknown setting added_tokens"),
    ],
)
def test_a_wrong_tokenizer_file_is_refused_by_name(tokenizers, tmp_path, change, message):
    path = tmp_path / "tokenizer.json"
    tokenizers["bpe"].save(path)
    content = copy.deepcopy(json.loads(path.read_text()))
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=message) as refused:
        Tokenizer.load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("score", [float("nan"), float("-inf"), 1e300, "0", None])
def test_a_wrong_score_is_refused(tokenizers, tmp_path, score):
    tokenizers["unigram"].save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["scores"][3] = score
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match="score"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000, b'{"version": "1.0"}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json .*; dragoman train-tokenizer makes tokenizers"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_tokenizer_file_is_refused(tokenizers, kind, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizers[kind].save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, len(whole) // 7):
        path.write_bytes(whole[:size])
        with pytest.raises(TokenizerError, match="dragoman train-tokenizer makes tokenizers"):
            Tokenizer.load(path)


def test_normal_form_is_that_of_unicode(tokenizers):
    for text in (*HARD, *TEXTS):
        assert tokenizers["bpe"].normalise(text) == unicodedata.normalize("NFC", text)
        assert tokenizers["byte_bpe"].normalise(text) == text


def test_spacy_cuts_words_by_the_rules_of_the_language(tmp_path):
    pytest.importorskip("spacy", reason="needs the extra spacy")
    settings = TokenizerSettings(kind="spacy", minimum_frequency=1)
    tokenizer = learn_tokenizer(["L'uomo  dell'acqua, un po' tardi."], settings, language="it")
    text = "L'uomo dell'acqua, un pane."
    assert tokenizer.tokens(tokenizer.encode(text)) == ["L'", "uomo", "dell'", "acqua", ",", "un", "[UNK]", "."]
    assert [text[first:last] for first, last in tokenizer.offsets(text)][:4] == ["L'", "uomo", "dell'", "acqua"]
    assert tokenizer.unknown_words(text) == ["pane"]
    assert tokenizer.decode(tokenizer.encode("L'uomo dell'acqua.")) == "L'uomo dell'acqua."
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode(text) == tokenizer.encode(text)
    assert tokenizer.encode_batch(["", " ", "uomo"])[:2] == [[], []]
    with pytest.raises(ConfigError, match="no rules for the language 'qq'"):
        learn_tokenizer(["a"], settings, language="qq")
    with pytest.raises(TokenizerError, match="surrogate"):
        tokenizer.encode("\ud800")


def test_spacy_needs_a_language_and_its_extra(monkeypatch):
    settings = TokenizerSettings(kind="spacy")
    with pytest.raises(ConfigError, match="needs one language, such as 'it', and joint = false"):
        learn_tokenizer(["a"], settings)
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra, match=r"dragoman\[spacy\]"):
        learn_tokenizer(["a"], settings, language="xx-not-cached")


def test_running_text_has_the_same_ids_in_pieces(monkeypatch):
    rng = random.Random(1)
    texts = ["".join(rng.choices("aab'’ts  \n\n\t1,.\u0301é日\x1c\x85\u00a0-_re\r", k=200)) for _ in range(200)]
    for kind in (kind for kind in KINDS if kind != "word"):
        tokenizer = train(kind, [*texts[:20], *TEXTS], vocabulary_size=400)
        for length in (1, 7):
            monkeypatch.setattr(tokenizers_of_ours, "_RUNNING", length)
            for text in (*texts, "", " a b", "  "):
                pieces = [*tokenizer.encode_running(text)]
                assert [i for piece in pieces for i in piece] == tokenizer.encode(text)
            assert len([*tokenizer.encode_running("a b c " * 20)]) > 5


def test_quotes_are_paired():
    assert join_words(['"', "a", '"', "e", '"', "b", '"']) == '"a" e "b"'


TATOEBA = Path(__file__).parents[3] / "shared" / "data" / "tatoeba-en-it"


@pytest.mark.skipif(not TATOEBA.exists(), reason="needs ../shared/data/tatoeba-en-it")
@pytest.mark.parametrize("side", ["en", "it"])
def test_999_of_1000_real_sentences_survive_being_cut_into_words(side):
    texts = (TATOEBA / f"dev.{side}").read_text(encoding="utf-8").split("\n")[:-1]
    tokenizer = train("word", texts, minimum_frequency=1)
    kept = sum(tokenizer.decode(tokenizer.encode(text)) == text for text in texts)
    assert kept >= 0.999 * len(texts)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte_bpe", "character", "word"])
def test_languages_have_symbols_that_no_text_is_written_with(kind: Any, tmp_path: Path) -> None:
    plain = learn_tokenizer(TEXTS, TokenizerSettings(kind=kind, minimum_frequency=1))
    vocabulary = plain.vocabulary.model_copy(update={"languages": ("en", "pt-BR")})
    tokenizer = Tokenizer(vocabulary)
    text = ENGLISH[0]
    symbols = [plain.size, plain.size + 1]
    assert tokenizer.size == plain.size + 2 and [*tokenizer.languages.values()] == symbols
    assert tokenizer.encode(text) == plain.encode(text) and tokenizer.encode(f"a >>en<< {text}")[0] != symbols[0]
    assert tokenizer.encode_batch([f">>pt-BR<<{text}", text]) == [[symbols[1], *plain.encode(text)], plain.encode(text)]
    assert tokenizer.encode(f">>fr<<{text}") == plain.encode(f">>fr<<{text}"), "a language that it lacks is text"
    ids = tokenizer.encode(f">>en<<{text}")
    assert tokenizer.decode(ids) == plain.decode(ids[1:]) and tokenizer.tokens(ids)[0] == ">>en<<"
    assert tokenizer.spelling(ids[0]) == b"" and tokenizer.is_special(ids[0]) and not tokenizer.is_text(ids[0])
    assert tokenizer.offsets(f">>en<<{text}") == [(0, 6), *((a + 6, b + 6) for a, b in plain.offsets(text))]
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").identity == tokenizer.identity != plain.identity
    plain.save(tmp_path / "plain.json")
    assert "languages" not in json.loads((tmp_path / "plain.json").read_text()), "files of one pair stay as they were"
