"""Accounts: the characters that each key translated per day (UTC), what it may translate, and the file of these counts.

A key is identified by its SHA-256, so a new key with an old name starts from zero.
"""

import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Timer
from typing import TypeVar

import pydantic

from dragoman.config import Settings, read_json_as
from dragoman.errors import ConfigError, Error
from dragoman.files import make_folders, set_aside
from dragoman.serialization import write_json
from dragoman.serving.keys import Key, Rates
from dragoman.serving.limits import Refused

log = logging.getLogger(__name__)

SAVED_SECONDS = 5
"""Time after which a count is written, at the latest: what a crash may lose."""
S = TypeVar("S", bound=Settings)


class Usage(Settings):
    """Translated characters of each key, by its SHA-256 and by day."""

    format: int = 1
    characters: dict[str, dict[str, int]] = pydantic.Field(default_factory=dict)


def open_store(store: Path | None, keys: Path | None) -> Path | None:
    """Return the folder for what clients store, by default next to the key file; refuse one that cannot be made."""
    folder = store or (keys and keys.with_suffix(".store"))
    if folder is not None:
        try:
            make_folders(folder)
            folder.chmod(0o700)
        except OSError as error:
            raise ConfigError(f"{folder} cannot be written: {error.strerror}; name another one with --store") from None
    return folder


def read_or_set_aside(path: Path, schema: type[S]) -> S | None:
    """Return the content of a file, or None if it is missing. A damaged one is renamed and logged, never deleted."""
    try:
        return read_json_as(path, schema, 1) if path.exists() else None
    except Error as error:
        log.error("%s was renamed to %s: %s", path, set_aside(path).name, error)
        return None


def in_month(days: Mapping[str, int]) -> int:
    """Return the characters of the current month."""
    month = f"{datetime.now(UTC):%Y-%m}"
    return sum(count for day, count in days.items() if day.startswith(month))


class Accounts:
    """Counts of all keys, in memory and in `usage.json` of a store. Without keys, all clients share one account."""

    def __init__(self, store: Path | None) -> None:
        self._path = store and store / "usage.json"
        self._usage = (self._path and read_or_set_aside(self._path, Usage)) or Usage()
        self._rates, self._lock, self._saving, self._timer = Rates(0), Lock(), Lock(), None

    def days(self, key: Key | None) -> Mapping[str, int]:
        """Return the characters of a key by day."""
        return self._usage.characters.get(key.sha256 if key else "", {})

    def charge(self, key: Key | None, characters: int, over_month: int) -> None:
        """Count characters that are about to be translated.

        Raises:
            Refused: the key has used up its characters of the minute (429), or of the month (`over_month`). A text
                longer than a minute's allowance passes when all of it is left, and the minutes after it pay for it.
        """
        with self._lock:
            used, most = in_month(self.days(key)), key and key.characters_a_month
            if most is not None and used + characters > most:
                raise Refused(over_month, f"this key has {max(0, most - used):,} of {most:,} characters a month left")
            if key and (wait := self._rates.wait(key.sha256, key.characters_a_minute, characters)):
                message = f"this key may translate {key.characters_a_minute:,} characters a minute; try again later"
                raise Refused(429, message, math.ceil(wait))
            self._add(key, characters)

    def give_back(self, key: Key | None, characters: int) -> None:
        """Take back characters of a request that was refused after it was charged."""
        with self._lock:
            self._add(key, -characters)

    def _add(self, key: Key | None, characters: int) -> None:
        days, day = self._usage.characters.setdefault(key.sha256 if key else "", {}), f"{datetime.now(UTC):%Y-%m-%d}"
        days[day] = max(0, days.get(day, 0) + characters)
        if self._path and self._timer is None:
            self._timer = Timer(SAVED_SECONDS, self.save)
            self._timer.daemon = True
            self._timer.start()

    def save(self) -> None:
        """Write what was counted since the last time. If that fails, it is logged, and tried again after a request."""
        with self._saving:
            with self._lock:
                if self._path is None or self._timer is None:
                    return
                self._timer.cancel()
                self._timer, content = None, self._usage.model_dump()
            try:
                write_json(self._path, content)
            except (Error, OSError) as error:
                log.error("the usage cannot be written: %s", error)
