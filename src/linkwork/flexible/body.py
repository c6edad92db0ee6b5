"""Flexible bodies: a rigid body with mode shapes and their integrals, and consistency checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import pi
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.integrals import Cloud
from linkwork.flexible.tabulated import integer
from linkwork.joints.deformation import Deformation, ModeShape
from linkwork.mechanism.names import printable
from linkwork.spatial import physical_problems
from linkwork.spatial.constants import frozen, set_frozen
from linkwork.spatial.modal import ModalIntegrals

SYMMETRY_TOL = 1e-9  # relative rounding error of data
LARGEST = 1e100  # products of larger numbers could overflow
INDEPENDENCE_TOL = 1e-6  # relative distance of a mode from rigid motions and other modes

Place = Callable[[np.ndarray], ModeShape]
"""Function from a point of the body, (3,) [m], to its modal displacement; ModelError outside the body."""


@dataclass(frozen=True, eq=False)
class FlexibleBody:
    """A body with small deformations in assumed modes, for `ModelBuilder.add_body(flexible=...)`.

    Mode shapes are relative to the frame of the body, which joints move, and must vanish at its origin.

    Parameters
    ----------
    name : str
        Name of the body.
    mass : float
        Mass [kg].
    center : array_like, shape (3,)
        Centre of mass of the undeformed body in its frame [m].
    inertia : array_like, shape (3, 3)
        Moment of inertia of the undeformed body about its centre of mass [kg m²].
    mode_names : sequence of str
        Names of the m modes.
    integrals : ModalIntegrals
        Mass integrals of the mode shapes.
    stiffness, damping : array_like, shape (m, m) or (m,)
        Modal stiffness and damping, or their diagonals.
    place : callable
        Function from a point, (3,) [m], to its `ModeShape`; it raises ModelError outside the body.
    size : array_like, shape (m,)
        Modal coordinates that deform the body by about a hundredth of its length; scale of random states.
    nodes : mapping of str to (float, float, float)
        Named points [m].
    """

    name: str
    mass: float
    center: np.ndarray
    inertia: np.ndarray
    mode_names: tuple[str, ...]
    integrals: ModalIntegrals
    stiffness: np.ndarray
    damping: np.ndarray
    place: Place
    size: np.ndarray
    nodes: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        label = f"flexible body {self.name!r}"
        if not isinstance(self.integrals, ModalIntegrals):
            raise ModelError(
                f"{label}: integrals: expected linkwork.spatial.modal.ModalIntegrals, got {self.integrals!r}"
            )
        if not callable(self.place):
            raise ModelError(
                f"{label}: place: expected a function from a point, (3,), to a ModeShape, got {self.place!r}"
            )
        set_frozen(self, "mass", float(checked(f"{label}: mass", self.mass, ())))
        m = self.integrals.modes
        set_frozen(self, "mode_names", _names(label, self.mode_names, m))
        for attribute in ("stiffness", "damping"):
            values = matrix(f"{label}: {attribute}", getattr(self, attribute), m)
            set_frozen(self, attribute, frozen(values))
        for attribute, shape in (("center", (3,)), ("inertia", (3, 3)), ("size", (m,))):
            set_frozen(
                self, attribute, frozen(checked(f"{label}: {attribute}", getattr(self, attribute), shape))
            )
        if (self.size <= 0.0).any():
            raise ModelError(f"{label}: size: expected positive numbers, got {self.size.min():g}")
        check(self)

    @property
    def modes(self) -> int:
        """Number of modes."""
        return len(self.mode_names)

    @property
    def frequencies(self) -> np.ndarray:
        """Natural frequencies [Hz], (m,), in these modes with the frame of the body fixed."""
        return fixed_frame_frequencies(self.integrals.mass, self.stiffness)

    @property
    def deformation(self) -> Deformation:
        """Joint whose coordinates are the modal coordinates."""
        off_diagonal = 1.0 - np.eye(self.modes)
        return Deformation(
            self.mode_names,
            self.integrals,
            self.size,
            off_diagonal * self.stiffness,
            off_diagonal * self.damping,
        )

    def with_modes(self, modes: Sequence[int]) -> FlexibleBody:
        """Return the body with the modes of these indices; without modes it is rigid."""
        if not isinstance(modes, Iterable):
            raise ModelError(
                f"flexible body {self.name!r}: modes: expected a sequence of indices, got {modes!r}"
            )
        indices = [integer(f"flexible body {self.name!r}: modes", j, 0, self.modes - 1) for j in modes]
        full = self.integrals
        pairs = np.ix_(indices, indices)

        def place(at: np.ndarray) -> ModeShape:
            modes_at = self.place(at)
            return ModeShape(modes_at.shape[:, indices], modes_at.slope[:, indices], modes_at.short[pairs])

        integrals = ModalIntegrals(
            full.first[indices],
            full.mixed[indices],
            full.second[pairs],
            full.short_first[pairs],
            full.short_mixed[pairs],
        )
        names = tuple(self.mode_names[j] for j in indices)
        return FlexibleBody(
            self.name, self.mass, self.center, self.inertia, names, integrals,
            self.stiffness[pairs], self.damping[pairs], place, self.size[indices], self.nodes,
        )  # fmt: skip


def fixed_frame_frequencies(mass: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """Return the natural frequencies [Hz] of modal mass and stiffness, ascending."""
    if not len(mass):
        return np.zeros(0)
    root = np.linalg.inv(np.linalg.cholesky(mass))
    return np.sqrt(np.maximum(np.linalg.eigvalsh(root @ stiffness @ root.T), 0.0)) / (2.0 * pi)


def checked(label: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of finite numbers with this shape; raise ModelError otherwise."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" and array.size:
            raise ValueError
        numbers = np.array(array, dtype=float)
    except (TypeError, ValueError):
        received = (
            f"an array of {values.dtype}" if isinstance(values, np.ndarray) else printable(repr(values))
        )
        raise ModelError(f"{label}: expected numbers of shape {shape}, got {received}") from None
    if numbers.shape != shape:
        raise ModelError(f"{label}: expected shape {shape}, got {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ModelError(f"{label}: expected finite numbers")
    if np.abs(numbers).max(initial=0.0) > LARGEST:
        raise ModelError(f"{label}: expected numbers of at most {LARGEST:g}, got {np.abs(numbers).max():g}")
    return numbers


def _names(label: str, names: Any, m: int) -> tuple[str, ...]:
    """Return the names of m modes."""
    mode_names = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if (m and not mode_names) or not all(isinstance(name, str) and name for name in mode_names):
        raise ModelError(f"{label}: mode_names: expected non-empty strings, got {names!r}")
    if len(mode_names) != m:
        raise ModelError(f"{label}: mode_names: expected {m} names, got {len(mode_names)}")
    if len(set(mode_names)) < m:
        raise ModelError(f"{label}: mode_names: expected distinct names, got {', '.join(mode_names)}")
    return mode_names


def matrix(label: str, values: Any, m: int) -> np.ndarray:
    """Return a symmetric matrix, (m, m), from a matrix or its diagonal, (m,)."""
    is_diagonal = np.ndim(values) == 1
    array = checked(label, values, (m,) if is_diagonal else (m, m))
    if is_diagonal:
        return np.diag(array)
    if m and np.abs(array - array.T).max() > SYMMETRY_TOL * np.abs(array).max():
        raise ModelError(f"{label}: expected a symmetric matrix")
    return 0.5 * (array + array.T)


def check(body: FlexibleBody) -> None:
    """Raise ModelError for a physically inconsistent flexible body."""
    label = f"flexible body {body.name!r}"
    integrals = body.integrals
    problems = physical_problems(body.mass, body.inertia)
    if problems or body.mass <= 0.0:
        raise ModelError(
            f"{label}: {'; '.join(problems) or f'mass: expected a positive number, got {body.mass:g} kg'}"
        )
    if not body.modes:
        return
    if (
        np.abs(integrals.second - integrals.second.transpose(1, 0, 3, 2)).max()
        > SYMMETRY_TOL * np.abs(integrals.second).max()
    ):
        raise ModelError(
            f"{label}: integrals.second: expected ∫φ_j φ_kᵀ dm to be the transpose of ∫φ_k φ_jᵀ dm"
        )
    _check_modes(label, body, np.diag(integrals.mass))
    eigenvalues = np.linalg.eigvalsh(body.stiffness)
    if np.diag(body.stiffness).min() <= 0.0 or eigenvalues[0] <= 0.0:
        j = int(np.argmin(np.diag(body.stiffness)))
        raise ModelError(
            f"{label}: stiffness: expected a positive definite matrix, but "
            f"mode {body.mode_names[j]!r} has {body.stiffness[j, j]:g}"
            + ("" if body.stiffness[j, j] <= 0.0 else f" and a combination of modes {eigenvalues[0]:g}")
        )
    if np.linalg.eigvalsh(body.damping)[0] < -SYMMETRY_TOL * np.abs(body.damping).max():
        raise ModelError(f"{label}: damping: expected a positive semidefinite matrix")


def _check_modes(label: str, body: FlexibleBody, squares: np.ndarray) -> None:
    """Raise ModelError unless modes have mass, are independent of each other and of rigid motions.

    All integrals must also be those of one mass distribution.
    """
    integrals = body.integrals
    names = body.mode_names
    for name, square in zip(names, squares):
        if square <= 0.0:
            raise ModelError(f"{label}: mode {name!r}: expected a positive modal mass, got {square:g}")
    cloud = Cloud.gram(body.mass, body.center, body.inertia, integrals)
    motions = Cloud.motions(cloud, integrals.modes)  # of six rigid motions and the modes
    smallest = min(_least_eigenvalue(cloud, body.inertia), _scaled_least(motions))
    if smallest < -1e-7:
        raise ModelError(
            f"{label}: inconsistent integrals: no mass distribution has these `first`, `mixed` and `second` "
            f"moments (their Gram matrix has the eigenvalue {smallest:.3g})"
        )
    rigid = motions[:6, :6]
    modal = motions[6:, 6:]
    flexible = modal - motions[6:, :6] @ np.linalg.pinv(rigid, rcond=1e-12) @ motions[:6, 6:]
    for j, name in enumerate(names):
        if flexible[j, j] < INDEPENDENCE_TOL**2 * modal[j, j]:
            raise ModelError(
                f"{label}: mode {name!r} is a rigid motion: remove it, since joints move the body's frame"
            )
    size = np.sqrt(np.maximum(np.diag(flexible), 1e-300))
    values, vectors = np.linalg.eigh(flexible / np.outer(size, size))
    if values[0] < INDEPENDENCE_TOL**2:
        dependent = [names[j] for j in np.flatnonzero(np.abs(vectors[:, 0]) > 0.1)]
        raise ModelError(
            f"{label}: dependent modes: {', '.join(map(repr, dependent))} combine to a rigid motion"
        )


def _least_eigenvalue(gram: np.ndarray, inertia: np.ndarray) -> float:
    """Return the least eigenvalue of a Gram matrix scaled to a unit diagonal; non-negative if consistent.

    Thin beams are consistent too: without rotary inertia of their sections, the second moment along their
    axis is smaller than that of mass points, by half of their moment of inertia about it.
    """
    candidates = [_scaled_least(gram)]
    for moment, axis in zip(*(x.T for x in np.linalg.eigh(inertia))):
        thin = gram.copy()
        thin[1:4, 1:4] += 0.5 * moment * np.outer(axis, axis)
        candidates.append(_scaled_least(thin))
    return max(candidates)


def _scaled_least(gram: np.ndarray) -> float:
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    return float(np.linalg.eigvalsh(gram / np.outer(scale, scale))[0])
