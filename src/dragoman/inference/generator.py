"""Continuation of texts by a language model, loaded once and used for many calls.

    generator = Generator.load("runs/shakespeare")
    for piece in generator.stream("To be"):
        print(piece, end="", flush=True)

The prompts of a call are continued together, and do not affect each other's texts.
"""

import codecs
import collections.abc
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dragoman.brief import brief
from dragoman.decoding.engine import Engine
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.processors import Ban
from dragoman.decoding.request import Request
from dragoman.decoding.steppers import TextStepper
from dragoman.errors import DecodeError
from dragoman.inference.options import GenerateOptions
from dragoman.inference.runtime import Runtime, computing, options_of, refuse_other_family
from dragoman.progress import Progress, as_progress
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.system import choose_threads
from dragoman.tokenizing.special_tokens import DEFAULT_FRAMING, SYMBOLS
from dragoman.tokenizing.tokenizer import Tokenizer, only_unicode

if TYPE_CHECKING:
    from dragoman.model.transformer import LanguageModel

_BATCH_TOKENS = 32_768
"""Maximum tokens of the texts that are written concurrently."""
_BEGINNING = "\n"
"""Replacement of an empty prompt: the text begins like a new line."""


class StopTexts:
    """Texts that end the writing, callable as `Request.stops`: True if an output has just reached one of them."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        self.texts = [tokenizer.normalise(text) for text in texts]
        with only_unicode(self.texts):
            self._bytes = [text.encode() for text in self.texts]
        self._longest = max(map(len, self._bytes), default=0)  # in bytes; a token has at least one
        self._tokenizer = tokenizer

    def __call__(self, tokens: Sequence[int] | np.ndarray) -> bool:
        if not self._bytes:
            return False
        end = b"".join(self._tokenizer.spelling(int(token)) for token in tokens[-self._longest :])
        return any(text in end for text in self._bytes)

    def cut(self, text: str) -> str:
        """Return a text up to its first stop text."""
        return text[: min((place for stop in self.texts if (place := text.find(stop)) >= 0), default=len(text))]

    def unsettled(self, text: str) -> int:
        """Return the number of characters at the end of a text that may be the beginning of a stop text."""
        lengths = (length for stop in self.texts for length in range(1, len(stop)) if text.endswith(stop[:length]))
        return max(lengths, default=0)


class GrowingText:
    """The text of a growing sequence of tokens. Characters of several bytes are never split.

    Attributes:
        tokens: the number of tokens so far.
    """

    def __init__(self, tokenizer: Tokenizer, stops: StopTexts) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsettled = ""
        self.tokens = 0

    def grow(self, tokens: Sequence[int], final: bool = False) -> str:
        """Append tokens; return the new text that can no longer change. With `final`, these tokens are the last."""
        self.tokens += len(tokens)
        self._unsettled += self._decoder.decode(b"".join(map(self._tokenizer.spelling, tokens)), final)
        text = self._stops.cut(self._unsettled)
        settled = len(text) if final else len(text) - self._stops.unsettled(text)
        self._unsettled = self._unsettled[settled:]
        return text[:settled]


@dataclass(frozen=True)
class Generation:
    """A text that a language model wrote.

    Attributes:
        text: the continuation of the prompt, without the stop text.
        sample: the number of the sample of this prompt, from 1.
        reason: the reason for the end: the requested number of tokens, or a stop text.
        tokens: the number of written tokens, including the stop text.
        log_prob: natural logarithm of their probability at temperature 1.
        forgotten: number of tokens at the beginning of the prompt that the model did not see, because its context is
            shorter.
    """

    __repr__ = brief

    prompt: str
    text: str
    sample: int
    reason: Literal["tokens", "stop"]
    tokens: int
    log_prob: float
    forgotten: int = 0


def generate(
    model: Path | str,
    prompts: Iterable[str],
    options: GenerateOptions | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> list[Generation]:
    """Continue texts with the language model of a model folder, or with the best model of a run folder; return all
    samples of the first prompt, then those of the next.

    `settings` are fields of `GenerateOptions` that differ from the model's own options, as in `temperature=0.5`.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        ConfigError: the device, precision or number of threads is not available.
        DecodeError: the model is of another kind.
        OutOfMemory: the device is full.
    """
    return Generator.load(model, device, precision, progress, threads).generate(prompts, options, progress, **settings)


class _Prompt(NamedTuple):
    text: str
    ids: list[int]


class Generator:
    """A writer with one language model. Creating one compiles the decoder, if that was not done before.

    Attributes:
        options: the default options, those of the model folder.
        device, precision: the device of the model, and its numbers.
        threads: number of computing threads.
    """

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        *,
        progress: Progress | bool = True,
        threads: int | None = None,
    ) -> None:
        refuse_other_family(stored, "language_model")
        self.config = stored.config
        self.runtime: Runtime["LanguageModel"] = Runtime(stored, device, precision, progress=progress)
        self.device, self.precision = self.runtime.device, self.runtime.precision
        self.threads, self.tokenizer = choose_threads(threads), stored.tokenizers.target
        self.options = options_of(stored, GenerateOptions)
        self._ban = Ban([*range(SYMBOLS), *self.tokenizer.placeholders.values()])

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | bool = True,
        threads: int | None = None,
    ) -> "Generator":
        """Load a model folder, or the best model of a run folder."""
        return cls(load_model(path), device, precision, progress=progress, threads=threads)

    def generate(
        self,
        prompts: Iterable[str],
        options: GenerateOptions | None = None,
        progress: Progress | bool = True,
        **settings: Any,
    ) -> list[Generation]:
        """Return all samples of the first prompt, then those of the next. After an empty prompt, a text begins like a
        new line.

        Raises:
            TokenizerError: a prompt or a stop text is not Unicode.
            OutOfMemory: the device is full.
        """
        if isinstance(prompts, str):
            raise DecodeError("generate takes several prompts, but was given one; put it in a list")
        options = (options or self.options).but(**settings)
        engine, stops = self._engine(options), StopTexts(options.stop, self.tokenizer)
        samples: list[tuple[_Prompt, int, int]] = []  # prompt, number of the sample, ticket
        for prompt in [self._read(text) for text in prompts]:
            for number, request in enumerate(self._requests(prompt, options, stops)):
                samples.append((prompt, number, engine.admit(request)))
        written: dict[int, Hypothesis] = {}
        with as_progress(progress).track("generate", len(samples), "texts") as advance, self._computing():
            for result in engine.run():
                written[result.ticket] = result.hypotheses[0]
                advance(1)
        return [self._generation(prompt, number, written[ticket], options, stops) for prompt, number, ticket in samples]

    def stream(
        self, prompt: str, options: GenerateOptions | None = None, **settings: Any
    ) -> collections.abc.Generator[str, None, Generation]:
        """Yield the first sample of one prompt in pieces while it is written; return the whole, as `generate` does."""
        options = (options or self.options).but(**settings)
        return self._stream(self._read(prompt), options)  # raises errors in the prompt now, not at the first piece

    def _stream(self, prompt: _Prompt, options: GenerateOptions) -> collections.abc.Generator[str, None, Generation]:
        engine, stops = self._engine(options), StopTexts(options.stop, self.tokenizer)
        text = GrowingText(self.tokenizer, stops)
        ticket = engine.admit(self._requests(prompt, options, stops)[0])
        while True:
            with self._computing():
                done = engine.step()
                written = done[0].hypotheses[0] if done else None
            tokens = written.tokens[text.tokens :] if written else engine.stable_prefix(ticket, text.tokens)
            if new := text.grow(tokens, final=written is not None):
                yield new
            if written:
                return self._generation(prompt, 0, written, options, stops)

    def context(self, options: GenerateOptions) -> int | None:
        """Return the maximum tokens of a text that the model sees; None if it sees all."""
        context, positions = options.context or self.options.context, self.config.max_positions
        return context if positions is None else min(context or positions, positions)

    def _computing(self) -> AbstractContextManager[None]:
        threads = None if self.runtime.native else self.threads
        return computing(threads, "the device is out of memory; lower generate.samples or generate.context")

    def _read(self, prompt: str) -> _Prompt:
        if not isinstance(prompt, str):
            raise DecodeError(f"a prompt should be a string, but is {prompt!r}")
        return _Prompt(prompt, self.tokenizer.encode(prompt or _BEGINNING))

    def _engine(self, options: GenerateOptions) -> Engine:
        stepper = TextStepper(self.runtime.stepper(self.threads), self.context(options))
        return Engine(
            stepper, start=DEFAULT_FRAMING.target_start, end=DEFAULT_FRAMING.target_end, batch_tokens=_BATCH_TOKENS
        )

    def _requests(self, prompt: _Prompt, options: GenerateOptions, stops: StopTexts) -> list[Request]:
        *before, last = prompt.ids
        request = Request(
            before,
            options.tokens,
            processors=(self._ban,),
            sampling=options.sampling,
            start=last,
            context=self.context(options),
            stops=stops if options.stop else None,
        )
        return request.samples(options.samples)

    def _generation(
        self, prompt: _Prompt, number: int, written: Hypothesis, options: GenerateOptions, stops: StopTexts
    ) -> Generation:
        """Return a finished sample; `number` counts from 0."""
        context = self.context(options) or len(prompt.ids)
        return Generation(
            prompt.text,
            GrowingText(self.tokenizer, stops).grow(written.tokens, final=True),
            number + 1,
            "stop" if stops(written.tokens) else "tokens",
            len(written.tokens),
            written.total,
            max(0, len(prompt.ids) - context),
        )
