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
from starlette.responses import JSONResponse, Response

import dragoman
from dragoman.serving import deepl, glossaries, libretranslate, native
from dragoman.serving.direct import DirectRoutes
from dragoman.serving.fields import fields_in
from dragoman.serving.keys import network_of
from dragoman.serving.limits import Refused
from dragoman.serving.middleware import Middleware, error_response
from dragoman.serving.server import KEY_FIELDS, Server, ServerSettings, key_in_head, server_of
from dragoman.serving.service import OtherLanguage, Service

OPEN = {"/v1/models", "/languages", "/frontend/settings", "/spec", "/download_file/{name}"}
"""Routes of APIs that need no key: clients call them before they have one, and a download has a secret address."""
WITHOUT_MODELS = {"/v1/models", "/spec", "/download_file/{name}", "/metrics", "/openapi.json"}
"""Routes that are answered while models load."""
ERRORS = Refused, HTTPException, RequestValidationError
"""Errors that `handle_error` answers."""
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
"""Media types of the page's files, by suffix."""


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """Build the application that serves these models; raise `ConfigError` for a bad setting or key file."""
    server = Server(service, settings or ServerSettings())
    app = FastAPI(title="Dragoman", version=dragoman.__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.server = server
    access = [Depends(admit)] + [Depends(HTTPBearer(auto_error=False))] * (server.keys is not None)
    apis = (libretranslate, "error"), (glossaries, "message"), (deepl, "message"), (native, "error")
    for api, field in apis:
        problem = pydantic.create_model(f"Problem_{field}", **{field: str, "id": (str, ""), "detected": (str, "")})
        response = {
            "model": problem,
            "description": "The request failed; the text gives the reason, an id if the log has details, and "
            "`detected` the language of a text that no model reads.",
        }
        app.include_router(api.routes, dependencies=access, responses={"4XX": response, "5XX": response})
    app.include_router(_own_routes(app, server))
    for error in ERRORS:
        app.add_exception_handler(error, handle_error)
    routes = [route for api, _ in apis for route in api.routes.routes]
    app.add_middleware(DirectRoutes, routes=routes, admit=admit, errors=ERRORS, handle_error=handle_error)
    app.add_middleware(Middleware, server=server)
    return app


async def admit(request: Request) -> None:
    """Check key and rate of a request or refuse it (403, 429); wait for models that load, unless it needs none."""
    server, path, state, key = server_of(request), request.scope["route"].path, request.state, None
    if path not in OPEN:
        state.client = network_of(request.scope["client"][0])
        if server.keys is not None:
            key = state.account = server.key(await key_in(request))
            state.key = state.client = key.name
        if wait := server.rates.wait(state.client, key and key.requests_a_minute):
            raise Refused(429, "too many requests in a minute; try again later", math.ceil(wait))
    if path not in WITHOUT_MODELS and not server.service.is_ready:
        await server.loaded()


async def key_in(request: Request) -> str:
    """Return the key of a request, from its header, address or body; empty if there is none."""
    key = key_in_head(request)
    if key is None:
        with suppress(Refused):
            fields = await fields_in(request, max_files=1)
            key = next((fields[name] for name in KEY_FIELDS if fields.get(name)), None)
    return key if isinstance(key, str) else ""


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response to a refused request, an unknown route, or invalid fields."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    await request.close()  # the files of a form
    if isinstance(error, Refused):
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        cause = error.__cause__ or error  # a refusal of a document is raised again with its name
        more = {"detected": cause.detected.language} if isinstance(cause, OtherLanguage) else {}
        return error_response(path, error.status, str(error), headers, **more)
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

    @routes.head("/health", include_in_schema=False)
    @routes.get("/health")
    async def health() -> dict[str, str]:
        """Answer as long as the process lives."""
        return {"status": "ok"}

    @routes.head("/ready", include_in_schema=False)
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
        if name == "index.html":
            service.prepare_alignments()
        return Response(page[name][0], media_type=page[name][1], headers={"Cache-Control": "no-cache"})

    return routes
