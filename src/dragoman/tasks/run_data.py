"""What every task makes of a run's text before training: tokenizers and encoded corpora."""

from typing import Protocol

from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import TokenizerError
from dragoman.tokenizing.tokenizer import Tokenizers


class RunData(Protocol):
    """The text of a run as its model reads it."""

    @property
    def tokenizers(self) -> Tokenizers: ...
    @property
    def train(self) -> EncodedCorpus: ...
    @property
    def dev(self) -> EncodedCorpus | None:
        """None where nothing is held out."""
        ...


def identity_of(data: RunData) -> dict[str, str]:
    """What a resumed run must find unchanged."""
    return {
        "data": data.train.identity,
        "source tokenizer": data.tokenizers.source.identity,
        "target tokenizer": data.tokenizers.target.identity,
    }


def verified(corpus: EncodedCorpus, tokenizers: Tokenizers) -> EncodedCorpus:
    """A corpus that was encoded earlier, read once to see that it is whole.

    Raises:
        DataError: it is damaged.
        TokenizerError: another tokenizer encoded it.
    """
    corpus.verify()
    for facts, tokenizer in ((corpus.facts.source, tokenizers.source), (corpus.facts.target, tokenizers.target)):
        if facts is not None and facts.tokenizer != tokenizer.identity:
            raise TokenizerError(
                f"{corpus.folder} was encoded by another tokenizer than the one in the run now; use --fresh"
            )
    return corpus
