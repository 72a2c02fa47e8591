"""The commands `serve` and `keys`: a server over HTTP, and the keys of its users."""

import logging
import os
import sys
import traceback
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from dragoman.cli.console import ScreenHandler, as_json, note, open_screen, write, write_table
from dragoman.cli.options import Device, Precision, Quiet, Setting, Threads
from dragoman.errors import ConfigError, missing_extra
from dragoman.files import check_output, lock

if TYPE_CHECKING:
    from socket import socket

    from dragoman.serving.listening import Listening

Names = list[str] | None
ALLOWANCES = "dragoman.serving.keys:Allowances"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Translation models, as translate takes them; if two have the same direction, the first answers.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; one that others reach needs --keys or --open.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port to listen on; 0: any.")] = 5000,
    keys: Annotated[
        Path | None, typer.Option(help="Answer only those who have a key of this file.", show_default="anybody")
    ] = None,
    open_to_all: Annotated[bool, typer.Option("--open", help="Let anybody who reaches --host use the server.")] = False,
    requests_a_minute: Annotated[Any, Setting("dragoman.serving.limits:Limits", "requests_a_minute", "any")] = None,
    allow_origin: Annotated[
        Names,
        typer.Option(help="Another site whose scripts may use the server, as https://example.org; repeatable."),
    ] = None,
    allow_host: Annotated[
        Names, typer.Option(help="A name by which clients reach the server, as translate.example.org; repeatable.")
    ] = None,
    trusted_proxy: Annotated[
        Names, typer.Option(help="A proxy, or its network, whose X-Forwarded-For is trusted; repeatable.")
    ] = None,
    url_prefix: Annotated[
        str, typer.Option(help="The path under which a proxy publishes the server, as /translate.", show_default="none")
    ] = "",
    directions: Annotated[
        str | None, typer.Option(help="Offer only these directions, as en-it,it-en.", show_default="all of the models")
    ] = None,
    terms: Annotated[
        Path | None, typer.Option(help="Words with a fixed translation, as translate takes them.", show_default=False)
    ] = None,
    suggestions: Annotated[
        Path | None, typer.Option(help="Take better translations from users into this file.", show_default=False)
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="The folder of usage and glossaries.", show_default="next to --keys")
    ] = None,
    settings: Annotated[
        Names,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one limit of requests, listed in docs/serving.md; may be repeated.",
        ),
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Serve translation models over HTTP: a page, an API, and the APIs of LibreTranslate and DeepL."""
    from dragoman.config import choose
    from dragoman.formats.terms import read_terms

    try:
        from dragoman.serving.app import create_app
        from dragoman.serving.listening import Listening, listen
        from dragoman.serving.server import ServerSettings
    except ImportError as error:
        raise missing_extra((error.name or "fastapi").partition(".")[0], "serve") from None
    from dragoman.serving.limits import Limits
    from dragoman.serving.service import Service

    open_screen(quiet)
    if not sys.stderr.isatty():
        logging.getLogger("dragoman").handlers = logging.getLogger("uvicorn").handlers = [JsonLines()]
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if keys and open_to_all:
        raise ConfigError("--keys lets in those who have one, and --open everybody; give one of them")
    if suggestions:
        check_output(suggestions)
    limits = choose(Limits, "serve", settings or (), requests_a_minute=requests_a_minute)
    offered = [name.strip() for name in directions.split(",")] if directions else ()
    service = Service(models, limits, device, precision, threads, read_terms(terms) if terms else (), offered)
    lists = (tuple(names or ()) for names in (allow_origin, allow_host, trusted_proxy))
    app = create_app(service, ServerSettings(host, keys, suggestions, *lists, store=store, url_prefix=url_prefix))
    with lock(app.state.server.store) if app.state.server.store else nullcontext():
        answer(Listening(app, service), listen(host, port, bool(keys) or open_to_all), host)


def answer(server: "Listening", listener: "socket", host: str) -> NoReturn:
    """Answer requests until a signal stops the server, then end this process."""
    name = f"[{host}]" if ":" in host else host
    note(f"listening on http://{name}:{listener.getsockname()[1]}")
    server.answer(listener)
    note("stopped")
    sys.stderr.flush()
    os._exit(0)  # without waiting for threads that load a model, or translate for clients that have gone


class JsonLines(ScreenHandler):
    """A handler that writes log records to standard error as JSON, one per line, instead of showing them.

    An error is represented by its class and its place in the code, because its message may contain text of a user.
    """

    def emit(self, record: logging.LogRecord) -> None:
        now, request = datetime.now(UTC).isoformat(timespec="milliseconds"), getattr(record, "request", None)
        facts: dict[str, Any] = {"time": now, "level": record.levelname.lower()}
        facts |= {"message": record.getMessage()} if request is None else request
        if record.exc_info and record.exc_info[0]:
            frames = traceback.extract_tb(record.exc_info[2])
            facts["error"] = record.exc_info[0].__name__
            facts["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        sys.stderr.write(as_json(facts) + "\n")


def keys(
    action: Annotated[
        Literal["create", "list", "usage", "withdraw"], typer.Argument(help="What to do.", show_default=False)
    ],
    name: Annotated[str | None, typer.Argument(help="Whose key it is.", show_default=False)] = None,
    path: Annotated[Path, typer.Option("--keys", help="The file of keys.")] = Path("keys.json"),
    requests_a_minute: Annotated[Any, Setting(ALLOWANCES, "requests_a_minute", "the server's")] = None,
    characters_a_minute: Annotated[Any, Setting(ALLOWANCES, "characters_a_minute", "any")] = None,
    characters_a_month: Annotated[Any, Setting(ALLOWANCES, "characters_a_month", "any")] = None,
    store: Annotated[Path | None, typer.Option(help="The server's --store.", show_default="next to --keys")] = None,
) -> None:
    """Create, list or withdraw keys of a server, which notices at once, or list the characters that they translated.

    A new key is printed once and not stored.
    """
    from dragoman.serving.keys import Allowances, create_key, read_keys, withdraw_key

    allowances = (requests_a_minute, characters_a_minute, characters_a_month)
    if any(allowances) and action != "create":
        raise ConfigError("allowances are for keys create")
    if (name is None) != (action in ("list", "usage")):
        raise ConfigError(f"keys {action} takes no NAME" if name else f"keys {action} needs a NAME: whose key it is")
    columns = [*Allowances.model_fields]
    if action == "list":
        rows = [
            [key.name, key.created, *(str(getattr(key, column) or "") for column in columns)] for key in read_keys(path)
        ]
        write_table(["name", "created", *(column.replace("_", " ") for column in columns)], rows)
    elif action == "usage":
        from dragoman.serving.accounts import Accounts, open_store

        accounts = Accounts(open_store(store, path))
        write_table(
            ["name", "day", "characters"],
            [(key.name, day, f"{count:,}") for key in read_keys(path) for day, count in accounts.days(key).items()],
        )
    elif action == "create":
        write(create_key(path, name or "", **dict(zip(columns, allowances, strict=True))))
        note(f"this is the key of {name}; {path} holds only its hash, so keep it now")
    else:
        withdraw_key(path, name or "")
        note(f"{name} has no key any more")
