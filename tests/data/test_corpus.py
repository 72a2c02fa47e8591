"""Encoded corpora: what is written comes back, opens without reading, and is refused where it is broken."""

import json
from pathlib import Path

import numpy as np
import pytest
from small import Counting

from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus, encode_text
from dragoman.errors import DataError, TokenizerError
from dragoman.text.prepared import read_pairs
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer, learn_tokenizers

PAIRS = [
    ("The cat sleeps.", "Il gatto dorme."),
    ("Where is the station?", "Dov'è la stazione?"),
    ("", "vuoto"),
    ("A 寿司 restaurant 🙂", "Un ristorante"),
] * 5


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn_tokenizers(lambda: PAIRS)


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    return learn_tokenizer(["abc"], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))


@pytest.fixture
def folder(tokenizers, tmp_path) -> Path:
    encode_corpus(PAIRS, tokenizers, tmp_path / "corpus")
    return tmp_path / "corpus"


def test_every_pair_comes_back_as_the_tokenizers_encode_it(folder, tokenizers):
    corpus = EncodedCorpus.open(folder)
    assert len(corpus) == len(PAIRS)
    for number, (source, target) in enumerate(PAIRS):
        ids = corpus.pair(number)
        assert ids[0].tolist() == tokenizers.source.encode(source)
        assert ids[1].tolist() == tokenizers.target.encode(target)
        assert corpus.target.lengths(np.array([number])).tolist() == [len(ids[1])]


def test_each_side_is_encoded_by_its_own_tokenizer(tmp_path):
    apart = learn_tokenizers(lambda: PAIRS, TokenizerSettings(joint=False))
    corpus = encode_corpus(PAIRS, apart, tmp_path / "corpus")
    source, target = PAIRS[0]
    assert corpus.pair(0)[0].tolist() == apart.source.encode(source) != apart.target.encode(source)
    assert corpus.pair(0)[1].tolist() == apart.target.encode(target) != apart.source.encode(target)


def test_ids_are_mapped_not_read(folder):
    corpus = EncodedCorpus.open(folder)
    assert isinstance(corpus.target.ids, np.memmap)
    assert not corpus.target.ids.flags.writeable


def test_another_process_gets_the_place_of_a_corpus_not_its_ids(folder):
    corpus = EncodedCorpus.open(folder)
    type_, arguments = corpus.__reduce__()
    opened = type_(*arguments)
    assert arguments == (folder, corpus.facts) and opened.identity == corpus.identity
    assert all((opened.pair(i)[0] == corpus.pair(i)[0]).all() for i in range(len(corpus)))


def test_small_vocabularies_take_two_bytes_an_id(folder, tmp_path):
    assert EncodedCorpus.open(folder).target.ids.dtype == np.uint16
    many = learn_tokenizer([" ".join(map(str, range(70_000)))], TokenizerSettings(kind="word", minimum_frequency=1))
    corpus = encode_corpus([("69999", "0 69999")], Tokenizers(many, many), tmp_path / "large")
    assert corpus.target.ids.dtype == np.int32
    assert many.decode(corpus.pair(0)[1].tolist()) == "0 69999"


def test_chunks_leave_no_trace(tokenizers, tmp_path, monkeypatch):
    whole = encode_corpus(PAIRS, tokenizers, tmp_path / "whole")
    monkeypatch.setattr("dragoman.data.encoding._CHUNK", 3)
    assert encode_corpus(iter(PAIRS), tokenizers, tmp_path / "chunked").identity == whole.identity


def test_a_file_of_json_lines_is_the_same_as_its_pairs(folder, tokenizers, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS), encoding="utf-8")
    again = encode_corpus(read_pairs(path), tokenizers, tmp_path / "again")
    assert again.identity == EncodedCorpus.open(folder).identity


def test_identity_tells_other_text_and_other_tokenizers_apart(folder, tokenizers, tmp_path):
    words = learn_tokenizers(lambda: PAIRS, TokenizerSettings(kind="word"))
    identities = {
        EncodedCorpus.open(folder).identity,
        encode_corpus(PAIRS[::-1], tokenizers, tmp_path / "reversed").identity,
        encode_corpus(PAIRS, words, tmp_path / "words").identity,
    }
    assert len(identities) == 3


def test_progress_counts_every_pair(tokenizers, tmp_path):
    counting = Counting()
    encode_corpus(PAIRS, tokenizers, tmp_path / "corpus", counting)
    assert counting.done == {"encode": len(PAIRS)}


