"""How fast is a training step of our decoder-only model beside x-transformers' decoder on the same batches?

    .venv-peers/bin/python benchmarks/language_model.py [--text FILE] [--rounds 8] [--out results.json]

`make bench-training` installs .venv-peers. The batches are windows of a text in characters (bytes). Both sides have the
same width, depth, heads, feed-forward width, dropout, rotary positions, optimiser and master weights, and the allocator
keeps their memory. x-transformers runs in all its ways: bf16 weights or autocast, its own attention or torch's fused
one; never `torch.compile`. All take turns in one run, each in a process of its own. The ratio is to the fastest of its
ways, round by round.
"""

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from command_line import command_line, figures_file, markdown
from peers.contest import TextShape
from peers.entrants import OURS, entrants
from peers.figures import Entry
from peers.worker import TextRun
from training import take_turns

from dragoman.data.encoding import encode_text
from dragoman.evaluating.speed import MedianRange
from dragoman.serialization import write_json
from dragoman.system import describe, gemm_rate, machine
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer
from dragoman.training.optimiser import Precision

PEER, BYTES_AND_SYMBOLS = "x-transformers", 260


def encode(text: Path, folder: Path, window: int) -> int:
    """Encodes a text byte by byte, in windows, and returns the size of the vocabulary."""
    whole = text.read_text(encoding="utf-8")
    without_merges = TokenizerSettings(kind="byte_bpe", vocabulary_size=BYTES_AND_SYMBOLS)
    tokenizer = learn_tokenizer(iter(whole.splitlines(keepends=True)), without_merges)
    encode_text(whole, tokenizer, folder, window)
    return tokenizer.size


def measure(run: TextRun, precision: Precision, rounds: int) -> tuple[list[Entry], MedianRange]:
    """Everyone's turns, and the roof in the same rounds."""
    starting = [each for each in entrants(OURS, precision) if each.variant == "modern"] + entrants(PEER, precision)
    roofs: list[float] = []

    def look_at_the_roof(number: int) -> None:
        print(f"round {number} of {rounds}" if number else "warming up", file=sys.stderr, flush=True)
        if number:
            roofs.append(gemm_rate(precision))

    left_out: dict[str, str] = {}
    entries = take_turns(starting, run, "keep", run.batches, rounds, left_out, look_at_the_roof)
    if left_out:
        raise SystemExit(f"error: {next(iter(left_out.values()))}")
    return entries, MedianRange.from_values(roofs)


def told(entries: Sequence[Entry], fastest: Entry) -> list[dict[str, Any]]:
    return [
        {
            "model": entry.entrant.name,
            "parameters": entry.parameters,
            "tokens_per_second": entry.speed._asdict(),
            "ratio": entry.against(fastest)._asdict(),
            "peak_memory_bytes": entry.peak_memory_bytes,
            "first_loss": entry.warm_up.loss,
            "last_loss": entry.turns[-1].loss,
        }
        for entry in entries
    ]


def row(found: dict[str, Any]) -> list[str]:
    speed, ratio = MedianRange(**found["tokens_per_second"]), MedianRange(**found["ratio"])
    return [
        found["model"],
        f"{found['parameters']:,}",
        f"{speed.median:,.0f} ({speed.low:,.0f} - {speed.high:,.0f})",
        f"{ratio.median:.2f} ({ratio.low:.2f} - {ratio.high:.2f})",
        f"{found['peak_memory_bytes'] / 1e6:,.0f} MB",
        f"{found['first_loss']:.2f} to {found['last_loss']:.2f}",
    ]


COLUMNS = ["model", "weights", "tokens/s", "ratio to the fastest way of the other", "peak memory", "loss"]


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        corpus = Path(name) / "corpus"
        vocabulary = encode(options.text, corpus, options.window)
        shape = TextShape(vocabulary, options.d_model, options.layers, options.heads, options.window)
        run = TextRun(corpus, options.batch_tokens, options.batches, shape, options.threads)
        entries, roof = measure(run, options.precision, options.rounds)
    fastest = max((entry for entry in entries if entry.entrant.is_peer), key=lambda entry: entry.speed.median)
    results = told(entries, fastest)
    print(markdown(COLUMNS, [row(each) for each in results]))
    print(
        f"\n{shape.size}, {shape.heads} heads, vocabulary {vocabulary}; {options.batch_tokens:,} tokens a batch in "
        f"windows of {shape.window}; {options.rounds} rounds of {options.batches} batches; roof {roof.median:,.0f} "
        f"({roof.low:,.0f} - {roof.high:,.0f}) GFLOP/s\n{describe()}"
    )
    if options.out:
        facts = {"machine": machine(), "command": command_line(), "roof_gflops": roof._asdict()}
        write_json(options.out, {**facts, "shape": shape._asdict(), "rounds": options.rounds, "results": results})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", type=Path, default=Path("../shared/data/tiny-shakespeare/input.txt"))
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--window", type=int, default=256, help="tokens of a window")
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--batches", type=int, default=4, help="batches a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--precision", default="bf16", choices=["float32", "bf16"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=figures_file, help="write the figures as JSON")
    options = parser.parse_args()
    if importlib.util.find_spec("x_transformers") is None:
        parser.error("x-transformers is not installed here; `make bench-training` installs it into .venv-peers")
    if not options.text.is_file():
        parser.error(f"{options.text} does not exist; name a text with --text")
    return options


if __name__ == "__main__":
    main()
