"""Translations of single lines that are shown while the search runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.request import Request
from dragoman.inference.alignment import WordLinker
from dragoman.inference.options import SearchOptions
from dragoman.inference.search import ModelSearch
from dragoman.inference.translation import Writer
from dragoman.surface.segment import Segment
from dragoman.surface.sentences import one_line, separator, spaces_around


@dataclass
class LineStream:
    """The growing translation of one line.

    Attributes:
        requests: the requests of the parts that are translated.
        hypotheses: the hypotheses of the parts that are finished.
    """

    line: Segment
    requests: Iterator[Request]
    options: SearchOptions
    search: ModelSearch
    writer: Writer
    link: WordLinker
    hypotheses: list[list[Hypothesis]] = field(default_factory=list)

    def pieces(self) -> Iterator[str]:
        """Yield the next piece of the translation whenever more of it is final."""
        before, (space, *spaces) = self.line.prefix, spaces_around(self.line)
        if before:
            yield space + before
            space = ""
        for part, space_after in zip(self.line.parts, spaces, strict=True):
            written, yielded = "", 0
            for written in self._growing(part):
                piece = separator(before, written, space) + written
                if len(piece) > yielded:
                    yield piece[yielded:]
                    yielded = len(piece)
            before, space = written or before, space_after
        if before and space:
            yield space

    def _growing(self, part: Segment) -> Iterator[str]:
        """Yield ever longer beginnings of a part's translation that are final, then the whole."""
        if part.is_copied:
            yield one_line(part.typed)[0]
            return
        request = next(self.requests)
        if self.options.risk_samples is None and not part.kept:
            hypotheses = yield from self.search.watch(request, self.options, lambda ids: self._settled(part, ids))
        else:
            (hypotheses,) = self.search.hypotheses([request], self.options)
        self.hypotheses.append(hypotheses)
        ((best,), *_) = self.writer.choose([hypotheses], self.options)
        links = self.link([(part, best)], self.options) if self.writer.left_out(part, best) else None
        yield self.writer.piece(part, best, links).restored.text

    def _settled(self, part: Segment, ids: Sequence[int]) -> str:
        """Return the final beginning of a part's translation, of which these tokens are written."""
        settled = self.writer.settled_text(ids)
        return self.writer.surface.restore_part(part, settled, is_whole=False).text
