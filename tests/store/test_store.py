"""Model folders: what goes in comes out to the bit, and whatever was touched is refused by name."""

import json
import os
import pickle  # noqa: TID251 (to show that it is refused)
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.numpy import load, save
from small import random_batch, small_config
from torch import Tensor

from dragoman.errors import CheckpointError, DataError, DiskFull, Error
from dragoman.model.transformer import build_model
from dragoman.store import tensors as placing
from dragoman.store import weights
from dragoman.store.description import WEIGHTS, Languages, ModelFiles
from dragoman.store.folder import find_model, load_model
from dragoman.store.manifest import write_manifest
from dragoman.store.saving import save_model
from dragoman.store.tensors import named_weights
from dragoman.store.weights import SCALE, read_weights, write_weights
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

PAIRS = [("a b c d", "e f g h i"), ("b d", "h i e")]
ENGLISH_ITALIAN = Languages("en", "it")


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    settings = TokenizerSettings.model_validate({"kind": "word", "minimum_frequency": 1})
    return learn_tokenizers(lambda: iter(PAIRS), settings)


def a_model(tokenizers: Tokenizers, **settings: object) -> Any:
    sizes = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    return build_model(small_config(**sizes, **settings), seed=2)


@pytest.fixture
def folder(tokenizers: Tokenizers, tmp_path: Path) -> Path:
    save_model(tmp_path / "model", a_model(tokenizers), ModelFiles(tokenizers, ENGLISH_ITALIAN, {"beam": 3}))
    return tmp_path / "model"


def logits(model: Any) -> Tensor:
    batch = random_batch([2, 3], [4, 1])
    small = [part.clamp(max=6) if i % 2 == 0 else part for i, part in enumerate(batch.inputs)]  # ids, lengths, …
    with torch.inference_mode():
        return model.project(model(*small))


@pytest.mark.parametrize("tied", ["none", "target"])
@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_model_comes_back_to_the_bit(preset: str, tied: str, tokenizers: Tokenizers, tmp_path: Path) -> None:
    model = a_model(tokenizers, preset=preset, tied=tied)
    save_model(tmp_path / "model", model, ModelFiles(tokenizers, ENGLISH_ITALIAN, {"beam": 3}))
    stored = load_model(tmp_path / "model")
    assert torch.equal(logits(stored.model), logits(model))
    assert not stored.model.training
    assert {weight.dtype for weight in stored.model.parameters()} == {torch.float32}
    assert (stored.languages, stored.files.generation, stored.folder) == (("en", "it"), {"beam": 3}, tmp_path / "model")
    assert stored.config == model.config
    assert stored.tokenizers.source.encode("a d") == tokenizers.source.encode("a d")


def test_saving_what_was_loaded_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    stored = load_model(folder)
    save_model(tmp_path / "again", stored.model, stored.files)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_tied_weights_are_stored_once_and_come_back_as_one(tokenizers: Tokenizers, tmp_path: Path) -> None:
    save_model(tmp_path / "model", a_model(tokenizers, tied="target"), ModelFiles(tokenizers, ENGLISH_ITALIAN))
    names = safetensors.torch.load_file(tmp_path / "model" / WEIGHTS).keys()
    assert len(names & {"target_embedding.weight", "output"}) == 1
    model: Any = load_model(tmp_path / "model").model
    assert model.output is model.target_embedding.weight


def test_given_weights_are_saved_in_place_of_the_models_own(tokenizers: Tokenizers, tmp_path: Path) -> None:
    model = a_model(tokenizers)
    masters = {name: weight + 1 for name, weight in named_weights(model).items()}
    model.bfloat16()
    save_model(tmp_path / "model", model, ModelFiles(tokenizers, ENGLISH_ITALIAN), weights=masters)
    for name, weight in load_model(tmp_path / "model").model.named_parameters():
        assert torch.equal(weight, masters[name]), name


# Which folder is meant


def test_a_run_folder_means_its_best_model_or_else_its_final_one(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run / "final")
    assert load_model(run).folder == find_model(run) == run / "final"
    shutil.copytree(folder, run / "best")
    assert find_model(run) == run / "best"
    assert find_model(run / "final") == run / "final"


def test_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").touch()
    with pytest.raises(
        CheckpointError, match="is a run without a finished model yet; continue it with: dragoman train"
    ):
        load_model(tmp_path)


def test_no_folder_and_another_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere does not exist; MODEL is a model folder or a run folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="is not a model folder: it has no config.json"):
        load_model(tmp_path)


