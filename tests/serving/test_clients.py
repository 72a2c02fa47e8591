"""Requests of other products, as their code sends them. The table in docs/serving.md has their versions."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from live_server import live_server

from dragoman.serving.keys import create_key

Ask = Callable[..., Any]
STATION, TRANSLATED = "Where is the station?", "Dov'è la stazione?"
POST_WITH_MENTION = (
    '<p>Where is the station? <a href="https://example.org/@anna" class="u-url mention" translate="no">@anna</a></p>'
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Return a function that asks a server with keys; `KEY` in a request is replaced by a key."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    key = create_key(path, "other products")
    with live_server(keys=path) as url, httpx.Client(base_url=url, timeout=60) as http:

        def ask(method: str, path: str, **request: Any) -> Any:
            answer = http.request(method, path, **_filled(request, key))
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield ask


def _filled(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(part, key) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_filled(part, key) for part in value)
    return value.replace("KEY", key) if isinstance(value, str) else value


def test_weblate(ask: Ask) -> None:
    assert [language["code"] for language in ask("GET", "/languages")] == ["en", "it"]
    texts = [STATION, "Where is [X9X]?", ""]
    answer = ask("POST", "/translate", json={"api_key": "KEY", "q": texts, "source": "en", "target": "it"})
    assert answer["translatedText"][0::2] == [TRANSLATED, ""] and "[X9X]" in answer["translatedText"][1]

    headers = {"Authorization": "DeepL-Auth-Key KEY"}
    for side, code in (("source", "EN"), ("target", "IT")):
        (language,) = ask("GET", "/v2/languages", params={"type": side}, headers=headers)
        assert language["language"] == code and not language.get("supports_formality")
    fields = {"text": [STATION, '<x id="6"></x> &amp; <x id="20"></x>'], "source_lang": "EN", "target_lang": "IT"}
    fields |= {"formality": "default", "tag_handling": "xml", "ignore_tags": ["x"], "context": "A game."}
    first, second = ask("POST", "/v2/translate", json=fields, headers=headers)["translations"]
    assert first["text"] == TRANSLATED
    assert second["text"].count("<x id=") == 2 and "&amp;" in second["text"]


def test_mastodon(ask: Ask) -> None:
    languages = ask("GET", "/languages", headers={"Content-Type": "application/json"})
    assert [language["code"] for language in languages if "it" in language["targets"]] == ["en"]
    fields = {"q": [POST_WITH_MENTION, "Yes"], "source": "auto", "target": "it", "format": "html", "api_key": "KEY"}
    answer = ask("POST", "/translate", json=fields)
    assert answer["translatedText"] == [POST_WITH_MENTION.replace(STATION, TRANSLATED), "Sì"]
    assert [detected["language"] for detected in answer["detectedLanguage"]] == ["en", "en"]


def test_discourse(ask: Ask) -> None:
    assert ask("POST", "/detect", data={"q": STATION, "api_key": "KEY"})[0]["language"] == "en"
    fields = {"q": f"<p>{STATION}</p>\n<pre><code>x = 1</code></pre>", "source": "en", "target": "it", "format": "html"}
    answer = ask("POST", "/translate", data={**fields, "api_key": "KEY"})
    assert answer["translatedText"] == f"<p>{TRANSLATED}</p>\n<pre><code>x = 1</code></pre>"


def test_nextcloud(ask: Ask) -> None:
    nothing: dict[str, Any] = {"content": b"--x--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}
    assert ask("GET", "/frontend/settings", **nothing)["keyRequired"] is True
    assert [language["name"] for language in ask("GET", "/languages", **nothing)] == ["English", "Italian"]
    params = {"q": STATION, "api_key": "KEY"}
    assert ask("POST", "/detect", params=params, **nothing)[0]["language"] == "en"
    fields = {"q": STATION, "format": "html", "source": "en", "target": "it", "api_key": "KEY"}
    parts = {name: (None, value) for name, value in fields.items()}
    assert ask("POST", "/translate", files=parts)["translatedText"] == TRANSLATED


def test_deep_translator_and_n8n(ask: Ask) -> None:
    fields = {"q": STATION, "source": "en", "target": "it", "format": "text", "api_key": "KEY"}
    assert ask("POST", "/translate", params=fields)["translatedText"] == TRANSLATED
    fields = {"q": STATION, "source": "auto", "target": "it", "format": "text", "alternatives": 2}
    answer = ask("POST", "/translate", params={"api_key": "KEY"}, json=fields)
    assert answer["translatedText"] == TRANSLATED and len(answer["alternatives"]) == 2


def test_extensions_of_browsers(ask: Ask) -> None:
    headers = {"Origin": "moz-extension://5c3a8f3e-2b1e-4c55-9f0a-0d6b3f0f9d11"}
    fields = {"q": STATION, "source": "auto", "target": "it", "format": "text", "api_key": "KEY"}
    answer = ask("POST", "/translate", data=fields, headers=headers)
    assert (answer["translatedText"], answer["detectedLanguage"]["language"]) == (TRANSLATED, "en")
    headers["Authorization"] = "DeepL-Auth-Key KEY"
    fields = {"text": [STATION], "target_lang": "IT", "source_lang": ""}
    answer = ask("POST", "/v2/translate", json=fields, headers=headers)
    assert answer["translations"][0]["text"] == TRANSLATED
