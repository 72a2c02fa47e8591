"""The joint of tasks: the language model as the second, and the plainest third, which trains through the same loop."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from small import fresh_state, train_settings
from small_runs import AtSteps, command, exit_codes, terminate
from torch import Tensor, nn

import dragoman
from dragoman.cli.main import main
from dragoman.data.batch import BatchSize
from dragoman.errors import ConfigError, DataError, DecodeError, Interrupted
from dragoman.model import LanguageModel, StepNoise
from dragoman.runs.metrics import read_metrics
from dragoman.store import ModelFiles
from dragoman.tasks.language_model import write_text
from dragoman.training import run_steps
from dragoman.training.loss import Loss
from dragoman.training.task import Task, Validated

# A third task: which of two numbers is larger? No text, no vocabulary, a model of its own.


class Larger:
    """Pairs of numbers; the loss is that of a yes or no."""

    identity: Mapping[str, str] = {"data": "made up"}
    tokens = 32 * 100

    @property
    def batches(self) -> "Larger":
        return self

    def epoch(self, number: int) -> range:
        return range(100 * number, 100 * (number + 1))

    def batch(self, index: int) -> tuple[Tensor, Tensor]:
        numbers = torch.rand(32, 2, generator=torch.Generator().manual_seed(index))
        return numbers, (numbers[:, 0] > numbers[:, 1]).float()

    def size_of(self, index: int) -> BatchSize:
        return BatchSize(source_tokens=0, target_tokens=32, longest=1, pairs=torch.arange(32))

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], noise: StepNoise) -> Loss:
        numbers, answers = batch
        total = nn.functional.binary_cross_entropy_with_logits(model(numbers)[:, 0], answers, reduction="sum")
        return Loss(total, total.detach())

    def validate(self, weights: Mapping[str, Tensor]) -> Validated | None:
        numbers, answers = self.batch(10**6)
        right = ((numbers @ weights["weight"][0] + weights["bias"] > 0) == answers.bool()).float().mean().item()
        return Validated(right, {"dev_right": right}, f"{right:.0%} right", f"{right:.2f}")

    def files(self, weights: int, steps: int, tokens: int, found: Validated | None) -> ModelFiles:
        return ModelFiles(card="# Which of two numbers is larger")


def test_a_third_task_trains_in_the_same_loop() -> None:
    task, model = Larger(), nn.Linear(2, 1)
    settings = train_settings(steps=150, learning_rate=0.1, warmup_steps=5)
    state = fresh_state(model, settings)
    run_steps(model, task, settings, state)
    asked: Task = task
    found = asked.validate(state.weights)
    assert found is not None and found.score > 0.95


# The second: language models, as runs

RHYME = "one for the master, one for the dame, one for the boy down the lane\n"
SETTINGS = [
    "task=language_model", "train.steps=80", "train.validate_every=40", "train.learning_rate=2e-2",
    "model.d_model=32", "model.heads=2", "model.d_ff=48", "model.decoder_layers=1", "batches.sentence_tokens=64",
    "batches.batch_tokens=512", "train.precision=float32", "train.save_every=10",
]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text(RHYME * 150, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Path:
    return dragoman.train(text, overrides=SETTINGS, runs=text.parent / "runs", device="cpu").folder


def train(text: Path, runs: Path, *overrides: str, **options: Any) -> Any:
    return dragoman.train(text, overrides=[*SETTINGS, *overrides], runs=runs, device="cpu", **options)


def test_a_language_model_is_a_run_like_any_other(run: Path) -> None:
    lines = read_metrics(run)
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 81))
    nats = [line["dev_nats_per_character"] for line in lines if "dev_loss" in line]
    assert nats[-1] < nats[0] < 4 and nats[-1] < 1.5
    (listed,) = dragoman.list_runs(run)
    assert (listed.state, listed.steps) == ("finished", 80)
    assert listed.score is not None and listed.score.metric == "nats a character"
    assert "Language model" in (run / "best" / "README.md").read_text()


def test_its_scores_are_those_of_its_model_on_the_held_out_text(run: Path) -> None:
    (found,) = json.loads((run / "scores.json").read_text())["evaluations"]
    a_character, a_token = (found["scores"][name]["value"] for name in ("character", "token"))
    assert a_character == pytest.approx(a_token * found["counts"]["tokens"] / found["counts"]["characters"])
    stored = dragoman.load_model(run)
    assert isinstance(stored.model, LanguageModel)
    written = write_text(stored.model, stored.tokenizers.target, "one for", 60)
    assert written.startswith("one for") and "the" in written


def test_a_language_model_resumes_to_the_byte(text: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(text, tmp_path, progress=AtSteps({45: terminate}))
    folder = train(text, tmp_path).folder
    for name in ("best", "final"):
        assert (folder / name / "model.safetensors").read_bytes() == (run / name / "model.safetensors").read_bytes()


def test_its_text_is_split_where_lines_begin_and_nothing_is_lost(text: Path, run: Path) -> None:
    parts = [(run / "data" / f"{name}.txt").read_text() for name in ("train", "dev", "test")]
    assert "".join(parts) == text.read_text()
    assert all(part.endswith("\n") and len(part) > 400 for part in parts)


def test_a_finished_language_model_is_trained_on(text: Path, tmp_path: Path) -> None:
    folder = train(text, tmp_path).folder
    more = dragoman.train(folder, more=True, overrides=["train.steps=10"], device="cpu")
    assert more.steps == 90


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["data.source_language=en"], ConfigError, r"data\.source_language is about sentence pairs"),
        (["data.dev_size=5"], ConfigError, r"data\.dev_size is about sentence pairs"),
        (["data.checks.max_words=5"], ConfigError, r"data\.checks\.max_words is about sentence pairs"),
        (["data.path=phrasebook"], ConfigError, "learns from a text file; name one with data.path"),
        (['data.path=["a.en", "a.it"]'], ConfigError, "reads one text, not two aligned files"),
        (["model.target_vocabulary=77"], ConfigError, r"model\.target_vocabulary is 77, but the tokenizer has 260"),
        (["model.family=encoder_decoder"], ConfigError, "task = 'language_model' sets model.family"),
    ],
)
def test_what_belongs_to_pairs_is_refused(
    overrides: list[str], error: type[Exception], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        train(text, tmp_path, *overrides)
    assert not (tmp_path / "rhyme" / "recipe.toml").exists()


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(RHYME * 3)
    with pytest.raises(DataError, match="leaves .* characters to train on; a language model needs at least 1,000"):
        train(path, tmp_path / "runs")


def test_a_language_model_translates_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DecodeError, match="holds a language_model, not a translation model"):
        dragoman.Translator.load(run)
    assert main(["evaluate", str(run)]) != 0
    assert "Traceback" not in capsys.readouterr().err


def test_the_command_is_the_function(text: Path, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    with caplog.at_level(logging.INFO):
        assert main(["train", str(text), "--runs", str(tmp_path), "--device", "cpu", *sets]) == 0
    made = tmp_path / "rhyme" / "final" / "model.safetensors"
    assert made.read_bytes() == (run / "final" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_two_processes_train_a_language_model_together(text: Path, tmp_path: Path) -> None:
    sets = [part for setting in (*SETTINGS, "train.steps=6") for part in ("--set", setting)]
    arguments = ("train", str(text), "--runs", str(tmp_path), "--device", "cpu", *sets)
    assert exit_codes(2, command, *arguments) == [0, 0]
    assert [line["step"] for line in read_metrics(tmp_path / "rhyme") if "loss" in line] == list(range(1, 7))
    assert isinstance(dragoman.load_model(tmp_path / "rhyme").model, LanguageModel)
