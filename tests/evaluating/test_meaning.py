"""One plain sentence says what scores mean; scores that were counted in other ways are not compared in silence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.cli.evaluate import show_meaning
from dragoman.cli.train import gain
from dragoman.evaluating.evaluation import evaluate
from dragoman.evaluating.labels_evaluation import evaluate_labels, judge_baselines
from dragoman.evaluating.meaning import BASELINE, in_short
from dragoman.evaluating.metrics import Score, not_comparable
from dragoman.evaluating.references import ReferenceSet
from dragoman.evaluating.scores import read_baselines, read_evaluations, write_scores
from dragoman.evaluating.significance import SeedScores
from dragoman.runs.compare import SystemResult, _comparisons
from dragoman.runs.status import RunScore, _test_score
from dragoman.tokenizing.labels import Labels

RIGHT = ("una casa rossa e blu", "il gatto vede il cane")


def score(name: str, value: float, signature: str = "") -> Score:
    return Score(name, value, None, None, signature, "")


def scored(scores: dict[str, Score], search: str = "greedy") -> Any:
    return SimpleNamespace(system="model", test="test.jsonl", search=search, scores=scores)


@pytest.mark.parametrize(
    ("chrf", "bleu", "meant"),
    [
        (90.0, 80.0, "most sentences"),
        (51.0, 20.0, "about half"),
        (40.0, 36.0, "about half"),  # of a script whose words are few characters
        (40.0, 10.0, "few sentences"),
        (27.0, 12.0, "hardly any"),
        (15.0, 1.0, "next to nothing"),
        (0.0, 0.0, "next to nothing"),
    ],
)
def test_translations_are_told_by_the_better_of_two_scores(chrf: float, bleu: float, meant: str) -> None:
    found = in_short(scored({"bleu": score("BLEU", bleu), "chrf": score("chrF2", chrf)}))
    assert meant in found and "rule of thumb" in found and "test.jsonl" in found


def test_a_language_model_is_told_beside_the_frequencies_of_characters() -> None:
    frequencies = scored({"character": score("nats a character", 3.3)}, f"{BASELINE}, from the text")
    for loss, meant in ((1.5, "words"), (2.0, "spell"), (2.6, "letters"), (3.4, "next to nothing")):
        model = scored({"character": score("nats a character", loss), "token": score("nats a token", loss)})
        assert meant in in_short(model, [frequencies]) and ", by frequencies alone 27" in in_short(model, [frequencies])
        assert meant not in in_short(model), "an older run has no baseline"


def test_labels_are_told_beside_the_best_baseline_also_from_the_file(tmp_path: Path) -> None:
    labels, gold = Labels(task="classify", names=("a", "b")), ["a"] * 60 + ["b"] * 40
    model = evaluate_labels(labels, gold, ["a"] * 50 + ["b"] * 50, system="model", test="test.tsv", sha256="5" * 64)
    others = judge_baselines(model, {"weak": ["b"] * 100, "majority": ["a"] * 100}, samples=0)
    meant = in_short(model, others)
    assert meant.startswith("about 90 of 100 labels are right, far more than by majority (60)")
    assert in_short(others[1], [model, others[1]]).startswith("about 60 of 100 labels are right, no more than by")
    write_scores(tmp_path / "scores.json", [model], baselines=others)
    kept = (*read_baselines(tmp_path / "scores.json"), *read_evaluations(tmp_path / "scores.json"))
    assert in_short(kept[-1], kept) == meant


def test_baselines_get_no_sentence_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    show_meaning(
        [scored({"accuracy": score("accuracy", 50.0)}, BASELINE), scored({"accuracy": score("accuracy", 90.0)})]
    )
    assert capsys.readouterr().out.startswith("in short: about 90 of 100 labels are right, far more than by model (50)")


def test_scores_of_another_tokenizer_are_marked_wherever_they_are_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words, characters = (score("BLEU", 30.0, f"nrefs:1|tok:{kind}|version:2.6.0") for kind in ("ja-mecab", "char"))
    newer = score("BLEU", 31.0, "nrefs:1|tok:char|version:2.7.0")
    assert not_comparable([words, characters]) == "tok:ja-mecab and tok:char"
    assert not_comparable([characters, newer]) == ""
    assert "not comparable" in str(SeedScores("test", [words, characters])) and "±" in str(
        SeedScores("test", [characters, newer])
    )
    losses = [score("nats a character", value, "nll") for value in (1.4697, 1.4712)]
    assert str(SeedScores("test", losses)).startswith("nats a character 1.470 ± 0.001 (1.470, 1.471; ")
    test = ReferenceSet("test.jsonl", RIGHT, tuple((text,) for text in RIGHT))
    (tmp_path / "found.txt").write_text("\n".join(RIGHT), encoding="utf-8")
    before, after = (
        evaluate(tmp_path / "found.txt", test, samples=0, name="after, new test", tokenizer=kind)
        for kind in ("13a", "char")
    )
    assert gain(before, after) == "new 100.0 -> 100.0 (not comparable: tok:13a and tok:char)"
    assert gain(after, after) == "new 100.0 -> 100.0"
    assert len(_comparisons([SystemResult("one", (before,)), SystemResult("other", (after,))])) == 3
    assert "scores by bleu are counted in different ways (tok:13a and tok:char)" in caplog.text
    write_scores(tmp_path / "scores.json", [after])
    listed = _test_score(tmp_path / "scores.json")
    assert isinstance(listed, RunScore) and (listed.metric, listed.test) == ("BLEU (tok:char)", "test")
