"""One run from plain text to a scored model: what it reads, what it leaves behind, and what it says when it cannot."""

import dataclasses
import importlib.util
import inspect
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from families import Trained
from small import parse, small_config
from small_runs import SETTINGS, STEPS, AtSteps, some_pairs, terminate, times, train_small, weights, write_corpus

from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.errors import ConfigError, DataError, Error, Interrupted, OutOfMemory
from dragoman.inference.translator import Translator
from dragoman.model.shapes import count_weights
from dragoman.progress import silent
from dragoman.run_folder import RunFolder
from dragoman.runs import resolving, starting, trial
from dragoman.runs import translation as pairs_module
from dragoman.runs.lookup import RunOptions
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe, read_recipe
from dragoman.runs.train import RunResult, train
from dragoman.store.folder import load_model
from dragoman.surface import conventions as text_conventions
from dragoman.surface.conventions import PairConventions
from dragoman.surface.placeholders import PLACEHOLDERS
from dragoman.text.prepare import prepare_data
from dragoman.text.report import read_report
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.training import TokenizerSettings


@pytest.fixture(scope="module")
def finished(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    return trained("translation", tmp_path_factory.mktemp("finished"))


def test_a_model_that_no_machine_can_hold_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "_prepare", lambda *_: pytest.fail("the text was read"))
    huge = ["model.encoder_layers=1000", "model.d_model=16384", "model.heads=16"]
    with pytest.raises(OutOfMemory, match=r"would have [0-9,]+ weights, and training it would take [0-9,.]+ GiB or mo"):
        train("phrasebook", runs=tmp_path, overrides=huge)
    assert list(tmp_path.iterdir()) == []


def test_memory_is_compared_by_arithmetic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config()
    monkeypatch.setattr(starting, "usable_memory_bytes", lambda: 12 * count_weights(config))
    starting.refuse_too_large(config, "cpu")
    monkeypatch.setattr(starting, "usable_memory_bytes", lambda: 12 * count_weights(config) - 1)
    starting.refuse_too_large(config, "cuda")
    with pytest.raises(OutOfMemory, match=f"would have {count_weights(config):,} weights"):
        starting.refuse_too_large(config, "cpu")


# What is left behind


def test_a_run_leaves_a_scored_model_and_all_that_led_to_it(finished: Path) -> None:
    left = {path.name for path in finished.iterdir()}
    assert left - {"curves.png", "tensorboard"} == {
        *(".lock", "run.json", "recipe.toml", "data", "tokenizer", "corpus", "checkpoints", "metrics.jsonl"),
        *("best", "final", "scores.json", "conventions.json"),
    }
    assert ("curves.png" in left) == (importlib.util.find_spec("matplotlib") is not None)
    for name in ("best", "final"):
        assert load_model(finished / name).languages == ("en", "it")
    scores = json.loads((finished / "scores.json").read_text())
    (found,) = scores["evaluations"]
    assert found["test"]["lines"] == 8
    assert all(score["signature"] for score in found["scores"].values())


def test_models_keep_how_their_training_text_is_written(finished: Path) -> None:
    learnt = load_model(finished / "best").files.conventions
    assert isinstance(learnt, PairConventions) and learnt == load_model(finished / "final").files.conventions
    assert learnt.source.sentences == read_report(finished / "data").splits["train"].pairs
    assert not learnt.source.begins_with_capitals and learnt.source.has_sentences_without_mark
    assert {"the", "sees", "seeks"} <= set(learnt.source.words) and "vede" in learnt.target.words


def test_a_model_keeps_how_likely_its_translations_of_the_dev_set_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.inference.translation.MEASURED", 4)
    run = train_small(tmp_path).folder
    assert -2 <= load_model(run).files.generation["doubtful_below"] <= 0
    assert "doubtful_below" not in load_model(run / "final").files.generation, "it was not validated"
    brief = ["data.dev_size=8", "data.test_size=4", "train.steps=2", f"start.model={run}"]
    tuned = train(tmp_path / "corpus.tsv", overrides=brief, name="tuned", runs=tmp_path, device="cpu").folder
    assert read_recipe(tuned / "recipe.toml").decode.doubtful_below is None, "that of another model is not kept"
    assert "doubtful_below" in load_model(tuned).files.generation


