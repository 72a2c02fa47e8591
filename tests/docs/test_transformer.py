"""The model on one screen: its logits are those of the preset `paper`, and it learns."""

import importlib.util
import random
from types import ModuleType
from typing import Any

import pytest
import torch
from guide_site import DOCS
from torch_twin import unsettled

from dragoman.model.config import ModelConfig
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, build_model


@pytest.fixture(scope="module")
def screen() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transformer_on_one_screen", DOCS / "guide" / "transformer.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_its_logits_are_those_of_the_paper_preset(screen: ModuleType, seed: int) -> None:
    sizes: dict[str, Any] = {"d_model": 24, "heads": 3, "d_ff": 40, "encoder_layers": 2, "decoder_layers": 2}
    config = ModelConfig(preset="paper", source_vocabulary=20, target_vocabulary=30, dropout=0.0, **sizes)
    ours = build_model(config, seed=seed).double().eval()
    assert isinstance(ours, EncoderDecoder)
    unsettled(ours)
    model = screen.Transformer(20, 30, d_model=24, layers=2, heads=3, d_ff=40).double().eval()
    weights = {name.replace(".blocks.", "."): weight for name, weight in ours.state_dict().items() if name != "output"}
    model.load_state_dict(weights)

    draw = torch.Generator().manual_seed(seed)
    lengths = [[4, 9, 1], [7, 2, 6]]
    source, target = (
        [torch.randint(4, size, (length,), generator=draw) for length in side]
        for side, size in zip(lengths, (20, 30), strict=True)
    )
    rows = [torch.cat(side) for side in (source, target)]
    with torch.no_grad():
        hidden = ours(rows[0], torch.tensor(lengths[0]), rows[1], torch.tensor(lengths[1]))
        expected = ours.project(hidden)
        padded = [torch.nn.utils.rnn.pad_sequence(side, batch_first=True) for side in (source, target)]
        logits = Packing.of(lengths[1]).unpad(model(*padded))
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)


def test_it_learns_to_turn_a_sentence_round(screen: ModuleType) -> None:
    torch.manual_seed(1)
    random.seed(1)
    words = "red dogs see small cats run home".split()
    sources = [" ".join(random.choices(words, k=random.randint(1, 5))) for _ in range(2_000)]
    pairs = [(source, " ".join(reversed(source.split()))) for source in sources]
    known = screen.vocabulary(sources)
    model = screen.Transformer(len(known), len(known), d_model=32, layers=1, heads=2, d_ff=64, dropout=0.0)
    screen.train(model, pairs, known, known, steps=800, warmup_steps=100)
    model.eval()
    unseen = ["cats see red dogs", "home run small", "dogs"]
    translations = [screen.text_of(row, known) for row in screen.greedy(model, screen.ids(unseen, known))]
    assert translations == ["dogs red see cats", "small run home", "dogs"]


def test_it_trains_on_the_device_of_its_model(screen: ModuleType) -> None:
    words = screen.vocabulary(["red dogs run"] * 2)
    model = screen.Transformer(len(words), len(words), d_model=32, layers=1, heads=2, d_ff=64).to("meta")
    screen.train(model, [("red dogs", "run")] * 4, words, words, steps=2)  # fails if a tensor is elsewhere
    assert screen.ids(["red dogs"], words, "meta").is_meta


def test_text_comes_back_from_its_ids(screen: ModuleType) -> None:
    texts = ["Dov'è l'acqua? È qui, signora.", "Sì!"]
    words = screen.vocabulary([*texts, *texts])
    assert [screen.text_of(row, words) for row in screen.ids(texts, words)] == texts
    assert screen.ids(["No!"], words).tolist() == [[screen.START, screen.UNKNOWN, words["!"], screen.END]]
