"""Support tables of file formats, against which readers check every element and attribute.

A table is a text. Each line has the names of elements or attributes (`@name`), indented below the element
that contains them, and then a status:

    supported   as the format defines
    differs     in another way, explained by the remark
    ignored     irrelevant for motion: appearance, sensors, control, solver parameters
    reported    not supported: listed in the report; an error with `strict=True`
    noted       as `reported`, but by the reader itself, which knows the circumstances
    rejected    an error

and further words: values without effect (`""` is the empty text, and numbers separated by commas are one
value), `=group` for the content of a group, `**` if everything inside has the same status, `<1.7` for what
later versions of the format do not have. A remark follows a semicolon. `axis[ball,fixed]` is an axis in a
parent of such a type. Names that are in no table, or not in the version of the file, are reported as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import Element
from linkwork.mechanism.names import printable

STATUSES = ("supported", "differs", "ignored", "reported", "noted", "rejected")


@dataclass
class Row:
    """An element or attribute of a format, and what it may contain."""

    name: str
    status: str
    remark: str = ""
    neutral: tuple[str, ...] = ()  # values without effect
    types: tuple[str, ...] = ()  # types of the parent to which the row is limited
    everything: bool = False  # whether its content has the same status
    removed: tuple[int, ...] | None = None  # the first version without it
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def find(self, name: str, type_: str = "") -> Row | None:
        """Return the row of an element or attribute in this one, whose type is given; None if unknown."""
        rows = self.rows.get(name, ())
        if len(rows) == 1 and not rows[0].types:
            return rows[0]
        return next((row for row in rows if not row.types or type_ in row.types), None)

    def every(self, within: tuple[Row, ...] = ()) -> Iterator[tuple[Row, ...]]:
        """Yield all rows below this one, each with its ancestors; recursive groups only once."""
        for rows in self.rows.values():
            for row in rows:
                yield (*within, row)
                if all(row.name != other.name for other in within):
                    yield from row.every((*within, row))


def table(text: str, groups: Mapping[str, str] | None = None) -> Row:
    """Return the table of a text, as a row that stands for the file."""
    group_rows: dict[str, dict[str, list[Row]]] = {}
    for name in groups or {}:
        group_rows[name] = {}
    for name, group_text in (groups or {}).items():
        _read(group_text, group_rows, group_rows[name])
    root = Row("", "supported")
    _read(text, group_rows, root.rows)
    return root


def _read(text: str, groups: Mapping[str, dict[str, list[Row]]], target: dict[str, list[Row]]) -> None:
    """Add the rows of a text to others; rows of one line share their content."""
    stack: list[tuple[int, dict[str, list[Row]], bool]] = [(-1, target, False)]
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while stack[-1][0] >= indent:
            stack.pop()
        head, _, remark = line.partition(";")
        words = head.split()
        assert not stack[-1][2], f"{line.strip()}: rows below one group would be in the group"
        k = next(i for i, word in enumerate(words) if word in STATUSES)
        options = words[k + 1 :]
        shared = [groups[word[1:]] for word in options if word.startswith("=")]
        content: dict[str, list[Row]] = (
            shared[0] if len(shared) == 1 else {key: x for group in shared for key, x in group.items()}
        )
        neutral = tuple(word.replace('""', "") for word in options if word != "**" and word[0] not in "=<")
        removed = next((tuple(map(int, word[1:].split("."))) for word in options if word[0] == "<"), None)
        for word in words[:k]:
            name, _, types = word.partition("[")
            parent_types = tuple(types.rstrip("]").split(",")) if types else ()
            row = Row(
                name, words[k], remark.strip(), neutral, parent_types, "**" in options, removed, content
            )
            rows = stack[-1][1].setdefault(name, [])
            rows.insert(0, row) if parent_types else rows.append(row)
        stack.append((indent, content, len(shared) == 1))


def check(
    root: Element,
    row: Row,
    notes: Notes,
    format_: str,
    *,
    strict: bool,
    version_of: Callable[[Element], tuple[int, ...]] | None = None,
) -> None:
    """Report unsupported and unknown elements and attributes of a file; raise if `strict`.

    `row` is that of `root`; `version_of` returns the version of an element's file, for formats with versions.
    """
    queue = [(root, row)]
    for element, parent_row in queue:  # the queue grows
        type_ = element.attributes.get("type", "")
        for key, value in element.attributes.items():
            if key.startswith("xmlns:"):
                continue
            child_row = parent_row.find(f"@{key}", type_)
            removed = _removed(child_row, element, version_of)
            if child_row is None or _is_reported(child_row, value, removed):
                name = f"{printable(key)} in <{printable(element.tag)}>"
                _report(
                    element, name, None if removed else child_row, notes, format_ + removed, strict=strict
                )
        for child in element.children:
            child_row = parent_row.find(child.tag, type_)
            removed = _removed(child_row, child, version_of)
            if child_row is None or _is_reported(child_row, child.text, removed):
                name = f"<{printable(child.tag)}> in <{printable(element.tag)}>"
                _report(child, name, None if removed else child_row, notes, format_ + removed, strict=strict)
            elif not child_row.everything:
                queue.append((child, child_row))


def _removed(
    row: Row | None, element: Element, version_of: Callable[[Element], tuple[int, ...]] | None
) -> str:
    """Return the version of a file, such as " 1.9", that no longer has what a row is about, or ""."""
    if row is None or row.removed is None or version_of is None:
        return ""
    version = version_of(element)
    return f" {'.'.join(map(str, version))}" if version >= row.removed else ""


def _is_reported(row: Row, value: str, removed: str) -> bool:
    """Return True if an element or attribute with this value is unknown or not supported."""
    return bool(removed or row.status in ("reported", "rejected")) and not _has_no_effect(value, row.neutral)


def _has_no_effect(value: str, neutral: tuple[str, ...]) -> bool:
    """Return True if a value is one of those without effect."""
    words = value.lower().split()
    for value_text in neutral:
        default_words = value_text.split(",") if value_text else []
        if words == default_words or (words and None is not _numbers(words) == _numbers(default_words)):
            return True
    return False


def _numbers(words: list[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None


def _report(
    element: Element, name: str, row: Row | None, notes: Notes, format_: str, *, strict: bool
) -> None:
    remark = f" ({row.remark})" if row is not None and row.remark else ""
    text = (
        f"{name} is unknown in {format_} and ignored"
        if row is None
        else f"{name} is not supported and ignored{remark}"
    )
    if strict or (row is not None and row.status == "rejected"):
        raise element.error(
            f"{name} is unknown in {format_}" if row is None else f"{name} is not supported{remark}"
        )
    notes.add(text, f"line {element.line}")
