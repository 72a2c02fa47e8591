"""Labelled text on disk and in batches: each label on the first piece of its word, each row once, no id lost."""

import logging
import random
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batching import Batches, LabelledBatch, LabelledBatches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_labelled, encode_lines
from dragoman.errors import DataError
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, UNKNOWN, Framing
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

WORDS = "dragoman dragomans stood between two worlds worldly stands and gave each other words , . l'".split()
TAGS = Labels(task="tag", names=("NOUN", "VERB", "PUNCT"))
TOPICS = Labels(task="classify", names=("animal", "drink", "food"))
MARIAN = Framing(source_before=())
Example = tuple[list[str], list[str]]


@cache
def tagged(count: int = 150) -> list[Example]:
    """Sentences of 1 to 30 words at random, each with a label at random."""
    dice = random.Random(3)
    lengths = [dice.randint(1, 30) for _ in range(count)]
    return [(dice.choices(WORDS, k=n), dice.choices(TAGS.names, k=n)) for n in lengths]


@cache
def classified(count: int = 150) -> list[Example]:
    dice = random.Random(5)
    return [([" ".join(words)], [dice.choice(TOPICS.names)]) for words, _ in tagged(count)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    subwords = TokenizerSettings(kind="bpe", vocabulary_size=290)
    return learn_tokenizer([" ".join(words) for words, _ in tagged()], subwords)


@pytest.fixture(scope="module")
def of_words(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return encode_labelled(tagged(), tokenizer, TAGS, tmp_path_factory.mktemp("words") / "corpus")


@pytest.fixture(scope="module")
def of_texts(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return encode_labelled(classified(), tokenizer, TOPICS, tmp_path_factory.mktemp("texts") / "corpus")


def plain_batch(rows: np.ndarray, tokenizer: Tokenizer, framing: Framing, of_words: bool) -> LabelledBatch:
    """What `LabelledBatches.batch` gives, with loops over the text itself."""
    source, lengths, chosen, labels = [], [], [], []
    for row in rows:
        parts, names = (tagged() if of_words else classified())[row]
        first = len(source)
        source += framing.source_before
        for part, name in zip(parts, names, strict=True):
            chosen.append(len(source))
            source += tokenizer.encode(part)
            labels.append((TAGS if of_words else TOPICS).names.index(name))
        source += framing.source_after
        lengths.append(len(source) - first)
    return LabelledBatch(
        torch.tensor(source),
        torch.tensor(lengths),
        torch.tensor(chosen) if of_words else None,
        torch.tensor(labels),
        torch.tensor(rows),
    )


@pytest.mark.parametrize("framing", [DEFAULT_FRAMING, MARIAN], ids=["symbols on both sides", "one after"])
@pytest.mark.parametrize("kind", ["of_words", "of_texts"])
def test_a_batch_is_what_plain_loops_over_the_text_give(
    kind: str, framing: Framing, tokenizer: Tokenizer, request: pytest.FixtureRequest
) -> None:
    batches = LabelledBatches(Batches(request.getfixturevalue(kind), framing=framing))
    assert any(len(tokenizer.encode(word)) > 1 for word in WORDS), "some words have several pieces"
    for rows in ([0], [149], [5, 3, 149, 0], range(150)):
        rows = np.array(rows)
        found, plain = batches.batch(rows), plain_batch(rows, tokenizer, framing, kind == "of_words")
        for name, tensor in vars(plain).items():
            other = getattr(found, name)
            assert other is tensor is None or torch.equal(other, tensor), name
        assert found.labels.dtype == torch.int64


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("kind", ["of_words", "of_texts"])
def test_every_row_is_in_an_epoch_once_and_sizes_are_what_batches_have(
    kind: str, seed: int | None, request: pytest.FixtureRequest
) -> None:
    batches = LabelledBatches(Batches(request.getfixturevalue(kind), batch_tokens=200, seed=seed))
    seen, tokens = [], 0
    for rows in batches.epoch(0):
        size, batch = batches.size_of(rows), batches.batch(rows)
        assert (size.source_tokens, size.target_tokens) == (len(batch.source), len(batch.labels))
        assert size.source_tokens <= 200 and torch.equal(size.pairs, batch.pairs)
        seen += rows.tolist()
        tokens += size.tokens
    assert sorted(seen) == list(range(150))
    assert batches.tokens == tokens


def test_rows_that_are_too_long_are_left_out_counted_and_reported(
    of_words: EncodedCorpus, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        batches = LabelledBatches(Batches(of_words, sentence_tokens=20, seed=1))
    lengths = np.array([sum(len(tokenizer.encode(word)) for word in words) for words, _ in tagged()])
    kept = np.flatnonzero(lengths <= 20)
    assert 0 < len(kept) < 150
    assert sorted(np.concatenate([*batches.epoch(0)])) == kept.tolist()
    assert f"{150 - len(kept)} of 150" in caplog.text


def test_a_batch_moves_to_a_device_and_its_lengths_stay_with_the_host(
    of_words: EncodedCorpus, of_texts: EncodedCorpus
) -> None:
    for corpus in (of_words, of_texts):
        moved = LabelledBatches(Batches(corpus)).batch(np.array([1, 2])).to("meta")
        for name, tensor in vars(moved).items():
            far = name in ("source", "chosen", "labels")
            assert tensor is None or tensor.device.type == ("meta" if far else "cpu"), name


# On disk


def test_words_that_the_tokenizer_gives_no_piece_are_unknown(tokenizer: Tokenizer) -> None:
    assert encode_words([["", "two"], []], tokenizer) == [[[UNKNOWN], tokenizer.encode("two")], []]


def test_an_unknown_label_is_refused_and_nothing_is_left(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the model has no label 'VREB'; its 3 labels are"):
        encode_labelled([(["two"], ["VREB"])], tokenizer, TAGS, tmp_path / "corpus")
    with pytest.raises(DataError, match="there is nothing to encode"):
        encode_labelled([], tokenizer, TAGS, tmp_path / "corpus")
    assert not [*tmp_path.iterdir()]


LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1).filter(any)


@settings(max_examples=30)
@given(LINES, st.integers(1, 9))
def test_long_lines_are_cut_without_losing_an_id(tokenizer: Tokenizer, lines: list[str], length: int) -> None:
    with TemporaryDirectory() as folder:
        corpus = encode_lines(lines, tokenizer, Path(folder) / "corpus", length)
        assert corpus.source is not None
        rows = [corpus.source.row(number).tolist() for number in range(len(corpus))]
    assert max(map(len, rows)) <= length and all(rows)
    ids = [tokenizer.encode(line) for line in lines]
    assert [*chain.from_iterable(rows)] == [*chain.from_iterable(ids)]
    assert len(rows) == sum(-(-len(row) // length) for row in ids)


def test_lines_have_no_targets_and_are_checked_as_pairs_are(tokenizer: Tokenizer, tmp_path: Path) -> None:
    corpus = encode_lines(["two worlds", "each other"], tokenizer, tmp_path / "corpus", 256)
    assert corpus.labels_only and corpus.labelled is None and not len(corpus.target.ids)
    EncodedCorpus.open(tmp_path / "corpus").verify()
    (tmp_path / "corpus" / "source.ids").write_bytes(bytes(len((tmp_path / "corpus" / "source.ids").read_bytes())))
    with pytest.raises(DataError, match=r"source\.ids is damaged"):
        EncodedCorpus.open(tmp_path / "corpus").verify()


def test_identities_tell_labels_and_what_they_are_on_apart(tokenizer: Tokenizer, tmp_path: Path) -> None:
    examples = [(["two"], ["food"]), (["words"], ["drink"])]
    turned = Labels(task="classify", names=TOPICS.names[::-1])
    on_words = Labels(task="tag", names=TOPICS.names)
    warmer = TOPICS.but(temperature=2.0)
    first, other, words, same = (
        encode_labelled(examples, tokenizer, labels, tmp_path / str(number)).identity
        for number, labels in enumerate((TOPICS, turned, on_words, warmer))
    )
    assert len({first, other, words}) == 3
    assert same == first, "a temperature changes no id"
