"""The one reader of what Dragoman writes for itself: it checks, and refuses in one sentence."""

from pathlib import Path

import pytest

from dragoman.config import Settings, read_json_as
from dragoman.errors import DataError
from dragoman.serialization import write_json


class Recipe(Settings):
    format: int
    cook: str
    grams: int


def read(path: Path) -> Recipe:
    return read_json_as(path, Recipe, 3, error=DataError, advice="cook again")


def test_a_document_of_this_format_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": 3, "cook": "Ada", "grams": 500}')
    assert read(tmp_path / "a.json") == Recipe(format=3, cook="Ada", grams=500)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a.json is missing; cook again"),
        ("{", "a.json cannot be read: .*; cook again"),
        ("[]", "a.json should hold a JSON object; cook again"),
        ("{}", "a.json is not Dragoman's: it has no format number; cook again"),
        ('{"format": true}', "has no format number"),
        ('{"format": 0}', "formats count from 1, but its format is 0"),
        ('{"format": 4}', r"has format 4, newer than this version reads \(3\); upgrade dragoman$"),
        ('{"format": 2}', r"has format 2, older than this version reads \(3\); make it again; cook again"),
        ('{"format": 3, "cook": "Ada", "grams": "500"}', "a.json is damaged: grams should be .*; cook again"),
    ],
)
def test_whatever_else_it_holds_is_refused_in_one_sentence(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.json")


def test_a_document_without_a_number_is_checked_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": 9, "cook": "Ada"}')
    with pytest.raises(DataError, match="a.json is damaged: grams must be given"):
        read_json_as(tmp_path / "a.json", Recipe, error=DataError)


def test_a_number_that_is_not_finite_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "facts.json", {"score": float("nan")})
    assert not [*tmp_path.iterdir()]
