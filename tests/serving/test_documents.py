"""Documents of clients: kept for each of them, translated in the background by DeepL's API, and cleared away."""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from live_server import live_server, write_key

from dragoman.files import lock
from dragoman.serving import documents as ours
from dragoman.serving.limits import Limits
from dragoman.serving.service import Service

TEXT = "Where is the station?\n\nThank you.\n"


def call(url: str, secret: str, route: str, **fields: Any) -> httpx.Response:
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    return httpx.post(url + route, headers=headers, timeout=60, **fields)


def upload(url: str, secret: str, text: str = TEXT, name: str = "a.txt", **fields: str) -> httpx.Response:
    data = {"source_lang": "EN", "target_lang": "IT", **fields}
    return call(url, secret, "/v2/document", data=data, files={"file": (name, text.encode())})


def libre(url: str, secret: str, text: str = TEXT) -> str:
    fields = {"source": "en", "target": "it", "api_key": secret}
    return call(url, secret, "/translate_file", data=fields, files={"file": ("a.txt", text.encode())}).json()[
        "translatedFileUrl"
    ]


def status_of(url: str, secret: str, handle: dict[str, str]) -> dict[str, Any]:
    return call(
        url, secret, f"/v2/document/{handle['document_id']}", json={"document_key": handle["document_key"]}
    ).json()


def ended(url: str, secret: str, handle: dict[str, str]) -> dict[str, Any]:
    while (status := status_of(url, secret, handle))["status"] in ("queued", "translating"):
        time.sleep(0.02)
    return status


