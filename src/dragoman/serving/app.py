"""The application: all routes of the server, who may use them, and what an error looks like."""

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
from dragoman.serving.door import Door, answer
from dragoman.serving.fields import given_in
from dragoman.serving.keys import network_of
from dragoman.serving.limits import Refused
from dragoman.serving.server import Server, ServerSettings, server_of
from dragoman.serving.service import Service

OPEN = {"/v1/models", "/languages", "/frontend/settings", "/download_file/{name}"}
"""The routes of APIs that need no key: clients ask them before they have one, and a download has a secret address."""
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
"""The types of the page's files, by the ends of their names."""


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """The application that serves these models.

    Raises:
        ConfigError: a setting cannot be used, or the file of keys cannot be read.
    """
    server = Server(service, settings or ServerSettings())
    app = FastAPI(title="Dragoman", version=dragoman.__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = server
    admitted = [Depends(admit)] + [Depends(HTTPBearer(auto_error=False))] * (server.keys is not None)
    for api, field in ((libretranslate, "error"), (deepl, "message"), (native, "error")):
        problem = pydantic.create_model(f"Problem_{field}", **{field: str, "id": (str, "")})
        told = {
            "model": problem,
            "description": "The request is not answered; the text says why, and an id where the log tells more.",
        }
        app.include_router(api.routes, dependencies=admitted, responses={"4XX": told, "5XX": told})
    app.include_router(_own_routes(app, server))
    for error in (Refused, HTTPException, RequestValidationError):
        app.add_exception_handler(error, refused)
    if origins := server.settings.allow_origin:
        cors: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
        app.add_middleware(CORSMiddleware, allow_origins=origins, expose_headers=["Retry-After"], **cors)
    app.add_middleware(Door, server=server)
    return app


async def admit(request: Request) -> None:
    """Lets a request in if its key is good and there were not too many before it.

    Raises:
        Refused: the key is missing or wrong (403), or the next request is welcome later (429).
    """
    server = server_of(request)
    if request.scope["route"].path in OPEN:
        return
    who = network_of(request.scope["client"][0])
    if server.keys is not None:
        who = server.keys.name(await key_in(request))
        if who is None:
            raise Refused(403, "this server needs a key, as the header Authorization: Bearer KEY or as api_key")
        request.state.key = who
    if wait := server.rates.wait(who):
        raise Refused(429, "too many requests in a minute; try again later", math.ceil(wait))


async def key_in(request: Request) -> str:
    """The key that a request brings, in one of the ways that clients have; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key"):
        return key.strip()
    key = request.query_params.get("api_key")
    if key is None:
        with suppress(Refused):
            key = (await given_in(request, max_files=1)).get("api_key")
    return key if isinstance(key, str) else ""


async def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused: by us, because there is no such route, or as its schema says."""
    path = request.url.path
    if isinstance(error, Refused):
        after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return answer(path, error.status, str(error), after)
    if isinstance(error, HTTPException):
        return answer(path, error.status_code, str(error.detail), dict(error.headers or {}))
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"][1:])
    return answer(path, 400, f"{where}: {problem['msg']}" if where else problem["msg"])


def _own_routes(app: FastAPI, server: Server) -> APIRouter:
    """What the server says of itself, and its page, whose small files stay in memory."""
    routes, service = APIRouter(), server.service
    folder = files("dragoman.serving") / "page"
    ends = {file: file.name.rpartition(".")[2] for file in folder.iterdir()}
    page = {file.name: (file.read_bytes(), KINDS[end]) for file, end in ends.items() if end in KINDS}

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """Answers as long as the process lives."""
        return {"status": "ok"}

    @routes.get("/ready", responses={503: {"description": "The models load, or the server stops."}})
    async def ready() -> JSONResponse:
        """Says whether requests are answered."""
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
