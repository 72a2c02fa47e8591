"""Results have a repr of a few hundred letters, which says what they are."""

from pathlib import Path

from small_records import store_translator

import dragoman
from dragoman.brief import LONGEST, brief
from dragoman.evaluating.evaluation import evaluate
from dragoman.inference.translation import Translation
from dragoman.runs.language_model import TextEvaluation

SENTENCES = ["the red cat sees the old dog ."] * 200


def test_public_results_have_short_reprs_that_say_what_they_are(tmp_path: Path) -> None:
    model = store_translator(tmp_path / "model")
    (tmp_path / "test.txt").write_text("\n".join(SENTENCES))
    stored = dragoman.load_model(model)
    results = [
        (dragoman.record(model, SENTENCES[0]), "the red cat"),
        (dragoman.translate(model, SENTENCES[:1])[0], "the red cat"),
        (evaluate(model, tmp_path / "test.txt", [tmp_path / "test.txt"], samples=0), "BLEU"),
        (dragoman.compare(model, tmp_path / "test.txt", [tmp_path / "test.txt"], samples=0), "BLEU"),
        (stored, str(model)),
        (dragoman.load_embeddings(model), "entries"),
        (TextEvaluation("model", "test.txt", "", {}, {}, "its loss"), "on 'test.txt'"),
    ]
    for result, telling in results:
        assert telling in repr(result) and len(repr(result)) <= LONGEST + 50
        assert " object at 0x" not in repr(result) and "\n" not in repr(result)


def test_long_values_are_counted_and_empty_ones_left_out() -> None:
    translation = Translation("a" * 1_000, tokens=("x",) * 1_000)
    assert repr(translation).startswith("Translation(source='aaa") and "tokens=1,000 of 'x' …" in repr(translation)
    assert "flags" not in repr(translation) and len(repr(translation)) < 300
    assert brief(Translation("a", alternatives=(translation,) * 3)).endswith("…)")
