"""Checkpoints: going on as if never stopped, and the one before where the newest is damaged."""

import json
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small import VOCABULARY, Source, few_batches, fresh_state, objective, run_steps, train_settings, translator
from small_runs import exit_code, kill_at
from torch import Tensor

from dragoman.errors import CheckpointError, DiskFull
from dragoman.files import remove_partial
from dragoman.model.transformer import EncoderDecoder
from dragoman.store.description import Languages, ModelFiles, verify_model
from dragoman.store.folder import load_model
from dragoman.store.manifest import write_manifest
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.tokenizing.special_tokens import SYMBOLS
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training.checkpoint import (
    TrainState,
    list_checkpoints,
    newest_checkpoint,
    read_checkpoint_facts,
    restore,
    save_checkpoint,
)
from dragoman.training.settings import TrainSettings

NAME = "encoder.blocks.0.feed_forward.inner.weight"
TRAINED = {"precision": "float32", "ema": 0.5, "steps": 8}


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    words = " ".join(f"w{number}" for number in range(VOCABULARY - SYMBOLS - len(PLACEHOLDERS)))
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    return learn_tokenizers(lambda: iter([(words, words)]), settings)


def begin(settings: TrainSettings, **options: Any) -> tuple[EncoderDecoder, TrainState]:
    model = translator(dtype=torch.float32, dropout=0.2, encoder_layers=1, decoder_layers=1, **options)
    return model, fresh_state(model, settings)


def save(folder: Path, state: TrainState, model: EncoderDecoder, tokenizers: Tokenizers) -> Path:
    return save_checkpoint(folder, state, model, ModelFiles(tokenizers, Languages()), {"data": "abc"}, {"threads": 1})


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_training_goes_on_from_a_checkpoint_to_the_bit(precision: str, tokenizers: Tokenizers, tmp_path: Path) -> None:
    settings, data = train_settings(**{**TRAINED, "precision": precision}), Source(few_batches(3))
    model, state = begin(settings)
    run_steps(model, objective(data, settings), settings, state, stop=lambda: state.step == 5)
    state.best_score, state.best_step = 1.5, 4
    path = save(tmp_path, state, model, tokenizers)
    run_steps(model, objective(data, settings), settings, state)

    other, again = begin(settings, seed=9)
    restore(path, again)
    assert (again.step, again.best_score, again.best_step) == (5, 1.5, 4)
    run_steps(other, objective(data, settings), settings, again)
    assert again.counts() == state.counts()
    for name, weight in state.masters.weights.items():
        assert torch.equal(again.masters.weights[name], weight), name
        assert torch.equal(again.averages[name], state.averages[name]), name
        assert torch.equal(other.get_parameter(name), model.get_parameter(name)), name


def test_a_checkpoint_is_a_model_folder_of_the_float32_weights(tokenizers: Tokenizers, tmp_path: Path) -> None:
    settings = train_settings(**{**TRAINED, "precision": "bf16"})
    model, state = begin(settings)
    run_steps(model, objective(Source(few_batches(2)), settings), settings, state, stop=lambda: state.step == 2)
    stored = load_model(save(tmp_path, state, model, tokenizers)).model
    for name, weight in stored.named_parameters():
        assert torch.equal(weight, state.masters.weights[name]), name


@pytest.fixture
def three(tokenizers: Tokenizers, tmp_path: Path) -> Path:
    """A folder in which checkpoints of steps 2, 3 and 4 were written."""
    settings = train_settings(**TRAINED)
    model, state = begin(settings)
    for step in (2, 3, 4):
        run_steps(model, objective(Source(few_batches(2)), settings), settings, state, stop=lambda: state.step == step)  # noqa: B023
        save(tmp_path, state, model, tokenizers)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_two_are_kept(three: Path) -> None:
    assert names(three) == ["step-00000003", "step-00000004"]
    assert newest_checkpoint(three) == three / "step-00000004"
    assert list_checkpoints(three) == [three / "step-00000003", three / "step-00000004"]


@pytest.mark.parametrize("call", [4, 5, 8])  # the third file name on is of the old checkpoint
def test_a_kill_while_an_old_one_is_deleted_leaves_no_half_of_it(
    call: int, three: Path, tokenizers: Tokenizers
) -> None:
    model, state = begin(train_settings(**TRAINED))
    state.step = 5
    killed = exit_code(kill_at, "os.unlink", call, save, three, state, model, tokenizers)
    assert killed == -signal.SIGKILL
    found = list_checkpoints(three)
    assert found[-1].name == "step-00000005"
    for path in found:
        verify_model(path)
    remove_partial(three)
    assert names(three) == [path.name for path in found], "what is left of it is cleared"


