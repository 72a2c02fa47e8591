"""The application: all routes of the server, who may use them, and what an error looks like."""

import importlib
import importlib.util
import math
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
from dragoman.serialization import parse_json
from dragoman.serving.door import Door, answer
from dragoman.serving.keys import network_of
from dragoman.serving.limits import Refused
from dragoman.serving.server import Server, ServerSettings
from dragoman.serving.service import Service

OPEN = {"/v1/models", "/languages", "/frontend/settings", "/download_file/{name}"}
"""The routes that need no key, besides the page and those that say how the server is: clients ask them before they have
a key, and the address of a download is a secret itself."""

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
"""The types of the page's files, by the ends of their names."""


class Problem(pydantic.BaseModel):
    """Why a request was not answered."""

    error: str
    id: str | None = None
    """If it was the server's mistake, the number under which its log tells more."""


class ProblemOfDeepL(pydantic.BaseModel):
    """Why a request was not answered."""

    message: str
    id: str | None = None
    """If it was the server's mistake, the number under which its log tells more."""


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """The application that serves these models.

    Raises:
        ConfigError: a setting cannot be used, or the file of keys cannot be read.
    """
    server = Server(service, settings or ServerSettings())
    app = FastAPI(title="Dragoman", version=dragoman.__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = server
    admission = [Depends(admit)] + [Depends(HTTPBearer(auto_error=False))] * (server.keys is not None)
    for name in ("libretranslate", "deepl", "native"):
        if importlib.util.find_spec(f"dragoman.serving.{name}"):
            problem = ProblemOfDeepL if name == "deepl" else Problem
            told = {"model": problem, "description": "The request is refused; the text says why."}
            routes: APIRouter = importlib.import_module(f"dragoman.serving.{name}").router(server)
            app.include_router(routes, dependencies=admission, responses={"4XX": told, "5XX": told})
    app.include_router(own_routes(server, app), dependencies=[Depends(admit)])
    app.include_router(page())
    app.include_router(states(service))
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    if server.settings.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=server.settings.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    app.add_middleware(Door, server=server)
    return app


async def admit(request: Request) -> None:
    """Lets a request in if its key is good and there were not too many before it.

    Raises:
        Refused: the key is missing or wrong (403), or the next request is welcome later (429).
    """
    server: Server = request.app.state.server
    if request.scope["route"].path in OPEN:
        return
    who = network_of(request.scope["client"][0])
    if server.keys is not None:
        name = server.keys.name(await key_in(request))
        if name is None:
            raise Refused(403, "this server needs a key, as the header Authorization: Bearer KEY or as api_key")
        request.state.key = who = name
    if wait := server.rates.wait(who):
        raise Refused(429, "too many requests in a minute; try again later", math.ceil(wait))


async def key_in(request: Request) -> str:
    """The key that a request brings, in one of the ways that clients have; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key"):
        return key.strip()
    fields: Any = request.query_params
    kind = request.headers.get("content-type", "").lower()
    if "api_key" not in fields and "json" in kind:
        try:
            fields = parse_json(await request.body())
        except ValueError:
            fields = {}
    elif "api_key" not in fields and "form" in kind:
        fields = await request.form()
    key = fields.get("api_key") if hasattr(fields, "get") else None
    return key if isinstance(key, str) else ""


def own_routes(server: Server, app: FastAPI) -> APIRouter:
    """What the server says of itself to those who have a key."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/metrics")
    async def metrics() -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    return routes


def states(service: Service) -> APIRouter:
    """Whether the server lives, and whether it answers."""
    routes = APIRouter(tags=["state"])

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """Answers as long as the process lives."""
        return {"status": "ok"}

    @routes.get("/ready", responses={503: {"description": "Models load, or the server is about to stop."}})
    async def ready() -> JSONResponse:
        """Says whether requests are answered."""
        return JSONResponse({"ready": service.is_ready}, 200 if service.is_ready else 503)

    return routes


def page() -> APIRouter:
    """The page for people, and its files. They are small, so they stay in memory."""
    routes = APIRouter(include_in_schema=False)
    folder = files("dragoman.serving") / "page"
    found = {
        file.name: file.read_bytes()
        for file in (folder.iterdir() if folder.is_dir() else ())
        if file.name.rpartition(".")[2] in KINDS
    }

    @routes.api_route("/", methods=["GET", "HEAD"])
    @routes.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def file(name: str = "index.html") -> Response:
        if name not in found:
            raise Refused(404, "there is no such file")
        kind = KINDS[name.rpartition(".")[2]]
        return Response(found[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    return routes


async def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused, by us or because there is no such route."""
    if isinstance(error, Refused):
        after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return answer(request.url.path, error.status, str(error), after)
    assert isinstance(error, HTTPException)
    return answer(request.url.path, error.status_code, str(error.detail), dict(error.headers or {}))


async def invalid(request: Request, error: Exception) -> Response:
    """The answer to a request that is not as its schema says: the first thing that is wrong."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"][1:])
    return answer(request.url.path, 400, f"{where}: {problem['msg']}" if where else problem["msg"])
