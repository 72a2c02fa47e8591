"""A record in a terminal: what was written, what else was considered, and where the model looked."""

import math
from collections.abc import Iterator

from dragoman.explaining.heat_maps import heat_lines, heat_maps
from dragoman.explaining.record import Part, Record, Search

_CONSIDERED = 4


def summary(record: Record, head: str | None = None) -> Iterator[str]:
    """A record as lines of text; `head` names the map, as in `heat_maps`.

    Raises:
        ConfigError: the model has no such head.
    """
    maps = iter(heat_maps(record, head))
    for part in record.parts:
        yield from _part(part)
        if not part.copied:
            yield ""
            yield from heat_lines(next(maps))
        yield ""
    for meaning in record.flags.values():
        yield f"note: {meaning}"
    if record.unknown_words:
        yield f"words that the model does not know: {', '.join(record.unknown_words)}"


def _part(part: Part) -> Iterator[str]:
    if part.copied:
        yield f"copied  {part.source}"
        return
    if part.source is not None:
        yield f"source  {part.source}"
    yield f"target  {part.target}"
    yield f"log-probability {part.log_prob:.4f}, {part.log_prob / max(_counted(part), 1):.4f} a token"
    yield ""
    width = max((len(step.token.text) for step in part.steps), default=0)
    for number, step in enumerate(part.steps, 1):
        others = [each for each in step.candidates if each.id != step.token.id][:_CONSIDERED]
        considered = ", ".join(f"{each.text} {math.exp(each.log_prob):.1%}" for each in others)
        yield f"{number:>3}  {step.token.text:<{width}}  {math.exp(step.log_prob):>6.1%}  others {considered}"
    if part.searches:
        yield ""
        yield from map(_search, part.searches)


def _counted(part: Part) -> int:
    """The tokens whose log-probabilities the part's adds up: not what a language model expects after its text."""
    return len(part.steps) - (part.source is None)


def _search(search: Search) -> str:
    kept = sum(node.fate != "dropped" for node in search.nodes)
    mark = "*" if search.chosen else " "
    return (
        f"{mark} beam {search.width}: {search.text}  (total {search.total:.4f}, score {search.score:.4f}; "
        f"{kept:,} hypotheses kept, {len(search.nodes) - kept:,} dropped)"
    )
