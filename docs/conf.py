"""Sphinx configuration; `make docs` builds the pages."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.ext.autodoc import FunctionDocumenter
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

from linkwork import ModelFunction, __version__

project = "linkwork"
author = "the linkwork authors"
copyright = "the linkwork authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
default_role = "code"  # docstrings write names in single backquotes

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"linkwork {__version__}"


class ModelFunctionDocumenter(FunctionDocumenter):
    """Shows a function of a model, which is an object, as the function that its body is."""

    objtype = "modelfunction"
    directivetype = "function"

    @classmethod
    def can_document_member(cls, member: Any, membername: str, isattr: bool, parent: Any) -> bool:
        return isinstance(member, ModelFunction)

    def import_object(self, raiseerror: bool = False) -> bool:
        found = super().import_object(raiseerror)
        if found:
            self.object = self.object.body
        return found


def formula(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """A formula as MathML; a warning, which ends `make docs`, where it has a command that is not known."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        getLogger(__name__).warning("%s in %s", error, node.astext(), location=node)
        return node.astext()


def inline_formula(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers draw themselves: pages need neither a network nor a script."""
    page.body.append(formula(node, as_block=False))
    raise nodes.SkipNode


def display_formula(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands alone as MathML."""
    text = formula(node, as_block=True).replace("<math ", '<math style="overflow: visible" ', 1)  # without scroll bars
    page.body.append(f'<div class="formula">{text}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_autodocumenter(ModelFunctionDocumenter)
    app.add_html_math_renderer("mathml", (inline_formula, None), (display_formula, None))
