"""From what was asked and what is known to a recipe with every setting, and the reason of each choice: `resolve`.

It is a pure function. `runs/resolving.py` finds out the facts one after another and calls it again as they come in.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dragoman.config import check
from dragoman.runs import choices, encoder_choices, language_model_choices, steps, translation_choices
from dragoman.runs.choices import AUTO, Choice, Choices, Facts
from dragoman.runs.recipe import OF_ENCODER, Recipe

Choose = Callable[[Recipe, Facts], Choices]

OF_TASK: dict[str, tuple[Choose, ...]] = {
    "translation": translation_choices.CHOICES,
    "language_model": language_model_choices.CHOICES,
    **dict.fromkeys(OF_ENCODER, encoder_choices.CHOICES),
}


def choices_of(task: str) -> tuple[Choose, ...]:
    """The choices of a run, in this order, because one may go by what another chose."""
    return (
        choices.keep_start,
        choices.share_steps,
        *OF_TASK[task],
        choices.compute_in,
        choices.choose_optimiser,
        choices.fit_batches,
        *steps.CHOICES,
    )


class Resolved(NamedTuple):
    """A recipe, and why the run chose what nobody asked for: dotted key -> reason."""

    recipe: Recipe
    reasons: dict[str, str]


def resolve(asked: Mapping[str, Any], facts: Facts) -> Resolved:
    """The recipe that follows from the tables asked for, as far as the facts go.

    Raises:
        ConfigError: what was asked for cannot be, by what is known.
    """
    if facts.start is not None:
        choices.refuse_other_start(asked, facts.start)
    tables, reasons = dict(asked), dict[str, str]()
    for choose in choices_of(check(tables, "recipe", Recipe).task):
        for choice in choose(check(tables, "recipe", Recipe), facts):
            if choice.replaces or _is_open(tables, choice):
                tables = _with(tables, choice)
                reasons |= {choice.key: choice.reason} if choice.reason else {}
    recipe = check(tables, "recipe", Recipe)
    choices.refuse_idle_processes(recipe, facts.processes)
    return Resolved(recipe, reasons)


def _is_open(tables: Mapping[str, Any], choice: Choice) -> bool:
    """Whether a setting was left to the run."""
    group, _, name = choice.key.partition(".")
    return _group(tables, group).get(name) in (None, AUTO)


def _with(tables: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    group, _, name = choice.key.partition(".")
    return {**tables, group: {**_group(tables, group), name: choice.value}}


def _group(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    return tables.get(name) or {}
