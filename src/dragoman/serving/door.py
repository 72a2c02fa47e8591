"""What holds for every request, whatever its route: how it may reach us, how large and slow it may be, which headers
its answer has, and what is logged and counted. It looks into no body.
"""

import asyncio
import ipaddress
import logging
import re
import socket
import time
import uuid
from contextlib import suppress
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.server import Server

log = logging.getLogger(__name__)

DEEPL = ("/v2/", "/v3/")
"""The paths whose errors have DeepL's form."""
DOCUMENTS, FORM_BYTES, UPLOADS = {"/translate_file"}, 16 * 1024, 4
"""The paths that take a document, what its form may hold besides, and the uploads for each place of a document."""
BODY_SECONDS, BYTES_A_SECOND = 20, 20_000
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
"""A name or an address, and a port."""


def answer(path: str, status: int, text: str, headers: dict[str, str] | None = None, **more: str) -> Response:
    """An error in the form of the API that the path belongs to."""
    field = "message" if path.startswith(DEEPL) else "error"
    return JSONResponse({field: text.encode("utf-8", "replace").decode(), **more}, status, headers)


class Door:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server, self._uploads, settings = app, server, 0, server.settings
        self._sites = {name.lower() for name in settings.allow_host}
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower(), *self._sites}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits, path, headers = self._server.service.limits, scope["path"], Headers(scope=scope)
        limit = limits.document_bytes + FORM_BYTES if path in DOCUMENTS else limits.body_bytes
        if headers.get("x-forwarded-proto") == "https" and self._is_proxy(_peer(scope)):
            scope["scheme"] = "https"
        scope["client"] = (self._client(scope, headers), 0)
        visit = Visit(headers, receive, send, limit)
        self._uploads += path in DOCUMENTS
        try:
            refusal: tuple[Any, ...] | None = self._refusal(scope["method"], headers) or visit.too_large()
            if path in DOCUMENTS and self._uploads > UPLOADS * limits.documents:
                refusal = 503, "too many documents are on their way; try again in a moment", {"Retry-After": "5"}
            app = answer(path, *refusal) if refusal else self._app
            await app(scope, visit.receive, visit.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            log.error("request %s failed", visit.id, exc_info=error)
            if not visit.status:
                text = "the server made a mistake; its log tells more under this id"
                await answer(path, 500, text, id=visit.id)(scope, visit.receive, visit.send)
        finally:
            self._uploads -= path in DOCUMENTS
            self._tell(scope, visit)

    def _client(self, scope: Scope, headers: Headers) -> str:
        """The address of the client: the last one that a trusted proxy says it heard from."""
        client = _peer(scope)
        with suppress(ValueError):
            for heard in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
                if not self._is_proxy(client):
                    break
                client = str(ipaddress.ip_address(heard.strip()))
        return client

    def _is_proxy(self, address: str) -> bool:
        with suppress(ValueError):
            return any(ipaddress.ip_address(address) in network for network in self._server.proxies)
        return False

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """Why a request is refused wherever it goes: its status and a text."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if host and not self._is_ours(host):
            return 421, "this server does not have that name; start it with --allow-host NAME"
        # Another site's page can send a form without asking. A browser's extension is no site.
        if method in ("GET", "HEAD", "OPTIONS") or not origin.startswith(("http", "null")):
            return None
        site = origin.partition("://")[2]
        if site == host or _name(site) in self._sites or {origin, "*"} & {*self._server.settings.allow_origin}:
            return None
        return 403, "another site's page sent this; start the server with --allow-origin ORIGIN"

    def _is_ours(self, host: str) -> bool:
        """Whether a request names this server: by an address, or by a name that nobody else can lead here."""
        with suppress(ValueError):
            return bool(ipaddress.ip_address(_name(host)))
        return _name(host) in self._hosts

    def _tell(self, scope: Scope, visit: "Visit") -> None:
        seconds, status = time.monotonic() - visit.began, visit.status or 499
        told = {
            "id": visit.id,
            "method": scope["method"],
            "route": getattr(scope.get("route"), "path", "none"),
            "status": status,
            "milliseconds": round(1_000 * seconds, 1),
            "client": scope["client"][0],
            "key": scope.get("state", {}).get("key"),
        }
        waited = visit.first if scope["method"] == "POST" and status < 400 else None
        self._server.metrics.answered(told["route"], status, seconds, waited)
        log.info("%(method)s %(route)s %(status)d, %(milliseconds).0f ms", told, extra={"request": told})


def _peer(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _name(host: str) -> str:
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else ""


class Visit:
    """One request on its way in, and its answer on its way out.

    Attributes:
        status: that of the answer; 0 until it begins.
        first: the seconds until the first bytes of the answer.
    """

    def __init__(self, headers: Headers, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        told = headers.get("content-length", "0")
        self._bytes, self._told = 0, int(told) if len(told) < 16 else limit + 1
        self._is_read = self._told == 0 and "transfer-encoding" not in headers
        self._lingers = "expect" not in headers
        self.id, self.began = uuid.uuid4().hex, time.monotonic()
        self.status, self.first = 0, cast("float | None", None)

    def too_large(self) -> tuple[int, str] | None:
        """The refusal of a body that is larger than it may be, or says so."""
        if max(self._bytes, self._told) <= self._limit:
            return None
        return 413, f"the body of this request may have at most {self._limit:,} bytes"

    async def receive(self) -> Message:
        """The next part of the body, or that the client has gone.

        Raises:
            HTTPException: the body is too large (413), or comes too slowly (408).
        """
        if self._is_read:
            return await self._receive()
        left = self.began + BODY_SECONDS + self._bytes / BYTES_A_SECOND - time.monotonic()
        try:
            async with asyncio.timeout(left):
                message = await self._next()
        except TimeoutError:
            self._lingers = False
            raise HTTPException(408, "the body of the request came too slowly") from None
        if refusal := self.too_large():
            raise HTTPException(*refusal)
        return message

    async def _next(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Sends a part of the answer; the first has our headers too."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=message["headers"])
            for name, value in {**HEADERS, "X-Request-ID": self.id}.items():
                headers.setdefault(name, value)
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while self._lingers and not self._is_read:
                        await self._next()
            if not self._is_read:
                headers["Connection"] = "close"
        elif self.first is None:
            self.first = time.monotonic() - self.began
        await self._send(message)
