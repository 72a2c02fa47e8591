"""Options that are settings: type, range, default and help come from the field."""

from typing import Annotated, Any

import pytest

from dragoman.cli.console import write
from dragoman.cli.main import main
from dragoman.cli.options import Setting, build

GENERATION = "dragoman.inference.options:GenerateOptions"


def command(
    top_k: Annotated[Any, Setting(GENERATION, "top_k")] = None,
    stop: Annotated[Any, Setting(GENERATION, "stop")] = None,
    raw: Annotated[Any, Setting("dragoman.inference.options:SearchOptions", "raw")] = None,
) -> None:
    """Print the values."""
    write(f"{top_k} {stop} {raw}")


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], "None None None"),
        (["--top-k", "3", "--stop", "a", "--stop", "b", "--raw"], "3 ['a', 'b'] True"),
    ],
)
def test_a_value_has_the_type_of_the_field(
    arguments: list[str], values: str, capsys: pytest.CaptureFixture[str]
) -> None:
    build(command).main(arguments, standalone_mode=False)
    assert capsys.readouterr().out == f"{values}\n"


def test_a_value_outside_the_range_is_refused_with_the_name_of_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "nowhere", "text", "--tokens", "0"]) == 2
    assert "Invalid value for '--tokens': Input should be greater than or equal to 1" in capsys.readouterr().err


def test_help_shows_range_default_and_the_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "[1<=x<=1000000]" in shown and "[default: (200)]" in shown
    assert "May be repeated." in shown
