"""What was measured, as a table, JSON and a picture."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.evaluating.speed import MedianRange
from dragoman.training.optimiser import Precision
from peers.entrants import OURS, Entrant
from peers.worker import Turn


class Heat(NamedTuple):
    entrant: Entrant
    allocator: str
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
        """Whether the loss on the same few batches fell, so that what is timed is training."""
        return self.turns[-1].loss < self.warm_up.loss

    def against(self, other: "Entry") -> MedianRange:
        """How many times as fast, round by round, so that a busy minute slows both."""
        pairs = zip(self.turns, other.turns, strict=True)
        return MedianRange.from_values([ours.tokens_per_second / theirs.tokens_per_second for ours, theirs in pairs])


class Contest(NamedTuple):
    """All that was measured for one size and precision."""

    size: str
    precision: Precision
    allocator: str
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

    def rows(self) -> Iterator[dict[str, Any]]:
        """The facts of each contender for the JSON file."""
        fastest, leanest = self.fastest_peer, self.leanest_peer
        for entry in self.entries:
            yield {
                "size": self.size,
                "precision": self.precision,
                "allocator": self.allocator,
                "model": entry.entrant.name,
                "parameters": entry.parameters,
                "tokens_per_second": entry.speed._asdict(),
                "against": fastest and fastest.entrant.name,
                "ratio": fastest and entry.against(fastest)._asdict(),
                "flop_per_token": self.work_of(entry),
                "share_of_roof": self.share_of_roof(entry),
                "peak_memory_bytes": entry.peak_memory_bytes,
                "of_the_leanest_peer": leanest and entry.peak_memory_bytes / leanest.peak_memory_bytes,
                "first_loss": entry.warm_up.loss,
                "last_loss": entry.turns[-1].loss,
            }


def show(contest: Contest) -> None:
    fastest, leanest, roof = contest.fastest_peer, contest.leanest_peer, contest.roof
    print(f"\n{contest.size}, {contest.precision}, {contest.allocator} allocator for all")
    print(
        f"{'':<44}{'parameters':>11}{'tokens/s':>10}{'range':>18}{'ratio':>7}{'range':>15}"
        f"{'of the roof':>13}{'peak memory':>13}{'loss':>15}"
    )
    for entry in contest.entries:
        ratio = entry.against(fastest) if fastest else None
        print(
            f"{entry.entrant.name:<44}{entry.parameters:>11,}{entry.speed.median:>10,.0f}"
            f"{f'{entry.speed.low:,.0f} - {entry.speed.high:,.0f}':>18}"
            + (f"{ratio.median:>7.2f}{f'{ratio.low:.2f} - {ratio.high:.2f}':>15}" if ratio else " " * 22)
            + f"{contest.share_of_roof(entry):>13.0%}{entry.peak_memory_bytes / 1e6:>10,.0f} MB"
            f"{entry.warm_up.loss:>8.2f} {entry.turns[-1].loss:.2f}" + ("" if entry.learns else "  does not learn!")
        )
    print(f"roof: {roof.median:,.0f} GFLOP/s ({roof.low:,.0f} - {roof.high:,.0f})")
    if fastest and leanest:
        print(f"fastest peer: {fastest.entrant.name}; leanest: {leanest.entrant.name}")


def draw(contests: Sequence[Contest], path: Path) -> None:
    """Draws everyone's tokens a second on a logarithmic axis, with how many times faster Dragoman is."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture was drawn, for matplotlib is not installed: pip install 'dragoman[plots]'")
        return
    figure: Any = Figure(figsize=(9, 0.6 + 0.34 * sum(len(contest.entries) + 2 for contest in contests)))
    axes = figure.subplots(len(contests), 1, squeeze=False)[:, 0]
    for axis, contest in zip(axes, contests, strict=True):
        entries = sorted(contest.entries, key=lambda entry: entry.speed.median)
        speeds = [entry.speed.median for entry in entries]
        ours = max((entry.speed.median for entry in entries if entry.entrant.toolkit == OURS), default=None)
        colours = {True: "tab:blue", False: "tab:gray"}
        bars = axis.barh(
            [entry.entrant.name for entry in entries],
            speeds,
            color=[colours[entry.entrant.toolkit == OURS] for entry in entries],
        )
        times = [f"{speed:,.0f}" + (f"   (÷ {ours / speed:.3g})" if ours and speed < ours else "") for speed in speeds]
        axis.bar_label(bars, times, padding=3)
        axis.set(xscale="log", xlim=(min(speeds) / 2, max(speeds) * 8))
        axis.set_xlabel("tokens a second (÷ how many times as fast ours is)")
        axis.set_title(f"Training, {contest.size}, {contest.precision}")
    figure.tight_layout()
    figure.savefig(path)


def told(contests: Sequence[Contest]) -> dict[str, Any]:
    return {
        "roof_gflops": {f"{each.size} {each.precision}": each.roof._asdict() for each in contests},
        "heats": [
            {"size": each.size, **heat._asdict(), "entrant": heat.entrant.name}
            for each in contests
            for heat in each.heats
        ],
        "results": [row for each in contests for row in each.rows()],
    }
