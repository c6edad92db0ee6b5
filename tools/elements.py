"""Write docs/elements.md from the tables that the readers use: `python tools/elements.py`."""

from __future__ import annotations

from pathlib import Path

from linkwork.formats.elements import Row
from linkwork.formats.elements_mjcf import mjcf
from linkwork.formats.elements_sdf import sdf
from linkwork.formats.elements_urdf import urdf

PAGE = Path(__file__).resolve().parents[1] / "docs" / "elements.md"
HEAD = """# Elements and attributes

Support of each element and attribute of URDF, SDFormat (1.2 to 1.12) and MJCF (MuJoCo 4). The readers use these
tables: `model.report()` lists reported and unknown elements with their names and lines;
`lw.load(path, strict=True)` raises an error for them.

| status | meaning |
| --- | --- |
| supported | as the format defines |
| differs | supported in another way, given in the remark |
| ignored | irrelevant for motion: appearance, sensors, control, solver parameters |
| reported | not supported: listed in the report |
| rejected | an error |

Attributes begin with @; `axis[ball,fixed]` is an `<axis>` in an element of such a type. Values in parentheses have no effect
and are not reported. "and all in it" includes everything that an element contains. Elements that several others contain are
listed in the first of them.
`python tools/elements.py` writes this page.
"""
TITLES = {"URDF, with URDF+ and other extensions": urdf, "SDFormat": sdf, "MJCF": mjcf}


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for title, table in TITLES.items():
        parts.append(
            f"\n## {title}\n\n| in | element or attribute | status | remark |\n| --- | --- | --- | --- |\n"
        )
        parts += lines(table())
    return "".join(parts)


def lines(root: Row) -> list[str]:
    """Return the lines of a table; rows of one element with equal status and remark share a line."""
    page_lines: list[str] = []
    seen: set[int] = set()
    together: dict[tuple[str, str, str], list[str]] = {}
    for path in root.every((root,)):
        row = path[-1]
        if id(row) in seen:
            continue
        seen.add(id(row))
        within = "/".join(shown(each) for each in path[:-1][-3:])
        status = "reported" if row.status == "noted" else row.status
        neutral = (
            f" ({', '.join(value.replace(',', ' ') or 'empty' for value in row.neutral)})"
            if row.neutral
            else ""
        )
        before = f", before {'.'.join(map(str, row.removed))}" if row.removed else ""
        word = status + before + neutral + (", and all in it" if row.everything else "")
        together.setdefault((within, word, row.remark), []).append(shown(row))
    for (within, word, remark), names in together.items():
        page_lines.append(f"| {within} | {' '.join(f'`{name}`' for name in names)} | {word} | {remark} |\n")
    return page_lines


def shown(row: Row) -> str:
    """Return the name of a row with its parent types."""
    return row.name + (f"[{','.join(row.types)}]" if row.types else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
