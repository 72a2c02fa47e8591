"""The page of a report (`render_report`): one HTML file that loads nothing and runs no script."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dragoman.evaluating.meaning import TRANSLATIONS, level_of
from dragoman.evaluating.trust_report import TrustReport

PARTS = FileSystemLoader(Path(__file__).parent / "report_parts")


def render_report(report: TrustReport) -> str:
    """Return the HTML of the page, in which every text of a report is escaped."""
    page = Environment(loader=PARTS, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.globals |= {"TRANSLATIONS": TRANSLATIONS, "level_of": level_of}
    return page.get_template("page.html").render(report=report)
