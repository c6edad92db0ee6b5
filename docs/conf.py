"""Sphinx configuration; `make docs` builds the pages."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc import FunctionDocumenter

from linkwork import ModelFunction, __version__

project = "linkwork"
author = "the linkwork authors"
copyright = "the linkwork authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
default_role = "code"  # docstrings write names in single backquotes

html_theme = "furo"
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


def setup(app: Sphinx) -> None:
    app.add_autodocumenter(ModelFunctionDocumenter)
