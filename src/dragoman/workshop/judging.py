"""Verdicts: the results of a part of the workshop, how they differ from ours, and the mistake that explains it."""

import ast
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.workshop.cases import CASES
from dragoman.workshop.exercises import FILES, SOLUTIONS, WorkshopPart

Observed = dict[str, Any]
"""Results, changes of arguments and gradients by name; `raised` is the exception that ended the case."""
SEARCH_SECONDS = 8.0
"""Time for explaining a difference, so that a wrong part without a usual mistake gets its verdict soon."""


@cache
def solutions() -> dict[str, Any]:
    """Run our files as one program, and return what it defines."""
    sources = "\n".join((SOLUTIONS / file).read_text("utf-8") for file in FILES)
    defined: dict[str, Any] = {"__name__": "solutions"}
    exec("\n".join(line for line in sources.splitlines() if not line.startswith("from step_")), defined)
    return defined


@cache
def read_mistakes() -> dict[str, list[dict[str, str]]]:
    """Read the usual mistakes of each part: a piece of our code, what replaces it, and the sentence that names it."""
    return tomllib.loads((SOLUTIONS.parent / "mistakes.toml").read_text("utf-8"))


def variants(part: WorkshopPart) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield our program with one of the part's usual mistakes, then with two, after the sentences that name them."""
    whole, known = (SOLUTIONS / part.file).read_text("utf-8"), read_mistakes().get(part.name, [])
    node = next(node for node in ast.parse(whole).body if getattr(node, "name", None) == part.name)
    for mistakes in (*combinations(known, 1), *combinations(known, 2)):
        text: str | None = ast.get_source_segment(whole, node)
        for mistake in mistakes:
            text = text.replace(mistake["right"], mistake["wrong"]) if text and mistake["right"] in text else None
        if text:
            defined = dict(solutions())
            exec(text, defined)
            yield " ".join(filter(None, (mistake["says"] for mistake in mistakes))), defined


def judge(part: WorkshopPart, theirs: dict[str, Any]) -> str:
    """Return the mistake of a reader's part and where it shows; empty if it computes the same as ours."""
    seen = observe(part.name, theirs)
    expected = observe(part.name, solutions())
    difference = compare(expected, seen)
    if not difference:
        return elsewhere(part.name, theirs)
    end = time.monotonic() + SEARCH_SECONDS
    for says, parts in variants(part) if part.name != "together" else ():
        if not compare(observe(part.name, parts), seen):
            return f"{says} {difference}"
        if time.monotonic() > end:
            break
    own = [key.partition("gradient of ")[2] for key in seen if "gradient of" in key and key not in expected]
    return f"{difference} It has a weight that ours has not: {own[0]}." if own else difference


def elsewhere(name: str, theirs: dict[str, Any]) -> str:
    """Return a complaint if a part that is right does not follow its input to another device.

    The input is on the device `meta`, which has no numbers. A part that needs them has its input on the processor, and
    tensors that it makes without naming a device are on `meta`.
    """
    for devices in (("meta", "cpu"), ("cpu", "meta")):
        expected, seen = (observe(name, parts, *devices) for parts in (solutions(), theirs))
        text = seen.get("raised", "")
        is_mixed = "device" in text and "meta tensor" not in text  # others need numbers
        if is_mixed or not (text or "raised" in expected or expected == seen):
            advice = "put new tensors on the device of the input (device=…)"
            return f"It fails on a GPU: {advice}. {seen.get('where', '')}".strip()
        if "raised" not in expected:
            break
    return ""


def observe(name: str, parts: dict[str, Any], device: str = "cpu", default: str = "cpu") -> Observed:
    """Run a case, and return what it computes. If the device of the input or the default is `meta`, only devices."""
    observed: Observed = {}
    try:
        for number, (function, arguments) in enumerate(CASES[name](SimpleNamespace(**parts))):
            for key, value in _call(function, arguments, device, default):
                observed[f"{number} {key}"] = value
    except BaseException as error:  # whatever the reader's code raises, also SystemExit
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name in FILES]
        place = [f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}" for frame in frames[-1:]]
        observed |= {"raised": f"{type(error).__name__}: {error}".split("\n")[0], "where": "".join(place)}
    return observed


