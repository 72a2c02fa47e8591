"""Fine-tuning: a finished model goes on learning from other text, and is scored before and after."""

import json
import re
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families import Trained
from small_runs import AtSteps, some_pairs, terminate, times, train_small, weights, write_corpus

import dragoman
from dragoman import system
from dragoman.cli.main import main
from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import CheckpointError, ConfigError, DataError, Interrupted
from dragoman.inference.translation import Translation
from dragoman.inference.translator import Translator
from dragoman.runs import fine_tune as naming
from dragoman.runs import translation, trial
from dragoman.runs.fine_tune import FineTuneResult, fine_tune
from dragoman.runs.lookup import RunOptions
from dragoman.runs.recipe import read_recipe
from dragoman.runs.train import train
from dragoman.store.folder import load_model
from dragoman.surface.conventions import PairConventions
from dragoman.text.prepared import read_split
from dragoman.tokenizing.tokenizers import Tokenizers

SETTINGS = (
    "data.dev_size=4", "data.test_size=4", "batches.batch_tokens=100", "decode.beam_size=1",
    "train.steps=6", "train.precision=float32", "train.validate_every=3",
)  # fmt: skip


@pytest.fixture(scope="module")
def old(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on sentences of two verbs."""
    return trained("two_verbs", tmp_path_factory.mktemp("old"))


def tune(model: Path, folder: Path, *overrides: str, **options: Any) -> FineTuneResult:
    """Fine-tunes on sentences of another verb."""
    data = folder / "new.tsv"
    if not data.exists():
        write_corpus(data, some_pairs(60, verbs=["loves", "fears"]))
    return fine_tune(model, str(data), overrides=[*SETTINGS, *overrides], runs=folder / "runs", device="cpu", **options)


@pytest.mark.parametrize("folder", ["", "best", "final", "checkpoints/step-00000012"])
def test_the_name_begins_with_that_of_the_run_whose_model_is_tuned(folder: str, old: Path) -> None:
    assert (
        naming._look_up(old / folder, str(old.parents[1] / "corpus.tsv"), None, None, RunOptions()).name
        == "corpus-corpus"
    )


def names(evaluations: Any) -> list[str]:
    return [found.system for found in evaluations]


def test_a_run_is_tuned_and_scored_on_both_tests_before_and_after(old: Path, tmp_path: Path) -> None:
    before = times(old)
    result = tune(old, tmp_path)
    assert result.folder.name == "corpus-new"
    assert names(result.before) == ["before, new test", "before, old test"]
    assert names(result.after) == ["after, new test", "after, old test"]
    assert [len(found.test) for found in result.before] == [4, 8]
    scores = json.loads((result.folder / "scores.json").read_text())
    assert [found["system"] for found in scores["evaluations"]] == names([*result.before, *result.after])
    first, tuned = load_model(old), load_model(result.folder)
    assert tuned.tokenizers.source.identity == first.tokenizers.source.identity
    assert tuned.config == first.config.but(dropout=tuned.config.dropout)
    assert times(old) == before


def test_a_tuned_model_knows_the_writing_of_the_model_that_it_began_from(old: Path, tmp_path: Path) -> None:
    tuned = tune(old, tmp_path).folder
    known = load_model(old).files.conventions
    assert isinstance(known, PairConventions) and load_model(tuned).files.conventions == known
    assert "loves" not in known.source.words


def test_a_rate_near_zero_changes_nothing(old: Path, tmp_path: Path) -> None:
    result = tune(old, tmp_path, "train.learning_rate=1e-30")
    assert weights(result.folder)[0] == weights(old)[1], "it began with the best model's weights"


def test_every_model_is_loaded_on_the_device_and_threads_that_were_asked_for(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, int]] = []

    def build(self: Translator, stored: Any, device: str, *args: Any, **options: Any) -> None:
        original(self, stored, device, *args, **options)
        built.append((device, self.threads))

    original = Translator.__init__
    monkeypatch.setattr(Translator, "__init__", build)
    monkeypatch.setattr(system, "processor_quotas", list)
    tune(old, tmp_path, threads=3)
    assert built and set(built) == {("cpu", 3)}


def test_a_weak_model_is_blamed_and_not_the_learning_rate(
    old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(old, tmp_path, "train.learning_rate=1e-30")
    assert "the model that it started from was as weak (BLEU" in caplog.text and "lower train.learn" not in caplog.text
    monkeypatch.setattr(translation, "signs_of_nothing", lambda facts: "BLEU 0.0" if "step" in facts else None)
    tune(old, tmp_path / "strong", "train.learning_rate=1e-30")
    assert "or lower train.learning_rate" in caplog.text


def test_a_bare_model_folder_has_no_old_test(old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Path(shutil.copytree(old / "best", tmp_path / "model"))
    with caplog.at_level("INFO", "dragoman"):
        result = tune(model, tmp_path)
    assert f"{model} has no old text to mix in" in caplog.text
    assert names([*result.before, *result.after]) == ["before, new test", "after, new test"]
    with pytest.raises(ConfigError, match="has no data to mix in.*--mix-data"):
        tune(model, tmp_path, mix_rate=0.5, name="mixed")
    mixed = tune(model, tmp_path, mix_rate=0.5, mix_data=old / "data", name="mixed")
    assert names(mixed.after) == ["after, new test", "after, old test"]


def test_text_is_read_as_the_model_expects_it(old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pairs = some_pairs(60, verbs=["loves", "fears"])
    (tmp_path / "turned.csv").write_text("Italiano,Inglese\n" + "".join(f"{it},{en}\n" for en, it in pairs))
    options: dict[str, Any] = {"overrides": SETTINGS, "runs": tmp_path / "runs", "device": "cpu"}
    result = fine_tune(old, tmp_path / "turned.csv", **options)
    read = [pair for name in ("train", "dev", "test") for pair in read_split(result.folder / "data", name)]
    assert sorted(read) == sorted(pairs)
    assert "languages are unknown" not in caplog.text
    (tmp_path / "bare.csv").write_text("".join(f"{en},{it}\n" for en, it in pairs))
    with caplog.at_level("INFO", "dragoman"):
        fine_tune(old, str(tmp_path / "bare.csv"), **options)
    assert "bare.csv: en to it: those of the model" in caplog.text and "languages: as given" not in caplog.text
    assert "languages are unknown" not in caplog.text and "exchanged" not in caplog.text
    (tmp_path / "french.csv").write_text("English,French\nyes,oui\n")
    with pytest.raises(DataError, match="'French' .fr.*the model goes from en to it"):
        fine_tune(old, str(tmp_path / "french.csv"), **options)
    for side, texts in zip(("en", "it"), zip(*pairs, strict=True), strict=True):
        (tmp_path / f"new.{side}").write_text("".join(f"{text}\n" for text in texts))
    with pytest.raises(DataError, match=r"give them in this order: .*new.en .*new.it"):
        fine_tune(old, (str(tmp_path / "new.it"), str(tmp_path / "new.en")), **options)


def test_named_text_is_looked_at_for_exchanged_sides_too(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def surest_of_english(self: Any, sources: Any, targets: Any) -> list[Translation]:
        likely = [-1.0 if text.startswith("the") else -6.0 for text in targets]
        return [Translation("", "", log_prob=each, token_log_probs=(each,)) for each in likely]

    monkeypatch.setattr(Translator, "score", surest_of_english)
    tune(old, tmp_path)
    assert "new.tsv: the columns look exchanged" in caplog.text


def test_without_a_rate_half_of_the_text_is_old_if_there_is_any(old: Path, tmp_path: Path) -> None:
    start = read_recipe(tune(old, tmp_path).folder / "recipe.toml").start
    assert start is not None and start.mix_rate == 0.5 and start.mix_data == str((old / "data").resolve())
    plain = read_recipe(tune(old, tmp_path, mix_rate=0.0, name="plain").folder / "recipe.toml").start
    assert plain is not None and plain.mix_data is None


def rows_of_epoch(run: Path, epoch: int) -> set[int]:
    """The rows of the run's corpus that an epoch has: first those of new text, in any epoch, then old ones."""
    return set(
        np.concatenate(list(Batches(EncodedCorpus.open(run / "corpus" / "train"), seed=1).epoch(epoch))).tolist()
    )


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_old_pairs_are_mixed_in_at_the_rate_other_ones_in_each_epoch(rate: float, old: Path, tmp_path: Path) -> None:
    run = tune(old, tmp_path, mix_rate=rate).folder
    corpus, tokenizers = EncodedCorpus.open(run / "corpus" / "train"), Tokenizers.load(run / "tokenizer")
    assert corpus.source is not None
    sides = list(zip(tokenizers, (corpus.source, corpus.target), strict=True))
    new = list(read_split(run / "data", "train"))
    written = {"".join(pair) for pair in read_split(old / "data", "train")}
    epochs = [rows_of_epoch(run, epoch) for epoch in range(4)]
    for rows in epochs:
        assert rows >= set(range(len(new)))
        mixed_in = [
            "".join(one.decode(side.row(row).tolist()) for one, side in sides) for row in rows if row >= len(new)
        ]
        assert written.issuperset(mixed_in)
        share_of_old = len("".join(mixed_in)) / len("".join([*mixed_in, *chain(*new)]))
        assert share_of_old == pytest.approx(rate, abs=0.05)
    assert epochs[0] & epochs[1] == set(range(len(new)))


def test_a_run_that_began_with_the_same_old_pairs_in_each_epoch_goes_on_so(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(translation, "EPOCHS_OF_POOL", 1)
        unbroken = tune(old, tmp_path / "one", mix_rate=0.25)
        with pytest.raises(Interrupted):
            tune(old, tmp_path / "other", mix_rate=0.25, progress=AtSteps({4: terminate}))
    with caplog.at_level("INFO", "dragoman"):
        resumed = tune(old, tmp_path / "other", mix_rate=0.25)
    assert "old pairs, the same ones in each epoch" in caplog.text
    assert weights(resumed.folder) == weights(unbroken.folder)
    assert rows_of_epoch(resumed.folder, 0) == rows_of_epoch(resumed.folder, 1)


def test_a_tuning_can_be_forecast_and_goes_on_from_its_text(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.1)
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "new.tsv", some_pairs(60, verbs=["loves", "fears"]))
    command = ["fine-tune", str(old), "new.tsv", "--device", "cpu", *chain(*(["--set", each] for each in SETTINGS))]
    assert main([*command, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"steps +6 ", shown.out) and "the same command without --dry-run trains on it" in shown.err
    assert not (tmp_path / "runs/corpus-new/checkpoints").exists()
    corpus = tmp_path / "runs/corpus-new/corpus/train/corpus.json"
    prepared = corpus.stat().st_mtime_ns
    assert main(command) == 0
    assert corpus.stat().st_mtime_ns == prepared
    shown = capsys.readouterr().out
    assert "before, old test" in shown
    assert re.search(r"BLEU before and after: new [\d.]+ -> [\d.]+, old [\d.]+ -> ", shown)


@pytest.fixture(scope="module")
def in_pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pieces of English and Italian words."""
    pieces = ("tokenizer.kind=bpe", "tokenizer.vocabulary_size=400", "train.steps=1")
    return train_small(tmp_path_factory.mktemp("pieces"), *pieces).folder


@pytest.mark.parametrize(
    ("texts", "sides"),
    [
        ([("机の上の本", "il libro")], ["source"]),
        ([("the book", "Книга лежит на столе")], ["target"]),
        ([("机の上の本", "箱の中の鳥"), ("a book", "un libro")], ["source", "target"]),
        ([("the naïve café", "il caffè è così")], []),
    ],
)
def test_text_that_the_vocabulary_cannot_write_is_said_before_training(
    texts: list[tuple[str, str]], sides: list[str], in_pieces: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbered = [(f"{source} {number}", f"{target} {number}") for number in range(30) for source, target in texts]
    write_corpus(tmp_path / "new.tsv", numbered)

    def stop_at_once() -> None:
        told.extend(record.getMessage() for record in caplog.records if "can hardly write" in record.getMessage())
        terminate()

    told: list[str] = []
    with pytest.raises(Interrupted):
        tune(in_pieces, tmp_path, progress=AtSteps({1: stop_at_once}))
    assert [message.partition(" text: ")[0].rpartition(" ")[2] for message in told] == sides


def test_a_tuning_that_was_stopped_ends_in_the_same_bytes(old: Path, tmp_path: Path) -> None:
    unbroken = tune(old, tmp_path / "one", mix_rate=0.25)
    with pytest.raises(Interrupted):
        tune(old, tmp_path / "other", mix_rate=0.25, progress=AtSteps({4: terminate}))
    resumed = tune(old, tmp_path / "other", mix_rate=0.25)
    assert weights(resumed.folder) == weights(unbroken.folder)
    assert names(resumed.before) == names(unbroken.before)


def test_a_finished_tuning_says_so_and_rewrites_nothing(old: Path, tmp_path: Path) -> None:
    result = tune(old, tmp_path)
    before = times(result.folder)
    again = tune(old, tmp_path)
    assert (again.before, again.after, again.steps) == ((), (), 6)
    assert times(result.folder) == before


def test_the_command_shows_the_scores_of_a_finished_tuning(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tune(old, tmp_path).folder
    monkeypatch.setattr(dragoman, "fine_tune", lambda *_, **__: FineTuneResult(folder, 6, (), ()), raising=False)
    assert main(["fine-tune", str(old), str(tmp_path / "new.tsv")]) == 0
    printed = capsys.readouterr().out
    assert "before, new test" in printed and "after, new test" in printed


def test_the_recipe_of_a_tuning_gives_the_same_run(old: Path, tmp_path: Path) -> None:
    tuned = tune(old, tmp_path).folder
    again = train(tuned / "recipe.toml", runs=tmp_path / "again", device="cpu").folder
    assert weights(again) == weights(tuned)


def test_a_tuning_needs_no_test_set(old: Path, tmp_path: Path) -> None:
    result = tune(old, tmp_path, "data.test_size=0", "data.dev_size=0")
    assert names(result.after) == ["after, old test"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.decoder_layers=2", "keeps the model's architecture; model.decoder_layers cannot be set"),
        ("tokenizer.vocabulary_size=500", "keeps the model's tokenizer; tokenizer.vocabulary_size cannot be set"),
    ],
)
def test_architecture_and_tokenizer_are_the_models(setting: str, message: str, old: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        tune(old, tmp_path, setting)
    assert tune(old, tmp_path, "model.dropout=0.3").steps == 6, "mended, the same command goes on"


def test_no_model_is_said_at_once(old: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere does not exist; MODEL is a model folder or a run folder"):
        tune(tmp_path / "nowhere", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty is not a model folder: it has no config.json"):
        tune(tmp_path / "empty", tmp_path)
    with pytest.raises(ConfigError, match="empty is not prepared data: it has no train.jsonl"):
        tune(old, tmp_path, mix_rate=0.5, mix_data=tmp_path / "empty")
    assert not (tmp_path / "runs").exists()


def test_once_it_has_a_checkpoint_a_tuning_does_without_the_model_it_began_from(old: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(old / "best", tmp_path / "model"))
    with pytest.raises(Interrupted):
        tune(model, tmp_path, progress=AtSteps({4: terminate}))
    shutil.rmtree(model)
    resumed = train(tmp_path / "runs" / "model-new", device="cpu")
    assert resumed.steps == 6
    assert load_model(resumed.folder).files.conventions == load_model(old).files.conventions
