"""Speed of a training step of our decoder-only model, compared with x-transformers' decoder on the same batches.

    .venv-peers/bin/python benchmarks/language_model.py [--text FILE] [--rounds 8] [--out results.json]

`make bench-training` installs .venv-peers. The batches are windows of 256 bytes of a text. Both sides have the same
width, depth, heads, feed-forward width, dropout, rotary positions, optimiser and master weights, and the allocator
keeps their memory. x-transformers runs in all its ways: bf16 weights or autocast, its own attention or torch's fused
attention; never `torch.compile`. All take turns in one run, each in a process of its own. The ratio is to the fastest
way of x-transformers, round by round.
"""

import importlib.util
import tempfile
from pathlib import Path

import torch
from command_line import markdown, new_parser, write_figures
from peers.contest import TextShape
from peers.entrants import OURS, entrants
from peers.figures import COLUMNS
from peers.worker import TextRun
from training import take_turns_under_roof

from dragoman.data.encoding import encode_text
from dragoman.system import describe
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

PEER, BYTES_AND_SYMBOLS = "x-transformers", 260
D_MODEL, LAYERS, HEADS, WINDOW, BATCH_TOKENS = 256, 6, 4, 256, 4_096


def encode(text: Path, folder: Path) -> int:
    """Encode a text byte by byte, in windows, and return the size of the vocabulary."""
    whole = text.read_text(encoding="utf-8")
    without_merges = TokenizerSettings(kind="byte_bpe", vocabulary_size=BYTES_AND_SYMBOLS)
    tokenizer = learn_tokenizer(iter(whole.splitlines(keepends=True)), without_merges)
    encode_text(whole, tokenizer, folder, WINDOW)
    return tokenizer.size


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--text", type=Path, default=Path("../shared/data/tiny-shakespeare/input.txt"))
    parser.add_argument("--batches", type=int, default=4, help="batches a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--precision", default="bf16", choices=["float32", "bf16"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    if importlib.util.find_spec("x_transformers") is None:
        parser.error("x-transformers is not installed here; `make bench-training` installs it into .venv-peers")
    ours = [entrant for entrant in entrants(OURS, options.precision) if entrant.variant == "modern"]
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        shape = TextShape(encode(options.text, corpus), D_MODEL, LAYERS, HEADS, WINDOW)
        run = TextRun(corpus, BATCH_TOKENS, options.batches, shape, options.threads)
        starting = [*ours, *entrants(PEER, options.precision)]
        entries, roof = take_turns_under_roof(starting, run, options.precision, options.rounds, left_out)
    if left_out:
        raise SystemExit(f"error: {next(iter(left_out.values()))}")
    fastest = max((entry for entry in entries if entry.entrant.is_peer), key=lambda entry: entry.speed.median)
    print(markdown(COLUMNS, [entry.cells(fastest) for entry in entries]))
    print(
        f"\n{shape.size}, {HEADS} heads, vocabulary {shape.vocabulary}; {BATCH_TOKENS:,} tokens a batch in windows of "
        f"{WINDOW}; {options.rounds} rounds of {options.batches} batches; roof {roof.median:,.0f} "
        f"({roof.low:,.0f} - {roof.high:,.0f}) GFLOP/s\n{describe()}"
    )
    write_figures(
        options.out,
        roof_gflops=roof._asdict(),
        shape=shape._asdict(),
        rounds=options.rounds,
        results=[entry.figures(fastest) for entry in entries],
    )


if __name__ == "__main__":
    main()
