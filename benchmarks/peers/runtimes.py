"""Runtimes that translate with the same weights, each in a process of its own.

A runtime loads only what it needs: memory and threads are its own. It receives text and returns text; CTranslate2 and
Hugging Face are given the tokens of the model's own tokenizer. Dragoman and CTranslate2 can also search from tokens.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.memory import peak_memory_bytes
from peers.processes import Lost, Remote

Runtime = Literal["dragoman", "plain", "ctranslate2", "huggingface"]
"""`plain` is Dragoman's model in PyTorch, the definition of what the others compute."""
Translate = Callable[[Sequence[str], int], "list[Output]"]
"""Translates texts with a beam this wide."""
BATCH = 64
"""Sentences of similar length that Hugging Face translates at a time."""


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


class Output(NamedTuple):
    """A translation, and its number of tokens with the end symbol."""

    text: str
    tokens: int


class Loaded(NamedTuple):
    """A runtime with its model."""

    translate: Translate
    prepare: Callable[[Sequence[str], int], Callable[[], list[Output]]] | None = None
    """Encodes texts, and returns the search from their tokens with a beam this wide. Its outputs have no text."""


class Turn(NamedTuple):
    """The translations of a runtime, and the seconds of each call."""

    outputs: list[Output]
    seconds: list[float]
    peak_memory_bytes: int | None

    @property
    def tokens_per_second(self) -> float:
        return sum(output.tokens for output in self.outputs) / sum(self.seconds)


class Contender:
    """A runtime's process, seen from this process."""

    def __init__(self, way: Way, model: Path) -> None:
        """Start a runtime. `model` is Dragoman's folder, from which all take their tokenizer."""
        self.way = way
        try:
            self._remote = Remote(_start, way, model, is_patient=way.runtime in ("dragoman", "plain"))
        except Lost as error:
            raise SystemExit(f"error: {way.name}: {error}") from None

    def turn(
        self, texts: Sequence[str], beam_size: int, call_size: int | None = None, from_tokens: bool = False
    ) -> Turn:
        """Translate the texts in one call, or in calls of this many; or only search, timed in processor seconds."""
        try:
            return self._remote.ask(texts, beam_size, call_size, from_tokens)
        except Lost as error:
            raise SystemExit(f"error: {self.way.name}: {error}") from None

    def leave(self) -> None:
        """End the process."""
        self._remote.leave()


def _start(way: Way, model: Path) -> tuple[None, Callable[[Sequence[str], int, int | None, bool], Turn]]:
    """Load the model of a runtime in its process, and return no facts and its turn."""
    loaded = LOADERS[way.runtime](way, model)

    def turn(texts: Sequence[str], beam_size: int, call_size: int | None, from_tokens: bool) -> Turn:
        outputs: list[Output] = []
        seconds: list[float] = []
        clock = time.process_time if from_tokens else time.perf_counter
        size = call_size or len(texts)
        for first in range(0, len(texts), size):
            work = partial(loaded.translate, texts[first : first + size], beam_size)
            if from_tokens:
                assert loaded.prepare is not None, f"{way.runtime} takes text"
                work = loaded.prepare(*work.args)
            began = clock()
            outputs += work()
            seconds.append(clock() - began)
        return Turn(outputs, seconds, peak_memory_bytes())

    return None, turn


def _dragoman(way: Way, model: Path) -> Loaded:
    from dragoman.inference.options import SearchOptions
    from dragoman.inference.translator import Translator
    from dragoman.store.folder import load_model

    native = way.runtime == "dragoman"
    translator = Translator(load_model(model), "cpu", way.precision, native=native, threads=way.threads)

    whole = SearchOptions(split="never", max_source_tokens=10**6)

    def translate(texts: Sequence[str], beam_size: int) -> list[Output]:
        translations = translator.translate(texts, whole.but(beam_size=beam_size))
        return [Output(line.text, len(line.tokens)) for line in translations]

    def prepare(texts: Sequence[str], beam_size: int) -> Callable[[], list[Output]]:
        options = whole.but(beam_size=beam_size, raw=True)
        requests = translator.requests.of(translator.read(texts, options), options)

        def search() -> list[Output]:
            with translator.search.computing(options):
                lines = [hypotheses for _, hypotheses in translator.search.run(requests, options)]
            return [Output("", len(best.tokens)) for line in lines for best, *_ in line]

        return search

    return Loaded(translate, prepare)


def _ctranslate2(way: Way, model: Path) -> Loaded:
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
    source_names, target_names = (vocabulary(way.folder, side) for side in ("source", "target"))
    ids = {name: number for number, name in enumerate(target_names)}

    def encode(texts: Sequence[str]) -> list[list[str]]:
        return [[source_names[number] for number in framing.source(row)] for row in source.encode_batch(list(texts))]

    def search(rows: list[list[str]], beam_size: int) -> list[list[str]]:
        results = translator.translate_batch(
            rows,
            beam_size=beam_size,
            max_batch_size=way.batch_tokens,
            batch_type="tokens",
            max_decoding_length=2 * max(len(row) for row in rows) + 20,
        )
        return [result.hypotheses[0] for result in results]

    def translate(texts: Sequence[str], beam_size: int) -> list[Output]:
        written = [[ids[name] for name in names] for names in search(encode(texts), beam_size)]
        return [Output(target.decode(row), len(row) + 1) for row in written]

    def prepare(texts: Sequence[str], beam_size: int) -> Callable[[], list[Output]]:
        rows = encode(texts)
        return lambda: [Output("", len(names) + 1) for names in search(rows, beam_size)]

    return Loaded(translate, prepare)


def vocabulary(folder: Path, side: str) -> list[str]:
    """Return the names of a side's ids in a folder of CTranslate2."""
    shared = folder / "shared_vocabulary.json"
    return json.loads((shared if shared.exists() else folder / f"{side}_vocabulary.json").read_text("utf-8"))


def _huggingface(way: Way, model: Path) -> Loaded:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(way.threads)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(way.folder)
    loaded: Any = transformers.MarianMTModel.from_pretrained(way.folder).eval()

    def translate(texts: Sequence[str], beam_size: int) -> list[Output]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        outputs: dict[int, Output] = {}
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            batch = tokenizer([texts[place] for place in places], return_tensors="pt", padding=True)
            batch.pop("token_type_ids", None)
            longest = 2 * batch["input_ids"].shape[1] + 20
            with torch.inference_mode():
                written = loaded.generate(**batch, num_beams=beam_size, max_length=longest)
            for place, row in zip(places, written, strict=True):
                tokens = int((row[1:] != loaded.config.pad_token_id).sum())
                outputs[place] = Output(tokenizer.decode(row, skip_special_tokens=True), tokens)
        return [outputs[place] for place in range(len(texts))]

    return Loaded(translate)


LOADERS: dict[Runtime, Callable[[Way, Path], Loaded]] = {
    "dragoman": _dragoman,
    "plain": _dragoman,
    "ctranslate2": _ctranslate2,
    "huggingface": _huggingface,
}
