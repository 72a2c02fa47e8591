"""The memory of training: its estimate against the peak of a process, and the lines that report it."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from small_runs import train_small

from dragoman.inference.options import SearchOptions
from dragoman.inference.search import ModelSearch
from dragoman.memory import report_memory
from dragoman.model.config import ModelConfig
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING

STEP = """
import json, sys
import torch
from dragoman.config import check
from dragoman.data.batching import Batch
from dragoman.memory import memory_bytes, peak_memory_bytes
from dragoman.model.dropout import StepKey
from dragoman.runs.recipe import Recipe
from dragoman.runs.starting import fresh_state, training_memory
from dragoman.training.objective import CrossEntropy, add_gradient

recipe = check(json.loads(sys.argv[1]), "test", Recipe)
before, estimate = memory_bytes(), training_memory(recipe)
model, state = fresh_state(recipe, "cpu")
tokens = recipe.batches.batch_tokens
ids, lengths = torch.arange(tokens) % 900 + 4, torch.full((tokens // 16,), 16)
batch = Batch(ids, lengths, ids, ids, lengths, torch.arange(len(lengths)))
for step in (1, 2):
    add_gradient(model.train(), CrossEntropy(None, 0.1), state.masters, batch, tokens, StepKey(1, step))
    state.masters.step(1e-4, 1.0)
print(json.dumps([sum(estimate.values()), peak_memory_bytes() - before]))
"""
MODEL = {"preset": "paper", "d_model": 256, "heads": 4, "d_ff": 1_024, "encoder_layers": 4, "decoder_layers": 4}
SIZES = {"source_vocabulary": 12_000, "target_vocabulary": 12_000, "tied": "all"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient_checkpointing": True},
    ],
)
def test_the_estimate_is_near_the_peak_of_a_process(changes: dict[str, Any]) -> None:
    train = {"precision": "float32", "steps": 2, "learning_rate": 1e-4, "warmup_steps": 1, **changes}
    recipe = {"model": {**MODEL, **SIZES}, "train": train, "batches": {"batch_tokens": 2_048}}
    code = [sys.executable, "-c", STEP, json.dumps(recipe)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=300)
    estimate, peak = json.loads(done.stdout.splitlines()[-1])
    assert 0.7 < estimate / peak < 1.5, (estimate / 2**20, peak / 2**20)


def test_a_run_reports_its_memory_before_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        train_small(tmp_path, "train.steps=1")
    (line,) = [line for line in caplog.messages if line.startswith("training takes about")]
    assert "GiB of memory: the program" in line and "optimiser" in line and "activations" in line


def test_more_memory_than_there_is_gets_a_warning_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        report_memory("converting", {"the file": 2 << 30, "float32 weights": 4 << 30}, "buy more")
        assert caplog.messages == ["converting takes about 6.0 GiB of memory: the file 2.0, float32 weights 4.0"]
        report_memory("converting", {"the file": 1 << 60}, "take a smaller model")
    assert caplog.messages[-1].startswith("that is more than the ")
    assert caplog.messages[-1].endswith("GiB that this process may hold; take a smaller model")


@pytest.mark.parametrize(("layers", "width", "tokens"), [(6, 512, 4_096), (12, 1_024, 1_365), (24, 8_192, 1_024)])
def test_a_batch_of_a_large_model_is_smaller(layers: int, width: int, tokens: int) -> None:
    sizes = {"preset": "paper", "d_model": width, "heads": 8, "decoder_layers": layers}
    config = ModelConfig.model_validate(sizes)
    runtime = cast(Any, SimpleNamespace(native=SimpleNamespace(config=config), device="cpu"))
    search = ModelSearch(runtime, DEFAULT_FRAMING, threads=1)
    assert search._batch_tokens(SearchOptions(), False) == tokens
    assert search._batch_tokens(SearchOptions(batch_tokens=100), False) == 100
