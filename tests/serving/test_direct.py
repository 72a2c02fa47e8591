"""Endpoints that are called directly answer exactly as FastAPI would."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from live_server import live_server

from dragoman.serving.direct import DirectRoutes

STATION = {"q": ["Where is the station?", "Thank you."], "source": "en", "target": "it"}
REQUESTS = [
    ("POST", "/translate", STATION),
    ("POST", "/translate", STATION | {"alternatives": 1, "source": "auto"}),
    ("POST", "/translate", {"q": "Thank you."}),
    ("POST", "/detect", {"q": "Where is the station?"}),
    ("POST", "/v2/translate", {"text": ["Thank you."], "target_lang": "it", "show_billed_characters": True}),
    ("POST", "/v2/translate", {"text": ["Thank you."], "target_lang": "tlh"}),
    ("POST", "/v1/translate", {"text": "Thank you."}),
    ("POST", "/suggest", {"q": "a", "s": "b", "source": "en", "target": "it"}),
    *(("GET", path, None) for path in ("/languages", "/frontend/settings", "/v1/models", "/v2/languages?type=target")),
    ("GET", "/v2/glossary-language-pairs", None),
    ("DELETE", "/v2/languages", None),
    ("GET", "/v2/document/1", None),
]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with live_server() as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.mark.parametrize(("method", "path", "content"), REQUESTS)
def test_a_direct_answer_is_that_of_fastapi(
    method: str, path: str, content: Any, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = http.request(method, path, json=content)
    plain = DirectRoutes.__call__

    async def without_endpoints(self: DirectRoutes, *exchange: Any) -> None:
        monkeypatch.setattr(self, "_endpoints", {})
        await plain(self, *exchange)

    monkeypatch.setattr(DirectRoutes, "__call__", without_endpoints)
    expected = http.request(method, path, json=content)
    assert (direct.status_code, direct.json()) == (expected.status_code, expected.json())
    assert (
        set(direct.headers) == set(expected.headers)
        and direct.headers["content-type"] == expected.headers["content-type"]
    )
