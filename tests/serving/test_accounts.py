"""Allowances, usage and glossaries of keys, before and after a restart."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_server import live_server, write_key

from dragoman.cli.main import main
from dragoman.serving import accounts as ours
from dragoman.serving.accounts import Accounts, open_store
from dragoman.serving.keys import Key
from dragoman.serving.limits import Refused

STATION = "Where is the station?"
LANGUAGES = {"source": "en", "target": "it"}
WORD = {"translation": "Dov'è la stazione?", "word": 0}
FILES = {"file": ("a.txt", STATION.encode())}
ROUTES: dict[str, dict[str, Any]] = {
    "/translate": {"json": {"q": STATION, **LANGUAGES}},
    "/v1/translate": {"json": {"text": STATION}},
    "/v1/translate?prefix": {"json": {"text": STATION, "prefix": "Dov'è"}},
    "/v1/translate?stream": {"json": {"text": STATION, "stream": True}},
    "/v1/translate?html": {"json": {"text": STATION, "stream": True, "format": "html"}},
    "/v1/words": {"json": {"text": STATION, **WORD}},
    "/v1/explain": {"json": {"text": STATION}},
    "/v2/translate": {"json": {"text": STATION, "target_lang": "IT"}},
    "/translate_file": {"data": LANGUAGES, "files": FILES},
}


def key(secret: str = "a" * 64, **allowances: int) -> Key:
    return Key(name="anna", sha256=secret, created="2026-01-01", **allowances)


def call(url: str, secret: str, route: str, **fields: Any) -> httpx.Response:
    method = "POST" if fields else "GET"
    return httpx.request(method, url + route, headers={"Authorization": f"Bearer {secret}"}, timeout=60, **fields)


def used(url: str, secret: str) -> int:
    return call(url, secret, "/v2/usage").json()["character_count"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_key(path, "rich", characters_a_month=10**6)
    write_key(path, "poor", characters_a_month=1)
    write_key(path, "slow", characters_a_minute=30)
    write_key(path, "rare", requests_a_minute=2)
    with live_server(keys=path) as url:
        yield url


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_that_translates_counts_its_characters(url: str, route: str):
    before = used(url, "rich")
    assert call(url, "rich", route, **ROUTES[route]).status_code == 200
    assert used(url, "rich") - before == len(STATION)


@pytest.mark.parametrize("route", ROUTES)
def test_over_the_allowance_of_a_month_nothing_is_translated(url: str, route: str):
    answer = call(url, "poor", route, **ROUTES[route])
    assert answer.status_code == (456 if route.startswith("/v2") else 429)
    assert "1 of 1 characters a month left" in answer.text and "retry-after" not in answer.headers
    assert used(url, "poor") == 0


def test_usage_names_the_limit_of_the_key(url: str):
    assert call(url, "poor", "/v2/usage").json() == {"character_count": 0, "character_limit": 1}
    assert call(url, "slow", "/v2/usage").json()["character_limit"] == 10**12


def test_over_the_allowance_of_a_minute_a_key_waits(url: str):
    answers = [call(url, "slow", "/translate", **ROUTES["/translate"]) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert 0 < int(answers[1].headers["retry-after"]) <= 60
    assert "30 characters a minute" in answers[1].json()["error"]


def test_a_key_may_have_a_rate_of_its_own(url: str):
    assert [call(url, "rare", "/openapi.json").status_code for _ in range(3)] == [200, 200, 429]


def test_refused_requests_are_not_counted(url: str):
    before = used(url, "rich")
    for fields in ({"q": STATION, "source": "en", "target": "de"}, {"q": "x" * 5_001, **LANGUAGES}):
        assert call(url, "rich", "/translate", json=fields).status_code in (400, 413)
    assert used(url, "rich") == before


def test_characters_are_a_figure_by_the_name_of_the_key(url: str):
    lines = call(url, "rich", "/metrics").text.splitlines()
    assert f'dragoman_characters_total{{key="rich"}} {float(used(url, "rich"))}' in lines
    assert 'dragoman_characters_total{key="poor"} 0.0' in lines


def test_a_text_longer_than_a_minutes_allowance_is_paid_for_later():
    accounts, slow = Accounts(None), key(characters_a_minute=100)
    accounts.charge(slow, 1_000, 429)
    with pytest.raises(Refused) as refused:
        accounts.charge(slow, 1, 429)
    assert refused.value.retry_after is not None and 500 < refused.value.retry_after <= 541
    accounts.charge(key("b" * 64, characters_a_minute=100), 1, 429)


def test_counts_survive_a_restart_and_belong_to_the_key_not_to_its_name(tmp_path: Path):
    accounts = Accounts(tmp_path)
    accounts.charge(key(), 70, 429)
    accounts.charge(None, 5, 429)
    assert not (tmp_path / "usage.json").exists()
    accounts.save()
    again = Accounts(tmp_path)
    assert again.days(key()) == accounts.days(key()) and sum(again.days(key()).values()) == 70
    assert sum(again.days(None).values()) == 5
    assert again.days(key("b" * 64)) == {}
    with pytest.raises(Refused, match="30 of 100 characters"):
        again.charge(key(characters_a_month=100), 31, 456)


def test_counts_are_written_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ours, "SAVED_SECONDS", 0.01)
    accounts = Accounts(tmp_path)
    accounts.charge(key(), 70, 429)
    timer = accounts._timer
    assert timer is not None
    timer.join(30)
    assert sum(Accounts(tmp_path).days(key()).values()) == 70


def test_a_damaged_count_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "usage.json").write_text('{"format": 1, "chara')
    with caplog.at_level(logging.ERROR):
        assert Accounts(tmp_path).days(None) == {}
    assert (tmp_path / "usage.json.broken-1").read_text() == '{"format": 1, "chara'
    assert "usage.json.broken-1" in caplog.text


def test_what_a_key_stores_survives_a_restart_and_its_successor_does_not_inherit_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "keys.json"
    write_key(path, "anna")
    new = {"name": "Stops", "source_lang": "en", "target_lang": "it", "entries": "station\tfermata"}
    with live_server(keys=path) as url:
        made = [call(url, "anna", "/v2/glossaries", json=new).json() for _ in range(2)]
        call(url, "anna", "/translate", **ROUTES["/translate"])
    folder = next((tmp_path / "keys.store" / "glossaries").iterdir())
    assert (tmp_path / "keys.store").stat().st_mode & 0o077 == 0
    (folder / f"{made[0]['glossary_id']}.json").write_text("{")
    write_key(path, "ben")
    with live_server(keys=path) as url, caplog.at_level(logging.ERROR):
        assert used(url, "anna") == len(STATION) and used(url, "ben") == 0
        assert call(url, "anna", "/v2/glossaries").json() == {"glossaries": [made[1]]}
        fields = {"text": STATION, "source_lang": "en", "target_lang": "it", "glossary_id": made[1]["glossary_id"]}
        assert call(url, "anna", "/v2/translate", json=fields).json()["translations"][0]["text"] == "Dov'è la fermata?"
        known = json.loads(path.read_text())
        known["keys"][0]["sha256"] = "0" * 64  # another key with the old name
        path.write_text(json.dumps(known))
        assert call(url, "ben", "/v2/glossaries").json() == {"glossaries": []}
    assert "broken-1" in caplog.text and [file.name for file in folder.glob("*.broken-1")]


def test_without_keys_there_are_no_glossaries():
    with live_server() as url:
        for answer in (httpx.get(f"{url}/v3/glossaries"), httpx.post(f"{url}/v2/glossaries", json={"name": "x"})):
            assert answer.status_code == 403 and "--keys FILE" in answer.json()["message"]
        assert httpx.get(f"{url}/v2/glossary-language-pairs").status_code == 200


def test_the_command_shows_allowances_and_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "keys.json"

    def keys(*arguments: str) -> str:
        main(["keys", *arguments, "--keys", str(path)])
        return "".join(capsys.readouterr())

    keys("create", "anna", "--characters-a-month", "5000", "--requests-a-minute", "7")
    assert keys("list").split()[-4:] == ["anna", json.loads(path.read_text())["keys"][0]["created"], "7", "5000"]
    assert "greater than or equal to 1" in keys("create", "ben", "--characters-a-minute", "0")
    assert "allowances are for keys create" in keys("list", "--characters-a-month", "5")
    accounts = Accounts(open_store(None, path))
    accounts.charge(key(json.loads(path.read_text())["keys"][0]["sha256"]), 1_234, 429)
    accounts.save()
    (day,) = accounts.days(key(json.loads(path.read_text())["keys"][0]["sha256"]))
    assert keys("usage").split()[-3:] == ["anna", day, "1,234"]


def test_a_store_that_cannot_be_made_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").touch()
    assert main(["serve", "no-model", "--port", "0", "--store", str(tmp_path / "file" / "store")]) == 2
    assert "name another one with --store" in capsys.readouterr().err


def test_a_refused_request_is_not_counted(url: str):
    before = used(url, "rich")
    answer = call(url, "rich", "/v1/explain", json={"text": "Where is the station? " * 40})
    assert answer.status_code == 400 and "at most" in answer.json()["error"]
    assert used(url, "rich") == before
