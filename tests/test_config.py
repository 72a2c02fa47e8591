"""Settings: TOML in, the same TOML out, and every mistake named with its place."""

import tomllib
from typing import Annotated, Literal

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small import parse

from dragoman import config
from dragoman.config import SettingFacts, Settings, as_overrides, check, describe, flatten, override, render
from dragoman.errors import ConfigError
from dragoman.formats.addresses import missing
from dragoman.model.config import ModelConfig
from dragoman.runs.recipe import Recipe


class Engine(Settings):
    """A group within a group."""

    power: float = pydantic.Field(default=1.5, gt=0)
    fuel: Literal["steam", "diesel"] = "steam"
    names: tuple[str, ...] = ()


class Train(Settings):
    """A small schema with every kind of value."""

    wheels: int = pydantic.Field(ge=1)
    label: str = "none"
    loud: bool = False
    length: float | None = None
    engine: Engine = Engine()

    @pydantic.model_validator(mode="after")
    def _refuse_contradictions(self) -> "Train":
        if self.loud and self.wheels > 100:
            raise ValueError("a loud train has at most 100 wheels")
        return self


def read(text: str, *overrides: str) -> Train:
    return parse(text, "train.toml", Train, overrides)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
engines = st.builds(
    Engine,
    power=st.floats(min_value=1e-9, max_value=1e300),
    fuel=st.sampled_from(["steam", "diesel"]),
    names=st.lists(texts, max_size=3).map(tuple),
)
trains = st.builds(
    Train,
    wheels=st.integers(1, 100),
    label=texts,
    loud=st.booleans(),
    length=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    engine=engines,
)


@given(trains, st.text("abc #=\"'", min_size=1, max_size=10))
def test_what_is_rendered_reads_back_the_same_with_or_without_reasons(train: Train, reason: str) -> None:
    assert read(render(train)) == train
    assert read(render(train, {"wheels": reason, "engine.power": reason})) == train


def test_reasons_and_missing_settings_are_comments() -> None:
    text = render(Train(wheels=4), {"engine.fuel": "cheapest here"})
    assert 'fuel = "steam" # cheapest here' in text
    assert "# length is not given" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wheels = ", "train.toml is not TOML: "),
        ("wheels = 4\nwheels = 5", "train.toml is not TOML: "),
        ("", "train.toml: wheels must be given"),
        ("wheels = 4\nlabl = 'a'", r"train.toml: unknown setting labl; did you mean label\?"),
        ("wheels = 4\nzzz = 1", "train.toml: unknown setting zzz; known here: wheels, label, loud, length, engine"),
        ("wheels = 4\n[engine]\npowr = 2", r"train.toml: unknown setting engine.powr; did you mean engine.power\?"),
        ("wheels = '4'", 'train.toml: wheels should be a valid integer, but is "4"'),
        ("wheels = 4.0", "train.toml: wheels should be a valid integer"),
        ("wheels = true", "train.toml: wheels should be a valid integer, but is true"),
        ("wheels = 0", "train.toml: wheels should be greater than or equal to 1, but is 0"),
        ("wheels = 4\nloud = 1", "train.toml: loud should be a valid boolean, but is 1"),
        ("wheels = 4\nlength = nan", "train.toml: length should be a finite number"),
        ("wheels = 4\nengine.power = inf", "train.toml: engine.power should be a finite number"),
        ("wheels = 4\nengine.fuel = 'coal'", "engine.fuel should be 'steam' or 'diesel', but is \"coal\""),
        ("wheels = 4\nengine.names = 'a'", 'engine.names should be a valid array, but is "a"'),
        ("wheels = 4\nengine = 3", "train.toml: engine should be an object, but is 3"),
        ("wheels = 101\nloud = true", "train.toml: a loud train has at most 100 wheels"),
    ],
)  # fmt: skip
def test_every_mistake_names_the_place_the_key_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(text)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_whole_numbers_serve_as_floats() -> None:
    assert read("wheels = 4\nlength = 3").length == 3.0


