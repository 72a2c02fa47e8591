"""A search as a tree: every hypothesis that was considered, and the reasons why the losers lost."""

from collections import defaultdict
from collections.abc import Sequence

from torch import Tensor

from dragoman.decoding.hypothesis import BeamCandidate, Hypothesis
from dragoman.decoding.request import Request
from dragoman.explaining.record import Node, SearchRecord
from dragoman.tokenizing.tokenizer import Tokenizer


class Candidates:
    """An observer that keeps every candidate of every search, step by step, by ticket."""

    def __init__(self) -> None:
        self.steps: defaultdict[int, list[Sequence[BeamCandidate]]] = defaultdict(list)

    def tensor(self, site: str, value: Tensor) -> None:
        """Ignore tensors: another observer watches the model."""

    def candidates(self, ticket: int, candidates: Sequence[BeamCandidate]) -> None:
        self.steps[ticket].append(candidates)


def search_tree(
    steps: Sequence[Sequence[BeamCandidate]], best: Hypothesis, request: Request, tokenizer: Tokenizer, chosen: bool
) -> SearchRecord:
    """Build the tree of one search from the candidates of its steps; `best` is its result."""
    numbers: dict[tuple[int, ...], int] = {}
    nodes: list[Node] = []
    reasons = _Reasons(steps, best, request)
    for number, step in enumerate(steps, 1):
        for rank, (hypothesis, status) in enumerate(step, 1):
            numbers[hypothesis.tokens] = len(nodes)
            nodes.append(
                Node(
                    id=hypothesis.tokens[-1],
                    text=tokenizer.tokens(hypothesis.tokens[-1:])[0],
                    step=number,
                    parent=numbers.get(hypothesis.tokens[:-1]),
                    log_prob=hypothesis.log_probs[-1],
                    total=hypothesis.total,
                    status=status,
                    reason=reasons.find(BeamCandidate(hypothesis, status), rank),
                    score=hypothesis.score(request.length_penalty) if status == "ended" else None,
                )
            )
    return SearchRecord(
        width=request.beam_size,
        length_penalty=request.length_penalty,
        chosen=chosen,
        nodes=tuple(nodes),
        winner=numbers[best.tokens],
        text=tokenizer.decode(best.tokens),
        total=best.total,
        score=best.score(request.length_penalty),
    )


class _Reasons:
    """Reasons why the hypotheses of one search did not win."""

    def __init__(self, steps: Sequence[Sequence[BeamCandidate]], best: Hypothesis, request: Request) -> None:
        self.best, self.request = best, request
        self.steps = [step for step in steps if step]  # the last is empty if the rules forbid every token
        self.forbidden = len(self.steps) < len(steps)
        self.winning = {best.tokens[:end] for end in range(1, len(best.tokens) + 1)}
        self.continued = {
            candidate.hypothesis.tokens[:-1] for step in steps for candidate in step if candidate.status != "dropped"
        }

    def find(self, candidate: BeamCandidate, rank: int) -> str:
        """Return the reason of the candidate with this rank in its step, counted from 1; empty for the winner."""
        hypothesis, status = candidate
        if hypothesis.tokens in self.winning:
            return ""
        width = self.request.beam_size
        if status == "dropped" and hypothesis.finished:
            return f"dropped: it ended, but as candidate {rank} of its step, and only the first {width} may end"
        if status == "dropped":
            step = self.steps[len(hypothesis.tokens) - 1]
            last = min(candidate.hypothesis.total for candidate in step if candidate.status == "live")
            return (
                f"dropped: its total {hypothesis.total:.4f} is {last - hypothesis.total:.4f} below {last:.4f}, "
                f"the last of the {width} that were kept"
            )
        if status == "ended":
            own, winning = (finished.score(self.request.length_penalty) for finished in (hypothesis, self.best))
            return f"ended with the score {own:.4f}, {winning - own:.4f} below the winner's {winning:.4f}"
        if len(hypothesis.tokens) == len(self.steps):
            return f"still live when the search stopped: {self._stopped()}"
        if hypothesis.tokens not in self.continued:
            return "kept, but none of its continuations was kept at the next step"
        return "kept; its continuations lost later"

    def _stopped(self) -> str:
        """Return the reason why the search ended while hypotheses were live."""
        width = self.request.beam_size
        ended = sum(candidate.status == "ended" for step in self.steps for candidate in step)
        if self.forbidden:
            return "the rules forbid every further token"
        if len(self.steps) == self.request.limit:
            return f"{self.request.limit} tokens are the longest that is allowed"
        if ended >= width:
            return f"{ended} had ended, and a beam of {width} looks for no more than {width}"
        score = self.best.score(self.request.length_penalty)
        return f"nothing that it could become would pass the winner's score {score:.4f}"
