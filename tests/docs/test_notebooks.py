"""Each page as a notebook: plain Markdown, and cells that run away from the site."""

import re
from pathlib import Path
from typing import Any

import pytest
from guide_site import DOCS

pytest.importorskip("myst_nb", reason="the tools of the guide are missing: make docs installs them")

import nbformat
from nbclient import NotebookClient
from notebooks import notebook

PAGES = sorted((DOCS / "guide").glob("[0-9]*.md"))


def of_kind(made: Any, kind: str) -> list[str]:
    return [cell.source for cell in made.cells if cell.cell_type == kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_only_plain_markdown_is_left(page: Path) -> None:
    made = notebook(page)
    nbformat.validate(made)
    text = "\n".join(of_kind(made, "markdown"))
    assert not re.findall(r"\{[a-z:-]+\}`.*|^:::.*|^```\{.*|^\([\w-]+\)=", text, re.MULTILINE)
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)
    assert len(of_kind(made, "code")) > page.read_text("utf-8").count("```{code-cell}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["05-embeddings-and-positions", "08-the-whole-model"])
def test_a_notebook_runs_in_an_empty_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDE_SHORT", "1")
    made = notebook(DOCS / "guide" / f"{name}.md")
    NotebookClient(made, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.get("outputs") for cell in made.cells)
