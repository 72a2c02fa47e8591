"""Adapter folders: they load with the base that they belong to and with no other, and merge into a whole model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small import random_batch, small_config
from torch import Tensor

import dragoman
from dragoman.cli.main import main
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.inference.translator import Translator
from dragoman.model.adapters import LowRank, adapt
from dragoman.model.config import LoraSettings
from dragoman.model.transformer import build_model
from dragoman.store.description import Languages, ModelFiles, read_adapter, read_config
from dragoman.store.folder import describe_adapter, load_model
from dragoman.store.manifest import write_manifest
from dragoman.store.merging import merge
from dragoman.store.saving import save_model
from dragoman.store.tensors import place_weights
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

PAIRS = [("a b c d", "e f g h i"), ("b d", "h i e")]
LORA = LoraSettings(rank=2, alpha=3.0)
TEXTS = ["a b", "d c b a", "b"]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    return learn_tokenizers(lambda: iter(PAIRS), settings)


def a_model(tokenizers: Tokenizers, seed: int = 2, **settings: object) -> Any:
    sizes = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    return build_model(small_config(**sizes, **settings), seed)


@pytest.fixture
def base(tokenizers: Tokenizers, tmp_path: Path) -> Path:
    save_model(tmp_path / "base", a_model(tokenizers), ModelFiles(tokenizers, Languages("en", "it"), {"beam_size": 3}))
    return tmp_path / "base"


def learnt(base: Path) -> Any:
    """The model in a folder, with adapters that have learnt something."""
    model = load_model(base).model
    adapt(model, LORA, seed=3)
    random = torch.Generator().manual_seed(4)
    for module in model.modules():
        if isinstance(module, LowRank):
            torch.nn.init.normal_(module.up, std=0.5, generator=random)
    return model


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    files = ModelFiles(
        generation={"beam_size": 2}, card="# Tuned on something, chrF 50", adapter=describe_adapter(base, LORA)
    )
    save_model(tmp_path / "adapter", learnt(base), files)
    return tmp_path / "adapter"


def logits(model: Any) -> Tensor:
    batch = random_batch([2, 3], [4, 1])
    small = [part.clamp(max=6) if i % 2 == 0 else part for i, part in enumerate(batch.inputs)]  # ids, lengths, …
    with torch.inference_mode():
        return model.project(model(*small))


def translations(*given: Any, **named: Any) -> list[tuple[str, float]]:
    translator = Translator.load(*given, device="cpu", precision="float32", **named)
    return [(found.text, found.score) for found in translator.translate(TEXTS)]


def test_an_adapter_folder_holds_little_and_leaves_its_base_alone(base: Path, adapter: Path) -> None:
    assert {path.name for path in adapter.iterdir()} == {
        *("config.json", "adapter.safetensors", "generation_config.json", "README.md", "manifest.json")
    }
    config = json.loads((adapter / "config.json").read_text())
    assert config["adapter"]["beside"] == "../base" and config["adapter"]["lora"]["rank"] == 2
    assert "chrF 50" in (adapter / "README.md").read_text()
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    load_model(adapter)
    merge(adapter, adapter.parent / "whole")
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before


def test_merged_and_unmerged_give_the_same_logits_and_translations(base: Path, adapter: Path, tmp_path: Path) -> None:
    whole = merge(adapter, tmp_path / "whole")
    assert (whole / "model.safetensors").is_file() and read_adapter(whole) is None
    stored, merged = load_model(adapter), load_model(whole)
    unmerged = logits(learnt(base))
    largest = float(unmerged.abs().max())
    for each in (stored, merged):
        assert float((logits(each.model) - unmerged).abs().max()) < 1e-5 * largest
        assert each.files.generation == {"beam_size": 2} and each.languages == ("en", "it")
        assert each.tokenizers.source.size == load_model(base).tokenizers.source.size
    assert float((logits(load_model(base).model) - unmerged).abs().max()) > 0.1 * largest
    for one, other in zip(translations(adapter), translations(whole), strict=True):
        assert one == other
    assert translations(base, adapter=adapter) == translations(adapter) != translations(base)
    assert read_config(adapter) == read_config(base)


def test_a_damaged_file_of_the_base_is_found_when_its_adapter_is_loaded(base: Path, adapter: Path) -> None:
    tokenizer = sorted(base.glob("tokenizer*.json"))[0]
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")  # the same JSON, but not the file that was saved
    with pytest.raises(CheckpointError, match=tokenizer.name):
        load_model(adapter)


def test_translate_takes_an_adapter(base: Path, adapter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_adapter = [text for text, _ in translations(adapter)]
    assert main(["translate", str(base), *TEXTS, "--adapter", str(adapter), "--precision", "float32", "-q"]) == 0
    assert capsys.readouterr().out.splitlines() == with_adapter
    found = dragoman.translate(base, TEXTS, device="cpu", precision="float32", adapter=adapter)
    assert [each.text for each in found] == with_adapter


def test_base_and_adapter_may_move_together_and_a_lost_base_is_asked_for(adapter: Path, base: Path) -> None:
    expected = translations(adapter)
    other = base.parent.parent / f"{base.parent.name}-moved"
    base.parent.rename(other)
    try:
        assert translations(other / "adapter") == expected
        (other / "base").rename(other / "elsewhere")
        with pytest.raises(
            CheckpointError, match=r"base, which is not there; put that model back, or merge .*--base BASE --to FOLDER"
        ):
            load_model(other / "adapter")
        assert translations(other / "elsewhere", adapter=other / "adapter") == expected
        assert merge(other / "adapter", other / "whole", base=other / "elsewhere").is_dir()
    finally:
        other.rename(base.parent)


def test_a_copy_beside_the_adapter_is_found_where_another_model_took_the_old_place(
    adapter: Path, base: Path, tokenizers: Tokenizers, tmp_path: Path
) -> None:
    expected = translations(adapter)
    copied = tmp_path / "copied"
    for folder in (base, adapter):
        shutil.copytree(folder, copied / folder.name)
    save_model(base, a_model(tokenizers, seed=5), load_model(base).files, replace=True)
    assert translations(copied / "adapter") == expected


def test_the_adapter_of_another_base_is_refused(adapter: Path, base: Path, tokenizers: Tokenizers) -> None:
    files = load_model(base).files
    save_model(base, a_model(tokenizers, seed=5), files, replace=True)
    for load in (lambda: load_model(adapter), lambda: load_model(base, adapter=adapter)):
        with pytest.raises(CheckpointError, match=r"adapter is an adapter of .*base, but .* has other weights"):
            load()


def test_a_whole_model_is_no_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds a whole model, not an adapter; use it without --adapter"):
        load_model(base, adapter=base)
    with pytest.raises(ConfigError, match="is a whole model already, not an adapter; there is nothing to merge"):
        merge(base, tmp_path / "whole")
    with pytest.raises(ConfigError, match="is an adapter, and another one needs a whole model; merge it first"):
        describe_adapter(adapter, LORA)
    with pytest.raises(CheckpointError, match="is an adapter itself; --adapter goes with .*base, to which it belongs"):
        load_model(adapter, adapter=adapter)
    with pytest.raises(DataError, match="exists"):
        merge(adapter, base)


@pytest.mark.parametrize("name", ["config.json", "adapter.safetensors", "generation_config.json", "manifest.json"])
def test_every_file_of_an_adapter_that_is_missing_or_damaged_is_named(name: str, adapter: Path) -> None:
    whole = (adapter / name).read_bytes()
    (adapter / name).write_bytes(whole[:-2])
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_model(adapter)
    (adapter / name).unlink()
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_model(adapter)


def newer(config: dict[str, Any]) -> None:
    config["format"] = 2


def unknown(config: dict[str, Any]) -> None:
    config["adapter"]["kind"] = "prefix"


def other_projections(config: dict[str, Any]) -> None:
    config["adapter"]["lora"]["projections"] = ["attention", "gate", "inner"]


def other_rank(config: dict[str, Any]) -> None:
    config["adapter"]["lora"]["rank"] = 3


def too_large(config: dict[str, Any]) -> None:
    config["adapter"]["lora"]["rank"] = 9_000


def too_strong(config: dict[str, Any]) -> None:
    config["adapter"]["lora"]["alpha"] = 1e300


def too_many_names(config: dict[str, Any]) -> None:
    config["adapter"]["lora"]["projections"] = ["*a*a*a*a*b"] * 10_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (newer, r"config.json has format 2, newer than this version reads \(1\)"),
        (unknown, r"config.json is damaged: unknown setting adapter.kind"),
        (other_projections, r"adapter.safetensors: tensor .* does not belong to this architecture"),
        (other_rank, r"adapter.safetensors: .* has shape \[2, 16\], but this architecture has \[3, 16\]"),
        (too_large, r"config.json: tuning.lora.rank is 9000, but .* is a matrix of"),
        (
            too_strong,
            r"config.json is damaged: adapter.lora.alpha should be less than or equal to 1000000, but is 1e\+300",
        ),
        (too_many_names, r"config.json is damaged: adapter.lora.projections should have at most 100 items"),
    ],
)
def test_a_foreign_config_is_refused(change: Callable[[dict[str, Any]], None], message: str, adapter: Path) -> None:
    config = json.loads((adapter / "config.json").read_text())
    change(config)
    (adapter / "config.json").write_text(json.dumps(config))
    write_manifest(adapter)
    with pytest.raises(CheckpointError, match=message):
        load_model(adapter)


def test_an_adapter_that_makes_numbers_infinite_is_refused(base: Path, adapter: Path) -> None:
    weights = safetensors.torch.load_file(adapter / "adapter.safetensors")
    safetensors.torch.save_file(
        {name: weight * 1e30 for name, weight in weights.items()}, adapter / "adapter.safetensors"
    )
    write_manifest(adapter)
    with pytest.raises(CheckpointError, match="with this adapter .* holds numbers that are not finite"):
        load_model(base, adapter=adapter)


def test_a_whole_model_does_not_become_an_adapter_by_a_stray_file(base: Path, adapter: Path) -> None:
    shutil.copy(adapter / "adapter.safetensors", base)
    with pytest.raises(CheckpointError, match="adapter.safetensors is not listed in manifest.json"):
        load_model(base)


def test_what_was_loaded_from_an_adapter_is_a_plain_model(adapter: Path, base: Path) -> None:
    stored = load_model(adapter)
    names = {name for name, _ in stored.model.named_parameters()}
    assert names == {name for name, _ in load_model(base).model.named_parameters()}
    model = load_model(base).model
    place_weights(model, dict(stored.model.named_parameters()))
    assert torch.equal(logits(model), logits(stored.model)) and stored.files.adapter is None
