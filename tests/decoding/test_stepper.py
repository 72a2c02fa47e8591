"""An encoder-decoder as a `Stepper`: the cache, its rows in any company, and the score of what was found."""

import random
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from reference_search import search

from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.model_stepper import ModelStepper
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.decoding.steppers import Stepper
from dragoman.model.config import ModelConfig
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder, build_model

VOCABULARY, START, END = 40, 2, 3
PRESETS = ["paper", "modern"]


def tiny(preset: str, **settings: object) -> EncoderDecoder:
    config = ModelConfig(
        **{
            "preset": preset,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "d_model": 32,
            "heads": 4,
            "d_ff": 48,
            "source_vocabulary": VOCABULARY,
            "target_vocabulary": VOCABULARY,
            "tied": "none",
            **settings,
        }
    )
    model = build_model(config, seed=1)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.output.mul_(4)  # fresh weights find all tokens alike; these have opinions
    return model.eval()


def sources(count: int, longest: int = 12) -> list[list[int]]:
    words = random.Random(3)
    return [
        [START, *(words.randrange(4, VOCABULARY) for _ in range(words.randint(1, longest))), END] for _ in range(count)
    ]


def found(
    model: EncoderDecoder, rows: list[list[int]], batch_tokens: int = 4096, **settings: Any
) -> list[list[Hypothesis]]:
    engine = Engine(ModelStepper(model), start=START, end=END, batch_tokens=batch_tokens)
    return search(engine, [Request(row, len(row) + 5, length_penalty=0.6, **settings) for row in rows])


@torch.inference_mode()
def recomputed(model: EncoderDecoder, source: list[int], tokens: list[int]) -> torch.Tensor:
    """Log-probabilities of what follows, without a cache."""
    packing = Packing.of([len(source)])
    keys = model.cross_keys(model.encode(torch.tensor(source), packing), packing)
    hidden = model.decode(torch.tensor([START, *tokens]), Packing.of([len(tokens) + 1]), keys)
    return model.project(hidden)[-1].log_softmax(-1)


def test_a_model_stepper_is_a_stepper() -> None:
    assert isinstance(ModelStepper(tiny("paper")), Stepper)


@pytest.mark.parametrize("preset", PRESETS)
@torch.inference_mode()
def test_rows_that_join_leave_double_and_change_places_keep_their_log_probabilities(preset: str) -> None:
    model, words = tiny(preset), random.Random(0)
    stepper, waiting = ModelStepper(model), sources(12)
    rows: list[tuple[list[int], list[int]]] = []
    for step in range(14):
        if waiting and step % 2 == 0:
            stepper.admit([waiting.pop(), waiting.pop()])
            rows += [(source, []) for source in sources(12)[len(waiting) : len(waiting) + 2][::-1]]
        fresh = [START if not tokens else tokens[-1] for _, tokens in rows]
        log_prob = stepper.advance(np.array(fresh)).log_prob
        for (source, tokens), row in zip(rows, log_prob, strict=True):
            torch.testing.assert_close(row, recomputed(model, source, tokens), atol=1e-4, rtol=0)
        chosen = [words.randrange(len(rows)) for _ in range(words.randint(2, 6))]
        stepper.select(np.array(chosen))
        rows = [(rows[i][0], [*rows[i][1], words.randrange(4, VOCABULARY)]) for i in chosen]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("width", [1, 4])
def test_a_sentence_alone_and_in_any_batch_gives_the_same_tokens_and_scores(preset: str, width: int) -> None:
    model, rows = tiny(preset), sources(16)
    alone = [found(model, [row], beam_size=width, n_best=width)[0] for row in rows]
    assert any(h.finished for hypotheses in alone for h in hypotheses)
    for room in (60, 10_000):
        together = found(model, rows, beam_size=width, n_best=width, batch_tokens=room)
        tokens = [[[h.tokens for h in hypotheses] for hypotheses in results] for results in (alone, together)]
        assert tokens[0] == tokens[1]
        for one, other in zip(chain(*alone), chain(*together), strict=True):
            assert one.total == pytest.approx(other.total, abs=1e-4)


def test_greedy_search_is_the_likeliest_token_of_the_recomputed_model() -> None:
    model = tiny("paper")
    for row, (hypothesis,) in zip(sources(4), found(model, sources(4), beam_size=1), strict=True):
        tokens: list[int] = []
        while len(tokens) < len(row) + 5 and END not in tokens:
            tokens.append(int(recomputed(model, row, tokens).argmax()))
        assert list(hypothesis.tokens) == tokens


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("width", [1, 4])
def test_the_score_of_what_was_found_is_the_score_reported(preset: str, width: int) -> None:
    model, rows = tiny(preset), sources(20)
    best = [hypotheses[0] for hypotheses in found(model, rows, beam_size=width)]
    scores = score(lambda: ModelStepper(model), rows, [h.tokens for h in best], START, batch_tokens=100)
    for hypothesis, log_probs in zip(best, scores, strict=True):
        assert log_probs == pytest.approx(hypothesis.log_probs, abs=1e-4)
        assert sum(log_probs) == pytest.approx(hypothesis.total, abs=1e-4)


def test_bf16_weights_give_float32_log_probabilities_that_sum_to_one() -> None:
    stepper = ModelStepper(tiny("modern").to(torch.bfloat16))
    with torch.inference_mode():
        stepper.admit(sources(5))
        log_prob = stepper.advance(np.full(5, START)).log_prob
    assert log_prob.dtype == torch.float32
    torch.testing.assert_close(log_prob.exp().sum(1), torch.ones(5))
