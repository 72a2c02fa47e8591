"""Proof that an exported model equals the original: both translate and score the same sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dragoman.decoding.processors import Ban
from dragoman.decoding.request import Request
from dragoman.decoding.scoring import score
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.progress import silent
from dragoman.store.description import StoredModel
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizers import Tokenizers

TOLERANCE = 1e-4
"""Maximum difference of a token's log-probability, in float32."""
_NO_CHARACTER = "\ufffd"
"""Replacement for bytes that are no character; toolkits write different numbers of them."""
_EXTRA = 20
"""Maximum number of tokens that a translation may have more than its source."""

Ids = Sequence[int]


class ExportedModel(Protocol):
    """Exported model run by the other toolkit. All ids are ours."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text as the encoder reads them, with special symbols."""
        ...

    def decode(self, ids: Ids) -> str: ...

    def translate(self, source: Ids, longest: int) -> list[int]:
        """Return the greedy translation of at most `longest` tokens, without its end symbol."""
        ...

    def score(self, source: Ids, target: Ids) -> list[float]:
        """Return the log-probability of each token of a target and of its end symbol."""
        ...


@dataclass(frozen=True)
class Proof:
    """Figures of a successful comparison."""

    sentences: int
    tokens: int
    largest_difference: float
    """Largest difference of a token's log-probability."""

    def __str__(self) -> str:
        return (
            f"the same greedy translation of all {self.sentences:,} sentences; log-probabilities of "
            f"{self.tokens:,} tokens differ by {self.largest_difference:.1g} at most"
        )


def prove(stored: StoredModel, exported: ExportedModel, texts: Sequence[str], toolkit: str) -> Proof:
    """Compare a model with its export on every text: the ids, the greedy translation, and the log-probabilities.

    Raises:
        ConfigError: something differs, which the message names, or no text has a token.
    """
    translator = Translator(stored, device="cpu", precision="float32", progress=silent)
    longest = translator.requests.longest_source(translator.options)
    encoded = translator.tokenizers.source.encode_batch(list(texts))
    sources = {text: ids for text, ids in zip(texts, encoded, strict=True) if 0 < len(ids) <= longest}
    if not sources:
        raise ConfigError("none of the sentences for the proof of the export has a token; give others with --text")
    for text, ids, theirs in zip(texts, encoded, exported.encode(texts), strict=True):
        if translator.framing.source(ids) != theirs:
            raise ConfigError(f"{toolkit} splits {text[:80]!r} into other tokens")
    framed = [translator.framing.source(ids) for ids in sources.values()]
    targets = _greedy(translator, framed)
    decode = translator.tokenizers.target.decode
    for sentence, source, target in zip(sources, framed, targets, strict=True):
        theirs, text = exported.translate(source, len(source) + _EXTRA), decode(target)
        if theirs != target:
            raise ConfigError(
                f"{toolkit} translates {sentence[:80]!r} differently: {decode(theirs)[:80]!r}, not {text[:80]!r}"
            )
        if _NO_CHARACTER not in text and exported.decode(target) != text:
            raise ConfigError(f"{toolkit} writes the translation of {sentence[:80]!r} differently")
    return _compare_scores(translator, exported, framed, targets, toolkit)


def _greedy(translator: Translator, sources: Sequence[Ids]) -> list[list[int]]:
    """Return greedy translations by our model, without its search options, but with suppressed symbols banned."""
    framing = translator.framing
    ban = Ban(suppressed_ids(translator.tokenizers, translator.framing))
    requests = [Request(source, len(source) + _EXTRA, processors=(ban,)) for source in sources]
    engine = translator.search.engine(translator.options)
    tickets = [engine.admit(request) for request in requests]
    best = {result.ticket: result.hypotheses[0].tokens for result in engine.run()}
    rows = [list(best[ticket]) for ticket in tickets]
    return [row[:-1] if row[-1:] == [framing.target_end] else row for row in rows]


def suppressed_ids(tokenizers: Tokenizers, framing: Framing) -> list[int]:
    """Return the ids that no translation may contain: all special symbols except the end, and placeholders.

    Only our own search enforces placeholders.
    """
    return sorted({*framing.suppressed_ids, tokenizers.target.unknown, *tokenizers.target.placeholders.values()})


def _compare_scores(
    translator: Translator, exported: ExportedModel, sources: Sequence[Ids], targets: Sequence[Ids], toolkit: str
) -> Proof:
    labels = [translator.framing.labels(target) for target in targets]
    our_scores = score(lambda: translator.runtime.stepper(1), sources, labels, translator.framing.target_start)
    largest = 0.0
    for number, (source, target, ours) in enumerate(zip(sources, targets, our_scores, strict=True), 1):
        theirs = np.array(exported.score(source, target))
        differences = np.abs(theirs - ours)
        largest = max(largest, float(differences.max()))
        if not differences.max() <= TOLERANCE:
            raise ConfigError(
                f"{toolkit} gives other log-probabilities for sentence {number}: they differ by "
                f"{differences.max():.2g}, and {TOLERANCE:g} is allowed"
            )
    return Proof(len(sources), sum(map(len, labels)), largest)
