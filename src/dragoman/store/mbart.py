"""mBART-50 (Tang et al. 2020) in transformers: learned positions, and norms of embeddings."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.store.foreign import ForeignModel, read_architecture
from dragoman.store.multilingual import MultilingualArchitecture, fairseq_table, read_multilingual, tags_of

_CODES = (
    "ar cs de en es et fi fr gu hi it ja kk ko lt lv my ne nl ro ru si tr vi zh af az bn fa he hr id ka km mk ml mn mr "
    "pl ps pt sv sw ta te th tl uk ur xh gl sl"
)
"""The languages in the order of their symbols, such as `en_XX`."""


def read_mbart(
    folder: Path, languages: Sequence[str] | None = None, texts: Iterable[str] | None = None
) -> ForeignModel:
    """Read an mBART-50 folder, if our model can hold its content; `languages` and `texts` as for `convert`."""
    architecture = read_architecture(folder, MultilingualArchitecture)
    positions = {"positions": "learned", "max_positions": architecture.max_position_embeddings}
    own = {**positions, "embedding_norm": True, "output_bias": True}
    table, tags = fairseq_table(folder), tags_of(_CODES)
    return read_multilingual(folder, architecture, table, tags, languages, texts, **own)
