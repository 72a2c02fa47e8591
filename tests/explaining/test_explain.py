"""`dragoman explain` at the terminal: its forms, its questions, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_records import store_language_model, store_translator

import dragoman
from dragoman.cli.main import main
from dragoman.errors import ConfigError, DataError, DecodeError
from dragoman.inference.alignment import split_words

TEXT = "the cat sees."
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_translator(tmp_path_factory.mktemp("explain") / "model")


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_language_model(tmp_path_factory.mktemp("explain") / "language model")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def typed(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["explain", *map(str, arguments)])
        told, notes = capsys.readouterr()
        return code, told, notes

    return typed


def test_a_page_is_written_under_a_usual_name(model: Path, run: Run) -> None:
    code, told, notes = run(model, TEXT)
    page = Path("explanation.html").read_text("utf-8")
    assert (code, told) == (0, f"{dragoman.record(model, TEXT).target}\n")
    assert notes.startswith("explanation.html: ") and page.startswith("<!doctype html>")


@pytest.mark.parametrize(("name", "begins"), [("a.json", b'{"format": 3'), ("a.HTML", b"<!doctype html>")])
def test_the_name_of_the_file_says_its_form(name: str, begins: bytes, model: Path, run: Run) -> None:
    assert run(model, TEXT, "-o", name)[0] == 0
    assert Path(name).read_bytes().startswith(begins)


def test_json_and_text_are_printed_unless_a_file_is_named(model: Path, run: Run) -> None:
    _, told, _ = run(model, TEXT, "--format", "json")
    assert json.loads(told)["source"] == TEXT
    _, told, _ = run(model, TEXT, "--format", "terminal")
    assert told.startswith(f"source  {TEXT}\n")
    assert run(model, TEXT, "--format", "terminal", "-o", "a.txt")[1] != told
    assert Path("a.txt").read_text("utf-8") == told and not Path("explanation.html").exists()


def test_a_given_target_is_explained(model: Path, run: Run) -> None:
    _, told, _ = run(model, TEXT, "--target", "il gatto", "--format", "json")
    facts = json.loads(told)
    assert facts["has_given_target"] and facts["target"] == "il gatto" and facts["parts"][0]["target"] == "il gatto"


def test_why_one_word_and_not_another(model: Path, run: Run) -> None:
    choice = ("--target", "il gatto vede.", "--instead", "gatto=cane")
    found = dragoman.explain_choice(model, TEXT, "gatto", "cane", "il gatto vede.")
    _, told, _ = run(model, TEXT, *choice)
    assert len(told.splitlines()) == 4 + len(found.reasons)
    _, told, _ = run(model, TEXT, *choice, "--format", "json")
    assert {each["text"]: each["contrast"] for each in json.loads(told)["reasons"]} == pytest.approx(
        {each.text: each.contrast for each in found.reasons}
    )


def test_the_less_likely_of_two_words_trails(model: Path, run: Run) -> None:
    one, other = dragoman.explain_choice(model, TEXT, "gatto", "cane", "il gatto vede.").log_probs
    ahead, behind = ("gatto", "cane") if one > other else ("cane", "gatto")
    by = f"by {abs(one - other):.3f} nats"
    _, told, _ = run(model, TEXT, "--target", f"il {ahead} vede.", "--instead", f"{ahead}={behind}")
    assert told.startswith(f"{ahead} (") and f") leads {behind} (" in told and by in told and "lead shrinks by" in told
    _, told, _ = run(model, TEXT, "--target", f"il {behind} vede.", "--instead", f"{behind}={ahead}")
    assert told.startswith(f"{behind} (") and f") trails {ahead} (" in told and by in told and "lag grows by" in told


def test_a_choice_of_a_translation_is_that_of_its_target(model: Path) -> None:
    found = dragoman.record(model, TEXT)
    word = f"{found.parts[0].written[0]}#1"
    assert dragoman.explain_choice(model, TEXT, word, "gatto") == dragoman.explain_choice(
        model, TEXT, word, "gatto", found.target
    )


@pytest.mark.parametrize("between", [" ", f" {'x' * 101} ", " :) "])
def test_a_choice_belongs_to_one_sentence(between: str, model: Path) -> None:
    with pytest.raises(DecodeError, match="the text is translated in 2 parts; give one sentence, or a target"):
        dragoman.explain_choice(model, f"The cat sees.{between}The dog sees.", "a", "b")


@pytest.mark.parametrize("copied", [" :)", " 😀", f" {'x' * 101}"])
def test_a_choice_in_a_sentence_beside_what_is_copied(copied: str, model: Path) -> None:
    word = f"{split_words(dragoman.record(model, TEXT).target or '')[0]}#1"
    alone = dragoman.explain_choice(model, TEXT, word, "gatto")
    assert dragoman.explain_choice(model, TEXT + copied, word, "gatto") == alone
    with pytest.raises(DataError, match="is no word of the translation"):
        dragoman.explain_choice(model, TEXT + copied, split_words(copied)[-1], "gatto")


@pytest.mark.parametrize("generation", [{}, {"split": "never"}])
def test_a_choice_is_explained_for_the_text_that_was_translated(generation: dict[str, Any], tmp_path: Path) -> None:
    folder = store_translator(tmp_path / "model", kind="bpe", generation=generation)
    target = dragoman.record(folder, TEXT).target
    word = f"{split_words(target or '')[0]}#1"
    found = dragoman.explain_choice(folder, TEXT, word, "gatto")
    assert found == dragoman.explain_choice(folder, f"  {TEXT} \n", word, "gatto")
    assert found == dragoman.explain_choice(folder, f"  {TEXT} ", word, "gatto", target)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (" ", None, "the text holds nothing that the model reads"),
        (" ", "il gatto", "the text holds nothing that the model reads"),
        (TEXT, " ", "the target holds nothing that the model reads"),
        ("x" * 101, None, "the text holds nothing that the model reads"),
        ("42 :)", None, "the text holds nothing that the model reads"),
        ("cat " * 129, None, "the text has 129 tokens, but at most 128 can be explained; shorten it"),
        ("cat " * 129, "il gatto", "the text has 129 tokens, but at most 128 can be explained; shorten it"),
        (TEXT, "gatto " * 129, "the target has 129 tokens, but at most 128 can be explained; shorten it"),
    ],
)
def test_a_choice_in_a_text_that_cannot_be_explained(
    source: str, target: str | None, message: str, model: Path
) -> None:
    with pytest.raises(DecodeError, match=message):
        dragoman.explain_choice(model, source, "gatto#1", "cane", target)


def test_a_choice_needs_positions(tmp_path: Path) -> None:
    positions: dict[str, Any] = {"positions": "learned", "max_positions": 12}
    model = store_translator(tmp_path / "model", **positions)
    with pytest.raises(DecodeError, match="the text has 11 tokens, but the model has positions for 10"):
        dragoman.explain_choice(model, "cat " * 11, "gatto", "cane", "il gatto")
    with pytest.raises(DecodeError, match="the target has 12 tokens, but the model has positions for 11"):
        dragoman.explain_choice(model, TEXT, "gatto#9", "cane", "gatto " * 12)
    language_model = store_language_model(tmp_path / "language model", **positions)
    with pytest.raises(DecodeError, match="the text has 13 tokens, but the model has positions for 12"):
        dragoman.explain_choice(language_model, "cat " * 13, "cat#13", "dog")


def test_a_choice_of_a_language_model_stands_in_its_text(language_model: Path, run: Run) -> None:
    _, told, _ = run(language_model, "the cat sees", "--instead", "cat=dog")
    assert [line.split()[0] for line in told.splitlines()[4:]] == ["the"]
    with pytest.raises(DecodeError, match="the text has 129 tokens"):
        dragoman.explain_choice(language_model, "cat " * 129, "cat#2", "dog")
    with pytest.raises(DecodeError, match="a language model has no target"):
        dragoman.explain_choice(language_model, "the cat sees", "cat", "dog", "il")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a text, as in"),
        ((TEXT, "other.it"), "one text is explained at a time"),
        ((TEXT, "-o", "page.doc"), "page.doc must end in .html, .json, .png, .svg or .pdf; or name the form"),
        ((TEXT, "--weights", "encoder.9"), "weights must be a layer of the model (encoder.0"),
        ((TEXT, "--head", "encoder.0.9", "-o", "a.txt", "--format", "terminal"), "head must be one of the model's"),
        ((TEXT, "--instead", "gatto"), "--instead must be WORD=OTHER, as in Mia=Mio, but is 'gatto'"),
        ((TEXT, "--instead", "a=b", "-o", "a.html"), "--instead prints its answer, and takes no --output"),
        ((TEXT, "--instead", "a=b", "--format", "png"), "--format png is for the page of one text"),
        ((TEXT, "--head", "encoder.0.self_attention.1"), "--head names what a picture shows; html has every head"),
        ((TEXT, "--head", "encoder.0.self_attention.1", "--format", "json"), "json has every head"),
        (("The cat sees. " * 21, "-o", "a.html"), "the text is read in 21 parts, but at most 20 can be"),
        ((TEXT, "--weights", "encoder.0", "--format", "svg"), "--weights is for html and json; svg shows no matrices"),
        ((TEXT, "--instead", "a=b", "--aligned", "none.tsv"), "--instead prints its answer, and takes no --aligned"),
        ((TEXT, "--aligned", "none.tsv"), "none.tsv"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], message: str, model: Path, run: Run) -> None:
    code, told, complaint = run(model, *arguments)
    assert (code, told) == (2, "") and message in complaint and complaint.count("\n") == 1
    assert not list(Path().iterdir())


def test_a_page_is_not_written_over_a_folder(model: Path, run: Run) -> None:
    Path("page.html").mkdir()
    assert run(model, TEXT, "-o", "page.html")[0] == 2


def test_a_record_is_written_where_a_name_says(model: Path, tmp_path: Path) -> None:
    record = dragoman.record(model, TEXT)
    dragoman.write_record(str(tmp_path / "a.json"), record)
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["source"] == TEXT
    with pytest.raises(DataError, match="there is no folder"):
        dragoman.write_record(tmp_path / "none" / "a.json", record)
    with pytest.raises(DataError, match="is a folder"):
        dragoman.write_record(tmp_path, record, "html")


def test_a_side_that_does_not_exist_is_refused(model: Path) -> None:
    side: Any = "middle"
    with pytest.raises(ConfigError, match="side must be source or target, but is 'middle'"):
        dragoman.load_embeddings(model, side)
