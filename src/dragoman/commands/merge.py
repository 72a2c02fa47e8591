"""`merge`: an adapter and its base become one whole model folder. Both stay as they are."""

from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.store import check_new_model, default_card, find_model, load_model, read_adapter, save_model


def merge(adapter: Path | str, to: Path | str, base: Path | str | None = None) -> Path:
    """Writes the model folder `to`: the base with the adapter's products added to its matrices. It translates as both
    together do; decoding is as fast either way, because an adapter is merged when it is loaded.

    `base` says where the base lies now, if it has moved.

    Raises:
        ConfigError: `adapter` is a whole model.
        CheckpointError: adapter or base is missing or damaged, or they do not belong together.
        DataError: `to` exists already.
    """
    found = read_adapter(find_model(adapter))
    if found is None:
        raise ConfigError(f"{adapter} is a whole model already, not an adapter; there is nothing to merge")
    check_new_model(to)
    stored = load_model(adapter) if base is None else load_model(base, adapter=adapter)
    card = (
        default_card(stored.languages, stored.config) + f"\nThe adapter {adapter}, merged into {base or found.base}.\n"
    )
    save_model(to, stored.model, stored.files._replace(card=card))
    return Path(to)
