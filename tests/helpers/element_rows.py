"""Small files, one for each row of the tables of elements: the path of the row in a file that has all that it
needs.
"""

from __future__ import annotations

from linkwork.formats.elements import Row

Path = tuple[Row, ...]


def rows(root: Row) -> list[Path]:
    """All rows in that of the root, with those that they are in; each once, in the first element that has it."""
    found: list[Path] = []
    seen: set[int] = set()
    for path in root.every((root,)):
        if id(path[-1]) not in seen:
            seen.add(id(path[-1]))
            found.append(path)
    return found


def shown(path: Path) -> str:
    """A path as the tables write it."""
    return "/".join(row.name + (f"[{','.join(row.types)}]" if row.types else "") for row in path)


def nested(path: Path, value: str) -> str:
    """The elements of a path within each other, of the types that it needs, with a value in the last element
    or attribute.
    """
    text = "" if path[-1].name.startswith("@") else value
    for k in reversed(range(len(path))):
        inner = path[k + 1] if k + 1 < len(path) else None
        if path[k].name.startswith("@"):
            continue
        words = f' type="{inner.types[0]}"' if inner is not None and inner.types else ""
        if inner is not None and inner.name.startswith("@"):
            words += f' {inner.name[1:]}="{value}"' if inner.name != "@type" or not words else ""
        text = f"<{path[k].name}{words}>{text}</{path[k].name}>"
    return text
