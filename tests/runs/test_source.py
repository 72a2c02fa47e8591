"""`train` finds a recipe file, a recipe of the library, or data, and reports a mistake in it in words."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

import dragoman
from dragoman.config import Settings
from dragoman.errors import ConfigError
from dragoman.runs.lookup import RunOptions, apply_overrides, find_recipe, identify_run, library, name_of
from dragoman.runs.opening import open_run
from dragoman.runs.recipe import Recipe
from dragoman.runs.status import make_folder


def test_a_limit_on_the_command_line_replaces_that_of_the_recipe() -> None:
    assert apply_overrides(["train.steps=5"], {"train": {"minutes": 4.5, "seed": 2}}) == {
        "train": {"seed": 2, "steps": 5}
    }
    assert find_recipe("opus-books-en-it", ["train.steps=1"]).tables["train"] == {"steps": 1}


def test_the_settings_of_a_built_in_recipe_are_known_but_for_those_of_the_user(tmp_path: Path) -> None:
    builtin = find_recipe("phrasebook", ["train.steps=5", "model.dropout=0.2"]).builtin
    assert {"batches.batch_tokens", "train.learning_rate"} <= builtin
    assert not {"train.steps", "model.dropout", "train.minutes"} & builtin
    own = tmp_path / "phrasebook.toml"
    own.write_text((resources.files("dragoman.runs") / "library" / "phrasebook.toml").read_text())
    assert find_recipe(own).builtin == find_recipe(tmp_path).builtin == frozenset()
    for name, kept in (("phrasebook", builtin), (str(own), frozenset())):
        overrides = ["train.steps=5", "model.dropout=0.2"]
        assert identify_run(name, RunOptions(overrides, runs=tmp_path)).builtin == kept


def test_a_built_in_recipe_wins_over_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phrasebook").mkdir()
    assert find_recipe("phrasebook").origin == "recipe phrasebook"
    assert "./phrasebook" in caplog.text
    assert find_recipe("./phrasebook").origin == "the command line"


def test_a_folder_of_text_may_hold_a_recipe_but_a_damaged_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").touch()
    assert find_recipe(tmp_path).tables == {"data": {"path": str(tmp_path)}}
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(ConfigError, match=r"was a run, but its run\.json is missing"):
        find_recipe(tmp_path)


@pytest.mark.parametrize("name", library())
def test_every_recipe_of_the_library_can_be_read(name: str) -> None:
    source = find_recipe(name)
    assert source.name == name
    text = resources.files("dragoman.runs").joinpath("library", f"{name}.toml").read_text(encoding="utf-8")
    says_why_not = any(reason in text.lower() for reason in ("not run here", "one seed was run", "all with a start"))
    assert ("nrefs:" in text) != says_why_not, "it gives scores with their signature, or says why none are given"


def settings_of(schema: type[Settings], prefix: str = "") -> Iterator[str]:
    """The dotted keys of a schema, groups before their settings."""
    for name, field in schema.model_fields.items():
        yield prefix + name
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Settings):
                yield from settings_of(part, f"{prefix}{name}.")


@pytest.mark.parametrize("key", list(settings_of(Recipe)))
def test_any_value_of_a_setting_is_taken_or_refused_in_words(key: str) -> None:
    refusals: list[str] = []
    for value in ("true", "-1", "0", "7", "1.5", "1e300", "'x'", "''", "[]", "[1]", "['a', 'b']", "{}", "{a = 1}"):
        for overrides in ([f"{key}={value}"], [f"{key}={value}", "train.steps=3"]):
            try:
                find_recipe("phrasebook", overrides)
            except ConfigError as error:
                refusals.append(str(error))
    assert refusals
    assert not any("\n" in refusal for refusal in refusals)


def test_an_unknown_size_is_the_only_complaint() -> None:
    with pytest.raises(ConfigError, match=r"model\.size should be 'nano', [^;]*, but is \"huge\"$"):
        find_recipe("phrasebook", ["model.size=huge"])


def test_a_limit_on_the_command_line_does_not_hide_a_mistake_in_the_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text("train = 5", encoding="utf-8")
    with pytest.raises(ConfigError, match="'train' is a value, not a group of settings"):
        find_recipe(recipe, ["train.steps=3"])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("data/corpus.en-it.tsv.gz", "corpus"),
        (("a/books.en", "a/books.it"), "books"),
        ("hub:Helsinki-NLP/opus_books:en-it", "opus_books"),
        ("prepared/", "prepared"),
        (".hidden", "run"),
        ("parts/books-*.tsv", "books"),
        ("parts/*.tsv", "run"),
    ],
)
def test_a_run_is_named_after_its_data(data: Any, name: str) -> None:
    assert name_of(data) == name


def test_runs_of_other_tasks_on_the_same_text_have_names_of_their_own(tmp_path: Path) -> None:
    def folder(what: Any, *overrides: str, name: str | None = None) -> str:
        request = identify_run(what, RunOptions(overrides, name, tmp_path / "runs"))
        make_folder(request.run)
        if not request.run.is_run:
            open_run(request, None)
        return request.run.path.name

    assert folder("phrasebook", "task=classify") == "phrasebook-classify", "the demo may come later"
    assert folder("phrasebook") == "phrasebook"
    assert folder("phrasebook", "task=tag") == "phrasebook-tag"
    assert folder("phrasebook", "task=translate") == "phrasebook"
    (tmp_path / "book.txt").write_text("one line\nand another\n")
    book = str(tmp_path / "book.txt")
    assert folder(book, "task=fill") == "book"
    assert folder(book) == folder(book, "task=language_model") == "book-language_model"
    assert folder(book, "task=fill") == "book", "the same command goes on"
    assert folder(book, name="mine") == "mine"


def test_settings_with_an_option_on_the_command_line_are_keywords_from_python() -> None:
    options = RunOptions.from_keywords(task="tag", minutes=1.5, overrides=["train.seed=2"], progress=False)
    assert list(options.overrides) == ['task="tag"', "train.minutes=1.5", "train.seed=2"]
    assert (
        find_recipe("phrasebook", options.overrides[1:]).tables["train"].items() >= {"minutes": 1.5, "seed": 2}.items()
    )
    assert RunOptions.from_keywords(name="a", task=None).overrides == []


@pytest.mark.parametrize("call", [dragoman.train, dragoman.train_seeds, dragoman.forecast])
@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("minuts", r"did you mean minutes\?$"),
        ("steps", r"did you mean train\.steps\? Settings without a keyword go into overrides, as in "),
        (
            "zzz",
            "known are overrides, name, .*, task, minutes, freeze, lora, synthetic, directions, both_directions$",
        ),
    ],
)
def test_an_unknown_keyword_is_refused_with_the_one_that_was_meant(call: Any, keyword: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"^unknown keyword {keyword}; {hint}"):
        call(**{keyword: 1})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"minutes": "long"}, "train.minutes should be a valid number"),
        ({"task": "sing"}, "task"),
        ({"minutes": 1, "overrides": "train.seed=2"}, "put it in a list"),
    ],
)
def test_a_wrong_value_of_a_keyword_is_refused_as_an_option_is(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_recipe("phrasebook", RunOptions.from_keywords(**keywords).overrides)
