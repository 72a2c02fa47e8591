"""Runtimes that translate with the same weights, each in a process of its own, which waits for its turn.

A runtime loads only what it needs: memory and threads are its own. Each is handed text and hands text back; CTranslate2
and Hugging Face are given the tokens of the model's own tokenizer.
"""

import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.memory import peak_memory_bytes
from dragoman.system import WAITING

Runtime = Literal["dragoman", "plain", "ctranslate2", "huggingface"]
"""`plain` is Dragoman's model in PyTorch, the definition of what the others compute."""
Translate = Callable[[Sequence[str], int, int | None], "list[Said]"]
"""Translates texts with a beam this wide; each gets so many tokens, or as many as it needs."""
BATCH = 64
"""Sentences that Hugging Face translates at a time, alike in length."""


class Way(NamedTuple):
    """A runtime and its settings."""

    runtime: Runtime
    precision: str
    folder: Path
    """The model as the runtime reads it."""
    threads: int
    workers: int = 1
    """CTranslate2: workers that share the threads."""
    batch_tokens: int = 4096
    """CTranslate2: most tokens of a batch."""

    @property
    def name(self) -> str:
        return f"{self.runtime} {self.precision}"

    @property
    def settings(self) -> str:
        if self.runtime != "ctranslate2":
            return f"{self.threads} threads"
        return f"{self.workers} x {self.threads // self.workers} threads, batches of {self.batch_tokens:,} tokens"


class Said(NamedTuple):
    """A translation, and its tokens with the end symbol."""

    text: str
    tokens: int


class Turn(NamedTuple):
    """What a runtime said, and the seconds of each call."""

    said: list[Said]
    seconds: list[float]
    peak_memory_bytes: int | None

    @property
    def tokens_per_second(self) -> float:
        return sum(each.tokens for each in self.said) / sum(self.seconds)


class Contender:
    """A runtime's process, seen from this one."""

    def __init__(self, way: Way, model: Path) -> None:
        """`model` is Dragoman's folder, from which all take their tokenizer."""
        self.way = way
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        process = context.Process(target=_serve, args=(far, way, model), daemon=True)
        with _patient_threads() if way.runtime in ("dragoman", "plain") else _as_it_is():
            process.start()
        far.close()
        self.loaded_bytes: int | None = self._hear()
        """The most memory that it held before the first translation."""

    def turn(self, texts: Sequence[str], beam_size: int, alone: bool, output: int | None = None) -> Turn:
        """Translates the texts in one call, or `alone`: each in a call of its own; each gets `output` tokens, or as
        many as it needs.
        """
        self._pipe.send((texts, beam_size, alone, output))
        return self._hear()

    def leave(self) -> None:
        self._pipe.close()

    def _hear(self) -> Any:
        try:
            said = self._pipe.recv()
        except EOFError:
            raise SystemExit(f"error: the process of {self.way.name} ended") from None
        if isinstance(said, str):
            raise SystemExit(f"error: {self.way.name}: {said}")
        return said


def _serve(pipe: Connection, way: Way, model: Path) -> None:
    """What that process does: loads its model, then takes turns until the pipe closes."""
    try:
        translate = LOADERS[way.runtime](way, model)
        pipe.send(peak_memory_bytes())
        while True:
            texts, beam_size, alone, output = pipe.recv()
            said: list[Said] = []
            seconds: list[float] = []
            for call in [[text] for text in texts] if alone else [texts]:
                began = time.perf_counter()
                said += translate(call, beam_size, output)
                seconds.append(time.perf_counter() - began)
            pipe.send(Turn(said, seconds, peak_memory_bytes()))
    except EOFError:
        return
    except Exception:
        pipe.send(traceback.format_exc(limit=-4))


def _dragoman(way: Way, model: Path) -> Translate:
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translator import Translator
    from dragoman.store.folder import load_model

    native = way.runtime == "dragoman"
    translator = Translator(load_model(model), "cpu", way.precision, native=native, threads=way.threads)

    def translate(texts: Sequence[str], beam_size: int, output: int | None) -> list[Said]:
        options = SearchOptions(beam_size=beam_size, split="never", max_source_tokens=10**6)
        if output:
            options = options.but(minimum_length=output, length_ratio=0.0, length_extra=output)
        found = translator.translate(texts, options)
        return [Said(each.text, len(each.tokens)) for each in found]

    return translate


def _ctranslate2(way: Way, model: Path) -> Translate:
    import ctranslate2

    from dragoman.store.folder import load_model

    stored = load_model(model)
    source, target = stored.tokenizers.source, stored.tokenizers.target
    framing = stored.files.framing
    translator = ctranslate2.Translator(
        str(way.folder),
        device="cpu",
        compute_type={"bf16": "bfloat16"}.get(way.precision, way.precision),
        inter_threads=way.workers,
        intra_threads=way.threads // way.workers,
    )
    names, written_names = (vocabulary(way.folder, side) for side in ("source", "target"))
    ids = {name: i for i, name in enumerate(written_names)}

    def translate(texts: Sequence[str], beam_size: int, output: int | None) -> list[Said]:
        rows = [[names[i] for i in framing.source(row)] for row in source.encode_batch(list(texts))]
        longest = 2 * max(len(row) for row in rows) + 20
        found = translator.translate_batch(
            rows,
            beam_size=beam_size,
            max_batch_size=way.batch_tokens,
            batch_type="tokens",
            min_decoding_length=output or 1,
            max_decoding_length=output or longest,
        )
        written = [[ids[name] for name in each.hypotheses[0]] for each in found]
        return [Said(target.decode(row), len(row) + 1) for row in written]

    return translate


def vocabulary(folder: Path, side: str) -> list[str]:
    """The names of a side's ids in a folder of CTranslate2."""
    shared = folder / "shared_vocabulary.json"
    return json.loads((shared if shared.exists() else folder / f"{side}_vocabulary.json").read_text("utf-8"))


def _huggingface(way: Way, model: Path) -> Translate:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(way.threads)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(way.folder)
    loaded: Any = transformers.MarianMTModel.from_pretrained(way.folder).eval()

    def translate(texts: Sequence[str], beam_size: int, output: int | None) -> list[Said]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        said: dict[int, Said] = {}
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            batch = tokenizer([texts[i] for i in rows], return_tensors="pt", padding=True)
            batch.pop("token_type_ids", None)
            longest = 2 * batch["input_ids"].shape[1] + 20
            with torch.inference_mode():
                written = loaded.generate(
                    **batch, num_beams=beam_size, min_length=output or 0, max_length=output or longest
                )
            for i, row in zip(rows, written, strict=True):
                tokens = int((row[1:] != loaded.config.pad_token_id).sum())
                said[i] = Said(tokenizer.decode(row, skip_special_tokens=True), tokens)
        return [said[i] for i in range(len(texts))]

    return translate


LOADERS: dict[Runtime, Callable[[Way, Path], Translate]] = {
    "dragoman": _dragoman,
    "plain": _dragoman,
    "ctranslate2": _ctranslate2,
    "huggingface": _huggingface,
}


@contextmanager
def _patient_threads() -> Iterator[None]:
    """OpenMP's threads sleep while they wait, as the command line lets them."""
    before = dict(os.environ)
    os.environ.update({**WAITING, **before})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield
