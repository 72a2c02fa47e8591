"""The connection to a Ray cluster, which starts here and ends with the work unless it runs already."""

import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

from dragoman.errors import ConfigError, Error, missing_extra

PATIENCE_SECONDS = 5


@contextmanager
def connected(address: str) -> Generator[None]:
    """Within the block, Ray's own functions compute on the cluster at `address`, as in `10.0.0.1:6379`; `local` starts
    one on this machine. A connection that the process has is used and kept.

    Raises:
        ConfigError: no cluster answers, or Ray is not installed.
        Error: what work on the cluster raised, as it would be raised here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that starts here tells nobody
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
        from ray.exceptions import RayError
    except ImportError:
        raise missing_extra("ray", "ray") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    was_there = ray.is_initialized()
    if not was_there:
        try:
            _knock(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            advice = "start one with ray start --head; if it asks for a token, set RAY_AUTH_MODE=token"
            raise ConfigError(f"no Ray cluster answers at {address} ({error}); {advice}") from None
    try:
        yield
    except RayError as error:
        failed = f"the Ray cluster failed: {str(error).strip().splitlines()[-1]}"
        raise _ours(error) or ConfigError(f"{failed}; its dashboard and its logs say more") from None
    except Exception as error:
        raise _ours(error) or error from None
    finally:
        if not was_there:
            ray.shutdown()


def _knock(address: str) -> None:
    """Raises an `OSError` if nothing listens at an address, because Ray would wait for minutes."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()


def _ours(error: BaseException | None) -> Error | None:
    """The error of ours for which Ray raised another one."""
    while error is not None and not isinstance(error, Error):
        error = getattr(error, "cause", None) or error.__cause__
    return error if isinstance(error, Error) else None
