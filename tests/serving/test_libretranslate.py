"""LibreTranslate's API, as its Python client and its documentation speak it."""

import json
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tempfile import gettempdir
from threading import Barrier, Thread
from typing import Any

import httpx
import pytest
from live_server import live_server

import dragoman
from dragoman.cli.train import FINISHED
from dragoman.serving import documents, libretranslate
from dragoman.serving.keys import create_key
from dragoman.serving.limits import Limits
from dragoman.serving.service import Service

libretranslatepy = pytest.importorskip("libretranslatepy")
STATION = "Where is the station?"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live_server() as url:
        yield url


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url) as client:
        yield client


def posted(http: httpx.Client, path: str, **fields: Any) -> Any:
    answer = http.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_official_client_translates_detects_and_lists(url: str):
    client = libretranslatepy.LibreTranslateAPI(url)
    assert client.translate(STATION, "en", "it") == "Dov'è la stazione?"
    (english,) = client.detect(STATION)
    assert english["language"] == "en" and 90 < english["confidence"] <= 100
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["it"]},
        {"code": "it", "name": "Italian", "targets": []},
    ]


def test_a_list_is_answered_by_lists(http: httpx.Client):
    texts = [STATION, "Thank you.", ""]
    found = posted(http, "/translate", q=texts, source="auto", target="it", alternatives=2)
    assert found.keys() == {"translatedText", "detectedLanguage", "alternatives"}
    translator = dragoman.Translator.load(FINISHED)
    assert found["translatedText"] == [each.text for each in translator.translate(texts)]
    assert [each["language"] for each in found["detectedLanguage"]] == ["en"] * 3
    assert [isinstance(each["confidence"], float) for each in found["detectedLanguage"]] == [True] * 3
    for text, others in zip(found["translatedText"], found["alternatives"], strict=True):
        assert text not in others and len(set(others)) == len(others) <= 2
    assert found["alternatives"][0]


def test_a_form_in_plain_utf_8_is_read_as_such(http: httpx.Client):
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for written in ("你好，你在哪里？", "%E4%BD%A0%E5%A5%BD%EF%BC%8C%E4%BD%A0%E5%9C%A8%E5%93%AA%E9%87%8C%EF%BC%9F"):
        answer = http.post("/detect", content=f"q={written}&x=".encode(), headers=kind)
        assert answer.json() == http.post("/detect", json={"q": "你好，你在哪里？"}).json()
    for body in ("q=caffè".encode("latin-1"), b"q=%E8"):
        assert http.post("/translate", content=body + b"&source=en&target=it", headers=kind).status_code == 400


def test_texts_of_a_list_in_other_languages_are_left_as_they_are(http: httpx.Client):
    texts = [STATION, "Wo ist denn heute der Bahnhof?", "Dov'è la stazione, per favore?", "Thank you."]
    found = posted(http, "/translate", q=texts, source="auto", target="it", alternatives=1)
    assert found["translatedText"] == ["Dov'è la stazione?", *texts[1:3], "Grazie."]
    assert [each["language"] for each in found["detectedLanguage"]] == ["en", "de", "it", "en"]
    assert found["alternatives"][1:3] == [[], []]
    alone = posted(http, "/translate", q=texts[2], source="auto", target="it")
    assert (alone["translatedText"], alone["detectedLanguage"]["language"]) == (texts[2], "it")
    refused = http.post("/translate", json={"q": [texts[1]] * 2, "source": "auto", "target": "it"})
    assert refused.status_code == 400 and "seems to be in German" in refused.json()["error"]


def test_the_language_of_html_is_that_of_its_words(http: httpx.Client):
    texts = [f"<p>{STATION}</p>", '<div class="container"><p>Wo ist denn heute der Bahnhof?</p></div>']
    found = posted(http, "/translate", q=texts, source="auto", target="it", format="html")
    assert found["translatedText"] == ["<p>Dov'è la stazione?</p>", texts[1]]


