"""Direct calls of the endpoints that read their own fields, because FastAPI's layers cost more than all else in Python.

FastAPI describes these routes in the schema, and answers the others: those with a parameter in their path, or a file.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pydantic
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoutes:
    """Application that answers requests to such endpoints, and hands all others on to `app`.

    `admit` is awaited before an endpoint, as FastAPI does with a dependency; `handle_error` returns the response to an
    exception of one of the types `errors`.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[BaseRoute],
        admit: Callable[[Request], Awaitable[None]],
        errors: tuple[type[Exception], ...],
        handle_error: Callable[[Request, Exception], Awaitable[Response]],
    ) -> None:
        self._app, self._admit, self._errors, self._handle_error = app, admit, errors, handle_error
        self._endpoints = {
            (method, route.path): _Endpoint(route)
            for route in routes
            if isinstance(route, APIRoute) and _takes_a_request_alone(route.endpoint)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        endpoint = self._endpoints.get((scope.get("method", ""), path))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = endpoint.route
        request = Request(scope, receive)
        try:
            await self._admit(request)
            response = await endpoint.response(request)
        except self._errors as error:
            response = await self._handle_error(request, error)
        await response(scope, receive, send)


def _takes_a_request_alone(endpoint: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(endpoint) and [*inspect.signature(endpoint).parameters] == ["request"]


class _Endpoint:
    """Endpoint with the format of its response."""

    def __init__(self, route: APIRoute) -> None:
        self.route = route
        self._values = pydantic.TypeAdapter(route.response_model)
        self._excluded: dict[str, Any] = {
            "exclude_none": route.response_model_exclude_none,
            "exclude": route.response_model_exclude,
        }

    async def response(self, request: Request) -> Response:
        value = await self.route.endpoint(request)
        if isinstance(value, Response):
            return value
        content = self._values.dump_json(value, **self._excluded)
        return Response(content, self.route.status_code or 200, media_type="application/json")
