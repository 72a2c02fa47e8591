"""Given translations scored in bulk: the same figures as `translate` reports, and no pair stops the others."""

import json
import random
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import main
from dragoman.inference import documents
from dragoman.inference.options import SearchOptions
from dragoman.text.readers import Pair
from dragoman.tokenizing.special_tokens import END

WORDS = "gatt can top lup ors cavall asin mul polp corv".split()


def sentences(count: int) -> list[str]:
    draw = random.Random(1)
    return [f"the {draw.choice(WORDS)} sees the {draw.choice(WORDS)}" for _ in range(count)]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[list[str], str]]:
    """Runs `dragoman score` and gives the lines of its result, and its notes."""

    def run(*arguments: object) -> tuple[list[str], str]:
        assert main(["score", *map(str, arguments)]) == 0
        out, err = capsys.readouterr()
        return out.splitlines(), err

    return run


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_score_of_a_translation_is_the_one_that_was_reported(run_folder: Path, precision: str) -> None:
    translator = dragoman.Translator.load(run_folder, "cpu", precision)
    options = SearchOptions(
        temperature=1.0, n_best=4, length_penalty=1.0
    )  # a search seldom ends: the weights are random
    target, compared = translator.tokenizers.target, 0
    found = translator.translate(sentences(12), options)
    made = [each for one in found for each in (one, *one.alternatives)]
    pairs = [Pair(each.source, each.text, "") for each in made]
    overrides = ["decode.length_penalty=1"]
    for one, other in zip(made, dragoman.score(run_folder, pairs, overrides, "cpu", precision), strict=True):
        if tuple(target.tokens([*target.encode(one.text), END])) == one.tokens:
            assert other.score == pytest.approx(one.score, abs=1e-5)
            assert other.log_prob == pytest.approx(one.log_prob, abs=1e-5)
            assert other.tokens == one.tokens
            compared += 1
    assert compared >= 10


def test_the_command_prints_what_the_function_finds(
    run_folder: Path, told: Callable[..., tuple[list[str], str]], tmp_path: Path
) -> None:
    text = run_folder.parent / "pairs.tsv"
    found = list(dragoman.score(run_folder, str(text)))
    lines, _ = told(run_folder, text)
    assert len(lines) == len(found) == 100
    for line, each in zip(lines, found, strict=True):
        assert line == f"{each.score:.4f}\t{each.log_prob:.4f}\t{len(each.tokens)}\t{each.source}\t{each.target}"
    assert told(run_folder, text, "--output", tmp_path / "scored.tsv")[0] == []
    assert (tmp_path / "scored.tsv").read_text("utf-8").splitlines() == lines
    facts = [json.loads(line) for line in told(run_folder, text, "--format", "json")[0]]
    assert [each["mean_log_prob"] for each in facts] == [each.mean_log_prob for each in found]
    assert facts[3]["origin"] == found[3].origin == "pairs.tsv:5"
    other, _ = told(run_folder, text, "--length-penalty", "0")
    assert all(line.split("\t")[0] == line.split("\t")[1] for line in other)


def test_two_files_standard_input_and_one_table_are_the_same_pairs(
    run_folder: Path, told: Callable[..., tuple[list[str], str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = sentences(5), ["il gatto vede il cane"] * 5
    (tmp_path / "a.en").write_text("\n".join(sources) + "\n", "utf-8")
    (tmp_path / "a.it").write_text("\n".join(targets) + "\n", "utf-8")
    typed = "".join(f"{a}\t{b}\tmore\n" for a, b in zip(sources, targets, strict=True))
    lines, _ = told(run_folder, tmp_path / "a.en", tmp_path / "a.it")
    assert told(run_folder, tmp_path / "a")[0] == lines and len(lines) == 5
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(typed.encode())))
    assert told(run_folder)[0] == lines


def test_the_filter_keeps_the_probable_pairs_as_pairs(
    run_folder: Path, told: Callable[..., tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run_folder.parent / "pairs.tsv"
    found = list(dragoman.score(run_folder, str(text)))
    means = sorted(each.mean_log_prob or 0 for each in found)
    limit = means[40]
    monkeypatch.setattr(documents, "LINES", 7)
    lines, notes = told(run_folder, text, "--at-least", limit)
    assert lines == [f"{each.source}\t{each.target}" for each in found if (each.mean_log_prob or 0) >= limit]
    assert f"{len(lines)} of 100 pairs have a mean log-probability of at least" in notes
    assert told(run_folder, text, "--at-least", "-1e9")[0] == text.read_text("utf-8").splitlines()[1:]


def test_pairs_without_a_score_are_named_and_stop_nothing(
    run_folder: Path, told: Callable[..., tuple[list[str], str]], tmp_path: Path
) -> None:
    rows = [
        {"en": "the gatt sees", "it": "il gatto vede"},
        {"en": "the gatt sees", "it": " "},
        {"en": "", "it": "il gatto vede"},
        {"en": "the gatt " * 200, "it": "il gatto"},
        {"en": "the gatt", "it": "x" * 100_000},
        {"en": "the gatt", "it": "il\tgatto\nvede"},
        {"en": "the gatt sees", "it": "il gatto vede"},
    ]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    lines, notes = told(run_folder, tmp_path / "odd.jsonl")
    cells = [line.split("\t") for line in lines]
    assert [row[:3] == ["", "", ""] for row in cells] == [False, True, True, True, True, False, False]
    assert all(len(row) == 5 for row in cells) and cells[0] == cells[-1] and cells[5][4] == "il gatto vede"
    assert "odd.jsonl:2 has no score: the target is blank" in notes
    assert "odd.jsonl:4 has no score: the source has 400 tokens, more than 200" in notes
    assert "odd.jsonl:5 has no score: the target has 100,000 characters, too many for 200 tokens" in notes
    assert "4 of 7 pairs have no score and are written without figures" in notes
    kept, notes = told(run_folder, tmp_path / "odd.jsonl", "--at-least", "-1e9")
    assert len(kept) == 3 and "4 of 7 pairs have no score and are dropped" in notes
    (surrogate,) = dragoman.score(run_folder, [Pair("the \ud800", "il gatto", "here")])
    assert surrogate.problem == "the source is not valid Unicode" and surrogate.mean_log_prob is None
    (odd,) = dragoman.score(run_folder, [Pair("the gatt", "il gatto " * 11, "here")], ["decode.max_source_tokens=20"])
    assert odd.problem == "the target has 22 tokens, more than 20"


def test_a_file_is_read_to_its_end_before_anything_is_scored(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_bytes(b"en\tit\n" + b"the gatt\til gatto\n" * 5 + b"\xe0\t\xe0\n")
    assert main(["score", str(run_folder), str(tmp_path / "pairs.tsv")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "pairs.tsv:7 is not valid UTF-8" in err


def test_memory_holds_one_chunk(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LINES", 10)
    taken = 0

    def pairs():
        nonlocal taken
        for text in sentences(100):
            taken += 1
            yield Pair(text, "il gatto", "")

    for number, each in enumerate(dragoman.score(run_folder, pairs()), 1):
        assert each.score is not None and taken <= 10 * ((number + 9) // 10)
    assert taken == 100