def test_nothing_is_found_where_nothing_was_written(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "nowhere") is None


def damage(path: Path, name: str) -> None:
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 4
    (path / name).write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "training.json", "manifest.json"])
def test_a_damaged_one_is_set_aside_loudly_and_the_one_before_is_used(
    name: str, three: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if name == "manifest.json":
        (three / "step-00000004" / name).unlink()
    else:
        damage(three / "step-00000004", name)
    with caplog.at_level(logging.WARNING):
        assert newest_checkpoint(three) == three / "step-00000003"
    assert name in caplog.text and "set aside as step-00000004.broken-1" in caplog.text
    assert names(three) == ["step-00000003", "step-00000004.broken-1"]


def test_a_run_without_a_whole_checkpoint_never_begins_anew_by_itself(three: Path) -> None:
    for path in list_checkpoints(three):
        damage(path, "training.safetensors")
    for _ in range(2):  # asked again, it is still no run that never began
        with pytest.raises(CheckpointError, match="holds no undamaged checkpoint; start again with --fresh") as caught:
            newest_checkpoint(three)
        assert caught.value.exit_code == 4
    assert names(three) == ["step-00000003.broken-1", "step-00000004.broken-1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, r"training.json has format 3, newer than this version reads \(2\)"),
        ({"format": None}, "training.json is not Dragoman's"),
        ({"format": True}, "training.json is not Dragoman's: it has no format number"),
        ({"format": 0}, "training.json is not Dragoman's: formats count from 1, but its format is 0"),
        ({"step": -1}, "training.json is damaged: step should be greater than or equal to 0, but is -1"),
        ({"tokens": True}, "training.json is damaged: tokens should be a valid integer, but is true"),
        ({"best_score": "good"}, "training.json is damaged: best_score should be a valid number, but is"),
        ({"identity": []}, "training.json is damaged: identity should be an object, but is"),
        ({"epoch": ...}, "training.json is damaged: epoch must be given"),
        ({"identity": ...}, "training.json is damaged: identity must be given"),
    ],
)
def test_facts_that_do_not_fit_are_named(change: dict, message: str, three: Path) -> None:
    path = three / "step-00000004"
    facts = {**json.loads((path / "training.json").read_text()), **change}
    (path / "training.json").write_text(json.dumps({name: fact for name, fact in facts.items() if fact is not ...}))
    write_manifest(path)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint_facts(path)


def test_facts_hold_counts_identities_and_the_machine(three: Path) -> None:
    facts = read_checkpoint_facts(three / "step-00000004")
    assert (facts.step, facts.identity, facts.envelope) == (4, {"data": "abc"}, {"threads": 1})


def test_weights_of_another_architecture_are_refused(three: Path) -> None:
    _, state = begin(train_settings(**TRAINED), d_ff=20)
    with pytest.raises(CheckpointError, match="but this architecture has"):
        restore(three / "step-00000004", state)


def test_a_full_disk_keeps_what_was_there(three: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    model, state = begin(train_settings(**TRAINED))
    state.step = 9
    monkeypatch.setattr("dragoman.files.os.fsync", full)
    with pytest.raises(DiskFull, match="step-00000009"):
        save(three, state, model, tokenizers)
    assert names(three) == ["step-00000003", "step-00000004"]


def test_saving_a_step_twice_writes_it_once(three: Path, tokenizers: Tokenizers) -> None:
    model, state = begin(train_settings(**TRAINED))
    state.step = 4
    before = (three / "step-00000004" / "manifest.json").stat().st_mtime_ns
    assert save(three, state, model, tokenizers) == three / "step-00000004"
    assert (three / "step-00000004" / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.update(extra=torch.zeros(1)), "tensor extra does not belong"),
        (lambda tensors: tensors.update({f"exp_avg.{NAME}": torch.zeros(2)}), r"has shape \[2\], but"),
        (lambda tensors: tensors.pop(f"exp_avg.{NAME}"), "tensor .* (is missing|does not belong to this optimiser)"),
        (lambda tensors: tensors.update({f"momentum.{NAME}": tensors[f"exp_avg.{NAME}"] + 0}), "tensor momentum"),
    ],
)  # fmt: skip
def test_a_training_state_that_does_not_fit_the_model_is_refused(
    change: Callable[[dict[str, Tensor]], object], message: str, three: Path
) -> None:
    path = three / "step-00000004"
    tensors = safetensors.torch.load_file(path / "training.safetensors")
    change(tensors)
    safetensors.torch.save_file(tensors, path / "training.safetensors")
    _, state = begin(train_settings(**TRAINED))
    with pytest.raises(CheckpointError, match=message):
        restore(path, state)
