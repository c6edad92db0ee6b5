"""Checks of the dimensions and coefficients of shapes in contact."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any

from linkwork.contact.hull_faces import hull_faces
from linkwork.errors import LimitError, ModelError
from linkwork.mechanism import Geometry

SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3, "heightfield": 2}
POSITIVE = ("ellipsoid", "heightfield")
MAX_HULL_CORNERS = 64  # of a hull
CONDIM = (1, 3, 4, 6)
MAX_HEIGHTS = 4096  # of a height field: each takes about two operations a candidate


def checked_shape(shape: Geometry) -> Geometry:
    """Return the shape; raise if its numbers are impossible for such a shape, or too many."""
    label = f"Contacts: shape {shape.name!r}, a {shape.shape},"
    above = shape.shape in POSITIVE
    if shape.shape in SIZES and (
        len(shape.size) != SIZES[shape.shape]
        or not all(_real(x) and (x > 0.0 if above else x >= 0.0) for x in shape.size)
    ):
        count = SIZES[shape.shape]
        numbers = f"{count} numbers" if count > 1 else "1 number"
        least = "above zero" if above else "not negative"
        raise ModelError(f"{label[:-1]}: expected {numbers} in `size` that are {least}, got {shape.size}")
    check_coefficients(f"Contacts: shape {shape.name!r}:", shape.friction, 3, shape.condim, shape.margin)
    if shape.shape == "hull":
        _table(f"{label} vertices", shape.vertices, 4, 3)
        if len(shape.vertices) > MAX_HULL_CORNERS:
            raise LimitError(
                f"{label}: expected at most {MAX_HULL_CORNERS} corners, got {len(shape.vertices)}; "
                "lw.hull_corners selects fewer"
            )
        if not hull_faces(shape.vertices):
            raise ModelError(f"{label} vertices: expected points that are not all on one line")
    if shape.shape == "heightfield":
        _table(f"{label} heights", shape.heights, 2, None)
        if len(shape.heights) * len(shape.heights[0]) > MAX_HEIGHTS:
            raise LimitError(
                f"{label} has more than {MAX_HEIGHTS} heights: give a coarser grid, or only the part that is "
                "walked on"
            )
    return shape


def check_coefficients(label: str, friction: Sequence[Any], most: int, condim: Any, margin: Any) -> None:
    """Raise if coefficients of friction, the dimension of contact or the margin are invalid."""
    if len(friction) > most or not all(_real(x) and x >= 0.0 for x in friction):
        raise ModelError(f"{label} friction: expected 1 to {most} non-negative numbers, got {friction}")
    if condim not in CONDIM:
        raise ModelError(f"{label} condim: expected one of {', '.join(map(str, CONDIM))}, got {condim!r}")
    if not _real(margin):
        raise ModelError(f"{label} margin: expected a number [m], got {margin!r}")


def _real(x: Any) -> bool:
    return isinstance(x, Real) and isfinite(x)


def _table(label: str, rows: tuple[tuple[float, ...], ...], least: int, columns: int | None) -> None:
    wide = columns or (len(rows[0]) if rows else 0)
    if len(rows) < least or wide < 2 or any(len(row) != wide or not all(map(isfinite, row)) for row in rows):
        size = f"({least} or more, {columns or '2 or more'})"
        raise ModelError(f"{label}: expected finite numbers of shape {size}")
