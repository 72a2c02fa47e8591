"""The guide: every page is executed, quotes what exists, and has its parts; everything has a place where it runs."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from guide_site import DOCS, build_site
from reading import minutes

GUIDE = DOCS / "guide"
PAGES = sorted(GUIDE.glob("[0-9]*.md"))
TARGET = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}.*?\n(?:---\n.*?^---\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A cell, its options between lines of hyphens left out."""
WORK = re.compile(r"\]\((https?://(?:arxiv\.org|doi\.org|aclanthology\.org|proceedings\.mlr\.press)/[^)\s]+)\)")
COLUMN = 104
"""Characters of a line of code that fit the page: see .content pre in style.css."""
MOST_MINUTES = 15
"""What stands open on a page is read in so long."""
SCREEN = GUIDE / "transformer.py"
ERRORS = ("20-errors-in-the-model.md", "21-errors-around-it.md")


def places() -> dict[str, str]:
    """Each target of the guide, and the text from there to the next heading below it."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in TARGET.finditer(text):
            after = text[match.end() :].lstrip("\n")
            while follows := TARGET.match(after):
                after = after[follows.end() :].lstrip("\n")
            body = after.partition("\n")[2] if after.startswith("#") else after
            assert match[1] not in found, f"{match[1]} stands twice"
            found[match[1]] = re.split(r"^#", without_code_comments(body), flags=re.MULTILINE)[0]
    return found


def without_code_comments(text: str) -> str:
    """The text with no line of code that begins like a heading."""
    return CELL.sub(lambda cell: re.sub(r"^#", " #", cell[0], flags=re.MULTILINE), text)


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the coverage page."""
    text = (GUIDE / "coverage.md").read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [re.split(r" \| ", line.strip("| \n")) for line in text.splitlines() if line.startswith("| ")][1:]


def links(cell: str) -> list[str]:
    return re.findall(r"\]\(#([\w-]+)\)", cell)


def trouble(cell: str, known: dict[str, str]) -> Iterator[str]:
    """What is wrong with a cell of the coverage tables that says where a thing is run."""
    yield from (f"{name} is no target" for name in links(cell) if name not in known)
    if not any("```{code-cell}" in known.get(name, "") for name in links(cell)):
        yield "runs nowhere"


def test_everything_that_the_documents_describe_is_run() -> None:
    known, described = places(), rows("What they describe")
    assert len(described) >= 32
    assert not [f"{what}: {each}" for _, what, where in described for each in trouble(where, known)]


def test_each_error_fails_first_and_then_runs_right() -> None:
    known, errors = places(), rows("Where they are wrong")
    assert len(errors) >= 30
    assert not [f"{what}: {each}" for _, what, *cells in errors for cell in cells for each in trouble(cell, known)]
    listed = {name for *_, wrong, right in errors for cell in (wrong, right) for name in links(cell)}
    on_pages = {name for page in ERRORS for name in TARGET.findall((GUIDE / page).read_text("utf-8"))}
    assert listed == {name for name in on_pages if name.startswith(("error-", "right-"))}
    for *_, wrong, right in errors:
        (name,), (other,) = links(wrong), links(right)
        assert (name.removeprefix("error-"), name != other) == (other.removeprefix("right-"), True)
        for each in (name, other):
            assert "assert" in known[each] or "else:\n" in known[each], f"{each} asserts nothing"


