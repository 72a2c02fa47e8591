"""How large a batch is: the `[batches]` table of a recipe."""

from typing import Annotated, Literal

import pydantic

from dragoman.config import Settings


class BatchSettings(Settings):
    """How sentence pairs are put into batches."""

    batch_tokens: Annotated[int, pydantic.Field(ge=1, le=10**9)] | Literal["auto"] = 4_096
    """Most tokens in a batch on each side, special symbols included; a longer sentence is a batch of its own. auto: as
    many as suit the amount of data, in as many batches a step (train.accumulate) as the memory demands."""
    sentence_tokens: int = pydantic.Field(default=256, ge=1, le=1_000_000)
    """Longest sentence in tokens, on either side; pairs with a longer one are left out, counted and reported."""
