"""What the numbers of a part mean for its words: which came from which, what spoke for each, what each head did."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from dragoman.explaining.alignment.attention import AlignmentChoice, align_words
from dragoman.explaining.alignment.choosing import choose_alignment
from dragoman.explaining.alignment.links import AlignedPair
from dragoman.explaining.passes import Given
from dragoman.explaining.record import Alignment, Part
from dragoman.explaining.words import words_of
from dragoman.translating import Translator


class Aligner:
    """Reads alignments off the cross-attention of one model, which is chosen when it is first asked."""

    def __init__(self, translator: Translator, pairs: Sequence[AlignedPair] | None = None) -> None:
        self.translator, self.pairs = translator, pairs

    @cached_property
    def choice(self) -> AlignmentChoice:
        return choose_alignment(self.translator, self.pairs)

    def align(self, part: Part, given: Given) -> Part:
        """The part with its alignment."""
        decoder, tokenizers, choice = part.stack("decoder"), self.translator.tokenizers, self.choice
        assert decoder is not None, "a translation model has a decoder"
        weights = [layer.attentions[-1].weights for layer in decoder.layers]
        source, written = (
            words_of(tokenizer, ids)
            for tokenizer, ids in ((tokenizers.source, given.source or ()), (tokenizers.target, given.labels))
        )
        found = align_words(weights, source, written, choice)
        how = Alignment(
            choice.layer,
            choice.head,
            choice.shifted,
            choice.how,
            found.weights.astype("float32"),
            tuple(sorted(found.links)),
        )
        return replace(part, alignment=how)
