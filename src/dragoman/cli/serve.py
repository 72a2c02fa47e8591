"""The commands `serve` and `keys`: a server over HTTP, and who may use it."""

from threading import Thread
from typing import Annotated

import typer

from dragoman.cli.console import open_screen
from dragoman.cli.options import Device, Precision, Quiet, Threads
from dragoman.errors import missing_extra


def serve(
    models: Annotated[list[str], typer.Argument(metavar="MODEL…", help="Translation models.", show_default=False)],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port to listen on.")] = 5000,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Serve translation models over HTTP, with a page for people."""
    try:
        import uvicorn

        from dragoman.serving.app import create_app
    except ImportError:
        raise missing_extra("fastapi", "serve") from None
    from dragoman.serving.service import Service

    open_screen(quiet)
    service = Service(models, device=device, precision=precision, threads=threads)
    Thread(target=service.load, name="load", daemon=True).start()
    uvicorn.run(create_app(service), host=host, port=port, log_config=None, access_log=False)