def test_overrides_reach_into_groups_and_the_last_one_counts() -> None:
    train = read(
        "wheels = 4\n[engine]\npower = 2.0", "engine.fuel=diesel", "wheels=6", "wheels=8", "engine.names=['a']"
    )
    assert (train.wheels, train.engine) == (8, Engine(power=2.0, fuel="diesel", names=("a",)))


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *(("'steam'", "steam"), ("steam engine", "steam engine"), ("", ""), ("a=b", "a=b"), ('"a # b"', "a # b")),
        *(("1\nloud = true", "1\nloud = true"), ("1979-05-27T07:32:00Z", "1979-05-27T07:32:00Z")),
    ],
)
def test_bare_words_are_text_because_shells_remove_quotes(value: str, label: str) -> None:
    assert read("wheels = 4", f"label={value}").label == label


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("wheels", "--set takes KEY=VALUE, as in --set train.steps=1000, but was given 'wheels'"),
        ("=3", "--set takes KEY=VALUE"),
        ("wheels.a=3", "--set wheels.a=3: 'wheels' is a value, not a group of settings"),
        ("engine.powr=3", "unknown setting engine.powr; did you mean engine.power?"),
    ],
)
def test_overrides_that_do_not_fit_are_refused(given: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("wheels = 4", given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("learning_rate=1", "did you mean train.learning_rate?"),
        ("model.learning_rate=1", "did you mean train.learning_rate?"),
        ("lerning_rate=1", "did you mean train.learning_rate?"),
        ("train.beamsize=1", "did you mean decode.beam_size?"),
        ("seed=1", "did you mean data.seed or train.seed or decode.seed?"),
        ("max_words=1", "did you mean data.checks.max_words?"),
        ("checks.max_words=1", "did you mean data.checks?"),
        ("train.zzz=1", "known here: steps, epochs, minutes"),
    ],
)
def test_an_unknown_setting_is_looked_for_in_all_groups(given: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("", "recipe", Recipe, [given])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a." * 10_000 + "b=1", "the key is nested more than 64 levels deep"),
        ("label=" + "[" * 10_000, "--set label=… cannot be read: it is nested more than 64 levels deep"),
        ("wheels=" + "9" * 5_000, "--set wheels=… cannot be read: it holds a whole number beyond 64 bits"),
        (f"wheels={2**63}", "--set wheels=… cannot be read: it holds a whole number beyond 64 bits"),
        ("label=\udcff", "--set label=… cannot be read: it holds half of a surrogate pair (U+DCFF)"),
        ("x" * 10_000 + "=1", "x…; known here: "),
        ("wheels=" + "x" * 10_000, 'wheels should be a valid integer, but is "xxx'),
        ("wheels." + "x" * 10_000 + "=1", "'wheels' is a value"),
        ("x" * 10_000, "--set takes KEY=VALUE"),
    ],
)
def test_hostile_overrides_are_refused_in_one_short_line(given: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("wheels = 4", given)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_hostile_toml_is_refused_with_its_origin() -> None:
    with pytest.raises(ConfigError, match="^train.toml cannot be read: it is nested more than 64 levels deep$"):
        read("wheels = " + "[" * 10_000)


def test_text_that_is_not_utf_8_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="^here holds text that is not UTF-8"):
        check({"wheels": 4, "label": "\udcff"}, "here", Train)


@given(value=st.text(max_size=20) | st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=3))
@example(value="😀 Ciao")
@example(value="\"\\\n\x7f\x00\r\u2028= # '")
@example(value=["😀", "1\nwheels = 7"])
def test_a_given_setting_comes_back_unchanged(value: str | list[str]) -> None:
    key = "label" if isinstance(value, str) else "engine.names"
    overrides = as_overrides({key: value, "loud": None})
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        with pytest.raises(ConfigError, match="half of a surrogate pair"):
            read("wheels = 4", *overrides)
        return
    train = read("wheels = 4", *overrides)
    assert (train.label if isinstance(value, str) else [*train.engine.names]) == value
    assert train.wheels == 4


def test_one_text_is_no_list_of_overrides() -> None:
    with pytest.raises(ConfigError, match="put it in a list"):
        override({}, "train.steps=5")


def test_overriding_leaves_the_tables_that_were_given() -> None:
    tables = {"engine": {"power": 2.0}}
    assert override(tables, ["engine.power=3.0"]) == {"engine": {"power": 3.0}}
    assert tables == {"engine": {"power": 2.0}}


