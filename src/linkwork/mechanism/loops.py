"""Loop constraints: loop joints, couplings and implicit constraints behind one interface.

An equation φ(q) = 0 becomes K v = 0 and K v̇ = k for the velocities v of a cluster's joints (Loops Eq. 2).
Embedded and constrained loops use the same classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, final

import numpy as np

from linkwork.compiler.ir.functions import absolute, maximum, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.joints import Joint
from linkwork.joints.closure import ClosingError, Row, gap
from linkwork.lazy import cached_property
from linkwork.mechanism.checks import frozen_joint
from linkwork.mechanism.tree import PlacedJoint
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product, set_frozen


@dataclass(frozen=True)
class End:
    """A frame on a body to which a loop joint is attached."""

    body: int  # index of a body, or GROUND
    place: Pose

    def __post_init__(self) -> None:
        set_frozen(self, "place", self.place.frozen())


class Drift(NamedTuple):
    """Velocities w, v and bias accelerations dw, dv of a point of a frame, (3,) each.

    Bias (velocity-product) accelerations are those without joint accelerations.
    """

    w: np.ndarray
    v: np.ndarray
    dw: np.ndarray
    dv: np.ndarray


class Posture(Protocol):
    """The configuration of bodies in loops: `width` velocities, in `columns` by joint."""

    width: int

    @property
    def columns(self) -> Mapping[int, slice]: ...
    def joint(self, k: int) -> PlacedJoint: ...
    def q(self, k: int) -> np.ndarray: ...
    def frame(self, end: End) -> Pose: ...
    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def relative_velocity(
        self, end: End, seen_from: End, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]: ...


class Speeds(Protocol):
    """The velocities `v` of the joints, and the motion of loop frames that they cause."""

    v: np.ndarray

    def drift(self, end: End, at: np.ndarray) -> Drift: ...


class LoopConstraint(ABC):
    """Equations φ(q) = 0 between bodies or joints of the spanning tree, as a frozen value."""

    name: str
    linear: ClassVar[bool] = False  # K is constant and k zero

    @property
    @abstractmethod
    def bodies(self) -> tuple[int, ...]:
        """Indices of the constrained bodies; GROUND may be among them."""

    @property
    def ends(self) -> tuple[End, ...]:
        """The constrained frames on bodies; empty if joint coordinates are constrained."""
        return ()

    @property
    def constrains(self) -> bool:
        """True if it removes degrees of freedom."""
        return True

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Constant coefficients of joint velocities, of linear couplings; otherwise empty."""
        return ()

    def with_independent_rows(
        self, rows: tuple[int, ...] | None, slack: tuple[float, ...] = ()
    ) -> LoopConstraint:
        """Return a copy whose constraint forces use only some equations; None for all.

        Only loop joints can select equations; others return themselves. `slack`, (count,) [m or rad], bounds
        the residuals of equations whose numbers are rounded.
        """
        return self

    @abstractmethod
    def count(self, joints: Sequence[PlacedJoint]) -> int:
        """Return the number of equations in a model with these joints."""

    @abstractmethod
    def residual(self, posture: Posture) -> np.ndarray:
        """Return φ, zero where the constraint is satisfied, (count,) [m or rad]."""

    def gap(self, posture: Posture) -> tuple[Any, Any]:
        """Return the gap as distance [m] and angle [rad or own unit], over numbers or symbols."""
        largest: Any = 0.0
        total: Any = 0.0
        sizes = [absolute(x) for x in self.residual(posture)]
        for size in sizes:
            largest = maximum(largest, size)
            total = total + size
        # NaN does not outlast the next maximum
        return 0.0, where(total < np.inf, largest, total) if len(sizes) > 1 else largest

    def flipped_axes(self, posture: Posture) -> list[Any]:
        """Return numbers that are positive for shared axes that are flipped.

        A flipped axis is another assembly mode, although φ = 0 holds.
        """
        return []

    def closing_error(self, posture: Posture) -> tuple[np.ndarray, np.ndarray]:
        """Return the closure error e, (count,) [m or rad], and its Jacobian, (count, width), over numbers.

        Unlike φ, e is not zero in assembly modes with flipped axes.
        """
        return np.asarray(self.residual(posture), dtype=float), self.equations(posture)[0].astype(float)

    def lengths(self, joints: Sequence[PlacedJoint]) -> np.ndarray:
        """Return a mask of the equations that are lengths [m], (count,); others are angles."""
        return np.zeros(self.count(joints), dtype=bool)

    @abstractmethod
    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return K, (count, width), and k, (count,); k is zero without speeds."""

    def same_kind_rows(self, row: int) -> list[int]:
        """Return the equations of the same kind as `row`: together they can be written along any axes."""
        return [row]

    def embedded(self, posture: Posture, row_indices: Sequence[int]) -> np.ndarray:
        """Return K of equations equivalent to `row_indices` at closed states, (n, width)."""
        return self.equations(posture)[0][list(row_indices)]

    def embedded_drift(self, posture: Posture, row_indices: Sequence[int], speeds: Speeds) -> np.ndarray:
        """Return -k of the equations of `embedded`, (n,)."""
        return -self.equations(posture, speeds)[1][list(row_indices)]

    def wrench(self, row: int, P: Pose, F: Pose) -> np.ndarray | None:
        """Return the wrench [m, f] on the second end for a unit multiplier of an equation, or None.

        It acts at the origin of the axes of the poses.
        """
        return None

    @abstractmethod
    def content(self, index: Mapping[int, int], place_key: Callable[[End], Any]) -> Any:
        """Return all data that determine the equations, with bodies by `index` and ends by `place_key`."""


@final
@dataclass(frozen=True)
class Loop(LoopConstraint):
    """A loop joint between `predecessor` and `successor`, which the spanning tree already connects.

    `independent_rows` are the equations used by constraint forces, None for all: redundant ones cost time and
    make constraint forces ambiguous. `slack` are accepted residuals of equations with rounded numbers [m or
    rad], one for each; empty if the equations are exact.
    """

    name: str
    kind: Joint
    predecessor: End
    successor: End
    independent_rows: tuple[int, ...] | None = None
    slack: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        set_frozen(self, "kind", frozen_joint(f"loop {self.name!r}", self.kind.frozen_for_loop))
        set_frozen(self, "slack", tuple(self.slack))
        set_frozen(
            self, "independent_rows", None if self.independent_rows is None else tuple(self.independent_rows)
        )

    @cached_property
    def closure_rows(self) -> list[Row]:
        """The closure equations of its joint type."""
        return self.kind.closure()

    @property
    def bodies(self) -> tuple[int, ...]:
        return self.predecessor.body, self.successor.body

    @property
    def ends(self) -> tuple[End, ...]:
        return self.predecessor, self.successor

    @property
    def constrains(self) -> bool:
        return self.predecessor.body != self.successor.body and bool(self.closure_rows)

    def with_independent_rows(self, rows: tuple[int, ...] | None, slack: tuple[float, ...] = ()) -> Loop:
        return replace(self, independent_rows=rows, slack=slack)

    def count(self, joints: Sequence[PlacedJoint]) -> int:
        return len(self.closure_rows)

    def residual(self, posture: Posture) -> np.ndarray:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        p = product(P.R.T, F.p - P.p)
        R = product(P.R.T, F.R)
        return np.array([row.residual(R, p) for row in self.closure_rows])

    def gap(self, posture: Posture) -> tuple[Any, Any]:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        return gap(self.closure_rows, product(P.R.T, F.R), product(P.R.T, F.p - P.p))

    def flipped_axes(self, posture: Posture) -> list[Any]:
        R = product(posture.frame(self.predecessor).R.T, posture.frame(self.successor).R)
        shared = {row.along: np.array(row.along) for row in self.closure_rows if row.oriented}
        return [0.5 - product(along, product(R, along)) for along in shared.values()]

    @cached_property
    def _closing_error(self) -> ClosingError:
        return ClosingError(self.closure_rows)

    def closing_error(self, posture: Posture) -> tuple[np.ndarray, np.ndarray]:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        w, u = posture.relative_velocity(self.successor, self.predecessor, F.p)
        back = P.R.T
        return self._closing_error(back @ F.R, back @ (F.p - P.p), back @ w, back @ u)

    def lengths(self, joints: Sequence[PlacedJoint]) -> np.ndarray:
        return self._closing_error.lengths

    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        rows = self.closure_rows
        w, u = posture.relative_velocity(self.successor, self.predecessor, F.p)
        K = np.zeros((len(rows), posture.width), dtype=object)
        k: Any = np.zeros(len(rows), dtype=object)
        for i, row in enumerate(rows):
            c_w, c_v = row.coefficients(P, F)
            K[i] = product(c_v, u) if row.across is None else product(c_w, w)
        if speeds is None:
            return K, k
        a = speeds.drift(self.predecessor, F.p)
        b = speeds.drift(self.successor, F.p)
        W = b.w - a.w
        U = b.v - a.v
        dW = b.dw - a.dw - cross(a.w, W)
        dU = b.dv - a.dv - 2.0 * cross(a.w, U)
        for i, row in enumerate(rows):
            c_w, c_v = row.coefficients(P, F)
            k[i] = -((product(c_v, dU) if row.across is None else product(c_w, dW)) + row.bias(P, F, W, U))
        return K, k

    def same_kind_rows(self, row: int) -> list[int]:
        one = self.closure_rows[row]
        return [
            i
            for i, r in enumerate(self.closure_rows)
            if (r.across is None, r.length) == (one.across is None, one.length)
        ]

    def embedded(self, posture: Posture, row_indices: Sequence[int]) -> np.ndarray:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        (wP, vP), (wF, vF) = posture.velocity(self.predecessor, F.p), posture.velocity(self.successor, F.p)
        K = np.zeros((len(row_indices), posture.width), dtype=object)
        for i, (row, axis) in enumerate(self._axes(P, row_indices)):
            one, other = (vP, vF) if row.across is None else (wP, wF)
            if axis is not None:
                K[i] = other[axis] - one[axis]
            else:
                c_w, c_v = row.coefficients(P, F)
                K[i] = product(c_v if row.across is None else c_w, other - one)
        return K

    def embedded_drift(self, posture: Posture, row_indices: Sequence[int], speeds: Speeds) -> np.ndarray:
        P = posture.frame(self.predecessor)
        F = posture.frame(self.successor)
        a = speeds.drift(self.predecessor, F.p)
        b = speeds.drift(self.successor, F.p)
        W = np.array(b.w - a.w, dtype=object)
        U = np.array(b.v - a.v, dtype=object)
        axes = self._axes(P, row_indices)
        for row, axis in axes:  # both ends have the same motion along these
            if axis is not None:
                (U if row.across is None else W)[axis] = 0.0
        dW = b.dw - a.dw - cross(a.w, W)
        dU = b.dv - a.dv - 2.0 * cross(a.w, U)
        drift: Any = np.zeros(len(row_indices), dtype=object)
        for i, (row, axis) in enumerate(axes):
            rate = dU if row.across is None else dW
            if axis is not None:
                drift[i] = rate[axis]
                continue
            c_w, c_v = row.coefficients(P, F)
            drift[i] = product(c_v if row.across is None else c_w, rate) + row.bias(P, F, W, U)
        return drift

    def _axes(self, P: Pose, row_indices: Sequence[int]) -> list[tuple[Row, int | None]]:
        """Return each equation with the coordinate axis along which it can be written instead, or None.

        Three zero translations are zero along any three axes, and so are three rotations. Two translations
        are zero across a direction: if that is always a coordinate axis, as in a plane, along the two others.
        """
        rows = [self.closure_rows[i] for i in row_indices]
        shifts = [n for n, row in enumerate(rows) if row.across is None and row.length is None]
        turns = [n for n, row in enumerate(rows) if row.across is not None]
        axes: dict[int, int] = dict(zip(turns, range(3))) if len(turns) == 3 else {}
        if len(shifts) == 3:
            axes |= dict(zip(shifts, range(3)))
        elif len(shifts) == 2:
            normal = product(P.R, cross(*(np.array(rows[n].along) for n in shifts)))
            constant = [not isinstance(x, Symbol) and x == 0.0 for x in normal]
            if sum(constant) == 2:
                axes |= dict(zip(shifts, [k for k in range(3) if constant[k]]))
        return [(row, axes.get(n)) for n, row in enumerate(rows)]

    def wrench(self, row: int, P: Pose, F: Pose) -> np.ndarray:
        moment, force = self.closure_rows[row].coefficients(P, F)
        return np.concatenate([moment + cross(F.p, force), force])

    def content(self, index: Mapping[int, int], place_key: Callable[[End], Any]) -> Any:
        return self.kind, place_key(self.predecessor), place_key(self.successor)


def rows_of(loop: Loop) -> list[Row]:
    """Return the independent equations of a loop joint."""
    rows = loop.closure_rows
    return rows if loop.independent_rows is None else [rows[i] for i in loop.independent_rows]
