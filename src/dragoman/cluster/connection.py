"""Connection to a Ray cluster, or start of a local one."""

import logging
import os
import socket
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from dragoman.errors import ConfigError, Error, missing_extra

PATIENCE_SECONDS = 5


@contextmanager
def connected(address: str) -> Generator[None]:
    """Connect Ray to the cluster at `address`, such as `10.0.0.1:6379`, within the block.

    `local` starts a cluster on this machine for the time of the block. If the process is connected already, that
    connection is used and kept.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        Error: work on the cluster raised it.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics are sent
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
        from ray.exceptions import RayError
    except ImportError:
        raise missing_extra("ray", "ray") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for handler in logging.getLogger("ray.data").handlers:
        if handler.name == "console":  # errors are raised, and in its log file
            handler.setLevel(logging.CRITICAL)
    ray.data.DataContext.get_current().enable_progress_bars = False
    was_connected = ray.is_initialized()
    if not was_connected:
        try:
            _check_port(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            advice = "start one with ray start --head; if it asks for a token, set RAY_AUTH_MODE=token"
            raise ConfigError(f"no Ray cluster answers at {address} ({error}); {advice}") from None
    try:
        yield
    except Exception as error:
        if isinstance(cause := _cause(error), Error):
            raise cause from None
        if not isinstance(error, RayError):
            raise
        reason = traceback.format_exception_only(cause)[-1].partition("\n")[0]
        raise ConfigError(f"the Ray cluster failed: {reason}; see its dashboard and its logs") from None
    finally:
        if not was_connected:
            ray.shutdown()


def _check_port(address: str) -> None:
    """Raise an `OSError` if nothing listens at an address, because Ray would wait for minutes."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()


def _cause(error: BaseException) -> BaseException:
    """Return the first `Error` among the causes of an error raised by Ray, without the lines that Ray appends to its
    message; else the last cause.
    """
    while cause := getattr(error, "cause", None) or (None if isinstance(error, Error) else error.__cause__):
        error = cause
    if isinstance(error, Error):
        error.args = (str(error).partition("\n")[0],)
    return error
