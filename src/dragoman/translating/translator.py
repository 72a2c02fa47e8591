"""Text to text: a model, its tokenizers and a search, as one object that is loaded once and asked often.

    translator = Translator.load("runs/en-it")
    translator.translate(["Where is the station?"])[0].text

Any number of texts may be given at once; they are translated side by side, and what one becomes does not depend on the
others.
"""

import dataclasses
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman import kernels
from dragoman.config import check
from dragoman.decoding.beam import Hypothesis, penalty
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.rules import Ban, ForcedPrefix, MinimumLength, NoRepeatedNgram, NotBlank, Rule
from dragoman.decoding.scoring import score
from dragoman.decoding.search import Search
from dragoman.decoding.stepper import ModelStepper
from dragoman.errors import CheckpointError, ConfigError, DecodeError, OutOfMemory
from dragoman.machine import choose_device, choose_precision, choose_threads
from dragoman.memory import is_out_of_memory
from dragoman.model import EncoderDecoder, prepare_for_decoding
from dragoman.progress import Progress, silent
from dragoman.store import GENERATION, StoredModel, load_model
from dragoman.translating.segments import Line, Piece, read_lines
from dragoman.translating.sentences import join, separator, spaceless
from dragoman.translating.translation import DOUBTFUL_LOG_PROB, Flag, Translation, repeats

logger = logging.getLogger(__name__)