def test_what_a_recipe_says_of_doubtful_translations_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.inference.translation.MEASURED", 4)
    run = train_small(tmp_path, "decode.doubtful_below=-1.5").folder
    assert load_model(run).files.generation["doubtful_below"] == -1.5


def test_training_text_is_written_as_most_of_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_conventions, "KNOWN", 0.1)
    pairs = [(f"{source}'s", target) for source, target in some_pairs()]
    pairs[7] = (pairs[7][0].replace("'", "’"), pairs[7][1])
    train_small(tmp_path, what=write_corpus(tmp_path / "corpus.tsv", pairs))
    (run,) = (tmp_path / "runs").iterdir()
    tokenizer = load_model(run).tokenizers.source
    spelt = [tokenizer.decode([id_]) for id_ in range(tokenizer.size)]
    assert any("'" in piece for piece in spelt) and not any("’" in piece for piece in spelt)


def test_every_step_is_in_the_journal_once(finished: Path) -> None:
    lines = read_metrics(finished)
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, STEPS + 1))
    assert [line["step"] for line in lines if "dev_chrf" in line] == [6, 12]


def test_the_recipe_says_everything_and_why(finished: Path) -> None:
    text = (finished / "recipe.toml").read_text()
    assert re.search(r"source_vocabulary = \d+ # from the tokenizer", text)
    for line in (
        "warmup_steps = 1 # a tenth of all steps",
        'precision = "float32" # as asked for',
        "learning_rate = 0.022 # for width 16",
    ):
        assert line in text
    recipe = parse(text, "recipe.toml", Recipe)
    assert recipe == parse(text, "again", Recipe)
    assert recipe.train.steps == STEPS and recipe.model.d_model == 16


def test_a_recipe_from_a_run_gives_the_same_run(finished: Path, tmp_path: Path) -> None:
    again = train(finished / "recipe.toml", runs=tmp_path, device="cpu", name="again")
    assert weights(again.folder) == weights(finished)
    first, second = (parse((run / "recipe.toml").read_text(), "", Recipe) for run in (finished, again.folder))
    assert first == second


def test_a_finished_run_says_so_and_rewrites_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    finished = train_small(tmp_path).folder
    before = times(finished)
    with caplog.at_level(logging.INFO):
        again = train_small(tmp_path)
        train(finished, device="cpu")
    assert caplog.text.count("is finished, its scores are in") == 2
    assert (again.folder, again.steps, again.evaluations) == (finished, STEPS, ())
    assert times(finished) == before


def test_fresh_takes_a_new_name_and_deletes_nothing(finished: Path) -> None:
    before = times(finished)
    fresh = train(finished, fresh=True, device="cpu")
    assert fresh.folder.name == "corpus-2"
    assert train_small(finished.parent.parent, "train.seed=2", fresh=True).folder.name == "corpus-3"
    assert train(finished, fresh=True, name="other", device="cpu").folder.name == "other"
    assert weights(fresh.folder) == weights(finished)
    assert times(finished) == before


def test_a_model_is_as_good_as_its_card_says(finished: Path) -> None:
    card = (finished / "best" / "README.md").read_text()
    assert "Trained on 184 pairs of corpus.tsv, " in card, "a card travels with the model, and names no folder"
    assert Translator.load(finished).translate(["the gatt sees the can"])[0].text


# What is read


def as_plain(folder: Path) -> Any:
    for side, name in enumerate(("a.en", "a.it")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in some_pairs()))
    return [folder / "a.en", folder / "a.it"]


def as_csv(folder: Path) -> Any:
    (folder / "a.csv").write_text("en,it\n" + "".join(f"{source},{target}\n" for source, target in some_pairs()))
    return str(folder / "a.csv")


def as_tsv(folder: Path) -> Any:
    return [write_corpus(folder / "a.tsv")]


def as_jsonl(folder: Path) -> Any:
    lines = (json.dumps({"en": source, "it": target}) + "\n" for source, target in some_pairs())
    (folder / "a.jsonl").write_text("".join(lines))
    return folder / "a.jsonl"


