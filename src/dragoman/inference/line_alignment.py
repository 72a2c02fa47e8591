"""Which word of a text each word of its translation renders: links inside segments, and over a whole line.

They come from one more pass over what was found, with attention by its equation; only that loads PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import batches
from dragoman.inference.alignment import (
    AlignmentChoice,
    Link,
    Links,
    align_words,
    places_in_line,
    split_words,
    words_in_tokens,
    words_written,
)
from dragoman.inference.segments import Segment, Segments
from dragoman.inference.sentences import join
from dragoman.tokenizing.special_tokens import Framing
from dragoman.tokenizing.tokenizers import Tokenizers

if TYPE_CHECKING:
    from dragoman.model.transformer import EncoderDecoder

Rendered = tuple[str, tuple[int, ...]]
"""The text of a segment, and the tokens of its translation."""
SegmentLinks = Mapping[Rendered, Links]
"""Of each segment and translation, links between their words, both counted from 0."""

TOKENS_AT_ONCE = 1_024
"""Most tokens in one pass: pairs times those of the longest side. Few, because all weights are kept meanwhile."""


def rendered(segment: Segment, part: Hypothesis) -> Rendered:
    return segment.text, part.tokens


def align(
    model: "EncoderDecoder",
    tokenizers: Tokenizers,
    framing: Framing,
    text: Callable[[Sequence[int]], str],
    pairs: Sequence[tuple[Segment, Hypothesis]],
    tokens_at_once: int = TOKENS_AT_ONCE,
) -> SegmentLinks:
    """The links of each segment and its translation, whose tokens `text` makes readable.

    The weights are the mean over the heads of the last decoder layer but one, at the step that writes a word.
    """
    from dragoman.inference.alignment import Given, cross_weights

    choice = AlignmentChoice.unmeasured(len(model.decoder.blocks))
    before = len(framing.source_before)
    found: dict[Rendered, Links] = {}
    different = [*{rendered(*pair): pair for pair in pairs}.values()]
    given = [
        Given(framing.source(segment.ids), framing.target(part.tokens[:-1]), list(part.tokens))
        for segment, part in different
    ]
    for batch in batches([each.source or () for each in given], [each.target for each in given], tokens_at_once):
        for number, weights in zip(batch, cross_weights(model, [given[i] for i in batch]), strict=True):
            segment, part = different[number]
            source = words_in_tokens(tokenizers.source, segment.text, split_words(segment.text), before)
            target = words_written(tokenizers.target, part.tokens, text(part.tokens))
            found[rendered(segment, part)] = align_words(list(weights), source, target, choice).links
    return found


def line_links(
    segments: Segments, parts: Sequence[Hypothesis], prefix: str, written: Sequence[str], links: SegmentLinks
) -> tuple[Link, ...]:
    """The links of a whole line, in order; its segments were `written` so, after a prefix that none of them holds.

    A copied segment is linked word by word.
    """
    sources = places_in_line(segments.text, [segment.text for segment in segments.all])
    _, *targets = places_in_line(join([prefix, *written]), [prefix, *written])
    each = iter(parts)
    found: set[Link] = set()
    for segment, source, target in zip(segments.all, sources, targets, strict=True):
        if segment.copied:
            found.update(zip(source, target, strict=False))  # a control character is no word of the target
        else:
            found.update((source[one], target[other]) for one, other in links[rendered(segment, next(each))])
    return tuple(sorted(found))
