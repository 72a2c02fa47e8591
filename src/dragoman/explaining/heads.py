"""What each attention head is worth: how much the loss of given texts rises when the head is removed.

A removed head mixes nothing: its values are zero before the output projection W^O (Michel et al. 2019, section 2.1).
Heads are removed one at a time, without training after it, and stand in for each other: heads that do the same can all
look dispensable.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.brief import brief
from dragoman.errors import ConfigError, DataError, DecodeError
from dragoman.evaluating.direction import naming_for
from dragoman.evaluating.references import evenly_spread, own_test_set, read_references
from dragoman.formats.lines import read_lines
from dragoman.inference.target_language import TargetLanguages
from dragoman.inference.teacher_forcing import ForcedText, passes, teacher_force
from dragoman.model.attention import Attention
from dragoman.model.transformer import EncoderDecoder, LanguageModel, prepare_for_decoding
from dragoman.progress import Progress, as_progress
from dragoman.run_folder import RunFolder
from dragoman.store.description import StoredModel
from dragoman.store.folder import load_model
from dragoman.system import use_threads

Stack = Literal["encoder", "decoder"]
Kind = Literal["self_attention", "cross_attention"]

SENTENCES = 200
"""A model is judged on this many by default."""


class Head(NamedTuple):
    """One head of one attention. Layers and heads are counted from 0, as in sites of observers."""

    stack: Stack
    layer: int
    kind: Kind
    number: int

    @property
    def site(self) -> str:
        """The attention, as observers name it."""
        return f"{self.stack}.{self.layer}.{self.kind}"


class Cost(NamedTuple):
    """What the removal of a head adds to the loss, in nats a token: above zero if the head helps."""

    value: float
    error: float
    """The standard error over texts; 0 if there is but one."""


@dataclass(frozen=True)
class HeadTable:
    """The cost of every head of a model, in the order of its layers."""

    __repr__ = brief

    texts: int
    tokens: int
    """The tokens that the model had to write."""
    loss: float
    """Of the whole model, in nats a token."""
    costs: dict[Head, Cost]

    @property
    def headings(self) -> list[str]:
        """The columns of `rows`."""
        return ["removed", *(f"head {number}" for number in range(1 + max(head.number for head in self.costs)))]

    def rows(self) -> list[list[str]]:
        """A row for each attention, with the cost of each of its heads."""
        of_site: dict[str, list[str]] = {}
        for head, cost in self.costs.items():
            of_site.setdefault(head.site, []).append(f"{cost.value:+.3f}")
        return [[site, *costs] for site, costs in of_site.items()]

    @property
    def notes(self) -> list[str]:
        """What a reader of the rows should know, in sentences."""
        largest = max(cost.error for cost in self.costs.values())
        return [
            "Each number says how much the loss rises without that head alone, in nats a token. The loss of the whole "
            f"model is {self.loss:.3f}, on {self.texts:,} different texts with {self.tokens:,} tokens to write.",
            f"The largest standard error is {largest:.3f}. Heads stand in for each other: two that are not missed "
            "alone may be missed together.",
        ]

    def facts(self) -> dict[str, Any]:
        """Everything, as plain values for JSON."""
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "loss": self.loss,
            "heads": [
                {"attention": head.site, "head": head.number, "cost": cost.value, "standard_error": cost.error}
                for head, cost in self.costs.items()
            ],
        }


def judge_heads(
    model: Path | str,
    test: Path | str | None = None,
    references: Sequence[Path | str] = (),
    *,
    sentences: int = SENTENCES,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> HeadTable:
    """What the removal of each head of a model adds to its loss on a test set.

    `test` and `references` are what `evaluate` takes, by default the run's own test set; for a language model, a file
    of lines. Of those that are not blank and fit the model's positions, at most so many `sentences` are used, spread
    evenly. Of pairs with the same source only the first counts, because standard errors take texts for independent.

    Raises:
        CheckpointError: there is no model, or it is damaged.
        ConfigError: the model has no test set of its own, or it is a language model and was given references.
        DataError: a file can't be read, or holds nothing to judge by.
        DecodeError: the model neither translates nor writes.
    """
    stored = load_model(model)
    if not isinstance(stored.model, EncoderDecoder | LanguageModel):
        raise DecodeError(f"{model} holds an encoder alone; the heads of translation and language models are judged")
    if isinstance(stored.model, EncoderDecoder):
        given = _pairs(stored, model, test, references)
    elif references:
        raise ConfigError("a language model reads one text; references are for translation models")
    else:
        given = _texts(stored, model, test)
    prepared = prepare_for_decoding(stored.model, "cpu", torch.float32)
    positions = stored.config.max_positions
    fitting = [each for each in given if positions is None or each.longest <= positions]
    if not fitting:
        raise DataError(f"none of {len(given):,} texts can be judged: all are blank or longer than the model takes")
    chosen = evenly_spread(fitting, sentences)
    tokens = [len(each.labels) for each in chosen]
    heads, costs = heads_of(prepared), {}
    with use_threads(threads), as_progress(progress).track("losses without each head", len(heads), "heads") as advance:
        whole = losses(prepared, chosen)
        for head in heads:
            with without(prepared, [head]):
                less = losses(prepared, chosen)
            costs[head] = _cost([one - other for one, other in zip(less, whole, strict=True)], tokens)
            advance()
    return HeadTable(len(chosen), sum(tokens), sum(whole) / sum(tokens), costs)


def heads_of(model: EncoderDecoder | LanguageModel) -> list[Head]:
    """Every head of a model, from the encoder's first layer to the decoder's last."""
    attentions: list[tuple[Stack, int, Kind]] = []
    if isinstance(model, EncoderDecoder):
        attentions.extend(("encoder", layer, "self_attention") for layer in range(len(model.encoder.blocks)))
    for layer in range(len(model.decoder.blocks)):
        attentions.append(("decoder", layer, "self_attention"))
        if isinstance(model, EncoderDecoder):
            attentions.append(("decoder", layer, "cross_attention"))
    return [Head(*attention, number) for attention in attentions for number in range(model.config.heads)]


def attention_of(model: EncoderDecoder | LanguageModel, head: Head) -> Attention:
    """The attention that a head is part of."""
    attention = getattr(getattr(model, head.stack).blocks[head.layer], head.kind)
    assert isinstance(attention, Attention)
    return attention


@contextmanager
def without(model: EncoderDecoder | LanguageModel, heads: Iterable[Head]) -> Iterator[None]:
    """Removes heads meanwhile, from every pass of this model, whoever makes it. No weight changes."""
    removed: dict[Attention, list[int]] = {}
    for head in heads:
        removed.setdefault(attention_of(model, head), []).append(head.number)
    with ExitStack() as hooks:
        for attention, numbers in removed.items():
            hook = attention.output.register_forward_pre_hook(partial(_zero, attention, numbers))
            hooks.callback(hook.remove)
        yield


def _zero(attention: Attention, numbers: Sequence[int], _: nn.Module, arguments: tuple[Tensor]) -> tuple[Tensor]:
    """The mixed values (N, H * K) that an output projection takes, with zeros in place of some heads."""
    mixed = arguments[0].unflatten(-1, (attention.heads, attention.d_head)).clone()
    mixed[:, numbers] = 0
    return (mixed.flatten(-2),)


@torch.inference_mode()
def losses(model: EncoderDecoder | LanguageModel, given: Sequence[ForcedText]) -> list[float]:
    """The loss of each text: the sum over its tokens, in nats."""
    sums: list[float] = []
    for some in passes(given):
        hidden, packing = teacher_force(model, some)
        labels = torch.tensor(list(chain.from_iterable(each.labels for each in some)), device=hidden.device)
        of_tokens = nn.functional.cross_entropy(model.project(hidden).float(), labels, reduction="none")
        sums += [float(each.double().sum()) for each in of_tokens.split(packing.lengths.tolist())]
    return sums


def _cost(rises: Sequence[float], tokens: Sequence[int]) -> Cost:
    """From the rise of each text's loss, and its tokens: a ratio of sums (Cochran 1977, equation 6.13)."""
    count, total = len(tokens), sum(tokens)
    mean = sum(rises) / total
    spread = sum((rise - mean * own) ** 2 for rise, own in zip(rises, tokens, strict=True))
    return Cost(mean, math.sqrt(spread * count / (count - 1)) / total if count > 1 else 0.0)


