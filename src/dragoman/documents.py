"""JSON documents on disk: written whole, and read against a schema and the format number that they carry.

`read_document` reads everything that Dragoman writes for itself. Older formats pass through named functions
(`from_1_to_2`); newer ones are refused.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from dragoman.config import Settings, check, flatten
from dragoman.errors import CheckpointError, ConfigError, Error
from dragoman.files import write_file
from dragoman.notation import parse_json

LARGEST_JSON_BYTES = 1 << 28
"""A vocabulary of a million pieces takes a tenth of it."""

S = TypeVar("S", bound=Settings)
Content = dict[str, Any]
Upgrade = Callable[[Content], Content]
"""Turns the content of one format into that of the next, its number included."""


def read_document(
    path: Path | str,
    schema: type[S],
    newest: int | None = None,
    *,
    upgrades: Mapping[int, Upgrade] | None = None,
    number_key: str = "format",
    error: type[Error] = CheckpointError,
    advice: str = "",
) -> S:
    """Reads a JSON document into `schema`. Its format number stands under `number_key` and is at most `newest`, which
    is None for documents without a number. Content of format n passes through `upgrades[n]`, `upgrades[n + 1]` …

    Raises:
        error: the document is missing, unreadable, no JSON object, of an unknown format, or not as the schema says. The
            message ends with `advice`, unless the document is newer than this version.
    """
    try:
        content = read_object(path)
        if newest is not None:
            content = _upgraded(content, path, number_key, newest, upgrades or {})
        return check(content, f"{path} is damaged", schema)
    except _Newer as found:
        raise error(str(found)) from None
    except (CheckpointError, ConfigError) as found:
        raise error("; ".join(filter(None, (str(found), advice)))) from None


def read_object(path: Path | str) -> Content:
    """Reads a JSON file that holds an object.

    Raises:
        CheckpointError: it is missing, unreadable or something else.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object")
    return cast("Content", content)


def read_json(path: Path | str) -> object:
    """Reads a JSON file.

    Raises:
        CheckpointError: it is missing, unreadable, larger than `LARGEST_JSON_BYTES` or not JSON.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_JSON_BYTES:
            raise CheckpointError(f"{path} is larger than {LARGEST_JSON_BYTES >> 20} MiB; it is not Dragoman's")
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs between the facts in a document and those of today, in words; empty if nothing does. A setting that
    is newer than the document counts if it is on.
    """
    then, now = flatten(then), flatten(now)
    return "; ".join(
        f"{name}: {_brief(then.get(name))} then, {_brief(now.get(name))} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name) and (name in then or now[name])
    )


def write_json(path: Path | str, content: object) -> None:
    """Writes a JSON file, whole or not at all, indented for people to read.

    Raises:
        ValueError: the content holds a number that is not finite, which JSON cannot express and no reader takes.
    """
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class _Newer(Exception):
    """A document of a format that only a newer version reads."""


def _upgraded(
    content: Content, path: Path | str, number_key: str, newest: int, upgrades: Mapping[int, Upgrade]
) -> Content:
    """The content in the newest format."""
    number = content.get(number_key)
    if not isinstance(number, int) or isinstance(number, bool):
        raise CheckpointError(f"{path} is not Dragoman's: it has no format number")
    if number < 1:
        raise CheckpointError(f"{path} is not Dragoman's: formats count from 1, but its format is {number}")
    if number > newest:
        raise _Newer(f"{path} has format {number}, newer than this version reads ({newest}); upgrade dragoman")
    try:
        for each in range(number, newest):
            content = upgrades[each](content)
    except (KeyError, TypeError, AttributeError) as missing:
        raise CheckpointError(f"{path} is damaged: {missing}") from None
    return content


def _brief(value: Any) -> str:
    """A value as a message shows it. A long list, such as a processor's flags, is only counted."""
    return f"{len(value)} values" if isinstance(value, list) and len(value) > 8 else repr(value)
