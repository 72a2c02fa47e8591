"""What the races of classifiers and taggers rest on: targets in their places, every text once, the same text for all,
and claims that three seeds bear out.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from labelled import SETS, Example, read, seed_interval
from peers.torch_labels import IGNORED, Labeller, Texts
from starts import Cell, close_cells, part, verdict, write_text

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
    batch = Texts.of(TAGGED, tokenizer, TAGS).batch([1, 0])
    pieces = encode_words([words for words, _ in TAGGED], tokenizer)
    assert len(pieces[0][0]) > 1
    for target, ids, words, names in (
        (batch.targets[0], batch.ids[0], pieces[1], [1, IGNORED]),  # no training text has the tag X
        (batch.targets[1], batch.ids[1], pieces[0], [0, 2, 3]),
    ):
        expected = [
            each for name, word in zip(names, words, strict=True) for each in [name] + [IGNORED] * (len(word) - 1)
        ]
        rest = [IGNORED] * (len(ids) - len(expected))
        assert target.tolist() == expected + rest
        assert ids.tolist() == [piece for word in words for piece in word] + [PADDING] * len(rest)


def test_an_epoch_has_every_text_once_in_batches_that_fit(tokenizer: Tokenizer) -> None:
    examples: list[Example] = [([" ".join(["cat"] * (1 + n % 7))], ["NOUN"]) for n in range(200)]
    texts = Texts.of(examples, tokenizer, Labels(task="classify", names=("NOUN", "ADJ")))
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


def test_a_tenth_is_drawn_once_and_dev_and_test_stay_whole(tmp_path: Path) -> None:
    data = tmp_path / "data" / SETS["trec-coarse"].folder
    data.mkdir(parents=True)
    lines = [f"{'NUM:dist' if n % 2 else 'HUM:ind'} Question {n} ?\n" for n in range(400)]
    (data / "train.txt").write_text("".join(lines), encoding="utf-8")
    (data / "test.txt").write_text("NUM:count How many ?\nHUM:ind Who ?\n", encoding="utf-8")
    folders = [write_text("trec-coarse", percent, data.parent, tmp_path / "runs") for percent in (10, 100)]
    tenth, whole = ({split: lines_of(folder, split) for split in ("train", "dev", "test")} for folder in folders)
    assert [tenth[split] for split in ("dev", "test")] == [whole[split] for split in ("dev", "test")]
    assert len(tenth["train"]) == round(len(whole["train"]) / 10)
    places = [whole["train"].index(line) for line in tenth["train"]]
    assert places == sorted(set(places))
    prepared = read(tmp_path / "runs" / "text" / "trec-coarse", "classify", "train")
    assert [({"text": text, "label": label}) for (text,), (label,) in prepared] == whole["train"]
    assert {line["label"] for line in tenth["train"]} == {"NUM", "HUM"}
    assert part(prepared, 10) == part(prepared, 10) != part(prepared, 10, seed=2)


def lines_of(folder: Path, split: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_start_is_a_gain_only_where_its_interval_clears_that_of_none() -> None:
    without = [80.0, 80.4, 80.2]
    low, high = seed_interval(without)
    assert (low, high) == pytest.approx((80.2 - 0.4968, 80.2 + 0.4968), abs=1e-3)  # t of two degrees is 4.303
    assert verdict([82.0, 82.1, 82.2], without) == "gain"
    assert verdict([79.0, 79.1, 79.2], without) == "loss"
    assert verdict([79.0, 85.0, 82.0], without) == verdict([80.9, 81.0, 80.8], without) == "not shown"
    assert verdict([99.0], without) == verdict([99.0, 99.0], [1.0]) == "screened"


def test_near_starts_take_more_seeds_and_so_does_no_start_beside_them(tmp_path: Path) -> None:
    cells = [Cell("sst2", percent, start) for percent in (10, 100) for start in ("none", "fill", "translation")]
    for cell, score in zip(cells, (70.0, 75.0, 68.5, 80.0, 83.0, 77.0), strict=True):
        scores = cell.run(tmp_path, 1).scores
        scores.parent.mkdir()
        evaluations = [{"system": "best", "scores": {"accuracy": {"value": score}}}]
        scores.write_text(json.dumps({"evaluations": evaluations, "baselines": []}), encoding="utf-8")
    assert close_cells(cells, [], tmp_path) == [cells[0], cells[2]]
    assert close_cells(cells, ["sst2-100-fill"], tmp_path) == [cells[3], cells[4]]
    assert set(close_cells(cells, ["all"], tmp_path)) == set(cells)
