"""Averages of a model before and after fine-tuning: the arithmetic, the dial, and what has no average."""

from pathlib import Path
from typing import Any

import pytest
import torch
from families import Trained
from small_runs import some_pairs, train_small, write_corpus

from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.runs.fine_tune import fine_tune
from dragoman.store.folder import load_model
from dragoman.store.merging import average, interpolate
from dragoman.store.tensors import named_weights


def test_the_ends_of_the_dial_are_the_models_and_the_middle_lies_between() -> None:
    one, other = {"a": torch.randn(3, 4), "b": torch.randn(5)}, {"a": torch.randn(3, 4), "b": torch.randn(5)}
    for share, same in ((0.0, one), (1.0, other)):
        assert all(torch.equal(weight, same[name]) for name, weight in interpolate(one, other, share).items())
    for name, weight in interpolate(one, other, 0.3).items():
        torch.testing.assert_close(weight, 0.7 * one[name] + 0.3 * other[name])


@pytest.fixture(scope="module")
def before(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("two_verbs", tmp_path_factory.mktemp("before"))


def tuned(before: Path, folder: Path, *overrides: str) -> Path:
    data = write_corpus(folder / "new.tsv", some_pairs(60, verbs=["loves", "fears"]))
    given = ["data.dev_size=4", "data.test_size=4", "decode.beam_size=1", "train.steps=4", "train.precision=float32"]
    options: dict[str, Any] = {"overrides": [*given, *overrides], "runs": folder / "runs", "device": "cpu"}
    return fine_tune(before, str(data), **options).folder


def weights(model: Path) -> dict[str, torch.Tensor]:
    return named_weights(load_model(model).model)


@pytest.mark.parametrize("how", ["full", "lora"])
def test_each_weight_lies_between_those_of_both_models(how: str, before: Path, tmp_path: Path) -> None:
    after = tuned(before, tmp_path, *(["tuning.lora.rank=2"] if how == "lora" else []))
    assert average(before, after, tmp_path / "model", share=0.25) == tmp_path / "model"
    for name, weight in interpolate(weights(before), weights(after), 0.25).items():
        assert torch.equal(weights(tmp_path / "model")[name], weight)
    assert "0.25 of the latter" in (tmp_path / "model" / "README.md").read_text()


def test_what_has_no_average_is_refused(before: Path, tmp_path: Path) -> None:
    after = tuned(before, tmp_path)
    with pytest.raises(ConfigError, match=r"--share must be from 0, .* to 1, .*but is 1.5"):
        average(before, after, tmp_path / "model", share=1.5)
    other = train_small(tmp_path / "other", "model.d_ff=48").folder
    with pytest.raises(ConfigError, match=r"differ in architecture \(model.* is .* and .*\), so they have no average"):
        average(before, other, tmp_path / "model", share=0.5)
    write_corpus(
        tmp_path / "third" / "corpus.tsv", [(one, two[::-1]) for one, two in some_pairs(verbs=["sees", "seeks"])]
    )
    third = train_small(tmp_path / "third").folder
    with pytest.raises(ConfigError, match=r"have different vocabularies|differ in architecture \(model.*vocabulary"):
        average(before, third, tmp_path / "model", share=0.5)
    with pytest.raises(DataError, match="exists"):
        average(before, after, before, share=0.5)
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        average(before, tmp_path / "nowhere", tmp_path / "model", share=0.5)
    assert not (tmp_path / "model").exists()
