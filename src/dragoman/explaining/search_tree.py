"""A search as a tree: every hypothesis that was considered, and why the losers lost."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from dragoman.decoding.beam import Hypothesis
from dragoman.decoding.observer import Candidate
from dragoman.decoding.request import Request
from dragoman.explaining.record import Node, Search
from dragoman.tokenizing.tokenizer import Tokenizer


class Candidates:
    """An observer that keeps every candidate of every search, step by step, by ticket."""

    def __init__(self) -> None:
        self.steps: defaultdict[int, list[Sequence[Candidate]]] = defaultdict(list)

    def tensor(self, site: str, value: Tensor) -> None:
        """The model is watched elsewhere."""

    def candidates(self, ticket: int, candidates: Sequence[Candidate]) -> None:
        self.steps[ticket].append(candidates)


def search_tree(
    steps: Sequence[Sequence[Candidate]], best: Hypothesis, request: Request, tokenizer: Tokenizer, chosen: bool
) -> Search:
    """The tree of one search from the candidates of its steps; `best` is what it found."""
    numbers: dict[tuple[int, ...], int] = {}
    nodes: list[Node] = []
    alive = {best.tokens[:end] for end in range(1, len(best.tokens) + 1)}
    continued = [{each.hypothesis.tokens[:-1] for each in step if each.fate != "dropped"} for step in steps]
    stopped = _stopped(steps, best, request)
    for number, step in enumerate(steps):
        weakest = min((each.hypothesis.total for each in step if each.fate == "live"), default=0.0)
        after = continued[number + 1] if number + 1 < len(steps) else None
        for rank, (hypothesis, fate) in enumerate(step, 1):
            numbers[hypothesis.tokens] = len(nodes)
            winning = hypothesis.tokens in alive
            nodes.append(
                Node(
                    id=hypothesis.tokens[-1],
                    text=tokenizer.tokens(hypothesis.tokens[-1:])[0],
                    step=number + 1,
                    parent=numbers.get(hypothesis.tokens[:-1]),
                    log_prob=hypothesis.log_probs[-1],
                    total=hypothesis.total,
                    fate=fate,
                    reason="" if winning else _reason(hypothesis, fate, rank, weakest, after, best, request, stopped),
                    score=hypothesis.score(request.length_penalty) if fate == "ended" else None,
                )
            )
    return Search(
        width=request.beam_size,
        length_penalty=request.length_penalty,
        chosen=chosen,
        nodes=tuple(nodes),
        winner=numbers[best.tokens],
        text=tokenizer.decode(best.tokens),
        total=best.total,
        score=best.score(request.length_penalty),
    )


def _reason(
    hypothesis: Hypothesis,
    fate: Literal["live", "ended", "dropped"],
    rank: int,
    weakest: float,
    after: set[tuple[int, ...]] | None,
    best: Hypothesis,
    request: Request,
    stopped: str,
) -> str:
    """Why a hypothesis did not win."""
    width, exponent = request.beam_size, request.length_penalty
    if fate == "dropped" and hypothesis.ended:
        return f"dropped: it ended, but as candidate {rank} of its step, and only the first {width} may end"
    if fate == "dropped":
        return (
            f"dropped: its total {hypothesis.total:.4f} is {weakest - hypothesis.total:.4f} below {weakest:.4f}, "
            f"the last of the {width} that were kept"
        )
    if fate == "ended":
        own, winning = hypothesis.score(exponent), best.score(exponent)
        return f"ended with the score {own:.4f}, {winning - own:.4f} below the winner's {winning:.4f}"
    if after is None:
        return f"still live when the search stopped: {stopped}"
    if hypothesis.tokens not in after:
        return "kept, but every continuation was dropped at the next step"
    return "kept; its continuations lost later"


def _stopped(steps: Sequence[Sequence[Candidate]], best: Hypothesis, request: Request) -> str:
    """Why a search ended."""
    ended = sum(each.fate == "ended" for step in steps for each in step)
    if ended >= request.beam_size:
        return f"{ended} had ended, as many as the beam is wide"
    if len(steps) == request.limit:
        return f"{request.limit} tokens are the longest that is allowed"
    score = best.score(request.length_penalty)
    return f"nothing that it could become would pass the winner's score {score:.4f}"
