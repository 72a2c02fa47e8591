"""`dragoman settings`: every setting, found by its name or a part of it."""

import json
import subprocess
import sys
import tomllib

import pytest

import dragoman
from dragoman.cli.main import main
from dragoman.config import check
from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.runs.choices import SIZES, RecipeDraft, TextFacts, VocabularySizes, choose_by_text, choose_by_vocabularies
from dragoman.runs.recipe import BY_SIZE, CHOSEN, Recipe


def keys(key: str | None = None) -> list[str]:
    return [facts.key for facts in dragoman.list_settings(key)]


def test_every_group_of_a_recipe_is_listed() -> None:
    assert {key.partition(".")[0] for key in keys()} == set(Recipe.model_fields)


def test_a_setting_is_found_by_name_group_beginning_or_part() -> None:
    assert keys("train.steps") == ["train.steps"]
    assert keys("train") == [key for key in keys() if key.startswith("train.")]
    assert keys("data.checks") == [key for key in keys() if key.startswith("data.checks.")]
    assert keys("train.save") == ["train.save_minutes", "train.save_every"]
    assert keys("beam_size") == ["decode.beam_size"]


def test_a_name_that_no_setting_has_suggests_the_nearest() -> None:
    for wrong, meant in (("lerning_rate", "train.learning_rate"), ("decode.beem_size", "decode.beam_size")):
        with pytest.raises(ConfigError, match=f"no setting is called {wrong}; did you mean {meant}?"):
            dragoman.list_settings(wrong)


def test_table_and_json_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "train.ema"]) == 0
    table = capsys.readouterr().out
    assert main(["settings", "train.ema", "--format", "json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["key"] == "train.ema" and facts["allowed"] == "at least 0, at most 1"
    assert all(facts[name] in table for name in ("key", "type", "allowed", "default", "meaning"))


@pytest.mark.parametrize("command", [["settings"], ["runs", "."], ["--help"]])
def test_lists_load_no_torch(command: list[str]) -> None:
    code = f"import sys; from dragoman.cli.main import main; sys.exit(main({command}) or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("spaceless", "kind"), [(0.0, "word"), (0.02, "word"), (0.5, "character"), (1.0, "character")])
def test_a_classifier_reads_characters_where_texts_have_no_spaces(spaceless: float, kind: str) -> None:
    draft = RecipeDraft({"task": "classify"})
    choose_by_text(draft, TextFacts(900, spaceless=spaceless))
    assert draft.recipe.tokenizer.kind == kind


def test_what_a_run_chooses_is_not_listed_as_a_default() -> None:
    for sizes in SIZES["translation"]:
        draft, count = RecipeDraft({}), sizes.vocabulary_size
        choose_by_text(draft, TextFacts(int(min(sizes.below, 1e9)) - 1))
        choose_by_vocabularies(draft, VocabularySizes(count, count, joint=True), "float32", "")
        assert draft.reasons.keys() <= CHOSEN.keys()
    assert CHOSEN.keys() <= set(keys())


def test_widths_that_a_size_decides_are_listed_so() -> None:
    tiny, big = (check({"size": size}, "", ModelConfig).model_dump() for size in ("tiny", "big"))
    differ = {f"model.{name}" for name in tiny if tiny[name] != big[name]} - {"model.size", "model.dropout"}
    assert differ == {key for key, by in CHOSEN.items() if by == BY_SIZE}


def test_defaults_are_those_of_an_empty_recipe() -> None:
    recipe = check({}, "", Recipe).model_dump(mode="json")
    for facts in dragoman.list_settings():
        group, _, name = facts.key.partition(".")
        if facts.key not in CHOSEN and facts.type.startswith(("number", "whole")) and facts.default != "not given":
            assert group in ("start", "tuning", "synthetic") or tomllib.loads(f"x = {facts.default}")["x"] == _value(
                recipe[group], name
            )


def _value(tables: dict[str, object], name: str) -> object:
    for part in name.split("."):
        tables = tables[part]  # pyright: ignore[reportAssignmentType]
    return tables