# One line in, one line out: what any program might take for a line's end, and NUL.
_BREAKS = re.compile("[\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


def translate(
    model: Path | str,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    progress: Progress = silent,
) -> list[Translation]:
    """Translates texts with a model folder, or the best model of a run folder; one translation for each, in order.

    Raises:
        CheckpointError: the model folder is missing, damaged or newer.
        DecodeError: a request that no search can answer.
    """
    return Translator.load(model, device, precision, threads, progress).translate(texts, options, progress)


class Translator:
    """Translates with one model.

    Attributes:
        options: how it searches when nothing else is said: what the model folder holds.
        device, precision: where and in which numbers the model runs.
    """

    def __init__(
        self,
        stored: StoredModel,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        progress: Progress = silent,
    ) -> None:
        if not isinstance(stored.model, EncoderDecoder):
            raise DecodeError(f"{stored.folder} holds no translation model but a {stored.config.family}")
        self.device, _ = choose_device(device)
        self.precision, _ = choose_precision(precision, self.device)
        if threads is not None:
            torch.set_num_threads(choose_threads(threads))
        if self.device == "cpu":
            kernels.prepare(progress)
        self.model = prepare_for_decoding(stored.model, self.device, _DTYPES[self.precision])
        self.tokenizers, self.languages = stored.tokenizers, stored.languages
        try:
            self.options = check(stored.files.generation, str(stored.folder / GENERATION), SearchOptions)
        except ConfigError as error:
            raise CheckpointError(str(error)) from None
        self._positions = stored.config.max_positions

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "auto",
        precision: str = "auto",
        threads: int | None = None,
        progress: Progress = silent,
    ) -> "Translator":
        """The translator of a model folder, or of the best model of a run folder."""
        return cls(load_model(path), device, precision, threads, progress)

    def translate(
        self, texts: Iterable[str], options: SearchOptions | None = None, progress: Progress = silent
    ) -> list[Translation]:
        """One translation for each text, in order. A blank text gives an empty one, and no text is ever cut in silence.

        Raises:
            DecodeError: a request that no search can answer: texts too long and not to be split, a prefix that the
                vocabulary does not hold.
        """
        options = options or self.options
        lines = self._read(texts, options)
        numbers = [number for number, line in enumerate(lines) for piece in line.pieces if not piece.copied]
        pieces = [piece for line in lines for piece in line.pieces if not piece.copied]
        first = [piece is lines[number].pieces[0] for number, piece in zip(numbers, pieces, strict=True)]
        found: list[list[Hypothesis]] = [[] for _ in pieces]
        left = Counter(numbers)
        with progress.track("translate", len(lines), "lines") as advance, _memory(options):
            advance(len(lines) - len(left))
            for i, hypotheses in self._search(pieces, first, options).run():
                found[i] = hypotheses
                left[numbers[i]] -= 1
                advance(0 if left[numbers[i]] else 1)
        each = iter(found)
        return [self._write(line, [next(each) for piece in line.pieces if not piece.copied], options) for line in lines]

    def stream(self, text: str, options: SearchOptions | None = None) -> Generator[str, None, Translation]:
        """The translation of one text as it is made, in stretches that are final; returns the whole of it.

        A word comes when it is finished and every hypothesis that can still win agrees on it. Joined, what comes is
        the text that `translate` gives.
        """
        options = options or self.options
        (line,) = self._read([text], options)
        found: list[list[Hypothesis]] = []
        before = ""
        if line.begins_with_copy and options.prefix:
            before = options.prefix.strip()
            yield before
        for i, piece in enumerate(line.pieces):
            said = written = ""
            for written in self._grow(piece, i == 0, options, found):
                now = separator(before, written) + written
                if len(now) > len(said):
                    yield now[len(said) :]
                    said = now
            before = written or before
        return self._write(line, found, options)

    def _grow(self, piece: Piece, first: bool, options: SearchOptions, found: list[list[Hypothesis]]) -> Iterator[str]:
        """Yields the final part of one piece's text as it grows; at the end the piece's hypotheses go to `found`."""
        if piece.copied:
            yield _one_line(piece.text)[0]
            return
        search = self._search([piece], [first], options)
        while True:
            with _memory(options):
                done = search.step()
            if done:
                found.append(done[0].result())
                yield self._text(found[-1][0].tokens)[0]
                return
            yield _settled(self._text(search.beams[0].agreed())[0])

    def score(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions | None = None
    ) -> list[Translation]:
        """What the model thinks of given translations: the same as `translate` would say of them, had it chosen them.

        Raises:
            DecodeError: not one target for each source, or a text that is blank or longer than the model's positions.
        """
        if len(sources) != len(targets):
            raise DecodeError(
                f"score takes one target for each source, but was given {len(sources)} and {len(targets)}"
            )
        options, start, end = options or self.options, self.tokenizers.target.start, self.tokenizers.target.end
        rows = [self._framed(ids) for ids in self._whole(sources)]
        labels = [[*ids, end] for ids in self._whole(targets, target=True)]
        with _memory(options):
            found = score(self.model, rows, labels, start, options.batch_tokens)
        return [
            Translation(
                source=source,
                text=target,
                log_prob=sum(log_probs),
                score=sum(log_probs) / penalty(len(log_probs), options.length_penalty),
                tokens=tuple(self.tokenizers.target.tokens(ids)),
                token_log_probs=tuple(log_probs),
                unknown_words=tuple(self.tokenizers.source.unknown_words(source)),
            )
            for source, target, ids, log_probs in zip(sources, targets, labels, found, strict=True)
        ]

    def _read(self, texts: Iterable[str], options: SearchOptions) -> list[Line]:
        if isinstance(texts, str):
            raise DecodeError("translate takes several texts, but was given one; put it in a list")
        longest = min(options.max_source_tokens, (self._positions or options.max_source_tokens + 2) - 2)
        return read_lines(list(texts), self.tokenizers.source, longest, options.split)

    def _search(self, pieces: Sequence[Piece], first: Sequence[bool], options: SearchOptions) -> Search:
        """A search for these pieces; `first` says which begin a text, and so with the prefix."""
        prefix = self._prefix(options)
        prefixes = [prefix if begins else [] for begins in first]
        least = options.minimum_length + 1
        limits = [
            max(int(options.length_ratio * len(piece.ids)) + options.length_extra + len(forced), least)
            for piece, forced in zip(pieces, prefixes, strict=True)
        ]
        stepper = ModelStepper(self.model)
        return Search(
            stepper,
            [self._framed(piece.ids) for piece in pieces],
            [min(limit, self._positions or limit) for limit in limits],
            start=self.tokenizers.target.start,
            end=self.tokenizers.target.end,
            options=options,
            rules=self._rules(pieces, prefixes, options, stepper.device),
        )

    def _rules(
        self, pieces: Sequence[Piece], prefixes: list[list[int]], options: SearchOptions, device: torch.device
    ) -> list[Rule]:
        target = self.tokenizers.target
        never = [target.padding, target.start] + ([] if options.allow_unknown else [target.unknown])
        rules: list[Rule] = [Ban(never, device)]
        spoken = [piece.says_something and not prefix for piece, prefix in zip(pieces, prefixes, strict=True)]
        if any(spoken):
            rules.append(NotBlank(spoken, self._blank_tokens, target.end, target.size, device))
        if options.minimum_length:
            rules.append(MinimumLength(options.minimum_length, target.end))
        if options.no_repeat_ngram is not None:
            rules.append(NoRepeatedNgram(options.no_repeat_ngram))
        return [*rules, ForcedPrefix(prefixes, device)] if any(prefixes) else rules

    @cached_property
    def _blank_tokens(self) -> list[int]:
        """The target tokens that cannot be seen: the symbols around a text, and pieces that are nothing but spaces."""
        target = self.tokenizers.target
        return [token for token in range(target.size) if token != target.end and _is_blank(target.decode([token]))]

    def _prefix(self, options: SearchOptions) -> list[int]:
        target = self.tokenizers.target
        ids = target.encode(options.prefix) if options.prefix else []
        if target.unknown in ids and not options.allow_unknown:
            words = ", ".join(target.unknown_words(options.prefix))
            raise DecodeError(f"prefix holds words that the vocabulary does not: {words}; choose others")
        size = options.no_repeat_ngram or len(ids) + 1
        runs = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
        if len(set(runs)) < len(runs):
            raise DecodeError(f"prefix repeats a run of {size} tokens, which decode.no_repeat_ngram = {size} forbids")
        most = self._positions or len(ids) + options.minimum_length + 1
        if max(len(ids), options.minimum_length) >= most:
            raise DecodeError(
                f"the model writes at most {most:,} tokens; shorten decode.prefix or lower decode.minimum_length"
            )
        return ids

    def _framed(self, ids: Sequence[int]) -> list[int]:
        return [self.tokenizers.source.start, *ids, self.tokenizers.source.end]

    def _whole(self, texts: Sequence[str], target: bool = False) -> list[list[int]]:
        """Ids of texts that are not split."""
        tokenizer, side = (self.tokenizers.target, "target") if target else (self.tokenizers.source, "source")
        rows = tokenizer.encode_batch(list(texts))
        for number, row in enumerate(rows, 1):
            if not row:
                raise DecodeError(f"{side} {number} is blank; there is nothing to score")
            if self._positions and len(row) > self._positions - 2:
                raise DecodeError(
                    f"{side} {number} has {len(row):,} tokens, but the model has positions for {self._positions - 2:,}"
                )
        return rows

    def _write(self, line: Line, found: list[list[Hypothesis]], options: SearchOptions) -> Translation:
        """One line's translation from what was found for its pieces, the next best beside it."""
        known = self.tokenizers.source.unknown_words
        unknown = tuple(dict.fromkeys(word for p in line.pieces if not p.copied for word in known(p.text)))
        best, *others = [
            self._joined(line, parts, score, unknown, options)
            for score, parts in _combine(found, options.n_best, options.length_penalty)
        ]
        return dataclasses.replace(best, alternatives=tuple(others))

    def _joined(
        self,
        line: Line,
        parts: Sequence[Hypothesis],
        score: float,
        unknown: tuple[str, ...],
        options: SearchOptions,
    ) -> Translation:
        each = iter(parts)
        written = [_one_line(piece.text) if piece.copied else self._text(next(each).tokens) for piece in line.pieces]
        cleaned = sum(count for _, count in written)
        if cleaned:
            logger.warning("%d control characters in a translation became spaces", cleaned)
        translated = [piece.ids for piece in line.pieces if not piece.copied]
        flags: dict[Flag, bool] = {
            "truncated": not all(part.ended for part in parts),
            "repetition": any(repeats(*pair) for pair in zip(translated, (p.tokens for p in parts), strict=True)),
            "doubtful": any(part.total < DOUBTFUL_LOG_PROB * len(part.tokens) for part in parts),
            "cleaned": cleaned > 0,
        }
        ids = [token for part in parts for token in part.tokens]
        return Translation(
            source=line.text,
            text=join([options.prefix.strip() if line.begins_with_copy else "", *(text for text, _ in written)]),
            log_prob=sum((part.total for part in parts), 0.0),
            score=score,
            tokens=tuple(self.tokenizers.target.tokens(ids)),
            token_log_probs=tuple(log_prob for part in parts for log_prob in part.log_probs),
            flags=(*line.flags, *(flag for flag, is_so in flags.items() if is_so)),
            unknown_words=unknown,
        )

    def _text(self, ids: Sequence[int]) -> tuple[str, int]:
        return _one_line(self.tokenizers.target.decode(ids))


