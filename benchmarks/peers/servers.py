"""Translation servers with the same weights, each in processes of its own, and their memory."""

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


class Way(NamedTuple):
    """The start of a server."""

    name: str
    command: Sequence[str]
    """The arguments of `python`, with PORT for the port."""
    variables: dict[str, str]


class Server:
    """A server on this machine, which starts immediately and answers once `wait` has returned."""

    def __init__(self, way: Way, folder: Path) -> None:
        self.name, self.port = way.name, free_port()
        self.log = folder / f"{way.name}.log"
        words = [sys.executable, *(str(self.port) if word == "PORT" else word for word in way.command)]
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        with self.log.open("wb") as log:
            own |= {"TMPDIR": str(folder), **way.variables}
            self._process = subprocess.Popen(words, cwd=folder, env=own, stdout=log, stderr=log)

    def wait(self, request: bytes) -> None:
        """Wait until this request is answered with a translation."""
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

    @property
    def pid(self) -> int:
        """The id of its first process."""
        return self._process.pid

    def peak_megabytes(self) -> float:
        """Return the peak of resident memory of its processes; 0 once it has ended."""
        return sum(map(peak_megabytes, family(self._process.pid)))

    def leave(self) -> int:
        """Ask it to end and return its exit code; after half a minute it is killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(31)
        except subprocess.TimeoutExpired:
            for process in list(family(self._process.pid)):
                os.kill(process, signal.SIGKILL)
            return self._process.wait()


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def status(port: int, request: bytes) -> int:
    """Send a request over a new connection and return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status


def family(process: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def peak_megabytes(process: int) -> float:
    """Return the peak of a process's resident memory; 0 if it has ended."""
    try:
        peak = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(peak[1]) * 1024 / 1e6 if peak else 0.0


def ways(
    model: Path, exported: Path, languages: Sequence[str], beam_size: int, precision: str, threads: int
) -> Iterator[Way]:
    """Yield LibreTranslate, the plain server in both of its sensible settings, and ours last."""
    libretranslate = [str(HERE / "libretranslate_server.py"), str(exported), "PORT", *languages]
    yield Way("LibreTranslate", libretranslate, {"ARGOS_COMPUTE_TYPE": precision, "ARGOS_BEAM_SIZE": str(beam_size)})
    for workers, own_threads in sorted({(1, threads), (threads, 1)}):
        plain = [str(HERE / "batching_server.py"), str(exported), "PORT", precision]
        plain += map(str, (beam_size, workers, own_threads))
        yield Way(f"CTranslate2 {workers} x {own_threads}", plain, {})
    ours = ["-m", "dragoman", "serve", str(model), "--port", "PORT"]
    yield Way("Dragoman", [*ours, "--precision", precision, "--threads", str(threads)], {})
