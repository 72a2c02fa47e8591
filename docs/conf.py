"""Configuration of Sphinx for the site: `make docs`. Pages are executed while they are read, without a network."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

from freshness import fingerprint  # noqa: E402 (docs/extensions is on the path only now)

# Cells run with settings of their own, not with those of whoever builds the site.
os.environ.setdefault("GUIDE_RUNS", str(HERE / "_build" / "runs"))  # what the pages train is kept between builds
os.environ["TTY_COMPATIBLE"] = "0"  # no page shows a progress bar
os.environ["IPYTHONDIR"] = str(HERE / "_build" / "ipython")
profile = HERE / "_build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n', "utf-8")

project = "Dragoman"
author = "The Dragoman authors"
copyright = "The Dragoman authors"
html_title = "Dragoman"
extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.githubpages",
    "formulas",
    "hover",
    "neighbours",
    "notebooks",
    "live",
    "budgets",
    "links",
]
exclude_patterns = ["_build", "guide/runs"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

# A page is executed again if its cells change, or any code that they could run.
nb_execution_mode = "cache"
short = "-short" if "GUIDE_SHORT" in os.environ else ""
nb_execution_cache_path = str(HERE / "_build" / "executed" / f"{fingerprint(HERE.parent)}{short}")
nb_execution_timeout = 3_600  # ends a page that hangs; a training takes long while other work runs
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # a summary would be requested page by page, which no browser allows from disk
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0d5c8c", "color-brand-content": "#0d5c8c"},
    "dark_css_variables": {"color-brand-primary": "#7cc0ee", "color-brand-content": "#7cc0ee"},
}
nitpicky = True
