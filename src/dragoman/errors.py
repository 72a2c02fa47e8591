"""Exceptions for the errors that a user can cause, each with its exit code on the command line.

If the operating system refuses a file, the command line names the file and the reason (exit code 2). Any other
exception is a bug in Dragoman and keeps its traceback (exit code 1). A message says what the value was, what is allowed
and what to do, in the user's words.
"""

from collections.abc import Generator
from contextlib import contextmanager


class Error(Exception):
    """An error that the user can fix. The message is one line."""

    exit_code = 2
    reported = False
    """True if another process of the same run prints it."""


class ConfigError(Error):
    """A setting, an option or a recipe that cannot be used."""


class MissingExtra(ConfigError):
    """An optional package that is needed and not installed."""


class DataError(Error):
    """A file of text, a test set, prepared data or an encoded corpus that cannot be used."""


class TokenizerError(Error):
    """A tokenizer file that cannot be used, or text that no tokenizer takes."""


class DecodeError(Error):
    """A request that cannot be decoded."""


class Interrupted(Error):
    """Work that was stopped on request, printed as a note rather than an error. The message says how to resume."""

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
    """A full disk, or standard output that accepts no more; no partial file is left."""

    exit_code = 7


class FolderInUse(Error):
    """A folder that another process works on."""

    exit_code = 8


class GateFailed(Error):
    """A translation with a flag that was refused (`--fail-on`), or a figure that misses its gate (`--require`)."""

    exit_code = 9


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error for an optional package that is not installed.

    >>> print(missing_extra("pyarrow", "parquet"))
    pyarrow is not installed: pip install 'dragoman[parquet]'
    """
    return MissingExtra(f"{package} is not installed: pip install 'dragoman[{extra}]'")


@contextmanager
def optional(package: str, extra: str) -> Generator[None]:
    """Turn an import error inside the block into `MissingExtra`, which names the extra to install."""
    try:
        yield
    except ImportError:
        raise missing_extra(package, extra) from None
