"""Language models as a task: windows of running text, each next token predicted, and the loss on held-out text."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import dragoman
from dragoman.brief import brief_scores
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_text
from dragoman.errors import DecodeError
from dragoman.evaluating.meaning import BASELINE
from dragoman.evaluating.metrics import Score
from dragoman.evaluating.scores import write_scores
from dragoman.files import sha256
from dragoman.inference.generator import Generator
from dragoman.model.transformer import LanguageModel
from dragoman.progress import silent
from dragoman.runs.choices import TextFacts
from dragoman.runs.task import Task, Validated
from dragoman.store.description import ModelFiles, StoredModel
from dragoman.store.folder import load_model
from dragoman.text.prepare import prepare_text
from dragoman.text.prepared import evenly_spaced, read_text
from dragoman.text.report import TextReport, read_text_report
from dragoman.tokenizing.pretokenizing import SPACE_BETWEEN_WORDS, cut_running
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import learn_tokenizer
from dragoman.training.objective import mean_loss

SAMPLE_TOKENS = 80
"""Number of tokens that the model writes at each validation."""
LEARNED_AT_A_TIME = 100_000
"""Length in characters of the pieces of longer lines, from which a vocabulary is learned in bounded memory."""
LEARNED_FROM = 50_000_000
"""Most characters that a vocabulary is learned from: pieces of the text, evenly spaced."""
FREQUENCIES = "frequencies of characters"


class TextTask(Task):
    """A task that reads running text, of which it holds out the end."""

    search: ClassVar[str]
    """Description of how the scores are made."""

    def prepare(self) -> None:
        prepare_text(self.recipe.data, self.run.data, self.progress)

    @cached_property
    def report(self) -> TextReport:
        return read_text_report(self.run.data)

    def text_facts(self) -> TextFacts:
        return TextFacts(self.report.splits["train"].characters)

    def learn_tokenizers(self) -> Tokenizers:
        """Learn the vocabulary of the training text, from a sample of it if there is much."""
        text = evenly_spaced(read_text(self.run.data, "train"), self.report.splits["train"].characters, LEARNED_FROM)
        tokenizer = learn_tokenizer(lines_of(text), self.recipe.tokenizer, self.progress, self.report.language)
        return Tokenizers(tokenizer, tokenizer)

    @property
    def has_dev(self) -> bool:
        return self.report.splits["dev"].characters > 0

    def trained_on(self, training: str) -> str:
        """Return the sentence of a model card about the text and the training."""
        characters, name = self.report.splits["train"].characters, self.text_name(self.report.name)
        return f"Trained on {characters:,} characters of {name}, {training}."

    def score(self) -> "tuple[TextEvaluation, ...]":
        """Measure the best model on the test text, in float32; return no evaluation without one."""
        test = self.run.text("test")
        evaluations = baselines = tuple[TextEvaluation, ...]()
        if test.is_file() and test.stat().st_size:
            with self.progress.track("score", unit="texts") as advance:
                evaluations, baselines = (self._score(test),), self.baselines(test)
                advance(1)
        write_scores(self.run.scores, evaluations, baselines=baselines)
        return (*baselines, *evaluations)

    def baselines(self, _test: Path) -> "tuple[TextEvaluation, ...]":
        """Return the results that the model must beat on a test text."""
        return ()

    def _score(self, test: Path) -> "TextEvaluation":
        stored = load_model(self.run.best)
        with TemporaryDirectory(prefix="dragoman-") as folder:
            corpus = self.encode_split("test", stored.tokenizers, Path(folder) / "test")
            scores, counts = self.evaluate(stored, corpus)
            return TextEvaluation(str(self.run.best), test.name, sha256(test), scores, counts, self.search)

    @abstractmethod
    def evaluate(self, stored: StoredModel, corpus: EncodedCorpus) -> tuple[dict[str, Score], dict[str, int]]:
        """Measure a finished model on an encoded test text; return its scores and the amounts that they count."""


class LanguageModelTask(TextTask):
    """The task of continuing running text. The best model has the lowest loss on the dev text."""

    search = "every token given those before it in its window"

    def encode_split(self, name: str, tokenizers: Tokenizers, folder: Path) -> EncodedCorpus:
        window = self.recipe.batches.sentence_tokens
        return encode_text(read_text(self.run.data, name), tokenizers.target, folder, window)

    def is_fit(self, _name: str, corpus: EncodedCorpus) -> bool:
        return corpus.has_windows_of(self.recipe.batches.sentence_tokens)

    def measure(self, model: LanguageModel) -> Validated:
        a_token, a_character, _ = self._losses(model, self.dev, self.report.splits["dev"].characters)
        nats = nats_and_bits(a_character)
        return Validated(
            score=-a_token,
            facts={"dev_loss": a_token, "dev_nats_per_character": a_character},
            summary=f"loss {a_token:.3f}, {nats} a character",
            brief=f"{a_token:.2f}, {a_character:.3f} nats a character",
            samples=f"  written: {' '.join(self._sample(model).split())}",
            quality=f"On the dev text: {nats} a character, {a_token:.3f} nats a token.\n",
        )

    def _losses(self, model: LanguageModel, corpus: EncodedCorpus, characters: int) -> tuple[float, float, int]:
        """Return the loss in nats a token, the loss in nats a character, and the number of tokens."""
        batches = self.batches_of(corpus)
        loss = mean_loss(model, (batches.batch(indices).to(self.device) for indices in batches.epoch(0)))
        if not math.isfinite(loss):
            raise DecodeError(
                f"the model's loss on held-out text is {loss}; its weights are damaged, or training diverged"
            )
        return loss, loss * batches.tokens / characters, batches.tokens

    def _sample(self, model: LanguageModel) -> str:
        """Return what the model writes after the end of a line, drawn by its own probabilities."""
        stored = StoredModel(model, model.config, self.model_files, Path("validation"))
        generator = Generator(stored, self.device, self.recipe.train.precision, progress=silent)
        options = generator.options.but(tokens=SAMPLE_TOKENS, temperature=1.0)
        return generator.generate([""], options, silent)[0].text

    @property
    def model_files(self) -> ModelFiles:
        """Tokenizer, and the context that the model is trained on."""
        return ModelFiles(self.corpora.tokenizers, generation={"context": self.recipe.batches.sentence_tokens})

    def card(self, weights: int, training: str, quality: str) -> str:
        made = self.made_with("A decoder-only Transformer", self.recipe.model.decoder_layers, weights)
        return f"# Language model\n\n{made}\n\n{self.trained_on(training)}\n\n{quality}"

    def evaluate(self, stored: StoredModel, corpus: EncodedCorpus) -> tuple[dict[str, Score], dict[str, int]]:
        characters = self.report.splits["test"].characters
        model: Any = stored.model.to(self.device)
        a_token, a_character, tokens = self._losses(model, corpus, characters)
        vocabulary, window = stored.tokenizers.target.size, self.recipe.batches.sentence_tokens
        facts = f"window:{window}|vocabulary:{vocabulary}|version:{dragoman.__version__}"
        losses = {
            "character": ("nats a character", a_character),
            "token": ("nats a token", a_token),
            "bits": ("bits a character", a_character / math.log(2)),
        }
        scores = {
            key: Score(name, value, None, None, f"nll|unit:{name.split()[-1]}|{facts}", "")
            for key, (name, value) in losses.items()
        }
        return scores, {"characters": characters, "tokens": tokens}

    def baselines(self, test: Path) -> "tuple[TextEvaluation, ...]":
        """Return the loss of a model that knows only the frequency of each character in this text."""
        with test.open(encoding="utf-8", newline="") as file:
            counts = Counter(chain.from_iterable(iter(partial(file.read, LEARNED_AT_A_TIME), "")))
        total = counts.total()
        loss = sum(count * math.log(total / count) for count in counts.values()) / total
        signature = f"nll|unit:character|version:{dragoman.__version__}"
        scores = {"character": Score("nats a character", loss, None, None, signature, "")}
        search = f"{BASELINE}, from the test text itself"
        return (TextEvaluation(FREQUENCIES, test.name, sha256(test), scores, {"characters": total}, search),)


@dataclass(frozen=True)
class TextEvaluation:
    """The scores of a model that predicts a text, or its masked words."""

    __repr__ = brief_scores

    system: str
    """Folder of the model."""
    test: str
    """Name of the text's file."""
    sha256: str
    """SHA-256 of that file."""
    scores: dict[str, Score]
    counts: dict[str, int]
    search: str
    """Description of how the scores were made."""

    @property
    def test_name(self) -> str:
        return self.test

    def facts(self) -> dict[str, Any]:
        """Return everything but the text, as plain values for JSON."""
        return {
            "system": self.system,
            "search": self.search,
            "test": {"name": self.test, "sha256": self.sha256},
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "counts": self.counts,
        }


def lines_of(text: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a text that is given in parts, long ones in several pieces."""
    held = ""
    for part in text:
        *lines, held = (held + part).splitlines(keepends=True) or [""]
        *begun, held = cut_running([held], LEARNED_AT_A_TIME, SPACE_BETWEEN_WORDS)
        for line in lines:
            yield from cut_running([line], LEARNED_AT_A_TIME, SPACE_BETWEEN_WORDS)
        yield from begun
    if held:
        yield held


def nats_and_bits(nats: float) -> str:
    """Return a loss in both units, of which bits compare with compressors and other papers.

    >>> nats_and_bits(1.4697)
    '1.470 nats (2.120 bits)'
    """
    return f"{nats:.3f} nats ({nats / math.log(2):.3f} bits)"
