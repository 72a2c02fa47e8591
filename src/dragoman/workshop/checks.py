"""Checks of a reader's folder. Its files run in another process, which is ended if a part takes too long."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import NamedTuple

from dragoman.errors import ConfigError
from dragoman.progress import Progress, as_progress
from dragoman.workshop.exercises import FILES, is_open, list_parts

SECONDS = 20.0
"""Time limit of a part; Python and torch get ten times as much to start."""
TOO_LONG = "It takes too long: does a loop never end?"
ENDED = "It ends Python itself."


class Verdict(NamedTuple):
    """The result of checking a part: `passes`, `to write`, or `wrong` with the mistake and its place."""

    page: int
    part: str
    result: str
    says: str


def check_workshop(folder: Path | str = ".", progress: Progress | bool = True) -> list[Verdict]:
    """Check each part in a reader's folder against ours, and, if all are written, all of them together.

    Raises:
        ConfigError: the folder is none of the workshop.
    """
    folder = Path(folder)
    if not any((folder / file).is_file() for file in FILES):
        raise ConfigError(f"{folder} has no {FILES[0]}; go to the folder that dragoman workshop NAME made, or name it")
    says = {part.name: before_running(folder / part.file, part.name) for part in list_parts()}
    written = [name for name, text in says.items() if text is None]
    if len(written) == len(says):
        written.append("together")
    with as_progress(progress).track("check", len(written), "parts") as advance:
        for name, text in run(folder, written):
            says[name] = text
            advance()
    pages = {part.name: part.page for part in list_parts()}
    if any(says[name] for name in pages):
        says.pop("together", None)  # what is wrong with a part is said there
    results = {"": "passes", "...": "to write"}
    return [
        Verdict(pages.get(name, 9), name, results.get(text or "", "wrong"), "" if text in results else text or "")
        for name, text in says.items()
    ]


def before_running(path: Path, name: str) -> str | None:
    """Return what the text of a file says of a part: `...` if it is to be written, None if it can run."""
    try:
        return "..." if is_open(path.read_text("utf-8-sig"), name) else None
    except SyntaxError as error:
        return f"{path.name}, line {error.lineno}: {error.msg}."
    except (OSError, UnicodeDecodeError) as error:
        return f"{path.name} cannot be read: {error}."


def run(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with each part. After one that ends its process, another process continues."""
    while names:
        command = [sys.executable, "-P", "-m", "dragoman.workshop.worker", str(folder), *names]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
            try:
                line = read_line(process, 10 * SECONDS)
                assert line, "the process that checks a reader's files did not start"
                while names and line:
                    line = read_line(process, SECONDS)
                    yield names.pop(0), json.loads(line) if line else TOO_LONG if line is None else ENDED
            finally:
                process.kill()


def read_line(process: "subprocess.Popen[bytes]", seconds: float) -> bytes | None:
    """Return the next line of a process: empty at its end, None if there is none in this time."""
    assert process.stdout is not None, "the process writes to a pipe"
    ready, _, _ = select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else None
