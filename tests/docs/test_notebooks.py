"""Each page as a notebook: plain Markdown with its numbers, and cells that run away from the site."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from guide_site import DOCS

pytest.importorskip("myst_nb", reason="the tools of the guide are missing: make docs installs them")

import nbformat
from nbclient import NotebookClient
from notebooks import FOLDED, GLUED, computed_values, notebook

PAGES = sorted((DOCS / "guide").glob("[0-9]*.md"))


def sources(made: Any, kind: str) -> list[str]:
    return [cell.source for cell in made.cells if cell.cell_type == kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_only_plain_markdown_is_left(page: Path) -> None:
    names = {name for name, _ in GLUED.findall(page.read_text("utf-8"))}
    made = notebook(page, dict.fromkeys(names, "12.3456"))
    nbformat.validate(made)
    text = "\n".join(sources(made, "markdown"))
    assert not re.findall(r"\{[a-z:-]+\}`.*|^:::.*|^```\{.*|^\([\w-]+\)=", text, re.MULTILINE)
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)
    assert len(sources(made, "code")) > page.read_text("utf-8").count("```{code-cell}")
    assert ("12" in text) >= bool(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_folds_is_folded(page: Path) -> None:
    made = notebook(page, defaultdict(lambda: "0.5"))
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    folded = [cell for cell in code if cell.metadata.get("jupyter") == {"source_hidden": True}]
    helpers = [cell for cell in code if cell.source.startswith(("%%writefile", "def glue"))]
    assert [cell.id for cell in folded] == [
        cell.id for cell in code if cell in helpers or FOLDED & set(cell.metadata.get("tags", []))
    ]
    assert helpers


def test_numbers_that_cells_computed_are_in_the_text(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Of {glue:text}`count` words, {glue:text}`share:.1f` %.\n\n```{code-cell}\nglue('count', 3)\n```\n", "utf-8"
    )
    outputs = {"count": {"data": {"text/plain": "3"}}, "share": {"data": {"text/plain": "66.66"}}}
    (tmp_path / "page.glue.json").write_text(json.dumps(outputs), "utf-8")
    made = notebook(page, computed_values(tmp_path, "page"))
    assert "Of 3 words, 66.7 %." in sources(made, "markdown")
    with pytest.raises(KeyError, match="count"):
        notebook(page, computed_values(tmp_path, "elsewhere"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["05-embeddings-and-positions", "08-the-whole-model"])
def test_a_notebook_runs_in_an_empty_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDE_SHORT", "1")
    made = notebook(DOCS / "guide" / f"{name}.md", defaultdict(lambda: "0.5"))
    NotebookClient(made, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.get("outputs") for cell in made.cells)
