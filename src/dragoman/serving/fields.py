"""The fields of a request: in its address, and in its body as JSON or as a form. Each API says what they mean."""

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
"""The code of a language."""
_JSON = re.compile(r"application/([\w.-]+\+)?json\b", re.IGNORECASE)
_INDEXED = re.compile(r"(\w+)\[(\d{1,3})\]\.(\w+)")


class Fields(pydantic.BaseModel):
    """What a request may hold. Fields that an API does not know are ignored."""

    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)


async def read(request: Request, schema: type[F]) -> F:
    """The fields of a request. One without a value counts as left out.

    Raises:
        Refused: the body cannot be read, or a field is not as the schema says (400).
    """
    try:
        return schema.model_validate(await given_in(request))
    except pydantic.ValidationError as error:
        raise Refused(400, "; ".join(map(_in_words, error.errors()[:3]))) from None


async def given_in(request: Request, max_files: int = 0) -> dict[str, Any]:
    """All fields that a request gives, in its address and in its body.

    Raises:
        Refused: the body cannot be read, or is JSON but no object (400).
    """
    given = _of_form(request.query_params.multi_items())
    if _JSON.match(request.headers.get("content-type", "")):
        try:
            body = parse_json(await request.body() or b"{}")
        except ValueError as error:
            raise Refused(400, f"the body cannot be read as JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        return given | {name: value for name, value in body.items() if value is not None}
    if request.headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded"):
        try:
            return given | _of_form(
                parse_qsl((await request.body()).decode(), True, errors="strict", max_num_fields=1_000)
            )
        except ValueError as error:  # also of bytes that are not UTF-8
            raise Refused(400, f"the body cannot be read as a form in UTF-8: {error}") from None
    return given | _of_form((await request.form(max_files=max_files)).multi_items())


def body_of(schema: type[Fields]) -> dict[str, Any]:
    """What the OpenAPI schema says of the body of a route that reads such fields."""
    content = schema.model_json_schema(ref_template="#/components/schemas/{model}")
    content.pop("$defs", None)
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": content} for kind in kinds}}}


def _of_form(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields by name: one that stands several times is a list, and `name[0].part` is a part of a group in a list."""
    several: dict[str, list[Any]] = {}
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for name, value in items:
        value = value.replace("\r\n", "\n") if isinstance(value, str) else value  # forms have the line ends of HTTP
        if found := _INDEXED.fullmatch(name):
            groups.setdefault(found[1], {}).setdefault(found[2], {})[found[3]] = value
        else:
            several.setdefault(name, []).append(value)
    given = {name: values[0] if len(values) == 1 else values for name, values in several.items()}
    return given | {name: list(parts.values()) for name, parts in groups.items()}


def _in_words(problem: Any) -> str:
    return ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
