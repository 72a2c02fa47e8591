"""A server with a model of several directions."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_translators import SOURCES, save_several
from starlette.testclient import TestClient

import dragoman
from dragoman.directions import Directions
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.serving.app import create_app
from dragoman.serving.limits import Refused
from dragoman.serving.server import ServerSettings
from dragoman.serving.service import Service

PAIRS = {("en", "it"), ("it", "en"), ("en", "de"), ("de", "en")}


@pytest.fixture(scope="module", params=[False, True], ids=["source", "target"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_several(tmp_path_factory.mktemp("several") / "model", request.param)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    service = Service([folder], device="cpu", precision="float32")
    service.load()
    with TestClient(
        create_app(service, ServerSettings()), base_url="http://127.0.0.1:5000", client=("127.0.0.1", 1)
    ) as client:
        yield client
    service.stop()


def test_all_interfaces_list_the_directions(client: TestClient) -> None:
    languages = client.get("/languages").json()
    assert {(item["code"], target) for item in languages for target in item["targets"]} == PAIRS
    assert [item["name"] for item in languages] == ["German", "English", "Italian"]
    models = client.get("/v1/models").json()["models"]
    assert {(item["source"], item["target"]) for item in models} == PAIRS and all(item["ready"] for item in models)
    sources = client.get("/v2/languages").json()
    assert [item["language"] for item in sources] == ["DE", "EN", "IT"]
    pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert {(item["source_lang"], item["target_lang"]) for item in pairs} == PAIRS


def test_texts_go_in_the_direction_that_is_asked_for_or_detected(client: TestClient, folder: Path) -> None:
    loaded = Translator.load(folder, "cpu", "float32")

    def wanted(text: str, source: str, target: str) -> str:
        (result,) = loaded.translate([text], source_language=source, target_language=target, progress=False)
        return result.text

    def answer(path: str, **fields: Any) -> Any:
        return client.post(path, json=fields).json()

    text = SOURCES[1]
    for target in ("it", "de"):
        result = answer("/v1/translate", text=text, source="en", target=target, align=True)["translations"][0]
        assert result["text"] == wanted(text, "en", target) and (result["source"], result["target"]) == ("en", target)
        assert not any("<<" in word for word in result["target_words"])
        assert answer("/v2/translate", text=[text], target_lang=target)["translations"][0]["text"] == result["text"]
        streamed = client.post("/v1/translate", json={"text": text, "source": "en", "target": target, "stream": True})
        assert "event: translation" in streamed.text and f'"text": "{result["text"]}"' in streamed.text
    both = answer("/translate", q=["dov'è la stazione ?", "wo ist der Bahnhof ?"], source="auto", target="en")
    assert [item["language"] for item in both["detectedLanguage"]] == ["it", "de"]
    assert both["translatedText"][1] == wanted("wo ist der Bahnhof ?", "de", "en")
    assert answer("/translate", q=text, source="auto", target="en")["translatedText"] == text
    refused = client.post("/translate", json={"q": "dov'è ?", "source": "it", "target": "de"})
    assert refused.status_code == 400 and "no model here translates it to de" in refused.json()["error"]
    page = client.post("/v1/explain", json={"text": text, "source": "en", "target": "de"})
    assert page.status_code == 200 and '"languages":["en","de"]' in page.text.replace(" ", "")


def test_documents_and_rewriting_have_a_direction(client: TestClient, folder: Path) -> None:
    fields = {"source": "en", "target": "de"}
    sent = client.post("/translate_file", files={"file": ("a.txt", f"{SOURCES[1]}\n".encode())}, data=fields).json()
    loaded = Translator.load(folder, "cpu", "float32")
    (result,) = loaded.translate([SOURCES[1]], progress=False, source_language="en", target_language="de")
    assert client.get(sent["translatedFileUrl"]).text == f"{result.text}\n"
    words = client.post("/v1/words", json={"text": SOURCES[1], "translation": result.text, "word": 0, **fields}).json()
    second = next(item["prefix"] for item in words["words"] if item["prefix"] != result.text.split()[0])
    rewritten = client.post("/v1/translate", json={"text": SOURCES[1], "prefix": second, **fields}).json()
    assert rewritten["translations"][0]["text"].startswith(second)


def test_some_directions_are_offered_and_an_unknown_one_is_refused_before_loading(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no model has the direction 'en-fr'; there are en-it, it-en, en-de, de-en"):
        Service([folder], directions=["en-it", "en-fr"])
    service = Service([folder], device="cpu", precision="float32", directions=["it-en"])
    service.load()
    assert [*service.directions] == [("it", "en")] and service.is_ready
    service.stop()


def test_of_many_directions_only_those_in_use_get_text_rules(tmp_path: Path) -> None:
    letters = "abcdefghij"
    names = [f"q{first}{second}" for first, second in itertools.product(letters[:5], letters)]
    every = Directions(source=tuple(names), target=tuple(names))
    folder = save_several(tmp_path / "many", directions=every)
    service = Service([folder], device="cpu", precision="float32")
    service.load()
    assert len(service.directions) == 50 * 49
    with service.job() as job:
        (answer,) = service.translate([SOURCES[0]], "qaa", "qdj", job)
    assert (answer.source, answer.target) == ("qaa", "qdj")
    translator = service.models[0].translator
    assert translator is not None and translator._parts.cache_info().currsize <= 3
    service.stop()


def test_a_tag_of_a_client_does_not_change_the_target_language(folder: Path) -> None:
    """Nor does a second tag, one in markup, or that of a later sentence, whose symbols the model only reads."""
    service = Service([folder], device="cpu", precision="float32", directions=["en-it"])
    service.load()
    server = create_app(service, ServerSettings())
    with TestClient(server, base_url="http://127.0.0.1:5000", client=("127.0.0.1", 1)) as client:
        fields = {"source": "en", "target": "it"}
        message = "begins with a tag, but its target language here is it"
        for path, text in (("/v1/translate", "text"), ("/translate", "q"), ("/v1/explain", "text")):
            refused = client.post(path, json={text: f">>de<< {SOURCES[1]}", **fields})
            assert refused.status_code == 400 and message in refused.text, path
        for text in (f">>it<< {SOURCES[1]}", SOURCES[1]):
            assert client.post("/v1/translate", json={"text": text, **fields}).status_code == 200
    with service.job() as job:
        translator = service.translator(service.model("en", "it"), job)
        ids = translator.tokenizers.source.languages
        for text in (f">>it<< >>de<< {SOURCES[1]}", f"<b>>>de<< {SOURCES[1]}</b>"):
            (line,) = translator.read([text], translator.options)
            first = "en" if translator.tags.source else "it"
            assert [part.ids[0] for part in line.translated] == [ids[first]]
    service.stop()


def test_the_directions_of_a_marian_model_are_chosen_by_their_codes(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from small_marian import write_marian

    write_marian(tmp_path / "marian", tags=(">>fra<<", ">>pt_br<<"))
    dragoman.convert(tmp_path / "marian", tmp_path / "model")
    with pytest.raises(ConfigError, match="no model has the direction 'en-it'; there are en-fr, en-pt_br"):
        Service([tmp_path / "model"], directions=["en-it"])
    service = Service([tmp_path / "model"], device="cpu", precision="float32", directions=["en-fr"])
    service.load()
    assert [*service.directions] == [("en", "fr")]
    with service.job() as job, pytest.raises(Refused, match="its target language here is fra"):
        service.translate([">>pt_br<< Where is the station?"], "en", "fr", job)
    service.stop()