def as_recipe(folder: Path) -> Any:
    (folder / "a.toml").write_text(f'[data]\npath = "{as_tsv(folder)[0]}"\n')
    return folder / "a.toml"


def as_settings(folder: Path) -> Any:
    return Recipe(data=DataSettings(path=str(as_tsv(folder)[0])))


@pytest.mark.parametrize("write", [as_plain, as_csv, as_tsv, as_jsonl, as_recipe, as_settings])
def test_the_same_text_gives_the_same_weights_however_it_is_given(
    write: Callable[[Path], Any], finished: Path, tmp_path: Path
) -> None:
    result = train_small(tmp_path, what=write(tmp_path))
    assert result.folder.name == ("run" if write is as_settings else "a")
    assert weights(result.folder) == weights(finished)


def test_prepared_data_is_trained_on_as_it_is(finished: Path, tmp_path: Path) -> None:
    settings = DataSettings(path=str(write_corpus(tmp_path / "corpus.tsv")), dev_size=8, test_size=8)
    prepare_data(settings, tmp_path / "prepared")
    others = [setting for setting in SETTINGS if not setting.startswith("data.")]
    result = train(tmp_path / "prepared", overrides=others, runs=tmp_path / "runs", device="cpu")
    assert weights(result.folder) == weights(finished)
    text = (result.folder / "recipe.toml").read_text()
    assert 'source_language = "en" # from the prepared data' in text


def test_a_vocabulary_is_learnt_from_pairs_spread_over_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"s{number}", f"t{number}") for number in range(100)]
    settings = DataSettings(path=str(write_corpus(tmp_path / "corpus.tsv", pairs)), dev_size=0, test_size=0)
    prepare_data(settings, tmp_path / "data")
    monkeypatch.setattr(pairs_module, "SAMPLE", 20)
    recipe = Recipe(tokenizer=TokenizerSettings(kind="word", minimum_frequency=1))
    found = pairs_module.TranslationTask(RunFolder(tmp_path), recipe).learn_tokenizers()
    learnt = found.source.vocabulary.pieces[len(PLACEHOLDERS) :]
    assert sorted(learnt) == sorted(f"s{number}" for number in range(4, 100, 5))


def test_a_run_needs_neither_dev_nor_test_set(tmp_path: Path) -> None:
    result = train_small(tmp_path, "data.dev_size=0", "data.test_size=0")
    final, best = weights(result.folder)
    assert final == best
    assert result.evaluations == ()
    assert json.loads((result.folder / "scores.json").read_text())["evaluations"] == []


def test_one_pair_is_enough(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.tsv", some_pairs(1))
    assert train_small(tmp_path, "data.dev_size=0", "data.test_size=0").steps == STEPS


# Limits


def train_within(folder: Path, limit: str, **options: Any) -> tuple[RunResult, str]:
    """A run with another limit than steps, and its recipe."""
    others = [setting for setting in SETTINGS if not setting.startswith("train.steps")]
    what = write_corpus(folder / "corpus.tsv")
    result = train(what, overrides=[*others, limit], runs=folder / "runs", device="cpu", **options)
    return result, (result.folder / "recipe.toml").read_text()


def test_epochs_become_steps_once(finished: Path, tmp_path: Path) -> None:
    kept = parse((finished / "recipe.toml").read_text(), "", Recipe)
    corpus = EncodedCorpus.open(finished / "corpus" / "train")
    assert isinstance(kept.batches.batch_tokens, int)
    batches = Batches(corpus, kept.batches.batch_tokens, kept.batches.sentence_tokens, kept.train.seed)
    epochs = [len(batches.epoch(number)) for number in (0, 1)]
    result, text = train_within(tmp_path, "train.epochs=1.5")
    assert result.steps == epochs[0] + round(epochs[1] / 2)
    assert f"steps = {result.steps} # 1.5 epochs, as asked for" in text


def test_minutes_become_steps_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.05)
    with pytest.raises(Interrupted):
        train_within(tmp_path, "train.minutes=0.05", progress=AtSteps({1: terminate}))
    before = (tmp_path / "runs" / "corpus" / "recipe.toml").read_text()
    monkeypatch.setattr(trial, "Trainer", None)  # there is no second trial
    result, text = train_within(tmp_path, "train.minutes=0.05")
    assert text == before
    assert re.search(rf"steps = {result.steps} # 0.05 minutes, as asked for, at \d", text)