def test_settings_are_frozen_and_a_changed_copy_is_checked_again() -> None:
    train = Train(wheels=4)
    with pytest.raises(pydantic.ValidationError):
        train.wheels = 5  # pyright: ignore[reportAttributeAccessIssue]
    assert train.but(wheels=5) == Train(wheels=5)
    with pytest.raises(ConfigError, match="at most 100 wheels"):
        train.but(wheels=200, loud=True)


def test_groups_are_flattened_to_dotted_keys() -> None:
    flat = flatten(Train(wheels=4).model_dump())
    assert (flat["wheels"], flat["engine.power"]) == (4, 1.5)


def test_every_setting_says_what_it_is() -> None:
    class Told(Settings):
        speed: float = 1.0
        """In miles
        an hour."""
        height: float = pydantic.Field(default=1.0, description="In feet.")

    class More(Told):
        weight: float = 1.0
        """In stones."""

    assert [facts.meaning for facts in describe(More)] == ["In miles an hour.", "In feet.", "In stones."]
    assert pydantic.create_model("Made", __base__=Told).meanings() == Told.meanings()


def test_settings_are_described_with_key_type_range_default_and_meaning() -> None:
    class Oven(Settings):
        heat: float = pydantic.Field(default=180.0, gt=0, le=300)
        """Degrees
        Celsius."""
        fuel: Literal["wood", "gas"] | None = None
        racks: Annotated[int, pydantic.Field(ge=1, lt=2000)] | Literal["auto"] = "auto"
        marks: tuple[Annotated[float, pydantic.Field(ge=0)], float] = (0.5, 1.0)
        names: tuple[str, ...] = ()

    class Kitchen(Settings):
        owner: str = pydantic.Field(min_length=1)
        oven: Oven | None = None

    class House(Settings):
        kitchen: Kitchen = Kitchen(owner="Ada")

    assert list(describe(House)) == [
        SettingFacts("kitchen.owner", "text", "at least 1 long", "must be given", ""),
        SettingFacts("kitchen.oven.heat", "number", "above 0, at most 300", "180.0", "Degrees Celsius."),
        SettingFacts("kitchen.oven.fuel", "word", "wood, gas", "not given", ""),
        SettingFacts("kitchen.oven.racks", "whole number or word", "at least 1, below 2,000 or auto", "auto", ""),
        SettingFacts("kitchen.oven.marks", "list of 2 numbers", "at least 0", "[0.5, 1.0]", ""),
        SettingFacts("kitchen.oven.names", "list of texts", "", "[]", ""),
    ]
    assert next(iter(describe(Oven, "kitchen.oven."))).key == "kitchen.oven.heat"


def test_every_setting_of_a_recipe_has_a_meaning_and_a_default() -> None:
    told = {facts.key: facts for facts in describe(Recipe)}
    assert told["model.d_model"].default == "256"
    assert told["start.model"].default == "must be given"
    assert [key for key, facts in told.items() if not facts.meaning or not facts.type or not facts.default] == []


@pytest.mark.parametrize("preset", ["paper", "modern"])
@pytest.mark.parametrize("size", ["nano", "micro", "tiny", "mini", "small", "base", "big"])
def test_an_architecture_written_down_is_itself_again(preset: str, size: str) -> None:
    config = ModelConfig.model_validate({"preset": preset, "size": size})
    text = render(config)
    assert parse(text, "here", ModelConfig) == config
    assert tomllib.loads(text)["d_model"] == config.d_model


@pytest.mark.parametrize("path", [r"C:\Users\me\train.tsv", r"C:\temp\new.tsv", r"data\xsmall.tsv", r"data\users.tsv"])
def test_a_path_with_backslashes_in_double_quotes_is_named(path):
    with pytest.raises(ConfigError, match="write / instead, or put the path in single quotes"):
        config.read(f'[data]\npath = "{path}"\n', "run.toml")
    assert config.read(f"[data]\n# \"{path}\"\npath = '{path}'\n", "run.toml")["data"]["path"] == path


def test_a_path_whose_backslash_became_a_tab_is_named():
    assert "write / instead" in str(missing("data\train.tsv"))
