"""The algorithm pages show the lines of the files that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs/algorithms").glob("*.md"))


def shown(page: Path) -> list[tuple[str, str]]:
    """Each line of code on a page, with the file that the table's head names."""
    found, file, inside = [], "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        if head := re.fullmatch(r"\s+- `(\w+/\w+\.py)`", line):
            file = head[1]
        elif line.strip().endswith("```python"):
            inside = True
        elif line.strip() == "```":
            inside = False
        elif inside and line.strip():
            found.append((file, line.strip()))
    return found


def test_pages_show_code() -> None:
    assert len(PAGES) >= 7 and sum(len(shown(page)) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lines_are_those_of_the_file(page: Path) -> None:
    for file, line in shown(page):
        source = (ROOT / "src/linkwork" / file).read_text(encoding="utf-8")
        assert line in map(str.strip, source.splitlines()), f"{file} has no line {line!r}"
