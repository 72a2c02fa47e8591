"""Steps that a device takes ahead find what steps with the host find, and what `beam` in plain Python defines."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from reference_search import search
from small import END, START, VOCABULARY, translator
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.decoding.beam import Beam
from dragoman.decoding.device_stepper import DeviceSearch, DeviceStepper, IdleSearches
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Outputs
from dragoman.decoding.model_stepper import ModelStepper, TensorScores
from dragoman.decoding.processors import Ban, EachOnce, LogitsProcessor, MinimumLength, NotBlank, rules_of_rows
from dragoman.decoding.request import Request
from dragoman.errors import DecodeError
from dragoman.model.cache import BeamSizes
from dragoman.model.packing import Packing
from dragoman.model.transformer import EncoderDecoder
from dragoman.surface.sentences import is_blank

PLACEHOLDERS = [20, 21, 22]
SPELLINGS = [b"", b"", b"", b"", b" ", b"\xc2", b"\xa0", *[b"a"] * (VOCABULARY - 7)]


class Counting(DeviceStepper):
    """A stepper that counts the steps of either kind, and remembers their sizes."""

    def __init__(self, model: EncoderDecoder, idle: IdleSearches | None = None) -> None:
        super().__init__(model, idle)
        self.ahead = self.with_host = 0
        self.sizes: list[BeamSizes] = []

    def advance(self, token: np.ndarray) -> TensorScores:
        self.with_host += 1
        return super().advance(token)

    def expand_ahead(self, *arguments: Any) -> Iterator[Any]:
        self.ahead += arguments[-1]
        expansions = super().expand_ahead(*arguments)
        assert self._search is not None
        self.sizes.append(self._search.sizes)
        return expansions


def opinionated(**settings: Any) -> EncoderDecoder:
    """Return a model whose tokens differ in probability."""
    model = translator(tied="none", **settings)
    with torch.no_grad():
        model.output.mul_(4)
    return model.eval()


def requests(count: int, width: int, seed: int = 0, *, placeholders: bool = True, **settings: Any) -> list[Request]:
    """Return requests with rules that a device knows; every second one has placeholders to write."""
    dice = random.Random(seed)
    ban, not_blank, no_placeholder = Ban([0, 1, 2]), NotBlank(SPELLINGS, END, is_blank), Ban(PLACEHOLDERS)
    made = []
    for number in range(count):
        source = [START, *(dice.randrange(4, VOCABULARY) for _ in range(dice.randint(1, 9))), END]
        own = dice.sample(PLACEHOLDERS, dice.randint(1, 3))
        each_once = placeholders and number % 2
        rules: list[LogitsProcessor] = [
            ban,
            not_blank,
            EachOnce(own, PLACEHOLDERS, END) if each_once else no_placeholder,
        ]
        usual = {
            "limit": dice.randint(1, 40),
            "n_best": dice.randint(1, width),
            "length_penalty": dice.choice([0.0, 0.6, 2.0]),
        }
        usual["early_stopping"] = dice.random() < 0.5
        made.append(Request(source, beam_size=width, processors=tuple(rules), **{**usual, **settings}))
    return made


def written(results: Sequence[Any]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results]


def totals(results: Sequence[Any]) -> list[float]:
    return [hypothesis.total for hypothesis in chain(*results)]


def both(model: Any, asked: list[Request], batch_tokens: int = 4096) -> tuple[list[Any], list[Any], Counting]:
    """Return the results with steps ahead, and with the host in every step."""
    stepper = Counting(model)
    ahead, plain = (
        search(Engine(either, start=START, end=END, batch_tokens=batch_tokens), asked)
        for either in (stepper, ModelStepper(model))
    )
    return ahead, plain, stepper


MODELS: dict[str, dict[str, Any]] = {
    "sinusoids": {"preset": "paper"},
    "rotary": {"preset": "modern"},
    "learned positions": {"preset": "paper", "positions": "learned", "max_positions": 41},
    "grouped heads": {"preset": "modern", "kv_heads": 2},
}


@pytest.mark.parametrize("batch_tokens", [60, 4096], ids=["joining", "together"])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_steps_ahead_find_what_steps_with_the_host_find(
    settings: dict[str, Any], width: int, batch_tokens: int
) -> None:
    asked = requests(24, width)
    ahead, plain, stepper = both(opinionated(**settings), asked, batch_tokens * width)
    assert written(ahead) == written(plain)
    assert totals(ahead) == pytest.approx(totals(plain), rel=1e-6)  # handed over as float32
    assert stepper.ahead > stepper.with_host > 0  # the first step of those that enter is with the host: NotBlank


@pytest.mark.parametrize("width", [1, 3])
def test_steps_ahead_find_what_the_definition_finds(width: int) -> None:
    model = opinionated()
    asked = requests(12, width, seed=1, early_stopping=False)
    results, _, stepper = both(model, asked)
    assert stepper.ahead
    assert written(results) == written([Beam(request, END).search(follow(model, request)) for request in asked])


def follow(model: EncoderDecoder, request: Request) -> Callable[[tuple[int, ...]], list[float]]:
    """Return the log-probabilities of the model without a cache, by the rules of the request."""

    @torch.inference_mode()
    def log_probs(tokens: tuple[int, ...]) -> list[float]:
        packing, outputs = Packing.of([len(request.source)]), Outputs()
        keys = model.cross_keys(model.encode(torch.tensor(request.source), packing), packing)
        hidden = model.decode(torch.tensor([START, *tokens]), Packing.of([len(tokens) + 1]), keys)
        step = TensorScores(model.project(hidden)[-1:].float().log_softmax(-1))
        outputs.tokens, outputs.lengths = np.array([[*tokens, 0]]), np.array([len(tokens)])
        for processor in request.processors:
            processor(step, np.zeros(1, np.int64), outputs)
        return step.log_probs()[0].tolist()

    return log_probs


@pytest.mark.parametrize("width", [1, 4])
def test_requests_that_come_and_go_find_what_they_find_alone(width: int) -> None:
    model, asked = opinionated(), requests(20, width, seed=2)
    engine = Engine(stepper := Counting(model), start=START, end=END, batch_tokens=50 * width)
    tickets: dict[int, int] = {}
    results: dict[int, Any] = {}
    waiting = list(range(len(asked)))
    while engine.busy or waiting:
        if waiting:
            number = waiting.pop(0)
            tickets[engine.admit(asked[number])] = number
        if len(waiting) % 4 == 0 and engine.active:
            engine.cancel(engine.active[len(waiting) % len(engine.active)])
        results |= {tickets[result.ticket]: result.hypotheses for result in engine.step(ahead=True)}
    assert 5 <= len(results) < len(asked) and stepper.ahead
    plain = search(Engine(ModelStepper(model), start=START, end=END), [asked[number] for number in results])
    assert written(list(results.values())) == written(plain)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_rows_of_a_finished_request_continue_within_the_positions_of_the_model(
    settings: dict[str, Any], width: int
) -> None:
    model = opinionated(**settings)
    long, late = (Request([START, number, END], 40, width, processors=(Ban([END]),)) for number in (5, 6))
    engine = Engine(stepper := Counting(model), start=START, end=END)
    tickets = [engine.admit(long)]
    for _ in range(3):
        engine.step(ahead=True)
    tickets.append(engine.admit(late))
    results = {result.ticket: result.hypotheses for result in engine.run()}
    plain = Engine(ModelStepper(model), start=START, end=END)
    assert written([results[ticket] for ticket in tickets]) == written(search(plain, [long, late]))
    assert stepper.ahead > 40 and not stepper.with_host


@pytest.mark.parametrize("width", [1, 4])
def test_a_request_that_fails_within_steps_ahead_disturbs_no_other(width: int) -> None:
    model = opinionated()
    with torch.no_grad():
        model.target_embedding.weight[9] = torch.nan  # whoever writes this token fails in the next step
    asked = requests(24, width, placeholders=False)
    for request in asked[::2]:
        request.processors += (Ban([9]),)
    outcomes = []
    for stepper in (Counting(model), ModelStepper(model)):
        engine = Engine(stepper, start=START, end=END, batch_tokens=80 * width)
        tickets = [engine.admit(request) for request in asked]
        ended = {result.ticket: result for result in engine.run()}
        outcomes.append([ended[ticket].outcome for ticket in tickets])
    failed = [[isinstance(outcome, DecodeError) for outcome in ended] for ended in outcomes]
    assert failed[0] == failed[1] and 0 < sum(failed[0]) < len(asked)
    successes = [[outcome for outcome in ended if isinstance(outcome, list)] for ended in outcomes]
    assert written(successes[0]) == written(successes[1])
    assert "outputs are NaN" in str(outcomes[0][failed[0].index(True)])


@pytest.mark.parametrize("width", [1, 4])
def test_numbers_of_a_request_that_failed_do_not_reach_the_next_ones(width: int) -> None:
    model = opinionated()
    with torch.no_grad():
        model.target_embedding.weight[9] = torch.nan
    engine = Engine(Counting(model), start=START, end=END)
    with_nine, without_nine = (
        [Request([START, 7, END], 20, width, processors=(Ban([*{*range(VOCABULARY)}.difference(allowed)]),))]
        for allowed in ((8, 9), (7, 8))
    )
    engine.admit(*with_nine)
    assert [type(result.outcome) for result in engine.run()] == [DecodeError]
    plain = Engine(ModelStepper(model), start=START, end=END)
    assert written(search(engine, without_nine)) == written(search(plain, without_nine))


@pytest.mark.parametrize("width", [2, 4])
def test_a_beam_with_fewer_tokens_than_rows_keeps_empty_rows(width: int) -> None:
    for allowed in ((END, 7), (END, 7, 8), (7,), (END,)):
        banned = Ban([token for token in range(VOCABULARY) if token not in allowed])
        asked = [
            Request([START, number, END], 6, width, width, early_stopping=False, processors=(banned,))
            for number in range(5, 15)
        ]
        ahead, plain, stepper = both(opinionated(), asked)
        assert written(ahead) == written(plain) and stepper.ahead


def test_an_error_of_steps_ahead_ends_those_that_are_active_and_the_waiting_ones_enter() -> None:
    class Breaking(Counting):
        def expand_ahead(self, *arguments: Any) -> Iterator[Any]:
            expansions = super().expand_ahead(*arguments)
            if self.ahead == arguments[-1]:
                raise MemoryError("no room for a step")
            return expansions

    model, asked = opinionated(), requests(6, 2, placeholders=False)
    plain = search(Engine(ModelStepper(model), start=START, end=END), asked)
    engine = Engine(Breaking(model), start=START, end=END, batch_tokens=50)
    tickets = [engine.admit(request) for request in asked]
    ended = {result.ticket: result.outcome for result in engine.run()}
    outcomes = [ended[ticket] for ticket in tickets]
    failed = [isinstance(outcome, MemoryError) for outcome in outcomes]
    assert 0 < sum(failed) < len(asked)
    assert all(
        fails or outcome == hypotheses for fails, outcome, hypotheses in zip(failed, outcomes, plain, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_rounding_changes_no_more_than_near_ties(preset: str, dtype: torch.dtype) -> None:
    asked = requests(40, 4, n_best=1, limit=20)
    ahead, plain, _ = both(opinionated(preset=preset, dtype=dtype), asked)
    pairs = [(mine[0], plainly[0]) for mine, plainly in zip(ahead, plain, strict=True)]
    differing = [(mine, plainly) for mine, plainly in pairs if mine.tokens != plainly.tokens]
    assert len(differing) <= len(asked) * (0 if dtype == torch.float32 else 0.5)
    rounding = 64 * torch.finfo(dtype).eps  # of log-probabilities of about this size, in each of 20 steps
    assert all(abs(mine.score(0.6) - plainly.score(0.6)) < rounding * 20 for mine, plainly in differing)


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "item")


class Watching(TorchDispatchMode):
    """Operations with the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[int, ...]]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [tuple(value.shape) for value in args if isinstance(value, torch.Tensor)]
        self.seen.append((func.overloadpacket.__name__, shapes))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
