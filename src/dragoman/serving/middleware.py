"""HTTP middleware: host, origin and proxy checks, size limits, timeouts, security headers, access log and metrics."""

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
"""Prefixes of the paths whose errors have DeepL's format."""
DOCUMENTS, FORM_BYTES, UPLOADS = {"/translate_file"}, 16 * 1024, 4
"""Paths that take a document, bytes allowed for the rest of its form, and concurrent uploads per document slot."""
BODY_SECONDS, BYTES_A_SECOND = 20, 20_000
"""Seconds in which a body must arrive, and bytes that add one second."""
LINGER_SECONDS = 2
"""Time for which the rest of a refused body is read, so that the client can read the response."""
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
"""Name or address, and an optional port."""


def error_response(path: str, status: int, text: str, headers: dict[str, str] | None = None, **more: str) -> Response:
    """Return an error in the format of the API that the path belongs to."""
    field = "message" if path.startswith(DEEPL) else "error"
    return JSONResponse({field: text.encode("utf-8", "replace").decode(), **more}, status, headers)


class Middleware:
    """Outermost layer of the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server, self._uploads, settings = app, server, 0, server.settings
        self._sites = {name.lower() for name in settings.allow_host}
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower(), *self._sites}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits, path, headers = self._server.service.limits, scope["path"], Headers(scope=scope)
        limit = limits.document_bytes + FORM_BYTES if path in DOCUMENTS else limits.body_bytes
        if headers.get("x-forwarded-proto") == "https" and self._is_proxy(_peer(scope)):
            scope["scheme"] = "https"
        scope["client"] = (self._client(scope, headers), 0)
        exchange = Exchange(headers, receive, send, limit)
        self._uploads += path in DOCUMENTS
        try:
            refusal: tuple[Any, ...] | None = self._refusal(scope["method"], headers) or exchange.too_large()
            if path in DOCUMENTS and self._uploads > UPLOADS * limits.documents:
                refusal = 503, "too many documents are being uploaded; try again in a moment", {"Retry-After": "5"}
            app = error_response(path, *refusal) if refusal else self._app
            await app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            log.error("request %s failed", exchange.id, exc_info=error)
            if not exchange.status:
                text = "the server made a mistake; its log has details under this id"
                await error_response(path, 500, text, id=exchange.id)(scope, exchange.receive, exchange.send)
        finally:
            self._uploads -= path in DOCUMENTS
            self._report(scope, exchange)

    def _client(self, scope: Scope, headers: Headers) -> str:
        """Return the client's address: the last one in X-Forwarded-For that a trusted proxy added, or the peer."""
        client = _peer(scope)
        with suppress(ValueError):
            for address in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
                if not self._is_proxy(client):
                    break
                client = str(ipaddress.ip_address(address.strip()))
        return client

    def _is_proxy(self, address: str) -> bool:
        with suppress(ValueError):
            return any(ipaddress.ip_address(address) in network for network in self._server.proxies)
        return False

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """Return status and text if the host or the origin of a request is refused."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if host and not self._is_own_host(host):
            return 421, "this server does not have that name; start it with --allow-host NAME"
        # A page of another site can send a form without a preflight request. A browser extension is not a site.
        if method in ("GET", "HEAD", "OPTIONS") or not origin.startswith(("http", "null")):
            return None
        site = origin.partition("://")[2]
        if site == host or _name(site) in self._sites or {origin, "*"} & {*self._server.settings.allow_origin}:
            return None
        return 403, "a page of another site sent this; start the server with --allow-origin ORIGIN"

    def _is_own_host(self, host: str) -> bool:
        """Return True for an IP address, and for a name that others cannot point at this server (DNS rebinding)."""
        with suppress(ValueError):
            return bool(ipaddress.ip_address(_name(host)))
        return _name(host) in self._hosts

    def _report(self, scope: Scope, exchange: "Exchange") -> None:
        """Log and count an answered request."""
        seconds, status = time.monotonic() - exchange.began, exchange.status or 499
        facts = {
            "id": exchange.id,
            "method": scope["method"],
            "route": getattr(scope.get("route"), "path", "none"),
            "status": status,
            "milliseconds": round(1_000 * seconds, 1),
            "client": scope["client"][0],
            "key": scope.get("state", {}).get("key"),
        }
        first = exchange.first if scope["method"] == "POST" and status < 400 else None
        self._server.metrics.answered(facts["route"], status, seconds, first)
        log.info("%(method)s %(route)s %(status)d, %(milliseconds).0f ms", facts, extra={"request": facts})


def _peer(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _name(host: str) -> str:
    name = _HOST.fullmatch(host.lower())
    return name[1] if name else ""


class Exchange:
    """Request and response of one HTTP exchange.

    Attributes:
        status: status of the response; 0 until it starts.
        first: seconds until the first bytes of the response.
    """

    def __init__(self, headers: Headers, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        length = headers.get("content-length", "0")
        self._bytes, self._length = 0, int(length) if len(length) < 16 else limit + 1
        self._is_read = self._length == 0 and "transfer-encoding" not in headers
        self._lingers = "expect" not in headers
        self.id, self.began = uuid.uuid4().hex, time.monotonic()
        self.status, self.first = 0, cast("float | None", None)

    def too_large(self) -> tuple[int, str] | None:
        """Return status and text if the body, received or declared, is larger than the limit."""
        if max(self._bytes, self._length) <= self._limit:
            return None
        return 413, f"the body of this request may have at most {self._limit:,} bytes"

    async def receive(self) -> Message:
        """Return the next message of the client; refuse a body that is too large (413) or too slow (408)."""
        if self._is_read:
            return await self._receive()
        left = self.began + BODY_SECONDS + self._bytes / BYTES_A_SECOND - time.monotonic()
        try:
            async with asyncio.timeout(left):
                message = await self._next()
        except TimeoutError:
            self._lingers = False
            raise HTTPException(408, "the body of the request arrived too slowly") from None
        if refusal := self.too_large():
            raise HTTPException(*refusal)
        return message

    async def _next(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response; our headers are added to the first."""
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