def test_a_wrong_place_is_found() -> None:
    known = {"here": "```{code-cell}\nassert 1\n```", "bare": "words"}
    assert list(trouble("[a](#here)", known)) == []
    assert list(trouble("[a](#here), [b](#there)", known)) == ["there is no target"]
    assert list(trouble("[a](#bare)", known)) == list(trouble("words", known)) == ["runs nowhere"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.search(r"^budget_seconds: \d+$", text, re.MULTILINE)
    assert re.search(rf"^# {int(page.stem[:2])}\. \w", text, re.MULTILINE)
    assert re.search(r"^After this page you can\n\n(- [^#]+?){3,6}\n", text, re.MULTILINE)
    questions = text.partition("## Three questions\n")[2].partition("## Exercise\n")[0]
    assert questions.count(":::{dropdown}") == 3
    (solution,) = [cell for cell in CELL.findall(text.partition("## Exercise\n")[2]) if "hide-cell" in cell]
    assert "assert" in solution
    assert minutes(text) <= MOST_MINUTES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_quotes_stands_in_the_package_or_beside_it(page: Path) -> None:
    quotes = re.findall(r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)", page.read_text("utf-8"), re.MULTILINE)
    for path, options in quotes:
        source = (page.parent / path).resolve()
        assert any(source.is_relative_to(place) for place in (DOCS.parent / "src", GUIDE)), path
        assert ":lines:" not in options, "line numbers part from the code in silence: use :start-at: and :end-at:"
        tree = ast.parse(source.read_text("utf-8"))
        if name := re.search(r"^:pyobject: (\S+)$", options, re.MULTILINE):
            for part in name[1].split("."):
                named = (ast.FunctionDef, ast.ClassDef)
                tree = next((each for each in tree.body if isinstance(each, named) and each.name == part), None)
                assert tree is not None, f"{name[1]} is not in {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_cell_lies_in_a_block_where_it_would_not_run(page: Path) -> None:
    text = CELL.sub(lambda cell: "CELL" if cell[0].startswith("```{code-cell}") else "", page.read_text("utf-8"))
    opened = 0
    for line in re.findall(r"^(?::{3,}.*|CELL)$", text, re.MULTILINE):
        assert line != "CELL" or not opened, "close the dropdown before the cell"
        opened += 0 if line == "CELL" else 1 if "{" in line else -1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_cells_fit_a_page(page: Path) -> None:
    for cell in CELL.findall(page.read_text("utf-8")):
        assert max(map(len, cell.splitlines()), default=0) <= COLUMN
        compile(re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE), page.name, "exec")


def test_each_function_of_the_model_on_one_screen_is_written_on_one_page() -> None:
    written = Counter(
        each for page in PAGES for cell in CELL.findall(page.read_text("utf-8")) for each in defined(cell)
    )
    wanted = [each for each in defined(SCREEN.read_text("utf-8")) if not each.startswith(("def read", "def main"))]
    assert {each.partition("\n")[0]: written[each] for each in wanted if written[each] != 1} == {}


def test_every_work_that_a_page_cites_stands_among_the_works_cited_and_the_other_way_round() -> None:
    listed: dict[str, set[str]] = {}
    for line in (GUIDE / "references.md").read_text("utf-8").splitlines():
        for link in WORK.findall(line):
            assert link not in listed, f"{link} stands twice"
            listed[link] = set(re.findall(r"\]\(([\w-]+\.md)\)", line))
    cited: dict[str, set[str]] = {}
    for page in [*PAGES, GUIDE / "map.md"]:
        for link in WORK.findall(page.read_text("utf-8")):
            cited.setdefault(link, set()).add(page.name)
    assert listed == cited


def defined(code: str) -> list[str]:
    """Each function and class of the code, as Python understands it: without comments and docstrings."""
    tree = ast.parse(re.sub(r"^:.*\n", "", code, flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return [ast.unparse(node) for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def test_reading_minutes_count_what_stands_open() -> None:
    page = "---\nfront: matter\n---\n# Title\n" + "word " * 198 + "[end](somewhere.md)\n"
    cell = "```{code-cell}\n" + "x = 1\n\n" * 12 + "```\n"
    folded = cell.replace("```{code-cell}\n", "```{code-cell}\n:tags: [hide-input]\n")
    dropdown = ":::{dropdown} Title\n" + "word " * 100 + "\n" + cell + ":::\n"
    assert minutes(page) == pytest.approx(1.0, abs=0.02)
    assert minutes(page + cell) == pytest.approx(2.0, abs=0.02)
    assert minutes(page + folded + dropdown + cell) == pytest.approx(2.0, abs=0.02)


@pytest.mark.thorough
def test_every_page_is_executed_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb", reason="the tools of the guide are missing: make docs installs them")
    site, told = build_site(tmp_path)
    for page in PAGES:
        assert re.search(rf"guide/{page.stem}: \d+ s of \d+ s", told)
        shown = (site / "guide" / f"{page.stem}.html").read_text("utf-8")
        assert "output stderr" not in shown, f"a cell of {page.name} writes to standard error"
        assert ("<math" in shown) == ("$" in CELL.sub("", page.read_text("utf-8")))
        for image in re.findall(r"<img [^>]*>", shown):
            assert re.search(r'alt="[^"]+"', image), image
        assert not re.search(r'(src|href)="(https?:)?//[^"]*\.(js|css|woff2?|ttf)', shown)
