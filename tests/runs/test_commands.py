"""Every command is its function: both are called on the same small input, and leave the same."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from families import Trained
from small_runs import SETTINGS, train_command, train_small, weights, write_corpus

import dragoman
from dragoman.cli.main import COMMANDS, main
from dragoman.errors import ConfigError
from dragoman.explaining.embeddings import answer, read_question
from dragoman.inference.options import SearchOptions
from dragoman.runs import installation, trial
from dragoman.runs.train import RunResult
from dragoman.serving.keys import ApiKeys, create_key, withdraw_key
from dragoman.text.settings import DataSettings, ReadingSettings
from dragoman.tokenizing.training import TokenizerSettings

GREEDY = ("--set", "decode.beam_size=1")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "text" / "corpus.tsv")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*arguments: str | Path) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run


def left_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pairs_of_folders(folder: Path) -> Iterator[Path]:
    for name in ("by-command", "by-function"):
        (folder / name).mkdir()
        yield folder / name


def test_every_command_is_held_to_its_function_here() -> None:
    commands = {command.__name__ for command in COMMANDS}
    held = {name.removeprefix("test_").partition("_leaves_")[0] for name in globals() if "_leaves_" in name}
    assert held == commands - {"serve"}  # which leaves nothing, and is tried as a process (tests/serving)


def test_prepare_data_leaves_the_same(text: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    settings = DataSettings(path=str(text), dev_size=8, test_size=9)
    sizes = ("--set", "dev_size=8", "--set", "data.test_size=9", "--format", "json")
    told = printed("prepare-data", text, "--folder", tmp_path / "one", *sizes)
    report = dragoman.prepare_data(settings, tmp_path / "two")
    assert json.loads(told) == report.model_dump(mode="json")
    assert left_in(tmp_path / "one") == left_in(tmp_path / "two")


def test_train_tokenizer_leaves_the_same(text: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    options = ("--kind", "unigram", "--vocabulary-size", "300", "--set", "joint=false", "--set", "data.header=true")
    told = printed("train-tokenizer", text, "--folder", tmp_path / "one", *options)
    settings = TokenizerSettings(kind="unigram", vocabulary_size=300, joint=False)
    result = dragoman.train_tokenizer(str(text), tmp_path / "two", settings, ReadingSettings(header=True))
    assert left_in(tmp_path / "one").keys() == left_in(tmp_path / "two").keys()
    source = result.tokenizers.source
    assert f"{source.size}" in told and " ".join(source.tokens(source.encode(result.example[0]))) in told


def test_evaluate_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    (tmp_path / "other.it").write_text("il gatto\n" * 6, encoding="utf-8")
    by_command, by_function = pairs_of_folders(tmp_path)
    asked = ("--samples", "20", "--metric", "chrf", "--lowercase", "--format", "json", *GREEDY)
    files = ("--output", by_command / "output.it", "--scores", by_command / "scores.json")
    told = json.loads(printed("evaluate", run_folder, "--against", tmp_path / "other.it", *files, *asked))
    result = dragoman.compare(
        [run_folder, tmp_path / "other.it"],
        output=by_function / "output.it",
        scores=by_function / "scores.json",
        overrides=[GREEDY[1]],
        samples=20,
        metrics=["chrf"],
        lowercase=True,
    )
    assert told == json.loads(json.dumps([evaluation.facts() for evaluation in result.evaluations]))
    assert [comparison.metric for comparison in result.comparisons] == ["chrF2"]
    assert left_in(by_command) == left_in(by_function)


def test_report_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    by_command, by_function = pairs_of_folders(tmp_path)
    (tmp_path / "terms.tsv").write_text("cat\tgatto\n", encoding="utf-8")
    asked = ("--terms", tmp_path / "terms.tsv", "--format", "json", *GREEDY)
    told = json.loads(printed("report", run_folder, "--folder", by_command, *asked))
    report = dragoman.report(run_folder, terms=tmp_path / "terms.tsv", folder=by_function, overrides=[GREEDY[1]])
    measured = {"page", "speeds", "memory_bytes"}
    assert {**told, **dict.fromkeys(measured)} == {**report.model_dump(mode="json"), **dict.fromkeys(measured)}
    assert left_in(by_command).keys() == left_in(by_function).keys()
    (stored,) = by_command.glob("test-*.jsonl")
    assert stored.read_bytes() == (by_function / stored.name).read_bytes()


def test_translate_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    texts = ["the gatt sees the top", "", "the can. the lup"]
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    printed("translate", run_folder, "--input", tmp_path / "in.en", "--output", tmp_path / "out.it", "--beam-size", "2")
    translations = dragoman.translate(run_folder, texts, SearchOptions(beam_size=2))
    assert (tmp_path / "out.it").read_text("utf-8") == "".join(f"{translation.text}\n" for translation in translations)


def test_score_leaves_the_same(run_folder: Path, text: Path, printed: Callable[..., str]) -> None:
    header = ("--set", "data.header=true")
    told = printed("score", run_folder, text, "--format", "json", "--length-penalty", "1", *header)
    pairs = dragoman.score(run_folder, str(text), ["data.header=true", "decode.length_penalty=1"])
    facts = [{**dataclasses.asdict(pair), "mean_log_prob": pair.mean_log_prob} for pair in pairs]
    assert [json.loads(line) for line in told.splitlines()] == json.loads(json.dumps(facts))


def test_filter_leaves_the_same(
    run_folder: Path, reverse_folder: Path, tmp_path: Path, printed: Callable[..., str]
) -> None:
    text, by_command, by_function = run_folder.parent / "pairs.tsv", tmp_path / "one", tmp_path / "by_function"
    told = printed(
        "filter", run_folder, reverse_folder, text, "--folder", by_command, "--keep", "0.5", "--format", "json"
    )
    report = dragoman.filter_pairs(run_folder, reverse_folder, str(text), by_function, keep=0.5)
    assert json.loads(told) == report.model_dump(mode="json") and left_in(by_command) == left_in(by_function)


def leave_the_same_pairs(name: str, function: Any, model: Path, folder: Path, printed: Callable[..., str]) -> None:
    text, by_command, by_function = folder / "lines.txt", folder / "one", folder / "by_function"
    nouns = ("gatt", "can", "top", "lup")
    text.write_text("".join(f"the {first} sees the {second}\n" for first in nouns for second in nouns), "utf-8")
    asked = ("--set", "decode.temperature=1", "--keep", "0.5", "--format", "json")
    told = printed(name, model, text, "--folder", by_command, *asked)
    report = function(model, text, by_function, overrides=["decode.temperature=1"], keep=0.5)
    assert json.loads(told) == report.model_dump(mode="json") and left_in(by_command) == left_in(by_function)


def test_back_translate_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    leave_the_same_pairs("back-translate", dragoman.back_translate, run_folder, tmp_path, printed)


def test_distil_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    leave_the_same_pairs("distil", dragoman.distil, run_folder, tmp_path, printed)


def test_predict_leaves_the_same(models: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    texts = ["the gatt sees", "", "the can"]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    for name, lines in (("classifier", texts), ("tagger", texts), ("filler", ["the [MASK] sees"])):
        asked = ("--input", tmp_path / "in.txt") if lines is texts else lines
        told = printed("predict", models / name, *asked, "--words", "--best", "1", "--format", "json")
        predictions = dragoman.predict(models / name, lines, best=1)
        assert [json.loads(line) for line in told.splitlines()] == json.loads(
            json.dumps([row.facts() for row in predictions])
        )


def test_generate_leaves_the_same(models: Path, printed: Callable[..., str]) -> None:
    arguments = ("--tokens", "5", "--temperature", "2", "--top-k", "9", "--samples", "2", "--format", "json")
    told = printed("generate", models / "lm", "the gatt", *arguments)
    options = dragoman.GenerateOptions(tokens=5, temperature=2, top_k=9, samples=2)
    texts = dragoman.generate(models / "lm", ["the gatt"], options)
    assert [json.loads(line) for line in told.splitlines()] == [dataclasses.asdict(generated) for generated in texts]
    alone = printed("generate", models / "lm", "the gatt", *arguments[:6])
    assert alone == f"the gatt{texts[0].text}\n"


def test_benchmark_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    def counts(measured: Any) -> list[tuple[str, ...]]:
        return [tuple(speed[key] for key in ("search", "batch", "sentences", "tokens")) for speed in measured["speeds"]]

    output = tmp_path / "measured.json"
    options = ("--sentences", "3", "--rounds", "1", "--output", output, "--format", "json", *GREEDY)
    told = json.loads(printed("benchmark", run_folder, *options))
    assert told == json.loads(output.read_text("utf-8"))
    result = dragoman.benchmark([run_folder], sentences=3, rounds=1, overrides=[GREEDY[1]])
    assert counts(told) == counts(result.facts()) and told["machine"] == result.machine


def test_runs_leaves_the_same(run_folder: Path, printed: Callable[..., str]) -> None:
    assert json.loads(printed("runs", run_folder.parent, "--format", "json")) == [
        {**run._asdict(), "score": run.score and run.score._asdict()} for run in dragoman.list_runs(run_folder.parent)
    ]


def test_settings_leaves_the_same(printed: Callable[..., str]) -> None:
    listed = [setting._asdict() for setting in dragoman.list_settings("train")]
    assert json.loads(printed("settings", "train", "--format", "json")) == listed


def test_keys_leaves_the_same(tmp_path: Path, printed: Callable[..., str]) -> None:
    first, second = tmp_path / "one.json", tmp_path / "two.json"
    secrets = [printed("keys", "create", "Anna", "--keys", first).strip(), create_key(second, "Anna")]
    for path, secret in zip((first, second), secrets, strict=True):
        key = ApiKeys(path).find(secret)
        assert key is not None and key.name == "Anna"
    printed("keys", "withdraw", "Anna", "--keys", first)
    withdraw_key(second, "Anna")
    assert first.read_bytes() == second.read_bytes()


def test_doctor_leaves_the_same(printed: Callable[..., str]) -> None:
    told = json.loads(printed("doctor", "--format", "json"))
    steady = {fact.name: fact.value for fact in dragoman.doctor() if fact.name != "disk"}
    assert told.keys() - {"disk"} == steady.keys() and {key: told[key] for key in steady} == steady


def test_guide_leaves_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "CLONE", tmp_path)
    assert main(["guide"]) == ConfigError.exit_code
    assert "dragoman-guide.zip" in capsys.readouterr().err
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").touch()
    with pytest.raises(ConfigError, match="make docs in"):
        dragoman.find_guide()
    page = tmp_path / "docs" / "_build" / "html" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    assert printed("guide") == f"{dragoman.find_guide()}\n" == f"{page}\n"


def test_workshop_leaves_the_same(tmp_path: Path, printed: Callable[..., str]) -> None:
    by_command, by_function = tmp_path / "one", tmp_path / "by_function"
    for solutions in (False, True):
        printed("workshop", by_command / str(solutions), *["--solutions"] * solutions)
        dragoman.make_workshop(by_function / str(solutions), solutions=solutions)
    assert left_in(by_command) == left_in(by_function)
    step = "step_5_positions.py"
    (by_command / "False" / step).write_bytes((by_command / "True" / step).read_bytes())
    told = json.loads(printed("workshop", "check", by_command / "False", "--format", "json"))
    verdicts = dragoman.check_workshop(by_command / "False", progress=False)
    assert told == [verdict._asdict() for verdict in verdicts]
    assert [verdict.part for verdict in verdicts if verdict.result == "passes"] == ["positions", "embed"]
    assert main(["workshop", "check", str(by_command / "False"), "--solutions"]) == ConfigError.exit_code


def test_explain_leaves_the_same(run_folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    told = json.loads(printed("explain", run_folder, "the gatt sees.", "--format", "json"))
    record = dragoman.record(run_folder, "the gatt sees.")
    assert told == json.loads(json.dumps(record.facts()))
    assert printed("explain", run_folder, "the gatt sees.", "--output", tmp_path / "one.html") == f"{record.target}\n"
    dragoman.write_record(tmp_path / "two.html", record)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_embeddings_leaves_the_same(run_folder: Path, printed: Callable[..., str]) -> None:
    told = json.loads(printed("embeddings", run_folder, "the", "--format", "json"))
    result = answer(dragoman.load_embeddings(run_folder), read_question(["the"]), 10)
    assert told["neighbours"] == json.loads(json.dumps(result.facts()))["neighbours"]


def test_demo_leaves_the_same(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    """The demo trains as `train` does, and then translates; what it asks of `train` is all that it decides."""
    asked: dict[str, Any] = {}

    def train(what: str, **options: Any) -> RunResult:
        asked.update(what=what, **options)
        return RunResult(run_folder, 1, ())

    monkeypatch.setattr(dragoman, "train", train, raising=False)
    printed("demo", "--steps", "20", "--runs", tmp_path)
    assert (asked["what"], asked["overrides"], asked["runs"]) == ("phrasebook", ["train.steps=20"], tmp_path)


def test_train_leaves_the_same(tmp_path: Path, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.0)
    by_command, by_function = pairs_of_folders(tmp_path)
    write_corpus(by_command / "corpus.tsv")
    printed(*train_command(by_command))
    assert weights(by_command / "runs" / "corpus") == weights(train_small(by_function).folder)
    printed("train", by_command / "runs" / "corpus", "--more", "--set", "train.steps=4", "--device", "cpu")
    assert weights(by_command / "runs" / "corpus") == weights(
        dragoman.train(by_function / "runs" / "corpus", overrides=["train.steps=4"], more=True, device="cpu").folder
    )
    printed(*train_command(by_command), "--seeds", "2")
    options: Any = {"overrides": SETTINGS, "runs": by_function / "runs", "device": "cpu"}
    for result in dragoman.train_seeds(by_function / "corpus.tsv", 2, **options):
        assert weights(by_command / "runs" / result.folder.name) == weights(result.folder)
    told = printed(*train_command(by_command), "--dry-run", "--name", "later")
    forecast = dragoman.forecast(by_function / "corpus.tsv", name="later", **options)
    assert f"{forecast.parameters:,}" in told and f"{forecast.tokens:,}" in told


def test_fine_tune_leaves_the_same(trained: Trained, tmp_path: Path, printed: Callable[..., str]) -> None:
    model, new = trained("translation", tmp_path), write_corpus(tmp_path / "new.tsv")
    changed = [text for text in SETTINGS if text.partition(".")[0] in ("data", "batches", "train")]
    by_command, by_function = pairs_of_folders(tmp_path)
    options = [part for text in changed for part in ("--set", text)]
    printed("fine-tune", model, new, "--runs", by_command, "--device", "cpu", "--mix-rate", "0.2", *options)
    result = dragoman.fine_tune(model, str(new), mix_rate=0.2, overrides=changed, runs=by_function, device="cpu")
    assert weights(by_command / result.folder.name) == weights(result.folder)


def test_merge_leaves_the_same(trained: Trained, tmp_path: Path, printed: Callable[..., str]) -> None:
    changed = [text for text in SETTINGS if text.partition(".")[0] in ("data", "batches", "train")]
    options: Any = {"overrides": [*changed, "tuning.lora.rank=2"], "runs": tmp_path / "tuned", "device": "cpu"}
    tuned = dragoman.fine_tune(
        trained("translation", tmp_path), str(write_corpus(tmp_path / "new.tsv")), **options
    ).folder
    by_command, by_function = pairs_of_folders(tmp_path)
    printed("merge", tuned, "--to", by_command / "model")
    dragoman.merge(tuned, by_function / "model")
    assert left_in(by_command) == left_in(by_function)


def test_quantize_leaves_the_same(trained: Trained, tmp_path: Path, printed: Callable[..., str]) -> None:
    run = trained("translation", tmp_path)
    by_command, by_function = pairs_of_folders(tmp_path)
    told = printed("quantize", run, "--to", by_command / "model")
    scores = dragoman.quantize(run, by_function / "model").scores
    assert left_in(by_command) == left_in(by_function)
    assert scores is not None and all(
        f"{evaluation.scores['bleu'].value:.1f}" in told for evaluation in scores.evaluations
    )


def test_average_leaves_the_same(trained: Trained, tmp_path: Path, printed: Callable[..., str]) -> None:
    before = trained("translation", tmp_path)
    after = train_small(tmp_path, "train.seed=2", name="other").folder
    by_command, by_function = pairs_of_folders(tmp_path)
    printed("average", before, after, "--to", by_command / "model", "--share", 0.4)
    dragoman.average(before, after, by_function / "model", 0.4)
    assert left_in(by_command) == left_in(by_function)


@pytest.mark.filterwarnings("ignore:Recommended")
def test_convert_leaves_the_same(tmp_path: Path, printed: Callable[..., str]) -> None:
    from small_marian import write_marian

    marian = write_marian(tmp_path / "marian")
    by_command, by_function = pairs_of_folders(tmp_path)
    told = printed("convert", marian, "--to", by_command / "ours", "--languages", "de,fr")
    assert dragoman.convert(marian, by_function / "ours", ("de", "fr")).what in told
    assert left_in(by_command) == left_in(by_function)


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("target", ["ctranslate2", "huggingface", "web"])
def test_export_leaves_the_same(
    target: Literal["ctranslate2", "huggingface", "web"], tmp_path: Path, printed: Callable[..., str]
) -> None:
    from exporting import make

    model, texts = make(tmp_path / "model", {"preset": "paper"}), ["Where is the station?", "Good morning!"]
    (tmp_path / "text").write_text("".join(f"{text}\n" for text in texts))
    by_command, by_function = pairs_of_folders(tmp_path)
    told = printed("export", model, target, "--out", by_command / "theirs", "--text", tmp_path / "text")
    assert str(dragoman.export(model, target, by_function / "theirs", texts).proof or "not proved") in told
    assert left_in(by_command) == left_in(by_function)