@pytest.mark.parametrize(
    "line", [b"", b"x", b"[1, 2]", b'["a"]', b'["a", "b", "c"]', b'{"a": 1}', b"3", b"null", b'"ab"', b'["\xff", "b"]']
)
def test_a_line_that_is_no_pair_is_named(tokenizers, tmp_path, line):
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'["a", "b"]\n' + line + b"\n")
    with pytest.raises(DataError, match=r"train\.jsonl:2 is not a JSON list"):
        encode_corpus(read_pairs(path), tokenizers, tmp_path / "corpus")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["train.jsonl"]


@pytest.mark.parametrize("pairs", [[], [("", "")], [("a", "")]])
def test_nothing_to_encode_is_refused(tokenizers, tmp_path, pairs):
    with pytest.raises(DataError, match="nothing to encode"):
        encode_corpus(pairs, tokenizers, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_half_a_surrogate_pair_is_refused_and_leaves_nothing(tokenizers, tmp_path):
    with pytest.raises(TokenizerError, match="surrogate"):
        encode_corpus([("a", "b"), ("a", "\ud800")], tokenizers, tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []


def test_missing_files_and_folders_that_exist_are_refused(folder, tokenizers, tmp_path):
    with pytest.raises(DataError, match="exists already"):
        encode_corpus(PAIRS, tokenizers, folder)
    with pytest.raises(DataError, match=r"none\.jsonl cannot be read"):
        encode_corpus(read_pairs(tmp_path / "none.jsonl"), tokenizers, tmp_path / "new")
    with pytest.raises(DataError, match=r"corpus\.json is missing; encode the corpus again"):
        EncodedCorpus.open(tmp_path)


@pytest.mark.parametrize("name", ["source.ids", "source.offsets", "target.ids", "target.offsets"])
def test_a_cut_or_missing_file_is_refused(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=f"{name} has .* bytes, but must have"):
        EncodedCorpus.open(folder)
    path.unlink()
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        EncodedCorpus.open(folder)


def test_offsets_that_do_not_fit_are_refused(folder):
    offsets = np.fromfile(folder / "target.offsets", "<i8")
    offsets[[1, 2]] = offsets[[2, 1]]
    offsets.tofile(folder / "target.offsets")
    with pytest.raises(DataError, match="damaged"):
        EncodedCorpus.open(folder).target.lengths(np.arange(2))
    offsets[-1] += 1
    offsets.tofile(folder / "target.offsets")
    with pytest.raises(DataError, match="does not belong"):
        EncodedCorpus.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, r"format 2, newer than this version reads \(1\)"),
        ({"rows": 0}, "rows should be"),
        ({"rows": "many"}, "rows should be"),
        ({"windows": None}, "windows should be"),
        ({"target": {"tokens": 1}}, "target.dtype must be given"),
        ({"speed": 1}, "unknown setting speed"),
        ({"rows": 10**12}, "bytes, but must have"),
    ],
)
def test_a_wrong_corpus_file_is_refused_by_name(folder, change, message):
    path = folder / "corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message) as refused:
        EncodedCorpus.open(folder)
    assert str(folder) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"3", b"[" * 100_000])
def test_a_file_that_is_no_corpus_is_refused(folder, content):
    (folder / "corpus.json").write_bytes(content)
    with pytest.raises(DataError, match=r"corpus\.json"):
        EncodedCorpus.open(folder)


@pytest.mark.parametrize("length", [1, 2, 5, 10, 11, 12, 100])
def test_windows_predict_every_id_but_the_first_once(characters, tmp_path, length):
    text = "hello world!"
    corpus = encode_text(text, characters, tmp_path / "text", length)
    predicted = [i for number in range(len(corpus)) for i in corpus.target.row(number)[1:].tolist()]
    assert corpus.source is None
    assert corpus.windows
    assert corpus.target.lengths(np.arange(len(corpus))).max() <= length + 1
    assert corpus.target.row(0)[0] == characters.encode(text)[0]
    assert predicted == characters.encode(text)[1:]
    others = {other: encode_text(text, characters, tmp_path / f"{other}", other) for other in (1, 4, 10, 11, 200)}
    rows = corpus.target.offsets.tolist()
    assert all(other.has_windows_of(length) == (other.target.offsets.tolist() == rows) for other in others.values())


def test_a_text_of_one_id_has_nothing_to_predict(characters, tmp_path):
    with pytest.raises(DataError, match="nothing to encode"):
        encode_text("a", characters, tmp_path / "text", 5)
