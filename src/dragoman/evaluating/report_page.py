"""The page of a report (`render_report`): one HTML file that loads nothing and runs no script; and the folder of both
the page and its JSON (`check_folder`, `write_report`).
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dragoman.errors import DataError
from dragoman.evaluating.meaning import TRANSLATIONS, level_of
from dragoman.evaluating.trust_report import TrustReport
from dragoman.files import check_output, make_folders, write_file
from dragoman.serialization import write_json

PAGE = "report.html"
PARTS = FileSystemLoader(Path(__file__).parent / "report_parts")


def render_report(report: TrustReport) -> str:
    """Return the HTML of the page, in which every text of a report is escaped."""
    page = Environment(loader=PARTS, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.globals |= {"TRANSLATIONS": TRANSLATIONS, "level_of": level_of}
    return page.get_template("page.html").render(report=report)


def check_folder(folder: Path, *inputs: Path | str | None) -> None:
    """Raise `DataError` if a report in this folder would replace one of the inputs, or a file of something else."""
    for path in filter(None, inputs):
        if folder.resolve() == Path(path).resolve():
            raise DataError(f"{folder} is also read; name another folder for the report")
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for the report")
    page = folder / PAGE
    if page.exists() and not page.with_suffix(".json").exists():
        raise DataError(f"{page} is no page of a report, and would be lost; name another folder")
    for path in (page, page.with_suffix(".json")) if folder.exists() else ():
        check_output(path, *inputs)


def write_report(report: TrustReport) -> TrustReport:
    """Write the page and the JSON of a report into its folder, and return it."""
    page = Path(report.page)
    make_folders(page.parent)
    write_json(page.with_suffix(".json"), report.model_dump(mode="json"))
    write_file(page, render_report(report))
    return report
