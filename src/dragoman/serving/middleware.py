"""HTTP middleware: host, origin and proxy checks, size limits, timeouts, security headers, access log and metrics."""

import asyncio
import ipaddress
import logging
import re
import socket
import time
import uuid
from contextlib import suppress
from functools import partial
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.keys import network_of, plain_address
from dragoman.serving.limits import DEEPL, Refused
from dragoman.serving.places import BoundedPool
from dragoman.serving.server import Server, key_in_head
from dragoman.serving.service import Service

log = logging.getLogger(__name__)

DOCUMENTS, FORM_BYTES, UPLOADS = {"/translate_file", "/v2/document"}, 16 * 1024, 4
"""Paths that take a document, bytes allowed for the rest of its form, and concurrent uploads per document slot."""
GLOSSARIES, GLOSSARY_BYTES = ("/v2/glossaries", "/v3/glossaries"), 11 * 2**20
"""Prefixes of the paths that take glossaries, and bytes of their bodies: 10 MiB of entries, written as JSON."""
BODY_SECONDS, BYTES_A_SECOND = 20, 20_000
"""Seconds in which a body must arrive, and bytes that add one second."""
LINGER_SECONDS = 2
"""Time for which the rest of a refused body is read, so that the client can read the response."""
HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # with no-referrer, the page's own forms would name no origin
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_HOST = re.compile(r"\[?([^\[\]]+?)\]?(?::\d*)?")
"""Name or address, and an optional port."""
_SLASHES = re.compile("//+")
"""Slashes that count as one: some clients join an address that ends with a slash to a path that begins with one."""


def error_response(path: str, status: int, text: str, headers: dict[str, str] | None = None, **more: str) -> Response:
    """Return an error in the format of the API that the path belongs to."""
    field = "message" if path.startswith(DEEPL) else "error"
    return JSONResponse({field: text.encode("utf-8", "replace").decode(), **more}, status, headers)


class Middleware:
    """Outermost layer of the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._server, settings = server, server.settings
        cors: dict[str, Any] = {
            "allow_origins": settings.allow_origin,
            "allow_methods": ("GET", "POST", "PUT", "PATCH", "DELETE"),
        }
        cors |= {"allow_headers": ("Authorization", "Content-Type"), "expose_headers": ("Retry-After",)}
        self._with_cors = partial(CORSMiddleware, **cors) if settings.allow_origin else lambda app: app
        self._app = self._with_cors(app)
        self._uploads = BoundedPool(UPLOADS * server.service.limits.documents)
        self._sites = {name.lower() for name in settings.allow_host}
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower(), *self._sites}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits, headers, prefix = self._server.service.limits, Headers(scope=scope), self._server.settings.url_prefix
        path = _SLASHES.sub("/", scope["path"])
        if path.startswith(f"{prefix}/") or scope["method"] in ("GET", "HEAD"):  # a route may be named as the prefix
            path = path.removeprefix(prefix)
        scope["root_path"], scope["path"] = prefix, prefix + path
        limit = limits.document_bytes + FORM_BYTES if path in DOCUMENTS else limits.body_bytes
        is_upload = path in DOCUMENTS
        if path.startswith(GLOSSARIES) and key_in_head(Request(scope)):
            limit, is_upload = max(limit, GLOSSARY_BYTES), True
        self._identify(scope, headers)
        exchange = Exchange(headers, receive, send, limit, self._server.service)
        try:
            refusal: tuple[Any, ...] | None = self._refusal(scope["method"], headers) or exchange.too_large()
            if not refusal and is_upload:
                refusal = self._upload(scope)
            app = self._with_cors(error_response(path, *refusal)) if refusal else self._app
            await app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            log.error("request %s failed", exchange.id, exc_info=error)
            if not exchange.status:
                text = "the server made a mistake; its log has details under this id"
                app = self._with_cors(error_response(path, 500, text, id=exchange.id))
                await app(scope, exchange.receive, exchange.send)
        finally:
            self._report(scope, exchange)

    def _identify(self, scope: Scope, headers: Headers) -> None:
        """Replace a trusted proxy by its client: the last address in X-Forwarded-For that such a proxy added."""
        client = peer = scope["client"][0] if scope.get("client") else ""
        with suppress(ValueError):
            for address in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
                if not self._server.is_proxy(client):
                    break
                client = plain_address(address.strip())
        scope["client"] = (client, 0)
        if self._server.is_proxy(peer):
            if headers.get("x-forwarded-proto") == "https":
                scope["scheme"] = "https"
            if connection := scope.get("state", {}).get("connection"):
                connection.enter(connection.resting, network_of(client))

    def _upload(self, scope: Scope) -> tuple[Any, ...] | None:
        """Count an upload until it has a place; return status and text if its key is wrong or it is one too many.

        A key in the form is checked later, so that such an upload counts for its address.
        """
        owner, key = network_of(scope["client"][0]), key_in_head(Request(scope))
        if self._server.keys is not None and key is not None:
            try:
                owner = self._server.key(key).name
            except Refused as error:
                return error.status, str(error)
        if self._uploads.is_closed_to(owner):
            return 503, "too many documents are being uploaded; try again in a moment", {"Retry-After": "5"}
        if connection := scope.get("state", {}).get("connection"):
            connection.enter(self._uploads, owner)
        return None

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


def _name(host: str) -> str:
    name = _HOST.fullmatch(host.lower())
    return name[1] if name else ""


class Exchange:
    """Request and response of one HTTP exchange.

    Attributes:
        status: status of the response; 0 until it starts.
        first: seconds until the first bytes of the response.
    """

    def __init__(self, headers: Headers, receive: Receive, send: Send, limit: int, service: Service) -> None:
        self._receive, self._send, self._limit, self._service = receive, send, limit, service
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
            headers = message["headers"]
            present = {name for name, _ in headers}
            headers += [header for header in HEADERS.items() if header[0] not in present]
            headers.append((b"x-request-id", self.id.encode()))
            if self._lingers and not self._is_read:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        while not self._is_read:
                            await self._next()
            if not self._is_read or self._service.is_stopping:
                MutableHeaders(raw=headers)["Connection"] = "close"
        elif self.first is None:
            self.first = time.monotonic() - self.began
        await self._send(message)
