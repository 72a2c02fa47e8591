"""What a validation tells of a model besides its scores, and the warning of one that has learnt next to nothing."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import SETTINGS, some_pairs, train_small, write_corpus

from dragoman.runs import train as run
from dragoman.runs import translation as validation
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.translation import SIGNS, signs_of_nothing

YOUNG = "has learned next to nothing"


def facts(bleu: float, chrf: float, **shares: float) -> dict[str, float]:
    return {"dev_bleu": bleu, "dev_chrf": chrf, **{f"dev_{name}": share for name, share in shares.items()}}


@pytest.mark.parametrize(
    ("found", "signs"),
    [
        (facts(0.3, 8.1), "BLEU 0.3 and chrF 8.1 on the dev set"),
        (facts(0.3, 8.1, truncated=0.62, same=0.1),
         "BLEU 0.3 and chrF 8.1 on the dev set, 62% of the translations do not end by themselves"),
        (facts(1.2, 22.0, repetition=0.4, same=0.25),
         "BLEU 1.2 and chrF 22.0 on the dev set, 40% of the translations repeat some words over and over, "
         "25% of the translations are one and the same text"),
        (facts(4.7, 27.0, truncated=0.05), None),  # hard text, of which something was learnt
        (facts(21.6, 42.5, truncated=0.5), None),
        (facts(96.4, 98.1), None),
        ({"dev_bleu": None, "dev_chrf": None}, None),
        ({"loss": 1.0}, None),
    ],
)  # fmt: skip
def test_signs_are_told_where_a_model_has_learnt_nothing(found: Any, signs: str | None) -> None:
    assert signs_of_nothing(found) == signs


def test_a_run_of_a_few_steps_says_that_it_was_too_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "FEW_PAIRS", 100)
    folder = train_small(tmp_path).folder
    (said,) = [record for record in caplog.records if YOUNG in record.getMessage()]
    assert said.levelno == logging.WARNING
    assert f"dragoman train {folder} --more --minutes 20" in said.getMessage()
    assert "on the dev set" in said.getMessage()
    card = (folder / "best" / "README.md").read_text()
    assert f"**It {YOUNG}**: BLEU" in card
    (line, *_) = [line for line in read_metrics(folder) if "dev_bleu" in line]
    for name in SIGNS:
        assert 0 <= line[f"dev_{name}"] <= 1


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_loss_on_the_dev_set_is_taken_in_the_precision_of_the_run(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[torch.dtype] = []
    original = validation.mean_loss
    monkeypatch.setattr(
        validation, "mean_loss", lambda model, batches: used.append(model.output.dtype) or original(model, batches)
    )
    train_small(tmp_path, f"train.precision={precision}", "train.steps=2", "train.validate_every=2")
    assert used == [torch.bfloat16 if precision == "bf16" else torch.float32]


def test_few_pairs_are_said_to_be_too_few(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train_small(tmp_path)
    assert f"{YOUNG} (BLEU" in caplog.text
    assert "184 pairs are too few for a model from scratch" in caplog.text


def test_a_model_that_has_learnt_says_nothing_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = write_corpus(tmp_path / "corpus.tsv", some_pairs(400))
    settings = [setting for setting in SETTINGS if not setting.startswith(("train.steps", "train.validate_every"))]
    overrides = ("train.steps=150", "train.validate_every=50", "model.d_model=32", "model.d_ff=64", "model.dropout=0.0")
    found = run.train(text, overrides=[*settings, *overrides], runs=tmp_path, device="cpu")
    assert found.evaluations[0].scores["bleu"].value > validation.POOR_BLEU
    assert YOUNG not in caplog.text + (found.folder / "best" / "README.md").read_text()
