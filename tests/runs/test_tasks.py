"""The joint of tasks: the language model as the second, and the plainest third, which trains through the same loop."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from families import Trained
from small import fresh_state, run_steps, train_settings
from small_rhyme import RHYME, SETTINGS, train, write_rhyme
from small_runs import SETTINGS as PAIR_SETTINGS
from small_runs import AtSteps, command, exit_codes, terminate, write_corpus
from torch import Tensor, nn

import dragoman
from dragoman.cli.main import main
from dragoman.data.batching import BatchSize
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import ConfigError, DataError, DecodeError, Interrupted
from dragoman.formats import lines
from dragoman.model.dropout import StepKey
from dragoman.model.transformer import LanguageModel
from dragoman.run_folder import RunFolder
from dragoman.runs import language_model, trial
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.task import Task, Validated
from dragoman.store.description import ModelFiles
from dragoman.text.prepare import prepare_text
from dragoman.text.prepared import read_text
from dragoman.text.settings import DataSettings
from dragoman.training.loss import Loss
from dragoman.training.objective import Objective

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

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], dropout_key: StepKey) -> Loss:
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
    asked: Objective = task
    assert asked.batches is task
    found = task.validate(state.weights)
    assert found is not None and found.score > 0.95


# The second: language models, as runs

TIMED = [setting for setting in SETTINGS if not setting.startswith("train.steps")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rhyme(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def run(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("language_model", tmp_path_factory.mktemp("run"))


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
    assert found["scores"]["bits"]["value"] == pytest.approx(a_character / math.log(2))
    (written,) = dragoman.generate(run, ["one for"], dragoman.GenerateOptions(tokens=60), device="cpu")
    assert "the" in written.text


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


def test_a_finished_language_model_is_trained_on(trained: Trained, tmp_path: Path) -> None:
    more = dragoman.train(trained("language_model", tmp_path), more=True, overrides=["train.steps=10"], device="cpu")
    assert more.steps == 90


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["data.source_language=en"], ConfigError, r"reads running text and has no use for data\.source_language"),
        (["data.dev_size=5"], ConfigError, r"reads running text and has no use for data\.dev_size"),
        (["data.checks.max_words=5"], ConfigError, r"has no use for data\.checks\.max_words"),
        (
            ["data.path=phrasebook", "data.dev_path=b.txt"],
            DataError,
            "the phrasebook brings its own sets; leave data.dev",
        ),
        (['data.path=["a.en", "a.it"]'], ConfigError, "reads one text, not two aligned files"),
        (["model.target_vocabulary=77"], ConfigError, r"model\.target_vocabulary is 77, but the tokenizer has 260"),
        (["model.family=encoder_decoder"], ConfigError, "task = 'language_model' sets model.family"),
        (["decode.beam_size=7"], ConfigError, r"decode\.beam_size is about translations"),
        (
            ["variation.joined=0.1"],
            ConfigError,
            r"variation\.joined is about sentence pairs; .* has none; leave it out",
        ),
        (["model.encoder_layers=9"], ConfigError, r"model\.encoder_layers: a language model has no encoder"),
        (["model.source_vocabulary=300"], ConfigError, r"model\.source_vocabulary: a language model has no source"),
        (
            ["tokenizer.kind=word"],
            ConfigError,
            "loses white space and unknown words.* takes character, byte_bpe, bpe or unigram",
        ),
        (["tokenizer.kind=spacy"], ConfigError, "loses white space and unknown words"),
        (["tokenizer.joint=false"], ConfigError, "a language model has only one side"),
    ],
)
def test_what_belongs_to_pairs_is_refused(
    overrides: list[str], error: type[Exception], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        train(text, tmp_path, *overrides)
    assert not (tmp_path / "rhyme" / "recipe.toml").exists()


def test_old_pairs_cannot_be_mixed_into_text(text: Path, run: Path, tmp_path: Path) -> None:
    start = (f"start.model={run / 'best'}", "start.mix_rate=0.5", "start.mix_data=/nonexistent")
    settings = [setting for setting in SETTINGS if not setting.startswith("model.")]
    with pytest.raises(ConfigError, match=r"start\.mix_data and start\.mix_rate mix in sentence pairs"):
        dragoman.train(text, overrides=[*settings, *start], runs=tmp_path, device="cpu")
    assert not (tmp_path / "rhyme" / "data").exists()


def test_settings_are_refused_before_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "no.txt"
    path.write_bytes(b"\xff\xff\n")
    with pytest.raises(ConfigError, match=r"has no use for data\.dev_size"):
        train(path, tmp_path / "runs", "data.dev_size=5")


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(RHYME * 3)
    with pytest.raises(DataError, match="leaves .* characters to train on; a language model needs at least 1,000"):
        train(path, tmp_path / "runs")


def test_a_language_model_translates_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DecodeError, match="holds a model that continues texts; use dragoman generate"):
        dragoman.Translator.load(run)
    with pytest.raises(ConfigError, match="a language model; fine-tune takes a translation model, and others"):
        dragoman.fine_tune(run, "phrasebook")
    assert main(["evaluate", str(run)]) != 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.thorough
def test_two_processes_train_a_language_model_together(text: Path, tmp_path: Path) -> None:
    sets = [part for setting in (*SETTINGS, "train.steps=6") for part in ("--set", setting)]
    arguments = ("train", str(text), "--runs", str(tmp_path), "--device", "cpu", *sets)
    assert exit_codes(2, command, *arguments) == [0, 0]
    assert [line["step"] for line in read_metrics(tmp_path / "rhyme") if "loss" in line] == list(range(1, 7))
    assert isinstance(dragoman.load_model(tmp_path / "rhyme").model, LanguageModel)


# What may change between the calls of one command


class StopsInTrial:
    """A progress that stops the run when its trial begins."""

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        if label == "trial":
            raise Interrupted("stopped in the trial")
        yield lambda *_, **__: None


def test_windows_are_cut_anew_when_their_length_changes(text: Path, tmp_path: Path) -> None:
    overrides = [*TIMED, "train.minutes=1"]
    with pytest.raises(Interrupted):
        dragoman.train(text, overrides=overrides, runs=tmp_path, device="cpu", progress=StopsInTrial())
    corpora = RunFolder(tmp_path / "rhyme").corpora
    assert EncodedCorpus.open(corpora / "train").has_windows_of(64)
    folder = train(text, tmp_path, "batches.sentence_tokens=32", "train.steps=2").folder
    for name in ("train", "dev"):
        corpus = EncodedCorpus.open(corpora / name)
        assert corpus.has_windows_of(32) and len(corpus.target.row(0)) == 33
    (found,) = json.loads((folder / "scores.json").read_text())["evaluations"]
    assert "|window:32|" in found["scores"]["token"]["signature"]


def test_pairs_are_aligned_when_that_begins_to_count(tmp_path: Path) -> None:
    text, place = write_corpus(tmp_path / "corpus.tsv"), {"runs": tmp_path, "device": "cpu"}
    timed = [*(each for each in PAIR_SETTINGS if not each.startswith("train.steps")), "train.minutes=1"]
    with pytest.raises(Interrupted):
        dragoman.train(text, overrides=timed, progress=StopsInTrial(), **place)
    corpus = RunFolder(tmp_path / "corpus").corpus("train")
    assert EncodedCorpus.open(corpus).links is None
    dragoman.train(text, overrides=[*PAIR_SETTINGS, "train.alignment_weight=0.5"], **place)
    assert EncodedCorpus.open(corpus).links is not None


def test_a_resumed_run_does_not_read_the_text_it_has_encoded(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        train(text, tmp_path, "train.steps=12", progress=AtSteps({5: terminate}))
    read: list[str] = []
    original = language_model.read_text
    monkeypatch.setattr(language_model, "read_text", lambda folder, name: read.append(name) or original(folder, name))
    train(text, tmp_path, "train.steps=12")
    assert read == ["test"]


# A loss that is not finite


def test_a_dev_loss_that_is_not_finite_leaves_the_run_as_it_was(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, calls = language_model.mean_loss, 0

    def first_nan(*given: Any) -> float:
        nonlocal calls
        calls += 1
        return math.nan if calls == 1 else original(*given)

    monkeypatch.setattr(language_model, "mean_loss", first_nan)
    steps = ("train.steps=20", "train.validate_every=5")
    with pytest.raises(Interrupted):
        train(text, tmp_path, *steps, progress=AtSteps({8: terminate}))
    assert "step 5 is not validated: the model's loss on held-out text is nan" in caplog.text
    folder = train(text, tmp_path, *steps).folder
    assert not [*folder.glob("checkpoints/*.broken*")]
    assert len([line for line in read_metrics(folder) if line.get("dev_loss") is not None]) == 3
    assert "On the dev text" in (folder / "best" / "README.md").read_text()


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_never_the_best(
    score: float, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, scores = Task.validate, [score]

    def validate(task: Task, weights: Mapping[str, Tensor]) -> Validated | None:
        found = original(task, weights)
        assert found is not None
        return found._replace(score=scores.pop()) if scores else found

    monkeypatch.setattr(Task, "validate", validate)
    folder = train(text, tmp_path, "train.steps=10", "train.validate_every=5").folder
    assert f"step 5 cannot be the best: its score is {score}" in caplog.text
    (newest, *_) = sorted(folder.glob("checkpoints/step-*"), reverse=True)
    facts = json.loads((newest / "training.json").read_text())
    assert facts["best_step"] == 10 and math.isfinite(facts["best_score"])


def test_a_trial_outlives_weights_that_diverge(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    original = language_model.mean_loss

    def first_nan(*given: Any) -> float:
        calls.append(math.nan if not calls else original(*given))
        return calls[-1]

    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.1)
    monkeypatch.setattr(language_model, "mean_loss", first_nan)
    found = dragoman.train(text, overrides=[*TIMED, "train.minutes=0.02"], runs=tmp_path, device="cpu")
    assert found.steps > 0 and all(map(math.isfinite, calls[1:])) and len(calls) > 2


# What a model writes


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_validation_uses_the_precision_of_the_run(
    precision: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[torch.dtype] = []
    original = language_model.mean_loss
    monkeypatch.setattr(
        language_model, "mean_loss", lambda model, batches: used.append(model.output.dtype) or original(model, batches)
    )
    train(text, tmp_path, f"train.precision={precision}", "train.steps=2", "train.validate_every=2")
    assert used == [torch.bfloat16 if precision == "bf16" else torch.float32, torch.float32]  # the score is float32


# What text may look like


@pytest.mark.parametrize("name", ["dev", "test"])
@pytest.mark.parametrize("held_out", ["\n", "a b\n", "\n" * 500])
def test_a_held_out_text_that_is_too_short_is_refused_before_any_work(
    name: str, held_out: str, text: Path, tmp_path: Path
) -> None:
    path = tmp_path / "held_out.txt"
    path.write_text(held_out)
    with pytest.raises(DataError, match=rf"held_out\.txt is too short to be the {name} text: .* at least 50"):
        train(text, tmp_path / "runs", f"data.{name}_path={path}")
    assert not (tmp_path / "runs" / "rhyme").exists()


def test_a_text_whose_end_is_blank_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "blank.txt"
    path.write_text(RHYME * 100 + "\n" * 5_000)
    with pytest.raises(DataError, match=r"the end of .*blank\.txt is too short to be the dev text"):
        train(path, tmp_path / "runs")


def split(folder: Path, content: str) -> dict[str, str]:
    """The parts of a text."""
    path = folder / "whole.txt"
    path.write_text(content, encoding="utf-8", newline="")
    prepare_text(DataSettings(path=str(path)), folder / "data")
    return {name: "".join(read_text(folder / "data", name)) for name in ("train", "dev", "test")}


@pytest.mark.parametrize(
    ("content", "end"),
    [
        ("word " * 4_000, " "),  # as text8: all of it is one line
        ("字" * 20_000, "字"),
        (("word " * 2_000 + "\n") * 2, " "),
        (RHYME * 300, "\n"),
        ("x" * 5_000 + "\n" + "x" * 15_000, "x"),
    ],
)
def test_a_text_of_long_lines_is_cut_near_the_right_place(content: str, end: str, tmp_path: Path) -> None:
    parts = split(tmp_path, content)
    whole = content if content.endswith("\n") else content + "\n"
    assert parts["train"] + parts["dev"] + parts["test"] == whole
    assert parts["train"].endswith(end) and parts["dev"].endswith(end)
    for name in ("dev", "test"):
        assert 0.04 * len(whole) < len(parts[name]) <= 0.15 * len(whole) + 1


def test_text_of_one_line_is_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("one for the master, one for the dame " * 500)
    assert train(path, tmp_path / "runs", "train.steps=2", "train.validate_every=2").evaluations


def test_a_line_may_be_longer_than_that_of_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 1 << 10)
    monkeypatch.setattr(lines, "_PIECE", 1 << 10)
    assert len(split(tmp_path, "word " * 4_000)["train"]) > 16_000


def test_what_is_changed_in_a_text_is_what_the_module_says(tmp_path: Path) -> None:
    parts = split(tmp_path, "\ufeff" + RHYME.replace("\n", "\r\n") * 100 + "no end")
    assert "".join(parts.values()) == RHYME * 100 + "no end\n"
