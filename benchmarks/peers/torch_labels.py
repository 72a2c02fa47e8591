"""torch.nn.TransformerEncoder as a classifier or tagger, with a plain training loop, as a practitioner writes it.

It takes tokenizer, sizes, dropout and precision from one of our runs. The rest is usual: pre-norm with GELU,
learned positions, the mean of a text's tokens (or the first piece of each word), padded batches of similar length,
AdamW with warm-up and linear decay, clipping, label smoothing, autocast where it is faster, and the best of ten
validations. Dropout is at the same places as in our model.
"""

import copy
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import accumulate, islice
from typing import Any, NamedTuple

import torch
from labelled import Example, LabelledSet, read
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from dragoman.evaluating.labels_evaluation import LabelEvaluation, evaluate_labels
from dragoman.files import sha256
from dragoman.run_folder import RunFolder
from dragoman.store.folder import load_model
from dragoman.tokenizing.labels import Labels
from dragoman.tokenizing.special_tokens import PADDING, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer, encode_words
from peers.contest import CLIP, SMOOTHING, Way, initialise
from peers.race import Clock, shuffled

IGNORED = -100
"""The target of a position without a label of the training text, which `cross_entropy` ignores."""
DECAY, WARM_UP_SHARE, VALIDATIONS = 0.01, 0.1, 10
UNTIMED_STEPS, TIMED_SHARE = 5, 0.04
"""To forecast how many steps fit, steps are timed for this share of the minutes, after a few untimed steps."""
POOL = 50
"""Batches within which texts are sorted by length."""


class Trained(NamedTuple):
    """The result of the loop."""

    predicted: list[list[str]]
    """The labels of each test text, or of each of its words."""
    dev_score: float
    rate: float
    way: Way
    steps: int
    seconds: float
    """Seconds of training steps, without validations."""
    weights: int


class Rectangle(NamedTuple):
    """B texts padded to T tokens; the targets of texts are (B), those of words (B, T)."""

    ids: Tensor
    targets: Tensor


