"""Classifying, tagging and filling in, from a file to a scored model: learnt, resumed, compared, refused by name."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from families import Trained
from small import parse, small_config
from small_labelled import BRIEF, HELD_OUT, LEARNS, NOUNS, SIZES, WRITERS, sentences, train, write_entities, write_texts
from small_runs import AtSteps, terminate, times, train_small, weights

import dragoman
from dragoman.cli.main import main
from dragoman.errors import CheckpointError, ConfigError, Interrupted
from dragoman.evaluating.labels_evaluation import LabelEvaluation
from dragoman.evaluating.scores import read_evaluations
from dragoman.inference.labels import expected_calibration_error
from dragoman.inference.predictor import Classified, Filled, Predictor, Tagged
from dragoman.model.transformer import EncoderModel, build_model
from dragoman.runs import trial
from dragoman.runs.compare import compare
from dragoman.runs.labelled import read_labelled
from dragoman.runs.metrics_log import read_metrics
from dragoman.runs.recipe import Recipe, read_recipe
from dragoman.runs.starting import fresh_state, starting_config
from dragoman.runs.train import seed_runs, spreads, train_seeds
from dragoman.store.description import ModelFiles
from dragoman.store.folder import load_model
from dragoman.store.saving import save_model
from dragoman.tokenizing.special_tokens import END, START, Framing
from dragoman.tokenizing.tokenizers import Tokenizers
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer


@pytest.fixture(scope="module")
def classifier(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("classify", tmp_path_factory.mktemp("classify"))


@pytest.fixture(scope="module")
def filler(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("fill", tmp_path_factory.mktemp("fill"))


@pytest.fixture(scope="module")
def translator_run(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("translation", tmp_path_factory.mktemp("translate"))


# It learns


def test_a_classifier_learns_which_word_decides(classifier: Path) -> None:
    [found] = read_evaluations(classifier / "scores.json")
    assert found.system.endswith("best")
    majority, *_ = baselines = json.loads((classifier / "scores.json").read_text())["baselines"]
    assert {each["system"] for each in baselines} >= {"majority label"}
    assert found.scores["accuracy"].value > 90 > majority["scores"]["accuracy"]["value"]
    seer = Predictor.load(classifier, "cpu", "float32")
    for verb, label in (("roars", "loud"), ("rests", "calm")):
        [told] = seer.predict([f"the old dog near cat {verb}"])
        assert isinstance(told, Classified) and told.label == label
    assert any("dev_accuracy" in line for line in read_metrics(classifier))
    assert (classifier / "best" / "README.md").read_text().startswith("# Classifier")
    recipe = read_recipe(classifier / "recipe.toml")
    assert (recipe.task, recipe.model.family, recipe.model.labels) == ("classify", "encoder", 2)
    assert recipe.model.pooling == "mean"


def test_a_tagger_learns_what_the_word_before_says(tmp_path: Path) -> None:
    result = train("tag", tmp_path, *LEARNS, "train.steps=150")
    *baselines, found = result.evaluations
    assert found.scores["f1"].value > 90 > max(each.scores["f1"].value for each in baselines)
    [told] = Predictor.load(result.folder, "cpu", "float32").predict(["the old dog mr anna smith near cat barks"])
    assert isinstance(told, Tagged)
    assert [choice.name for choice in told.labels] == ["O"] * 4 + ["B-person", "I-person"] + ["O"] * 3
    assert main(["evaluate", str(result.folder), "--quiet", "--samples", "10", "--device", "cpu"]) == 0
    (tmp_path / "iob1.conll").write_text((tmp_path / "words.conll").read_text().replace("\tB-", "\tI-"))
    place: dict[str, Any] = {"device": "cpu", "precision": "float32", "samples": 10}
    scores = [
        compare(result.folder, tmp_path / name, **place).evaluations[0].scores["f1"].value
        for name in ("words.conll", "iob1.conll")
    ]
    assert scores[0] == scores[1] > 90


def test_masked_words_are_found_by_the_words_around_them(filler: Path) -> None:
    [found] = json.loads((filler / "scores.json").read_text())["evaluations"]
    assert found["scores"]["accuracy"]["value"] > 80
    [told] = Predictor.load(filler, "cpu", "float32").predict(["the [MASK] quacks"])
    assert isinstance(told, Filled) and told.masks[0][0].name == "duck"


# Resumed


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("classify", ("model.pooling=first",)),
        ("fill", ("train.accumulate=2",)),
        ("tag", ("train.optimiser=muon",)),
        ("fill", ("train.ema=0.5", "tokenizer.kind=bpe")),
    ],
)
def test_a_stopped_run_ends_in_the_same_bytes(task: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    whole = train(task, tmp_path / "whole", *BRIEF, *settings)
    with pytest.raises(Interrupted, match="stopped at step 3 of 6"):
        train(task, tmp_path / "cut", *BRIEF, *settings, progress=AtSteps({3: terminate}))
    resumed = train(task, tmp_path / "cut", *BRIEF, *settings)
    assert weights(resumed.folder) == weights(whole.folder)
    for kind in ("loss", "dev_loss"):
        found, expected = (
            [(line["step"], line[kind]) for line in read_metrics(run.folder) if kind in line]
            for run in (resumed, whole)
        )
        assert found == expected
    assert (resumed.folder / "scores.json").read_text().replace("cut", "whole") == (
        whole.folder / "scores.json"
    ).read_text()
    before = times(whole.folder)
    assert train(task, tmp_path / "whole", *BRIEF, *settings).evaluations == ()
    assert times(whole.folder) == before


def test_a_run_goes_on_only_with_the_settings_that_it_began_with(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train("classify", tmp_path, *BRIEF, progress=AtSteps({3: terminate}))
    with pytest.raises(ConfigError, match=r"model\.pooling was 'mean', is 'first'"):
        train("classify", tmp_path, *BRIEF, "model.pooling=first")


# The commands


def test_what_a_run_would_take_is_told_without_training(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.0)
    path = write_texts(tmp_path / "texts.csv")
    sets = [part for setting in (*SIZES, *HELD_OUT, *LEARNS) for part in ("--set", setting)]
    command = ["train", str(path), "--task", "classify", "--runs", str(tmp_path / "runs"), "--device", "cpu", "--quiet"]
    assert main([*command, *sets, "--dry-run"]) == 0
    told = capsys.readouterr().out
    count = sum(weight.numel() for weight in load_model(classifier).model.parameters())
    assert f"{count:,}" in told and "80" in told
    assert not (tmp_path / "runs" / "texts" / "recipe.toml").exists()


def test_a_classifier_is_scored_with_its_confusions_and_against_another(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(classifier)
    options = ["--samples", "20", "--device", "cpu", "--precision", "float32", "--quiet"]
    files = ["--output", str(tmp_path / "labels.txt"), "--scores", str(tmp_path / "scores.json")]
    assert main(["evaluate", run, "--against", f"{run}/final", *files, *options]) == 0
    told = capsys.readouterr().out
    for word in ("accuracy", "macro F1", "loud", "calm", "points (expected calibration error)"):
        assert word in told
    labels = (tmp_path / "labels.txt").read_text().split()
    assert len(labels) == 40 and {*labels} == {"loud", "calm"}
    assert len(json.loads((tmp_path / "scores.json").read_text())["comparisons"]) == 2
    assert main(["evaluate", run, "--format", "json", *options]) == 0
    [facts] = json.loads(capsys.readouterr().out)
    kept = read_evaluations(classifier / "scores.json")[-1]
    assert facts["scores"]["accuracy"]["value"] == kept.scores["accuracy"].value
    seer, test = Predictor.load(run, "cpu", "float32"), [*read_labelled(classifier / "data", "classify", "test")]
    labelled = seer.predict([text for [text], _ in test], words=False)
    chances = torch.tensor([[each["probability"] for each in one.facts()["labels"]] for one in labelled])
    right = torch.tensor(
        [0 if one.facts()["labels"][0]["name"] == gold else 1 for one, (_, [gold]) in zip(labelled, test, strict=True)]
    )
    assert facts["calibration_error"] == pytest.approx(100 * expected_calibration_error(chances, right), abs=1e-3)


def test_a_finished_run_shows_its_baselines_again(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(classifier), "--quiet", "--device", "cpu"]) == 0
    assert "majority label" in capsys.readouterr().out


def test_an_empty_text_is_labelled_with_a_warning(classifier: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["predict", str(classifier), " ", "the old dog near cat barks", "--quiet"]) == 0
    assert "1 of 2 texts are empty: their predictions mean nothing" in caplog.text


def test_another_test_set_is_read_as_the_run_read_its_text(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts.csv")
    rows = (tmp_path / "texts.csv").read_text().replace(",loud", ",loud:very").replace(",calm", ",calm:quite")
    (tmp_path / "texts.txt").write_text(rows)
    settings = ["task=classify", "data.format=csv", "data.label_depth=1", *SIZES, *HELD_OUT, *LEARNS]
    run = dragoman.train(tmp_path / "texts.txt", overrides=settings, runs=tmp_path / "runs", device="cpu").folder
    (tmp_path / "other.csv").write_text(rows)
    found = dragoman.compare([run], tmp_path / "other.csv", device="cpu").evaluations[0]
    assert found.scores["accuracy"].value > 80


def test_other_labelled_text_can_be_the_test_set(classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("label,text\nloud,the old dog near cat roars\ncalm,the red pig near hen rests\nodd,the cow\n")
    found = compare(classifier, path, overrides=["data.text_column=text"], device="cpu", samples=0)
    [evaluation] = found.evaluations
    assert isinstance(evaluation, LabelEvaluation)
    assert [row[0] for row in evaluation.gold] == ["loud", "calm", "odd"]
    assert [row[0] for row in evaluation.predicted][:2] == ["loud", "calm"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("evaluate {run} --metric chrf", "--metric, --language and --lowercase are about translations"),
        ("evaluate {run} --set decode.beam_size=3", "takes only settings that say how text is read"),
        ("evaluate {run}/best", "is not a run with a test set; name one"),
        ("evaluate {run} a.csv b.csv", "labelled text holds its own labels"),
        ("evaluate {run} --against {fill}", "is for the task classify, but"),
        ("evaluate {fill}", "fills in words; its scores are in scores.json of its run"),
        ("translate {run} text", "use dragoman predict"),
        ("predict {translation} text", "use dragoman translate"),
        ("predict {fill} text", "has no [MASK] to fill in"),
        ("fine-tune {run} phrasebook", "takes a translation model"),
    ],
)
def test_what_a_model_cannot_do_is_refused_in_one_line(
    arguments: str, told: str, classifier: Path, filler: Path, translator_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"run": classifier, "fill": filler, "translation": translator_run}
    assert main([part.format(**places) for part in arguments.split()]) in (2, 4)
    error = capsys.readouterr().err.strip()
    assert told in error.splitlines()[-1] and "Traceback" not in error


def test_tensorboard_shows_what_is_measured_of_labels(classifier: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [folder] = {path.parent for path in classifier.glob("tensorboard/**/*tfevents*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    assert "dev_accuracy" in events.Tags()["scalars"] or any("accuracy" in tag for tag in events.Tags()["scalars"])


@pytest.mark.thorough
def test_several_seeds_differ_and_are_compared_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_texts(tmp_path / "texts.csv")
    settings = ["task=classify", *SIZES, *HELD_OUT, *BRIEF]
    train_seeds(path, 2, overrides=settings, runs=tmp_path / "runs", device="cpu")
    runs = seed_runs(tmp_path / "runs" / "texts")
    assert len(runs) == 2 and weights(runs[0]) != weights(runs[1])
    assert {spread.test for spread in spreads(runs)} == {"test"} and len(spreads(runs)) == 2
    group = str(tmp_path / "runs" / "texts")
    assert main(["evaluate", group, "--against", group, "--samples", "10", "--quiet", "--device", "cpu"]) == 0
    assert "mean and standard deviation of 2 seeds" in capsys.readouterr().out


# Started from another model


def first_weights(run: Path) -> EncoderModel:
    """The weights of a run before its first step."""
    model, _ = fresh_state(read_recipe(run / "recipe.toml"), "cpu")
    assert isinstance(model, EncoderModel)
    return model


def started(task: str, folder: Path, start: Path, *overrides: str) -> Any:
    """Trains a few steps from another model, whose sizes hold."""
    name, write, held_out = WRITERS[task]
    write(folder / name)
    settings = [f"task={task}", *held_out, *BRIEF, "train.precision=float32", f"start.model={start}", *overrides]
    return dragoman.train(folder / name, overrides=settings, runs=folder / "runs", device="cpu")


def test_a_classifier_takes_embedding_encoder_and_tokenizer_of_a_model_that_fills(filler: Path, tmp_path: Path) -> None:
    run, start = started("classify", tmp_path, filler, "model.pooling=first").folder, load_model(filler)
    model = first_weights(run)
    for name, weight in model.named_parameters():
        if name.startswith(("source_embedding", "encoder")):
            assert torch.equal(weight, start.model.get_parameter(name)), name
    assert model.output.shape == (2, 32) and model.config.pooling == "first"
    assert Tokenizers.load(run / "tokenizer").source.identity == start.tokenizers.source.identity
    assert load_model(run).labels.names == ("calm", "loud")


def test_a_model_that_fills_goes_on_with_all_weights_of_another(filler: Path, tmp_path: Path) -> None:
    run = started("fill", tmp_path, filler).folder
    own = dict(load_model(filler).model.named_parameters())
    assert all(torch.equal(weight, own[name]) for name, weight in first_weights(run).named_parameters())


@pytest.mark.parametrize("task", ["classify", "fill"])
def test_an_encoder_starts_from_that_of_a_translation_model(task: str, translator_run: Path, tmp_path: Path) -> None:
    run, start = started(task, tmp_path, translator_run).folder, load_model(translator_run)
    model = first_weights(run)
    taken = [name for name, _ in model.named_parameters() if name.startswith(("source_embedding", "encoder"))]
    assert len(taken) > 5
    for name in taken:
        assert torch.equal(model.get_parameter(name), start.model.get_parameter(name)), name
    tokenizers = Tokenizers.load(run / "tokenizer")
    assert tokenizers.source.identity == tokenizers.target.identity == start.tokenizers.source.identity


def test_all_but_the_new_head_of_a_classifier_is_frozen(translator_run: Path, tmp_path: Path) -> None:
    run = started("classify", tmp_path, translator_run, 'tuning.freeze=["all but head"]').folder
    start, own = load_model(translator_run).model, load_model(run).model
    kept = [name for name, _ in own.named_parameters() if name.startswith(("source_embedding", "encoder"))]
    assert len(kept) > 5
    assert all(torch.equal(own.get_parameter(name), start.get_parameter(name)) for name in kept)
    with pytest.raises(ConfigError, match="'decoder'"):
        started("classify", tmp_path, translator_run, 'tuning.freeze=["decoder"]', "data.seed=2")
    assert len([*(tmp_path / "runs").glob("*/data")]) == 1, "refused before any text is prepared"


def test_symbols_around_texts_are_those_of_the_model_that_a_run_starts_from(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer([" ".join(NOUNS)], TokenizerSettings(kind="word", minimum_frequency=1))
    framing = Framing(source_before=(), source_after=(END, START))
    start = build_model(small_config(family="encoder", source_vocabulary=tokenizer.size), seed=1)
    save_model(tmp_path / "run" / "best", start, ModelFiles(Tokenizers(tokenizer, tokenizer), framing=framing))
    run = started("classify", tmp_path, tmp_path / "run").folder
    assert load_model(run).files.framing == framing


def test_an_encoder_starts_from_no_language_model(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer([" ".join(NOUNS)], TokenizerSettings(kind="word", minimum_frequency=1))
    writer = build_model(small_config(family="language_model", target_vocabulary=tokenizer.size), seed=1)
    save_model(tmp_path / "writer", writer, ModelFiles(Tokenizers(tokenizer, tokenizer)))
    with pytest.raises(ConfigError, match="holds a language model; task = 'classify' starts from an encoder alone or"):
        started("classify", tmp_path, tmp_path / "writer")
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        started("classify", tmp_path, tmp_path / "nowhere")
    assert not (tmp_path / "runs").exists() or not [*(tmp_path / "runs").iterdir()]


def test_a_translation_starts_from_no_encoder(filler: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds an encoder alone; task = 'translation' starts from a translation"):
        train_small(tmp_path, f"start.model={filler}")


# Refused


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        ("classify", "model.family=encoder_decoder", r"sets model\.family = 'encoder' itself; leave model\.family out"),
        ("fill", "model.family=language_model", r"sets model\.family = 'encoder' itself"),
        ("classify", "decode.beam_size=3", r"decode\.beam_size is about translations; task = 'classify' makes none"),
        ("classify", "data.source_column=text", r"reads labelled texts and has no use for data\.source_column"),
        ("fill", "data.label_column=x", r"task = 'fill' reads running text and has no use for data\.label_column"),
        ("classify", "data.checks.max_words=5", r"has no use for data\.checks\.max_words"),
        ("tag", "data.header=true", r"reads labelled words and has no use for data\.header"),
        ("fill", "model.labels=3", r"model\.labels is the number of labels; task = 'fill' has none"),
        ("classify", "model.output_bias=true", r"model\.output_bias is a bias of target tokens"),
        ("classify", "model.tied=none", r"model\.tied joins the matrices of tokens; task = 'classify' predicts labels"),
        ("tag", "model.decoder_layers=2", r"model\.decoder_layers: an encoder alone has no decoder"),
        ("tag", "model.target_vocabulary=50", r"model\.target_vocabulary: an encoder alone has no target"),
        ("tag", "model.pooling=mean", r"only task = 'classify' does"),
        ("fill", "model.pooling=mean", r"only task = 'classify' does"),
    ],
)
def test_settings_that_an_encoder_alone_would_ignore_are_refused(
    task: str, setting: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(task, tmp_path, setting)
    assert not (tmp_path / "runs").exists() or not [*(tmp_path / "runs").iterdir()]


def test_another_number_of_labels_than_the_text_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.labels is 7, but there are 2 labels; leave it out"):
        train("classify", tmp_path, "model.labels=7")


def test_a_vocabulary_for_each_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.joint = false gives each side a vocabulary"):
        train("classify", tmp_path, "tokenizer.kind=bpe", "tokenizer.joint=false")


def test_two_aligned_files_are_no_labelled_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads one text, not two aligned files"):
        dragoman.train(["a.en", "b.it"], overrides=["task=classify"], runs=tmp_path / "runs", device="cpu")


def test_labels_of_entities_that_are_not_bio_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = write_entities(tmp_path / "words.conll").read_text()
    (tmp_path / "words.conll").write_text(text.replace("I-person", "E-person").replace("B-place", "S-place"))
    result = train("tag", tmp_path, "train.steps=1", "train.validate_every=1")
    assert caplog.text.count("the labels look like BIOES or BILOU: they are scored as plain labels") == 1
    assert list(result.evaluations[-1].scores) == ["accuracy", "macro_f1"]
    assert [each.system for each in result.evaluations[:-1]] == ["most frequent tag"]


def test_how_uneven_labels_are_is_said_and_a_baseline_that_is_ahead_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(" ".join(row), "rare" if number < 8 else "common") for number, row in enumerate(sentences(250))]
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    with caplog.at_level(logging.INFO):
        result = train("classify", tmp_path, "train.steps=1", "train.validate_every=1", "train.learning_rate=1e-9")
    majority, *_, model = result.evaluations
    assert majority.scores["accuracy"].value > model.scores["accuracy"].value
    assert "a baseline beats this model on test.jsonl: majority label is better" in caplog.text
    assert "the most frequent label has" in caplog.text


def test_an_encoder_takes_no_head_that_aligns_from_a_translation_model() -> None:
    recipe = parse('task = "classify"\n[start]\nmodel = "runs/mini"\n', "recipe.toml", Recipe)
    assert starting_config(small_config(alignment_head=(1, 0)), recipe).alignment_head is None
