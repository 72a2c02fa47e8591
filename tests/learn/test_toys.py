"""It learns: to copy, reverse and sort, in under a minute each, and one sentence by heart."""

import random
from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from marks import thorough
from reference_search import search
from small import END, START, Source, batch_of, fresh_state, objective, run_steps, train_settings

from dragoman.data.batching import Batch, BatchSize
from dragoman.decoding.engine import Engine
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.decoding.request import Request
from dragoman.model.config import ModelConfig
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, LanguageModel, build_model

SYMBOLS = 14
TASKS: dict[str, Callable[[list[int]], list[int]]] = {"copy": list, "reverse": lambda x: x[::-1], "sort": sorted}


class Toys:
    """Endless random sequences of 3 to 8 symbols and what is to be made of them."""

    def __init__(self, task: Callable[[list[int]], list[int]]) -> None:
        self.task = task

    def epoch(self, number: int) -> range:
        return range(number * 1000, (number + 1) * 1000)

    @lru_cache(1)  # noqa: B019 (a few toys, and each batch is asked for twice)
    def batch(self, indices: int, rows: int = 64) -> Batch:
        sources = toy_sources(seed=indices, rows=rows)
        return batch_of([torch.tensor(row) for row in sources], [torch.tensor(self.task(row)) for row in sources])

    def size_of(self, indices: int) -> BatchSize:
        return self.batch(indices).size


def toy_sources(seed: int, rows: int) -> list[list[int]]:
    dice = random.Random(seed)
    return [[dice.randrange(4, SYMBOLS) for _ in range(dice.randint(3, 8))] for _ in range(rows)]


def translated(model: EncoderDecoder, sources: list[list[int]]) -> list[list[int]]:
    requests = [Request([START, *source, END], 12) for source in sources]
    found = search(Engine(ModelStepper(model), start=START, end=END), requests)
    return [[token for token in best.tokens if token != END] for best, *_ in found]


@pytest.mark.parametrize(
    ("task", "preset"),
    [
        ("reverse", "modern"),
        ("sort", "paper"),
        *thorough(("copy", "modern"), ("copy", "paper"), ("reverse", "paper"), ("sort", "modern")),
    ],
)
def test_a_toy_is_learnt_to_95_in_100_unseen_sequences(task: str, preset: str) -> None:
    sizes = {"d_model": 64, "heads": 4, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    config = ModelConfig.model_validate(
        {"preset": preset, "source_vocabulary": SYMBOLS, "target_vocabulary": SYMBOLS, **sizes}
    )
    model = build_model(config, seed=1)
    assert isinstance(model, EncoderDecoder)
    settings = train_settings(steps=400, learning_rate=3e-3, warmup_steps=60)
    run_steps(model, objective(Toys(TASKS[task]), settings), settings, fresh_state(model, settings))
    unseen = toy_sources(seed=10**9, rows=200)
    right = [
        found == TASKS[task](source) for found, source in zip(translated(model.eval(), unseen), unseen, strict=True)
    ]
    assert sum(right) >= 190


SENTENCE = "the dragoman stood between two worlds and gave each the other's words"


def test_a_language_model_of_characters_learns_a_sentence_by_heart() -> None:
    ids = torch.tensor([4 + ord(character) - ord(" ") for character in SENTENCE])
    sizes = {"d_model": 32, "heads": 4, "d_ff": 64, "decoder_layers": 1, "dropout": 0.0}
    config = ModelConfig.model_validate({"family": "language_model", "target_vocabulary": 128, **sizes})
    model = build_model(config, seed=1)
    assert isinstance(model, LanguageModel)
    settings = train_settings(steps=150, warmup_steps=10, label_smoothing=0.0)

    run_steps(model, objective(Source([batch_of(None, [ids])]), settings), settings, fresh_state(model, settings))
    assert "".join(chr(token - 4 + ord(" ")) for token in written(model.eval(), len(ids))) == SENTENCE


@torch.inference_mode()
def written(model: LanguageModel, longest: int) -> list[int]:
    """The likeliest next character, again and again, until the end symbol."""
    cache, tokens, step = model.start(1), [START], Packing.of([1])
    while len(tokens) <= longest:
        token = int(model.project(model.decode(torch.tensor(tokens[-1:]), step, cache)).argmax())
        if token == END:
            break
        tokens.append(token)
    return tokens[1:]
