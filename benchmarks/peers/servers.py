"""Translation servers with the same weights, each in processes of its own, and what the system says of these."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PATIENCE_SECONDS = 120
POLL_SECONDS = 0.2


class Held(NamedTuple):
    """What the processes of a server hold."""

    megabytes: float
    """Resident now."""
    peak_megabytes: float
    files: int
    threads: int


class Way(NamedTuple):
    """How a server is started."""

    name: str
    command: Sequence[str]
    """What follows `python`; PORT stands for the port."""
    variables: dict[str, str]


class Server:
    """A server on this machine, which starts at once and answers when `wait` has returned."""

    def __init__(self, way: Way, folder: Path) -> None:
        self.name, self.port = way.name, free_port()
        self.log = folder / f"{way.name}.log"
        words = [sys.executable, *(str(self.port) if word == "PORT" else word for word in way.command)]
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        with self.log.open("wb") as log:
            own |= {"TMPDIR": str(folder), **way.variables}
            self._process = subprocess.Popen(words, cwd=folder, env=own, stdout=log, stderr=log)

    def wait(self, request: bytes) -> None:
        """Waits until this request is answered with a translation."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                if status(self.port, request) == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(POLL_SECONDS)
        self.leave()
        raise SystemExit(f"error: {self.name} does not answer:\n{self.log.read_text()[-3000:]}")

    def held(self) -> Held:
        """What its processes hold; zeros once it has ended."""
        found = [facts for process in family(self._process.pid) if (facts := held(process))]
        return Held(*(sum(each) for each in zip(*found, strict=True))) if found else Held(0, 0, 0, 0)

    def leave(self) -> int:
        """Asks it to end and returns its exit code; after half a minute it is killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(31)
        except subprocess.TimeoutExpired:
            for process in list(family(self._process.pid)):
                os.kill(process, signal.SIGKILL)
            return self._process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def status(port: int, request: bytes) -> int:
    """The status of an answer, over a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status


def family(process: int) -> Iterator[int]:
    """A process and its descendants."""
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def held(process: int) -> Held | None:
    try:
        facts = dict(re.findall(r"^(\w+):\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE))
        files = len(os.listdir(f"/proc/{process}/fd"))
    except OSError:
        return None
    return Held(int(facts["VmRSS"]) * 1024 / 1e6, int(facts["VmHWM"]) * 1024 / 1e6, files, int(facts["Threads"]))


def ways(
    model: Path, exported: Path, languages: Sequence[str], beam_size: int, precision: str, threads: int
) -> Iterator[Way]:
    """LibreTranslate, the plain server in both of its sensible settings, and ours last."""
    libretranslate = [str(HERE / "libretranslate_server.py"), str(exported), "PORT", *languages]
    yield Way("LibreTranslate", libretranslate, {"ARGOS_COMPUTE_TYPE": precision, "ARGOS_BEAM_SIZE": str(beam_size)})
    for workers, each in sorted({(1, threads), (threads, 1)}):
        plain = [str(HERE / "batching_server.py"), str(exported), "PORT", precision]
        plain += map(str, (beam_size, workers, each))
        yield Way(f"CTranslate2 {workers} x {each}", plain, {})
    ours = [
        "-m",
        "dragoman",
        "serve",
        str(model),
        "--port",
        "PORT",
        "--precision",
        precision,
        "--threads",
        str(threads),
    ]
    yield Way("Dragoman", ours, {})
