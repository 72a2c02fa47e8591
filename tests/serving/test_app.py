"""What holds for every request: keys, limits, names, headers, logs and figures; and how a server stops."""

import asyncio
import http.client
import itertools
import json
import logging
import os
import socket
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from fastapi import Depends, Request
from fastapi.responses import StreamingResponse
from small_server import Answer, SmallServer, small_server
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from dragoman.cli.serve import JsonLines
from dragoman.errors import ConfigError
from dragoman.serving import keys, listening, middleware, places
from dragoman.serving import server as serving
from dragoman.serving.app import OPEN, admit, create_app
from dragoman.serving.keys import create_key, withdraw_key
from dragoman.serving.limits import Limits, Refused
from dragoman.serving.listening import Listening
from dragoman.serving.server import ServerSettings
from dragoman.serving.service import Service
from dragoman.serving.shared_search import Job

TEXT = "nobody may read this sentence"


class Work:
    """Work that begins, and then waits until it may end."""

    def __init__(self) -> None:
        self.began, self.may_end, self.ended = Event(), Event(), Event()

    def __call__(self, job: Job) -> str:
        self.began.set()
        try:
            while not self.may_end.wait(0.01):
                job.check()
        finally:
            self.ended.set()
        return "done"


def routes_on(server: SmallServer, work: Work) -> SmallServer:
    """Adds routes that work, fail and read."""
    shared = server.app.state.server

    @server.app.post("/work", dependencies=[Depends(admit)])
    async def working(request: Request) -> str:
        await request.body()
        return await shared.work(request, work)

    @server.app.post("/fail")
    async def failing() -> None:
        raise ValueError(TEXT)

    @server.app.post("/read", dependencies=[Depends(admit)])
    async def read(request: Request) -> int:
        is_form = "form" in request.headers.get("content-type", "")
        return len(await (request.form() if is_form else request.body()))

    return server


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def server(work: Work) -> Generator[SmallServer]:
    with small_server(Service([], Limits(requests=2, body_bytes=1_000))) as found:
        yield routes_on(found, work)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def raw(server: SmallServer, request: bytes) -> socket.socket:
    """A connection on which these bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(request)
    return connection


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    with closing(connection):
        return b"".join(iter(lambda: connection.recv(65_536), b""))


# Keys


def test_a_key_is_taken_in_every_way_that_clients_have(key_file: Path, work: Work) -> None:
    key = create_key(key_file, "a colleague")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with small_server(Service([]), ServerSettings(keys=key_file)) as server:
        routes_on(server, work)
        for good, status in ((key, 200), (key[:-1], 403), ("", 403)):
            assert server.ask("POST", "/read", {}, {"Authorization": f"Bearer {good}"}).status == status
            assert server.ask("POST", "/read", {}, {"Authorization": f"DeepL-Auth-Key {good}"}).status == status
            assert server.ask("POST", "/read", {"api_key": good}).status == status
            assert server.ask("POST", "/read", f"q=x&api_key={good}".encode(), form).status == status
            assert server.ask("POST", f"/read?api_key={good}", {}).status == status
        for wrong in ({"api_key": ["\ud800"]}, {"api_key": "\ud800"}, [key], key, b"{", b"\xff", b"[" * 900):
            assert server.ask("POST", "/read", wrong, {"Content-Type": "application/json"}).status == 403


def test_every_route_needs_a_key_but_those_that_are_asked_before_there_is_one(key_file: Path) -> None:
    create_key(key_file, "somebody")
    with small_server(Service([]), ServerSettings(keys=key_file)) as server:
        paths = server.app.openapi()["paths"]
        asked = [(method, path) for path, methods in paths.items() for method in methods]
        assert paths.keys() >= OPEN and len(asked) > 10
        for method, path in [*asked, ("get", "/metrics"), ("get", "/openapi.json")]:
            is_open = path in OPEN | {"/health", "/ready"}
            answer = server.ask(method.upper(), path, {} if method != "get" else None)
            assert (answer.status != 403) == is_open, (path, answer)
            assert is_open or "needs a key" in (answer.json.get("error") or answer.json["message"])
            wrong = server.ask(method.upper(), path, {} if method != "get" else None, {"Authorization": "Bearer x"})
            assert is_open or (wrong.status == 403 and b"not valid" in wrong.body)
        assert server.ask("GET", "/").status == server.ask("HEAD", "/page/page.css").status == 200


def test_a_key_that_is_made_or_withdrawn_counts_at_once(key_file: Path) -> None:
    first = create_key(key_file, "first")
    with small_server(Service([]), ServerSettings(keys=key_file)) as server:

        def status(key: str) -> int:
            return server.ask("GET", "/metrics", headers={"Authorization": f"Bearer {key}"}).status

        second = create_key(key_file, "second")
        assert (status(first), status(second)) == (200, 200)
        withdraw_key(key_file, "first")
        assert (status(first), status(second)) == (403, 200)
        key_file.write_text("{")
        assert status(second) == 403


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_of_keys_changes_no_rights_of_other_files(
    fails: bool, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fails:
        monkeypatch.setattr(keys, "write_json", lambda *_: 1 / 0)
    before = os.umask(0o022)
    try:
        with suppress(ZeroDivisionError):
            create_key(key_file, "one")
    finally:
        assert os.umask(before) == 0o022


def test_the_file_of_keys_holds_no_key_and_belongs_to_its_owner(key_file: Path) -> None:
    made = [create_key(key_file, name) for name in ("one", "two")]
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert not any(key in key_file.read_text() or key[9:] in key_file.read_text() for key in made)
    assert [key.name for key in keys.read_keys(key_file)] == ["one", "two"]


def test_requests_a_minute_are_counted_for_each_key(key_file: Path, work: Work) -> None:
    made = [create_key(key_file, name) for name in ("one", "two")]
    limits = Limits(requests_a_minute=2)
    with small_server(Service([], limits), ServerSettings(keys=key_file)) as server:

        def ask(key: str) -> Answer:
            return server.ask("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})

        assert [ask(made[0]).status for _ in range(3)] == [200, 200, 429]
        assert 1 <= int(ask(made[0]).headers["Retry-After"]) <= 30
        assert ask(made[1]).status == 200
        assert server.ask("GET", "/health").status == 200


def test_clients_of_one_ipv6_network_share_their_requests_a_minute() -> None:
    settings = ServerSettings(trusted_proxy=("127.0.0.1",))
    with small_server(Service([], Limits(requests_a_minute=1)), settings) as server:

        def status(client: str) -> int:
            return server.ask("GET", "/metrics", headers={"X-Forwarded-For": client}).status

        assert [status(client) for client in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")] == [200, 429, 200]


def test_a_client_that_was_quiet_for_long_has_no_more_requests_than_a_minute_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 5.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rates = keys.Rates(2)
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 30]
    now += 600
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 30]


def test_the_table_of_rates_is_bounded_and_forgets_the_quietest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST_COUNTED", 2)
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    rates = keys.Rates(1)
    assert [rates.wait(who) for who in "abab"] == [0, 0, 60, 60]
    assert rates.wait("c") == 0 and rates.wait("a") == 0  # "a" was forgotten, "b" by now too
    assert rates.wait("c") == 60


# Bodies and connections


def parts(count: int) -> Iterator[bytes]:
    return (b"x" * 100 for _ in range(count))


def test_a_body_is_counted_while_it_streams(server: SmallServer) -> None:
    assert server.ask("POST", "/read", b"x" * 1_000).json == 1_000
    assert server.ask("POST", "/read", parts(10), chunked=True).json == 1_000
    for too_large in (b"x" * 1_001, b"x" * 300_000):
        answer = server.ask("POST", "/read", too_large)
        assert answer.status == 413 and "1,000 bytes" in answer.json["error"]
    answer = server.ask("POST", "/read", parts(3_000), chunked=True)
    assert answer.status == 413 and "1,000 bytes" in answer.json["error"]
    head = b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    assert all_of(raw(server, head)).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_come_is_not_waited_for(server: SmallServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.2)
    answer = all_of(raw(server, b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"))
    assert answer.startswith(b"HTTP/1.1 408 ") and b"too slowly" in answer


@pytest.mark.parametrize("beginning", [b"", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_a_connection_without_a_request_is_closed(
    beginning: bytes, server: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEAD_SECONDS", 0.2)
    with suppress(ConnectionResetError):
        assert all_of(raw(server, beginning)) == b""


def test_a_used_connection_is_closed_although_parts_of_a_request_come(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "IDLE_SECONDS", 0.5)
    connection = raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nX: ")
    connection.settimeout(0.05)
    with closing(connection), suppress(ConnectionError):
        while True:
            with suppress(TimeoutError):
                if not connection.recv(1_000):
                    break
            connection.sendall(b"x")


def test_a_connection_too_many_displaces_an_idle_one(work: Work) -> None:
    with small_server(Service([], Limits(requests=2))) as server:
        routes_on(server, work)
        waiting = raw(server, b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        assert work.began.wait(30)
        others = [raw(server, b"") for _ in range(listening.CONNECTIONS * 2 + 5)]
        assert server.ask("GET", "/health").status == 200
        with suppress(ConnectionResetError):
            assert all_of(others[0]) == b""
        work.may_end.set()
        assert waiting.recv(100).startswith(b"HTTP/1.1 200 ")
        for connection in [waiting, *others]:
            connection.close()


def until(is_so) -> None:
    """Waits for what nobody tells."""
    for _ in range(6_000):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it never came to be so")


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000]
)
def test_what_is_no_http_is_refused(head: bytes, server: SmallServer) -> None:
    with suppress(ConnectionResetError, BrokenPipeError):
        assert all_of(raw(server, head)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert server.ask("GET", "/health").json == {"status": "ok"}


def test_a_large_body_has_more_time_than_a_small_one() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)  # a time limit that has passed ends the wait here
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * 10 * middleware.BYTES_A_SECOND, "more_body": True}

    async def read_late() -> None:
        exchange = middleware.Exchange(Headers({"transfer-encoding": "chunked"}), receive, receive, 10**9, Service([]))  # pyright: ignore[reportArgumentType]
        await exchange.receive()
        exchange.began -= middleware.BODY_SECONDS + 5
        await exchange.receive()
        exchange.began -= 16
        with pytest.raises(HTTPException, match="too slowly"):
            await exchange.receive()

    asyncio.run(read_late())


def test_a_request_that_takes_longer_than_a_connection_may_idle_is_answered(
    server: SmallServer, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEAD_SECONDS", 0.3)
    with ThreadPoolExecutor() as clients:
        answer = clients.submit(server.ask, "POST", "/work", {})
        assert work.began.wait(30)
        time.sleep(0.5)
        work.may_end.set()
        assert answer.result().json == "done"


def test_a_client_that_does_not_read_its_answer_is_cut_off(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "READ_SECONDS", 0.2)
    monkeypatch.setattr(listening, "IDLE_SECONDS", 3_600)

    @server.app.get("/much")
    async def much() -> StreamingResponse:
        return StreamingResponse(itertools.repeat(b"x" * 1_000_000))

    with closing(raw(server, b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")):
        until(lambda: server.listening.server_state.connections)
        until(lambda: not server.listening.server_state.connections)


# Places


def test_more_documents_than_allowed_are_refused_before_they_are_read(work: Work) -> None:
    with small_server(Service([], Limits(documents=1))) as server:
        head = b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
        uploading = [raw(server, head) for _ in range(middleware.UPLOADS)]
        until(lambda: len(server.listening.server_state.tasks) == middleware.UPLOADS)
        answer = server.ask("POST", "/translate_file", b"")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5") and "documents" in answer.json["error"]
        for connection in uploading:
            connection.close()
        until(lambda: not server.listening.server_state.tasks)
        assert server.ask("POST", "/translate_file", b"").status == 400


def test_a_request_too_many_waits_for_its_turn(
    server: SmallServer, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor() as clients:
        first = clients.submit(server.ask, "POST", "/work", {})
        assert work.began.wait(30)
        monkeypatch.setattr(places, "WAIT_SECONDS", 0.1)
        refused = server.ask("POST", "/work", {})
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1") and "try again" in refused.json["error"]
        monkeypatch.setattr(places, "WAIT_SECONDS", 60)
        second = clients.submit(server.ask, "POST", "/work", {})
        time.sleep(0.1)
        assert not second.done()
        work.may_end.set()
        assert first.result().json == second.result().json == "done"


def test_a_client_that_leaves_frees_its_turn(server: SmallServer, work: Work) -> None:
    request = b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    shared = server.app.state.server
    first = raw(server, request)
    assert work.began.wait(30)
    second = raw(server, request)
    until(lambda: "127.0.0.1" in shared.places._turns)
    second.close()
    until(lambda: not shared.places._turns)
    work.may_end.set()
    assert first.recv(100).startswith(b"HTTP/1.1 200 ")
    first.close()


def test_slow_bodies_without_a_key_take_no_places(key_file: Path, work: Work) -> None:
    key = {"Authorization": f"Bearer {create_key(key_file, 'a colleague')}"}
    work.may_end.set()
    with small_server(Service([], Limits(requests=2)), ServerSettings(keys=key_file)) as server:
        routes_on(server, work)
        head = b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        slow = [raw(server, head) for _ in range(5)]
        until(lambda: len(server.listening.server_state.tasks) == 5)
        assert server.ask("POST", "/work", {}, key).json == "done"
        for connection in slow:
            connection.close()


def test_a_greedy_key_leaves_places_to_others(key_file: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.2)
    ours, theirs = ({"Authorization": f"Bearer {create_key(key_file, name)}"} for name in ("greedy", "other"))
    with small_server(Service([], Limits(requests=8)), ServerSettings(keys=key_file)) as server:
        routes_on(server, work)
        service = server.app.state.server.service
        with ThreadPoolExecutor(20) as clients:
            greedy = [clients.submit(server.ask, "POST", "/work", {}, ours) for _ in range(12)]
            until(lambda: service.active_requests == 4)
            honest = [clients.submit(server.ask, "POST", "/work", {}, theirs) for _ in range(2)]
            until(lambda: service.active_requests == 6)
            until(lambda: sum(answer.done() for answer in greedy) == 8)
            work.may_end.set()
            assert sorted(answer.result().status for answer in greedy) == [200] * 4 + [503] * 8
            assert [answer.result().status for answer in honest] == [200, 200]


def test_a_key_may_have_a_limit_of_its_own(key_file: Path, work: Work) -> None:
    key = {"Authorization": f"Bearer {create_key(key_file, 'a colleague')}"}
    content = json.loads(key_file.read_text())
    content["keys"][0]["requests"] = 1
    key_file.write_text(json.dumps(content))
    with small_server(Service([], Limits(requests=8)), ServerSettings(keys=key_file)) as server:
        routes_on(server, work)
        shared = server.app.state.server
        with ThreadPoolExecutor() as clients:
            answers = [clients.submit(server.ask, "POST", "/work", {}, key) for _ in range(3)]
            until(lambda: len(shared.places._turns.get("a colleague", ())) == 2)
            assert shared.service.active_requests == 1
            work.may_end.set()
            assert [answer.result().json for answer in answers] == ["done"] * 3


def upload(key: str = "") -> bytes:
    """Return the head of an upload."""
    header = f"Authorization: Bearer {key}\r\n" if key else ""
    kind = "Content-Type: multipart/form-data; boundary=x\r\n"
    return f"POST /translate_file HTTP/1.1\r\nHost: localhost\r\n{header}{kind}Content-Length: 9000\r\n\r\n".encode()


def test_a_document_with_a_wrong_key_is_refused_before_it_is_read(key_file: Path) -> None:
    create_key(key_file, "a colleague")
    with small_server(Service([]), ServerSettings(keys=key_file)) as server:
        in_address = upload().replace(b"_file ", b"_file?api_key=wrong ")
        for request in (upload("wrong"), in_address):
            answer = all_of(raw(server, request))
            assert answer.startswith(b"HTTP/1.1 403 ") and b"not valid" in answer


def test_slow_uploads_do_not_stop_those_of_another_key(key_file: Path) -> None:
    first, second = (create_key(key_file, name) for name in ("first", "second"))
    with small_server(Service([], Limits(documents=1)), ServerSettings(keys=key_file)) as server:
        uploads = [raw(server, upload(first)) for _ in range(middleware.UPLOADS)]
        until(lambda: len(server.listening.server_state.tasks) == middleware.UPLOADS)
        assert all_of(raw(server, upload(first))).startswith(b"HTTP/1.1 503 ")
        answer = server.ask("POST", "/translate_file", b"", {"Authorization": f"Bearer {second}"})
        assert answer.status == 400
        with suppress(ConnectionResetError):
            assert all_of(uploads[0]) == b""
        for connection in uploads[1:]:
            connection.close()


def test_a_client_that_goes_away_frees_its_place(server: SmallServer, work: Work) -> None:
    connection = raw(server, b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
    assert work.began.wait(30)
    connection.close()
    assert work.ended.wait(30)
    until(lambda: server.app.state.server.service.active_requests == 0)


def test_what_fails_is_answered_with_an_id_and_disturbs_nobody(
    server: SmallServer, work: Work, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor() as clients:
        other = clients.submit(server.ask, "POST", "/work", {})
        assert work.began.wait(30)
        answer = server.ask("POST", "/fail", {})
        work.may_end.set()
        assert other.result().json == "done"
    assert answer.status == 500 and answer.json["id"] == answer.headers["X-Request-ID"] and TEXT not in str(answer)
    (failure,) = [record for record in caplog.records if record.exc_info]
    capsys.readouterr()
    JsonLines().emit(failure)
    told = json.loads(capsys.readouterr().err)
    assert answer.json["id"] in told["message"] and told["error"] == "ValueError" and "failing" in told["at"][-1]
    assert TEXT not in str(told)


def test_health_can_be_asked_without_a_body(server: SmallServer) -> None:
    for path in ("/health", "/ready"):
        answer = server.ask("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")


def test_all_addresses_of_a_server_may_have_a_prefix(work: Work) -> None:
    with small_server(Service([]), ServerSettings(url_prefix="/translate")) as server:  # which is also a route
        routes_on(server, work)

        @server.app.get("/base")
        async def base(request: Request) -> str:
            return str(request.base_url)

        for prefix in ("/translate", ""):
            assert server.ask("GET", f"{prefix}/health").status == 200
            assert server.ask("POST", f"{prefix}/read", b"x" * 300_000).status == 413
            assert "message" in server.ask("GET", f"{prefix}/v2/nothing").json
            assert server.ask("GET", f"{prefix}/base").json == f"{server.url}/translate/"
            assert server.ask("POST", f"{prefix}/translate_file", b"x" * 300_000).status == 400
        assert server.ask("GET", "/translatex/health").status == 404
        assert server.ask("GET", "/translate").headers["Location"].endswith("/translate/")
        assert server.ask("GET", "/translate/").status == 200
    for wrong in ("translate", "/translate/", "/", "/a b", "/a//b"):
        with pytest.raises(ConfigError, match="--url-prefix"):
            create_app(Service([]), ServerSettings(url_prefix=wrong))


def test_a_server_on_all_addresses_serves_both_families() -> None:
    app = create_app(Service([]), ServerSettings(host="::"))
    with listening.listen("::", 0, is_open=True) as listener:
        thread = Thread(target=(server := Listening(app, Service([]))).answer, args=(listener,), daemon=True)
        thread.start()
        for address in ("::1", "127.0.0.1"):
            with closing(http.client.HTTPConnection(address, listener.getsockname()[1], timeout=30)) as connection:
                connection.request("GET", "/health")
                assert connection.getresponse().status == 200
        server.handle_exit(2, None)
        thread.join(30)


def test_an_address_that_is_mapped_into_ipv6_is_one_of_ipv4() -> None:
    assert keys.plain_address("::ffff:192.0.2.1") == keys.plain_address("::ffff:c000:201") == "192.0.2.1"
    assert keys.plain_address("2001:DB8::1") == "2001:db8::1"


def test_errors_have_the_form_of_their_api(server: SmallServer) -> None:
    assert server.ask("GET", "/nothing").json == {"error": "Not Found"}
    assert server.ask("GET", "/v2/nothing").json == {"message": "Not Found"}
    wrong = server.ask("GET", "/read")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "POST")

    @server.app.get("/refuse")
    async def refuse() -> None:
        raise Refused(418, "half a character: \ud800", 7)

    answer = server.ask("GET", "/refuse")
    assert (answer.status, answer.headers["Retry-After"]) == (418, "7") and answer.json["error"].endswith("?")


# Names and sites


@pytest.mark.parametrize("host", ["localhost:5000", "127.0.0.1", "192.0.2.7:5000", "[::1]:5000", "mt.example.org"])
def test_a_server_answers_to_its_names(host: str) -> None:
    with small_server(Service([]), ServerSettings(allow_host=("MT.Example.org",))) as server:
        assert server.ask("GET", "/health", headers={"Host": host}).status == 200
        for foreign in ("evil.example", "localhost.evil.example:5000", "127.0.0.1.evil.example", "[", ":5000", "@"):
            answer = server.ask("GET", "/health", headers={"Host": foreign})
            assert answer.status == 421 and "--allow-host" in answer.json["error"]


def test_pages_of_other_sites_reach_nothing_unless_they_are_named(work: Work) -> None:
    named, other = "https://named.example", "https://other.example"
    with small_server(Service([])) as server:
        routes_on(server, work)
        for origin in (named, other, "null", "http://localhost:3000"):
            assert server.ask("POST", "/read", {}, {"Origin": origin}).status == 403
            assert "Access-Control-Allow-Origin" not in server.ask("GET", "/health", headers={"Origin": origin}).headers
        assert server.ask("POST", "/read", {}, {"Origin": server.url}).status == 200
        assert server.ask("POST", "/read", {}, {"Origin": "moz-extension://abc"}).status == 200
    with small_server(Service([]), ServerSettings(allow_origin=(named,), allow_host=("mt.example.org",))) as server:
        routes_on(server, work)
        answer = server.ask("POST", "/read", {}, {"Origin": named})
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, named)
        assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            asked = {"Origin": named, "Access-Control-Request-Method": method}
            asked["Access-Control-Request-Headers"] = "authorization,content-type"
            answer = server.ask("OPTIONS", "/read", headers=asked)
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, named)
        assert server.ask("POST", "/read", {}, {"Origin": other}).status == 403
        assert server.ask("POST", "/read", {}, {"Origin": "https://mt.example.org"}).status == 200
        for headers, status in (({"Host": "evil.example"}, 421), ({"X": "x" * 20_000}, 431), ({}, 413)):
            refused = server.ask(
                "POST", "/read", b"x" * 300_000 if status == 413 else b"", {"Origin": named, **headers}
            )
            assert (refused.status, refused.headers["Access-Control-Allow-Origin"] in (named, "*")) == (status, True)
        assert server.ask("POST", "/fail", b"", {"Origin": named}).headers["Access-Control-Allow-Origin"] == named
    with small_server(Service([]), ServerSettings(allow_origin=("*",))) as server:
        assert routes_on(server, work).ask("POST", "/read", {}, {"Origin": other}).status == 200


@pytest.mark.parametrize(
    ("proxies", "heard", "client"),
    [
        ((), "192.0.2.1", "127.0.0.1"),
        (("127.0.0.1",), "192.0.2.1", "192.0.2.1"),
        (("127.0.0.0/8",), "192.0.2.9, 192.0.2.1", "192.0.2.1"),
        (("127.0.0.1", "192.0.2.0/24"), "198.51.100.5, 192.0.2.1", "198.51.100.5"),
        (("127.0.0.1",), "192.0.2.1, a lie", "127.0.0.1"),
        (("127.0.0.1",), "", "127.0.0.1"),
        (("127.0.0.1",), "2001:db8::1", "2001:db8::1"),
    ],
)
def test_only_a_trusted_proxy_says_who_the_client_is(
    proxies: tuple[str, ...], heard: str, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    with small_server(Service([]), ServerSettings(trusted_proxy=proxies)) as server:
        assert server.ask("GET", "/health", headers={"X-Forwarded-For": heard}).status == 200
    assert [record.request["client"] for record in caplog.records if hasattr(record, "request")] == [client]  # pyright: ignore


# Headers, logs and figures


def test_every_answer_has_the_headers_that_protect(server: SmallServer) -> None:
    for method, path in (("GET", "/"), ("GET", "/health"), ("GET", "/nothing"), ("POST", "/fail"), ("GET", "/read")):
        answer = server.ask(method, path)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] and len(answer.headers["X-Request-ID"]) == 32
        assert not answer.headers["Server"]


def test_no_log_holds_text_or_a_key(
    key_file: Path, work: Work, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    key = create_key(key_file, "a colleague")
    with small_server(Service([]), ServerSettings(keys=key_file)) as server:
        routes_on(server, work)
        for path in ("/read", "/fail", "/nothing", "/translate", "/v2/translate", "/v1/translate"):
            asked = {"q": TEXT, "text": [TEXT], "source": TEXT, "target": TEXT, "target_lang": TEXT, "api_key": key}
            server.ask("POST", f"{path}?api_key={key}&q={TEXT.replace(' ', '+')}", asked)
    for record in caplog.records:
        JsonLines().emit(record)
    told = capsys.readouterr().err
    assert '"key": "a colleague"' in told and "/read" in told
    for secret in (key, TEXT, TEXT.replace(" ", "+")):
        assert secret not in "".join(
            record.getMessage() + str(record.__dict__.get("request")) for record in caplog.records
        )


def test_figures_count_what_was_answered(server: SmallServer, work: Work) -> None:
    work.may_end.set()
    assert [server.ask("POST", "/work", {}).status for _ in range(3)] == [200, 200, 200]
    server.ask("GET", "/a/path/of/a/client")
    server.ask("POST", "/refused")
    told = server.ask("GET", "/metrics").body.decode()
    assert 'dragoman_requests_total{route="/work",status="200"} 3.0' in told
    assert 'dragoman_requests_total{route="none",status="404"} 2.0' in told and "/a/path" not in told
    assert "dragoman_first_answer_seconds_count 3.0" in told and "dragoman_ready 1.0" in told
    assert 'le="1800.0"' in told and "process_resident_memory_bytes" in told and "dragoman_tokens_total 0.0" in told


# Starting and stopping


def test_a_server_lives_before_it_is_ready(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Service):
        may_load = Event()

        @property
        def is_ready(self) -> bool:
            return self.may_load.is_set() and super().is_ready

    with small_server(Slow([])) as server:
        routes_on(server, work)
        assert server.ask("GET", "/health").json == {"status": "ok"}
        monkeypatch.setattr(serving, "WAIT_SECONDS", 0.1)
        assert (server.ask("GET", "/ready").status, server.ask("POST", "/work", {}).status) == (503, 503)
        assert server.ask("GET", "/metrics").status == server.ask("GET", "/v1/models").status == 200
        monkeypatch.setattr(serving, "WAIT_SECONDS", 60)
        with ThreadPoolExecutor() as clients:
            early = clients.submit(server.ask, "POST", "/work", {})
            time.sleep(0.2)
            assert not early.done()
            work.may_end.set()
            Slow.may_load.set()
            assert early.result().json == "done"
        assert server.ask("GET", "/ready").status == 200


def test_accepted_requests_finish_and_no_others_begin(server: SmallServer, work: Work) -> None:
    with ThreadPoolExecutor() as clients:
        accepted = clients.submit(server.ask, "POST", "/work", {})
        assert work.began.wait(30)
        server.listening.handle_exit(15, None)
        assert server.ask("GET", "/ready").status == 503 and server.ask("GET", "/health").status == 200
        refused = server.ask("POST", "/work", {})
        assert refused.status == 503 and "stopping" in refused.json["error"] and refused.headers["Retry-After"]
        assert refused.headers["Connection"] == "close"
        work.may_end.set()
        assert accepted.result().json == "done"
    server.thread.join(30)
    assert not server.thread.is_alive()


def test_a_last_request_on_an_open_connection_is_answered(server: SmallServer) -> None:
    used, unused = raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), raw(server, b"")
    assert used.recv(1_000).startswith(b"HTTP/1.1 200 ")
    server.listening.handle_exit(15, None)
    until(lambda: server.listening.should_exit)
    time.sleep(0.2)
    for connection in (used, unused):
        connection.sendall(b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        answer = all_of(connection)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"connection: close" in answer and b"stopping" in answer
    server.thread.join(30)


@pytest.mark.parametrize("is_asked_twice", [True, False])
def test_what_does_not_finish_is_refused(
    is_asked_twice: bool, server: SmallServer, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "DRAIN_SECONDS", 100.0 if is_asked_twice else 0.1)
    with ThreadPoolExecutor() as clients:
        accepted = clients.submit(server.ask, "POST", "/work", {})
        assert work.began.wait(30)
        for _ in range(1 + is_asked_twice):
            server.listening.handle_exit(15, None)
        answer = accepted.result()
        assert answer.status == 503 and "stopping" in answer.json["error"]
    server.thread.join(30)
    assert not server.thread.is_alive()


def test_a_pipelined_request_does_not_hide_that_the_client_has_gone(server: SmallServer, work: Work) -> None:
    head = b"Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"POST /work HTTP/1.1\r\n" + head + b"GET /health HTTP/1.1\r\n" + head)
        assert work.began.wait(30)
    assert work.ended.wait(30), "it was cancelled"


def test_only_who_has_a_key_may_send_a_large_glossary(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    own = {"Authorization": f"Bearer {create_key(path, 'anna')}", "Content-Type": "application/json"}
    with small_server(Service([]), ServerSettings(keys=path)) as server:
        body = b'{"name": "%s"}' % (b"a" * 200_000)
        assert server.ask("POST", "/v2/glossaries", body, {"Content-Type": "application/json"}).status == 413
        assert server.ask("POST", "/v2/glossaries", body, own | {"Authorization": "Bearer wrong"}).status == 403
        assert server.ask("POST", "/v2/glossaries", body, own).status == 400
