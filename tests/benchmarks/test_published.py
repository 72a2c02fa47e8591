"""The arithmetic of the comparison with published figures, and its refusals; no model is loaded."""

import urllib.request
from pathlib import Path

import published
import pytest


@pytest.mark.parametrize(
    ("bleu", "figure", "verdict"),
    [(40.2, 40.9, "as published (-0.7)"), (41.9, 40.9, "as published (+1.0)"), (39.5, 40.9, "DIFFERS (-1.4)")],
)
def test_a_difference_of_more_than_one_bleu_is_named(bleu: float, figure: float, verdict: str) -> None:
    assert published.Row("a", "wmt19", 10, bleu, "", figure).verdict == verdict


def test_without_a_network_it_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    with pytest.raises(SystemExit, match=r"error: https://huggingface.co cannot be reached \(no route\)"):
        published.main(["--models", "opus-mt-en-de"])


def test_a_figure_belongs_to_one_model_and_files_come_in_pairs(tmp_path: Path) -> None:
    for words in (["--published", "30"], ["--source", str(tmp_path / "a")]):
        with pytest.raises(SystemExit) as end:
            published.main(words)
        assert end.value.code == 2