def result(url: str, secret: str, handle: dict[str, str]) -> httpx.Response:
    return call(
        url, secret, f"/v2/document/{handle['document_id']}/result", data={"document_key": handle["document_key"]}
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_key(path, "anna")
    write_key(path, "ben")
    write_key(path, "poor", characters_a_month=5)
    with live_server(Limits(documents=1, document_bytes=2 * ours.LEAST_BYTES), keys=path) as url:
        yield url


class Gate:
    """A translation of documents that begins, and then waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.may_end = Event(), Event()
        whole = Service.document

        def slow(*arguments: Any) -> bytes:
            self.began.set()
            assert self.may_end.wait(60)
            return whole(*arguments)

        monkeypatch.setattr(Service, "document", slow)


def test_a_document_in_the_background_is_what_a_waiting_client_gets(url: str):
    handle = upload(url, "anna").json()
    status = ended(url, "anna", handle)
    characters = len("Where is the station?Thank you.")
    assert status == {
        "document_id": handle["document_id"],
        "status": "done",
        "seconds_remaining": 0,
        "billed_characters": characters,
    }
    answer = result(url, "anna", handle)
    assert answer.headers["content-disposition"] == 'attachment; filename="a.txt"'
    assert answer.content == httpx.get(libre(url, "anna")).content
    assert result(url, "anna", handle).status_code == 404


def test_a_document_has_the_terms_of_a_glossary(url: str):
    made = {"name": "Stops", "source_lang": "en", "target_lang": "it", "entries": "station\tfermata\nx\ty"}
    glossary = call(url, "anna", "/v2/glossaries", json=made).json()["glossary_id"]
    handle = upload(url, "anna", glossary_id=glossary, filename="b.txt", source_lang="EN").json()
    assert ended(url, "anna", handle)["status"] == "done"
    assert "fermata" in result(url, "anna", handle).text
    assert upload(url, "ben", glossary_id=glossary).status_code == 404


def test_a_document_waits_for_its_place(url: str, monkeypatch: pytest.MonkeyPatch):
    gate = Gate(monkeypatch)
    handles = [upload(url, "anna").json() for _ in range(2)] + [upload(url, "ben").json()]
    assert gate.began.wait(60)
    owners = ("anna", "anna", "ben")
    states = [status_of(url, owner, handle)["status"] for owner, handle in zip(owners, handles, strict=True)]
    assert states == ["translating", "queued", "queued"]
    assert result(url, "anna", handles[0]).status_code == 503
    gate.may_end.set()
    assert [ended(url, *pair)["status"] for pair in zip(owners, handles, strict=True)] == ["done"] * 3


def test_only_its_key_gets_a_document(url: str):
    handle = upload(url, "anna").json()
    assert ended(url, "anna", handle)["status"] == "done"
    assert "message" in status_of(url, "ben", handle)
    for secret, wrong in (("ben", handle), ("anna", {**handle, "document_key": "0" * 64})):
        assert result(url, secret, wrong).status_code == 404
    assert httpx.get(f"{url}/download_file/{handle['document_id']}.a.txt").status_code == 404
    assert result(url, "anna", handle).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"name": "a.exe"}, 400, "Invalid file"),
        ({"output_format": "docx"}, 400, "Value for 'output_format' not supported"),
        ({"target_lang": "DE"}, 400, "Value for 'target_lang' not supported"),
        ({"target_lang": ""}, 400, "Value for 'target_lang' not supported"),
        ({"formality": "more"}, 400, "does not support formality here"),
        ({"text": "x" * 200_000}, 413, "at most"),
    ],
)
def test_a_document_that_cannot_be_taken_is_refused_at_once(
    url: str, fields: dict[str, str], status: int, message: str
):
    answer = upload(url, "anna", **fields)
    assert (answer.status_code, message in answer.json()["message"]) == (status, True), answer.text
    assert call(url, "anna", "/v2/document", data={"target_lang": "IT"}).json() == {
        "message": "Parameter 'file' not specified."
    }


def test_what_goes_wrong_later_is_the_status_of_a_document(url: str):
    for secret, fields, message in (
        (
            "anna",
            {"name": "keys.txt", "text": "en:\n  title: The old house\n"},
            "keys.txt is no plain text: it is YAML",
        ),
        ("anna", {"text": "Dov'è la stazione, per favore?", "source_lang": ""}, "Source and target language are equal"),
        ("poor", {}, "5 of 5 characters a month left"),
    ):
        handle = upload(url, secret, **fields).json()
        status = ended(url, secret, handle)
        assert status["status"] == "error" and message in status["error_message"] == status["message"]
        assert result(url, secret, handle).status_code == 400


def test_documents_of_one_client_never_displace_those_of_another(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ours, "CLIENT_SHARE", 2)  # four documents, because each counts as LEAST_BYTES
    first = libre(url, "ben")
    mine = [libre(url, "anna") for _ in range(6)]
    assert [httpx.get(place).status_code for place in mine] == [404] * 2 + [200] * 4
    assert httpx.get(first).status_code == 200


def test_waiting_documents_are_refused_rather_than_dropped(url: str, monkeypatch: pytest.MonkeyPatch):
    gate = Gate(monkeypatch)
    monkeypatch.setattr(ours, "CLIENT_SHARE", 1)
    answers = [upload(url, "anna") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    monkeypatch.setattr(ours, "ALL_SHARES", 1)
    assert upload(url, "ben").status_code == 503
    gate.may_end.set()
    for answer in answers[:2]:
        assert ended(url, "anna", answer.json())["status"] == "done"
        assert result(url, "anna", answer.json()).status_code == 200


def test_folders_of_killed_servers_are_removed_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folders = [tmp_path / f"dragoman-{name}" for name in ("documents-killed", "documents-living", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "document.txt").touch()
    (folders[0] / ".lock").touch()
    (folders[2] / ".lock").touch()  # as in the folder of a finished training run
    with lock(folders[1]), live_server() as url:
        assert httpx.get(f"{url}/health").status_code == 200
        assert [folder.exists() for folder in folders] == [False, True, True]
    assert sorted(tmp_path.iterdir()) == sorted(folders[1:])


@pytest.mark.parametrize("part", ["bytes=0-1", "bytes=99999-", "bytes=abc"])
def test_a_download_is_whole_and_leaves_nothing(url: str, part: str):
    handle = upload(url, "anna").json()
    assert ended(url, "anna", handle)["status"] == "done"
    headers = {"Authorization": "Bearer anna", "Range": part}
    address = f"{url}/v2/document/{handle['document_id']}/result"
    answer = httpx.post(address, json={"document_key": handle["document_key"]}, headers=headers)
    assert answer.status_code == 200 and len(answer.content) > 2
