"""What every head does in one text, as a record holds it."""

import numpy as np

from dragoman.explaining.heads.removal import log_probs_without_each
from dragoman.explaining.heads.roles import ROLES, RoleJudge
from dragoman.explaining.heads.texts import ReadText
from dragoman.explaining.record import Array, Heads
from dragoman.model import EncoderDecoder, LanguageModel


def heads_of_text(model: EncoderDecoder | LanguageModel, text: ReadText) -> Heads:
    """Each head's removal and its roles in one text, of which none if it has no token to write."""
    if not text.given.labels:
        return Heads({}, {})
    removals = log_probs_without_each(model, [text.given])
    removed = {head: float(removals.changes(head)[0].double().sum()) for head in removals.without}
    judge = RoleJudge(model)
    judge.add(text)
    shares = judge.roles().heads
    of_site = {head.site: [head._replace(number=number) for number in range(model.config.heads)] for head in removed}
    return Heads(
        {site: _array([removed[head] for head in heads]) for site, heads in of_site.items()},
        {
            site: {ROLES[role]: _array([shares[head][role].weight for head in heads]) for role in shares[heads[0]]}
            for site, heads in of_site.items()
        },
    )


def _array(numbers: list[float]) -> Array:
    return np.array(numbers, dtype=np.float32)
