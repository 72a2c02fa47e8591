"""What nobody asked for: chosen from the data, with a reason, and never against what was asked."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from dragoman.config import Settings
from dragoman.errors import ConfigError
from dragoman.recipe.plan import (
    Plan,
    choose_languages,
    choose_optimiser,
    choose_precision,
    choose_sizes,
    choose_steps,
    limits_given,
)
from dragoman.recipe.recipe import Recipe, apply, find_recipe, library, name_of


def plan(**tables: Any) -> Plan:
    return Plan(tables, {})


def test_sizes_grow_with_the_data() -> None:
    sizes = []
    for pairs in (300, 29_000, 300_000, 2_000_000, 10_000_000):
        small = plan()
        choose_sizes(small, pairs)
        model, batches = small.tables["model"], small.tables["batches"]
        vocabulary = small.tables["tokenizer"]["vocabulary_size"]
        sizes.append((model["size"], vocabulary, model["dropout"], batches["batch_tokens"]))
        unmeasured = ", extrapolated from fewer" if pairs > 1_000_000 else ""
        assert small.reasons["model.size"] == f"for {pairs:,} training pairs{unmeasured}"
    assert sizes == [
        ("tiny", 4_000, 0.2, 1_024),
        ("tiny", 8_000, 0.2, 2_048),
        ("mini", 8_000, 0.1, 2_048),
        ("small", 8_000, 0.1, 2_048),
        ("base", 32_000, 0.1, 8_192),
    ]


def test_what_was_asked_for_stays() -> None:
    asked = plan(model={"size": "big", "dropout": 0.0}, batches={"batch_tokens": 64}, tokenizer={"kind": "word"})
    choose_sizes(asked, 300)
    assert asked.tables == {
        "model": {"size": "big", "dropout": 0.0},
        "batches": {"batch_tokens": 64},
        "tokenizer": {"kind": "word"},
    }
    assert asked.reasons == {}


def test_nothing_to_train_on_is_said() -> None:
    with pytest.raises(ConfigError, match="no pair is left to train on; the data report says why"):
        choose_sizes(plan(), 0)


@pytest.mark.parametrize(
    ("tables", "chosen"),
    [
        ({}, {"optimiser": "muon", "schedule": "wsd"}),
        ({"model": {"d_model": 256}}, {"schedule": "wsd"}),
        ({"train": {"optimiser": "adamw"}}, {"optimiser": "adamw", "schedule": "wsd"}),
        ({"train": {"schedule": "noam"}}, {"schedule": "noam"}),
        ({"model": {"norm_position": "post"}}, {}),
        ({"start": {"model": "runs/books"}}, {}),
    ],
)
def test_narrow_models_take_muon_but_for_finished_ones_and_the_papers_way(
    tables: dict[str, Any], chosen: dict[str, str]
) -> None:
    model = {"d_model": 192, "norm_position": "pre", **tables.get("model", {})}
    given = plan(**{**tables, "model": model})
    choose_optimiser(given)
    assert given.tables["train"] == chosen


def test_without_a_limit_it_is_half_an_hour_or_some_epochs_of_fine_tuning() -> None:
    assert limits_given(plan()) == {"minutes": 30.0}
    assert limits_given(plan(start={"model": "runs/books"})) == {"epochs": 6.0}
    assert limits_given(plan(train={"epochs": 2.0})) == {"epochs": 2.0}


def test_the_rate_falls_with_the_width_and_for_fine_tuning() -> None:
    rates = []
    for tables in ({"d_model": 256}, {"d_model": 1024}):
        wide = plan(model=tables)
        choose_steps(wide, 1_000, "as asked for")
        rates.append(wide.tables["train"]["learning_rate"])
    assert rates == [2e-3, 1e-3]
    tuned = plan(model={"d_model": 256}, start={"model": "runs/books"})
    choose_steps(tuned, 1_000, "as asked for")
    assert tuned.tables["train"]["learning_rate"] == 5e-4


def test_each_optimiser_has_its_rate() -> None:
    orthogonal = plan(model={"d_model": 256}, train={"optimiser": "muon"})
    choose_steps(orthogonal, 1_000, "as asked for")
    assert orthogonal.tables["train"]["learning_rate"] == 5.6e-3


def test_the_papers_schedule_has_the_papers_peak() -> None:
    paper = plan(model={"d_model": 512}, train={"schedule": "noam", "warmup_steps": 4_000})
    choose_steps(paper, 100_000, "as asked for")
    assert paper.tables["train"]["learning_rate"] == pytest.approx(512**-0.5 * 4_000**-0.5)


@pytest.mark.parametrize("steps", [50, 1_000_000])
def test_the_reason_of_a_warmup_holds_for_long_and_short_runs(steps: int) -> None:
    planned = plan(model={"d_model": 256})
    choose_steps(planned, steps, "asked for")
    assert planned.reasons["train.warmup_steps"] == "a tenth of all steps, at most 4,000"


def test_warmup_and_validations_follow_from_the_steps() -> None:
    for steps, warmup, every in ((1, 1, 1), (500, 50, 50), (1_000_000, 4_000, 100_000)):
        chosen = plan(model={"d_model": 256}, train={"minutes": 5.0})
        choose_steps(chosen, steps, "5 minutes")
        train = chosen.tables["train"]
        assert (train["warmup_steps"], train["validate_every"]) == (warmup, every)
        assert "minutes" not in train, "one limit is left"


def test_a_precision_that_is_asked_for_is_taken() -> None:
    for precision in ("float32", "bf16"):
        asked = plan(train={"precision": precision})
        choose_precision(asked, "cpu")
        assert asked.tables["train"]["precision"] == precision
        assert asked.reasons["train.precision"] == "as asked for"


def test_only_prepared_data_tells_its_languages(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\n")
    text = plan(data={"path": str(tmp_path)})
    choose_languages(text)
    assert text.tables == {"data": {"path": str(tmp_path)}}


def test_a_limit_of_the_command_puts_that_of_the_recipe_aside() -> None:
    assert apply(["train.steps=5"], {"train": {"minutes": 4.5, "seed": 2}}) == {"train": {"seed": 2, "steps": 5}}
    assert find_recipe("opus-books-en-it", ["train.steps=1"]).tables["train"] == {"steps": 1}


def test_r_drop_without_dropout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.r_drop compares two passes with different dropout, but no dropout"):
        find_recipe("phrasebook", ["train.r_drop=5", "model.dropout=0"])
    assert find_recipe("phrasebook", ["train.r_drop=5", "model.dropout=0", "model.activation_dropout=0.1"])


def test_a_recipe_is_told_from_what_lies_here_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phrasebook").mkdir()
    assert find_recipe("phrasebook").origin == "recipe phrasebook"
    assert "./phrasebook" in caplog.text
    assert find_recipe("./phrasebook").origin == "the command line"


def test_a_folder_of_text_may_hold_a_recipe_and_the_rest_of_a_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").touch()
    assert find_recipe(tmp_path).tables == {"data": {"path": str(tmp_path)}}
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(ConfigError, match=r"was a run, but its run\.json is missing"):
        find_recipe(tmp_path)


@pytest.mark.parametrize("name", library())
def test_every_recipe_of_the_library_can_be_read(name: str) -> None:
    source = find_recipe(name)
    assert source.name == name
    text = resources.files("dragoman.recipe").joinpath("library", f"{name}.toml").read_text(encoding="utf-8")
    says_why_not = "not run here" in text.lower() or "one seed was run" in text.lower()
    assert (source.expected is None) == says_why_not, "it expects a score, or says why none is expected"


def settings_of(schema: type[Settings], prefix: str = "") -> Iterator[str]:
    """The dotted keys of a schema, groups and what is in them."""
    for name, field in schema.model_fields.items():
        yield prefix + name
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Settings):
                yield from settings_of(part, f"{prefix}{name}.")


@pytest.mark.parametrize("key", list(settings_of(Recipe)))
def test_whatever_a_setting_is_given_it_is_taken_or_refused_in_words(key: str) -> None:
    refusals: list[str] = []
    for value in ("true", "-1", "0", "7", "1.5", "1e300", "'x'", "''", "[]", "[1]", "['a', 'b']", "{}", "{a = 1}"):
        for overrides in ([f"{key}={value}"], [f"{key}={value}", "train.steps=3"]):
            try:
                find_recipe("phrasebook", overrides)
            except ConfigError as error:
                refusals.append(str(error))
    assert refusals
    assert not any("\n" in refusal for refusal in refusals)


def test_a_size_that_there_is_not_is_the_only_complaint() -> None:
    with pytest.raises(ConfigError, match=r"model\.size should be 'tiny', [^;]*, but is \"huge\"$"):
        find_recipe("phrasebook", ["model.size=huge"])


def test_a_limit_on_the_command_line_does_not_hide_a_recipe_that_is_wrong(tmp_path: Path) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text("train = 5", encoding="utf-8")
    with pytest.raises(ConfigError, match="'train' is a value, not a group of settings"):
        find_recipe(recipe, ["train.steps=3"])
    recipe.write_text("expected = 5", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"my\.toml, expected should be an object, but is 5"):
        find_recipe(recipe)


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
def test_a_run_is_named_for_its_data(data: Any, name: str) -> None:
    assert name_of(data) == name