def test_a_text_is_answered_by_a_text_and_only_what_was_asked_for(http: httpx.Client):
    assert posted(http, "/translate", q=STATION, source="en", target="it") == {"translatedText": "Dov'è la stazione?"}
    found = posted(http, "/translate", q=STATION, source="auto", target="it", alternatives=1, format="text", api_key="")
    assert found["translatedText"] == "Dov'è la stazione?"
    assert found["detectedLanguage"]["language"] == "en"
    assert [type(each) for each in found["alternatives"]] == [str]


def test_fields_may_come_as_json_as_a_form_or_in_the_address(http: httpx.Client):
    given = {"q": "One coffee.\r\nThank you.", "source": "en", "target": "it"}
    form = http.post("/translate", data=given).json()
    assert (
        form
        == http.post("/translate", params=given).json()
        == http.post("/translate", files={name: (None, value) for name, value in given.items()}).json()
    )
    assert form["translatedText"].count("\n") == 1 and "\r" not in form["translatedText"]
    assert posted(http, "/translate", **given)["translatedText"] == form["translatedText"].replace("\n", "\r\n")


def test_the_type_of_a_body_is_known_whatever_its_case(http: httpx.Client):
    content = json.dumps({"q": STATION, "source": "en", "target": "it"})
    answer = http.post("/translate", content=content, headers={"content-type": "Application/JSON"})
    assert answer.json() == {"translatedText": "Dov'è la stazione?"}


