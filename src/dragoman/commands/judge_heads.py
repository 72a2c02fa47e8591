"""What each attention head of a model does, and what the model loses without it: `dragoman explain MODEL --heads`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.evaluating.direction import naming_for
from dragoman.evaluating.references import own_test_set, read_references
from dragoman.explaining.alignment.gold import own_gold, read_gold
from dragoman.explaining.heads.rows import HeadTable
from dragoman.explaining.heads.subjects import read_trees
from dragoman.explaining.heads.table import SENTENCES, head_table, language_model_head_table
from dragoman.explaining.heads.texts import linked_pairs
from dragoman.machine import use_threads
from dragoman.model import LanguageModel
from dragoman.progress import Progress, silent
from dragoman.run_folder import RunFolder
from dragoman.store import StoredModel, load_model
from dragoman.text.reading.lines import read_lines
from dragoman.translating import Translator


def judge_heads(
    model: Path | str,
    test: Path | str | None = None,
    references: Sequence[Path | str] = (),
    *,
    trees: Path | str | None = None,
    aligned: Path | str | None = None,
    sentences: int = SENTENCES,
    threads: int | None = None,
    progress: Progress = silent,
) -> HeadTable:
    """Judges every head of a model on a test set: what it looks at, and what its removal costs in probability and BLEU.

    `test` and `references` are what `evaluate` takes, by default the run's own test set; for a language model, a file
    of lines. `trees` is a treebank of the source language in CoNLL-U, by whose subjects of verbs heads are judged.
    `aligned` is a file of aligned pairs (`explaining.alignment.gold`); between English and Italian, our own serve. At
    most so many `sentences` of the test set are used, spread evenly over it.

    Raises:
        CheckpointError: there is no model, or it is damaged.
        ConfigError: the model has no test set of its own, or it is a language model and was given pairs or trees.
        DataError: a file can't be read, or holds nothing to judge by.
    """
    stored = load_model(model)
    with use_threads(threads):
        if isinstance(stored.model, LanguageModel):
            if references or trees or aligned:
                raise ConfigError("a language model reads one text: references, trees and aligned pairs are for pairs")
            lines = [line for line in read_lines(Path(test or _own_text(model))) if line.strip()]
            return language_model_head_table(stored, lines, sentences=sentences, progress=progress)
        return _judge_translator(stored, model, test, references, trees, aligned, sentences, progress)


def _judge_translator(
    stored: StoredModel,
    model: Path | str,
    test: Path | str | None,
    references: Sequence[Path | str],
    trees: Path | str | None,
    aligned: Path | str | None,
    sentences: int,
    progress: Progress,
) -> HeadTable:
    known_trees = read_trees(trees) if trees else None
    pairs = read_gold(aligned) if aligned else own_gold(*(stored.files.languages or ("", "")))
    found = read_references(test or own_test_set(model), references, naming_for(model))
    translator = Translator(stored, "cpu", "float32")
    return head_table(
        translator,
        [(source, row[0]) for source, row in zip(found.sources, found.references, strict=True)],
        sentences=sentences,
        trees=known_trees,
        aligned=linked_pairs(translator.tokenizers, pairs) or None,
        progress=progress,
    )


def _own_text(model: Path | str) -> Path:
    """The test text of a language model's run."""
    path = RunFolder(Path(model)).text("test")
    if not path.is_file():
        raise ConfigError(f"{model} has no test text of its own; name a file of lines")
    return path
