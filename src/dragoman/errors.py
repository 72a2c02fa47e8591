"""The errors that a user can cause, as one tree of exceptions, each with its exit code on the command line.

Where the system refuses a file, the command line names the file and the reason (exit code 2). Any other exception is
our own mistake and keeps its traceback (exit code 1).
A message says what was given, what is allowed and what to do, in the user's own words.
"""

from collections.abc import Generator
from contextlib import contextmanager


class Error(Exception):
    """Something the user can mend. The message is one line."""

    exit_code = 2
    told = False
    """Whether another process of the same run prints it."""


class ConfigError(Error):
    """A setting, an option or a recipe that cannot be used."""


class MissingExtra(ConfigError):
    """An optional package that is needed and not installed."""


class DataError(Error):
    """A file of text, a test set, prepared data or an encoded corpus that cannot be used."""


class TokenizerError(Error):
    """A tokenizer file that cannot be used, or text that no tokenizer takes."""


class DecodeError(Error):
    """A request that no search can answer."""


class Interrupted(Error):
    """Work that was stopped on request: printed as a note, not as an error. The message says how to go on."""

    exit_code = 3


class CheckpointError(Error):
    """A model folder, a checkpoint or a run's file that is missing, damaged, foreign or newer than this version."""

    exit_code = 4


class Diverged(Error):
    """A training run whose loss or weights are no longer finite numbers."""

    exit_code = 5


class OutOfMemory(Error):
    """Work that needs more memory than this process may hold."""

    exit_code = 6


class DiskFull(Error):
    """A disk, or standard output, that takes no more; nothing half-written is left."""

    exit_code = 7


class FolderInUse(Error):
    """A folder that another process works on."""

    exit_code = 8


class GateFailed(Error):
    """A translation with a flag that was refused (`--fail-on`)."""

    exit_code = 9


def missing_extra(package: str, extra: str) -> MissingExtra:
    """The error for an optional package that is not installed.

    >>> print(missing_extra("pyarrow", "parquet"))
    pyarrow is not installed: pip install 'dragoman[parquet]'
    """
    return MissingExtra(f"{package} is not installed: pip install 'dragoman[{extra}]'")


@contextmanager
def optional(package: str, extra: str) -> Generator[None]:
    """What is imported inside is of an optional package.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        yield
    except ImportError:
        raise missing_extra(package, extra) from None