def _call(
    function: Callable[..., Any], arguments: dict[str, Any], device: str, default: str
) -> Iterator[tuple[str, Any]]:
    """Yield the results of a call, whether it changed its arguments, and the gradients of arguments and weights."""
    values = (getattr(function, "__self__", function), *arguments.values())
    modules = [module.to(device) for module in values if isinstance(module, nn.Module)]
    inputs = {key: value.to(device) for key, value in arguments.items() if isinstance(value, Tensor)}
    leaves = {key: value.clone().requires_grad_() for key, value in inputs.items() if value.is_floating_point()}
    passed = {key: leaves.get(key, value).clone() for key, value in inputs.items()}
    with torch.device(default):
        results = dict(_named("result", function(**{**arguments, **passed})))
    if "meta" in (device, default):
        yield from ((key, str(getattr(value, "device", ""))) for key, value in results.items())
        return
    yield from results.items()
    yield from ((f"changed {key}", not torch.equal(value, inputs[key])) for key, value in passed.items())
    for module in modules:
        leaves |= module.named_parameters(remove_duplicate=False)
    floats = [value for value in results.values() if isinstance(value, Tensor) and value.requires_grad]
    mixture = [(value * torch.linspace(0.5, 1.5, value.numel()).view_as(value)).sum() for value in floats]
    slopes = torch.autograd.grad(mixture, [*leaves.values()], allow_unused=True) if mixture else [None] * len(leaves)
    yield from ((f"gradient of {key}", slope) for key, slope in zip(leaves, slopes, strict=True))


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple | list):
        yield from ((f"{name} {number} of {len(value)}", item) for number, item in enumerate(value, 1))
    else:
        yield name, torch.tensor(float(value), dtype=torch.float64) if isinstance(value, int | float) else value


def compare(expected: Observed, seen: Observed) -> str:
    """Return the first difference in words; empty if both are equal."""
    ends = [observed.get("raised", "It raises nothing.") for observed in (expected, seen)]
    for key in sorted(expected, key=lambda key: key in seen and "changed" not in key):
        is_known = ends[0] == ends[1] or (key in seen and "changed" in key)
        name = key.partition(" ")[2]
        if name and is_known and (difference := _differ(name, expected[key], seen.get(key, ...))):
            return difference
    return "" if ends[0] == ends[1] else f"{seen.get('where', '')}: {ends[1]}".removeprefix(": ")


def _differ(name: str, wanted: Any, seen: Any) -> str:
    """Return how a value differs from ours; empty if it does not."""
    if name.startswith("changed"):
        return f"It changes its argument {name[8:]} in place; compute a new tensor." if seen and not wanted else ""
    if seen is wanted:
        return ""
    if seen is ...:
        return f"There is no {name.replace('gradient of', 'weight called')}."
    if seen is None and name.startswith("gradient"):
        return f"The result is right, but no {name} arrives: detach, item, numpy or a new tensor cuts it off."
    if isinstance(seen, str) and isinstance(wanted, str):
        return f"It has {seen}, expected {wanted.partition(' with ')[2]}." if seen != wanted else ""
    if not isinstance(seen, Tensor) or not isinstance(wanted, Tensor):
        return f"The {name} is {type(seen).__name__}, expected {type(wanted).__name__}."
    for fact in ("shape", "dtype"):
        values = [str(getattr(value, fact)).removeprefix("torch.Size(").rstrip(")") for value in (seen, wanted)]
        if values[0] != values[1]:
            return f"The {fact} of the {name} is {values[0]}, expected {values[1]}."
    return _first_wrong(name, wanted, seen)


def _first_wrong(name: str, wanted: Tensor, seen: Tensor) -> str:
    """Return where the first number differs, and how; empty if none does."""
    wrong = ~torch.isclose(seen.double(), wanted.double(), rtol=1e-4, atol=1e-6, equal_nan=True)
    if not wrong.any():
        return ""
    index = tuple(wrong.nonzero()[0].tolist())
    *block, row, column = (*[0] * (2 - len(index)), *index)
    place = f" at {f'{block}, ' if block else ''}row {row}, column {column} (counted from 0)"
    place = place if len(index) > 1 else f" at number {column} (counted from 0)" if index else ""
    numbers = [f"{bool(x[index])}" if x.dtype == torch.bool else f"{x[index].item():.4g}" for x in (seen, wanted)]
    reason = "; nan comes from 0 / 0, or from a query whose keys are all hidden" if seen[index].isnan() else ""
    start = "The result is right, but the" if name.startswith("gradient") else "The"
    return f"{start} {name}{place} is {numbers[0]}, expected {numbers[1]}{reason}."
