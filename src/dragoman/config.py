"""Settings: TOML text and overrides in, frozen models out, and back to TOML.

A room declares its settings as a subclass of `Settings` beside what they configure; this file knows none of them and
opens no file. Every mistake names where it stands, the key, and what is allowed.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

import pydantic
import tomlkit
from tomlkit.container import Container
from tomlkit.items import AbstractTable

from dragoman.errors import ConfigError

S = TypeVar("S", bound="Settings")


class Settings(pydantic.BaseModel):
    """A frozen, strict group of settings; the docstring under each field gives its unit and range."""

    model_config = pydantic.ConfigDict(
        frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    def but(self: S, **changes: Any) -> S:
        """A copy with some fields changed, checked again as a whole."""
        return check({**self.model_dump(mode="json"), **changes}, type(self).__name__, type(self))


def parse(text: str, origin: str, schema: type[S], overrides: Sequence[str] = ()) -> S:
    """Reads TOML `text` (called `origin` in messages) into `schema`; each override is `dotted.key=value`, in TOML.

    Raises:
        ConfigError: no TOML, an unknown key (with the nearest valid one), a wrong type or value.
    """
    return check(override(read(text, origin), overrides), origin, schema)


def read(text: str, origin: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not TOML: {error}") from None


def override(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `tables` with every `dotted.key=value` put in its place.

    >>> override({"train": {"steps": 10}}, ["train.steps=20", "model.norm='rms'"])
    {'train': {'steps': 20}, 'model': {'norm': 'rms'}}
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides are several texts KEY=VALUE, but one was given, {overrides!r}; put it in a list")
    result = json.loads(json.dumps(tables, default=str))
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set takes KEY=VALUE, as in --set train.steps=1000, but was given {text!r}")
        *path, last = key.strip().split(".")
        table: dict[str, Any] = result
        for name in path:
            table.setdefault(name, {})
            if not isinstance(table[name], dict):
                raise ConfigError(f"--set {text}: {name!r} is a value, not a group of settings")
            table = table[name]
        table[last] = _value(value.strip())
    return result


def check(tables: Mapping[str, Any], origin: str, schema: type[S]) -> S:
    """Validates plain tables, in JSON mode: lists become tuples, nothing else is converted."""
    try:
        return schema.model_validate_json(json.dumps(tables, default=str))
    except pydantic.ValidationError as error:
        raise ConfigError("; ".join(_complaint(problem, origin, schema) for problem in error.errors()[:3])) from None


def render(settings: Settings, reasons: Mapping[str, str] | None = None) -> str:
    """TOML text that parses back to the same settings. `reasons` (dotted key -> words) become comments.

    Settings that are None are named in comments: absence is how TOML says it.
    """
    document = tomlkit.document()
    _fill(document, settings.model_dump(mode="json"), dict(reasons or {}), "")
    return tomlkit.dumps(document)


def reasons_in(text: str) -> dict[str, str]:
    """The comments beside the values of a TOML text that `render` made: dotted key -> words.

    >>> reasons_in("[train]\\nsteps = 10 # as asked for")
    {'train.steps': 'as asked for'}
    """
    reasons: dict[str, str] = {}

    def collect(container: Container, prefix: str) -> None:
        for key, item in container.body:
            if key is None:  # a comment on a line of its own
                continue
            if isinstance(item, AbstractTable):
                collect(item.value, f"{prefix}{key.key}.")
            elif comment := item.trivia.comment:
                reasons[prefix + key.key] = comment.removeprefix("#").strip()

    collect(tomlkit.parse(text), "")
    return reasons


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one level of dotted keys.

    >>> flatten({"train": {"steps": 10}})
    {'train.steps': 10}
    """
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        flat |= flatten(tables[key], f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _value(text: str) -> Any:
    """A TOML value; a bare word counts as a string, for shells eat quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fill(container: Any, tables: Mapping[str, Any], reasons: Mapping[str, str], prefix: str) -> None:
    groups = [key for key, value in tables.items() if isinstance(value, dict)]
    for key in [key for key in tables if key not in groups]:
        if tables[key] is None:
            container.add(tomlkit.comment(f"{key} is not given"))
            continue
        item: Any = tomlkit.item(tables[key])  # pyright: ignore[reportUnknownVariableType]
        if reason := reasons.get(prefix + key):
            item.comment(reason)  # pyright: ignore[reportUnknownMemberType]
        container.add(key, item)
    for key in groups:
        table = tomlkit.table()
        _fill(table, tables[key], reasons, f"{prefix}{key}.")
        container.add(key, table)


def _complaint(problem: Any, origin: str, schema: type[Settings]) -> str:
    """One pydantic problem in the user's words."""
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    if problem["type"] == "extra_forbidden":
        known = _keys_beside(schema, path[:-1])
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean {'.'.join([*path[:-1], near[0]])}?" if near else f"known here: {', '.join(known)}"
        return f"{origin}: unknown setting {key}; {hint}"
    if problem["type"] == "missing":
        return f"{origin}: {key} must be given"
    message, place = problem["msg"].removeprefix("Value error, "), f"{origin}: {key}" if key else origin
    if problem["type"] == "value_error":
        return f"{place}: {message}"
    message = message.removeprefix("Input should be ")
    return f"{place} should be {message}, but is {json.dumps(problem['input'], default=str)}"


def _keys_beside(schema: type[Settings], path: Sequence[str]) -> list[str]:
    """The field names of the group of settings at `path`."""
    for name in path:
        field = schema.model_fields.get(name)
        if field is None:
            break
        candidates = [field.annotation, *get_args(field.annotation)]
        schema = next((c for c in candidates if isinstance(c, type) and issubclass(c, Settings)), schema)
    return list(schema.model_fields)
