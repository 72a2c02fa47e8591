"""Our own API over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from live_server import live_server

from dragoman.cli.train import FINISHED
from dragoman.errors import DecodeError
from dragoman.explaining.recording import Recorder
from dragoman.inference.options import SearchOptions
from dragoman.inference.translation import MEANINGS
from dragoman.inference.translator import Translator
from dragoman.serving import native
from dragoman.serving.app import create_app
from dragoman.serving.limits import Limits
from dragoman.serving.service import Service

TEXT = "Where is the station?\n\n - My name is Nakamura. I would like two coffees."
WHOLE = "Dov'è la stazione?\n\n - Mi chiamo Nakamura. Vorrei due caffè."


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    service = Service([FINISHED], Limits(characters=1_000))
    service.load()
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        yield client
    service.stop()


def translated(client: TestClient, **asked: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/translate", json={"source": "en", "target": "it", **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


def refused(answer: Any, status: int = 400) -> str:
    assert answer.status_code == status
    return answer.json()["error"]


def streamed(client: TestClient, **asked: Any) -> list[tuple[str, dict[str, Any]]]:
    return events(client.post("/v1/translate", json={"source": "en", "stream": True, **asked}))


def events(answer: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream by the letter of its standard: lines of fields, and a blank line behind each event."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("\n\n")
    told = []
    for block in answer.text.removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(fields) == {"event", "data"}
        told.append((fields["event"], json.loads(fields["data"])))
    return told


def test_the_models_and_their_limits_are_told(client: TestClient):
    told = client.get("/v1/models").json()
    assert told["models"] == [{"name": "phrasebook", "source": "en", "target": "it", "ready": True}]
    assert told["ready"] and not told["key_required"]
    assert told["limits"] == {"characters": 1_000, "texts": 50, "alternatives": 5, "document_bytes": 10 * 2**20}
    assert {".txt", ".docx", ".html"} <= {*told["document_formats"]}


def test_models_that_load_are_told_too():
    service = Service([FINISHED])
    client = TestClient(create_app(service), base_url="http://127.0.0.1")
    told = client.get("/v1/models").json()
    assert told["models"] == [{"name": "phrasebook", "source": "", "target": "", "ready": False}]
    assert not told["ready"]
    assert "loading" in refused(client.post("/v1/translate", json={"text": "Hello."}), 503)


def test_a_translation_says_all_of_itself(client: TestClient):
    (told,) = translated(client, text=TEXT, align=True, alternatives=2)
    assert told["text"] == WHOLE
    assert (told["source"], told["target"], told["detected"]) == ("en", "it", None)
    assert told["log_prob"] == pytest.approx(sum(token["log_prob"] for token in told["tokens"]))
    assert told["score"] > told["log_prob"]
    assert told["flags"] == [{"name": "split", "meaning": MEANINGS["split"]}]
    pairs = {(told["source_words"][one], told["target_words"][other]) for one, other in told["alignment"]}
    assert {("station", "stazione"), ("Nakamura", "Nakamura"), ("coffees", "caffè")} <= pairs
    assert len(told["alternatives"]) == 2
    assert told["score"] >= told["alternatives"][0]["score"] >= told["alternatives"][1]["score"]
    (plain,) = translated(client, text=TEXT)
    assert plain["text"] == told["text"] and "alignment" not in plain and plain["alternatives"] == []


def test_several_texts_come_back_in_order(client: TestClient):
    pairs = {"Thanks!": "Grazie!", "": "", "Where is the station?": "Dov'è la stazione?", "12:30": "12:30"}
    assert [told["text"] for told in translated(client, text=[*pairs, *pairs])] == [*pairs.values(), *pairs.values()]


def test_a_language_that_is_not_named_is_detected(client: TestClient):
    (told,) = client.post("/v1/translate", json={"text": "Where is the station?"}).json()["translations"]
    assert told["source"] == told["detected"]["language"] == "en" and 50 < told["detected"]["confidence"] <= 100


def test_a_text_in_another_language_is_left_and_says_so(client: TestClient):
    texts = ["Wo ist denn heute der Bahnhof?", "Where is the station?", "Dov'è la stazione, per favore?"]
    found = client.post("/v1/translate", json={"text": texts, "target": "it"}).json()["translations"]
    assert [told["text"] for told in found] == [texts[0], "Dov'è la stazione?", texts[2]]
    assert [told["source"] for told in found] == ["de", "en", "it"]
    assert [told["translated"] for told in found] == [False, True, False]
    assert [[flag["name"] for flag in told["flags"]] for told in found] == [["language"], [], ["language"]]
    asked = {"text": texts[2], "target": "it", "stream": True}
    assert f"event: translation\ndata: {json.dumps(found[2])}" in client.post("/v1/translate", json=asked).text
    asked = {"text": texts[0], "target": "it", "stream": True}
    assert "seems to be in German" in refused(client.post("/v1/translate", json=asked))


def test_a_refusal_names_the_language_that_no_model_reads(client: TestClient):
    german, languages = "Wo ist denn heute der Bahnhof?", {"source": "auto", "target": "it"}
    answer = client.post("/translate_file", files={"file": ("a.txt", german.encode())}, data=languages)
    assert answer.status_code == 400 and answer.json()["detected"] == "de"
    assert client.post("/v1/translate", json={"text": german, **languages}).json()["detected"] == "de"
    assert "detected" not in client.post("/v1/translate", json={"text": german, "source": "de"}).json()


def test_terms_are_used_and_told(client: TestClient):
    terms = {"station": ["fermata"], "coffees": ["tè"], "passport": ["documento"]}
    (told,) = translated(client, text=TEXT, terms=terms)
    assert "fermata" in told["text"] and "station" in told["used_terms"]
    assert {*told["used_terms"], *told["unused_terms"]} == {"station", "coffees"}


def test_an_unused_term_is_not_listed_as_used(client: TestClient):
    asked = {"text": "Where is the station?", "prefix": "Dov'è la stazione", "terms": {"station": ["fermata"]}}
    (told,) = translated(client, **asked)
    assert (told["used_terms"], told["unused_terms"]) == ([], ["station"])


def test_doubtful_words_are_those_that_the_model_found_unlikely(client: TestClient):
    (told,) = translated(client, text="Where is the station?", align=True, terms={"station": ["fermata"]})
    assert [told["target_words"][number] for number in told["doubtful_words"]] == ["fermata"]
    (told,) = translated(client, text="Where is the station?", align=True)
    assert told["doubtful_words"] == []


def test_html_keeps_its_tags(client: TestClient):
    (told,) = translated(client, text="<p>Where is the <b>station</b>?</p>", format="html")
    assert told["text"] == "<p>Dov'è la <b>stazione</b>?</p>"


@pytest.mark.parametrize("text", [TEXT, "Thanks!", " \r\n\r\nThanks!\r\n12:30 ", "D\n:D\nD", "", "\n"])
def test_a_stream_gives_the_same_in_pieces(client: TestClient, text: str):
    (told,) = translated(client, text=text, align=True)
    *pieces, last = streamed(client, text=text, align=True)
    assert last == ("translation", told)
    assert {name for name, _ in pieces} <= {"piece"}
    assert "".join(piece["text"] for _, piece in pieces) == told["text"]
    assert all(piece["text"] for _, piece in pieces)


def test_a_stream_that_cannot_begin_is_refused(client: TestClient):
    for asked in ({"text": ["Thanks!"]}, {"text": "Thanks!", "beam_size": 9}, {"text": "Thanks!", "target": "ja"}):
        assert refused(client.post("/v1/translate", json={"source": "en", "stream": True, **asked}))


def test_a_stream_that_breaks_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Translator, *_: Any, **__: Any) -> Iterator[str]:
        yield "Dov'è"
        raise DecodeError("the lights went out")

    monkeypatch.setattr(Translator, "stream", broken)
    told = streamed(client, text="Where?")
    assert told == [("piece", {"text": "Dov'è"}), ("error", {"error": "the lights went out"})]


def test_a_stream_that_breaks_before_its_first_piece_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Translator, *_: Any, **__: Any) -> Iterator[str]:
        yield ""
        raise DecodeError("the lights went out")

    monkeypatch.setattr(Translator, "stream", broken)
    answer = client.post("/v1/translate", json={"text": "Where?", "source": "en", "stream": True})
    assert refused(answer) == "the lights went out"


def test_a_mistake_within_a_stream_is_logged(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(self: Translator, *_: Any, **__: Any) -> Iterator[str]:
        yield "Dov'è"
        raise ZeroDivisionError

    monkeypatch.setattr(Translator, "stream", broken)
    client.post("/v1/translate", json={"text": "Where?", "source": "en", "stream": True})
    assert [record.exc_info and record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ZeroDivisionError
    ]


def test_a_stream_ends_when_its_client_goes(monkeypatch: pytest.MonkeyPatch):
    def endless(translator: Translator, text: str, options: SearchOptions) -> Iterator[str]:
        while True:
            yield from translator.stream(text, options)

    monkeypatch.setattr(native, "pieces", endless)
    asked = {"text": "Where is the station?", "source": "en", "stream": True}
    with live_server(Limits(seconds=3_600.0)) as url, httpx.Client(base_url=url) as client:
        with client.stream("POST", "/v1/translate", json=asked) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: piece"
            assert "dragoman_under_way 1.0" in httpx.get(f"{url}/metrics").text
        while "dragoman_under_way 0.0" not in client.get("/metrics").text:
            pass
        assert client.post("/v1/translate", json=asked | {"stream": False}).json()["translations"]


def test_a_sentence_is_rewritten_from_another_word(client: TestClient):
    (told,) = translated(client, text=TEXT, align=True)
    place = told["target_words"].index("caffè")
    asked = {"text": TEXT, "source": "en", "translation": told["text"], "word": place}
    words = client.post("/v1/words", json=asked).json()["words"]
    assert words[0]["word"] == "caffè" and words[0]["probability"] > 0.8
    assert all(set(word) == {"word", "probability", "prefix"} for word in words)
    tea = next(word for word in words if word["word"] == "tè")
    (new,) = translated(client, text=TEXT, prefix=tea["prefix"], align=True)
    assert new["text"] == WHOLE.replace("caffè", "tè")
    pairs = {(new["source_words"][one], new["target_words"][other]) for one, other in new["alignment"]}
    assert {("station", "stazione"), ("coffees", "tè")} <= pairs
    *pieces, last = streamed(client, text=TEXT, prefix=tea["prefix"], align=True)
    assert last[1]["text"] == new["text"] == "".join(piece["text"] for _, piece in pieces)


def test_the_word_of_a_name_has_no_others(client: TestClient):
    asked = {"text": "My name is Zoë O'Hara.", "translation": "Mi chiamo Zoë O'Hara.", "word": 3}
    assert "is copied from the source" in refused(client.post("/v1/words", json={"source": "en", **asked}))


def test_wrong_requests_are_refused_in_words(client: TestClient):
    for asked, message in [
        ({"text": "Thanks!", "alternatives": 6}, "alternatives must be from 0 to 5"),
        ({"text": "Thanks!", "beam_size": 0}, "beam_size"),
        ({"text": ["a"] * 51}, "at most 50 texts"),
        ({"text": "a" * 1_001}, "at most 1,000 characters"),
        ({"text": ["a", "b"], "prefix": "c"}, "prefix is for one text"),
        ({"text": "a", "prefix": "c", "format": "html"}, "prefix is for one text"),
        ({"text": "a", "terms": {"": []}}, "decode.terms"),
        ({"text": "a", "terms": ["b"]}, "terms"),
        ({"text": None}, "text"),
        ({"text": "a", "source": "xx"}, "no model here translates xx to it"),
    ]:
        answer = client.post("/v1/translate", json={"source": "en", "target": "it", **asked})
        assert message in refused(answer, answer.status_code) and answer.status_code in (400, 413)


@pytest.mark.parametrize("is_form", [False, True])
def test_the_page_that_explains_loads_nothing(client: TestClient, is_form: bool):
    asked = {"text": "Where is the station?", "source": "en", "target": "it"}
    answer = client.post("/v1/explain", data=asked) if is_form else client.post("/v1/explain", json=asked)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'sha256-" in policy and "frame-ancestors 'none'" in policy
    assert "http" not in policy and "Dov'è la stazione?" in answer.text
    assert str(FINISHED.parent) not in answer.text


def test_one_sentence_is_explained_at_a_time(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    held, record = list[bool](), Recorder.record

    def watched(*given: Any) -> Any:
        held.append(native._EXPLAINING.locked())
        return record(*given)

    monkeypatch.setattr(Recorder, "record", watched)
    assert client.post("/v1/explain", json={"text": "Thanks!", "source": "en"}).status_code == 200
    assert held == [True]


def test_only_a_sentence_is_explained(client: TestClient):
    for text, message in [("Where is the station? " * 13, "at most 60 tokens"), (" ", "nothing")]:
        assert message in refused(client.post("/v1/explain", json={"text": text, "source": "en"}))
