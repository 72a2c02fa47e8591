"""mBART-50 (Tang et al. 2020) in transformers: learned positions, and norms of embeddings."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.directions import Directions
from dragoman.errors import ConfigError
from dragoman.store.description import languages_of
from dragoman.store.foreign import ForeignModel, read_architecture
from dragoman.store.multilingual import MultilingualArchitecture, fairseq_table, read_multilingual, tags_of

_CODES = (
    "ar cs de en es et fi fr gu hi it ja kk ko lt lv my ne nl ro ru si tr vi zh af az bn fa he hr id ka km mk ml mn mr "
    "pl ps pt sv sw ta te th tl uk ur xh gl sl"
)
"""The languages in the order of their symbols, such as `en_XX`."""
_SIDE_OF_ENGLISH = {"one-to-many": 0, "many-to-one": 1}
"""The side that is always English, by a part of the name of a model that was trained so."""


def read_mbart(
    folder: Path, languages: Sequence[str] | None = None, texts: Iterable[str] | None = None
) -> ForeignModel:
    """Read an mBART-50 folder, if our model can hold its content; `languages` and `texts` as for `convert`."""
    architecture = read_architecture(folder, MultilingualArchitecture)
    positions = {"positions": "learned", "max_positions": architecture.max_position_embeddings}
    own = {**positions, "embedding_norm": True, "output_bias": True}
    table, tags = fairseq_table(folder), tags_of(_CODES)
    model = read_multilingual(folder, architecture, table, tags, languages, texts, **own)
    names = [part for part in (*folder.parts[:-1], "") if part.startswith("models--")] or [folder.name]
    side = next((side for name, side in _SIDE_OF_ENGLISH.items() if name in names[-1]), None)
    if side is None or model.files.directions is None:
        return model
    if "en" not in (named := model.files.directions.source):
        raise ConfigError(f"{folder} translates {('from', 'into')[side]} English alone; keep en with --languages")
    others = [language for language in named if language != "en"]
    directions = Directions.of(("en", language) if side == 0 else (language, "en") for language in others)
    files = model.files._replace(directions=directions, languages=languages_of(directions))
    return model._replace(files=files)
