"""Flexible bodies as data: a rigid body, mode shapes and their integrals, and what is checked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import pi
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible.given import whole
from linkwork.flexible.integrals import Cloud
from linkwork.joints.deformation import Deformation, ModeShape
from linkwork.parts.names import shown
from linkwork.spatial import physical_problems
from linkwork.spatial.constants import frozen, put
from linkwork.spatial.modal import ModalIntegrals

SAME = 1e-9  # relative: what rounding may have done to data
LARGEST = 1e100  # products of larger numbers could overflow
RIGID = 1e-6  # relative distance of a mode from all rigid motions, or of a mode from the others, below which it counts as one

Place = Callable[[np.ndarray], ModeShape]
"""A place on the body, (3,) [m], to what modes do there; ModelError where that is not on the body."""


@dataclass(frozen=True, eq=False)
class FlexibleBody:
    """A body that deforms a little, in assumed modes: `ModelBuilder.add_body(flexible=...)` takes it.

    `mass` [kg], `center` of mass [m] and moment of `inertia` about it [kg m²], (3, 3), are those of the body where it is not
    deformed, in its own frame. Its m modes have names, `integrals`, and `stiffness` and `damping`, (m, m), or (m,) if they are
    diagonal. `place` says how a point of it moves. Shapes are those relative to its frame, which a joint holds: they must
    vanish at its origin. `size`, (m,), are modal coordinates that deform it by about a hundredth of its length. `nodes`
    names places on it [m].
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
        what = f"flexible body {self.name!r}"
        if not isinstance(self.integrals, ModalIntegrals):
            raise ModelError(f"{what}: integrals must be linkwork.spatial.modal.ModalIntegrals, not {self.integrals!r}")
        if not callable(self.place):
            raise ModelError(f"{what}: place must be a function of a point, (3,), that returns a ModeShape, not {self.place!r}")
        put(self, "mass", float(checked(f"{what}: mass", self.mass, ())))
        m = self.integrals.modes
        put(self, "mode_names", _names(what, self.mode_names, m))
        for word in ("stiffness", "damping"):
            given = matrix(f"{what}: {word}", getattr(self, word), m)
            put(self, word, frozen(given))
        for word, shape in (("center", (3,)), ("inertia", (3, 3)), ("size", (m,))):
            put(self, word, frozen(checked(f"{what}: {word}", getattr(self, word), shape)))
        if (self.size <= 0.0).any():
            raise ModelError(f"{what}: size must be numbers above zero, not {self.size.min():g}")
        check(self)

    @property
    def modes(self) -> int:
        """How many there are."""
        return len(self.mode_names)

    @property
    def frequencies(self) -> np.ndarray:
        """The natural frequencies [Hz], (m,), of the body whose frame is held, in these modes."""
        return held_frequencies(self.integrals.mass, self.stiffness)

    @property
    def deformation(self) -> Deformation:
        """Its modal coordinates as a joint."""
        off = 1.0 - np.eye(self.modes)
        return Deformation(self.mode_names, self.integrals, self.size, off * self.stiffness, off * self.damping)

    def with_modes(self, modes: Sequence[int]) -> FlexibleBody:
        """The same body with some of its modes, by their places; with none it is rigid."""
        if not isinstance(modes, Iterable):
            raise ModelError(f"flexible body {self.name!r}: modes are chosen by numbers in a sequence, not {modes!r}")
        chosen = [whole(f"flexible body {self.name!r}: modes are chosen by numbers", j, 0, self.modes - 1) for j in modes]
        of, pairs = self.integrals, np.ix_(chosen, chosen)

        def place(at: np.ndarray) -> ModeShape:
            every = self.place(at)
            return ModeShape(every.shape[:, chosen], every.slope[:, chosen], every.short[pairs])

        integrals = ModalIntegrals(
            of.first[chosen], of.mixed[chosen], of.second[pairs], of.short_first[pairs], of.short_mixed[pairs]
        )
        names = tuple(self.mode_names[j] for j in chosen)
        return FlexibleBody(
            self.name, self.mass, self.center, self.inertia, names, integrals,
            self.stiffness[pairs], self.damping[pairs], place, self.size[chosen], self.nodes,
        )  # fmt: skip


