"""What every task makes from a run's text before training: tokenizers and encoded corpora."""

from typing import Protocol

from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import TokenizerError
from dragoman.tokenizing.tokenizer import Tokenizers


class RunData(Protocol):
    """The text of a run, tokenized and encoded."""

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        ...

    @property
    def train(self) -> EncodedCorpus:
        """The corpus to train on."""
        ...

    @property
    def dev(self) -> EncodedCorpus | None:
        """The corpus to validate on; None if nothing is held out."""
        ...


def identity_of(data: RunData) -> dict[str, str]:
    """What must be unchanged when a run resumes: data and tokenizers."""
    return {
        "data": data.train.identity,
        "source tokenizer": data.tokenizers.source.identity,
        "target tokenizer": data.tokenizers.target.identity,
    }


def verified(corpus: EncodedCorpus, tokenizers: Tokenizers) -> EncodedCorpus:
    """A corpus that was encoded earlier, after reading all of it once to check it.

    Raises:
        DataError: it is damaged.
        TokenizerError: it was encoded by another tokenizer.
    """
    corpus.verify()
    for facts, tokenizer in ((corpus.facts.source, tokenizers.source), (corpus.facts.target, tokenizers.target)):
        if facts is not None and facts.tokenizer != tokenizer.identity:
            raise TokenizerError(f"{corpus.folder} was encoded by another tokenizer than the run has now; use --fresh")
    return corpus
