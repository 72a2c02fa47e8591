"""Which settings of its text each task has a use for, and what every task refuses that reads no pairs."""

from collections.abc import Callable, Iterator

from dragoman.config import check, flatten
from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.runs.choices import Choices, Facts
from dragoman.runs.recipe import Recipe
from dragoman.text.addresses import HUB

OF_EVERY_TASK = frozenset({"path", "folder", "origin", "dev_path", "test_path", "encoding_errors"})
"""Settings of `[data]` that say where the text is; the others say what is in it, and have a use for some tasks only."""
_OF_ROWS = frozenset({"format", "header", "dev_size", "test_size", "seed", "source_language", "target_language"})
_OF_LABELS = _OF_ROWS | {"text_column", "label_column", "label_depth", "checks.drop_duplicates"}
_OF_TASK = {
    "translation": _OF_ROWS | {"source_column", "target_column", "checks"},
    "classify": _OF_LABELS,
    "tag": _OF_LABELS - {"header"},
    "fill": frozenset({"target_language"}),
    "language_model": frozenset({"target_language"}),
}
_READS = {"translation": "sentence pairs", "classify": "labelled texts", "tag": "labelled words"}
"""What a task reads; the others read running text."""


def refuse(complaints: Callable[[Recipe], Iterator[str]]) -> Callable[[Recipe, Facts], Choices]:
    """A choice that chooses nothing, and refuses a recipe with the first of its complaints."""

    def refuse_settings(recipe: Recipe, _facts: Facts) -> Choices:
        for complaint in complaints(recipe):
            raise ConfigError(complaint)
        yield from ()

    return refuse_settings


def given(recipe: Recipe, group: str) -> list[str]:
    """The keys of a group whose values are not the defaults."""
    return [*flatten(getattr(recipe, group).model_dump(mode="json", exclude_defaults=True))]


def complaints_of_data(recipe: Recipe) -> Iterator[str]:
    """Complaints about settings of `[data]` for which the task has no use."""
    used = OF_EVERY_TASK | _OF_TASK[recipe.task]
    for key in given(recipe, "data"):
        if not used & {key, key.partition(".")[0]}:
            reads = _READS.get(recipe.task, "running text")
            yield f"task = {recipe.task!r} reads {reads} and has no use for data.{key}; leave it out"


def complaints_of_one_text(recipe: Recipe) -> Iterator[str]:
    """Complaints about settings that only sentence pairs have."""
    task = f"task = {recipe.task!r}"
    yield from complaints_of_data(recipe)
    for address in (recipe.data.path, recipe.data.dev_path, recipe.data.test_path):
        if isinstance(address, tuple):
            yield (
                f"{task} reads one text, not two aligned files ({' and '.join(address)}); name one file, or several by "
                "a pattern"
            )
        elif address is not None and address.startswith(HUB):
            yield f"{task} reads files, not data sets of the hub"
    for key in given(recipe, "decode"):
        yield f"decode.{key} is about translations; {task} makes none; leave it out"
    if recipe.start is not None and recipe.start.mix_data is not None:
        yield (
            f"start.mix_data and start.mix_rate mix in sentence pairs; {task} reads one text; add the old text to the "
            "new file"
        )


def has_other_layers(recipe: Recipe, name: str) -> bool:
    """Whether a recipe gives its model another number of layers than its size has."""
    of_size = check({"preset": recipe.model.preset, "size": recipe.model.size}, "model", ModelConfig)
    return getattr(recipe.model, name) != getattr(of_size, name)