def held_frequencies(mass: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """√eigenvalues of stiffness relative to mass [Hz], in rising order."""
    if not len(mass):
        return np.zeros(0)
    root = np.linalg.inv(np.linalg.cholesky(mass))
    return np.sqrt(np.maximum(np.linalg.eigvalsh(root @ stiffness @ root.T), 0.0)) / (2.0 * pi)


def checked(what: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of a shape."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "iuf" and given.size:
            raise ValueError
        found = np.array(given, dtype=float)
    except (TypeError, ValueError):
        said = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else shown(repr(values))
        raise ModelError(f"{what} must be numbers of shape {shape}, not {said}") from None
    if found.shape != shape:
        raise ModelError(f"{what} must have shape {shape}, not {found.shape}")
    if not np.isfinite(found).all():
        raise ModelError(f"{what} must be finite")
    if np.abs(found).max(initial=0.0) > LARGEST:
        raise ModelError(f"{what} must not be larger than {LARGEST:g}, but has {np.abs(found).max():g}")
    return found


def _names(what: str, names: Any, m: int) -> tuple[str, ...]:
    """The names of m modes."""
    found = () if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if (m and not found) or not all(isinstance(name, str) and name for name in found):
        raise ModelError(f"{what}: mode_names must be texts that are not empty, not {names!r}")
    if len(found) != m:
        raise ModelError(f"{what} has {m} modes, but {len(found)} mode_names")
    if len(set(found)) < m:
        raise ModelError(f"{what}: two of its modes have the same name: {', '.join(found)}")
    return found


def matrix(what: str, values: Any, m: int) -> np.ndarray:
    """A symmetric matrix, (m, m), from one, or from its diagonal, (m,)."""
    alone = np.ndim(values) == 1
    found = checked(what, values, (m,) if alone else (m, m))
    if alone:
        return np.diag(found)
    if m and np.abs(found - found.T).max() > SAME * np.abs(found).max():
        raise ModelError(f"{what} must be symmetric")
    return 0.5 * (found + found.T)


def check(body: FlexibleBody) -> None:
    """That a flexible body is one that can exist: one clear sentence for what cannot."""
    what, of = f"flexible body {body.name!r}", body.integrals
    problems = physical_problems(body.mass, body.inertia)
    if problems or body.mass <= 0.0:
        raise ModelError(f"{what}: {'; '.join(problems) or f'its mass must be above zero, not {body.mass:g} kg'}")
    if not body.modes:
        return
    if np.abs(of.second - of.second.transpose(1, 0, 3, 2)).max() > SAME * np.abs(of.second).max():
        raise ModelError(f"{what}: its integrals `second` must be symmetric: ∫φ_j φ_kᵀ dm is the transpose of ∫φ_k φ_jᵀ dm")
    _check_modes(what, body, np.diag(of.mass))
    least = np.linalg.eigvalsh(body.stiffness)
    if np.diag(body.stiffness).min() <= 0.0 or least[0] <= 0.0:
        j = int(np.argmin(np.diag(body.stiffness)))
        raise ModelError(
            f"{what}: its modal stiffness must be positive definite, but "
            f"mode {body.mode_names[j]!r} has {body.stiffness[j, j]:g}"
            + ("" if body.stiffness[j, j] <= 0.0 else f" and a combination of modes {least[0]:g}")
        )
    if np.linalg.eigvalsh(body.damping)[0] < -SAME * np.abs(body.damping).max():
        raise ModelError(f"{what}: its modal damping must not be negative: it would drive the motion")


def _check_modes(what: str, body: FlexibleBody, squares: np.ndarray) -> None:
    """That modes have mass, are not rigid motions, and are independent; and that all integrals can be of one body."""
    of, names = body.integrals, body.mode_names
    for name, square in zip(names, squares):
        if square <= 0.0:
            raise ModelError(f"{what}: mode {name!r} has the modal mass {square:g}, which must be above zero")
    cloud = Cloud.gram(body.mass, body.center, body.inertia, of)
    scale = np.sqrt(np.maximum(np.diag(cloud), 1e-300))
    unit = cloud / np.outer(scale, scale)
    least = float(np.linalg.eigvalsh(unit)[0])
    if least < -1e-7:
        raise ModelError(
            f"{what}: its integrals are not consistent: no distribution of mass has these `first`, `mixed` and `second` "
            f"moments of its modes together (their Gram matrix has the eigenvalue {least:.3g})"
        )
    motions = Cloud.motions(cloud, of.modes)  # of six rigid motions and the modes
    rigid, modal = motions[:6, :6], motions[6:, 6:]
    left = modal - motions[6:, :6] @ np.linalg.pinv(rigid, rcond=1e-12) @ motions[:6, 6:]
    for j, name in enumerate(names):
        if left[j, j] < RIGID**2 * modal[j, j]:
            raise ModelError(f"{what}: mode {name!r} is a rigid motion: leave it out, joints move the body's frame")
    size = np.sqrt(np.maximum(np.diag(left), 1e-300))
    values, vectors = np.linalg.eigh(left / np.outer(size, size))
    if values[0] < RIGID**2:
        some = [names[j] for j in np.flatnonzero(np.abs(vectors[:, 0]) > 0.1)]
        raise ModelError(
            f"{what}: its modes are not independent: {', '.join(map(repr, some))} and rigid motions add up to nothing"
        )