@torch.inference_mode()
def test_every_step_of_a_device_is_the_same_operations_and_waits_for_nothing(
    settings: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: dict[DeviceSearch, list[Any]] = {}
    step = DeviceSearch.step

    def watched(self: DeviceSearch) -> torch.Tensor:
        with Watching() as watching:
            result = step(self)
        steps.setdefault(self, []).append(watching.seen)
        return result

    monkeypatch.setattr(DeviceSearch, "step", watched)
    search(Engine(DeviceStepper(opinionated(**settings)), start=START, end=END), requests(24, width))
    assert sum(map(len, steps.values())) > 20
    for seen in steps.values():
        assert all(operations == seen[0] for operations in seen)
        assert not {name for name, _ in seen[0]}.intersection(WAITING)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
@torch.inference_mode()
def test_a_step_needs_neither_the_values_of_a_tensor_nor_one_of_another_device(
    settings: dict[str, Any], width: int
) -> None:
    model = opinionated(dtype=torch.bfloat16, **settings).to("meta")
    device_search = DeviceSearch(model, BeamSizes(4, width, 32, 16), rules=8, end=END)
    result = device_search.step()
    assert (result.device.type, result.shape) == ("meta", (4, 4, 1 if width == 1 else 2 * width))


def test_the_host_reads_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()

    def counted(name: str) -> None:
        method = getattr(torch.Tensor, name)

        def counting(self: torch.Tensor, *arguments: Any) -> Any:
            reads[name] += 1
            return method(self, *arguments)

        monkeypatch.setattr(torch.Tensor, name, counting)

    for name in ("numpy", "cpu", "item", "tolist", "__int__", "__bool__"):
        counted(name)
    model, asked = opinionated(), requests(8, 4, limit=33, placeholders=False)
    stepper = Counting(model)
    search(Engine(stepper, start=START, end=END), asked)
    ahead, steps = Counter(reads), stepper.ahead
    assert steps >= 16
    reads.clear()
    plain = Engine(ModelStepper(model), start=START, end=END)
    search(plain, asked)
    per_step = sum(reads.values()) / plain.steps
    first_steps = stepper.with_host * per_step
    assert (sum(ahead.values()) - first_steps) / steps < 2 < per_step


def best_of(stepper: ModelStepper, asked: Sequence[Request]) -> list[tuple[int, ...]]:
    """Return the best output of each request."""
    return [hypotheses[0].tokens for hypotheses in search(Engine(stepper, start=START, end=END), asked)]


def test_steps_are_recorded_for_few_sizes_and_kept_for_the_next_stepper() -> None:
    model, idle = opinionated(), IdleSearches()
    expected = best_of(ModelStepper(model), requests(20, 2, limit=40))
    stepper = Counting(model, idle)
    assert best_of(stepper, requests(20, 2, limit=40)) == expected
    kept = dict(idle)
    assert 1 < len(kept) == len(set(stepper.sizes)) < len(stepper.sizes)
    assert best_of(Counting(model, idle), requests(20, 2, limit=40)) == expected
    assert idle == kept
    for count in (1, 2, 3, 5, 9):
        best_of(Counting(model, idle), requests(count, 2, limit=5))
    assert len(idle) == 2


def test_steppers_at_work_at_the_same_time_do_not_share_a_search() -> None:
    model, idle, asked = opinionated(), IdleSearches(), requests(6, 2, limit=40)
    expected = best_of(ModelStepper(model), asked)
    best_of(DeviceStepper(model, idle), asked)
    engines = [Engine(DeviceStepper(model, idle), start=START, end=END) for _ in range(2)]
    tickets = [[engine.admit(request) for request in asked] for engine in engines]
    results: list[dict[int, Any]] = [{}, {}]
    while any(engine.busy for engine in engines):
        for engine, finished in zip(engines, results, strict=True):
            finished.update({result.ticket: result.hypotheses[0].tokens for result in engine.step(ahead=True)})
    for finished, of_engine in zip(results, tickets, strict=True):
        assert [finished[ticket] for ticket in of_engine] == expected


def test_a_search_moves_to_smaller_tensors_once_few_beams_are_left() -> None:
    stepper = Counting(opinionated())
    asked = requests(64, 4, placeholders=False, limit=8) + requests(1, 4, placeholders=False, limit=40)
    asked[-1].processors += (Ban([END]),)
    search(Engine(stepper, start=START, end=END), asked)
    sizes = [size.beams for size in stepper.sizes if size.positions == 32]
    assert [sizes[0], sizes[-1]] == [128, 1]


def test_steps_with_rules_that_need_the_host_are_taken_with_it() -> None:
    model, rule = opinionated(), MinimumLength(3, END)
    asked = [Request([START, 7, END], 20, 2, processors=(rule,)), Request([START, 8, END], 20, 2)]
    ahead, plain, stepper = both(model, asked)
    assert written(ahead) == written(plain)
    assert stepper.with_host == 3 and stepper.ahead
    outputs = Outputs()
    outputs.add_rows([START])
    assert rules_of_rows([(rule, np.zeros(1, np.int64))], outputs) is None


def test_beams_of_several_sizes_wide_beams_and_watched_searches_take_steps_with_the_host() -> None:
    model = opinionated()
    mixed = requests(2, 2) + requests(2, 3)
    wide = requests(1, 17)
    for asked in (mixed, wide):
        ahead, plain, stepper = both(model, asked)
        assert written(ahead) == written(plain)
        assert stepper.with_host
    assert not stepper.ahead
    engine = Engine(stepper := Counting(model), start=START, end=END)
    ticket = engine.admit(requests(1, 2)[0])
    list(engine.watch(ticket))
    assert stepper.with_host and not stepper.ahead