class Steps:
    """A device whose steps take these seconds, `queueing` of which the host takes too, on a clock that it sets."""

    def __init__(self, seconds: Iterable[float], queueing: float) -> None:
        self.seconds, self.queueing = iter(seconds), queueing
        self.now = self.free = 0.0
        self.taken, self.batches = 0, ()

    def step(self, _: Any) -> Any:
        """Take a step of 100 tokens, whose report waits until it is done."""
        self.now += self.queueing
        self.taken += 1
        done = self.free = max(self.now, self.free + next(self.seconds))

        def report() -> Any:
            self.now = max(self.now, done)
            return SimpleNamespace(tokens=100)

        return SimpleNamespace(report=report)


@pytest.mark.parametrize(
    ("seconds", "queueing", "at_once"),
    [
        ([0.2, 5.0, *repeat(0.2, 98)], 0.2, 1),  # the machine stalls
        ([*repeat(5.0, trial.STRETCH), *repeat(0.02, 9_999)], 0.015, trial.STRETCH),  # kernels are prepared
        ([*repeat(5.0, trial.STRETCH), *repeat(0.02, 9_999)], 0.001, trial.STRETCH),
    ],
)
def test_a_trial_finds_the_seconds_of_a_usual_step(
    seconds: list[float], queueing: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Steps(seconds, queueing)
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: device.now))
    monkeypatch.setattr(trial, "fetch", lambda *_: None)
    tried: Any = object.__new__(trial.Trial)
    tried.recipe = SimpleNamespace(train=SimpleNamespace(accumulate=1))
    tried.world, tried.trainer, tried.at_once = SimpleNamespace(any=bool), device, at_once
    tried.order, tried.batches = range(7), SimpleNamespace(tokens=700)
    assert tried.seconds_a_step(silent) == pytest.approx(seconds[-1])
    assert device.taken % at_once == 0


def test_minutes_leave_room_for_the_validations_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "try_out", lambda *_: (0.01, 0.05))
    steps = {}
    for setting in ("", "train.validate_every=5", "train.validate_every=2"):
        others = [each for each in SETTINGS if not each.startswith(("train.steps", "train.validate_every"))]
        overrides = [*others, "train.minutes=0.01", *filter(None, [setting])]
        result = train(
            write_corpus(tmp_path / "corpus.tsv"), overrides=overrides, runs=tmp_path, fresh=True, device="cpu"
        )
        kept = parse((result.folder / "recipe.toml").read_text(), "", Recipe).train
        assert kept.steps and kept.validate_every
        steps[setting] = kept.steps, -(-kept.steps // kept.validate_every)
    for count, validations in steps.values():
        assert 0.4 < count * 0.01 + validations * 0.05 < 0.66
    assert steps["train.validate_every=2"] < steps["train.validate_every=5"] < steps[""]


def test_one_limit_is_asked_for_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="give one of train.steps, train.epochs and train.minutes, not train.steps and train.epochs"
    ):
        train_small(tmp_path, "train.epochs=3")


# What can be asked


def test_whoever_trains_hands_on_every_option_of_train() -> None:
    """`RunOptions` and the signature of `train` name the same, but for settings of the recipe, so that neither falls
    behind. Only from Python does work show a bar by default."""
    options = {p.name: p.default for p in inspect.signature(train).parameters.values() if p.kind is p.KEYWORD_ONLY}
    defaults = {field.name: field.default for field in dataclasses.fields(RunOptions)}
    assert {name for name in options if name not in defaults} == {"task", "minutes"}
    assert {name: options[name] for name in defaults} == defaults | {"progress": True}


