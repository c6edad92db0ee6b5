"""The files that the experiments of the papers write: read again, and checked for what all of them have."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as xml
from collections.abc import Iterable
from pathlib import Path


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table, without remarks."""
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if not next(iter(row.values())).startswith("#")]


def check_figures(folder: Path, names: Iterable[str]) -> None:
    """There is a picture with something in it, and a table."""
    for name in names:
        root = xml.parse(folder / f"{name}.svg").getroot()
        assert root.tag.endswith("svg") and len(list(root.iter())) > 20
        rows = read(folder / f"{name}.csv")
        assert rows and None not in rows[0]  # as many cells as titles
