"""Prediction of labels of texts, labels of words, and masked words: an encoder, loaded once and used for many calls.

predictor = Predictor.load("runs/questions")
predictor.predict(["Who wrote Emma ?"])[0].label
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.brief import brief
from dragoman.data.batching import LabelledBatch
from dragoman.decoding.scoring import batch_by_tokens
from dragoman.errors import DecodeError
from dragoman.inference.labels import Transitions, best_labels
from dragoman.inference.runtime import LONGEST_WHOLE, Runtime, computing, refuse_other_family
from dragoman.model.transformer import EncoderModel
from dragoman.progress import Advance, Progress, as_progress
from dragoman.shapes import Float
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.surface.pipeline import CHARACTERS_A_TOKEN
from dragoman.system import choose_threads
from dragoman.tokenizing.pretokenizing import is_word
from dragoman.tokenizing.special_tokens import MASK, SYMBOLS, UNKNOWN, Framing
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words, split_words

BATCH_TOKENS = 4_096
"""Maximum tokens of a batch; a longer text is a batch by itself."""


@dataclass(frozen=True)
class EncodedText:
    """The ids of a text, without special symbols."""

    ids: Sequence[int]
    places: Sequence[int] | None = None
    """Tokens for which something is predicted; None: one prediction for the whole text."""


def logits_of(model: EncoderModel, rows: Iterable[EncodedText], framing: Framing) -> Iterator[np.ndarray]:
    """Yield the float32 logits of each text, batch by batch: (C) for the whole text, or (P, C) for P places in it."""
    for batch in batch_by_tokens(rows, lambda row: len(row.ids) + framing.source_symbols, BATCH_TOKENS):
        yield from _read(model, batch, framing)


@torch.inference_mode()
def _read(model: EncoderModel, rows: Sequence[EncodedText], framing: Framing) -> list[np.ndarray]:
    framed = [framing.source(row.ids) for row in rows]
    lengths = torch.tensor([len(ids) for ids in framed])
    places = None
    if rows[0].places is not None:
        before = lengths.cumsum(0) - lengths + len(framing.source_before)  # the first token of each row in the batch
        first_tokens = zip(before.tolist(), rows, strict=True)
        in_batch = [first + place for first, row in first_tokens for place in row.places or ()]
        places = torch.tensor(in_batch, dtype=torch.int64)
    source = torch.tensor([*chain.from_iterable(framed)])
    unknown = torch.empty(0, dtype=torch.int64)
    batch = LabelledBatch(source, lengths, places, unknown, torch.arange(len(rows))).to(model.output.device)
    logits = project(model, batch).cpu().numpy()
    sizes = [1 if row.places is None else len(row.places) for row in rows]
    parts = np.split(logits, np.cumsum(sizes)[:-1])
    return [part[0] if row.places is None else part for row, part in zip(rows, parts, strict=True)]


def project(model: EncoderModel, batch: LabelledBatch) -> Float[Tensor, "M V"]:
    """Compute the logits of all predictions of a batch, in float32."""
    return model.project(model(*batch.inputs)).float()


@dataclass(frozen=True)
class Choice:
    """A label or word with its probability."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text."""

    text: str

    def facts(self) -> dict[str, Any]:
        """Convert the prediction to plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Classified(Prediction):
    """The labels of a text."""

    __repr__ = brief

    labels: tuple[Choice, ...]
    """Most likely first."""
    words: tuple[tuple[str, float], ...]
    """Each word with its support for the first label: the drop, in nats, of the label's uncalibrated log-probability if
    the word is deleted. Empty if words were not requested.
    """

    @property
    def label(self) -> str:
        """The most likely label."""
        return self.labels[0].name


@dataclass(frozen=True)
class Tagged(Prediction):
    """The words of a text with their labels."""

    __repr__ = brief

    words: tuple[str, ...]
    labels: tuple[Choice, ...]


@dataclass(frozen=True)
class Filled(Prediction):
    """The candidates for each mask, most likely first."""

    masks: tuple[tuple[Choice, ...], ...]


def without_each(
    text: str, row: EncodedText, words: Sequence[tuple[str, int]], tokenizer: Tokenizer
) -> Iterator[EncodedText]:
    """Yield a text without its first word, without its second word and so on; `words` are given with their positions.

    The drop of a label's probability is the word's support for the label (Li et al. 2016). The product of gradient and
    input is cheaper, but almost meaningless in models with a final norm, such as the preset `modern`. A token belongs
    to the word in which it ends, so the space before a word is deleted with it.
    """
    ends = [last for _, last in tokenizer.offsets(text)]
    for word, begin in words:
        inside = range(begin + 1, begin + len(word) + 1)
        yield EncodedText([token for token, last in zip(row.ids, ends, strict=False) if last not in inside])


def _log_prob(logits: np.ndarray, label: int) -> float:
    exact = logits.astype(np.float64)
    return float(exact[label] - np.logaddexp.reduce(exact))


MASK_NAME = "[MASK]"
"""The mask in a text."""
MASK_WORD = "X"
"""Replacement of the mask while the text is tokenized."""
_TOO_LONG = "there is not enough memory for a text so long; give it in parts"
_GLUED = re.compile(r"\w\[MASK\]|\[MASK\](?:\w|\[MASK\])")


def predict(
    model: Path | str,
    texts: Sequence[str],
    *,
    best: int = 5,
    words: bool = True,
    pretokenized: bool = False,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress | bool = True,
) -> list[Prediction]:
    """Predict the labels of texts, the labels of their words, or their masked words, depending on the model; return at
    most `best` labels or words.

    With `words`, a classifier also reports the support of each word for the label, which takes one more pass per word.
    With `pretokenized`, a tagger splits words only at spaces, as in CoNLL files.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        ConfigError: the device, precision or number of threads is not available.
        DecodeError: the model is of another kind, or cannot read a text.
        OutOfMemory: the device is full.
    """
    predictor = Predictor.load(model, device, precision, progress, threads)
    return predictor.predict(texts, best, words, pretokenized, progress)


class Predictor:
    """A predictor with one model. Creating one compiles the kernels, if that was not done before."""

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | bool = True,
        threads: int | None = None,
    ) -> None:
        refuse_other_family(stored, "encoder")
        assert isinstance(stored.model, EncoderModel), "an encoder alone"
        runtime: Runtime[EncoderModel] = Runtime(stored, device, precision, native=False, progress=progress)
        self.model, self.device, self.precision = runtime.model, runtime.device, runtime.precision
        self.stored, self.framing, self.threads = stored, stored.files.framing, choose_threads(threads)
        self.tokenizer, self.labels = stored.tokenizers.source, stored.files.labels

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        precision: str = "auto",
        progress: Progress | bool = True,
        threads: int | None = None,
    ) -> "Predictor":
        """Load a model folder, or the best model of a run folder."""
        return cls(load_model(path), device, precision, progress, threads)

    @property
    def task(self) -> str:
        """`classify`, `tag` or `fill`."""
        return "fill" if self.labels is None else self.labels.task

    def predict(
        self,
        texts: Sequence[str],
        best: int = 5,
        words: bool = True,
        pretokenized: bool = False,
        progress: Progress | bool = True,
    ) -> list[Prediction]:
        """Return a prediction for each text, like the function `predict`.

        Raises:
            DecodeError: a text has more tokens than the model has positions, or no mask to fill in; or an argument does
                not fit the model.
            TokenizerError: a text is not Unicode.
        """
        if isinstance(texts, str):
            raise DecodeError("predict takes several texts, but was given one; put it in a list")
        if best < 1:
            raise DecodeError(f"best must be at least 1, but is {best}")
        self._refuse_giants(map(len, texts))
        if pretokenized and self.task != "tag":
            raise DecodeError(f"{self.stored.folder} labels no words, so its texts are plain; leave pretokenized out")
        with as_progress(progress).track("predict", len(texts), "texts") as advance:
            if self.task == "tag":
                words_of = [
                    tuple(text.split() if pretokenized else (word for word, _ in split_words(text))) for text in texts
                ]
                return [Tagged(*tagged) for tagged in zip(texts, words_of, self.tag(words_of, advance), strict=True)]
            if self.task == "fill":
                return self._fill(texts, best, advance)
            with computing(self.threads, _TOO_LONG):
                return self._classify(texts, best, words, advance)

    def _classify(self, texts: Sequence[str], best: int, words: bool, advance: Advance) -> list[Prediction]:
        assert self.labels is not None, "a classifier has labels"
        names, temperature = self.labels.names, self.labels.temperature
        rows = self._rows(texts)
        words_of = [split_words(text) if words else [] for text in texts]
        # There is a row for every word of every text, so rows are created lazily.
        without = chain.from_iterable(map(without_each, texts, rows, words_of, repeat(self.tokenizer)))
        without_logits = logits_of(self.model, without, self.framing)
        predictions: list[Prediction] = []
        for text, whole, words_here in zip(texts, self.logits(rows, None if words else advance), words_of, strict=True):
            probability = softmax(whole / temperature)
            order = np.argsort(-probability, kind="stable")[:best]
            labels = tuple(Choice(names[i], float(probability[i])) for i in order)
            first = int(order[0])
            support = [
                (word, _log_prob(whole, first) - _log_prob(next(without_logits), first)) for word, _ in words_here
            ]
            predictions.append(Classified(text, labels, tuple(support)))
            if words:
                advance()
        return predictions

    def tag(self, sentences: Sequence[Sequence[str]], advance: Advance | None = None) -> list[tuple[Choice, ...]]:
        """Return a label for each word of each sentence, in a sequence that is valid in BIO."""
        assert self.labels is not None, "a tagger has labels"
        names, temperature = self.labels.names, self.labels.temperature
        choices, transitions = list[tuple[Choice, ...]](), Transitions.of(self.labels)
        for logits in self.word_logits(sentences, advance):
            best = best_labels(torch.from_numpy(logits), transitions)
            probability = softmax(logits / temperature)
            choices.append(tuple(Choice(names[i], float(row[i])) for i, row in zip(best, probability, strict=True)))
        return choices

    def _fill(self, texts: Sequence[str], best: int, advance: Advance) -> list[Prediction]:
        """Predict a whole word for each `[MASK]`, among those that are a single token."""
        words = self._whole_words
        predictions: list[Prediction] = []
        for text, logits in zip(texts, self.logits([self._masked(text) for text in texts], advance), strict=True):
            probability = softmax(logits[:, words])
            orders = np.argsort(-probability, axis=1, kind="stable")[:, :best]
            masks = tuple(
                tuple(Choice(self.tokenizer.spelling(words[i]).decode().strip(), float(row[i])) for i in order)
                for order, row in zip(orders, probability, strict=True)
            )
            predictions.append(Filled(text, masks))
        return predictions

    def logits(self, rows: Sequence[EncodedText], advance: Advance | None = None) -> list[np.ndarray]:
        """Compute the logits of each row; raise `DecodeError` if one is longer than the model's positions."""
        self._refuse_long(rows)
        order = sorted(range(len(rows)), key=lambda number: len(rows[number].ids))  # similar lengths in a batch
        logits: dict[int, np.ndarray] = {}
        with computing(self.threads, _TOO_LONG):
            in_order = logits_of(self.model, (rows[number] for number in order), self.framing)
            for number, row_logits in zip(order, in_order, strict=True):
                logits[number] = row_logits
                if advance is not None:
                    advance()
        return [logits[number] for number in range(len(rows))]

    def text_logits(self, texts: Sequence[str]) -> np.ndarray:
        """Compute the logits (n, C) of the labels of n texts."""
        return np.stack(self.logits(self._rows(texts)))

    def word_logits(self, sentences: Sequence[Sequence[str]], advance: Advance | None = None) -> list[np.ndarray]:
        """Compute the logits (W, C) of the labels of each sentence's W words."""
        self._refuse_giants(sum(map(len, words)) for words in sentences)
        rows = [row_of_words(pieces) for pieces in encode_words(sentences, self.tokenizer)]
        self._refuse_long(rows)
        full = [number for number, row in enumerate(rows) if row.places]
        logits = dict(zip(full, self.logits([rows[number] for number in full], advance), strict=True))
        nothing = np.empty((0, self.model.output.size(0)), np.float32)
        return [logits.get(number, nothing) for number in range(len(rows))]

    def _rows(self, texts: Sequence[str]) -> list[EncodedText]:
        self._refuse_giants(map(len, texts))
        return [EncodedText(ids or [UNKNOWN]) for ids in self.tokenizer.encode_batch(texts)]  # as `encode_words` does

    def _masked(self, text: str) -> EncodedText:
        """Encode a text, with one mask token in place of each `[MASK]` and the space before it."""
        if MASK_NAME not in text:
            raise DecodeError(
                f'"{text[:60]}" has no {MASK_NAME} to fill in; write {MASK_NAME} where a word is to be found'
            )
        part_of_a_word = DecodeError(
            f'in "{text[:60]}" {MASK_NAME} is part of a word, but replaces a whole one; put spaces around it'
        )
        if _GLUED.search(text):
            raise part_of_a_word
        shown, *parts = text.split(MASK_NAME)
        holes: list[tuple[int, int]] = []  # with the space before, because most tokens are a space and a word
        for part in parts:
            first = len(shown) - shown.endswith(" ")
            shown += MASK_WORD
            holes.append((first, len(shown)))
            shown += part
        ids, places = list[int](), list[int]()
        for token, (first, last) in zip(self.tokenizer.encode(shown), self.tokenizer.offsets(shown), strict=True):
            inside = (number for number, hole in enumerate(holes) if hole[0] <= first and last <= hole[1])
            hole = next(inside, None)
            if hole is None:
                ids.append(token)
            elif hole == len(places):  # the first token in this hole; others are ignored
                places.append(len(ids))
                ids.append(MASK)
        if len(places) < len(holes):  # a token extends beyond the hole
            raise part_of_a_word
        return EncodedText(ids, places)

    @cached_property
    def _whole_words(self) -> list[int]:
        """Tokens that are whole words: those with a letter if all tokens are words, else a space and a word."""
        numbers = range(SYMBOLS, self.tokenizer.size)
        texts = {number: self.tokenizer.spelling(number).decode(errors="replace") for number in numbers}
        if self.tokenizer.whole_words:
            whole = [number for number, text in texts.items() if any(map(str.isalpha, text))]
        else:
            whole = [number for number, text in texts.items() if text.startswith(" ") and is_word(text[1:])]
        if not whole:
            raise DecodeError(f"{self.stored.folder} has no token that is a whole word, so it cannot fill in words")
        return whole

    @property
    def _longest(self) -> int:
        """Maximum tokens of a text, special symbols included."""
        return min(self.stored.config.max_positions or LONGEST_WHOLE, LONGEST_WHOLE)

    def _refuse_giants(self, lengths: Iterable[int]) -> None:
        """Raise `DecodeError` for a text with too many characters to tokenize it quickly."""
        for number, length in enumerate(lengths, 1):
            if length > CHARACTERS_A_TOKEN * self._longest:
                raise DecodeError(
                    f"text {number} has {length:,} characters, too many for {self._longest:,} tokens; give it in parts"
                )

    def _refuse_long(self, rows: Sequence[EncodedText]) -> None:
        """Raise `DecodeError` for a row with more tokens than the model has positions."""
        for number, row in enumerate(rows, 1):
            length = len(row.ids) + self.framing.source_symbols
            if length > self._longest:
                raise DecodeError(
                    f"text {number} has {length:,} tokens, but the model has positions for {self._longest:,}; give it "
                    "in parts"
                )


def row_of_words(pieces: Sequence[Sequence[int]]) -> EncodedText:
    """Return the row of a sentence, given as the ids of each word; a word is labelled at its first token."""
    ends = np.cumsum([len(word) for word in pieces])
    return EncodedText([*chain.from_iterable(pieces)], [0, *ends[:-1].tolist()] if len(pieces) else [])


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute probabilities along the last axis, in float64."""
    exact = logits.astype(np.float64)
    exact = np.exp(exact - exact.max(axis=-1, keepdims=True))
    return exact / exact.sum(axis=-1, keepdims=True)
