"""The proof that an exported model is the same model: both translate and score the same sentences."""

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
"""The most that the log-probability of a token may differ, in float32."""
_NO_CHARACTER = "\ufffd"
"""Decoders write it for bytes that are no character, but one toolkit writes more of them than another."""
_EXTRA = 20
"""A translation may have this many tokens more than its source."""

Ids = Sequence[int]


class Exported(Protocol):
    """An exported model, run by the other toolkit. All ids are ours."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text as the encoder reads them, with special symbols."""
        ...

    def decode(self, ids: Ids) -> str: ...

    def translate(self, source: Ids, longest: int) -> list[int]:
        """The greedy translation of at most `longest` tokens, without its end symbol."""
        ...

    def score(self, source: Ids, target: Ids) -> list[float]:
        """The log-probability of each token of a target, and of its end symbol."""
        ...


@dataclass(frozen=True)
class Proof:
    """What was compared."""

    sentences: int
    tokens: int
    largest_difference: float
    """Of a token's log-probabilities."""

    def __str__(self) -> str:
        return (
            f"the same greedy translation of all {self.sentences:,} sentences; log-probabilities of "
            f"{self.tokens:,} tokens differ by {self.largest_difference:.1g} at most"
        )


def prove(stored: StoredModel, exported: Exported, texts: Sequence[str], where: str) -> Proof:
    """Compares a model with its export on every text: the ids, the greedy translation, and the log-probabilities.

    `where` names the toolkit in messages.

    Raises:
        ConfigError: something differs; it is named. Or no text has a token.
    """
    translator = Translator(stored, device="cpu", precision="float32", progress=silent)
    longest = translator.requests.longest_source(translator.options)
    pairs = zip(texts, translator.tokenizers.source.encode_batch(list(texts)), strict=True)
    sources = {text: ids for text, ids in pairs if 0 < len(ids) <= longest}
    if not sources:
        raise ConfigError("none of the sentences that should prove the export has a token; give others with --text")
    _compare_sources(translator, exported, texts, where)
    framed = [translator.framing.source(ids) for ids in sources.values()]
    targets = _greedy(translator, framed)
    decode = translator.tokenizers.target.decode
    for sentence, source, target in zip(sources, framed, targets, strict=True):
        other, text = exported.translate(source, len(source) + _EXTRA), decode(target)
        if other != target:
            raise ConfigError(
                f"{where} translates {sentence[:80]!r} differently: {decode(other)[:80]!r}, not {text[:80]!r}"
            )
        if _NO_CHARACTER not in text and exported.decode(target) != text:
            raise ConfigError(f"{where} writes the translation of {sentence[:80]!r} differently")
    return _compare_scores(translator, exported, framed, targets, where)


def _greedy(translator: Translator, sources: Sequence[Ids]) -> list[list[int]]:
    """Greedy translations by our model, with none of its search options. Symbols that no translation holds are banned,
    as they are in the other toolkit.
    """
    framing = translator.framing
    ban = Ban(suppressed_ids(translator.tokenizers, translator.framing))
    requests = [Request(source, len(source) + _EXTRA, processors=(ban,)) for source in sources]
    engine = translator.engine(translator.options)
    tickets = [engine.admit(request) for request in requests]
    best = {ended.ticket: ended.hypotheses[0].tokens for ended in engine.run()}
    rows = [list(best[ticket]) for ticket in tickets]
    return [row[:-1] if row[-1:] == [framing.target_end] else row for row in rows]


def suppressed_ids(tokenizers: Tokenizers, framing: Framing) -> list[int]:
    """The ids that no translation may hold: the unknown symbol, every special symbol but the end, and placeholders,
    which only our own search asks for.
    """
    return sorted({*framing.suppressed_ids, tokenizers.target.unknown, *tokenizers.target.placeholders.values()})


def _compare_sources(translator: Translator, exported: Exported, texts: Sequence[str], where: str) -> None:
    ours = [translator.framing.source(ids) for ids in translator.tokenizers.source.encode_batch(list(texts))]
    for text, own, other in zip(texts, ours, exported.encode(texts), strict=True):
        if own != other:
            raise ConfigError(f"{where} splits {text[:80]!r} into other tokens")


def _compare_scores(
    translator: Translator, exported: Exported, sources: Sequence[Ids], targets: Sequence[Ids], where: str
) -> Proof:
    labels = [translator.framing.labels(target) for target in targets]
    own = score(lambda: translator.runtime.stepper(1), sources, labels, translator.framing.target_start)
    largest = 0.0
    for number, (source, target, ours) in enumerate(zip(sources, targets, own, strict=True), 1):
        theirs = np.array(exported.score(source, target))
        differences = np.abs(theirs - ours)
        largest = max(largest, float(differences.max()))
        if not differences.max() <= TOLERANCE:
            raise ConfigError(
                f"{where} gives sentence {number} other log-probabilities: they differ by {differences.max():.2g}, and "
                f"{TOLERANCE:g} is allowed"
            )
    return Proof(len(sources), sum(map(len, labels)), largest)
