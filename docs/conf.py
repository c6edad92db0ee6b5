"""Sphinx configuration; `make docs` builds the pages."""

from __future__ import annotations

from linkwork import __version__

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