class Texts(NamedTuple):
    """A split as ids."""

    ids: list[Tensor]
    firsts: list[Tensor] | None
    """The place of the first piece of each word; None if texts have one label."""
    targets: list[Tensor]
    """The label of each text, or those of its words."""

    @classmethod
    def from_examples(cls, examples: Sequence[Example], tokenizer: Tokenizer, labels: Labels) -> "Texts":
        """Encode texts and number their labels."""
        number = {name: index for index, name in enumerate(labels.names)}
        ids, firsts = [], []
        for words in encode_words([words for words, _ in examples], tokenizer):
            ids.append(torch.tensor([piece for word in words for piece in word] or [UNKNOWN]))
            firsts.append(torch.tensor([*accumulate(map(len, words), initial=0)][:-1], dtype=torch.long))
        targets = [torch.tensor([number.get(name, IGNORED) for name in names]) for _, names in examples]
        return cls(ids, firsts if labels.task == "tag" else None, targets)

    def batch(self, rows: Sequence[int]) -> Rectangle:
        """Return these texts as a rectangle."""
        ids = pad_sequence([self.ids[row] for row in rows], batch_first=True, padding_value=PADDING)
        if self.firsts is None:
            return Rectangle(ids, torch.cat([self.targets[row] for row in rows]))
        targets = torch.full_like(ids, IGNORED)
        for target, row in zip(targets, rows, strict=True):
            target[self.firsts[row]] = self.targets[row]
        return Rectangle(ids, targets)

    def batches(self, tokens: int, epoch: int | None) -> list[list[int]]:
        """Return the rows of batches of at most this many tokens, padding included. An epoch shuffles them."""
        order = shuffled(len(self.ids), epoch).tolist() if epoch is not None else [*range(len(self.ids))]
        typical = max(1, tokens * len(self.ids) // sum(map(len, self.ids)))
        size = POOL * typical if epoch is not None else len(order)
        made: list[list[int]] = []
        for first in range(0, len(order), size):
            made += self._filled(sorted(order[first : first + size], key=lambda row: len(self.ids[row])), tokens)
        return made if epoch is None else [made[place] for place in shuffled(len(made), epoch).tolist()]

    def _filled(self, rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
        batch: list[int] = []
        for row in rows:  # the longest so far
            if batch and (len(batch) + 1) * len(self.ids[row]) > tokens:
                yield batch
                batch = []
            batch.append(row)
        yield batch

    def endless(self, tokens: int, seed: int) -> Iterator[Rectangle]:
        """Yield batches of one epoch after another."""
        epoch = seed * 1_000_000
        while True:
            yield from (self.batch(rows) for rows in self.batches(tokens, epoch))
            epoch += 1


class Labeller(nn.Module):
    """Ids to logits: (B, C) for texts, (B, T, C) for words. The head is ours: dense, GELU, norm."""

    def __init__(self, model: dict[str, Any], positions: int, of_words: bool) -> None:
        super().__init__()
        width, dropout = model["d_model"], model["dropout"]
        gated = model["activation"] in ("swiglu", "geglu")  # three matrices where this one has two
        inner = model["d_ff"] * 3 // 2 if gated else model["d_ff"]
        layer = nn.TransformerEncoderLayer(
            width, model["heads"], inner, dropout, "gelu", batch_first=True, norm_first=True
        )
        layer.dropout.p = model["activation_dropout"]  # inside the feed-forward network
        layer.self_attn.dropout = model["attention_dropout"]
        self.tokens, self.positions = nn.Embedding(model["source_vocabulary"], width), nn.Embedding(positions, width)
        self.encoder = nn.TransformerEncoder(
            layer, model["encoder_layers"], nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.dropout, self.of_words = nn.Dropout(dropout), of_words
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Dropout(dropout),
            nn.Linear(width, model["labels"]),
        )  # fmt: skip
        initialise(self)  # torch would begin with the same weights in every layer
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        padding = ids == PADDING
        x = self.dropout(self.tokens(ids) + self.positions.weight[: ids.size(1)])
        x = self.encoder(x, src_key_padding_mask=padding)
        if not self.of_words:
            real = (~padding).to(x.dtype)
            x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return self.head(x)


class Loop:
    """The plain loop around a `Labeller`, on the text of one of our runs."""

    def __init__(self, run: RunFolder, labelled: LabelledSet, seed: int) -> None:
        stored = load_model(run.best)
        assert stored.files.labels is not None, "a classifier or tagger has labels"
        self.run, self.set, self.seed, self.labels = run, labelled, seed, stored.files.labels
        self.recipe = tomllib.loads(run.recipe.read_text(encoding="utf-8"))
        self.tokens = self.recipe["batches"]["batch_tokens"]
        self.examples = {split: read(run.data, labelled.task, split) for split in ("train", "dev", "test")}
        self.texts = {
            split: Texts.from_examples(examples, stored.tokenizers.source, self.labels)
            for split, examples in self.examples.items()
        }
        self.longest = max(len(ids) for texts in self.texts.values() for ids in texts.ids)

    def train(self, rate: float, seconds: float) -> Trained:
        """Train for about this many seconds, and label the test set with the best of ten validations."""
        steps, way = self.fitting(seconds)
        model, best, best_score, taken = self.build(), None, -1.0, 0.0
        take_step, every = self.stepper(model, way, rate, steps), -(-steps // VALIDATIONS)
        for number, batch in enumerate(islice(self.texts["train"].endless(self.tokens, self.seed), steps), 1):
            started = time.perf_counter()
            take_step(batch)
            taken += time.perf_counter() - started
            if number % every == 0 or number == steps:
                score = self.score("dev", self.predict(model, "dev"), samples=0).scores[self.set.metric].value
                if score > best_score:
                    best_score, best = score, copy.deepcopy(model.state_dict())
        assert best is not None, "there are as many steps as validations"
        model.load_state_dict(best)
        weights = sum(weight.numel() for weight in model.parameters())
        return Trained(self.predict(model, "test"), best_score, rate, way, steps, taken, weights)

    def build(self) -> Labeller:
        """Return a new model of this seed."""
        torch.manual_seed(self.seed)
        return Labeller(self.recipe["model"], self.longest, self.set.task == "tag")

    def fitting(self, seconds: float) -> tuple[int, Way]:
        """Return the steps that fit in this many seconds, and the faster way to compute."""
        is_bf16 = self.recipe["train"]["precision"] == "bf16"
        ways: tuple[Way, ...] = ("autocast", "float32") if is_bf16 else ("float32",)
        timed = {way: self._seconds_a_step(way, seconds * TIMED_SHARE) for way in ways}
        way: Way = min(ways, key=lambda way: timed[way])
        return max(VALIDATIONS, round(seconds / timed[way])), way

    def _seconds_a_step(self, way: Way, seconds: float) -> float:
        """Time steps of a model that is thrown away."""
        batches, take_step = self.texts["train"].endless(self.tokens, 0), self.stepper(self.build(), way, 0.0, 1)
        for batch in islice(batches, UNTIMED_STEPS):
            take_step(batch)
        clock, count = Clock(seconds / 60), 0
        while clock.share < 1:
            take_step(next(batches))
            count += 1
        return clock.seconds / count

    def stepper(self, model: Labeller, way: Way, rate: float, steps: int) -> Callable[[Rectangle], None]:
        """Return a function that takes a step on a batch; the rate falls to zero after this many steps."""
        optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=DECAY)
        warm_up = max(1, round(WARM_UP_SHARE * steps))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm_up, (steps - step) / max(1, steps - warm_up))
        )

        def take_step(batch: Rectangle) -> None:
            model.train()
            with torch.autocast("cpu", torch.bfloat16) if way == "autocast" else nullcontext():
                logits = model(batch.ids)
            loss = F.cross_entropy(
                logits.float().flatten(0, -2), batch.targets.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING
            )
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()

        return take_step

    @torch.inference_mode()
    def predict(self, model: Labeller, split: str) -> list[list[str]]:
        """Return the most probable label of each text, or of each of its words, in float32."""
        model.eval()
        texts, predicted = self.texts[split], [[""]] * len(self.examples[split])
        for rows in texts.batches(4 * self.tokens, None):
            best = model(texts.batch(rows).ids).argmax(-1)
            for row, labels in zip(rows, best, strict=True):
                numbers = labels[None] if texts.firsts is None else labels[texts.firsts[row]]
                predicted[row] = [self.labels.names[number] for number in numbers.tolist()]
        return predicted

    def score(self, split: str, predicted: Sequence[Sequence[str]], samples: int) -> LabelEvaluation:
        """Score the labels of a split."""
        gold = [[*names] for _, names in self.examples[split]]
        path = self.run.split(split)
        return evaluate_labels(
            self.labels, gold, predicted, system="nn.TransformerEncoder", test=path.name, sha256=sha256(path),
            samples=samples,
        )  # fmt: skip
