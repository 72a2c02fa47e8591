"""Settings: TOML text, overrides and JSON files parsed to frozen models and rendered back to TOML.

A room declares its settings as a subclass of `Settings`, next to the code that they configure; this module knows none
of them. Every error names the source of the setting, the key, and the allowed values. JSON files that Dragoman writes
for itself are read against such a schema too; a file of another format is refused.
"""

import ast
import difflib
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from functools import cache
from itertools import pairwise
from pathlib import Path
from tomllib import TOMLDecodeError
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import pydantic

from dragoman.errors import CheckpointError, ConfigError, Error
from dragoman.serialization import DEEPEST, parse_toml, read_object, refuse_surrogates

S = TypeVar("S", bound="Settings")
Content = dict[str, Any]
"""The content of a JSON file."""

BACKSLASHES = "in double quotes, \\ has a special meaning; write / instead, or put the path in single quotes"
_WINDOWS_PATH = re.compile(r'^[^#\n]*("[A-Za-z]:\\[^\\"\n][^"\n]*")', re.MULTILINE)


class Settings(pydantic.BaseModel):
    """A frozen, strict group of settings. The docstring under each field gives its unit and range."""

    model_config = pydantic.ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def but(self: S, **changes: Any) -> S:
        """Return a copy with some fields changed, validated again as a whole."""
        if not changes:
            return self
        return check({**self.model_dump(mode="json"), **changes}, type(self).__name__, type(self))

    @classmethod
    @cache
    def meanings(cls) -> Mapping[str, str]:
        """Return the docstring under each field. Pydantic would read those of all schemas at import."""
        texts: dict[str, str] = {}
        for schema in reversed(cls.__mro__[: cls.__mro__.index(Settings)]):
            with suppress(OSError, TypeError):  # without source
                definition: Any = ast.parse(textwrap.dedent(inspect.getsource(schema))).body[0]
                for field, below in pairwise(definition.body):
                    if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                        texts[ast.unparse(field.target)] = ast.literal_eval(below.value)
        return texts


class SettingFacts(NamedTuple):
    """Human-readable facts about one setting."""

    key: str
    """Dotted key, as in `--set` and recipes."""
    type: str
    """Type of the value, in words."""
    allowed: str
    """Range or values, in words; empty if any value of the type is allowed."""
    default: str
    """Default value, in words."""
    meaning: str
    """Docstring of the field, on one line."""


