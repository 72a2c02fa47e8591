"""Tests of what only a CUDA device can show: recordings are replayed, and compute what a processor does."""

from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from small import Source, fresh_state, random_batch, train_settings, translator

import dragoman
from dragoman.data.batching import Batch, pinned
from dragoman.decoding.engine import Engine
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.decoding.request import Request
from dragoman.model.attention_backends import AttentionContext, choose_backend
from dragoman.model.packing import Packing
from dragoman.recording import WARM_UP
from dragoman.training.distributed import ALONE
from dragoman.training.loop import StepReport, Trainer
from dragoman.training.objective import CrossEntropy
from dragoman.training.prefetching import MicroBatch, fetch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

STEPS = WARM_UP + 5
SIZES: dict[str, Any] = {"d_model": 64, "heads": 4, "d_ff": 96}


def batches() -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    sides = torch.randint(1, 20, (STEPS, 2, 30), generator=random).tolist()
    return [random_batch(source, target, seed) for seed, (source, target) in enumerate(sides)]


def reports_on(device: str, precision: str, **settings: Any) -> tuple[list[StepReport], Trainer]:
    model = translator(dtype=torch.float32, dropout=0.1, alignment_head=(1, 0), **SIZES).to(device)
    chosen = train_settings(precision=precision, **settings)
    trainer = Trainer(model, CrossEntropy(Source(batches()), 0.1), chosen, fresh_state(model, chosen))
    reports = []
    for number in range(STEPS):
        parts = fetch(trainer.batches, [number], ALONE)
        if device == "cuda":
            parts = [MicroBatch(size, pinned(batch)) for size, batch in parts]
        reports.append(trainer.step(parts).report())
    return reports, trainer


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_recorded_steps_are_the_steps_of_a_processor(precision: str, optimiser: str) -> None:
    expected, _ = reports_on("cpu", "float32", optimiser=optimiser)
    recorded, trainer = reports_on("cuda", precision, optimiser=optimiser)
    assert trainer._recorded is not None
    assert trainer._recorded._gradient.is_recorded and trainer._recorded._update.is_recorded
    share = 1e-3 if (precision, optimiser) == ("float32", "adamw") else 5e-2  # Muon multiplies in bf16
    assert [report.loss for report in recorded] == pytest.approx([report.loss for report in expected], rel=share)
    assert [report.norm for report in recorded] == pytest.approx([report.norm for report in expected], rel=10 * share)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_on_the_device_is_that_of_a_processor(beam_size: int) -> None:
    from dragoman.decoding.device_stepper import DeviceStepper

    model, random = translator(dtype=torch.float32, **SIZES), torch.Generator().manual_seed(2)
    sources = [
        torch.randint(4, 23, (int(n),), generator=random).tolist()
        for n in torch.randint(1, 15, (64,), generator=random)
    ]
    requests = [Request([*source, 3], limit=25, beam_size=beam_size, length_penalty=0.6) for source in sources]
    outputs = []
    for stepper in (ModelStepper(model), DeviceStepper(translator(dtype=torch.float32, **SIZES).cuda())):
        engine = Engine(stepper, start=2, end=3, batch_tokens=2_000)
        tickets = [engine.admit(request) for request in requests]
        results = {result.ticket: result.hypotheses[0] for result in engine.run()}
        outputs.append([results[ticket] for ticket in tickets])
    equal = sum(on_cpu.tokens == on_gpu.tokens for on_cpu, on_gpu in zip(*outputs, strict=True))
    assert equal >= 60, "but for near ties"


def test_flash_attention_is_the_equation() -> None:
    model = translator(dtype=torch.float32, **SIZES).to("cuda", torch.bfloat16)
    batch = random_batch([3, 50, 20], [40, 1, 6])
    on_card = batch.to("cuda")
    assert batch.source_lengths is not None
    packing = Packing.of(batch.source_lengths, "cuda")
    rows = torch.zeros(packing.rows, 12, 16, dtype=torch.bfloat16, device="cuda")
    assert choose_backend(rows, None, AttentionContext(4, packing, causal=True)) == "flash"
    expected = translator(dtype=torch.float32, **SIZES)(*batch.inputs)
    assert_close(model(*on_card.inputs).float().cpu(), expected, 5e-2)


def test_a_run_on_the_card_learns_and_translates(tmp_path: Path) -> None:
    run = dragoman.train("phrasebook", runs=tmp_path, name="card", device="cuda", minutes=0.3, progress=False)
    on_card, on_host = (
        dragoman.Translator.load(run.folder, device=device, precision="float32", progress=False)
        for device in ("cuda", "cpu")
    )
    texts = ["The room is too small.", "Where is the station?", "I would like a coffee."] * 40
    ours = [translation.text for translation in on_card.translate(texts)]
    expected = [translation.text for translation in on_host.translate(texts)]
    assert sum(on_gpu == on_cpu for on_gpu, on_cpu in zip(ours, expected, strict=True)) >= 110