# What is refused


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "generation_config.json", "manifest.json", "tokenizer.source.json"]
)
def test_every_file_that_is_missing_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_model(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "generation_config.json", "tokenizer.target.json"]
)
def test_one_flipped_bit_or_one_byte_less_is_noticed_in_every_file(name: str, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        load_model(folder)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=f"{name} has .* bytes, .* it was cut"):
        load_model(folder)


def test_the_card_is_for_people_who_may_edit_or_remove_it(folder: Path) -> None:
    (folder / "README.md").write_text("# Ours\n")
    assert load_model(folder)
    (folder / "README.md").unlink()
    assert load_model(folder)
    (folder / "notes.md").write_text("not listed")
    with pytest.raises(CheckpointError, match="notes.md is not listed"):
        load_model(folder)


@pytest.mark.skipif(os.name == "nt", reason="links need a permission on Windows")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.target.json", "manifest.json"])
def test_a_file_that_is_a_link_is_refused_but_the_whole_folder_may_be_one(
    name: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "linked").symlink_to(folder)
    assert load_model(tmp_path / "linked")
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(CheckpointError, match=f"{name} is a symbolic link, but the files of such a folder must be in"):
        load_model(folder)


def rewritten(folder: Path, name: str, content: object) -> Path:
    """The folder with another JSON file, and a manifest that agrees."""
    (folder / name).write_text(json.dumps(content))
    write_manifest(folder)
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts.update(format=6), r"has format 6, newer than this version reads \(5\); upgrade dragoman"),
        (lambda facts: facts.pop("format"), "config.json is not Dragoman's: it has no format number"),
        (lambda facts: facts.update(format="1"), "it has no format number"),
        (lambda facts: facts.update(format=True), "it has no format number"),
        (lambda facts: facts.update(format=0), "formats count from 1, but its format is 0"),
        (lambda facts: facts.update(format=-5), "formats count from 1, but its format is -5"),
        (lambda facts: facts.update(formt=1), "config.json is damaged: unknown setting formt; did you mean format?"),
        (lambda facts: facts.pop("model"), "config.json is damaged: model must be given"),
        (lambda facts: facts.update(languages={"source": ["en"]}), "damaged: languages.target must be given"),
        (lambda facts: facts["languages"].update(target=[3]), "languages.target.* should be a .* string"),
        (lambda facts: facts["languages"].update(source=["en\x1b[31m"]), r"tag .* but this is 'en\\x1b\[31m'"),
        (lambda facts: facts["languages"].update(source=[""]), "damaged: languages.source.*: a language is given by"),
        (lambda facts: facts["model"].update(heads=3), "damaged: model.heads must divide model.d_model, but 3"),
        (lambda facts: facts["model"].update(head=3), "unknown setting model.head; did you mean model.heads?"),
        (lambda facts: facts["model"].pop("source_vocabulary"), "config.json: the vocabulary sizes are not set"),
        (lambda facts: facts["model"].update(target_vocabulary=99), "target tokenizer has .* tokens, but the model 99"),
        (lambda facts: facts["model"].update(alignment_head=[2, 0]), "names a layer below 2 and .* not 2, 0"),
        (lambda facts: facts["model"].update(d_ff=25), r"has shape \[.*\], but this architecture has \["),
        (lambda facts: facts["model"].update(decoder_layers=3), r"tensor decoder.blocks.2.* is missing"),
        (lambda facts: facts["model"].update(decoder_layers=1), r"tensor decoder.blocks.1.* does not belong"),
        (lambda facts: facts.update(framing={"source_before": [2] * 5_000}), "puts 5,001 symbols around a source"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_refused(change: Callable[[dict], object], message: str, folder: Path) -> None:
    facts = json.loads((folder / "config.json").read_text())
    change(facts)
    with pytest.raises(CheckpointError, match=message):
        load_model(rewritten(folder, "config.json", facts))


def test_a_folder_of_an_older_format_is_refused(folder: Path) -> None:
    facts = json.loads((folder / "config.json").read_text())
    with pytest.raises(CheckpointError, match=r"config.json has format 3, older than this version reads \(5\)"):
        load_model(rewritten(folder, "config.json", {**facts, "format": 3}))


HUGE = {
    "encoder_layers": (10**9, "model.encoder_layers should be less than or equal to 1000, but is 1000000000"),
    "decoder_layers": (1_000, r"tensor decoder.blocks.\d+.* is missing"),
    "d_model": (2**62, "model.d_model should be less than or equal to 65536"),
    "d_ff": (2**20, r"has shape \[.*\], but this architecture has \[1048576, 16\]"),
    "target_vocabulary": (2**31 - 1, "target tokenizer has .* tokens, but the model 2147483647"),
    "heads": (10**12, "model.heads should be less than or equal to 65536"),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_config_that_asks_for_more_than_the_weights_hold_builds_nothing(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, told = HUGE[name]
    facts = json.loads((folder / "config.json").read_text())
    facts["model"][name] = value
    monkeypatch.setattr(placing, "build_model", lambda *_, **__: pytest.fail("a model was built"))
    monkeypatch.setattr(weights, "safe_open", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(CheckpointError, match=told):
        load_model(rewritten(folder, "config.json", facts))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", "[" * 10_000, "config.json cannot be read: it is nested more than 64 levels deep"),
        ("manifest.json", '{"files":' * 10_000, "manifest.json cannot be read: it is nested more than 64 levels deep"),
        ("generation_config.json", '{"a":' * 10_000, "generation_config.json cannot be read: it is nested more than"),
        ("config.json", '{"format": 1, "format": 1}', "config.json cannot be read: it holds the key 'format' twice"),
        ("config.json", '{"format": %s}' % ("9" * 5_000), "it holds a whole number beyond 64 bits"),
        ("config.json", r'{"format": 1, "languages": {"source": "\ud800"}}', "it holds half of a surrogate pair"),
    ],
)  # fmt: skip
def test_hostile_json_is_refused_in_one_line(name: str, content: str, told: str, folder: Path) -> None:
    (folder / name).write_text(content)
    if name != "manifest.json":
        write_manifest(folder)
    with pytest.raises(CheckpointError, match=told) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.source.json", "tokenizer.target.json"])
def test_a_hostile_tokenizer_is_refused_in_one_line(name: str, folder: Path) -> None:
    (folder / name).write_text("[" * 10_000)
    write_manifest(folder)
    with pytest.raises(
        CheckpointError,
        match=f"{name} cannot be read: it is nested more than 64 levels deep",
    ):
        load_model(folder)


def with_header(folder: Path, change: Callable[[str], str]) -> Path:
    """The folder with another header before the same weights."""
    content = (folder / WEIGHTS).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + size].decode().rstrip()).encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + content[8 + size :])
    write_manifest(folder)
    return folder


