"""Two models merged into one: `average` of a model before and after fine-tuning, `merge` of an adapter and its base.

An average forgets less (Wortsman et al. 2022). One setting, `share`, goes from the model before (0) to the one after
(1). Nothing is trained, so trying many values is cheap; `evaluate` measures each on new text and old.
"""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from dragoman.config import flatten
from dragoman.errors import ConfigError
from dragoman.store.description import StoredModel, default_card, read_adapter
from dragoman.store.folder import find_model, load_model
from dragoman.store.saving import check_new_model, save_model
from dragoman.store.tensors import named_weights, place_weights

MAY_DIFFER = {"dropout", "attention_dropout", "activation_dropout"}
"""Settings in which the two models may differ."""


def average(before: Path | str, after: Path | str, to: Path | str, share: float) -> Path:
    """Write the model folder `to`: (1 - share) times the weights before plus share times those after.

    Raises:
        ConfigError: the models differ in more than their weights; the share is not between 0 and 1.
        CheckpointError: a model is missing or damaged.
        DataError: `to` exists already.
    """
    if not 0 <= share <= 1:
        raise ConfigError(f"--share must be from 0, the model before, to 1, the model after, but is {share}")
    check_new_model(to)
    first, last = load_model(before), load_model(after)
    refuse_other_model(first, last)
    origin = f"The average of {before} and {after}, {share:.2f} of the latter."
    place_weights(last.model, interpolate(named_weights(first.model), named_weights(last.model), share))
    save_model(to, last.model, last.files._replace(card=default_card(last.languages, last.config, origin)))
    return Path(to)


def refuse_other_model(before: StoredModel, after: StoredModel) -> None:
    """Refuse to average models that differ in architecture or vocabulary."""
    first, second = (flatten(model.config.model_dump(mode="json", exclude=MAY_DIFFER)) for model in (before, after))
    if differ := [name for name in first if first[name] != second[name]]:
        name = differ[0]
        raise ConfigError(
            f"{before.folder} and {after.folder} differ in architecture (model.{name} is {first[name]} and "
            f"{second[name]}), so they have no average; average a model with what was fine-tuned from it"
        )
    if before.files.tokenizers is None or after.files.tokenizers is None:
        return
    if before.files.labels and after.files.labels and before.labels.identity != after.labels.identity:
        raise ConfigError(
            f"{before.folder} and {after.folder} have different labels, so their weights mean different things; "
            "average a model with what was trained from it on the same labels"
        )
    for side in ("source", "target"):
        if len({getattr(model.tokenizers, side).identity for model in (before, after)}) > 1:
            raise ConfigError(
                f"{before.folder} and {after.folder} have different vocabularies ({side}), so their weights mean "
                "different tokens; average a model with what was fine-tuned from it"
            )


def merge(adapter: Path | str, to: Path | str, base: Path | str | None = None) -> Path:
    """Write the model folder `to`: the base with the adapter's products added to its matrices. It translates as both
    together do; decoding is equally fast either way, because an adapter is merged when it is loaded.

    `base` names the base's folder, if it has moved.

    Raises:
        ConfigError: `adapter` is a whole model.
        CheckpointError: adapter or base is missing or damaged, or they do not belong together.
        DataError: `to` exists already.
    """
    facts = read_adapter(find_model(adapter))
    if facts is None:
        raise ConfigError(f"{adapter} is a whole model already, not an adapter; there is nothing to merge")
    check_new_model(to)
    stored = load_model(adapter) if base is None else load_model(base, adapter=adapter)
    origin = f"The adapter {adapter}, merged into {base or facts.base}."
    save_model(to, stored.model, stored.files._replace(card=default_card(stored.languages, stored.config, origin)))
    return Path(to)


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return (1 - share) before + share after, weight by weight (WiSE-FT, Wortsman et al. 2022)."""
    return {name: weight.lerp(after[name], share) for name, weight in before.items()}
