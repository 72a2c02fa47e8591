"""What every task refuses that reads one text instead of sentence pairs."""

from collections.abc import Callable, Collection, Iterator

from dragoman.config import check, flatten
from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.recipe.choices import Choices, Facts
from dragoman.recipe.recipe import Recipe
from dragoman.text.reading.addresses import HUB


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


def complaints_of_one_text(recipe: Recipe, of_pairs: Collection[str]) -> Iterator[str]:
    """Complaints about settings that only sentence pairs have; `of_pairs` are those of `[data]`."""
    task = f"task = {recipe.task!r}"
    for key in given(recipe, "data"):
        if key.partition(".")[0] in of_pairs:
            yield f"data.{key} is about sentence pairs; {task} reads one text"
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
