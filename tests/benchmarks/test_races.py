"""Conditions of the races of classifiers and taggers: targets at the right positions, and every text once."""

from typing import Any

import pytest
import torch
from labelled import Example
from peers.torch_labels import IGNORED, Labeller, Texts

from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import PADDING
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

TAGGED: list[Example] = [
    (["unfathomable", "cat", "!"], ["ADJ", "NOUN", "PUNCT"]),
    (["a", "dog"], ["DET", "X"]),
    (["cats"], ["NOUN"]),
]
TAGS = Labels(task="tag", names=("ADJ", "DET", "NOUN", "PUNCT"))
MODEL: dict[str, Any] = {
    "source_vocabulary": 40, "labels": 4, "d_model": 16, "encoder_layers": 2, "heads": 2, "d_ff": 16, "dropout": 0.1,
    "activation": "swiglu", "activation_dropout": 0.0, "attention_dropout": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(iter(["a cat !", "a dog", "the cats"]), TokenizerSettings(vocabulary_size=300))


def test_a_label_stands_at_the_first_piece_of_its_word_and_nowhere_else(tokenizer: Tokenizer) -> None:
    batch = Texts.from_examples(TAGGED, tokenizer, TAGS).batch([1, 0])
    pieces = encode_words([words for words, _ in TAGGED], tokenizer)
    assert len(pieces[0][0]) > 1
    for target, ids, words, names in (
        (batch.targets[0], batch.ids[0], pieces[1], [1, IGNORED]),  # no training text has the tag X
        (batch.targets[1], batch.ids[1], pieces[0], [0, 2, 3]),
    ):
        expected = [
            target for name, word in zip(names, words, strict=True) for target in [name] + [IGNORED] * (len(word) - 1)
        ]
        rest = [IGNORED] * (len(ids) - len(expected))
        assert target.tolist() == expected + rest
        assert ids.tolist() == [piece for word in words for piece in word] + [PADDING] * len(rest)


def test_an_epoch_has_every_text_once_in_batches_that_fit(tokenizer: Tokenizer) -> None:
    examples: list[Example] = [([" ".join(["cat"] * (1 + n % 7))], ["NOUN"]) for n in range(200)]
    texts = Texts.from_examples(examples, tokenizer, Labels(task="classify", names=("NOUN", "ADJ")))
    epochs = [texts.batches(40, epoch) for epoch in (None, 1, 2)]
    for batches in epochs:
        assert sorted(row for rows in batches for row in rows) == [*range(200)]
        assert all(texts.batch(rows).ids.numel() <= 40 for rows in batches)
    assert epochs[1] != epochs[2]


@pytest.mark.parametrize("of_words", [False, True])
def test_more_padding_does_not_change_what_the_other_side_says(of_words: bool) -> None:
    torch.manual_seed(1)
    model = Labeller(MODEL, 12, of_words).double().eval()
    ids = torch.tensor([[7, 8, 9, 10], [11, 12, PADDING, PADDING]])
    with torch.no_grad():
        padded, alone = model(ids)[1], model(ids[1:, :2])[0]
    torch.testing.assert_close(padded[:2] if of_words else padded, alone)


def test_the_layers_of_the_other_side_begin_with_different_weights() -> None:
    first, second = (layer.state_dict() for layer in Labeller(MODEL, 12, False).encoder.layers)
    assert not torch.equal(first["linear1.weight"], second["linear1.weight"])
    assert not torch.equal(first["self_attn.in_proj_weight"], second["self_attn.in_proj_weight"])
