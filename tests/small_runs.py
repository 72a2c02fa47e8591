"""Small runs for tests: text, settings that train in a second, and processes that end at a chosen moment."""

import multiprocessing
import os
import pkgutil
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.progress import Advance

STEPS, SAVED_EVERY = 12, 4
SETTINGS = (
    "data.dev_size=8", "data.test_size=8", "tokenizer.kind=word", "tokenizer.minimum_frequency=1",
    "model.size=tiny", "model.d_model=16", "model.heads=2", "model.d_ff=32",
    "model.encoder_layers=1", "model.decoder_layers=1", "batches.batch_tokens=200", "decode.beam_size=1",
    f"train.steps={STEPS}", "train.precision=float32", "train.validate_every=6", f"train.save_every={SAVED_EVERY}",
)  # fmt: skip
NOUNS = "gatt can top lup ors cavall asin mul polp corv".split()
VERBS = {"sees": "vede", "seeks": "cerca", "loves": "ama", "fears": "teme"}


def some_pairs(count: int = 200, verbs: Sequence[str] = tuple(VERBS)) -> list[tuple[str, str]]:
    """Sentences of five words, of which no two are the same, in an order of their own."""
    pairs = [
        (f"the {one} {verb} the {other}", f"il {one}o {VERBS[verb]} il {other}o")
        for verb in verbs
        for one in NOUNS
        for other in NOUNS
    ]
    random.Random(1).shuffle(pairs)
    return pairs[:count]


def write_corpus(path: Path, pairs: Sequence[tuple[str, str]] | None = None) -> Path:
    rows = [("en", "it"), *(some_pairs() if pairs is None else pairs)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


def train_small(folder: Path, *overrides: str, what: Any = None, **options: Any) -> Any:
    """Trains on `folder/corpus.tsv`, which is written where there is none, in `folder/runs`."""
    from dragoman.runs.train import train

    if what is None:
        what = folder / "corpus.tsv"
        if not what.exists():
            write_corpus(what)
    return train(what, overrides=[*SETTINGS, *overrides], runs=folder / "runs", device="cpu", **options)


class AtSteps:
    """A progress that does something when a step of training is done."""

    def __init__(self, actions: Mapping[int, Callable[[], Any]]) -> None:
        self.actions = actions

    @contextmanager
    def track(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        done = 0

        def advance(count: int = 1, **facts: str) -> None:
            nonlocal done
            done += count
            if label == "train" and count:
                self.actions.get(done, lambda: None)()

        yield advance


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def weights(run: Path) -> tuple[bytes, bytes]:
    """The bytes of the final and of the best weights."""
    return tuple((run / name / "model.safetensors").read_bytes() for name in ("final", "best"))  # pyright: ignore[reportReturnType]


def times(folder: Path) -> dict[str, int]:
    """When each file was last changed."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


# Processes that end at a chosen moment


def exit_code(do: Callable[..., Any], *arguments: Any, seconds: float = 600) -> int:
    """What a process that calls `do` ends with within so many seconds: its exit code, or a signal's number below zero.

    The server that forks it has imported everything once, and has started no thread.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dragoman.runs.train", "dragoman.cli.main"])
    process = context.Process(target=do, args=arguments)
    process.start()
    process.join(seconds)  # with a read-only home each process compiles its kernels, on a busy machine for minutes
    if hangs := process.is_alive():
        process.kill()
        process.join()
    assert not hangs and process.exitcode is not None, "the process hangs"
    return process.exitcode


def exit_codes(count: int, do: Callable[..., Any], *arguments: Any, seconds: float = 600) -> list[int]:
    """What processes end with that `do` the same together, as torchrun starts them; this one keeps their store."""
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ThreadPoolExecutor(count) as pool:
        given = (count, store.port, do, *arguments)
        ended = [pool.submit(exit_code, as_rank, rank, *given, seconds=seconds) for rank in range(count)]
        return [each.result() for each in ended]


def as_rank(rank: int, count: int, port: int, do: Callable[..., Any], *arguments: Any) -> None:
    """Calls `do` with the variables that torchrun sets."""
    facts = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in facts.items()} | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    do(*arguments)


def kill_at(function: str, call: int, do: Callable[..., Any], *arguments: Any) -> None:
    """Calls `do`, and ends the process, as a power failure would, when `function` is called for the `call`-th time."""
    home, name = function.rsplit(".", 1)
    module = pkgutil.resolve_name(home)  # a module, or a class in one
    original, calls = getattr(module, name), 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given, **named)

    setattr(module, name, counted)
    do(*arguments)


def command(*arguments: str) -> None:
    """The command line, in this process."""
    from dragoman.cli.main import main

    raise SystemExit(main(list(arguments)))


def train_command(folder: Path, *overrides: str) -> list[str]:
    chosen = [part for setting in (*SETTINGS, *overrides) for part in ("--set", setting)]
    return ["train", str(folder / "corpus.tsv"), "--runs", str(folder / "runs"), "--device", "cpu", *chosen]
