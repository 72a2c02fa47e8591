"""The application: all routes of the server, and what holds for every request."""

import importlib
import importlib.util
import logging
import uuid
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from dragoman.serving.limits import Refused
from dragoman.serving.server import Server, ServerSettings
from dragoman.serving.service import Service

log = logging.getLogger(__name__)

DEEPL = "/v2/"
"""The paths whose errors have DeepL's form."""


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """The application that serves these models."""
    server = Server(service, settings or ServerSettings())
    app = FastAPI(title="Dragoman", docs_url=None, redoc_url=None)
    app.state.server = server
    for name in ("libretranslate", "deepl", "native"):
        if importlib.util.find_spec(f"dragoman.serving.{name}"):
            app.include_router(importlib.import_module(f"dragoman.serving.{name}").router(server))
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, failed)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Whether requests are answered: 503 while models load, and when the server stops."""
        return JSONResponse({"ready": service.is_ready}, 200 if service.is_ready else 503)

    return app


def answer(request: Request, status: int, message: str, retry_after: int | None = None, **more: Any) -> Response:
    """An error in the form of the API that the path belongs to."""
    field = "message" if request.url.path.startswith(DEEPL) else "error"
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({field: message, **more}, status, headers)


async def refused(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused, by us or because there is no such route."""
    if isinstance(error, Refused):
        return answer(request, error.status, str(error), error.retry_after)
    assert isinstance(error, HTTPException)
    return answer(request, error.status_code, str(error.detail))


async def invalid(request: Request, error: Exception) -> Response:
    """The answer to a request that is not as its schema says: the first thing that is wrong."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"][1:])
    return answer(request, 400, f"{where}: {problem['msg']}" if where else problem["msg"])


async def failed(request: Request, error: Exception) -> Response:
    """The answer to a request that failed by our mistake."""
    number = uuid.uuid4().hex
    log.error("request %s failed", number, exc_info=error)
    return answer(request, 500, "the server made a mistake; its log says which, under this id", id=number)
