"""Which models translate as one; `native/ensemble.py` steps them."""

from dragoman.errors import ConfigError
from dragoman.store import USES, StoredModel


def refuse_misfit(first: StoredModel, other: StoredModel) -> None:
    """Refuses a model that can't translate with the first one as one.

    Raises:
        ConfigError: it is of another family, or has other vocabularies, symbols or languages.
    """
    if other.config.family != first.config.family:
        raise ConfigError(f"{other.folder} can't join the ensemble: it {USES[other.config.family]}")
    pairs = zip(first.tokenizers._fields, first.tokenizers, other.tokenizers, strict=True)
    if others := [side for side, ours, theirs in pairs if ours.identity != theirs.identity]:
        raise ConfigError(
            f"{other.folder} can't join the ensemble: its {' and '.join(others)} vocabulary is not that of "
            f"{first.folder}; train both on one tokenizer"
        )
    if other.files.framing != first.files.framing:
        raise ConfigError(f"{other.folder} can't join the ensemble: its sentences stand between other symbols")
    if other.languages != first.languages:
        ours, theirs = (" to ".join(each.languages) for each in (first, other))
        raise ConfigError(f"{other.folder} can't join the ensemble: it translates {theirs}, not {ours}")
