"""API keys and rate limits.

A key is 32 random bytes and cannot be guessed, so a plain SHA-256 is enough; slow hashes are for passwords. The key
file contains only hashes.
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
"""Maximum number of keys and addresses whose requests are counted; the least recently active is dropped."""


Allowance = Annotated[int, pydantic.Field(ge=1, le=10**15)]


class Allowances(Settings):
    """Allowances of a key; no limit where a value is missing."""

    requests_a_minute: Allowance | None = None
    """Maximum requests per minute, instead of the server's limit."""
    characters_a_minute: Allowance | None = None
    """Maximum characters per minute."""
    characters_a_month: Allowance | None = None
    """Maximum characters per calendar month (UTC)."""


class Key(Allowances):
    """Key with its owner's name, its hash, the date of its creation, and its allowances."""

    name: Annotated[str, pydantic.Field(pattern=r"^\w[\w .@-]{0,99}$")]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]
    created: str
    requests: Annotated[int, pydantic.Field(ge=1)] | None = None
    """Maximum number of concurrent requests with this key; without one, as in `Places`."""


class KeyFile(Settings):
    """Content of a key file."""

    format: int = 1
    keys: tuple[Key, ...] = ()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys of a file; raise `ConfigError` if it is missing, or is not a key file."""
    if not path.exists():
        raise ConfigError(f"{path} does not exist; make a key with: dragoman keys create NAME --keys {path}")
    return read_json_as(path, KeyFile, 1, error=ConfigError).keys


def create_key(path: Path, name: str, **allowances: int | None) -> str:
    """Add a key to a file, created if missing and readable only by its owner; return the key, or refuse the name."""
    keys = read_keys(path) if path.exists() else ()
    if any(key.name == name for key in keys):
        raise ConfigError(f"{path} has a key {name!r} already; withdraw it first, or choose another name")
    secret = f"dragoman_{secrets.token_urlsafe(32)}"
    today = datetime.now(UTC).date().isoformat()
    _write(path, *keys, check({"name": name, "sha256": _sha256(secret), "created": today, **allowances}, "NAME", Key))
    return secret


def withdraw_key(path: Path, name: str) -> None:
    """Remove a key from a file; raise `ConfigError` if no key has this name."""
    keys = read_keys(path)
    if all(key.name != name for key in keys):
        raise ConfigError(f"{path} has no key {name!r}; it has {', '.join(key.name for key in keys) or 'none'}")
    _write(path, *(key for key in keys if key.name != name))


def _write(path: Path, *keys: Key) -> None:
    previous = os.umask(0o077)
    try:
        write_json(path, KeyFile(keys=keys).model_dump(exclude_none=True))
    finally:
        os.umask(previous)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """Keys of a file, read again whenever it changes. While it cannot be read, no key is valid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        read_keys(path)

    def find(self, secret: str) -> Key | None:
        """Return the entry of a key, or None if the file does not have it; both take equally long."""
        sha256 = _sha256(secret)
        matching = [key for key in self.all() if hmac.compare_digest(key.sha256, sha256)]
        return matching[0] if matching else None

    def all(self) -> tuple[Key, ...]:
        """Return all keys."""
        try:
            stat = self._path.stat()
            return _read_once(self._path, stat.st_mtime_ns, stat.st_ino, stat.st_size)
        except (Error, OSError) as error:
            log.error("no key is valid until %s can be read: %s", self._path, error)
            return ()


@lru_cache(maxsize=8)
def _read_once(path: Path, *stamp: int) -> tuple[Key, ...]:
    return read_keys(path)


class Rates:
    """Rate limiter (token bucket) for each key or address: `per_minute` requests, also in one burst; 0: no limit."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, per_minute: int | None = None, amount: int = 1) -> float:
        """Count a request and return 0, or return the seconds until the next one is allowed.

        A client may have its own limit. An `amount` greater than the limit needs a full bucket, and leaves a debt.
        """
        limit = self._per_minute if per_minute is None else per_minute
        if not limit:
            return 0.0
        now = time.monotonic()
        left, since = self._buckets.pop(client, (limit, now))
        left = min(limit, left + (now - since) * limit / 60)
        wait = max(0.0, (min(amount, limit) - left) * 60 / limit)
        self._buckets[client] = left if wait else left - amount, now
        if len(self._buckets) > MOST_COUNTED:
            self._buckets.popitem(last=False)
        return wait


def plain_address(address: str) -> str:
    """Return an IP address in its usual form, an IPv4 one also if it is mapped into IPv6; raise `ValueError`."""
    parsed = ipaddress.ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def network_of(address: str) -> str:
    """Return what identifies a client: its IPv4 address, or its IPv6 network of 64 bits.

    >>> network_of("192.0.2.1"), network_of("2001:db8::17")
    ('192.0.2.1', '2001:db8::/64')
    """
    return str(ipaddress.ip_network(f"{address}/64", strict=False)) if ":" in address else address
