"""Test sets in several directions."""

from pathlib import Path
from typing import Any

import pytest
from small_translators import GERMAN, PAIRS, SOURCES, TARGETS, save_several

import dragoman
from dragoman.cli.main import main
from dragoman.errors import DecodeError
from dragoman.evaluating.pairs import score
from dragoman.evaluating.scores import read_scores
from dragoman.inference.translator import Translator
from dragoman.serialization import write_json
from dragoman.text.prepare import prepare_data
from dragoman.text.report import DirectionsReport
from dragoman.text.settings import DataSettings

TEXTS = {"en": SOURCES, "it": TARGETS, "de": GERMAN}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write a model, and prepared data in its directions."""
    path = tmp_path_factory.mktemp("several")
    for source, target in PAIRS:
        pairs = zip(TEXTS[source] * 8, TEXTS[target] * 8, strict=True)
        lines = (f"{number} {left}\t{right} {number}\n" for number, (left, right) in enumerate(pairs))
        (path / f"text.{source}-{target}.tsv").write_text("".join(lines))
        settings = DataSettings(path=str(path / f"text.{source}-{target}.tsv"), dev_size=5, test_size=6)
        prepare_data(settings, path / "data" / f"{source}-{target}", progress=False)
    report = DirectionsReport(identity="-", directions=PAIRS)
    write_json(path / "data" / "data.json", report.model_dump(mode="json"))
    return save_several(path / "model", target_prefix=True), path / "data"


def test_every_direction_has_a_row(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = folders
    place: dict[str, Any] = {"device": "cpu", "precision": "float32", "samples": 0, "progress": False}
    result: Any = dragoman.compare([model, model], data, scores=tmp_path / "scores.json", **place)
    assert [item.system for item in result.evaluations[::2]] == [f"{model} {'-'.join(pair)}" for pair in PAIRS]
    assert len(result.evaluations) == 8 and len(result.comparisons) == 12
    assert [*read_scores(tmp_path / "scores.json")] == [f"test.{'-'.join(pair)}" for pair in PAIRS]
    loaded = Translator.load(model, "cpu", "float32")
    for evaluation, (source, target) in zip(result.evaluations[::2], PAIRS, strict=True):
        translations = loaded.translate(
            evaluation.test.sources, progress=False, source_language=source, target_language=target
        )
        assert evaluation.hypotheses == tuple(translation.text for translation in translations)
        assert evaluation.language == target
    compared: Any = dragoman.compare(model, data, source_language="en", target_language="deu", **place)
    (german,) = compared.evaluations
    assert german.hypotheses == result.evaluations[4].hypotheses and german.test.name == "test.en-de.jsonl"
    compared = dragoman.compare(model, data.parent / "text.de-en.tsv", **place)
    (file,) = compared.evaluations
    assert file.language == "en", "the names of a file say its direction"


def test_what_does_not_fit_is_refused(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = folders
    command = ["evaluate", str(model), str(data), "--samples", "0", "-q"]
    assert main([*command, "--output", str(tmp_path / "out.txt")]) != 0
    assert "--output takes one direction; name its languages, of en-it, it-en, en-de, de-en" in capsys.readouterr().err
    assert main([*command, "--source-language", "it", "--target-language", "de"]) != 0
    assert "has no test set it-de, only en-it, it-en, en-de, de-en" in capsys.readouterr().err
    assert main([*command, "--target-language", "fr"]) == 2
    assert "no target language 'fr'; it has it, en, de" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_pairs_are_scored_in_the_direction_of_their_names(folders: tuple[Path, Path]) -> None:
    model, data = folders
    pairs = str(data.parent / "text.en-de.tsv")
    choices: list[dict[str, Any]] = [{}, {"source_language": "en", "target_language": "de"}]
    by_name, by_option = (
        [pair.log_prob for pair in score(model, pairs, device="cpu", precision="float32", progress=False, **languages)]
        for languages in choices
    )
    assert by_name == by_option and None not in by_name
    with pytest.raises(DecodeError, match="not trained to translate it to de"):
        next(score(model, pairs, device="cpu", progress=False, source_language="it"))
