"""The commands `serve` and `keys`: what they refuse, and the process from its start to its end."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from extras import without

from dragoman.cli.main import main

MODEL = str(files("dragoman.inference") / "phrasebook")


@pytest.fixture(autouse=True)
def loggers() -> Generator[None]:
    """Logs again as before when a command has ended."""
    before = [(logger, [*logger.handlers], logger.level) for logger in map(logging.getLogger, ("dragoman", "uvicorn"))]
    yield
    for logger, handlers, level in before:
        logger.handlers = handlers
        logger.setLevel(level)


@contextmanager
def serve(*arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The command `serve` as a process of its own, and the address that it says."""
    command = [sys.executable, "-m", "dragoman", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())["message"]
        assert told.startswith("listening on http://")
        yield process, told.rpartition(" ")[2]
    finally:
        process.kill()
        process.communicate()


def status(url: str, **form: str) -> int:
    try:
        with urllib.request.urlopen(url, "&".join(map("=".join, form.items())).encode() or None, 60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def wait_until_ready(url: str) -> None:
    while status(f"{url}/ready") != 200:
        time.sleep(0.05)


def test_a_ready_server_ends_well_when_it_is_asked_to() -> None:
    with serve(MODEL, "--requests-a-minute", "1000") as (process, url):
        wait_until_ready(url)
        process.send_signal(signal.SIGTERM)
        output, told = process.communicate(timeout=60)
    assert process.returncode == 0 and output == ""
    lines = [json.loads(line) for line in told.splitlines()]
    assert {line["route"] for line in lines if "route" in line} == {"/ready"} and lines[-1]["message"] == "stopped"


def test_a_server_whose_models_load_ends_well_too() -> None:
    with serve(MODEL) as (process, url):
        assert status(f"{url}/health") == 200
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_server_with_a_model_that_cannot_be_loaded_ends_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", MODEL, str(tmp_path / "nothing"), "--port", "0"]) == 4
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith("error: ") and "nothing" in told.splitlines()[-1]
    assert main(["translate", MODEL, ""]) == 0
    assert '"time"' not in capsys.readouterr().err, "the log of a server ends with it"


def test_what_cannot_be_served_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refusal(*arguments: str) -> str:
        assert main(["serve", MODEL, "--port", "0", *arguments]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    (tmp_path / "bad.json").write_text('{"format": 1, "keys": [{"name": "x"}]}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in refusal("--port", port)
    assert "--keys FILE" in refusal("--host", "0.0.0.0")
    assert "--keys FILE" in refusal("--host", "::")
    assert "cannot listen on nowhere.invalid" in refusal("--host", "nowhere.invalid")
    assert "dragoman keys create NAME --keys" in refusal("--keys", str(tmp_path / "no.json"))
    assert "bad.json is damaged" in refusal("--keys", str(tmp_path / "bad.json"))
    assert "give one of them" in refusal("--keys", str(tmp_path / "bad.json"), "--open")
    assert "--trusted-proxy" in refusal("--trusted-proxy", "proxy")
    assert "--url-prefix takes a path" in refusal("--url-prefix", "translate")
    assert "serve.texts should be greater than or equal to 1" in refusal("--set", "texts=0")
    assert "there is no folder" in refusal("--suggestions", str(tmp_path / "no" / "file"))
    assert "no.tsv does not exist" in refusal("--terms", str(tmp_path / "no.tsv"))


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "httptools", "prometheus_client"])
def test_without_the_extra_a_line_says_how_to_get_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    importing = ("dragoman.serving", "uvicorn.protocols.http")
    for name in [name for name in sys.modules if name.startswith(importing)]:
        monkeypatch.delitem(sys.modules, name)
    without(monkeypatch, package)
    assert main(["serve", MODEL]) == 2
    assert f"{package} is not installed: pip install 'dragoman[serve]'" in capsys.readouterr().err


def test_keys_are_created_listed_and_withdrawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "keys.json")

    def keys(*arguments: str) -> tuple[int, str, str]:
        code = main(["keys", *arguments, "--keys", path])
        output, told = capsys.readouterr()
        return code, output, told

    assert "does not exist" in keys("list")[2]
    code, made, _ = keys("create", "a colleague")
    assert code == 0 and len(made.strip()) > 50
    assert keys("create", "ci@example.org")[1] != made
    assert "already" in keys("create", "a colleague")[2] and "NAME" in keys("create", "a\nb")[2]
    assert keys("list")[1].splitlines()[2].split()[:2] == ["a", "colleague"]
    assert keys("withdraw", "a colleague")[0] == 0
    assert "has no key 'a colleague'; it has ci@example.org" in keys("withdraw", "a colleague")[2]
    assert keys("create")[0] == keys("list", "x")[0] == 2
    assert oct(os.stat(path).st_mode)[-3:] == "600"