def _pairs(
    stored: StoredModel, model: Path | str, test: Path | str | None, references: Sequence[Path | str]
) -> list[ForcedText]:
    """Different sources, each with its first reference."""
    test_set = read_references(test or own_test_set(model), references, naming_for(model))
    first: dict[str, str] = {}
    for source, row in zip(test_set.sources, test_set.references, strict=True):
        if source.strip():
            first.setdefault(source, row[0])
    languages = TargetLanguages(stored.tokenizers.source.target_languages)
    tagged = languages.tagged(list(first), stored.files.generation.get("target_language"))
    sources = stored.tokenizers.source.encode_batch(tagged)
    targets = stored.tokenizers.target.encode_batch(list(first.values()))
    return [ForcedText.of(stored.files.framing, *each) for each in zip(sources, targets, strict=True)]


def _texts(stored: StoredModel, model: Path | str, test: Path | str | None) -> list[ForcedText]:
    """Different lines that a language model reads; each token is what it should write after those before it."""
    path = Path(test) if test else RunFolder(model).text("test")
    if test is None and not path.is_file():
        raise ConfigError(f"{model} has no test text of its own; name a file of lines")
    lines = dict.fromkeys(line for line in read_lines(path) if line.strip())
    ids = stored.tokenizers.target.encode_batch(list(lines))
    return [ForcedText(None, each[:-1], each[1:]) for each in ids if len(each) > 1]
