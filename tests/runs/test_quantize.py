"""`quantize`: matrices of 8 bits in a model folder that loads everywhere, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from compiler import needs_compiler
from small import small_config

import dragoman
from dragoman.cli.main import main
from dragoman.decoding.compiled_stepper import NativeModel, NativeStepper
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.model.adapters import adapt
from dragoman.model.config import LoraSettings
from dragoman.model.transformer import EncoderDecoder, build_model
from dragoman.store.description import FORMAT, WEIGHTS, Languages, ModelFiles
from dragoman.store.folder import describe_adapter, load_model
from dragoman.store.manifest import write_manifest
from dragoman.store.saving import save_model
from dragoman.store.weights import SCALE, quantise
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers

PAIRS = [("a b c d", "e f g h i"), ("b d", "h i e"), ("c c a", "g g")]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn_tokenizers(lambda: iter(PAIRS * 2), TokenizerSettings.model_validate({"kind": "word", "joint": True}))


@pytest.fixture(scope="module")
def folder(tokenizers: Tokenizers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"d_model": 64, "d_ff": 128, "heads": 2}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    model = build_model(small_config(preset="paper", **sizes, **vocabularies), seed=3)
    path = tmp_path_factory.mktemp("quantize") / "model"
    save_model(path, model, ModelFiles(tokenizers, Languages("en", "it"), {"beam_size": 2}))
    return path


@pytest.fixture(scope="module")
def small(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quantized") / "model"
    assert dragoman.quantize(folder, path).scores is None
    return path


def test_no_weight_moves_by_more_than_half_a_scale(folder: Path, small: Path) -> None:
    before, after = load_model(folder).weights, load_model(small).weights
    assert before.keys() == after.keys()
    for name, weight in before.items():
        if weight.ndim == 2:
            scale = np.abs(weight).max(1, keepdims=True) / 127
            assert (np.abs(after[name] - weight) <= scale * 0.5001).all() and (after[name] != weight).any(), name
        else:
            assert (after[name] == weight).all(), name


def test_a_row_of_zeros_stays_one_and_the_largest_number_is_127() -> None:
    whole, scale = quantise(np.array([[0, 0, 0], [1, -2, 0.5]], np.float32))
    assert whole.tolist() == [[0, 0, 0], [64, -127, 32]] and scale[1] == np.float32(2) / np.float32(127)


def test_it_takes_about_a_quarter_of_the_room(folder: Path, small: Path) -> None:
    before, after = ((each / WEIGHTS).stat().st_size for each in (folder, small))
    assert after < 0.32 * before, "names and vectors of a model so small take some"


@needs_compiler
def test_the_compiled_model_gets_the_same_whole_numbers_again(small: Path) -> None:
    """Then its products are those of the rounded matrices, but for the rounding of activations."""
    stored = load_model(small)
    for name, weight in stored.weights.items():
        if weight.ndim == 2:
            whole, scale = quantise(weight)
            assert np.abs(whole * scale[:, None] - weight).max() <= 1e-6 * np.abs(weight).max(), name
    compiled = NativeStepper(NativeModel(stored.config, stored.weights, "int8"))
    model = stored.model
    assert isinstance(model, EncoderDecoder)
    plain = ModelStepper(model)
    for stepper in (compiled, plain):
        stepper.admit([[5, 6, 7, 3]])
    one, other = (each.advance(np.array([2])).log_probs() for each in (compiled, plain))
    assert np.abs(one - other).max() < 0.02 * np.abs(other).max()


@needs_compiler
@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_the_integers_of_the_file_and_their_numbers_make_the_same_model(small: Path, precision: str) -> None:
    stored = load_model(small)
    logits = []
    for weights in (stored.tensors, stored.weights):
        stepper = NativeStepper(NativeModel(stored.config, weights, precision))
        stepper.admit([[5, 6, 7, 3]])
        logits.append(stepper.advance(np.array([2])).logits.copy())
    assert (logits[0] == logits[1]).all()


LOADED = """
import sys
from dragoman.decoding.compiled_stepper import NativeModel, available
from dragoman.memory import memory_bytes, peak_memory_bytes
from dragoman.store.folder import load_model
stored, _ = load_model(sys.argv[1]), available()
before = memory_bytes()
model = NativeModel(stored.config, stored.tensors, sys.argv[2])
print(peak_memory_bytes() - before)
"""


@needs_compiler
def test_a_model_takes_the_memory_of_its_packed_weights(tokenizers: Tokenizers, tmp_path: Path) -> None:
    """Also while it is loaded: no matrix is held twice."""
    sizes: dict[str, Any] = {"d_model": 512, "d_ff": 2_048, "heads": 8, "encoder_layers": 5, "decoder_layers": 5}
    vocabularies = {"source_vocabulary": tokenizers.source.size, "target_vocabulary": tokenizers.target.size}
    model = build_model(small_config(preset="paper", tied="all", **sizes, **vocabularies), seed=3)
    weights = sum(weight.numel() for weight in model.parameters())
    for quantised, precision, size in ((True, "int8", 1), (False, "float32", 4)):
        folder = tmp_path / precision
        save_model(folder, model, ModelFiles(tokenizers, Languages("en", "it")), quantised=quantised)
        code = [sys.executable, "-c", LOADED, folder, precision]
        done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=300)
        assert int(done.stdout) < 1.2 * size * weights + 20e6, (precision, int(done.stdout) / weights)


@needs_compiler
def test_it_computes_in_int8_unless_told_otherwise(small: Path, folder: Path) -> None:
    assert dragoman.Translator.load(small, "cpu").precision == "int8"
    assert dragoman.Translator.load(small, "cpu", "float32").precision == "float32"
    assert dragoman.Translator.load(folder, "cpu").precision == "float32"


def test_a_model_that_is_loaded_and_saved_again_is_no_longer_quantised(small: Path, tmp_path: Path) -> None:
    stored = load_model(small)
    save_model(tmp_path / "again", stored.model, stored.files)
    again = load_model(tmp_path / "again")
    assert not again.quantised and all((again.weights[name] == w).all() for name, w in stored.weights.items())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tensors: tensors.pop("output" + SCALE), r"tensor output\.scale is missing"),
        (lambda tensors: tensors.update(output=np.float32(tensors["output"])), "output is of type F32, but .* I8"),
        (
            lambda tensors: tensors.update({"output" + SCALE: np.ones(3, np.float32)}),
            r"output\.scale has shape \[3\], but",
        ),
        (lambda tensors: tensors["output" + SCALE].fill(np.nan), r"output\.scale holds numbers that are not finite"),
    ],
)  # fmt: skip
def test_a_damaged_one_is_refused(change, told: str, small: Path, tmp_path: Path) -> None:
    stored = load_model(small)
    save_model(tmp_path / "m", stored.model, stored.files, quantised=True)
    tensors = safetensors.numpy.load_file(tmp_path / "m" / WEIGHTS)
    change(tensors)
    safetensors.numpy.save_file(tensors, tmp_path / "m" / WEIGHTS)
    write_manifest(tmp_path / "m")
    with pytest.raises(CheckpointError, match=told):
        load_model(tmp_path / "m")


def test_eight_bits_are_read_only_where_the_folder_says_so(small: Path, tmp_path: Path) -> None:
    stored = load_model(small)
    save_model(tmp_path / "m", stored.model, stored.files, quantised=True)
    facts = json.loads((tmp_path / "m" / "config.json").read_text())
    assert (facts["format"], facts["quantised"]) == (FORMAT, True)
    (tmp_path / "m" / "config.json").write_text(json.dumps({**facts, "quantised": False}))
    write_manifest(tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"tensor .*\.scale does not belong|is of type I8, but should be F32"):
        load_model(tmp_path / "m")


def test_what_cannot_be_quantised_is_refused_before_anything_is_written(
    folder: Path, small: Path, tokenizers: Tokenizers, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is quantised already"):
        dragoman.quantize(small, tmp_path / "twice")
    with pytest.raises(DataError, match="exists already"):
        dragoman.quantize(folder, small)
    encoder = build_model(small_config(family="encoder", source_vocabulary=tokenizers.source.size), seed=1)
    save_model(tmp_path / "encoder", encoder, ModelFiles(tokenizers))
    with pytest.raises(ConfigError, match="takes models that write text"):
        dragoman.quantize(tmp_path / "encoder", tmp_path / "no")
    with pytest.raises(ConfigError, match="does not translate, so there is nothing to score"):
        dragoman.quantize(tmp_path / "encoder", tmp_path / "no", "test.tsv")
    assert not (tmp_path / "no").exists() and not (tmp_path / "twice").exists()


@pytest.mark.parametrize("scored", [False, True])
def test_an_adapter_is_quantised_with_its_base(folder: Path, scored: bool, tmp_path: Path) -> None:
    model, lora = load_model(folder).model, LoraSettings(rank=2)
    adapt(model, lora, seed=3)
    save_model(
        tmp_path / "adapter", model, ModelFiles(generation={"beam_size": 2}, adapter=describe_adapter(folder, lora))
    )
    test = tmp_path / "test.en-it.tsv"
    test.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS * 4), encoding="utf-8")
    found = dragoman.quantize(tmp_path / "adapter", tmp_path / "small", test if scored else None)
    assert found.bytes_after < 0.32 * found.bytes_before and (found.scores is not None) == scored
    assert load_model(tmp_path / "small").quantised


def test_the_command_prints_bleu_before_and_after(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test.en-it.tsv"
    test.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS * 4), encoding="utf-8")
    torch.manual_seed(1)
    assert main(["quantize", str(folder), "--to", str(tmp_path / "small"), "--test", str(test)]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("BLEU") >= 2 and str(folder) in printed.out and str(tmp_path / "small") in printed.out
    assert "MB instead of" in printed.err
    assert main(["quantize", str(folder), "--to", str(tmp_path / "unscored")]) == 0
    assert "give --test a file of pairs" in capsys.readouterr().err
