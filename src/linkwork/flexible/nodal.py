"""Flexible bodies from the nodes of a finite-element model: masses, mode shapes and stiffness at points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody, checked, matrix
from linkwork.flexible.given import rayleigh_factors
from linkwork.flexible.integrals import Cloud
from linkwork.joints.deformation import ModeShape
from linkwork.parts.checks import check_name
from linkwork.parts.names import some
from linkwork.spatial.constants import length

NEAR = 1e-6  # of the body's size: how far from a node a place may be
NORMALISATIONS = ("mass", "none")
USUAL = 0.01  # of the body's size: by how much random states deform it


class Nodes:
    """Named places with shapes and slopes, (3, m), and foreshortening, (m, m, 3), at each."""

    def __init__(
        self, names: Sequence[str], points: np.ndarray, shapes: np.ndarray, slopes: np.ndarray, short: np.ndarray | None = None
    ) -> None:
        self.names, self.points, self.shapes, self.slopes = tuple(names), points, shapes, slopes
        m = shapes.shape[2]
        self.short = np.zeros((len(points), m, m, 3)) if short is None else short
        self.length = float(length(np.ptp(points, axis=0))) if len(points) else 0.0

    def place(self, what: str, at: np.ndarray) -> ModeShape:
        """What modes do at the node that is at a place; an error where none is. Nothing moves at the frame's origin."""
        if np.abs(at).max() <= NEAR * self.length:
            m = self.shapes.shape[2]
            return ModeShape(np.zeros((3, m)), np.zeros((3, m)), np.zeros((m, m, 3)))
        away = np.linalg.norm(self.points - at, axis=1)
        n = int(np.argmin(away)) if len(away) else -1
        if n >= 0 and away[n] <= NEAR * self.length:
            for other in np.flatnonzero(away <= NEAR * self.length):
                if not all(np.array_equal(x[n], x[other]) for x in (self.shapes, self.slopes, self.short)):
                    names = f"{self.names[n]!r} and {self.names[other]!r}"
                    raise ModelError(f"two nodes of {what}, {names}, are at one place, but modes move them differently")
            return ModeShape(self.shapes[n], self.slopes[n], self.short[n])
        where = ", ".join(f"{x:g}" for x in at)
        nearest = "" if n < 0 else f"; the nearest is {self.names[n]!r} at ({', '.join(f'{x:g}' for x in self.points[n])})"
        raise ModelError(f"no node of {what} is at ({where}){nearest}")

    def sizes(self) -> np.ndarray:
        """Modal coordinates that deform the body a little."""
        x, y, z = np.moveaxis(self.shapes * self.shapes, 1, 0)
        largest = np.sqrt(x + y + z).max(axis=0, initial=0.0)
        return USUAL * (self.length or 1.0) / np.where(largest > 0.0, largest, 1.0)

    def named(self) -> dict[str, tuple[float, float, float]]:
        """The places by name."""
        found = [tuple(map(float, point)) for point in self.points]
        return dict(zip(self.names, found))  # type: ignore[arg-type]


