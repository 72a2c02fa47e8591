"""Language models as a task: windows of running text, each next token predicted, and the loss on held-out text."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

import dragoman
from dragoman.data.batching import build_batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_text
from dragoman.documents import write_json
from dragoman.errors import DecodeError
from dragoman.evaluating.evaluation import FORMAT
from dragoman.evaluating.metrics import Score
from dragoman.files import sha256
from dragoman.inference.generator import Generator
from dragoman.model import LanguageModel, build_model
from dragoman.progress import Progress
from dragoman.run_folder import RunFolder
from dragoman.runs.choices import TextFacts
from dragoman.runs.corpus_task import UNMEASURED, CorpusTask, find_corpus, find_tokenizers
from dragoman.runs.recipe import Recipe
from dragoman.store import ModelFiles, StoredModel, load_model, place_weights
from dragoman.text import prepare as preparing
from dragoman.text.prepare import prepare_text
from dragoman.text.prepared import read_text
from dragoman.text.report import TextReport, read_text_report
from dragoman.text.settings import name_on_card
from dragoman.tokenizing.pretokenizing import SPACE_BETWEEN_WORDS, cut_running
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizer
from dragoman.training.objective import Validated, mean_loss

SAMPLE_TOKENS = 80
"""Tokens that the model writes at each validation."""
LEARNT_AT_A_TIME = 100_000
"""A longer line is cut into pieces of about so many characters to learn a vocabulary in bounded memory."""
LEARNT_FROM = 50_000_000
"""Characters that a vocabulary is learnt from at most: pieces of the text, evenly spaced."""


class TextData(NamedTuple):
    """Running text, prepared and encoded."""

    report: TextReport
    tokenizers: Tokenizers
    """The same tokenizer on both sides."""
    train: EncodedCorpus
    dev: EncodedCorpus | None
    """None if nothing is held out."""
    dev_characters: int


def prepare(run: RunFolder, recipe: Recipe, progress: Progress) -> TextReport:
    """Reads and splits text into the run's folder, unless it is there already.

    Raises:
        DataError: the text cannot be used, or is not what the folder was made from.
    """
    return prepare_text(recipe.data, run.data, progress)


def is_made_from(folder: Path, recipe: Recipe) -> bool:
    """Whether the text in a folder is the text that a recipe names."""
    return preparing.is_made_from(folder, recipe.data, recipe.task)


def facts(_run: RunFolder, _recipe: Recipe, report: TextReport) -> TextFacts:
    """The number of characters."""
    return TextFacts(characters=report.splits["train"].characters)


def gather(run: RunFolder, recipe: Recipe, progress: Progress) -> TextData:
    """Trains a tokenizer and encodes text, unless they are in the run's folder already."""
    report = read_text_report(run.data)
    tokenizers = find_tokenizers(run, recipe, lambda: learn_vocabulary(run, recipe, report, progress))
    length = recipe.batches.sentence_tokens

    def encoded(name: str) -> EncodedCorpus:
        folder = run.corpus(name)

        def encode() -> EncodedCorpus:
            return encode_text(read_text(run.data, name), tokenizers.target, folder, length, replace=True)

        return find_corpus(folder, tokenizers, encode, lambda corpus: corpus.has_windows_of(length))

    dev_characters = report.splits["dev"].characters
    return TextData(report, tokenizers, encoded("train"), encoded("dev") if dev_characters else None, dev_characters)


def learn_vocabulary(run: RunFolder, recipe: Recipe, report: TextReport, progress: Progress) -> Tokenizers:
    """The vocabulary of a run's training text, learnt from a sample of it if there is much."""
    text = sampled(read_text(run.data, "train"), LEARNT_FROM / report.splits["train"].characters)
    tokenizer = learn_tokenizer(lines_of(text), recipe.tokenizer, progress, report.language)
    return Tokenizers(tokenizer, tokenizer)


def sampled(pieces: Iterable[str], share: float) -> Iterator[str]:
    """About this share of some pieces, evenly spaced; all of them from 1 on.

    >>> [*sampled("abcdefgh", 0.25)]
    ['d', 'h']
    """
    return (piece for number, piece in enumerate(pieces) if int((number + 1) * share) > int(number * share))


def lines_of(text: Iterable[str]) -> Iterator[str]:
    """The lines of a text that is given in parts, long ones in several pieces."""
    held = ""
    for part in text:
        *lines, held = (held + part).splitlines(keepends=True) or [""]
        *begun, held = cut_running([held], LEARNT_AT_A_TIME, SPACE_BETWEEN_WORDS)
        for line in lines:
            yield from cut_running([line], LEARNT_AT_A_TIME, SPACE_BETWEEN_WORDS)
        yield from begun
    if held:
        yield held


def start(recipe: Recipe, data: TextData, device: str) -> CorpusTask:
    """The task of a run that trains a language model. The best model has the lowest loss on the dev text, in the run's
    precision.
    """
    dev_set = partial(_open_dev_set, recipe, data, data.dev, device) if data.dev is not None else None
    return CorpusTask(recipe, data, device, dev_set, partial(_files, recipe, data))


