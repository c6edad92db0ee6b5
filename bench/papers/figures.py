"""Figures of benchmarks: tables with their pictures, printed, and written as CSV and SVG."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkwork.cli.measure import machine
from linkwork.cli.terminal import working
from linkwork.interop.pinocchio_model import pinocchio


class Figure(NamedTuple):
    """A table with its picture: what was measured, as words and numbers."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    picture: str
    remarks: tuple[str, ...] = ()
    curves: tuple[tuple[str, ...], np.ndarray] | None = None  # another table, too long to be printed


def show(folder: Path, figures: Iterable[Callable[[str], Figure]]) -> int:
    """Make figures for this machine, print them, and write them into a folder."""
    note = machine()
    print(note)
    if pinocchio() is None:
        print("Pinocchio is not installed: it is not measured.")
    folder.mkdir(parents=True, exist_ok=True)
    for number, figure in enumerate(figures, 1):
        with working(f"measuring figure {number}"):
            found = figure(note)
        print(f"\n{found.title}\n\n{text_table(found.head, found.rows)}", flush=True)
        for remark in found.remarks:
            print(remark)
        write(folder, found, note)
    print(f"\nTables and pictures are in {folder}.")
    return 0


def write(folder: Path, figure: Figure, note: str) -> None:
    """Write a figure as CSV, with the machine in its last line, and as SVG."""
    with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(_distinct(figure.head))
        out.writerows([["" if cell is None else cell for cell in row] for row in figure.rows])
        out.writerow([f"# {note}"])
    if figure.curves is not None:
        with (folder / f"{figure.name}_curves.csv").open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(figure.curves[0])
            out.writerows([f"{x:.7g}" for x in row] for row in figure.curves[1])
    (folder / f"{figure.name}.svg").write_text(figure.picture, encoding="utf-8")


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table for the terminal; long titles take several lines."""
    body = [[_cell(cell) for cell in row] for row in rows]
    titles = [_broken(title) for title in head]
    tall = max(map(len, titles))
    lines = [[([""] * (tall - len(t)) + t)[k] for t in titles] for k in range(tall)] + body
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    left = [all(not c or not c[0].isdigit() for c in column) for column in zip(*body)]
    padded = (
        "  ".join(c.ljust(w) if a else c.rjust(w) for c, w, a in zip(line, widths, left)) for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 100 else f"{value:.4g}"
    return str(value)


def _broken(title: str, most: int = 14) -> list[str]:
    lines = [""]
    for word in title.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _distinct(head: Sequence[str]) -> list[str]:
    """Return unique titles; one that only continues the title before it takes its beginning."""
    found: list[str] = []
    start = ""
    for title in head:
        start = title.split(":")[0] if ":" in title else start
        found.append(title if title not in found else f"{start}: {title}")
    return [f"{title} ({k})" if found.index(title) != k else title for k, title in enumerate(found)]


def columns(
    rows: Iterable[Sequence[Any]], wanted: tuple[int, int], which: Callable[[Any], bool]
) -> tuple[list[Any], list[Any]]:
    """Return two columns of the selected rows that have both."""
    chosen = [row for row in rows if which(row) and all(row[k] is not None for k in wanted)]
    return [row[wanted[0]] for row in chosen], [row[wanted[1]] for row in chosen]
