"""Tables: right-align the columns whose cells are numbers."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

NUMBER = re.compile(r"[-−+≈<>≤≥\d][\d\s.,×%/e+−–-]*(?: to [\d\s.e-]+)?(?: ?[×%])?")


def align_numbers(app: Sphinx, doctree: nodes.document) -> None:
    """Mark the cells of numeric columns with the class `num`."""
    for group in doctree.findall(nodes.tgroup):
        rows = list(group.findall(nodes.row))
        body = [row for row in rows if isinstance(row.parent, nodes.tbody)]
        for column in range(int(group["cols"])):
            cells = [row[column] for row in body if column < len(row)]
            texts = [cell.astext().strip() for cell in cells]
            numbers = [text for text in texts if text]
            if numbers and all(NUMBER.fullmatch(text) for text in numbers):
                for row in rows:
                    row[column]["classes"].append("num")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", align_numbers)
    return {"parallel_read_safe": True}