def from_nodes(
    name: str,
    *,
    points: Any,
    masses: Any,
    shapes: Any,
    stiffness: Any,
    slopes: Any = None,
    damping: Any = None,
    rayleigh: Sequence[float] = (0.0, 0.0),
    names: Sequence[str] | None = None,
    mode_names: Sequence[str] | None = None,
    normalisation: str = "none",
) -> FlexibleBody:
    """A flexible body from n nodes of a finite-element model, in the body's frame.

    `points` [m], (n, 3); `masses` [kg], (n,), lumped at them; mode `shapes`, (n, 3, m), relative to the body's frame, which
    must vanish at its origin if a node is there; `slopes` [rad], (n, 3, m), zero if not given; modal `stiffness`, (m, m) or
    (m,); modal `damping` likewise, or `rayleigh` = (α, β). `normalisation` "mass" says that modal masses are one.
    """
    check_name("flexible body", name)
    what = f"flexible body {name!r}"
    for word, values, wanted in (("points", points, ("nodes", 3)), ("shapes", shapes, ("nodes", 3, "modes"))):
        if _dimensions(values) != len(wanted):
            raise ModelError(f"{what}: {word} must be numbers of shape ({', '.join(map(str, wanted))})")
    at, shape = checked(f"{what}: points", points, (len(points), 3)), np.shape(shapes)
    n = len(at)
    m = shape[2]
    phi = checked(f"{what}: shapes", shapes, (n, 3, m))
    turned = np.zeros((n, 3, m)) if slopes is None else checked(f"{what}: slopes", slopes, (n, 3, m))
    lumped = checked(f"{what}: masses", masses, (n,))
    if (lumped < 0.0).any() or not lumped.any():
        raise ModelError(f"{what}: masses must not be negative, and not all zero")
    cloud = Cloud(lumped, at, phi, np.zeros((n, m, m, 3)))
    labels = [f"node{k + 1}" for k in range(n)] if names is None else list(names) if isinstance(names, Sequence) else []
    if len(labels) != n or len(set(labels)) != n or not all(isinstance(label, str) for label in labels):
        raise ModelError(f"{what}: names must be {n} different names of its nodes")
    nodes = Nodes(labels, at, phi, turned)
    check_origin(what, nodes)
    integrals = cloud.integrals()
    check_normalised(what, normalisation, integrals.mass)
    alpha, beta = rayleigh_factors(what, rayleigh)
    if damping is not None and (alpha or beta):
        raise ModelError(f"{what}: give its damping, or rayleigh, not both")
    K = matrix(f"{what}: stiffness", stiffness, m)
    D = alpha * integrals.mass + beta * K if damping is None else damping
    modes: Any = tuple(f"mode{j + 1}" for j in range(m)) if mode_names is None else mode_names
    return FlexibleBody(name, *cloud.rigid(), modes, integrals, K, D, Placing(what, nodes), nodes.sizes(), nodes.named())


def _dimensions(values: Any) -> int | None:
    """How many dimensions an array has; None where it is ragged."""
    try:
        return np.ndim(values)
    except ValueError:
        return None


class Placing:
    """Places on a body with nodes."""

    def __init__(self, what: str, nodes: Nodes) -> None:
        self.what, self.nodes = what, nodes

    def __call__(self, at: np.ndarray) -> ModeShape:
        return self.nodes.place(self.what, at)


def check_origin(what: str, nodes: Nodes) -> None:
    """That modes are relative to the frame that a joint holds."""
    for name, point, shape, slope in zip(nodes.names, nodes.points, nodes.shapes, nodes.slopes):
        if np.abs(point).max() > NEAR * nodes.length:
            continue
        moved = np.abs(shape).max(initial=0.0) / max(float(np.abs(nodes.shapes).max(initial=0.0)), 1e-300)
        turned = np.abs(slope).max(initial=0.0) / max(float(np.abs(nodes.slopes).max(initial=0.0)), 1e-300)
        if max(moved, turned) > 1e-9:
            raise ModelError(
                f"{what}: its modes move node {name!r} at the origin of its frame, which joints hold: subtract from each mode "
                "the rigid motion that this node has"
            )


def check_normalised(what: str, normalisation: Any, mass: np.ndarray) -> None:
    """That modal masses are as it is said."""
    if normalisation not in NORMALISATIONS:
        raise ModelError(f"{what}: normalisation must be one of {some(NORMALISATIONS)}, not {normalisation!r}")
    if normalisation == "mass" and len(mass):
        off = np.abs(mass - np.eye(len(mass)))
        if off.max() > 1e-6:
            j, k = np.unravel_index(int(np.argmax(off)), off.shape)
            raise ModelError(
                f"{what}: its modes are not normalised by mass as it says: ∫φ_{j + 1} · φ_{k + 1} dm is {mass[j, k]:.6g}, "
                f"not {float(j == k):g}"
            )