def read(text: str, origin: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    if path := _WINDOWS_PATH.search(text):
        raise ConfigError(f"{origin}: {path[1]} is no path in TOML; {BACKSLASHES}")
    try:
        return parse_toml(text)
    except TOMLDecodeError as error:
        advice = f"; {BACKSLASHES}" if "\\" in str(error) or "hex value" in str(error) else ""
        raise ConfigError(f"{origin} is not TOML: {error}{advice}") from None
    except ValueError as error:
        raise ConfigError(f"{origin} cannot be read: {error}") from None


def override(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return a copy of `tables` with every override `dotted.key=value` applied.

    >>> override({"train": {"steps": 10}}, ["train.steps=20", "model.norm='rms'"])
    {'train': {'steps': 20}, 'model': {'norm': 'rms'}}
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides are several texts KEY=VALUE, but one was given, {overrides!r}; put it in a list")
    result = json.loads(json.dumps(tables, default=str))
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"--set takes KEY=VALUE, as in --set train.steps=1000, but was given {_short(repr(text))}"
            )
        *path, last = key.strip().split(".")
        if len(path) >= DEEPEST:
            raise ConfigError(f"--set {_short(text)}: the key is nested more than {DEEPEST} levels deep")
        table: dict[str, Any] = result
        for name in path:
            table.setdefault(name, {})
            if not isinstance(table[name], dict):
                raise ConfigError(f"--set {_short(text)}: {_short(repr(name))} is a value, not a group of settings")
            table = table[name]
        try:
            refuse_surrogates(text)
            table[last] = _value(value.strip())
        except ValueError as error:
            raise ConfigError(f"--set {_short(key)}=… cannot be read: {error}") from None
    return result


def as_overrides(settings: Mapping[str, Any], overrides: Sequence[str] = ()) -> list[str]:
    """Return settings, keyed by dotted key, as `dotted.key=value` unless they are None; `overrides` come last."""
    if isinstance(overrides, str):
        override({}, overrides)  # raises
    texts = {
        key: json.dumps(value, default=str, ensure_ascii=False) for key, value in settings.items() if value is not None
    }
    return [*(f"{key}={text}".replace("\x7f", "\\u007f") for key, text in texts.items()), *overrides]  # JSON as TOML


def check(tables: Mapping[str, Any], origin: str, schema: type[S], error: type[Error] = ConfigError) -> S:
    """Validate plain tables in JSON mode: lists become tuples, nothing else is converted. Raise `error` otherwise."""
    try:
        return schema.model_validate_json(json.dumps(tables, default=str))
    except pydantic.ValidationError as invalid:
        raise error("; ".join(_complaint(problem, origin, schema) for problem in invalid.errors()[:3])) from None


def choose(schema: type[S], group: str, overrides: Sequence[str], base: S | None = None, **values: Any) -> S:
    """Return one group: `base`, then `values` that are not None, then overrides, whose keys may omit the group."""
    tables = base.model_dump(mode="json", exclude_none=True) if base else {}
    tables |= {name: value for name, value in values.items() if value is not None}
    create: Any = pydantic.create_model
    whole: type[Settings] = create("Chosen", __base__=Settings, **{group: (schema, ...)})
    keys = [text if _names_a_group(text, schema) else f"{group}.{text}" for text in overrides]
    return getattr(check(override({group: tables}, keys), "the command line", whole), group)


def read_json_as(
    path: Path | str,
    schema: type[S],
    number: int | None = None,
    *,
    number_key: str = "format",
    error: type[Error] = CheckpointError,
    advice: str = "",
) -> S:
    """Read a JSON file into `schema`. The format number under `number_key` must be `number`, or None for files that
    have no format number.

    Raises:
        error: the file is missing, unreadable, no JSON object, of another format, or does not match the schema. The
            message ends with `advice`, unless the file was written by a newer version.
    """
    try:
        content = read_object(path)
        if number is not None:
            saved = content.get(number_key)
            if not isinstance(saved, int) or isinstance(saved, bool):
                raise CheckpointError(f"{path} is not Dragoman's: it has no format number")
            if saved < 1:
                raise CheckpointError(f"{path} is not Dragoman's: formats count from 1, but its format is {saved}")
            if saved > number:
                advice = ""
                raise CheckpointError(
                    f"{path} has format {saved}, newer than this version reads ({number}); upgrade dragoman"
                )
            if saved < number:
                raise CheckpointError(
                    f"{path} has format {saved}, older than this version reads ({number}); make it again"
                )
        return check(content, f"{path} is damaged", schema)
    except (CheckpointError, ConfigError) as refusal:
        raise error("; ".join(filter(None, (str(refusal), advice)))) from None


def render(settings: Settings, reasons: Mapping[str, str] | None = None) -> str:
    """Return TOML text that parses back to the same settings; `reasons`, by dotted key, and None become comments."""
    import tomlkit  # here and below, because settings are read more often than written

    document = tomlkit.document()
    _fill(document, settings.model_dump(mode="json"), dict(reasons or {}), "")
    return tomlkit.dumps(document)


def reasons_in(text: str) -> dict[str, str]:
    """Return the comments on the values of a TOML text written by `render`, keyed by dotted key.

    >>> reasons_in("[train]\\nsteps = 10 # as asked for")
    {'train.steps': 'as asked for'}
    """
    import tomlkit
    from tomlkit.items import AbstractTable

    reasons: dict[str, str] = {}

    def collect(container: Any, prefix: str) -> None:
        for key, item in container.body:
            if key is None:  # a line with only a comment
                continue
            if isinstance(item, AbstractTable):
                collect(item.value, f"{prefix}{key.key}.")
            elif comment := item.trivia.comment:
                reasons[prefix + key.key] = comment.removeprefix("#").strip()

    collect(tomlkit.parse(text), "")
    return reasons


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one level of dotted keys.

    >>> flatten({"train": {"steps": 10}})
    {'train.steps': 10}
    """
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        flat |= flatten(tables[key], f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the differences between facts in words; one that is missing from `then` counts if it is truthy now."""
    then, now = flatten(then), flatten(now)
    return "; ".join(
        f"{name}: {_brief(then.get(name))} then, {_brief(now.get(name))} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name) and (name in then or now[name])
    )


def describe(schema: type[Settings], prefix: str = "") -> Iterator[SettingFacts]:
    """Yield every setting of `schema` and of its nested groups, in the order of declaration."""
    try:
        defaults = check({}, prefix, schema)
    except ConfigError:
        defaults = None  # a setting has no default
    for name, field in schema.model_fields.items():
        if group := _group(field.annotation):
            yield from describe(group, f"{prefix}{name}.")
            continue
        annotation = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        if defaults is not None:
            default = _default_in_words(getattr(defaults, name))
        elif field.is_required():
            default = "must be given"
        else:
            default = _default_in_words(field.get_default(call_default_factory=True))
        meaning = " ".join((field.description or schema.meanings().get(name, "")).split())
        yield SettingFacts(prefix + name, _type_in_words(annotation), _range_in_words(annotation), default, meaning)


def nearest_setting(key: str, schema: type[Settings]) -> str:
    """Return a question that suggests the setting probably meant by an unknown `key`: the same name in another group,
    else a similar name in the same group or elsewhere. If there is none, return the names in the same group.
    """
    *group, name = key.split(".")
    settings = [facts.key for facts in describe(schema)]
    groups = [key.rpartition(".")[0] for key in settings]
    elsewhere = {key: key.rpartition(".")[2] for key in [*groups, *settings] if key}
    siblings = {".".join([*group, key]): key for key in _keys_in(schema, group)}
    for known, likeness in ((elsewhere, 1.0), (siblings, 0.8), (elsewhere, 0.8), (siblings, 0.6)):
        if near := difflib.get_close_matches(name, known.values(), n=1, cutoff=likeness):
            return f"did you mean {' or '.join(key for key, last in known.items() if last == near[0])}?"
    return f"known here: {', '.join(siblings.values())}"


def _brief(value: object) -> str:
    """Return a value for a message; of a long list, such as a processor's flags, only the length."""
    length = len(cast("list[object]", value)) if isinstance(value, list) else 0
    return f"{length} values" if length > 8 else repr(value)  # pyright: ignore[reportUnknownArgumentType]


def _names_a_group(text: str, schema: type[Settings]) -> bool:
    """Return True if the key of KEY=VALUE begins with the name of a group rather than of a setting."""
    first, dot, _ = text.partition("=")[0].strip().partition(".")
    return bool(dot) and first not in schema.model_fields


def _value(text: str) -> Any:
    """Parse a TOML value. Other text is a string, because shells remove quotes; dates and further lines are too."""
    try:
        value, *further = parse_toml(f"value = {text}").values()
    except TOMLDecodeError:
        return text
    return text if further or isinstance(value, date | time) else value


def _fill(container: Any, tables: Mapping[str, Any], reasons: Mapping[str, str], prefix: str) -> None:
    import tomlkit

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


def _short(text: str) -> str:
    """Return the first 100 characters of a text."""
    return text if len(text) <= 100 else f"{text[:100]}…"


def _complaint(problem: Any, origin: str, schema: type[Settings]) -> str:
    """Return the message for one pydantic problem."""
    path = [str(part) for part in problem["loc"]]
    key = _short(".".join(path))
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):  # the latter of a dataclass
        return f"{origin}: unknown setting {key}; {nearest_setting('.'.join(path), schema)}"
    if problem["type"] == "json_invalid":  # we wrote this JSON
        return f"{origin} holds text that is not UTF-8, or is nested too deep"
    if problem["type"] == "missing":
        return f"{origin}: {key} must be given"
    message = problem["msg"].removeprefix("Value error, ")
    place = f"{origin}: {key}" if key and f"{key}." not in message else origin  # the message may name the key itself
    if problem["type"] == "value_error":
        return f"{place}: {message}"
    _, _, rule = message.partition(" should ")  # of "Input should be …" and "String should have …"
    return f"{place} should {rule or f'be {message}'}, but is {_short(json.dumps(problem['input'], default=str))}"