class _Way(NamedTuple):
    """One hypothesis for each of the pieces so far, the last of them, and the way to it."""

    score: float
    last: Hypothesis | None = None
    before: "_Way | None" = None

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        found, way = [], self
        while way.before is not None:
            found.append(way.last)
            way = way.before
        return tuple(reversed(found))


def _combine(
    found: Sequence[Sequence[Hypothesis]], wanted: int, exponent: float
) -> Iterator[tuple[float, tuple[Hypothesis, ...]]]:
    """The best ways to take one hypothesis for each piece, by the sum of their scores, best first."""
    best = [_Way(0.0)]
    for hypotheses in found:
        longer = (_Way(way.score + h.score(exponent), h, way) for way in best for h in hypotheses)
        best = sorted(longer, key=lambda way: -way.score)[:wanted]
    return ((way.score, way.hypotheses()) for way in best)


def _one_line(text: str) -> tuple[str, int]:
    """A text as one line, and how many characters had to be replaced for it."""
    text, count = _BREAKS.subn(" ", text)
    return text.strip(), count


def _is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen: it holds white space, control and format characters alone."""
    return all(unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf") for character in text)


def _settled(text: str) -> str:
    """The beginning of an unfinished text that no further token changes: all but the word it ends in."""
    for i in range(len(text) - 1, 0, -1):
        if text[i].isspace() or (spaceless(text[i - 1]) and i < len(text) - 1):
            return text[:i].rstrip()
    return ""


@contextmanager
def _memory(options: SearchOptions) -> Iterator[None]:
    """A full device as an error that says what to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"the device is out of memory; lower decode.batch_tokens (now {options.batch_tokens:,}) "
            f"or decode.beam_size (now {options.beam_size})"
        ) from error
