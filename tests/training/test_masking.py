"""Masked words: as many as the paper says, a pure function of seed, step and token, and never a symbol."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.data.batching import Batches, LabelledBatch
from dragoman.data.encoding import encode_lines
from dragoman.model.dropout import StepKey
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, MASK, SYMBOLS, Framing
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer
from dragoman.training.masking import MaskedBatches, mask, masked_counts

LENGTHS = [1, 2, 3, 9, 10, 11, 17, 23, 40, 100] * 6
VOCABULARY = 66
WORDS = [
    chr(ord("a") + number // 26) + chr(ord("a") + number % 26)
    for number in range(VOCABULARY - SYMBOLS - len(PLACEHOLDERS))
]
MARIAN = Framing(source_before=())
KEY = StepKey(3, 7)


def texts_in(folder: Path, framing: Framing = DEFAULT_FRAMING) -> MaskedBatches:
    """Texts of these lengths, of words at random."""
    words = np.random.RandomState(1).choice(WORDS, sum(LENGTHS)).tolist()
    tokenizer = learn_tokenizer([" ".join(WORDS)], TokenizerSettings(kind="word", minimum_frequency=1))
    assert tokenizer.size == VOCABULARY
    lines = [" ".join(words.pop() for _ in range(length)) for length in LENGTHS]
    return MaskedBatches(Batches(encode_lines(lines, tokenizer, folder / "corpus", 256), framing=framing))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> MaskedBatches:
    return texts_in(tmp_path_factory.mktemp("masking"))


def hidden(batch: LabelledBatch) -> Tensor:
    """The tokens of a masked batch that are predicted."""
    assert batch.chosen is not None
    return batch.source[batch.chosen]


def step(batches: MaskedBatches, parts: list[np.ndarray], dropout_key: StepKey) -> tuple[list[int], list[int]]:
    """What a step sees, and the labels that it predicts, if its texts come in these parts."""
    source, labels = [], []
    for rows in parts:
        size, batch = batches.size_of(rows), mask(batches.batch(rows), dropout_key, VOCABULARY)
        assert (size.source_tokens, size.target_tokens) == (len(batch.source), len(batch.labels))
        source += batch.source.tolist()
        labels += batch.labels.tolist()
        dropout_key = dropout_key.after(size.source_tokens, size.target_tokens)
    return source, labels


def test_a_step_is_masked_the_same_however_it_is_cut(texts: MaskedBatches) -> None:
    rows = np.arange(len(LENGTHS))
    whole = step(texts, [rows], KEY)
    assert step(texts, [rows[:1], rows[1:13], rows[13:]], KEY) == whole
    assert step(texts, np.split(rows, len(rows)), KEY) == whole


@pytest.mark.parametrize("other", [StepKey(3, 8), StepKey(4, 7), StepKey(3, 7, source_first=1)])
def test_other_steps_seeds_and_places_hide_other_tokens(other: StepKey, texts: MaskedBatches) -> None:
    batch = texts.batch(np.arange(len(LENGTHS)))
    first, second = (mask(batch, dropout_key, VOCABULARY) for dropout_key in (KEY, other))
    assert first.chosen is not None and second.chosen is not None
    shared = np.intersect1d(first.chosen, second.chosen).size
    assert shared < len(first.chosen) / 2


@pytest.mark.parametrize("framing", [DEFAULT_FRAMING, MARIAN], ids=["symbols on both sides", "one after"])
def test_of_each_text_so_many_tokens_are_chosen_and_no_symbol(framing: Framing, tmp_path: Path) -> None:
    batches, seen = texts_in(tmp_path, framing), set[int]()
    plain = batches.batch(np.arange(len(LENGTHS)))
    ends = plain.source_lengths.cumsum(0)
    for number in range(40):
        masked = mask(plain, StepKey(1, number), VOCABULARY)
        assert masked.chosen is not None
        assert masked.chosen.tolist() == sorted(set(masked.chosen.tolist()))
        counts = torch.bincount(torch.searchsorted(ends, masked.chosen, right=True), minlength=len(LENGTHS))
        assert counts.tolist() == [max(1, round(0.15 * length)) for length in LENGTHS]
        seen |= set(masked.chosen.tolist())
    before = len(framing.source_before)
    firsts = (ends - plain.source_lengths).tolist()
    words = {first + before + i for first, length in zip(firsts, LENGTHS, strict=True) for i in range(length)}
    assert seen <= words, "a symbol was chosen"
    assert len(seen) > 0.98 * len(words), "any word may be chosen"


def test_labels_are_the_words_that_stood_there_and_no_other_token_changes(texts: MaskedBatches) -> None:
    plain = texts.batch(np.arange(len(LENGTHS)))
    kept = plain.source.clone()
    masked = mask(plain, KEY, VOCABULARY)
    assert masked.chosen is not None
    assert torch.equal(masked.labels, plain.source[masked.chosen])
    elsewhere = torch.ones(len(kept), dtype=torch.bool).index_fill(0, masked.chosen, False)
    assert torch.equal(masked.source[elsewhere], plain.source[elsewhere])
    assert torch.equal(plain.source, kept), "the batch itself is left as it was"
    assert torch.equal(masked.source_lengths, plain.source_lengths)


def test_a_text_of_one_token_is_predicted_whole(texts: MaskedBatches) -> None:
    for number in range(20):
        batch = mask(texts.batch(np.array([0])), StepKey(1, number), VOCABULARY)
        assert batch.chosen is not None and batch.chosen.tolist() == [1] and len(batch.source) == 3


def test_four_fifths_become_the_mask_a_tenth_a_random_word_and_a_tenth_stay(texts: MaskedBatches) -> None:
    """To five standard deviations of about 29,000 draws; a random word is the old one once in 46."""
    plain = texts.batch(np.arange(len(LENGTHS)))
    batches = [mask(plain, StepKey(2, number), VOCABULARY) for number in range(150)]
    now, labels = torch.cat([hidden(batch) for batch in batches]), torch.cat([batch.labels for batch in batches])
    words = VOCABULARY - SYMBOLS
    shares = {
        0.8: now == MASK,
        0.1 * (1 - 1 / words): (now != MASK) & (now != labels),
        0.1 * (1 + 1 / words): now == labels,
    }
    for share, found in shares.items():
        assert abs(found.double().mean() - share) < 5 * math.sqrt(share * (1 - share) / len(now))
    random = now[(now != MASK) & (now != labels)]
    assert random.min() == SYMBOLS and random.max() == VOCABULARY - 1
    assert torch.bincount(random)[SYMBOLS:].min() > 0, "any word may stand there, and no symbol"


def test_texts_without_a_token_are_never_asked_for_one() -> None:
    assert masked_counts(torch.tensor([0, 1, 6, 7, 10, 30])).tolist() == [0, 1, 1, 1, 2, 4]
