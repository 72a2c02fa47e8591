"""Parsers of JSON and TOML text, used for every file and command line, and functions to read and write JSON files.

The parsers refuse values that could cause errors later: values nested too deep, integers beyond 64 bits, duplicate
keys, half of a surrogate pair. A refusal is a `ValueError` whose message continues "FILE cannot be read: ".
`config.read_json_as` reads a file against a schema.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, cast

from dragoman.errors import CheckpointError
from dragoman.files import read_regular, write_file

DEEPEST = 64
"""Maximum levels of nesting; our own files have five."""
LARGEST_JSON_BYTES = 1 << 28
"""Maximum size of a JSON file; a vocabulary of a million pieces takes a tenth of it."""
_SURROGATE = re.compile(r"\\u[dD][89abAB-F]")
_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"
_TOO_LARGE = "it holds a whole number beyond 64 bits"
_CONTAINERS = (dict, list)
# tomllib takes n² steps for a dotted key of n parts; within these bounds at most a second.
_TOML_CHARACTERS, _TOML_DOTS = 2**20, 200


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text (bytes are UTF-8), or raise `ValueError` if this module refuses it.

    >>> parse_json('{"steps": [1, 2]}')
    {'steps': [1, 2]}
    """
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = _JSON.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _refuse_depth(value)
    if _SURROGATE.search(text):
        refuse_surrogates(json.dumps(value, ensure_ascii=False))
    return value


def read_object(path: Path | str) -> dict[str, Any]:
    """Read a JSON object from a file; raise `CheckpointError` if it is missing, unreadable, too large or no object."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_JSON_BYTES:
            raise CheckpointError(f"{path} is larger than {LARGEST_JSON_BYTES >> 20} MiB; it is not Dragoman's")
        content = parse_json(read_regular(path))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object")
    return cast("dict[str, Any]", content)


def write_json(path: Path | str, content: object) -> None:
    """Write a JSON file atomically, indented; raise `ValueError` for a number that is not finite."""
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text, or raise `ValueError` (for bad syntax its subclass `TOMLDecodeError`)."""
    if len(text) > _TOML_CHARACTERS or any(line.count(".") > _TOML_DOTS for line in text.split("\n")):
        raise ValueError(
            f"it has more than {_TOML_CHARACTERS:,} characters, or a line with more than {_TOML_DOTS} dots"
        )
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python does not convert a number this long
        raise ValueError(_TOO_LARGE) from None
    _refuse_depth(tables)
    _refuse_large(tables)
    return tables


def refuse_surrogates(text: str) -> None:
    """Raise `ValueError` if the text holds half of a surrogate pair, which cannot be printed or written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it holds half of a surrogate pair (U+{ord(text[error.start]):04X}), no character") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"it holds the key {twice[:100]!r} twice")
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(_TOO_LARGE)
    return int(digits)


_JSON = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole_number)


def _refuse_depth(value: Any) -> None:
    """Raise `ValueError` if a value is nested too deep. One expression a level is fast for 100,000 lists."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(DEEPEST):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _refuse_large(value: Any) -> None:
    for child in value.values() if isinstance(value, dict) else value:
        if type(child) in _CONTAINERS:
            _refuse_large(child)
        elif isinstance(child, int) and not -(2**63) <= child < 2**63:
            raise ValueError(_TOO_LARGE)
