"""The examples run, and do what they say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.thorough
def test_a_language_model_learns_a_rhyme_and_goes_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "rhyme.txt"
    text.write_text("one for the master, one for the dame, one for the boy down the lane\n" * 80, encoding="utf-8")
    settings = ["train.steps=60", "batches.sentence_tokens=128", "train.learning_rate=2e-3"]
    sets = [part for setting in settings for part in ("--set", setting)]
    example("language_model").main([str(text), "--runs", str(tmp_path / "runs"), "--write", "40", *sets])
    printed = capsys.readouterr().out
    nats, _, written = printed.partition("\n")
    assert nats.startswith("nats a character ") and float(nats.split()[3]) < 2.0
    assert " the " in written or "one " in written


def test_an_example_names_a_text_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        example("language_model").main(["no-such.txt"])
    assert "no-such.txt does not exist" in capsys.readouterr().err
