"""What holds for every request before and after its route: how it may reach us, how large and slow it may be, which
headers the answer has, and what is logged and counted. It never looks into a body.
"""

import asyncio
import ipaddress
import logging
import re
import socket
import time
import uuid
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.errors import ConfigError
from dragoman.serving.server import Server

log = logging.getLogger(__name__)

DEEPL = ("/v2/", "/v3/")
"""The paths whose errors have DeepL's form."""
DOCUMENTS = {"/translate_file"}
"""The paths that take a document."""
FORM_BYTES = 16 * 1024
"""What a document's form may hold besides the document."""
BODY_SECONDS, BODY_BYTES_A_SECOND = 20, 20_000
"""A body must arrive within so many seconds, and one more for each so many bytes."""
LINGER_SECONDS = 2
"""How long the rest of a refused body is read, so that its client gets to read the answer."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, the page's own forms would name no origin
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(r"\[?([^\[\]]+?)\]?(?::\d*)?")


def answer(
    path: str, status: int, message: str, headers: dict[str, str] | None = None, number: str | None = None
) -> Response:
    """An error in the form of the API that the path belongs to; with a number, one to look up in the log."""
    field = "message" if path.startswith(DEEPL) else "error"
    readable = message.encode("utf-8", "replace").decode()
    return JSONResponse({field: readable, **({"id": number} if number else {})}, status, headers)


class Door:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        """Raises:
        ConfigError: a trusted proxy or an allowed origin is none.
        """
        self._app, self._server = app, server
        settings = server.settings
        self._proxies = [_network(proxy) for proxy in settings.trusted_proxy]
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower(), *_lower(settings.allow_host)}
        self._sites = {*_lower(settings.allow_host)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits, path = self._server.service.limits, scope["path"]
        limit = limits.document_bytes + FORM_BYTES if path in DOCUMENTS else limits.body_bytes
        headers = Headers(scope=scope)
        visit = Visit(headers, receive, send, limit)
        scope["client"] = (self._client(scope, headers), 0)
        try:
            if refusal := self._refusal(scope, headers, limit):
                await answer(path, *refusal)(scope, visit.receive, visit.send)
            else:
                await self._app(scope, visit.receive, visit.send)
        except ClientDisconnect:
            visit.status = visit.status or 499
        except Exception as error:
            log.error("request %s failed", visit.id, exc_info=error)
            if not visit.status:
                message = f"the server made a mistake; its log says which, under the id {visit.id}"
                await answer(path, 500, message, number=visit.id)(scope, visit.receive, visit.send)
        finally:
            self._tell(scope, visit)

    def _client(self, scope: Scope, headers: Headers) -> str:
        """The address of the client: the last one that a trusted proxy says it heard from."""
        peer = scope["client"][0] if scope.get("client") else ""
        with suppress(ValueError):
            for heard in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
                if not self._is_proxy(peer):
                    break
                peer = str(ipaddress.ip_address(heard.strip()))
        return peer

    def _is_proxy(self, address: str) -> bool:
        with suppress(ValueError):
            return any(ipaddress.ip_address(address) in network for network in self._proxies)
        return False

    def _refusal(self, scope: Scope, headers: Headers, limit: int) -> tuple[int, str] | None:
        """Why a request is refused before its route is looked for, with its status."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if host and not self._is_ours(host):
            return 421, "this server is not known by that name; start it with --allow-host NAME"
        # Scripts of another site may send a form without asking; extensions of browsers are no sites
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and (origin == "null" or origin.startswith("http")):
            site, allowed = origin.partition("://")[2], self._server.settings.allow_origin
            if site != host and _name(site) not in self._sites and not {origin, "*"} & {*allowed}:
                return 403, "another site sent this; start the server with --allow-origin ORIGIN"
        told = headers.get("content-length", "0")
        if len(told) > 15 or int(told) > limit:
            return 413, too_large(limit)
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a request names this server, and no other whose name was made to lead here."""
        name = _name(host)
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return name in self._hosts

    def _tell(self, scope: Scope, visit: "Visit") -> None:
        now, status = time.monotonic(), visit.status or 499
        route = getattr(scope.get("route"), "path", "none")
        first = None if visit.first is None else visit.first - visit.began
        self._server.metrics.answered(route, status, now - visit.began, first)
        told = {
            "id": visit.id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(1_000 * (now - visit.began), 1),
            "client": scope["client"][0],
            "key": scope.get("state", {}).get("key"),
        }
        log.info("%(method)s %(route)s %(status)d %(milliseconds).0f ms", told, extra={"request": told})


class Visit:
    """One request on its way in, and its answer on its way out."""

    def __init__(self, headers: Headers, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._is_read = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        self._expects = "expect" in headers
        self._bytes = 0
        self.id, self.began = uuid.uuid4().hex, time.monotonic()
        self.status = 0
        """The status of the answer; 0 until it begins."""
        self.first: float | None = None
        """When the first bytes of the answer were sent."""

    async def receive(self) -> Message:
        """The next part of the body.

        Raises:
            HTTPException: the body is too large (413), or comes too slowly (408).
        """
        if self._is_read:
            return await self._receive()
        until = self.began + BODY_SECONDS + self._bytes / BODY_BYTES_A_SECOND
        try:
            async with asyncio.timeout(until - time.monotonic()):
                message = await self._next()
        except TimeoutError:
            raise HTTPException(408, "the body of the request came too slowly") from None
        if self._bytes > self._limit:
            raise HTTPException(413, too_large(self._limit))
        return message

    async def _next(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Sends a part of the answer, the first with our headers."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-ID"] = self.id
            self.status = message["status"]
            if not self._is_read and not self._expects and self.status != 408:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        while not self._is_read:
                            await self._next()
            if not self._is_read:
                headers["Connection"] = "close"
        elif self.first is None:
            self.first = time.monotonic()
        await self._send(message)


def too_large(limit: int) -> str:
    """What is said of a body above the limit."""
    return f"the body of a request has at most {limit:,} bytes"


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(f"--trusted-proxy takes an address or a network, but {error}") from None


def _name(host: str) -> str:
    """The name or address in a Host header, without its port."""
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else ""


def _lower(names: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in names]
