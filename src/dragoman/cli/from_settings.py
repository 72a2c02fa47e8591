"""Options that are settings: the type, range, default and help of each are those of its field.

A command is built only when it is called, because schemas load pydantic, and `dragoman --help` does not.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand


class Setting(NamedTuple):
    """A mark on a parameter that is a setting, as in `Annotated[Any, Setting("dragoman.x:Schema", "field")]`."""

    schema: str
    """Module and class of the settings, with a colon between them."""
    field: str
    default: str = "{}"
    """The default in words; `{}` becomes that of the field."""
    note: str = ""
    """Help in addition to the first sentence of the field's description."""

    def annotation(self) -> Any:
        """Return the annotation that Typer reads. Without the option, the value is None."""
        module, _, schema = self.schema.partition(":")
        field = getattr(import_module(module), schema).model_fields[self.field]
        kind = command_line_type(field.annotation)
        has_default = self.default != "{}" or (kind is not bool and field.default not in (None, ()))
        sentence = " ".join(field.description.split()).partition(". ")[0].removesuffix(".") + "."
        repeated = "May be repeated." if get_origin(kind) is list else ""
        option = typer.Option(
            *([f"--{self.field.replace('_', '-')}"] if kind is bool else []),  # without --no-…
            help=" ".join(filter(None, (sentence, self.note, repeated))),
            min=next((bound.ge for bound in field.metadata if hasattr(bound, "ge")), None),
            max=next((bound.le for bound in field.metadata if hasattr(bound, "le")), None),
            show_default=has_default and self.default.format(field.default),
        )
        return Annotated[kind | None, option]


def command_line_type(annotation: Any) -> Any:
    """Return a field's type without None and constraints. Several texts are a list.

    >>> command_line_type(tuple[str, ...] | None), command_line_type(Literal["a", "b"])
    (list[str], typing.Literal['a', 'b'])
    """
    origin = get_origin(annotation)
    if origin in (None, Literal):
        return annotation
    kind = command_line_type(get_args(annotation)[0])
    return list[kind] if origin is tuple else kind


def build(function: Callable[..., object]) -> TyperCommand:
    """Return the command of a function."""
    for name, annotation in function.__annotations__.items():
        for mark in getattr(annotation, "__metadata__", ()):
            if isinstance(mark, Setting):
                function.__annotations__[name] = mark.annotation()
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return typer.main.get_command(app)  # pyright: ignore[reportReturnType]
