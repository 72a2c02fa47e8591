"""Translations of single lines that are shown while the search runs."""

from collections.abc import Iterable, Iterator, Sequence

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.request import Request
from dragoman.inference.alignment import WordLinker
from dragoman.inference.options import SearchOptions
from dragoman.inference.search import ModelSearch
from dragoman.inference.translation import Writer
from dragoman.surface.segment import Segment
from dragoman.surface.sentences import one_line, separator, spaces_around


class LineStream:
    """The growing translation of one line.

    Attributes:
        hypotheses: those of each finished part.
    """

    def __init__(
        self,
        line: Segment,
        requests: Iterable[Request],
        search: ModelSearch,
        writer: Writer,
        link: WordLinker,
        options: SearchOptions,
    ) -> None:
        """Prepare to search for the parts of a line; `requests` are those of the parts that are translated."""
        self.hypotheses: list[list[Hypothesis]] = []
        self._line, self._requests, self._options = line, iter(requests), options
        self._search, self._writer, self._link = search, writer, link

    def pieces(self) -> Iterator[str]:
        """Yield the next piece of the translation whenever more of it is final."""
        before, (space, *spaces) = self._line.prefix, spaces_around(self._line)
        if before:
            yield space + before
            space = ""
        for part, space_after in zip(self._line.parts, spaces, strict=True):
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
        request = next(self._requests)
        if self._options.risk_samples is None and not part.kept:
            hypotheses = yield from self._search.watch(request, self._options, lambda ids: self._settled(part, ids))
        else:
            (hypotheses,) = self._search.hypotheses([request], self._options)
        self.hypotheses.append(hypotheses)
        ((best,), *_) = self._writer.choose([hypotheses], self._options)
        links = self._link([(part, best)], self._options) if self._writer.left_out(part, best) else None
        yield self._writer.piece(part, best, links).restored.text

    def _settled(self, part: Segment, ids: Sequence[int]) -> str:
        """Return the final beginning of a part's translation, of which these tokens are written."""
        settled = self._writer.settled_text(ids)
        return self._writer.surface.restore_part(part, settled, is_whole=False).text