def empty_tensors(count: int) -> str:
    facts = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    return "".join(f'"t{number}":{facts},' for number in range(count))


def test_a_header_of_far_more_tensors_than_the_config_needs_is_not_even_parsed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_header(folder, lambda header: "{" + empty_tensors(10_000) + header[1:])
    monkeypatch.setattr(weights, "parse_json", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(CheckpointError, match="its header has [0-9,]+ bytes, but [0-9]+ tensors need [0-9,]+ at most"):
        load_model(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda header: header, None),
        (lambda header: "{" + empty_tensors(1) + header[1:], "tensor t0 does not belong to this architecture"),
        (lambda header: "{" + empty_tensors(1) * 2 + header[1:], "it holds the key 't0' twice"),
        (lambda header: '{"__metadata__":{"made":"by"},' + header[1:], None),
        (lambda header: '{"t":3,' + header[1:], "its header does not give every tensor a type and a shape"),
        (lambda header: "[]", "its header is not a JSON object"),
        (lambda header: "[" * 3_000, "it is nested more than 64 levels deep"),
        (lambda header: header.replace("data_offsets", "data_offset", 1), "is not a readable safetensors file"),
    ],
)  # fmt: skip
def test_a_header_is_read_strictly(change: Callable[[str], str], told: str | None, folder: Path) -> None:
    with_header(folder, change)
    if told is None:
        assert load_model(folder)
        return
    with pytest.raises(CheckpointError, match=told):
        load_model(folder)


def test_a_config_that_is_no_object_is_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="config.json should hold a JSON object"):
        load_model(rewritten(folder, "config.json", ["format", 1]))


def test_generation_settings_that_are_no_object_are_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="generation_config.json should hold a JSON object"):
        load_model(rewritten(folder, "generation_config.json", [1]))


