"""Check, or write, the tables of file formats in the docs: what src/dragoman/formats/registry.py says of each format.

.venv/bin/python scripts/formats.py            fails if a table is out of date
.venv/bin/python scripts/formats.py --write    writes the tables
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.formats.registry import DATA_FORMATS, DOCUMENT_FORMATS

ROOT = Path(__file__).parents[1]
MARKS = re.compile(
    r"(?<=<!-- formats: scripts/formats\.py writes this table -->\n).*?(?=<!-- end of formats -->)", re.S
)


def data_table() -> str:
    """Return the table of formats that are trained on."""
    rows = ["| name | `data.format` | what is read | extra |", "|---|---|---|---|"]
    for name, format in DATA_FORMATS.items():
        if name != "hub":  # which has addresses, not files
            extra = f"`{format.extra}`" if format.extra else ""
            rows.append(f"| {_quoted(format.data_suffixes) or 'others'} | `{name}` | {format.data_title} | {extra} |")
    return "\n".join([*rows, ""])


def document_table() -> str:
    """Return the table of formats that are translated as documents by their names."""
    rows = ["| name | format | what is translated |", "|---|---|---|"]
    extras: list[str] = []
    for format in DOCUMENT_FORMATS.values():
        if format.document_suffixes:
            installed = "the same extra" if format.extra in extras else f"`pip install 'dragoman[{format.extra}]'`"
            title = f"{format.document_title} ({installed})" if format.extra else format.document_title
            rows.append(f"| {_quoted(format.document_suffixes)} | {title} | {format.translated} |")
            extras.append(format.extra)
    return "\n".join([*rows, ""])


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


PAGES: dict[str, Callable[[], str]] = {"docs/data.md": data_table, "docs/runs.md": document_table}


def outdated(write: bool = False) -> list[str]:
    """Return the pages whose table differs from the registry's, after writing them if asked to."""
    pages: list[str] = []
    for page, table in PAGES.items():
        text = (ROOT / page).read_text("utf-8")
        marks = MARKS.search(text)
        if marks is None:
            raise SystemExit(f"{page} has no marks around its table of formats")
        new = text[: marks.start()] + table() + text[marks.end() :]
        if new != text:
            pages.append(page)
            if write:
                (ROOT / page).write_text(new, "utf-8")
    return pages


def main() -> int:
    """Check or write the tables; return the exit status."""
    parser = argparse.ArgumentParser(description="Check the tables of file formats in the docs.")
    parser.add_argument("--write", action="store_true", help="write the tables instead")
    options = parser.parse_args()
    pages = outdated(options.write)
    for page in pages:
        print(f"{page}: {'written' if options.write else 'out of date; run scripts/formats.py --write'}")
    return int(bool(pages) and not options.write)


if __name__ == "__main__":
    sys.exit(main())
