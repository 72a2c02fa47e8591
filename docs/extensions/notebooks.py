"""Each page of the guide as a notebook that runs wherever Dragoman is installed. The page links to it.

The first cells of a notebook write the modules that the page imports from its folder. Directives of Sphinx become plain
Markdown, and the numbers that cells computed for the text are filled in. Cells that the page folds are folded too.
"""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook
from myst_nb.core.variables import format_plain_text
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.directives.code import LiteralIncludeReader

LINK = "Download this page as a notebook"
COLAB = "To open it in Colab: colab.research.google.com, File, Upload notebook"
INTRODUCTION = """*A page of Dragoman's guide.* It runs where Dragoman is installed with drawings: in a clone of the
project, type `pip install ".[plots]"`. In Colab, first run
`!git clone ADDRESS dragoman && pip install -q "./dragoman[plots]"`, with the address of the project. The next cells
write what the page imports, `{modules}`, into this folder. The numbers in the text are from the published page; on your
machine, those that depend on a training or on speed differ a little."""
GLUE = """def glue(name, value, display=False):
    \"\"\"Accept a number for the text, which has it already.\"\"\""""
GLUED = re.compile(r"\{glue:text\}`([^`:]*)(?::([^`]*))?`")
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
"""Tags of cells whose code the page does not show."""
CONFIG = Config()
FENCE = re.compile(r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)```$", re.MULTILINE)
PLAIN = [
    (r"^\([\w-]+\)=\n?", ""),
    (r"\{term\}`([^`<]*?)(?: <[^`]*>)?`", r"\1"),
    (r"\{download\}`([^`<]*?)(?: <[^`]*>)?`", r"\1"),
    (r"\[([^\]]*)\]\((?!https?:)[^)\s]*\)", r"\1"),
    (r"^:::+ *\{dropdown\} *(.*)$", r"\n**\1**\n"),
    (r"^:::+ *\{grid-item-card\} *(.*)$", r"\n**\1**\n"),
    (r"^:::+.*$", ""),
    (r"^:[\w-]+:.*$", ""),
]
"""Patterns of MyST and their replacements. Targets, directives and links to other pages lose their marks."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", add_link)
    app.connect("build-finished", write_all, priority=400)  # before the links are looked at
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_link(app: Sphinx, doctree: nodes.document) -> None:
    """Put the link below the title of a page that has cells."""
    name = app.env.docname
    if has_cells(Path(app.env.doc2path(name))) and (title := doctree.next_node(nodes.title)) is not None:
        link = nodes.reference("", LINK, refuri=f"{name.rpartition('/')[2]}.ipynb")
        colab = nodes.Text(f". {COLAB}.")
        title.parent.insert(title.parent.index(title) + 1, nodes.paragraph("", "", link, colab, classes=["notebook"]))


def write_all(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for name in app.env.found_docs:
            page = Path(app.env.doc2path(name))
            if has_cells(page):
                made = notebook(page, computed_values(Path(app.outdir).parent / "jupyter_execute", name))
                nbformat.write(made, str(Path(app.outdir) / f"{name}.ipynb"))


def computed_values(folder: Path, name: str) -> dict[str, str]:
    """Return the numbers that the cells of a page computed for its text, by name."""
    file = folder / f"{name}.glue.json"
    outputs = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return {key: output["data"]["text/plain"] for key, output in outputs.items()}


def has_cells(page: Path) -> bool:
    return page.suffix == ".md" and "```{code-cell}" in page.read_text("utf-8")


def notebook(page: Path, values: Mapping[str, str]) -> nbformat.NotebookNode:
    """Return the page with these numbers in its text, after cells that write the modules it needs.

    Raises:
        KeyError: the text names a number that is not among the values.
    """
    made = read_myst_markdown_notebook(page.read_text("utf-8"))
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    for cell in code:
        if FOLDED & set(cell.metadata.get("tags", [])):
            fold(cell)
        cell.source = re.sub(r"^from myst_nb import glue\n?", "", cell.source, flags=re.MULTILINE)
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(fill_in(cell.source, values), page.parent)
    made.cells = [cell for cell in made.cells if cell.source.strip()]
    needed = modules("\n".join(cell.source for cell in code), page.parent)
    helpers = [
        nbformat.v4.new_code_cell(source)
        for source in [*(f"%%writefile {path.name}\n{path.read_text('utf-8').rstrip()}" for path in needed), GLUE]
    ]
    for cell in helpers:
        fold(cell)
    names = "`, `".join(path.name for path in needed) or "none"
    made.cells[:0] = [
        nbformat.v4.new_markdown_cell(INTRODUCTION.format(modules=names)),
        *helpers,
    ]
    for number, cell in enumerate(made.cells):
        cell.id = f"{page.stem[:40]}-{number}"  # a random id would change with each build
    return made


def fold(cell: nbformat.NotebookNode) -> None:
    """Hide the code of a cell until the reader opens it."""
    cell.metadata["jupyter"] = {"source_hidden": True}


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each number in place of its name."""
    return GLUED.sub(lambda number: format_plain_text(values[number[1]], number[2] or ""), text)


def modules(code: str, folder: Path) -> list[Path]:
    """Return the files in the page's folder that the code imports, directly or through others."""
    imported: list[Path] = []
    waiting = [code]
    while waiting:
        for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", waiting.pop(), flags=re.MULTILINE))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for path in (folder / f"{name}.py" for name in names):
                if path.is_file() and path not in imported:
                    imported.append(path)
                    waiting.append(path.read_text("utf-8"))
    return sorted(imported)


def plain(text: str, folder: Path) -> str:
    """Return MyST as plain Markdown; quoted files are quoted in place."""
    text = FENCE.sub(lambda quote: f"```python\n{quoted(folder / quote[1], quote[2])}\n```", text)
    for pattern, replacement in PLAIN:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def quoted(file: Path, options: str) -> str:
    """Return what Sphinx would show of the file."""
    asked = {
        name: value.strip('"') or None for name, value in re.findall(r"^:([\w-]+):(?: (.*))?$", options, re.MULTILINE)
    }
    asked.pop("language", None)
    if "dedent" in asked:
        asked["dedent"] = None
    return LiteralIncludeReader(str(file), asked, CONFIG).read()[0].rstrip()
