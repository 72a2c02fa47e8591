"""The examples run, and do what they say."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_language_model_learns_a_rhyme_and_goes_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "rhyme.txt"
    text.write_text("one for the master, one for the dame, one for the boy down the lane\n" * 80, encoding="utf-8")
    example("language_model").main([str(text), "--steps", "60", "--every", "8", "--write", "40", "--threads", "1"])
    told = capsys.readouterr().out
    learning = [float(loss) for loss in re.findall(r"learning (\d+\.\d+) nats a character", told)]
    held_out = [float(loss) for loss in re.findall(r"held out (\d+\.\d+) nats a character", told)]
    assert len(learning) == 7 and learning[-1] < learning[0] / 2
    assert len(held_out) == 2 and held_out[-1] < held_out[0]
    assert " for the " in told.rpartition("nats a character")[2]


def test_nats_are_counted_by_the_character_not_by_the_byte(tmp_path: Path) -> None:
    from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizer

    text = "però " * 100
    tokenizer = learn_tokenizer([text], TokenizerSettings(kind="byte_bpe", vocabulary_size=260))
    *_, ids_per_character = example("language_model").encode(text, tokenizer, tmp_path)
    assert ids_per_character == pytest.approx(6 / 5)


def test_an_example_names_a_text_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        example("language_model").main(["no-such.txt"])
    assert "no-such.txt does not exist" in capsys.readouterr().err
