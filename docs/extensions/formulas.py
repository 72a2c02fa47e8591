"""Formulas as MathML, which browsers draw themselves: no script is needed, and a screen reader can read them. The site
holds a font for them (STIX Two Math), because not every machine has one whose brackets and roots grow.
"""

import shutil
from importlib.resources import files
from pathlib import Path

from docutils.nodes import SkipNode, math, math_block
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

FONT = "STIXTwoMath-Regular.ttf"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.connect("build-finished", bring_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: HTML5Translator, node: math) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise SkipNode


def display(translator: HTML5Translator, node: math_block) -> None:
    translator.body.append(f'<div class="formula" tabindex="0">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise SkipNode


def bring_font(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        font = files("ziamath").joinpath("fonts", FONT)
        with font.open("rb") as source, (Path(app.outdir) / "_static" / FONT).open("wb") as target:
            shutil.copyfileobj(source, target)