def reweighted(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    change(weights)
    safetensors.torch.save_file(weights, folder / WEIGHTS)
    write_manifest(folder)
    return folder


NAME = "encoder.blocks.0.feed_forward.inner.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop(NAME), f"tensor {NAME} is missing"),
        (lambda weights: weights.update(extra=torch.zeros(1)), "tensor extra does not belong to this architecture"),
        (lambda weights: weights.update({NAME: torch.zeros(2, 2)}), rf"{NAME} has shape \[2, 2\], but this"),
        (lambda weights: weights[NAME].view(-1)[3:4].fill_(torch.nan), f"{NAME} holds numbers that are not finite"),
        (lambda weights: weights[NAME].view(-1)[3:4].fill_(-torch.inf), f"{NAME} holds numbers that are not finite"),
        (lambda weights: weights.update({NAME: weights[NAME].half()}), f"{NAME} is of type F16, but should be F32"),
        (lambda weights: weights.update({NAME: weights[NAME].int()}), f"{NAME} is of type I32, but should be F32"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_named(
    change: Callable[[dict[str, Tensor]], object], message: str, folder: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        load_model(reweighted(folder, change))


def test_weights_whose_sum_alone_is_not_finite_are_read(tmp_path: Path) -> None:
    large = torch.full((2,), torch.finfo(torch.float32).max)
    write_weights(tmp_path / "a.safetensors", {"large": large, "none": torch.empty(0)})
    found = read_weights(tmp_path / "a.safetensors", {"large": (2,), "none": (0,)})
    assert (found["large"] == large.numpy()).all()


def test_the_file_is_the_one_that_safetensors_writes(tmp_path: Path) -> None:
    weights = {"b": torch.randn(2, 3), "empty": torch.empty(0), "step": torch.tensor(3.0), "ä": torch.randn(5)}
    write_weights(tmp_path / "plain", weights)
    assert (tmp_path / "plain").read_bytes() == save({name: weight.numpy() for name, weight in weights.items()})
    write_weights(tmp_path / "small", weights, quantised=True)
    numbers = load((tmp_path / "small").read_bytes())
    assert numbers.keys() == {*weights, "b" + SCALE} and numbers["b"].dtype == np.int8
    assert (tmp_path / "small").read_bytes() == save(numbers)


def test_weights_that_changed_after_they_were_checked_are_not_used(folder: Path) -> None:
    stored = load_model(folder)
    os.utime(folder / WEIGHTS, (1, 1))
    with pytest.raises(CheckpointError, match="was changed while it was in use; load the model again"):
        dict(stored.weights)
    (folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match="was changed while it was in use"):
        stored.model  # noqa: B018


class Harmful:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_nothing_is_unpickled(folder: Path, tmp_path: Path) -> None:
    (folder / WEIGHTS).write_bytes(pickle.dumps(Harmful(tmp_path / "mark")))
    write_manifest(folder)
    with pytest.raises(CheckpointError, match="model.safetensors is not a readable safetensors file"):
        load_model(folder)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02\x00\x00\x00\x00\x00\x00\x00{}extra", b"PK\x03\x04" * 40])
def test_any_other_file_in_the_place_of_weights_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="a.safetensors is not a readable safetensors file"):
        read_weights(tmp_path / "a.safetensors", {})


# What is not written


def test_a_model_with_a_nan_is_not_saved(tokenizers: Tokenizers, tmp_path: Path) -> None:
    model = a_model(tokenizers)
    model.get_parameter(NAME).data[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match=f"{NAME} holds numbers that are not finite; it was not saved"):
        save_model(tmp_path / "model", model, ModelFiles(tokenizers, ENGLISH_ITALIAN))
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_not_saved_over_another_unless_asked(folder: Path, tokenizers: Tokenizers) -> None:
    model = a_model(tokenizers, preset="paper")
    with pytest.raises(DataError, match="exists already"):
        save_model(folder, model, ModelFiles(tokenizers, ENGLISH_ITALIAN))
    assert load_model(folder).config.preset == "modern"
    save_model(folder, model, ModelFiles(tokenizers, ENGLISH_ITALIAN), replace=True)
    assert load_model(folder).config.preset == "paper"


def test_a_full_disk_keeps_the_model_that_stood_there(
    folder: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull):
        save_model(folder, a_model(tokenizers, preset="paper"), ModelFiles(tokenizers, ENGLISH_ITALIAN), replace=True)
    monkeypatch.undo()
    assert load_model(folder).config.preset == "modern"
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_every_refusal_is_an_error_of_ours_with_exit_code_4(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        load_model(tmp_path)
    assert caught.value.exit_code == 4


def test_weights_that_are_views_of_others_are_written_whole(tmp_path: Path) -> None:
    whole = torch.arange(12.0).unflatten(0, (3, 4))
    write_weights(tmp_path / "a.safetensors", {"part": whole.T[1:3], "step": torch.tensor(3.0)})
    found = read_weights(tmp_path / "a.safetensors", {"part": (2, 3), "step": ()})
    assert (found["part"] == whole.T[1:3].numpy()).all() and found["step"].item() == 3