def _keys_in(schema: type[Settings], path: Sequence[str]) -> list[str]:
    """Return the field names of the group of settings at `path`."""
    for name in path:
        field = schema.model_fields.get(name)
        if field is None:
            break
        schema = _group(field.annotation) or schema
    return list(schema.model_fields)


def _group(annotation: Any) -> type[Settings] | None:
    """Return the group of settings that a field holds, also if the field is optional."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((c for c in choices if isinstance(c, type) and issubclass(c, Settings)), None)


_TYPES: dict[Any, str] = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_BOUNDS = {
    "ge": "at least {:,}",
    "gt": "above {:,}",
    "le": "at most {:,}",
    "lt": "below {:,}",
    "min_length": "at least {:,} long",
}


def _type_in_words(annotation: Any) -> str:
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _type_in_words(parts[0])
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type_in_words(part) for part in parts if part is not NoneType))
    if kind is Literal:
        return "word"
    if kind is tuple:
        return f"list of {'' if parts[-1] is ... else f'{len(parts)} '}{_type_in_words(parts[0]).removesuffix('s')}s"
    return _TYPES.get(annotation, "table")


def _range_in_words(annotation: Any) -> str:
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Literal:
        return ", ".join(map(str, parts))
    if kind not in (Annotated, Union, UnionType, tuple):
        return ""
    inside = [_range_in_words(part) for part in (parts[:1] if kind is Annotated else parts)]
    if kind is not Annotated:
        return " or ".join(dict.fromkeys(filter(None, inside)))
    bounds = [bound for part in parts[1:] for bound in (part.metadata if hasattr(part, "metadata") else [part])]
    return ", ".join(filter(None, [*inside, *map(_bound_in_words, bounds)]))


def _bound_in_words(bound: Any) -> str:
    return next((words.format(getattr(bound, name)) for name, words in _BOUNDS.items() if hasattr(bound, name)), "")


def _default_in_words(value: Any) -> str:
    return "not given" if value is None else value if isinstance(value, str) and value else json.dumps(value)
