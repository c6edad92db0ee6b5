"""Sphinx configuration; `make docs` builds the pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

from linkwork import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "linkwork"
author = "the linkwork authors"
copyright = "the linkwork authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "api_signatures",
    "tables",
]
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # one entry for arguments that share a description
napoleon_use_ivar = True
default_role = "code"  # docstrings write names in single backquotes
# attributes such as `a` have the name of several others, which are not meant as targets
suppress_warnings = ["ref.python"]
python_maximum_signature_line_length = 88

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"linkwork {__version__}"
html_static_path = ["_static"]
html_css_files = ["linkwork.css"]
html_show_copyright = False


def formula(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """Return a formula as MathML; warn, which ends `make docs`, about unknown commands."""
    try:
        mathml = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        getLogger(__name__).warning("%s in %s", error, node.astext(), location=node)
        return node.astext()
    # Accents pushed into the letter cannot be told apart; as ordinary overscripts, dots stand above it.
    return re.sub(r'<mover accent="true">', "<mover>", mathml)


def inline_formula(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers draw themselves:
    pages need neither a network nor a script.
    """
    page.body.append(formula(node, as_block=False))
    raise nodes.SkipNode


def display_formula(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula as MathML."""
    page.body.append(f'<div class="formula">{formula(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer(
        "mathml", (inline_formula, None), (display_formula, None)
    )
