"""What the numbers of a part mean for its words: which came from which, and what spoke for each."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from dragoman.aligning.attention import AlignmentChoice, align_words
from dragoman.aligning.passes import Given
from dragoman.aligning.words import Word, words_of
from dragoman.errors import DecodeError
from dragoman.explaining.alignment.choosing import choose_alignment
from dragoman.explaining.alignment.links import AlignedPair
from dragoman.explaining.erasure import contributions_of
from dragoman.explaining.record import Alignment, Part
from dragoman.model import EncoderDecoder, LanguageModel
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.translating import Translator


class Understanding:
    """Adds to the parts of one model's records what their numbers mean."""

    def __init__(
        self,
        model: EncoderDecoder | LanguageModel,
        tokenizers: Tokenizers,
        translator: Translator | None = None,
        aligned: Sequence[AlignedPair] | None = None,
    ) -> None:
        if aligned is not None and translator is None:
            raise DecodeError("a language model has no words to align; it takes no aligned pairs")
        self.model, self.tokenizers, self.translator, self.aligned = model, tokenizers, translator, aligned

    @cached_property
    def alignment(self) -> AlignmentChoice | None:
        """The cross-attention to read alignments from; None in a model without one."""
        return choose_alignment(self.translator, self.aligned) if self.translator else None

    def of(self, part: Part, given: Given) -> Part:
        """The part with its alignment and contributions."""
        source = words_of(self.tokenizers.source, given.source or ())
        read, written = (words_of(self.tokenizers.target, ids) for ids in (given.target, given.labels))
        candidates = torch.tensor([[candidate.id for candidate in step.candidates] for step in part.steps])
        return replace(
            part,
            alignment=self._align(part, source, written),
            contributions=contributions_of(self.model, given, source, read, candidates),
        )

    def _align(self, part: Part, source: Sequence[Word], written: Sequence[Word]) -> Alignment | None:
        choice, decoder = self.alignment, part.stack("decoder")
        if choice is None or decoder is None:
            return None
        weights = [layer.attentions[-1].weights for layer in decoder.layers]
        found = align_words(weights, source, written, choice)
        links = tuple(sorted(found.links))
        return Alignment(choice.layer, choice.head, choice.shifted, choice.how, found.weights.astype(np.float32), links)
