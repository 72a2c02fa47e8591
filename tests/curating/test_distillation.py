"""Text for a student: a model's translations, and those of services that answer wrongly, slowly, or not at all."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF

from dragoman.cli.main import main
from dragoman.curating import asking, services
from dragoman.curating.asking import NO_ANSWER, distil_service
from dragoman.curating.rules import LOST
from dragoman.curating.services import service_at
from dragoman.curating.translating import distil
from dragoman.errors import ConfigError, DataError
from dragoman.inference.translator import translate
from dragoman.text.checks import EMPTY, OTHER_LANGUAGE

ENGLISH = [
    "The cat sleeps in the kitchen tonight.",
    "My brother has 45 books about trains.",
    "Where is the nearest railway station?",
    "We would like two coffees and a glass of water.",
    "The train to Rome leaves at 18:30 tomorrow.",
    "I have lost my passport at the airport.",
    "It rains every day in this small town.",
    "She wrote a letter to her old teacher.",
]
ITALIAN = [
    "Il gatto dorme in cucina stanotte.",
    "Mio fratello ha 45 libri sui treni.",
    "Dove si trova la stazione ferroviaria più vicina?",
    "Vorremmo due caffè e un bicchiere d'acqua.",
    "Il treno per Roma parte domani alle 18:30.",
    "Ho perso il passaporto all'aeroporto.",
    "In questa piccola città piove ogni giorno.",
    "Ha scritto una lettera al suo vecchio insegnante.",
]
BOOK = dict(zip(ENGLISH, ITALIAN, strict=True))
Answer = Callable[[int, list[str]], Any]


@contextmanager
def serve(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve answers to JSON requests: `answer(number, texts)` returns a status, or the translations of texts."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(content | {"path": self.path, "headers": dict(self.headers)})
            reply, status = b"busy", 200
            if "messages" in content:
                texts = [line.partition(". ")[2] for line in content["messages"][1]["content"].split("\n")]
            else:
                texts = content.get("q") or content.get("text")
            made = answer(len(asked), texts)
            if isinstance(made, int):
                status = made
            elif isinstance(made, str):
                reply = json.dumps({"choices": [{"message": {"content": made}}]}).encode()
            elif "text" in content:
                reply = json.dumps({"translations": [{"text": text} for text in made]}).encode()
            else:
                reply = json.dumps({"translatedText": made}).encode()
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "mono.en"
    path.write_text("\n".join([*ENGLISH, "", ENGLISH[0]]) + "\n", "utf-8")
    return path


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "LONGEST_PAUSE", 0.0)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def lines_of(made: list[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(made, 1))


@pytest.mark.parametrize("api", ["libretranslate", "deepl", "chat"])
def test_each_service_is_asked_in_its_own_way(
    api: Any, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(services.KEY, "a-secret")
    caplog.set_level("DEBUG")
    chosen: dict[str, Any] = {"api": api, "progress": False} | ({"model": "some-model"} if api == "chat" else {})

    def answer(_: int, texts: list[str]) -> Any:
        made = [BOOK[line] for line in texts]
        return lines_of(made) if api == "chat" else made

    with serve(answer) as (url, asked):
        report = distil_service(url, text, tmp_path / "made", "en", "it", **chosen)
        again = distil_service(url, text, tmp_path / "made", "en", "it", fresh=True, **chosen)
    assert report is not None and again == report and report.kept == 9 and report.dropped[EMPTY].pairs == 1
    assert [(row["en"], row["it"]) for row in rows(tmp_path / "made/kept.jsonl")] == [
        *BOOK.items(),
        (ENGLISH[0], ITALIAN[0]),
    ]
    assert len(asked) == 1, "each text once, and never again"
    assert "a-secret" in json.dumps(asked[0]) and "a-secret" not in caplog.text
    assert not any(b"a-secret" in file.read_bytes() for file in (tmp_path / "made").iterdir())
    if api == "chat":
        assert asked[0]["path"] == "/chat/completions" and asked[0]["model"] == "some-model"
        assert "from English into Italian" in asked[0]["messages"][0]["content"]


def test_nothing_wrong_that_a_chat_model_answers_becomes_text(text: Path, tmp_path: Path) -> None:
    failures = Counter[str]()

    def answer(number: int, texts: list[str]) -> Any:
        made = [BOOK[line] for line in texts]
        if number in (1, 3, 6):
            return (503, 429, 500)[number // 3]
        if len(texts) == 1:  # asked for again, alone
            failures[texts[0]] += 1
            return {
                ENGLISH[1]: "1. Mio fratello ha molti libri sui treni.",  # again without the number
                ENGLISH[2]: "Certo! Ecco la traduzione:\n1. Dove si trova la stazione?\nSpero che sia utile.",
                ENGLISH[3]: "1. Wir möchten zwei Kaffee und ein Glas Wasser.",
            }.get(texts[0], f"1. {made[0]}")
        made[1] = "Mio fratello ha 54 libri sui treni."
        made[2] += "\nNota: si può anche dire diversamente."
        made[3] = "We would like two coffees and a glass of water."
        made[4] = ""
        made[6] = made[6] * 20
        return "Sure, here they are:\n" + lines_of(made)

    with serve(answer) as (url, asked):
        report = distil_service(url, text, tmp_path / "made", "en", "it", api="chat", model="m", progress=False)
    assert report is not None
    kept = {row["en"]: row["it"] for row in rows(tmp_path / "made/kept.jsonl")}
    dropped = {row["en"]: row["reason"] for row in rows(tmp_path / "made/dropped.jsonl")}
    assert kept == {line: BOOK[line] for line in (ENGLISH[0], *ENGLISH[4:])}
    assert dropped == {
        ENGLISH[1]: LOST, ENGLISH[2]: NO_ANSWER, ENGLISH[3]: OTHER_LANGUAGE, "": EMPTY,
    }  # fmt: skip
    assert failures == Counter(dict.fromkeys((*ENGLISH[1:5], ENGLISH[6]), 1)), "each once, and what was right never"
    assert len(asked) == 4 + 5


def test_a_service_that_dies_is_gone_on_with_and_asked_for_the_rest_alone(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.LibreTranslate, "at_once", 2)
    monkeypatch.setattr(services, "TRIES", 2)

    def whole(_: int, texts: list[str]) -> Any:
        return [BOOK[line] for line in texts]

    with serve(whole) as (url, _):
        expected = distil_service(url, text, tmp_path / "whole", "en", "it", concurrency=1, progress=False)
    dead = [0]

    def dies(number: int, texts: list[str]) -> Any:
        return 500 if number > dead[0] else whole(number, texts)

    with serve(dies) as (url, asked):
        for dead[0] in (1, 4, 7):
            with pytest.raises(DataError, match=r"gave no answer 2 times; .*status 500"):
                distil_service(url, text, tmp_path / "stopped", "en", "it", concurrency=1, progress=False)
        dead[0] = 99
        report = distil_service(url, text, tmp_path / "stopped", "en", "it", concurrency=1, progress=False)
    for name in ("judged.jsonl", "kept.jsonl", "dropped.jsonl"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert report is not None and expected is not None and report.kept == expected.kept
    answered = Counter(line for content in asked for line in content["q"])
    assert max(answered.values()) <= 3 and answered.keys() == BOOK.keys(), "what was answered is not asked for again"


def test_the_cost_is_estimated_before_and_the_limit_stops(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(services.LibreTranslate, "at_once", 2)
    characters = sum(map(len, ENGLISH))
    caplog.set_level("INFO")
    with serve(lambda _, texts: [BOOK[line] for line in texts]) as (url, asked):
        options: dict[str, Any] = {"price": 20.0, "progress": False, "concurrency": 1}
        assert distil_service(url, text, tmp_path / "made", "en", "it", dry_run=True, **options) is None
        assert not asked
        cost = f"{characters * 20 / 1e6:,.2f}"
        assert f"about 4 requests with {characters:,} characters, for about {cost}" in caplog.text
        with pytest.raises(DataError, match="the budget of 160 characters is spent"):
            distil_service(url, text, tmp_path / "made", "en", "it", most=160, **options)
        assert len(asked) == 2
        report = distil_service(url, text, tmp_path / "made", "en", "it", most=characters, **options)
    assert report is not None and report.kept == 9 and len(asked) == 4


def test_a_refusal_is_said_at_once_and_no_file_is_opened(text: Path, tmp_path: Path) -> None:
    with serve(lambda _, texts: 403) as (url, asked):
        with pytest.raises(DataError, match="refuses the request with status 403: busy"):
            distil_service(url, text, tmp_path / "made", "en", "it", progress=False)
        assert len(asked) == 1
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (f"file://{text}", {}, "begins with https://"),
        ("https://a.org/v1", {}, "named by --model"),
        ("https://a.org", {"model": "m"}, "for chat models"),
        ("https://a.org/v1", {"model": "m", "prompt": tmp_path / "none.txt"}, "is no file"),
    ]
    for address, chosen, message in wrong:
        with pytest.raises(ConfigError, match=message):
            service_at(address, None, "en", "it", **chosen)


def test_a_prompt_of_the_users_own_is_sent(text: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Into {target}! Keep {0}. station = stazione ferroviaria", "utf-8")
    with serve(lambda _, texts: lines_of([BOOK[line] for line in texts])) as (url, asked):
        distil_service(url + "/v1", text, tmp_path / "made", "en", "it", model="m", prompt=prompt, progress=False)
    assert asked[0]["messages"][0]["content"] == "Into Italian! Keep {0}. station = stazione ferroviaria"


# Models


def test_a_model_teaches_its_translations_or_the_most_similar_ones(run_folder: Path, tmp_path: Path) -> None:
    words = "gatt can top lup ors cavall".split()
    lines = [f"the {first} sees the {second}" for first in words for second in words]
    text, references = tmp_path / "mono.en", tmp_path / "mono.it"
    text.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    wanted = [line.replace("the", "il").replace("sees", "vede") for line in lines]
    references.write_text("".join(f"{line}\n" for line in wanted), "utf-8")
    sampled: dict[str, Any] = {"temperature": 1.0, "n_best": 4, "progress": False}
    distil(run_folder, text, tmp_path / "made", references=references, **sampled)
    written = translate(run_folder, lines, **sampled)
    score = CHRF().sentence_score
    for row, translation, reference in zip(rows(tmp_path / "made/judged.jsonl"), written, wanted, strict=True):
        options = [translation.text, *(alternative.text for alternative in translation.alternatives)]
        best = max(score(option, [reference]).score for option in options)
        assert row["target"] in options and score(row["target"], [reference]).score == best
    with pytest.raises(DataError, match="is a table"):
        distil(run_folder, run_folder.parent / "pairs.tsv", tmp_path / "other", progress=False)
    with pytest.raises(ConfigError, match="give n_best"):
        distil(run_folder, text, tmp_path / "other", references=references, progress=False)
    references.write_text("one line\n", "utf-8")
    with pytest.raises(DataError, match="36 lines but"):
        distil(run_folder, text, tmp_path / "other", references=references, **sampled)


def test_the_command_takes_models_and_services(
    run_folder: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(lambda _, texts: [BOOK[line] for line in texts]) as (url, _):
        made = ["--folder", str(tmp_path / "made"), "--source-language", "en", "--target-language", "it"]
        assert main(["distil", url, str(text), *made, "--dry-run"]) == 0
        assert "about 1 request with" in capsys.readouterr().err
        assert main(["distil", url, str(text), *made]) == 0
        out, err = capsys.readouterr()
        assert "kept" in out and "quality" not in out and "kept.jsonl" in err
        for wrong, message in (
            (["distil", url, str(text), *made[:2]], "needs --source-language"),
            (["distil", url, str(text), *made, "--beam-size", "3"], "--beam-size is for models"),
            (["distil", url, str(text), *made, "--precision", "int8"], "--precision is for models"),
            (["distil", str(run_folder), str(text), *made[:2], "--price", "3"], "--price is for services"),
        ):
            assert main(wrong) == 2 and message in capsys.readouterr().err
    lines = tmp_path / "lines.en"
    lines.write_text(
        "".join(f"the {noun} sees the gatt\n" for noun in "can top lup ors cavall asin".split() * 9), "utf-8"
    )
    sampled = ["--folder", str(tmp_path / "model"), "--set", "decode.temperature=1"]
    assert main(["distil", str(run_folder), str(lines), *sampled]) == 0
    assert asking.ANSWERS not in {file.name for file in (tmp_path / "model").iterdir()}
