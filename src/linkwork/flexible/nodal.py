"""Flexible bodies from finite-element nodes: masses, mode shapes and stiffness at points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.body import FlexibleBody, checked, matrix
from linkwork.flexible.integrals import Cloud
from linkwork.flexible.tabulated import rayleigh_factors
from linkwork.joints.deformation import ModeShape
from linkwork.mechanism.checks import check_name
from linkwork.mechanism.names import join_names
from linkwork.spatial.constants import length

NODE_TOL = 1e-6  # distance of a point from its node, relative to the body's size
NORMALISATIONS = ("mass", "none")
RANDOM_DEFORMATION = 0.01  # of random states, relative to the body's size


class Nodes:
    """Named points with shapes and slopes, (3, m), and foreshortening, (m, m, 3), at each."""

    def __init__(
        self,
        names: Sequence[str],
        points: np.ndarray,
        shapes: np.ndarray,
        slopes: np.ndarray,
        short: np.ndarray | None = None,
    ) -> None:
        self.names = tuple(names)
        self.points = points
        self.shapes = shapes
        self.slopes = slopes
        m = shapes.shape[2]
        self.short = np.zeros((len(points), m, m, 3)) if short is None else short
        self.length = float(length(np.ptp(points, axis=0))) if len(points) else 0.0

    def place(self, label: str, point: np.ndarray) -> ModeShape:
        """Return the modal displacement of the node at a point; raise ModelError if there is none.

        The frame's origin does not move.
        """
        if np.abs(point).max() <= NODE_TOL * self.length:
            m = self.shapes.shape[2]
            return ModeShape(np.zeros((3, m)), np.zeros((3, m)), np.zeros((m, m, 3)))
        distances = np.linalg.norm(self.points - point, axis=1)
        n = int(np.argmin(distances)) if len(distances) else -1
        if n >= 0 and distances[n] <= NODE_TOL * self.length:
            for second in np.flatnonzero(distances <= NODE_TOL * self.length):
                if not all(np.array_equal(x[n], x[second]) for x in (self.shapes, self.slopes, self.short)):
                    names = f"{self.names[n]!r} and {self.names[second]!r}"
                    raise ModelError(
                        f"{label}: nodes {names} are at one point, but modes move them differently"
                    )
            return ModeShape(self.shapes[n], self.slopes[n], self.short[n])
        coordinates = ", ".join(f"{x:g}" for x in point)
        nearest = (
            ""
            if n < 0
            else f"; the nearest is {self.names[n]!r} at ({', '.join(f'{x:g}' for x in self.points[n])})"
        )
        raise ModelError(f"{label}: no node at ({coordinates}){nearest}")

    def sizes(self) -> np.ndarray:
        """Return modal coordinates of a small deformation, (m,)."""
        x, y, z = np.moveaxis(self.shapes * self.shapes, 1, 0)
        largest = np.sqrt(x + y + z).max(axis=0, initial=0.0)
        return RANDOM_DEFORMATION * (self.length or 1.0) / np.where(largest > 0.0, largest, 1.0)

    def named(self) -> dict[str, tuple[float, float, float]]:
        """Return the points by name."""
        points = [tuple(map(float, point)) for point in self.points]
        return dict(zip(self.names, points))  # type: ignore[arg-type]


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
    """Return a flexible body from n nodes of a finite-element model, in the body's frame.

    Parameters
    ----------
    name : str
        Name of the body.
    points : array_like, shape (n, 3)
        Positions of the nodes [m].
    masses : array_like, shape (n,)
        Lumped masses [kg].
    shapes : array_like, shape (n, 3, m)
        Mode shapes relative to the body's frame; they must vanish at its origin if a node is there.
    stiffness : array_like, shape (m, m) or (m,)
        Modal stiffness, or its diagonal.
    slopes : array_like, shape (n, 3, m), optional
        Rotations of the nodes [rad] per unit of modal coordinates. Default zero.
    damping : array_like, shape (m, m) or (m,), optional
        Modal damping, or its diagonal.
    rayleigh : (float, float), optional
        Factors (α, β) of the damping α mass + β stiffness, instead of `damping`.
    names, mode_names : sequence of str, optional
        Names of nodes and modes.
    normalisation : {"none", "mass"}, optional
        "mass" checks that the modal mass matrix is the identity.

    Returns
    -------
    FlexibleBody
        The body, for `ModelBuilder.add_body(flexible=...)`.

    Raises
    ------
    ModelError
        If the data are not those of a flexible body.
    """
    check_name("flexible body", name)
    label = f"flexible body {name!r}"
    for parameter, values, dimensions in (
        ("points", points, ("nodes", 3)),
        ("shapes", shapes, ("nodes", 3, "modes")),
    ):
        if _dimensions(values) != len(dimensions):
            raise ModelError(f"{label}: {parameter}: expected shape ({', '.join(map(str, dimensions))})")
    point_values = checked(f"{label}: points", points, (len(points), 3))
    shape = np.shape(shapes)
    n = len(point_values)
    m = shape[2]
    phi = checked(f"{label}: shapes", shapes, (n, 3, m))
    slope_values = np.zeros((n, 3, m)) if slopes is None else checked(f"{label}: slopes", slopes, (n, 3, m))
    mass_values = checked(f"{label}: masses", masses, (n,))
    if (mass_values < 0.0).any() or not mass_values.any():
        raise ModelError(f"{label}: masses: expected non-negative numbers, not all zero")
    cloud = Cloud(mass_values, point_values, phi, np.zeros((n, m, m, 3)))
    labels = (
        [f"node{k + 1}" for k in range(n)]
        if names is None
        else list(names)
        if isinstance(names, Sequence)
        else []
    )
    if len(labels) != n or len(set(labels)) != n or not all(isinstance(node, str) for node in labels):
        raise ModelError(f"{label}: names: expected {n} distinct names of nodes")
    nodes = Nodes(labels, point_values, phi, slope_values)
    check_origin(label, nodes)
    integrals = cloud.integrals()
    check_normalised(label, normalisation, integrals.mass)
    alpha, beta = rayleigh_factors(label, rayleigh)
    if damping is not None and (alpha or beta):
        raise ModelError(f"{label}: expected damping or rayleigh, got both")
    K = matrix(f"{label}: stiffness", stiffness, m)
    D = alpha * integrals.mass + beta * K if damping is None else damping
    modes: Any = tuple(f"mode{j + 1}" for j in range(m)) if mode_names is None else mode_names
    return FlexibleBody(
        name, *cloud.rigid(), modes, integrals, K, D, Placing(label, nodes), nodes.sizes(), nodes.named()
    )


def _dimensions(values: Any) -> int | None:
    """Return the number of dimensions of an array; None if it is ragged."""
    try:
        return np.ndim(values)
    except ValueError:
        return None


class Placing:
    """The displacement of points of a body with nodes."""

    def __init__(self, label: str, nodes: Nodes) -> None:
        self.label = label
        self.nodes = nodes

    def __call__(self, at: np.ndarray) -> ModeShape:
        return self.nodes.place(self.label, at)


def check_origin(label: str, nodes: Nodes) -> None:
    """Raise ModelError unless modes vanish at the origin of the body's frame."""
    for name, point, shape, slope in zip(nodes.names, nodes.points, nodes.shapes, nodes.slopes):
        if np.abs(point).max() > NODE_TOL * nodes.length:
            continue
        moved = np.abs(shape).max(initial=0.0) / max(float(np.abs(nodes.shapes).max(initial=0.0)), 1e-300)
        turned = np.abs(slope).max(initial=0.0) / max(float(np.abs(nodes.slopes).max(initial=0.0)), 1e-300)
        if max(moved, turned) > 1e-9:
            raise ModelError(
                f"{label}: modes move node {name!r} at the origin of the frame: subtract the rigid motion "
                "of this node from each mode"
            )


def check_normalised(label: str, normalisation: Any, mass: np.ndarray) -> None:
    """Raise ModelError if modal masses contradict the given normalization."""
    if normalisation not in NORMALISATIONS:
        raise ModelError(
            f"{label}: normalisation: expected one of {join_names(NORMALISATIONS)}; got {normalisation!r}"
        )
    if normalisation == "mass" and len(mass):
        error = np.abs(mass - np.eye(len(mass)))
        if error.max() > 1e-6:
            j, k = np.unravel_index(int(np.argmax(error)), error.shape)
            raise ModelError(
                f"{label}: modes are not normalized by mass: expected ∫φ_{j + 1} · φ_{k + 1} dm = "
                f"{float(j == k):g}, got {mass[j, k]:.6g}"
            )