# What cannot be


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "nothing.tsv",
            r"nothing.tsv does not exist: train takes a recipe .*, data .*, or one of the recipes .*phraseb",
        ),
        ("phrasebok", "phrasebok does not exist.*phrasebook"),
        ("nothing.toml", "nothing.toml does not exist"),
        (["a", "b", "c"], "c is one side of a text; name the file that is aligned with it next to it"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_made(what: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(Error, match=message):
        train(what, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_text_that_cannot_be_used_leaves_no_run_behind(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.tsv", [("same", "same")])
    with pytest.raises(DataError, match="none of the 1 rows"):
        train_small(tmp_path)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_wrong_number_of_threads_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="threads must be from 1 to 1,024, but is 0"):
        train_small(tmp_path, threads=0)
    assert not (tmp_path / "runs").exists()


def test_a_model_is_no_text(finished: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"best is a model; train it on other text with: dragoman fine-tune .*best DATA"
    ):
        train(finished / "best")


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "runs" / "thesis").mkdir(parents=True)
    (tmp_path / "runs" / "thesis" / "chapter-1.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"thesis is not a run, and not empty \(chapter-1.tex\); take another --name"):
        train_small(tmp_path, name="thesis")
    assert [path.name for path in (tmp_path / "runs" / "thesis").iterdir() if path.name != ".lock"] == ["chapter-1.tex"]


def test_a_file_in_the_place_of_the_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ConfigError, match="corpus cannot be made: Not a directory; take another --name or --runs"):
        train_small(tmp_path)


def test_a_run_keeps_its_name(finished: Path) -> None:
    with pytest.raises(ConfigError, match="is a run and has its name; --name goes with a recipe, data, or --fresh"):
        train(finished, name="other")


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "corpus"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"format": 2}')
    with pytest.raises(ConfigError, match="run.json has format 2, newer .*; take another --name"):
        train_small(tmp_path)


def test_facts_that_another_version_adds_are_kept(finished: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "corpus")
    facts = json.loads((run / "run.json").read_text()) | {"of another version": [1]}
    (run / "run.json").write_text(json.dumps(facts))
    assert train(run, device="cpu").steps == STEPS
    assert json.loads((run / "run.json").read_text()) == facts


UNUSABLE: list[tuple[list[tuple[str, str]], tuple[str, ...], str]] = [
    ([("same", "same")] * 20, (), "none of the 20 rows of .*corpus.tsv can be used"),
    (some_pairs(5), (), "5 usable pairs: too few to split off 8 for dev and 8 for test"),
    (some_pairs(40), ("batches.sentence_tokens=2",), "sentence of more than 2 tokens; raise batches.sentence_tokens"),
    (some_pairs(40), ("model.source_vocabulary=7",), "source_vocabulary is 7, but the source tokenizer has"),
    (some_pairs(40), ("model.tied=all",), "'all' needs one joint vocabulary"),
    (some_pairs(40), ("model.heads=3",), "heads"),
    (some_pairs(40), ("model.layers=3",), "unknown setting model.layers"),
    (some_pairs(40), ("nonsense",), "--set takes KEY=VALUE"),
]


def test_what_cannot_be_used_is_said_and_mended_by_the_same_command(tmp_path: Path) -> None:
    for pairs, overrides, message in UNUSABLE:
        write_corpus(tmp_path / "corpus.tsv", pairs)
        with pytest.raises((ConfigError, DataError), match=message):
            train_small(tmp_path, *overrides)
    assert train_small(tmp_path).folder.name == "corpus", "nothing was resolved yet that stands in the way"


def test_settings_may_change_until_something_was_made_of_them(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.tsv")
    with pytest.raises(ConfigError, match="'all' needs one joint vocabulary"):
        train_small(tmp_path, "model.tied=all")
    with pytest.raises(ConfigError, match="tokenizer.kind was 'word', is 'bpe'"):
        train_small(tmp_path, "tokenizer.kind=bpe")
    assert train_small(tmp_path, "model.d_ff=24").steps == STEPS


@pytest.mark.parametrize("epochs", [0.5, 3.0, 99.5, 250.0, 100_000.0])
def test_many_epochs_are_not_counted_one_by_one(epochs: float) -> None:
    class Ten:
        asked = 0

        def epoch(self, _number: int) -> range:
            self.asked += 1
            return range(10)

    batches: Any = Ten()
    assert resolving.batches_in(batches, epochs) == 10 * epochs
    assert batches.asked <= 101
