"""What a user can cause, as one tree of exceptions, each with the exit code of the command line.

    Error 2
    ├── ConfigError 2        a setting, an option, a recipe
    │   └── MissingExtra 2   an optional package that is not installed
    ├── DataError 2          a file of text, a test set, a prepared corpus
    ├── TokenizerError 2     a tokenizer file, or text that no tokenizer takes
    ├── DecodeError 2        a request that no search can answer
    ├── ExportError 2        what a foreign format cannot hold
    ├── Interrupted 3        stopped on request, resumable: told as a note, not as an error
    ├── CheckpointError 4    a model folder or checkpoint that is wrong, cut, foreign or newer
    ├── Diverged 5           the numbers of a training run left the finite ones
    ├── OutOfMemory 6
    ├── DiskFull 7           where nothing can go on: a folder, a file, or standard output cannot be written
    ├── FolderInUse 8        another process works on the same folder
    └── GateFailed 9         an expected score was not met

Where the system refuses a file, the command line names it and gives the system's reason (exit code 2). Anything else
that is raised is our own mistake and keeps its traceback (exit code 1).
A message says what was given, what is allowed and what to do, in the user's own words.
"""


class Error(Exception):
    """Something the user can mend. The message is one line."""

    exit_code = 2
    told = False
    """Whether another process of the same run prints it, so that this one need not."""


class ConfigError(Error):
    pass


class MissingExtra(ConfigError):
    pass


class DataError(Error):
    pass


class TokenizerError(Error):
    pass


class DecodeError(Error):
    pass


class ExportError(Error):
    pass


class Interrupted(Error):
    exit_code = 3


class CheckpointError(Error):
    exit_code = 4


class Diverged(Error):
    exit_code = 5


class OutOfMemory(Error):
    exit_code = 6


class DiskFull(Error):
    exit_code = 7


class FolderInUse(Error):
    exit_code = 8


class GateFailed(Error):
    exit_code = 9


def missing_extra(package: str, extra: str) -> MissingExtra:
    """The error for an optional package that is not installed.

    >>> print(missing_extra("pyarrow", "parquet"))
    pyarrow is not installed: pip install 'dragoman[parquet]'
    """
    return MissingExtra(f"{package} is not installed: pip install 'dragoman[{extra}]'")