def test_html_keeps_its_tags(http: httpx.Client):
    found = posted(http, "/translate", q="<p>Where is the <b>station</b>?</p>", source="en", target="it", format="html")
    assert found == {"translatedText": "<p>Dov'è la <b>stazione</b>?</p>"}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"q": ""}, 400, "q"),
        ({"q": []}, 400, "q"),
        ({"q": 5}, 400, "q"),
        ({"q": [STATION, None]}, 400, "q"),
        ({"q": {"text": STATION}}, 400, "q"),
        ({"source": None}, 400, "Invalid request: missing source parameter"),
        ({"source": ""}, 400, "Invalid request: missing source parameter"),
        ({"source": "en it"}, 400, "source"),
        ({"target": "de"}, 400, "de is not supported"),
        ({"source": "de", "target": "it"}, 400, "de is not supported"),
        ({"source": "it", "target": "en"}, 400, "no model here translates it to en; there is en to it"),
        ({"format": "markdown"}, 400, "format"),
        ({"alternatives": "many"}, 400, "alternatives"),
        ({"alternatives": 6}, 400, "alternatives must be from 0 to 5"),
        ({"alternatives": 10**40}, 400, "beyond 64 bits"),
        ({"q": "\ud800"}, 400, "half of a surrogate pair"),
        ({"q": "x" * 5_001}, 413, "5,000 characters"),
        ({"q": ["x"] * 51}, 413, "50 texts"),
        ({"q": "x" * 200_000}, 413, "131,072 bytes"),
        ({"q": "Wo ist denn heute der Bahnhof?", "source": "auto"}, 400, "seems to be in German"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_says_why(
    http: httpx.Client, fields: dict[str, Any], status: int, message: str
):
    content = json.dumps({"q": STATION, "source": "en", "target": "it", **fields})
    answer = http.post("/translate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json().keys() - {"detected"} == {"error"} and message in answer.json()["error"]


def test_errors_that_clients_look_for_have_the_words_of_libretranslate(http: httpx.Client):
    fields = {"q": STATION, "s": "Dov'è?", "source": "en", "target": "it"}
    for path, names in (("/translate", ("q", "source", "target")), ("/detect", ("q",)), ("/suggest", tuple(fields))):
        for name in names:
            for wrong in ({key: value for key, value in fields.items() if key != name}, {**fields, name: ""}):
                for answer in (http.post(path, data=wrong), http.post(path, json=wrong)):
                    assert answer.status_code == 400
                    assert answer.json() == {"error": f"Invalid request: missing {name} parameter"}
    for wrong in ({"target": "zz"}, {"source": "zz"}, {"source": "auto", "target": "zz"}):
        answer = http.post("/translate", data={**fields, **wrong})
        assert (answer.status_code, answer.json()) == (400, {"error": "zz is not supported"})
    file = {"file": ("a.txt", b"Hi")}
    answer = http.post("/translate_file", files=file, data={"source": "en", "target": "zz"})
    assert (answer.status_code, answer.json()) == (400, {"error": "zz is not supported"})
    answer = http.post("/translate_file", files=file, data={"source": "", "target": "it"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request: missing source parameter"})
    for more in ({}, {"file": ""}):  # not a form with parts
        answer = http.post("/translate_file", data={"source": "en", "target": "it", **more})
        assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request: missing file parameter"})


def test_an_optional_field_that_is_empty_counts_as_missing(http: httpx.Client):
    fields = {"q": STATION, "source": "en", "target": "it", "format": "", "alternatives": "", "api_key": ""}
    for answer in (http.post("/translate", data=fields), http.post("/translate", json=fields)):
        assert answer.json() == {"translatedText": "Dov'è la stazione?"}


def test_slashes_in_a_row_count_as_one(http: httpx.Client):
    address = str(http.base_url)
    answer = httpx.post(f"{address}//translate", json={"q": STATION, "source": "en", "target": "it"})
    assert answer.json() == {"translatedText": "Dov'è la stazione?"}
    assert httpx.get(f"{address}//frontend//settings").json() == http.get("/frontend/settings").json()
    assert httpx.get(f"{address}//v2/nothing").json().keys() == {"message"}
    large = {"file": ("a.txt", b"Thank you. " * 20_000)}  # more than a body that is no document may have
    answer = httpx.post(f"{address}//translate_file", files=large, data={"source": "en", "target": "de"})
    assert answer.json() == {"error": "de is not supported"}


def test_the_description_of_the_routes_is_where_clients_look_for_it(http: httpx.Client):
    spec = http.get("/spec").json()
    assert spec == http.get("/openapi.json").json() and "/translate" in spec["paths"]
    assert http.post("/spec").status_code == 405


def test_too_many_texts_are_refused_before_their_language_is_detected(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Service, "route", lambda *_: pytest.fail("a language was detected"))
    answer = http.post("/translate", json={"q": ["x"] * 10_000, "source": "auto", "target": "it"})
    assert answer.status_code == 413 and "50 texts" in answer.json()["error"]


@pytest.mark.parametrize("body", [b"[1]", b'"q"', b"{", b'{"q": "\xff"}', b"[" * 100_000, b'{"q": 1, "q": 2}'])
def test_a_body_that_is_no_object_is_refused(http: httpx.Client, body: bytes):
    answer = http.post("/translate", content=body, headers={"content-type": "application/json; charset=utf-8"})
    assert answer.status_code == 400 and "body" in answer.json()["error"]


def test_a_form_with_a_file_is_no_text(http: httpx.Client):
    answer = http.post("/translate", files={"q": ("q.txt", b"Hi")}, data={"source": "en", "target": "it"})
    assert answer.status_code == 400 and "files" in answer.json()["error"]


def test_of_a_text_in_another_language_english_is_detected_without_confidence(http: httpx.Client):
    assert posted(http, "/detect", q="Wo ist denn heute der Bahnhof?") == [{"confidence": 0.0, "language": "en"}]
    assert [each["language"] for each in posted(http, "/detect", q=["Thank you.", STATION])] == ["en"]


def test_a_text_that_is_too_long_is_not_detected(http: httpx.Client):
    assert http.post("/detect", json={"q": "x" * 5_000}).status_code == 200
    for text in ("x" * 5_001, ["x" * 2_500] * 2):
        assert http.post("/detect", json={"q": text}).status_code == 413


def test_settings_for_a_page_have_all_fields(http: httpx.Client):
    found = http.get("/frontend/settings").json()
    suffixes = found.pop("supportedFilesFormat")
    assert {".txt", ".docx", ".html", ".srt", ".po"} <= set(suffixes)
    assert found == {
        "apiKeys": False,
        "charLimit": 5_000,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": False,
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": "it", "name": "Italian"},
        },
        "suggestions": False,
    }


def translated_file(http: httpx.Client, name: str, content: bytes, source: str = "en") -> httpx.Response:
    return http.post("/translate_file", files={"file": (name, content)}, data={"source": source, "target": "it"})


@pytest.mark.parametrize("source", ["en", "auto"])
def test_a_document_waits_under_a_secret_name_and_is_handed_over_once(http: httpx.Client, source: str):
    answer = translated_file(http, "La città.txt", b"Where is the station?\n\nThank you.\n", source)
    assert answer.status_code == 200 and answer.json().keys() == {"translatedFileUrl"}
    where = answer.json()["translatedFileUrl"]
    secret = httpx.URL(where).path.removeprefix("/download_file/").partition(".")[0]
    assert len(secret) == 32 and where.startswith(str(http.base_url))
    document = http.get(where)
    assert document.content.decode() == "Dov'è la stazione?\n\nGrazie.\n"
    assert document.headers["content-disposition"] == "attachment; filename*=utf-8''La%20citt%C3%A0_it.txt"
    again = http.get(where)
    assert again.status_code == 404 and "there is no document with this name" in again.json()["error"]


def test_a_document_of_word_comes_back_as_one(http: httpx.Client):
    docx = pytest.importorskip("docx")
    file = BytesIO()
    document = docx.Document()
    document.add_paragraph("Thank you.")
    document.save(file)
    answer = translated_file(http, "letter.docx", file.getvalue())
    back = docx.Document(BytesIO(http.get(answer.json()["translatedFileUrl"]).content))
    assert [paragraph.text for paragraph in back.paragraphs] == ["Grazie."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("program.exe", b"MZ", "the name of a document must end with one of .txt"),
        ("", b"Hi", "file"),
        ("packed.txt.gz", b"Hi", "the name of a document must end with"),
        ("keys.txt", b"en:\n  title: The old house\n", "keys.txt is no plain text: it is YAML"),
        ("../../letter.docx", b"no archive", "letter.docx"),
        ("page.html", b"\xff\xff", "page.html is not UTF-8"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_by_its_own_name(
    http: httpx.Client, name: str, content: bytes, message: str
):
    answer = translated_file(http, name, content)
    assert answer.status_code == 400
    assert message in answer.json()["error"] and gettempdir() not in answer.json()["error"]


def test_downloads_reach_no_other_file(http: httpx.Client):
    for name in ("..%2f..%2fetc%2fpasswd", "../../etc/passwd", ".", "x.txt", "%00"):
        assert http.get(f"/download_file/{name}").status_code == 404


def test_nothing_of_a_document_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(documents, "CLIENT_SHARE", 2)  # two documents, because each counts as LEAST_BYTES
    with live_server(Limits(document_bytes=documents.LEAST_BYTES)) as url, httpx.Client(base_url=url) as http:
        (folder,) = tmp_path.glob("dragoman-*")
        assert folder.stat().st_mode & 0o077 == 0
        assert translated_file(http, "a.docx", b"no archive").status_code == 400
        places = [translated_file(http, "a.txt", b"Hi").json()["translatedFileUrl"] for _ in range(3)]
        assert len(list(folder.glob("*/document.txt"))) == 2
        assert [http.get(place).status_code for place in places] == [404, 200, 200]
        for _ in range(1_000):
            if not list(folder.glob("*/")):
                break
            time.sleep(0.01)
        assert not list(folder.glob("*/")), "a document that was handed over is deleted soon after"
    assert not list(tmp_path.iterdir())


def test_a_document_may_have_as_many_bytes_as_are_allowed():
    with live_server(Limits(document_bytes=1_000)) as url, httpx.Client(base_url=url) as http:
        statuses = [translated_file(http, "a.txt", b"Hi.\n" * count).status_code for count in (250, 5_000)]
    assert statuses == [200, 413]


@pytest.mark.parametrize(("proxies", "scheme"), [((), "http"), (("127.0.0.1",), "https")])
def test_a_download_has_the_scheme_that_a_trusted_proxy_names(proxies: tuple[str, ...], scheme: str):
    proxied = {"X-Forwarded-Proto": "https"}
    with live_server(trusted_proxy=proxies) as url, httpx.Client(base_url=url, headers=proxied) as http:
        where = httpx.URL(translated_file(http, "a.txt", b"Hi").json()["translatedFileUrl"])
        assert where.scheme == scheme and http.get(where.path).status_code == 200


def test_a_document_goes_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "KEPT_SECONDS", 0)
    with live_server() as url, httpx.Client(base_url=url) as http:
        assert http.get(translated_file(http, "a.txt", b"Hi").json()["translatedFileUrl"]).status_code == 404


def test_more_documents_than_there_are_places_are_refused(monkeypatch: pytest.MonkeyPatch):
    inside, answers = Barrier(2, timeout=60), []
    whole = Service.document

    def slow(*arguments: Any) -> bytes:
        inside.wait()
        inside.wait()
        return whole(*arguments)

    monkeypatch.setattr(Service, "document", slow)
    with live_server(Limits(documents=1)) as url, httpx.Client(base_url=url, timeout=60) as http:
        first = Thread(target=lambda: answers.append(translated_file(http, "a.txt", b"Hi").status_code))
        first.start()
        inside.wait()
        refused = translated_file(http, "a.txt", b"Hi")
        inside.wait()
        first.join()
    assert (refused.status_code, refused.headers["retry-after"], answers) == (503, "5", [200])


def test_a_key_comes_in_the_field_that_clients_send_it_in(tmp_path: Path):
    key = create_key(tmp_path / "keys.json", "anna")
    with live_server(keys=tmp_path / "keys.json") as url, httpx.Client(base_url=url) as http:
        client = libretranslatepy.LibreTranslateAPI(url, key)
        assert client.translate(STATION, "en", "it") == "Dov'è la stazione?"
        assert client.detect(STATION)[0]["language"] == "en"
        settings = http.get("/frontend/settings").json()
        assert settings["apiKeys"] is settings["keyRequired"] is True
        given = {"q": STATION, "source": "en", "target": "it"}
        assert posted(http, "/translate", **given, api_key=key) == {"translatedText": "Dov'è la stazione?"}
        for wrong, reason in (
            ({}, "needs a key"),
            ({"api_key": "wrong"}, "not valid"),
            ({"api_key": 5}, "needs a key"),
        ):
            refused = http.post("/translate", json={**given, **wrong})
            assert refused.status_code == 403 and reason in refused.json()["error"]
        file, form = {"file": ("a.txt", b"Thank you.")}, {"source": "en", "target": "it"}
        assert http.post("/translate_file", files=file, data=form).status_code == 403
        assert http.post("/translate_file", data=form).status_code == 403
        answer = http.post("/translate_file", files=file, data={**form, "api_key": key})
        assert http.get(answer.json()["translatedFileUrl"]).text == "Grazie."


def test_the_file_of_suggestions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(libretranslate, "MOST_SUGGESTED_BYTES", 10)
    given, path = {"q": "Hi", "s": "Ciao", "source": "en", "target": "it"}, tmp_path / "suggestions.jsonl"
    with live_server(suggestions=path) as url:
        answers = [httpx.post(f"{url}/suggest", json=given) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 403] and "is full" in answers[1].json()["error"]
    assert len(path.read_text().splitlines()) == 1


def test_suggestions_are_lines_of_a_file_if_one_is_named(http: httpx.Client, tmp_path: Path):
    given = {"q": "Hi\nthere", "s": "Ciaò", "source": "en", "target": "it"}
    answer = http.post("/suggest", json=given)
    assert (answer.status_code, answer.json()) == (403, {"error": "this server accepts no suggestions"})
    path = tmp_path / "suggestions.jsonl"
    with live_server(suggestions=path) as url:
        assert httpx.get(f"{url}/frontend/settings").json()["suggestions"] is True
        for _ in range(2):
            assert httpx.post(f"{url}/suggest", data=given).json() == {"success": True}
        assert httpx.post(f"{url}/suggest", data={**given, "s": ""}).status_code == 400
        assert httpx.post(f"{url}/suggest", data={**given, "s": "x" * 5_001}).status_code == 413
        path.unlink()
        path.mkdir()
        assert httpx.post(f"{url}/suggest", data=given).status_code == 503
        path.rmdir()
        assert httpx.post(f"{url}/suggest", data=given).json() == {"success": True}
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [given]
