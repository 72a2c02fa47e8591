"""Clients in JavaScript, as their users install them: DeepL's official one, and `translate` for LibreTranslate."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import live_server, write_key

CLIENTS = Path(__file__).parent / "clients"
STATION, BUS_STOP = "Dov'è la stazione?", "Dov'è la fermata?"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing, which runs clients in JavaScript")
    if not (CLIENTS / "node_modules").exists():
        pytest.skip("the clients in JavaScript are missing: make clients installs them")
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    for key in ("any", "another"):
        write_key(path, key)
    with live_server(keys=path) as url:

        def run(program: str) -> Any:
            done = subprocess.run([node, CLIENTS / program, url], capture_output=True, encoding="utf-8", timeout=120)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        yield run


def test_translate_translates_and_says_why_not(found: Callable[[str], Any]):
    assert found("translate.mjs") == {"text": STATION, "refused": "de is not supported"}


def test_deepl_node_reads_every_field(found: Callable[[str], Any]):
    told = found("deepl.mjs")
    first = {"text": STATION, "detectedSourceLang": "en", "billedCharacters": 21}
    thanks = {"text": "Grazie.", "detectedSourceLang": "en", "billedCharacters": 10}
    assert told["text"] == first
    assert told["texts"] == [each | {"modelTypeUsed": "quality_optimized"} for each in (first, thanks)]
    assert told["html"]["text"] == "<p>Dov'è la <b>stazione</b>?</p>"
    assert told["sources"] == [{"name": "English", "code": "en"}]
    assert told["targets"] == [{"name": "Italian", "code": "it", "supportsFormality": False}]
    assert told["pairs"] == [{"sourceLang": "en", "targetLang": "it"}]
    assert told["usage"] == {"count": 21 + 31 + 35, "limit": 10**12, "anyLimitReached": False}
    assert told["document"].items() >= {"status": "done", "billedCharacters": 10, "text": "Grazie."}.items()
    assert told["refused"]["kind"] == "DeepLError" and "does not support splitting_tags" in told["refused"]["message"]
    assert told["rephrased"]["kind"] == "DeepLError" and "/v2/write/rephrase" in told["rephrased"]["message"]

    glossary = told["glossary"]
    assert {
        name: glossary[name] for name in ("name", "ready", "sourceLang", "targetLang", "entryCount", "isListed")
    } == {
        "name": "Stops",
        "ready": True,
        "sourceLang": "en",
        "targetLang": "it",
        "entryCount": 1,
        "isListed": True,
    }
    assert glossary["creationTime"].endswith("Z")
    assert told["entries"] == {"station": "fermata"}
    assert told["withGlossary"] == told["withMultilingual"] == BUS_STOP
    assert told["deleted"]["kind"] == "GlossaryNotFoundError"

    def dictionary(count: int) -> dict[str, Any]:
        return {"sourceLangCode": "en", "targetLangCode": "it", "entryCount": count}

    assert told["multilingual"]["dictionaries"] == [dictionary(1)]
    assert told["updated"]["dictionaries"] == [dictionary(2)]
    assert (told["renamed"], told["multilingualEntries"]) == ("Other", {"station": "fermata", "bank": "riva"})
    assert (told["replaced"], told["emptied"], told["left"]) == (dictionary(1), [], 0)
