"""Formulas as MathML, which browsers draw themselves: no script is needed, and a screen reader can read them. The site
holds a font for them (STIX Two Math), because not every machine has one whose brackets and roots grow.
"""

import re
import shutil
from importlib.resources import files
from pathlib import Path

from docutils.nodes import SkipNode, math, math_block
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

FONT = "STIXTwoMath-Regular.ttf"
SPACE = '<mspace width="0.17em"></mspace>'
"""Around the name of a function, where nothing else sets it off: browsers leave none."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.connect("build-finished", bring_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: HTML5Translator, node: math) -> None:
    translator.body.append(mathml(node.astext(), as_block=False))
    raise SkipNode


def display(translator: HTML5Translator, node: math_block) -> None:
    translator.body.append(f'<div class="formula" tabindex="0">{mathml(node.astext(), as_block=True)}</div>\n')
    raise SkipNode


def mathml(tex: str, as_block: bool) -> str:
    """Return a formula, with space between the name of a function and an adjacent letter or number."""
    drawn = tex2mathml(tex, as_block=as_block)
    drawn = re.sub(r"<mo>&ApplyFunction;</mo>(?!\s*(<mrow>\s*)?<mo[^>]*>\()", SPACE, drawn)
    return re.sub(r"(</m(?:i|n|sub|sup|frac|row)>\s*)(<mi>(?:sin|cos|log|ln|exp)</mi>)", rf"\1{SPACE}\2", drawn)


def bring_font(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        font = files("ziamath").joinpath("fonts", FONT)
        with font.open("rb") as source, (Path(app.outdir) / "_static" / FONT).open("wb") as target:
            shutil.copyfileobj(source, target)
