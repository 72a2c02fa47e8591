"""`report` on runs, models and finished translations: one set of translations, the figures of `evaluate`, messages."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from families import Trained

import dragoman
from dragoman.cli.main import main
from dragoman.config import read_json_as
from dragoman.errors import ConfigError, DataError, GateFailed
from dragoman.evaluating.scores import read_evaluations
from dragoman.evaluating.trust_report import FORMAT, TrustReport
from dragoman.inference.translator import Translator
from dragoman.runs import report as report_module

QUICK: dict[str, Any] = {"device": "cpu", "progress": False, "overrides": ["decode.beam_size=1"]}


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    return trained("translation", tmp_path)


def test_the_figures_are_those_of_the_run(run: Path) -> None:
    made = dragoman.report(run, device="cpu", progress=False)
    (scored,) = read_evaluations(run / "scores.json")
    assert made.tests[0].evaluation.scores == scored.scores
    assert made.tests[0].evaluation.counts == scored.counts
    assert read_json_as(run / "report" / "report.json", TrustReport, FORMAT) == made
    assert "Can I trust this model?" in (run / "report" / "report.html").read_text("utf-8")
    assert [name for name, _ in made.curves] == ["training loss", "dev loss", "dev chrF"]
    assert made.tests[0].known == 0 and made.text
    assert made.tests[0].rivals[0].system == "the closest training sentence"


def test_a_second_report_translates_no_test_sentence_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = dragoman.report(run, **QUICK)
    monkeypatch.setattr(report_module, "translate_file", lambda *_, **__: pytest.fail("translated again"))
    again = dragoman.report(run, **QUICK)
    assert again.but(speeds=[], memory_bytes=None) == first.but(speeds=[], memory_bytes=None)
    with pytest.raises(pytest.fail.Exception, match="again"):
        dragoman.report(run, **{**QUICK, "overrides": ["decode.beam_size=2"]})


def test_a_sentence_of_the_training_text_is_counted_and_its_baseline_is_perfect(run: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (run / "data" / "train.jsonl").read_text("utf-8").splitlines()][:6]
    (tmp_path / "known.tsv").write_text("en\tit\n" + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    made = dragoman.report(run, tmp_path / "known.tsv", **QUICK)
    assert made.tests[0].known == 6 and made.tests[0].rivals[0].scores["chrf"].value == 100


def test_other_systems_are_compared_on_the_same_lines(run: Path, tmp_path: Path) -> None:
    targets = [json.loads(line)[1] for line in (run / "data" / "test.jsonl").read_text("utf-8").splitlines()]
    (tmp_path / "perfect.it").write_text("".join(f"{line}\n" for line in targets), encoding="utf-8")
    made = dragoman.report(run, against=[tmp_path / "perfect.it", run / "final"], **QUICK)
    _, perfect, final = made.tests[0].rivals
    assert perfect.scores["bleu"].value == pytest.approx(100) and final.system == str(run / "final")
    assert len(made.tests[0].comparisons) == 6


def test_comet_is_read_only_for_these_translations(run: Path, tmp_path: Path) -> None:
    first = dragoman.report(run, **QUICK)
    (stored,) = (run / "report").glob("test-*.jsonl")
    texts = [json.loads(line)["text"] for line in stored.read_text("utf-8").splitlines()]
    rows = [{"src": "", "mt": text, "COMET": 0.25 + 0.5 * (number % 2)} for number, text in enumerate(texts)]
    (tmp_path / "comet.json").write_text(json.dumps({"other.it": rows[:2], "output.it": rows}), encoding="utf-8")
    made = dragoman.report(run, comet=tmp_path / "comet.json", **QUICK)
    score = made.tests[0].evaluation.scores["comet"]
    assert "comet" not in first.tests[0].evaluation.scores
    assert (score.name, score.value) == ("COMET", pytest.approx(50)) and 25 <= (score.low or 0) < 50 < (score.high or 0)
    (tmp_path / "comet.json").write_text(json.dumps({"output.it": rows[1:]}), encoding="utf-8")
    with pytest.raises(DataError, match="no scores of these 8 translations"):
        dragoman.report(run, comet=tmp_path / "comet.json", **QUICK)
    rows[0]["COMET"] = float("nan")
    (tmp_path / "comet.json").write_text(json.dumps({"output.it": rows}), encoding="utf-8")
    with pytest.raises(DataError, match="no scores of these 8 translations"):
        dragoman.report(run, comet=tmp_path / "comet.json", **QUICK)


def test_sampled_words_are_not_called_invented(run: Path) -> None:
    (searched,), (sampled,) = (
        dragoman.report(run, **{**QUICK, "overrides": [setting]}).tests
        for setting in ("decode.beam_size=1", "decode.temperature=1")
    )
    assert "invented" in {count.kind for count in searched.errors.kinds} and "invented" in sampled.errors.untested


def test_gates_end_with_their_code_after_the_report_is_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", str(run), "-q", "--device", "cpu", "--set", "decode.beam_size=1"]
    assert main([*command, "--require", "bleu >= 101", "--require", "lost <= 100%"]) == GateFailed.exit_code
    assert "bleu >= 101, but on test.jsonl it is" in capsys.readouterr().err
    assert (run / "report" / "report.html").is_file()
    assert main([*command, "--require", "bleu >= 0"]) == 0
    assert main(["evaluate", str(run), "-q", "--device", "cpu", "--require", "chrf > 101"]) == GateFailed.exit_code
    assert "chrf > 101, but on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--require", "blue >= 4"], "there is no figure 'blue'"),
        (["--require", "bleu = 4"], "'bleu = 4' cannot be read"),
        (["--input", "a.md"], "report takes a model or run, or --input with --translated"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run), *arguments]) == ConfigError.exit_code
    assert message in capsys.readouterr().err and not (run / "report").exists()


def test_a_run_that_is_not_finished_or_has_no_test_set_is_refused(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps({**facts, "status": "stopped"}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"is not finished \(stopped\); finish it with: dragoman train"):
        dragoman.report(run, **QUICK)
    with pytest.raises(ConfigError, match="has no test set, because it is not a run folder; name a file"):
        dragoman.report(run / "best", **QUICK)


def test_a_model_folder_is_reported_on_a_test_set_and_stays_as_it_is(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "best", tmp_path / "model")
    made = dragoman.report(tmp_path / "model", run / "data" / "test.jsonl", folder=tmp_path / "made", **QUICK)
    assert made.tests[0].known is None and not made.text and not made.tests[0].rivals
    Translator.load(tmp_path / "model", "cpu", progress=False)  # verifies the folder


# Finished translations

SITE = {
    "index.html": (
        '<html lang="en"><p>Tom paid 35 euros here.</p><p>Write to <b>Anna</b>.</p></html>',
        '<html lang="it"><p>Tom ha pagato 53 euro qui.</p><p>Scrivi ad <b>Anna</b>.</p></html>',
    ),
    "more/a.md": ("Open `x` and wait for {file}.\n", "Apri `x` e aspetta.\n"),
    "short.html": ("<p>The first text.</p><p>The second text.</p>", "<p>Il primo testo.</p>"),
    "picture.bin": ("no text", "no text"),
}


def site(folder: Path) -> tuple[Path, Path]:
    for name, sides in SITE.items():
        for side, content in zip(("site", "site.it"), sides, strict=True):
            (folder / side / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / side / name).write_text(content, encoding="utf-8")
    return folder / "site", folder / "site.it"


def counts(made: TrustReport) -> dict[str, int]:
    assert made.errors is not None
    return {count.kind: count.lines for count in made.errors.kinds if count.lines}


def test_a_translated_folder_is_judged_without_references(tmp_path: Path) -> None:
    source, translated = site(tmp_path)
    languages = {"source_language": "en", "target_language": "it"}
    made = dragoman.report_documents(source, translated, folder=tmp_path / "report", **languages)
    assert counts(made) == {"numbers": 1, "placeholders": 1} and made.errors and made.errors.lost == 2
    assert {name: texts for name, texts, _ in made.files} == {"index.html": 2, "more/a.md": 1, "short.html": 0}
    assert next(problem for name, _, problem in made.files if name == "short.html").endswith(
        "has 2 texts but " + str(translated / "short.html") + " 1: they cannot be compared"
    )
    assert next(count for count in made.errors.kinds if count.lines).examples[0].place == "index.html line 1"
    assert "invented" in made.errors.untested and (tmp_path / "report" / "report.html").is_file()


def test_a_catalogue_holds_its_sources(tmp_path: Path) -> None:
    catalogue = (
        'msgid ""\nmsgstr "Language: it\\n"\n\nmsgid "You have %d new messages."\nmsgstr "Hai nuovi messaggi."\n'
    )
    (tmp_path / "it.po").write_text(catalogue, encoding="utf-8")
    made = dragoman.report_documents(tmp_path / "it.po", tmp_path / "it.po", folder=tmp_path / "report")
    assert counts(made) == {"placeholders": 1}


def test_documents_that_cannot_be_judged_are_refused(tmp_path: Path) -> None:
    source, translated = site(tmp_path)
    with pytest.raises(DataError, match="site.de is no folder; give two files, or two folders"):
        dragoman.report_documents(source, tmp_path / "site.de")
    with pytest.raises(DataError, match="is no file; give two files"):
        dragoman.report_documents(source / "index.html", translated)
    with pytest.raises(DataError, match="there is nothing to judge: .*2 texts but"):
        dragoman.report_documents(source / "short.html", translated / "short.html", folder=tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_gate_on_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, translated = site(tmp_path)
    command = ["report", "--input", str(source), "--translated", str(translated), "--folder", str(tmp_path / "made")]
    assert main([*command, "--require", "lost <= 0.5%", "-q"]) == GateFailed.exit_code
    assert f"lost <= 0.5%, but on {translated} it is 66.67% (2 of 3 lines)" in capsys.readouterr().err
    assert main([*command, "--require", "bleu >= 1", "-q"]) == ConfigError.exit_code
    assert "bleu was not measured" in capsys.readouterr().err
    assert main([*command, "--require", "errors <= 100%", "-q"]) == GateFailed.exit_code
    assert "1 files were not judged as a whole, first short.html" in capsys.readouterr().err


def test_named_files_of_another_kind_are_lines(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("There are 35 cats.\n\nThe dog sleeps.\n", encoding="utf-8")
    (tmp_path / "a.it").write_text("Ci sono i gatti.\n\nIl cane dorme.\n", encoding="utf-8")
    made = dragoman.report_documents(tmp_path / "a.en", tmp_path / "a.it", folder=tmp_path / "report")
    assert counts(made) == {"numbers": 1} and made.files == (("a.en", 3, ""),)
    (tmp_path / "a.it").write_text("Ci sono i gatti.\n", encoding="utf-8")
    with pytest.raises(DataError, match="a.en has 3 texts but .*a.it 1: they cannot be compared"):
        dragoman.report_documents(tmp_path / "a.en", tmp_path / "a.it", folder=tmp_path / "report")


def test_entries_that_are_left_out_fail_a_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = 'msgid ""\nmsgstr "Language: it\\n"\n\nmsgid "You have new messages."\nmsgstr "Hai nuovi messaggi."\n\n'
    (tmp_path / "it.po").write_text(head + 'msgid "Open"\nmsgstr ""\n', encoding="utf-8")
    made = dragoman.report_documents(tmp_path / "it.po", tmp_path / "it.po", folder=tmp_path / "report")
    assert made.problems == [("it.po", "1 untranslated entries left out")]
    paths = ["--input", str(tmp_path / "it.po"), "--translated", str(tmp_path / "it.po")]
    command = ["report", *paths, "--folder", str(tmp_path / "report"), "-q"]
    assert main([*command, "--require", "errors <= 0"]) == GateFailed.exit_code and main(command) == 0
    assert "it.po: 1 untranslated entries left out" in capsys.readouterr().err


def test_a_report_replaces_no_other_file(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<p>Open the door.</p>", encoding="utf-8")
    with pytest.raises(DataError, match="report.html is no page of a report"):
        dragoman.report(run, folder=tmp_path, **QUICK)
    with pytest.raises(DataError, match="is also read"):
        dragoman.report_documents(tmp_path, tmp_path, folder=tmp_path)
    with pytest.raises(DataError, match="is a file; name a folder"):
        dragoman.report(run, folder=page, **QUICK)
    with pytest.raises(ConfigError, match="12 is no code of a language"):
        dragoman.report_documents(page, page, target_language="12", folder=tmp_path / "made")
    assert page.read_text("utf-8") == "<p>Open the door.</p>" and not (tmp_path / "made").exists()


def test_a_gate_asks_for_what_the_page_shows(run: Path) -> None:
    made = dragoman.report(run, **QUICK)
    (test,) = made.tests
    shown = made.but(tests=[test.but(errors=test.errors.model_dump() | {"lost": 7}).model_dump(mode="json")])
    assert shown.figures[test.evaluation.test.name]["lost"] == (7, test.errors.lines)
    damaged = next((run / "report").glob("test-*.jsonl"))
    damaged.write_text("{}\n", encoding="utf-8")
    with pytest.raises(DataError, match="is damaged; delete it"):
        dragoman.report(run, **QUICK)
    (run / "data" / "test.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no test set"):
        dragoman.report(run, **QUICK)
