"""Adapters of low rank: W + scale B A, in training, in a run that is cut off, and merged."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from families import Trained
from safetensors.torch import load_file
from small import (
    PRESETS,
    Source,
    few_batches,
    fresh_state,
    objective,
    random_batch,
    run_steps,
    train_settings,
    translator,
)
from small_runs import AtSteps, some_pairs, terminate, times, write_corpus

from dragoman.data.batching import Batch
from dragoman.errors import CheckpointError, ConfigError, Interrupted
from dragoman.model.adapters import LowRank, adapt, merged
from dragoman.model.config import LoraSettings
from dragoman.model.dropout import StepKey
from dragoman.model.projection import Dense, weight_roles
from dragoman.model.transformer import EncoderDecoder, prepare_for_decoding
from dragoman.runs.fine_tune import fine_tune
from dragoman.runs.train import train
from dragoman.store.folder import load_model
from dragoman.store.tensors import place_weights
from dragoman.training.distributed import ALONE
from dragoman.training.freezing import count_trained
from dragoman.training.loop import backward
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.prefetching import fetch


def adapted(settings: LoraSettings | None = None, learnt: bool = True, **given: Any) -> EncoderDecoder:
    """A model with adapters; `learnt` ones are no longer zero."""
    model = translator(**given)
    adapt(model, settings or LoraSettings(rank=3), seed=1)
    if learnt:
        random = torch.Generator().manual_seed(2)
        for module in adapters(model).values():
            torch.nn.init.normal_(module.up, std=0.3, generator=random)
    return model


def adapters(model: torch.nn.Module) -> dict[str, LowRank]:
    return {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach() for name, weight in model.named_parameters()}


# The model


@pytest.mark.parametrize("preset", PRESETS)
def test_an_adapter_that_has_learnt_nothing_changes_nothing(preset: str) -> None:
    batch, dropout_key = random_batch([3, 5], [4, 2]), StepKey(1, 1)
    plain = translator(preset=preset, dropout=0.1)(*batch.inputs, dropout_key=dropout_key)
    assert torch.equal(adapted(learnt=False, preset=preset, dropout=0.1)(*batch.inputs, dropout_key=dropout_key), plain)


@pytest.mark.parametrize("preset", PRESETS)
def test_merged_and_unmerged_are_one_model(preset: str) -> None:
    model, batch = adapted(preset=preset, dtype=torch.float32), random_batch([3, 5], [4, 2])
    plain = translator(preset=preset, dtype=torch.float32)
    before = plain(*batch.inputs)
    place_weights(plain, merged(model, weights_of(model)))
    assert weights_of(plain).keys() == weights_of(translator(preset=preset)).keys()
    assert_close(plain.project(plain(*batch.inputs)), model.project(model(*batch.inputs)), share=1e-5)
    assert (plain(*batch.inputs) - before).abs().max() > 1e-2
    assert not adapters(prepare_for_decoding(model, "cpu", torch.float32))


@pytest.mark.parametrize("preset", PRESETS)
def test_gradients_are_those_of_the_plain_equation(preset: str) -> None:
    """dB = scale G A^T and dA = scale B^T G, for the gradient G of the merged matrix."""
    settings, batch = LoraSettings(rank=3, alpha=5.0), random_batch([3, 5], [4, 2])
    model, plain = adapted(settings, preset=preset), translator(preset=preset)
    place_weights(plain, merged(model, weights_of(model)))
    for each in (model, plain):
        label_smoothed_loss(each(*batch.inputs), each.output, batch.labels).smoothed.backward()
    for name, adapter in adapters(model).items():
        gradient = plain.get_parameter(f"{name}.weight").grad
        assert gradient is not None and adapter.up.grad is not None and adapter.down.grad is not None
        assert_close(adapter.up.grad, 5 / 3 * gradient @ adapter.down.T)
        assert_close(adapter.down.grad, 5 / 3 * adapter.up.T @ gradient)
        assert adapter.weight.grad is None


def test_the_projections_are_chosen_by_name() -> None:
    def chosen(*names: str) -> set[str]:
        return set(adapters(adapted(LoraSettings(rank=2, projections=names))))

    everywhere = chosen("all")
    assert everywhere == chosen("attention", "feed_forward") and len(everywhere) == 2 * 7 + 2 * 11
    assert chosen("query", "value") == {name for name in everywhere if name.endswith(("query", "value"))}
    assert chosen("output") == {name for name in everywhere if name.endswith("attention.output")}
    assert chosen("decoder.1.cross_attention.key") == {"decoder.blocks.1.cross_attention.key"}
    assert chosen("encoder.*.gate") == {f"encoder.blocks.{i}.feed_forward.gate" for i in range(2)}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"rank is 17, but encoder.blocks.0.self_attention.query is a matrix of 16 x 16"
    ):
        adapted(LoraSettings(rank=17))
    with pytest.raises(ConfigError, match=r"called 'querry'; it has all, encoder, decoder, .*query, key"):
        adapted(LoraSettings(rank=2, projections=("querry",)))
    with pytest.raises(ConfigError, match="called 'norms'"):
        adapted(LoraSettings(rank=2, projections=("norms",)))


def test_only_adapters_train_and_their_weights_keep_their_names() -> None:
    model = adapted()
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained == {f"{name}.{part}" for name in adapters(model) for part in ("down", "up")}
    assert weights_of(model).keys() - trained == weights_of(translator()).keys()
    assert count_trained(model).trained == sum(16 * 3 * 2 for _ in range(2 * 4 + 2 * 8)) + sum(
        3 * (16 + 24) for _ in range(2 * 3 + 2 * 3)
    )
    roles = weight_roles(model)
    assert all(roles[name] == "projection" for name in trained)


def test_the_seed_fills_the_adapters() -> None:
    def downs(seed: int) -> list[torch.Tensor]:
        model = translator()
        adapt(model, LoraSettings(rank=4), seed)
        return [module.down for module in adapters(model).values()]

    assert all(torch.equal(one, other) for one, other in zip(downs(1), downs(1), strict=True))
    assert not any(torch.equal(one, other) for one, other in zip(downs(1), downs(2), strict=True))
    assert torch.cat([down for down in downs(1) if down.size(1) == 16]).std().item() == pytest.approx(0.25, rel=0.1)


# Dropout


def test_dropout_drops_the_same_input_features_for_a_whole_step_and_none_outside_training() -> None:
    model, batch = adapted(LoraSettings(rank=3, dropout=0.5)), random_batch([3, 5], [4, 2])
    adapter = next(iter(adapters(model).values()))
    adapter.dropout_key = StepKey(1, 1)
    seen = adapter._active_down()
    dropped = (seen == 0).all(0)
    assert 0 < dropped.sum() < 16 and torch.equal(seen[:, ~dropped], 2 * adapter.down[:, ~dropped])
    adapter.dropout_key = StepKey(1, 1, source_first=99, target_first=3)
    assert torch.equal(adapter._active_down(), seen)
    adapter.dropout_key = StepKey(1, 2)
    assert not torch.equal(adapter._active_down(), seen)
    one, other = model(*batch.inputs, dropout_key=StepKey(1, 1)), model(*batch.inputs, dropout_key=StepKey(1, 2))
    assert (one - other).abs().max() > 1e-3
    assert torch.equal(adapter.eval()._active_down(), adapter.down), "nothing is dropped outside training"
    adapter.train()
    assert torch.equal(model(*batch.inputs), copy.deepcopy(model)(*batch.inputs))


def test_a_step_cut_into_micro_batches_has_the_same_gradient_with_dropout() -> None:
    settings, gradients = train_settings(), []
    for count in (1, 2):
        model = adapted(LoraSettings(rank=3, dropout=0.5))
        state = fresh_state(model, settings)
        one = random_batch([3, 3], [4, 4])
        parts = [one] if count == 1 else split(one)
        source = Source(parts)
        backward(model, objective(source, settings), state.masters, fetch(source, range(count), ALONE), StepKey(1, 1))
        gradients.append(state.masters.gradient.clone())
    assert_close(gradients[1], gradients[0])


def split(batch: Any) -> list[Any]:
    """A batch of two equally long pairs as two batches."""
    parts = [value for value in vars(batch).values() if value is not None]
    return [Batch(*(part[i * len(part) // 2 : (i + 1) * len(part) // 2] for part in parts)) for i in range(2)]


def test_a_few_steps_learn_what_a_batch_says() -> None:
    model, settings = adapted(learnt=False, dtype=torch.float32), train_settings(steps=60, learning_rate=0.02)
    batches = few_batches(1)

    def loss() -> float:
        with torch.no_grad():
            return float(label_smoothed_loss(model(*batches[0].inputs), model.output, batches[0].labels).plain)

    before = loss()
    run_steps(model, objective(Source(batches), settings), settings, fresh_state(model, settings))
    assert loss() < 0.5 * before


# The run

SETTINGS = (
    "data.dev_size=4", "data.test_size=4", "batches.batch_tokens=100", "decode.beam_size=1", "train.steps=6",
    "train.precision=float32", "train.validate_every=3", "train.save_every=2", "tuning.lora.rank=3",
)  # fmt: skip


@pytest.fixture(scope="module")
def base(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    return trained("two_verbs", tmp_path_factory.mktemp("base"))


def tuned(base: Path, folder: Path, *overrides: str, **options: Any) -> Path:
    """A run of adapters on another verb."""
    if not (folder / "new.tsv").exists():
        write_corpus(folder / "new.tsv", some_pairs(60, verbs=["loves", "fears"]))
    data, given = str(folder / "new.tsv"), [*SETTINGS, *overrides]
    return fine_tune(base, data, overrides=given, runs=folder / "runs", device="cpu", **options).folder


def learnt(run: Path) -> tuple[bytes, bytes]:
    final, best = ((run / name / "adapter.safetensors").read_bytes() for name in ("final", "best"))
    return final, best


def test_a_run_saves_only_adapters_and_leaves_its_base_alone(base: Path, tmp_path: Path, caplog: Any) -> None:
    before = times(base)
    with caplog.at_level("INFO", "dragoman"):
        run = tuned(base, tmp_path, "train.learning_rate=0.05")
    assert times(base) == before
    assert "weights train" in caplog.text
    for folder in (run / "best", run / "final"):
        names = {path.name for path in folder.iterdir()}
        assert names == {"config.json", "adapter.safetensors", "generation_config.json", "README.md", "manifest.json"}
    held = load_file(run / "final" / "adapter.safetensors")
    assert {name.rpartition(".")[2] for name in held} == {"up", "down"} and any(map(torch.any, held.values()))
    stored, first = load_model(run / "final"), load_model(base)
    assert stored.config == first.config and stored.tokenizers.source.identity == first.tokenizers.source.identity
    same = {
        name for name, weight in first.model.named_parameters() if torch.equal(weight, stored.model.get_parameter(name))
    }
    assert same == {
        name for name in weights_of(first.model) if "attention." not in name and "feed_forward." not in name
    }
    assert json.loads((run / "scores.json").read_text())["evaluations"][-1]["system"].startswith("after")


@pytest.mark.parametrize(
    ("step", "settings"),
    [
        (1, ("tuning.lora.dropout=0.3",)),
        (3, ("train.precision=bf16",)),
        (3, ("train.ema=0.5", "train.accumulate=2", "tuning.lora.dropout=0.3")),
    ],
    ids=["dropout", "bf16", "averaged and accumulated"],
)
def test_adapters_that_were_cut_off_end_in_the_same_bytes(
    step: int, settings: tuple[str, ...], base: Path, tmp_path: Path
) -> None:
    unbroken = tuned(base, tmp_path / "one", *settings)
    with pytest.raises(Interrupted):
        tuned(base, tmp_path / "other", *settings, progress=AtSteps({step: terminate}))
    assert learnt(tuned(base, tmp_path / "other", *settings)) == learnt(unbroken)


def test_a_frozen_run_that_was_cut_off_ends_in_the_same_bytes_and_is_a_whole_model(base: Path, tmp_path: Path) -> None:
    settings = ('tuning={freeze=["encoder", "embeddings"]}',)
    unbroken = tuned(base, tmp_path / "one", *settings, mix_rate=0.0)  # a bare model has no old text
    model = Path(shutil.copytree(base / "best", tmp_path / "model"))
    with pytest.raises(Interrupted):
        tuned(model, tmp_path / "other", *settings, progress=AtSteps({3: terminate}))
    shutil.rmtree(model)
    run = train(tmp_path / "other" / "runs" / "model-new", device="cpu").folder
    assert (run / "final" / "model.safetensors").read_bytes() == (unbroken / "final" / "model.safetensors").read_bytes()
    first, last = load_model(base).model, load_model(run / "final").model
    same = {name for name, weight in first.named_parameters() if torch.equal(weight, last.get_parameter(name))}
    assert same == {name for name in weights_of(first) if not name.startswith("decoder.")}


def test_adapters_go_on_only_on_the_base_that_they_began_on(base: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(base / "best", tmp_path / "model"))
    with pytest.raises(Interrupted):
        tuned(model, tmp_path, progress=AtSteps({3: terminate}))
    run = tmp_path / "runs" / "model-new"
    model.rename(tmp_path / "away")
    with pytest.raises(
        CheckpointError, match=r"model does not exist.*an adapter is trained on that model, so put it back"
    ):
        train(run, device="cpu")
    shutil.copytree(base / "final", tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"belongs to other data.*base model: '.*' then, '.*' now"):
        train(run, device="cpu")
    shutil.rmtree(model)
    (tmp_path / "away").rename(model)
    with pytest.raises(ConfigError, match=r"tuning.lora.rank was 3, is 2"):
        train(run, overrides=["tuning.lora.rank=2"], device="cpu")
    assert train(run, device="cpu").steps == 6


def test_a_finished_run_of_adapters_trains_further(base: Path, tmp_path: Path) -> None:
    run = tuned(base, tmp_path)
    before = learnt(run)
    assert train(run, overrides=["train.steps=3"], more=True, device="cpu").steps == 9
    assert learnt(run)[0] != before[0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tuning.lora.rank=99", r"rank is 99, but encoder.blocks.0.self_attention.query is a matrix of 16 x 16"),
        ('tuning.lora.projections=["heads"]', "no projection of this model is called 'heads'"),
        ("tuning.freeze=encoder", "should be a valid"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_any_text_is_read(
    setting: str, message: str, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        tuned(base, tmp_path, setting)
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_the_bias_of_an_adapted_projection_is_frozen_with_its_matrix() -> None:
    """What trains is what an adapter folder saves, and merging keeps every bias."""
    model = adapted(LoraSettings(rank=2, projections=("feed_forward",)), preset="paper")
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert any(module.bias is not None for module in adapters(model).values())
    assert trained == {f"{name}.{part}" for name in adapters(model) for part in ("down", "up")}
    dense = Dense(4, 3, bias=True)
    alone = LowRank(dense, rank=1, scale=1.0)
    assert {name for name, weight in alone.named_parameters() if weight.requires_grad} == {"down", "up"}
