"""Each page of the guide as a notebook that runs wherever Dragoman is installed. The page links to it.

A notebook's first cells write the modules that the page imports from beside it. What only Sphinx understands becomes
plain Markdown.
"""

import ast
import re
from pathlib import Path

import nbformat
from docutils import nodes
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.directives.code import LiteralIncludeReader

LINK = "Download this page as a notebook"
INTRODUCTION = """*A page of Dragoman's guide.* It runs where Dragoman is installed with drawings: in a clone of the
project, type `pip install ".[plots]"`. The next cells write what the page imports, `{modules}`, into this folder."""
GLUE = """def glue(name, value, display=False):
    \"\"\"Shows a number that the text names.\"\"\"
    print(f"{name}: {value}")"""
CONFIG = Config()
FENCE = re.compile(r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)```$", re.MULTILINE)
PLAIN = [
    (r"^\([\w-]+\)=\n?", ""),
    (r"\{term\}`([^`<]*?)(?: <[^`]*>)?`", r"\1"),
    (r"\{glue:text\}`([^`:]*)(?::[^`]*)?`", r"(see `\1`)"),
    (r"\{download\}`([^`<]*?)(?: <[^`]*>)?`", r"\1"),
    (r"\[([^\]]*)\]\((?!https?:)[^)\s]*\)", r"\1"),
    (r"^:::+ *\{dropdown\} *(.*)$", r"\n**\1**\n"),
    (r"^:::+ *\{grid-item-card\} *(.*)$", r"\n**\1**\n"),
    (r"^:::+.*$", ""),
    (r"^:[\w-]+:.*$", ""),
]
"""Patterns of MyST, and what stands in their place. Targets, directives and links to other pages lose their marks."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", add_link)
    app.connect("build-finished", write_all, priority=400)  # before the links are looked at
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_link(app: Sphinx, doctree: nodes.document) -> None:
    """Puts the link below the title of a page that has cells."""
    name = app.env.docname
    if has_cells(Path(app.env.doc2path(name))) and (title := doctree.next_node(nodes.title)) is not None:
        link = nodes.reference("", LINK, refuri=f"{name.rpartition('/')[2]}.ipynb")
        title.parent.insert(title.parent.index(title) + 1, nodes.paragraph("", "", link, classes=["notebook"]))


def write_all(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for name in app.env.found_docs:
            page = Path(app.env.doc2path(name))
            if has_cells(page):
                nbformat.write(notebook(page), str(Path(app.outdir) / f"{name}.ipynb"))


def has_cells(page: Path) -> bool:
    return page.suffix == ".md" and "```{code-cell}" in page.read_text("utf-8")


def notebook(page: Path) -> nbformat.NotebookNode:
    """The page, with cells before it that write the modules it needs."""
    made = read_myst_markdown_notebook(page.read_text("utf-8"))
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    for cell in code:
        cell.source = re.sub(r"^from myst_nb import glue\n?", "", cell.source, flags=re.MULTILINE)
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, page.parent)
    made.cells = [cell for cell in made.cells if cell.source.strip()]
    needed = modules("\n".join(cell.source for cell in code), page.parent)
    writing = [
        nbformat.v4.new_code_cell(f"%%writefile {path.name}\n{path.read_text('utf-8').rstrip()}") for path in needed
    ]
    names = "`, `".join(path.name for path in needed) or "none"
    made.cells[:0] = [
        nbformat.v4.new_markdown_cell(INTRODUCTION.format(modules=names)),
        *writing,
        nbformat.v4.new_code_cell(GLUE),
    ]
    for number, cell in enumerate(made.cells):
        cell.id = f"{page.stem[:40]}-{number}"  # a drawn id would be another in each build
    return made


def modules(code: str, folder: Path) -> list[Path]:
    """The files beside the page that the code imports, and those that they import in turn."""
    found: list[Path] = []
    waiting = [code]
    while waiting:
        for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", waiting.pop(), flags=re.MULTILINE))):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for path in (folder / f"{name}.py" for name in names):
                if path.is_file() and path not in found:
                    found.append(path)
                    waiting.append(path.read_text("utf-8"))
    return sorted(found)


def plain(text: str, folder: Path) -> str:
    """MyST as plain Markdown; quoted files are quoted in place."""
    text = FENCE.sub(lambda quote: f"```python\n{quoted(folder / quote[1], quote[2])}\n```", text)
    for pattern, replacement in PLAIN:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def quoted(file: Path, options: str) -> str:
    """What Sphinx would show of the file."""
    asked = {
        name: value.strip('"') or None for name, value in re.findall(r"^:([\w-]+):(?: (.*))?$", options, re.MULTILINE)
    }
    asked.pop("language", None)
    if "dedent" in asked:
        asked["dedent"] = None
    return LiteralIncludeReader(str(file), asked, CONFIG).read()[0].rstrip()
