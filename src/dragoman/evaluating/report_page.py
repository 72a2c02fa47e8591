"""The page of a report (`render_report`): one HTML file that loads nothing and runs no script."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dragoman.evaluating.meaning import in_short, quality_of
from dragoman.evaluating.trust_report import TrustReport

PARTS = Path(__file__).parent / "report_parts"


def render_report(report: TrustReport) -> str:
    """Return the HTML of the page, in which every text of a report is escaped."""
    page = Environment(
        loader=FileSystemLoader(PARTS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return page.get_template("page.html").render(report=report, in_short=in_short, quality_of=quality_of)
