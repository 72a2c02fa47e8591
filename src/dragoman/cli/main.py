"""The command `dragoman`: collects the commands, and turns every error into one line and an exit code."""

import errno
import sys
import time
import warnings
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import dragoman
from dragoman import system
from dragoman.cli.console import complain, say_last, write
from dragoman.cli.curate import back_translate, distil, filter
from dragoman.cli.evaluate import benchmark, evaluate, score
from dragoman.cli.explain import embeddings, explain
from dragoman.cli.lists import doctor, guide, runs, settings
from dragoman.cli.models import average, convert, export, merge, quantize
from dragoman.cli.options import build
from dragoman.cli.predict import generate, predict
from dragoman.cli.report import report
from dragoman.cli.serve import keys, serve
from dragoman.cli.streams import prepare_streams
from dragoman.cli.train import demo, fine_tune, prepare_data, train, train_tokenizer
from dragoman.cli.translate import translate
from dragoman.cli.workshop import workshop
from dragoman.errors import Error, Interrupted
from dragoman.memory import address_limit, out_of_memory_as

INTERRUPTED = 130
REFUSED_BY_THE_SYSTEM = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO)
}
"""Operating-system errors that a user's file or folder can cause."""
LONGEST_NAME = 100
"""Characters of a file's name that are shown; the name may be a whole text given by mistake."""

COMMANDS = (
    *(demo, prepare_data, train_tokenizer, train, runs, translate, serve, keys, predict, generate),
    *(evaluate, report, score, filter, back_translate, distil, explain, embeddings, fine_tune, merge, average),
    *(quantize, convert, export, benchmark, settings, doctor, guide, workshop),
)
"""Functions of the commands, in the order of --help, which follows a model's life."""


class Commands(TyperGroup):
    """All commands. Only the one that is called is built."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for function in COMMANDS:
            name = function.__name__.replace("_", "-")
            self.add_command(TyperCommand(name, callback=function, help=function.__doc__))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name of the command that is called, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and command.callback and build(command.callback), rest


app = typer.Typer(
    name="dragoman",
    cls=Commands,
    help="Train, run, judge and understand your own Transformer: it translates, labels texts or words, or writes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    if wanted:
        write(f"dragoman {dragoman.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command `dragoman`: the entry point of its process."""
    prepare_streams()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries; ours are logged
    try:
        code = main(sys.argv[1:])
    finally:
        with suppress(Error, SystemExit):
            sys.stdout.flush()  # before Python does it at exit, where a failure would change the exit code
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code. An error that is a bug of ours keeps its traceback."""
    started = time.monotonic()
    try:
        if (limit := address_limit()) and limit < 2 * 2**30:
            say_last(
                f"warning: ulimit -v gives this command {limit / 2**30:.1f} GiB; with less than 2 GiB it may abort"
            )
        with out_of_memory_as("there is not enough memory; smaller batches or a smaller model need less"):
            code = app(arguments or ["--help"], prog_name="dragoman", standalone_mode=False)
            sys.stdout.flush()
    except Interrupted as end:
        if not end.reported:
            say_last(stopped(end, time.monotonic() - started))
        return end.exit_code
    except Error as error:
        if not error.reported:
            complain(str(error))
        return error.exit_code
    except typer.TyperException as error:
        if system.rank() == 0:  # several processes have the same command line
            complain(usage(error))
        return error.exit_code
    except OSError as error:
        if error.filename is None or error.errno not in REFUSED_BY_THE_SYSTEM:
            raise
        complain(f"{str(error.filename)[:LONGEST_NAME]}: {error.strerror}")
        return Error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        say_last("interrupted")
    return code or 0


def stopped(end: Interrupted, seconds: float) -> str:
    """Return a message about an interruption: what was stopped, after how long, and how to continue.

    >>> stopped(Interrupted("stopped at step 9 of 12; go on with: dragoman train runs/mine"), 75)
    'stopped at step 9 of 12 after 0:01:15; go on with: dragoman train runs/mine'
    """
    from dragoman.cli.bars import duration

    event, semicolon, advice = str(end).partition(";")
    return f"{event} after {duration(seconds)}{semicolon}{advice}"


def usage(error: typer.TyperException) -> str:
    """Return a message about a mistake in the command line, with the command that explains it."""
    context: typer.Context | None = getattr(error, "ctx", None)
    name = context.command_path if context else "dragoman"
    # Typer checks values with pydantic, whose prefix means nothing to a user.
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    return f"{message} (see {name} --help)"
