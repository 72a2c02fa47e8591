"""How a finished model is tuned: the `[tuning]` table of a recipe, and what an adapter folder says of itself."""

from typing import Annotated

import pydantic

from dragoman.config import Settings

Name = Annotated[str, pydantic.Field(min_length=1, max_length=200)]


class LoraSettings(Settings):
    """Adapters of low rank (Hu et al. 2021): all else is frozen, and the run saves only what it learnt."""

    rank: int = pydantic.Field(default=16, ge=1, le=65_536)
    """Rows of the matrix A and columns of B, whose product is added to a frozen matrix."""
    alpha: float | None = pydantic.Field(default=None, gt=0)
    """The product counts alpha / rank times. Not given: twice the rank."""
    dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """Share of the input features that adapters do not see in a step; 0 turns it off."""
    projections: tuple[Name, ...] = pydantic.Field(default=("all",), min_length=1)
    """Which projections get an adapter: query, key, value, output, attention, cross_attention, feed_forward, all; parts
    joined by dots, such as decoder.value; or shell patterns over the names of modules.
    """

    @property
    def scale(self) -> float:
        """The factor of the product B A."""
        return 2.0 if self.alpha is None else self.alpha / self.rank


class TuningSettings(Settings):
    """What of a finished model trains; without this table, all of it."""

    freeze: tuple[Name, ...] = ()
    """Weights that stay as they are: encoder, decoder, embeddings, output, norms, attention, self_attention,
    cross_attention, feed_forward; one layer, encoder.0; parts joined by dots, decoder.cross_attention; shell patterns
    over the names of weights, 'encoder.blocks.[01].*'; or "all but cross_attention, norms".
    """
    lora: LoraSettings | None = None

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> "TuningSettings":
        if self.freeze and self.lora is not None:
            raise ValueError("tuning.lora freezes everything but its adapters; leave tuning.freeze out")
        return self


class Adapter(Settings):
    """What an adapter folder says of the model that it changes, and how."""

    base: str
    """The folder of that model when the adapter was trained."""
    beside: str | None = None
    """The same folder as seen from the adapter's, so that both may move together."""
    sha256: str = pydantic.Field(min_length=64, max_length=64)
    """Of its `model.safetensors`."""
    lora: LoraSettings
