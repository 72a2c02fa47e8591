"""Reading of request fields from the query string and from a body in JSON or form encoding."""

import asyncio
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import pydantic
from starlette.requests import Request

from dragoman.serialization import parse_json
from dragoman.serving.limits import Refused

F = TypeVar("F", bound="Fields")
Code = Annotated[str, pydantic.Field(pattern=r"^\w[\w-]{0,59}$")]
"""Code of a language."""
_JSON = re.compile(r"application/([\w.-]+\+)?json\b", re.IGNORECASE)
LONG_JSON = 128 * 1024
"""Bytes of JSON from which it is parsed in a thread, because that takes 0.3 s a megabyte."""
_INDEXED = re.compile(r"(\w+)\[(\d{1,3})\]\.(\w+)")


class Fields(pydantic.BaseModel):
    """Schema of the fields of a request. Unknown fields are ignored."""

    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    @staticmethod
    def problem(name: str, detail: Any) -> str:
        """Describe a problem of the field with this name, of which `detail` is pydantic's description."""
        return f"{name}: {detail['msg']}" if name else detail["msg"]


async def read(request: Request, schema: type[F], max_files: int = 0) -> F:
    """Read and validate the fields of a request, or refuse it (400).

    A field that is null counts as missing, and so does an optional one that is empty: many clients send all fields.
    """
    optional = {name for name, field in schema.model_fields.items() if not field.is_required()}
    fields = await fields_in(request, max_files)
    fields = {name: value for name, value in fields.items() if value != "" or name not in optional}
    try:
        return schema.model_validate(fields)
    except pydantic.ValidationError as error:
        problems = [schema.problem(".".join(map(str, detail["loc"])), detail) for detail in error.errors()[:3]]
        raise Refused(400, "; ".join(dict.fromkeys(problems))) from None


async def fields_in(request: Request, max_files: int = 0) -> dict[str, Any]:
    """Return all fields of a request, from its query string and its body; refuse an unreadable body (400)."""
    fields = _from_items(request.query_params.multi_items())
    if _JSON.match(request.headers.get("content-type", "")):
        try:
            content = await request.body() or b"{}"
            body = await asyncio.to_thread(parse_json, content) if len(content) > LONG_JSON else parse_json(content)
        except ValueError as error:
            raise Refused(400, f"the body cannot be read as JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        return fields | {name: value for name, value in body.items() if value is not None}
    if request.headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded"):
        try:
            items = parse_qsl((await request.body()).decode(), True, errors="strict", max_num_fields=1_000)
        except ValueError as error:  # also raised for bytes that are not UTF-8
            raise Refused(400, f"the body cannot be read as a form in UTF-8: {error}") from None
        return fields | _from_items(items)
    form = await request.form(max_files=max_files)
    if not request.headers.get("content-type", "").lower().startswith("multipart/"):
        await request.body()  # which is ignored, but has to be complete
    return fields | _from_items(form.multi_items())


def body_of(schema: type[Fields], *kinds: str) -> dict[str, Any]:
    """Return the OpenAPI description of the body of a route that reads such fields, by default JSON or a form."""
    content = schema.model_json_schema(ref_template="#/components/schemas/{model}")
    content.pop("$defs", None)
    kinds = kinds or ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": content} for kind in kinds}}}


def _from_items(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields by name: a repeated field is a list, and `name[0].part` is a field of an object in a list."""
    repeated: dict[str, list[Any]] = {}
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for name, value in items:
        value = value.replace("\r\n", "\n") if isinstance(value, str) else value  # forms have the line ends of HTTP
        if indexed := _INDEXED.fullmatch(name):
            groups.setdefault(indexed[1], {}).setdefault(indexed[2], {})[indexed[3]] = value
        else:
            repeated.setdefault(name, []).append(value)
    fields = {name: values[0] if len(values) == 1 else values for name, values in repeated.items()}
    return fields | {name: list(parts.values()) for name, parts in groups.items()}