class HeldOut:
    """Measures any weights of one architecture on held-out text."""

    def __init__(
        self, model: LanguageModel, tokenizers: Tokenizers, corpus: EncodedCorpus, characters: int, recipe: Recipe
    ) -> None:
        self.model, self.characters = model, characters
        self.files, self.precision = ModelFiles(tokenizers, generation=_generation(recipe)), recipe.train.precision
        self.dtype = model.output.dtype
        self.batches = build_batches(corpus, recipe.batches, seed=None)
        self.tokens = self.batches.tokens

    def losses(self) -> tuple[float, float]:
        """Nats a token, and nats a character.

        Raises:
            DecodeError: the loss is not finite.
        """
        device = self.model.output.device
        batches = (self.batches.batch(indices).to(device) for indices in self.batches.epoch(0))
        loss = mean_loss(self.model, batches)
        if not math.isfinite(loss):
            raise DecodeError(
                f"the model's loss on held-out text is {loss}; its weights are damaged, or training diverged"
            )
        return loss, loss * self.tokens / self.characters

    def measure(self, weights: Mapping[str, Tensor]) -> Validated:
        """Validates these weights, in the precision that the model has."""
        place_weights(self.model, {name: weight.to(self.dtype) for name, weight in weights.items()})
        loss, nats = self.losses()
        a_character = nats_and_bits(nats)
        return Validated(
            score=-loss,
            facts={"dev_loss": loss, "dev_nats_per_character": nats},
            summary=f"loss {loss:.3f}, {a_character} a character",
            brief=f"{loss:.2f}, {nats:.3f} nats a character",
            samples=f"\n  written     {' '.join(self._sample().split())}",
            quality=f"On the dev text: {a_character} a character, {loss:.3f} nats a token.\n",
        )

    def _sample(self) -> str:
        """What the model writes after the end of a line, drawn by its own probabilities."""
        stored = StoredModel(self.model, self.model.config, self.files, Path("validation"))
        generator = Generator(stored, self.model.output.device.type, self.precision)
        options = generator.options.but(tokens=SAMPLE_TOKENS, temperature=1.0)
        return generator.generate([""], options)[0].text


def nats_and_bits(nats: float) -> str:
    """A loss in both units, of which bits compare with compressors and other papers.

    >>> nats_and_bits(1.4697)
    '1.470 nats (2.120 bits)'
    """
    return f"{nats:.3f} nats ({nats / math.log(2):.3f} bits)"


def _open_dev_set(recipe: Recipe, data: TextData, dev: EncodedCorpus, device: str) -> HeldOut:
    dtype = torch.bfloat16 if recipe.train.precision == "bf16" else torch.float32
    model = build_model(recipe.model, seed=None).to(device, dtype)
    assert isinstance(model, LanguageModel), "the recipe says so"
    return HeldOut(model, data.tokenizers, dev, data.dev_characters, recipe)


def _files(
    recipe: Recipe, data: TextData, weights: int, steps: int, tokens: int, found: Validated | None
) -> ModelFiles:
    """Tokenizer and model card."""
    model, train = recipe.model, data.report.splits["train"]
    card = (
        f"# Language model\n\n"
        f"A decoder-only Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.decoder_layers} "
        f"layers, {weights:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
        f"Trained on {train.characters:,} characters of {name_on_card(recipe.data, data.report.name)}, "
        f"{steps:,} steps, {tokens:,} tokens.\n\n"
        f"{found.quality if found else UNMEASURED}"
    )
    return ModelFiles(data.tokenizers, generation=_generation(recipe), card=card)


def _generation(recipe: Recipe) -> dict[str, int]:
    """What a model folder says of how to write: the context that the model is trained on."""
    return {"context": recipe.batches.sentence_tokens}


@dataclass(frozen=True)
class TextEvaluation:
    """How well a language model predicts a text."""

    system: str
    """The model's folder."""
    test: str
    """The name of the text's file."""
    sha256: str
    """SHA-256 of that file."""
    scores: dict[str, Score]
    counts: dict[str, int]
    search: str = "every token given those before it in its window"
    """How the scores were made."""

    def facts(self) -> dict[str, Any]:
        """Everything but the text, as plain values for JSON."""
        return {
            "system": self.system,
            "search": self.search,
            "test": {"name": self.test, "sha256": self.sha256},
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "counts": self.counts,
        }


def score_run(run: RunFolder, recipe: Recipe, device: str, progress: Progress) -> tuple[TextEvaluation, ...]:
    """Measures the best model of a run on its test text, in float32, and writes `scores.json`. Returns nothing if there
    is no test text.
    """
    test = run.text("test")
    found = ()
    if test.is_file() and test.stat().st_size:
        with progress.track("score", unit="texts") as advance:
            found = (_score(run, test, recipe, device),)
            advance(1)
    write_json(run.scores, {"format": FORMAT, "evaluations": [each.facts() for each in found], "comparisons": []})
    return found


def _score(run: RunFolder, test: Path, recipe: Recipe, device: str) -> TextEvaluation:
    stored, characters = load_model(run.best), read_text_report(run.data).splits[test.stem].characters
    model = stored.model.to(device)
    assert isinstance(model, LanguageModel), "the recipe says so"
    tokenizer, length = stored.tokenizers.target, recipe.batches.sentence_tokens
    with TemporaryDirectory(prefix="dragoman-") as folder:
        corpus = encode_text(read_text(run.data, test.stem), tokenizer, Path(folder) / "test", length)
        held_out = HeldOut(model, stored.tokenizers, corpus, characters, recipe)
        a_token, a_character = held_out.losses()
    facts = f"window:{length}|vocabulary:{tokenizer.size}|version:{dragoman.__version__}"
    losses = {
        "character": ("nats a character", a_character),
        "token": ("nats a token", a_token),
        "bits": ("bits a character", a_character / math.log(2)),
    }
    scores = {
        key: Score(name, value, None, None, f"nll|unit:{name.split()[-1]}|{facts}", "")
        for key, (name, value) in losses.items()
    }
    return TextEvaluation(
        str(run.best), test.name, sha256(test), scores, {"characters": characters, "tokens": held_out.tokens}
    )
