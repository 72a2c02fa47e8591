"""The files in deploy/ agree with the server: with the time that it takes to stop, and with what it may write."""

import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

from live_server import live_server

from dragoman.cli.options import build
from dragoman.cli.serve import serve
from dragoman.serving.keys import create_key
from dragoman.serving.listening import CLOSE_SECONDS, DRAIN_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT, COMPOSE, IMAGE = ((DEPLOY / name).read_text() for name in ("dragoman.service", "compose.yaml", "Dockerfile"))
UNITS = {"m": 20, "g": 30}


def settings(name: str) -> list[str]:
    """Return the values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def test_a_server_has_time_to_stop() -> None:
    needed = DRAIN_SECONDS + CLOSE_SECONDS + 10  # some more for a busy machine
    assert int(settings("TimeoutStopSec")[0]) >= needed
    assert int(re.findall(r"stop_grace_period: (\d+)s", COMPOSE)[0]) >= needed


def test_a_service_cannot_write_its_models_or_its_keys() -> None:
    (command,), words = settings("ExecStart"), settings("ExecStart")[0].split()
    writable = [PurePosixPath("/var/lib", name) for name in settings("StateDirectory")]
    writable += [PurePosixPath("/var/cache", name) for name in settings("CacheDirectory")]
    assert settings("ProtectSystem") == ["strict"] and len(writable) == 2
    model, keys, store = (PurePosixPath(words[words.index(word) + 1]) for word in ("serve", "--keys", "--store"))
    assert not any(path.is_relative_to(folder) for path in (model, keys) for folder in writable), command
    assert store == writable[0]
    assert re.search(r"^ +- \.\./runs:/models:ro$", COMPOSE, re.MULTILINE) and "read_only: true" in COMPOSE


def test_the_options_exist() -> None:
    known = {option for parameter in build(serve).params for option in parameter.opts}
    named = {*re.findall(r"--[a-z-]+", settings("ExecStart")[0]), *re.findall(r"(?<=, )--[a-z-]+", COMPOSE)}
    assert {"--keys", "--store", "--trusted-proxy"} <= named <= known


def test_the_temporary_files_of_a_container_fit_into_its_memory() -> None:
    size, limit = (
        int(number) << UNITS[unit]
        for number, unit in re.findall(r"(?:/tmp:size=|mem_limit: )(\d+)([mg])", COMPOSE)
    )  # fmt: skip
    assert size <= limit / 4


def test_the_health_of_a_container_needs_no_key(tmp_path: Path) -> None:
    (command,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", IMAGE, re.MULTILINE)
    _, option, program = json.loads(command)
    create_key(tmp_path / "keys.json", "somebody")
    with live_server(keys=tmp_path / "keys.json") as url:
        for path, code in (("ready", 0), ("metrics", 1)):
            asked = program.replace("http://127.0.0.1:5000/ready", f"{url}/{path}")
            assert (
                asked != program
                and subprocess.run([sys.executable, option, asked], stderr=subprocess.DEVNULL).returncode == code
            )
