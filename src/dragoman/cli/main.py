"""The command `dragoman`: collects the commands, and turns every error into one line and an exit code."""

import errno
import sys
import time
from contextlib import suppress
from typing import Annotated

import typer

import dragoman
from dragoman import system
from dragoman.cli.average import average
from dragoman.cli.benchmark import benchmark
from dragoman.cli.convert import convert
from dragoman.cli.demo import demo
from dragoman.cli.doctor import doctor
from dragoman.cli.embeddings import embeddings
from dragoman.cli.evaluate import evaluate
from dragoman.cli.explain import explain
from dragoman.cli.export import export
from dragoman.cli.fine_tune import fine_tune
from dragoman.cli.generate import generate
from dragoman.cli.merge import merge
from dragoman.cli.predict import predict
from dragoman.cli.prepare_data import prepare_data
from dragoman.cli.quantize import quantize
from dragoman.cli.runs import runs
from dragoman.cli.score import score
from dragoman.cli.settings import settings
from dragoman.cli.terminal import console
from dragoman.cli.terminal.streams import prepare_streams
from dragoman.cli.train import train
from dragoman.cli.train_tokenizer import train_tokenizer
from dragoman.cli.translate import translate
from dragoman.errors import Error, Interrupted
from dragoman.memory import out_of_memory_as

INTERRUPTED = 130
REFUSED_BY_THE_SYSTEM = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO)
}
"""Errors of the system that a user's file or folder may cause."""
LONGEST_NAME = 100
"""How much of a file's name is shown, because a whole text may have been given in its place."""

app = typer.Typer(
    name="dragoman",
    help="Train, run, judge and understand your own Transformer: it translates, labels texts or words, or writes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

# --help keeps this order, that of a model's life. A command has the name of its function, with hyphens.
_LIFE = (
    demo,
    prepare_data,
    train_tokenizer,
    train,
    runs,
    translate,
    predict,
    generate,
    evaluate,
    score,
    explain,
    embeddings,
    fine_tune,
    merge,
    average,
    quantize,
    convert,
    export,
    benchmark,
)
_ABOUT = (settings, doctor)
for command in (*_LIFE, *_ABOUT):
    app.command()(command)


def show_version(wanted: bool) -> None:
    if wanted:
        console.write(f"dragoman {dragoman.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """The entry point of the command `dragoman`."""
    prepare_streams()
    system.prepare_environment()
    try:
        code = main(sys.argv[1:])
    finally:
        with suppress(Error, SystemExit):
            console.flush()  # before Python does it at exit, where a failure would change the exit code
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit code. An error that is our own mistake keeps its traceback."""
    started = time.monotonic()
    try:
        with out_of_memory_as("there is not enough memory; smaller batches or a smaller model need less"):
            code = app(arguments or ["--help"], prog_name="dragoman", standalone_mode=False)
            console.flush()
    except Interrupted as end:
        if not end.told:
            console.say_stopped(stopped(end, time.monotonic() - started))
        return end.exit_code
    except Error as error:
        if not error.told:
            console.complain(str(error))
        return error.exit_code
    except typer.TyperException as error:
        if system.rank() == 0:  # several processes have the same command line
            console.complain(usage(error))
        return error.exit_code
    except OSError as error:
        if error.filename is None or error.errno not in REFUSED_BY_THE_SYSTEM:
            raise
        console.complain(f"{str(error.filename)[:LONGEST_NAME]}: {error.strerror}")
        return Error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        console.say_stopped("interrupted")
    return code or 0


def stopped(end: Interrupted, seconds: float) -> str:
    """What was stopped, after how long, and how to go on.

    >>> stopped(Interrupted("stopped at step 9 of 12; go on with: dragoman train runs/mine"), 75)
    'stopped at step 9 of 12 after 0:01:15; go on with: dragoman train runs/mine'
    """
    from dragoman.cli.terminal.bars import duration

    what, semicolon, advice = str(end).partition(";")
    return f"{what} after {duration(seconds)}{semicolon}{advice}"


def usage(error: typer.TyperException) -> str:
    """A mistake in the command line, with the command that explains it."""
    context: typer.Context | None = getattr(error, "ctx", None)
    name = context.command_path if context else "dragoman"
    # Typer checks values with pydantic, whose prefix means nothing to a user.
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    return f"{message} (see {name} --help)"
