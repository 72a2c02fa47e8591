"""Each page has a time budget, `budget_seconds` at its top. A build reports the time that each page took."""

from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def report(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        for line in lines(app):
            log.info(line)


def lines(app: Sphinx) -> Iterator[str]:
    """Yield a line for each page that was executed, in this build or an earlier one."""
    for page, facts in sorted(getattr(app.env, "nb_metadata", {}).items()):
        if (seconds := facts.get("exec_data", {}).get("runtime")) is not None:
            budget = float(app.env.metadata[page]["budget_seconds"])
            yield f"{page}: {seconds:.0f} s of {budget:.0f} s{'  over its budget' if seconds > budget else ''}"
