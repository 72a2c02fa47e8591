"""The one reader of what Dragoman writes for itself: it checks, brings up to date, and refuses in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Settings, read_json_as
from dragoman.errors import DataError
from dragoman.serialization import write_json


class Recipe(Settings):
    format: int
    cook: str
    grams: int


def from_1_to_2(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "format": 2, "cook": content["chef"]}


def from_2_to_3(content: dict[str, Any]) -> dict[str, Any]:
    grams = round(1000 * content["kilograms"])
    return {"format": 3, "cook": content["cook"], "grams": grams}


def read(path: Path) -> Recipe:
    upgrades = {1: from_1_to_2, 2: from_2_to_3}
    return read_json_as(path, Recipe, 3, upgrades=upgrades, error=DataError, advice="cook again")


@pytest.mark.parametrize(
    "content",
    [
        {"format": 1, "chef": "Ada", "kilograms": 0.5},
        {"format": 2, "cook": "Ada", "kilograms": 0.5},
        {"format": 3, "cook": "Ada", "grams": 500},
    ],
)
def test_every_older_format_reads_as_the_newest(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
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
        ('{"format": 1}', "a.json is damaged: 'chef'; cook again"),
        ('{"format": 2, "kilograms": {}}', "a.json is damaged: .*; cook again"),
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
