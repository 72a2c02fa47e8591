"""FastAPI application: all routes of the server, their access control, and the format of errors."""

import math
from contextlib import suppress
from importlib.resources import files
from typing import Any

import pydantic
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

import dragoman
from dragoman.serving import deepl, libretranslate, native
from dragoman.serving.fields import fields_in
from dragoman.serving.keys import network_of
from dragoman.serving.limits import Refused
from dragoman.serving.middleware import Middleware, error_response
from dragoman.serving.server import Server, ServerSettings, server_of
from dragoman.serving.service import Service

OPEN = {"/v1/models", "/languages", "/frontend/settings", "/download_file/{name}"}
"""Routes of APIs that need no key: clients call them before they have one, and a download has a secret address."""
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
"""Media types of the page's files, by suffix."""


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """Build the application that serves these models; raise `ConfigError` for a bad setting or key file."""
    server = Server(service, settings or ServerSettings())
    app = FastAPI(title="Dragoman", version=dragoman.__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = server
    access = [Depends(admit)] + [Depends(HTTPBearer(auto_error=False))] * (server.keys is not None)
    for api, field in ((libretranslate, "error"), (deepl, "message"), (native, "error")):
        problem = pydantic.create_model(f"Problem_{field}", **{field: str, "id": (str, "")})
        response = {
            "model": problem,
            "description": "The request failed; the text gives the reason, and an id if the log has details.",
        }
        app.include_router(api.routes, dependencies=access, responses={"4XX": response, "5XX": response})
    app.include_router(_own_routes(app, server))
    for error in (Refused, HTTPException, RequestValidationError):
        app.add_exception_handler(error, handle_error)
    if origins := server.settings.allow_origin:
        cors: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
        app.add_middleware(CORSMiddleware, allow_origins=origins, expose_headers=["Retry-After"], **cors)
    app.add_middleware(Middleware, server=server)
    return app


async def admit(request: Request) -> None:
    """Check key and rate of a request; refuse a missing or wrong key (403), and requests over the limit (429)."""
    server = server_of(request)
    if request.scope["route"].path in OPEN:
        return
    client = network_of(request.scope["client"][0])
    if server.keys is not None:
        client = server.keys.name(await key_in(request))
        if client is None:
            raise Refused(403, "this server needs a key, as the header Authorization: Bearer KEY or as api_key")
        request.state.key = client
    if wait := server.rates.wait(client):
        raise Refused(429, "too many requests in a minute; try again later", math.ceil(wait))


async def key_in(request: Request) -> str:
    """Return the key of a request, from its header, address or body; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key"):
        return key.strip()
    key = request.query_params.get("api_key")
    if key is None:
        with suppress(Refused):
            key = (await fields_in(request, max_files=1)).get("api_key")
    return key if isinstance(key, str) else ""


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response to a refused request, an unknown route, or invalid fields."""
    path = request.url.path
    if isinstance(error, Refused):
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return error_response(path, error.status, str(error), headers)
    if isinstance(error, HTTPException):
        return error_response(path, error.status_code, str(error.detail), dict(error.headers or {}))
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"][1:])
    return error_response(path, 400, f"{field}: {problem['msg']}" if field else problem["msg"])


def _own_routes(app: FastAPI, server: Server) -> APIRouter:
    """Return the routes for health, metrics and schema, and for the page, whose small files are kept in memory."""
    routes, service = APIRouter(), server.service
    folder = files("dragoman.serving") / "page"
    ends = {file: file.name.rpartition(".")[2] for file in folder.iterdir()}
    page = {file.name: (file.read_bytes(), KINDS[end]) for file, end in ends.items() if end in KINDS}

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """Answer as long as the process lives."""
        return {"status": "ok"}

    @routes.get("/ready", responses={503: {"description": "The models are loading, or the server is stopping."}})
    async def ready() -> JSONResponse:
        """Report whether requests are answered."""
        return JSONResponse({"ready": service.is_ready}, 200 if service.is_ready else 503)

    @routes.get("/metrics", include_in_schema=False, dependencies=[Depends(admit)])
    async def metrics() -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/openapi.json", include_in_schema=False, dependencies=[Depends(admit)])
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    @routes.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    @routes.api_route("/page/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def file(name: str = "index.html") -> Response:
        if name not in page:
            raise Refused(404, "there is no such file")
        return Response(page[name][0], media_type=page[name][1], headers={"Cache-Control": "no-cache"})

    return routes
