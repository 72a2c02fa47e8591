"""Measured speeds as a table and JSON."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from command_line import markdown

from dragoman.evaluating.speed import MedianRange
from dragoman.training.optimiser import Precision
from peers.entrants import Entrant
from peers.worker import Turn


class Heat(NamedTuple):
    entrant: Entrant
    tokens_per_second: float


class Entry(NamedTuple):
    """One contender's figures over all rounds."""

    entrant: Entrant
    parameters: int
    warm_up: Turn
    """The turn before the first round."""
    turns: list[Turn]

    @property
    def speed(self) -> MedianRange:
        return MedianRange.from_values([turn.tokens_per_second for turn in self.turns])

    @property
    def peak_memory_bytes(self) -> int:
        return self.turns[-1].peak_memory_bytes or 0

    @property
    def learns(self) -> bool:
        """Return True if the loss on the same few batches fell, so that training is timed."""
        return self.turns[-1].loss < self.warm_up.loss

    def against(self, other: "Entry") -> MedianRange:
        """Return the ratio of speeds within each round, so that a busy minute slows both."""
        pairs = zip(self.turns, other.turns, strict=True)
        return MedianRange.from_values([ours.tokens_per_second / theirs.tokens_per_second for ours, theirs in pairs])

    def figures(self, rival: "Entry | None") -> dict[str, Any]:
        """Return the figures for the JSON file; the ratio is to the rival."""
        return {
            "model": self.entrant.name,
            "parameters": self.parameters,
            "tokens_per_second": self.speed._asdict(),
            "ratio": rival and self.against(rival)._asdict(),
            "peak_memory_bytes": self.peak_memory_bytes,
            "first_loss": self.warm_up.loss,
            "last_loss": self.turns[-1].loss,
        }

    def cells(self, rival: "Entry | None") -> list[str]:
        """Return a row of a table with `COLUMNS`."""
        speed, ratio = self.speed, self.against(rival) if rival else None
        return [
            self.entrant.name,
            f"{self.parameters:,}",
            f"{speed.median:,.0f} ({speed.low:,.0f} - {speed.high:,.0f})",
            f"{ratio.median:.2f} ({ratio.low:.2f} - {ratio.high:.2f})" if ratio else "",
            f"{self.peak_memory_bytes / 1e6:,.0f} MB",
            f"{self.warm_up.loss:.2f} to {self.turns[-1].loss:.2f}" + ("" if self.learns else ", does not learn!"),
        ]


COLUMNS = ["model", "weights", "tokens/s", "ratio to the fastest peer", "peak memory", "loss"]


class Contest(NamedTuple):
    """All that was measured for one size and precision."""

    size: str
    precision: Precision
    heats: list[Heat]
    entries: list[Entry]
    roof: MedianRange
    work: dict[str, float]
    """FLOP of a token, by preset."""

    @property
    def peers(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.entrant.is_peer]

    @property
    def fastest_peer(self) -> Entry | None:
        return max(self.peers, key=lambda entry: entry.speed.median, default=None)

    @property
    def leanest_peer(self) -> Entry | None:
        return min(self.peers, key=lambda entry: entry.peak_memory_bytes, default=None)

    def share_of_roof(self, entry: Entry) -> float:
        return entry.speed.median * self.work_of(entry) / (self.roof.median * 1e9)

    def work_of(self, entry: Entry) -> float:
        return self.work["modern" if entry.entrant.variant == "modern" else "paper"]

    def figures(self) -> dict[str, Any]:
        """Return everything for the JSON file."""
        return {
            "roof_gflops": {f"{self.size} {self.precision}": self.roof._asdict()},
            "heats": [{"size": self.size, **heat._asdict(), "entrant": heat.entrant.name} for heat in self.heats],
            "results": list(self._rows()),
        }

    def _rows(self) -> Iterator[dict[str, Any]]:
        fastest, leanest = self.fastest_peer, self.leanest_peer
        for entry in self.entries:
            yield {
                "size": self.size,
                "precision": self.precision,
                **entry.figures(fastest),
                "against": fastest and fastest.entrant.name,
                "flop_per_token": self.work_of(entry),
                "share_of_roof": self.share_of_roof(entry),
                "of_the_leanest_peer": leanest and entry.peak_memory_bytes / leanest.peak_memory_bytes,
            }


def show(contest: Contest) -> None:
    """Print the table and the roof."""
    fastest, leanest, roof = contest.fastest_peer, contest.leanest_peer, contest.roof
    rows = [[*entry.cells(fastest), f"{contest.share_of_roof(entry):.0%}"] for entry in contest.entries]
    print(f"\n{contest.size}, {contest.precision}\n")
    print(markdown([*COLUMNS, "share of the roof"], rows))
    print(f"\nroof: {roof.median:,.0f} GFLOP/s ({roof.low:,.0f} - {roof.high:,.0f})")
    if fastest and leanest:
        print(f"fastest peer: {fastest.entrant.name}; leanest: {leanest.entrant.name}")
