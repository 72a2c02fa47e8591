"""Who may use a server, and how often: a file of keys, and a count of requests.

A key is 32 random bytes, which nobody guesses, so a plain SHA-256 hides it; slow hashes are for passwords. The file
holds only hashes.
"""

import hashlib
import hmac
import ipaddress
import logging
import os
import secrets
import time
from collections import OrderedDict
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import pydantic

from dragoman.config import Settings, check, read_json_as
from dragoman.errors import ConfigError, Error
from dragoman.serialization import write_json

log = logging.getLogger(__name__)

MOST_COUNTED = 10_000
"""Most keys and addresses whose requests are counted. The one that has asked for nothing longest is forgotten."""


class Key(Settings):
    """One key: whose it is, its hash, and the day of its creation."""

    name: Annotated[str, pydantic.Field(pattern=r"^\w[\w .@-]{0,99}$")]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]
    created: str


class KeyFile(Settings):
    """What a file of keys holds."""

    format: int = 1
    keys: tuple[Key, ...] = ()


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a file.

    Raises:
        ConfigError: it is missing, or is no file of keys.
    """
    if not path.exists():
        raise ConfigError(f"{path} does not exist; make a key with: dragoman keys create NAME --keys {path}")
    return read_json_as(path, KeyFile, 1, error=ConfigError).keys


def create_key(path: Path, name: str) -> str:
    """Adds a key to a file, which is made if it is missing and which only its owner can read. Returns the key.

    Raises:
        ConfigError: the name is taken, or has other characters than letters, digits, spaces and `.@-_`.
    """
    keys = read_keys(path) if path.exists() else ()
    if any(key.name == name for key in keys):
        raise ConfigError(f"{path} has a key {name!r} already; withdraw it first, or choose another name")
    secret = f"dragoman_{secrets.token_urlsafe(32)}"
    today = datetime.now(UTC).date().isoformat()
    _write(path, *keys, check({"name": name, "sha256": _sha256(secret), "created": today}, "NAME", Key))
    return secret


def withdraw_key(path: Path, name: str) -> None:
    """Takes a key out of a file.

    Raises:
        ConfigError: no key has this name.
    """
    keys = read_keys(path)
    if all(key.name != name for key in keys):
        raise ConfigError(f"{path} has no key {name!r}; it has {', '.join(key.name for key in keys) or 'none'}")
    _write(path, *(key for key in keys if key.name != name))


def _write(path: Path, *keys: Key) -> None:
    before = os.umask(0o077)
    try:
        write_json(path, KeyFile(keys=keys).model_dump())
    finally:
        os.umask(before)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """The keys of a file, read again whenever it changes. While it cannot be read, no key is good."""

    def __init__(self, path: Path) -> None:
        self._path = path
        read_keys(path)

    def name(self, secret: str) -> str | None:
        """The name of a key; None if it is not one of the file's. To find that out takes equally long."""
        try:
            found = self._path.stat()
            keys = _read_once(self._path, found.st_mtime_ns, found.st_ino, found.st_size)
        except (Error, OSError) as error:
            log.error("no key is good until %s can be read: %s", self._path, error)
            keys = ()
        given = _sha256(secret)
        good = [key.name for key in keys if hmac.compare_digest(key.sha256, given)]
        return good[0] if good else None


@lru_cache(maxsize=8)
def _read_once(path: Path, *stamp: int) -> tuple[Key, ...]:
    return read_keys(path)


class Rates:
    """Counts the requests of each key or address: so many a minute, of which all may come at once; 0 is any number."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, who: str) -> float:
        """Counts a request, unless there were too many: then the seconds until the next is welcome, else 0."""
        if not self._a_minute:
            return 0.0
        now = time.monotonic()
        left, since = self._left.pop(who, (self._a_minute, now))
        left = min(self._a_minute, left + (now - since) * self._a_minute / 60)
        wait = max(0.0, (1 - left) * 60 / self._a_minute)
        self._left[who] = left if wait else left - 1, now
        if len(self._left) > MOST_COUNTED:
            self._left.popitem(last=False)
        return wait


def network_of(address: str) -> str:
    """What counts as one client: an address, or in IPv6 the network of 64 bits that one client has.

    >>> network_of("192.0.2.1"), network_of("2001:db8::17")
    ('192.0.2.1', '2001:db8::/64')
    """
    return str(ipaddress.ip_network(f"{address}/64", strict=False)) if ":" in address else address
