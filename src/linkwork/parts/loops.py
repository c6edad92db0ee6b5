"""Loop constraints: loop joints, couplings and implicit constraints, behind one interface, so that nobody asks for the kind.

An equation φ(q) = 0 becomes K v = 0 and K v̇ = k for the velocities v of a cluster's joints (Loops Eq. 2). Embedded loops and
force-held loops use the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, final

import numpy as np

from linkwork.ir.symbol import Symbol
from linkwork.joints import Joint
from linkwork.joints.closure import ClosingError, Row
from linkwork.lazy import cached_property
from linkwork.parts.tree import PlacedJoint
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product, put


@dataclass(frozen=True)
class End:
    """Where a loop joint is attached to a body: its frame there."""

    body: int  # index of a body, or GROUND
    place: Pose

    def __post_init__(self) -> None:
        put(self, "place", self.place.frozen())


class Drift(NamedTuple):
    """Of a frame's point: w and v, and their bias (velocity-product) accelerations, where no joint accelerates, (3,) each."""

    w: np.ndarray
    v: np.ndarray
    dw: np.ndarray
    dv: np.ndarray


class Posture(Protocol):
    """The configuration of bodies in loops, as loop constraints need it: `width` velocities, in `columns` of their joints."""

    width: int

    @property
    def columns(self) -> Mapping[int, slice]: ...
    def joint(self, k: int) -> PlacedJoint: ...
    def q(self, k: int) -> np.ndarray: ...
    def frame(self, end: End) -> Pose: ...
    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def relative_velocity(self, end: End, seen_from: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Speeds(Protocol):
    """The velocities `v` of the joints, and the motion of loop frames that they cause."""

    v: np.ndarray

    def drift(self, end: End, at: np.ndarray) -> Drift: ...


class LoopConstraint(ABC):
    """A frozen value: equations φ(q) = 0 between bodies or joints of the spanning tree."""

    name: str
    linear: ClassVar[bool] = False  # K is constant and k zero

    @property
    @abstractmethod
    def bodies(self) -> tuple[int, ...]:
        """The bodies that it constrains, by index; GROUND may be among them."""

    @property
    def ends(self) -> tuple[End, ...]:
        """The frames on bodies that it constrains; none where it constrains joint coordinates."""
        return ()

    @property
    def acts(self) -> bool:
        """Whether it removes any degree of freedom."""
        return True

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Its ratios between joints' velocities, where it has constant ones."""
        return ()

    def with_kept(self, rows: tuple[int, ...] | None) -> LoopConstraint:
        """The same with only these of its equations where it is force-held; None: all. Only loop joints distinguish."""
        return self

    @abstractmethod
    def count(self, joints: Sequence[PlacedJoint]) -> int:
        """How many equations it has, in a model with these joints."""

    @abstractmethod
    def residual(self, posture: Posture) -> np.ndarray:
        """φ, zero where it is satisfied, (count,) [m or rad]."""

    def flipped_axes(self, posture: Posture) -> list[Any]:
        """Above zero for each shared axis of the two frames that is flipped: another assembly mode, which φ = 0 allows."""
        return []

    def closing_error(self, posture: Posture) -> tuple[np.ndarray, np.ndarray]:
        """e, (count,) [m or rad], zero where it is satisfied, and its Jacobian, (count, width), over numbers: for closing it.

        Unlike φ it knows no other assembly mode, in which axes are turned over.
        """
        return np.asarray(self.residual(posture), dtype=float), self.equations(posture)[0].astype(float)

    def lengths(self, joints: Sequence[PlacedJoint]) -> np.ndarray:
        """Which of its equations are lengths [m], (count,); the others are angles, or have a unit of their own."""
        return np.zeros(self.count(joints), dtype=bool)

    @abstractmethod
    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        """K, (count, width), and k, (count,), which is zero where no speeds are given."""

    def alike(self, row: int) -> list[int]:
        """The equations that are of the same kind as one, and can be written along other axes together."""
        return [row]

    def embedded(self, posture: Posture, kept: Sequence[int]) -> np.ndarray:
        """K of equations that say the same as those `kept` where it is closed, (kept, width); they may be shorter."""
        return self.equations(posture)[0][list(kept)]

    def embedded_drift(self, posture: Posture, kept: Sequence[int], speeds: Speeds) -> np.ndarray:
        """-k of these equations, (kept,)."""
        return -self.equations(posture, speeds)[1][list(kept)]

    def wrench(self, row: int, P: Pose, F: Pose) -> np.ndarray | None:
        """[m, f] on its second end, at the origin of the poses' axes, for a unit multiplier of an equation, or None."""
        return None

    @abstractmethod
    def content(self, index: Mapping[int, int], there: Callable[[End], Any]) -> Any:
        """All that decides its equations, with bodies numbered as in `index`."""


@final
@dataclass(frozen=True)
class Loop(LoopConstraint):
    """A loop joint of some kind between `predecessor` and `successor`, both of which are in the spanning tree.

    `kept` matters where it is force-held: redundant equations cost time there, and make forces ambiguous.
    """

    name: str
    kind: Joint
    predecessor: End
    successor: End
    kept: tuple[int, ...] | None = None  # its independent equations, without redundant ones; None: all

    def __post_init__(self) -> None:
        put(self, "kind", self.kind.settled())
        put(self, "kept", None if self.kept is None else tuple(self.kept))

    @cached_property
    def every_row(self) -> list[Row]:
        """The equations of its kind."""
        return self.kind.closure()

    @property
    def bodies(self) -> tuple[int, ...]:
        return self.predecessor.body, self.successor.body

    @property
    def ends(self) -> tuple[End, ...]:
        return self.predecessor, self.successor

    @property
    def acts(self) -> bool:
        return self.predecessor.body != self.successor.body and bool(self.every_row)

    def with_kept(self, rows: tuple[int, ...] | None) -> Loop:
        return replace(self, kept=rows)

    def count(self, joints: Sequence[PlacedJoint]) -> int:
        return len(self.every_row)

    def residual(self, posture: Posture) -> np.ndarray:
        P, F = posture.frame(self.predecessor), posture.frame(self.successor)
        p, R = product(P.R.T, F.p - P.p), product(P.R.T, F.R)
        return np.array([row.residual(R, p) for row in self.every_row])

    def flipped_axes(self, posture: Posture) -> list[Any]:
        R = product(posture.frame(self.predecessor).R.T, posture.frame(self.successor).R)
        shared = {row.along: np.array(row.along) for row in self.every_row if row.oriented}
        return [0.5 - product(along, product(R, along)) for along in shared.values()]

    @cached_property
    def _closing_error(self) -> ClosingError:
        return ClosingError(self.every_row)

    def closing_error(self, posture: Posture) -> tuple[np.ndarray, np.ndarray]:
        P, F = posture.frame(self.predecessor), posture.frame(self.successor)
        w, u = posture.relative_velocity(self.successor, self.predecessor, F.p)
        back = P.R.T
        return self._closing_error(back @ F.R, back @ (F.p - P.p), back @ w, back @ u)

    def lengths(self, joints: Sequence[PlacedJoint]) -> np.ndarray:
        return self._closing_error.lengths

    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        P, F = posture.frame(self.predecessor), posture.frame(self.successor)
        rows = self.every_row
        w, u = posture.relative_velocity(self.successor, self.predecessor, F.p)
        K = np.zeros((len(rows), posture.width), dtype=object)
        k: Any = np.zeros(len(rows), dtype=object)
        for i, row in enumerate(rows):
            c_w, c_v = row.coefficients(P, F)
            K[i] = product(c_v, u) if row.across is None else product(c_w, w)
        if speeds is None:
            return K, k
        a, b = speeds.drift(self.predecessor, F.p), speeds.drift(self.successor, F.p)
        W, U = b.w - a.w, b.v - a.v
        dW = b.dw - a.dw - cross(a.w, W)
        dU = b.dv - a.dv - 2.0 * cross(a.w, U)
        for i, row in enumerate(rows):
            c_w, c_v = row.coefficients(P, F)
            k[i] = -((product(c_v, dU) if row.across is None else product(c_w, dW)) + row.bias(P, F, W, U))
        return K, k

    def alike(self, row: int) -> list[int]:
        one = self.every_row[row]
        return [i for i, r in enumerate(self.every_row) if (r.across is None, r.length) == (one.across is None, one.length)]

    def embedded(self, posture: Posture, kept: Sequence[int]) -> np.ndarray:
        P, F = posture.frame(self.predecessor), posture.frame(self.successor)
        (wP, vP), (wF, vF) = posture.velocity(self.predecessor, F.p), posture.velocity(self.successor, F.p)
        K = np.zeros((len(kept), posture.width), dtype=object)
        for i, (row, axis) in enumerate(self._axes(P, kept)):
            one, other = (vP, vF) if row.across is None else (wP, wF)
            if axis is not None:
                K[i] = other[axis] - one[axis]
            else:
                c_w, c_v = row.coefficients(P, F)
                K[i] = product(c_v if row.across is None else c_w, other - one)
        return K

    def embedded_drift(self, posture: Posture, kept: Sequence[int], speeds: Speeds) -> np.ndarray:
        P, F = posture.frame(self.predecessor), posture.frame(self.successor)
        a, b = speeds.drift(self.predecessor, F.p), speeds.drift(self.successor, F.p)
        W, U = np.array(b.w - a.w, dtype=object), np.array(b.v - a.v, dtype=object)
        axes = self._axes(P, kept)
        for row, axis in axes:  # along these both ends move alike
            if axis is not None:
                (U if row.across is None else W)[axis] = 0.0
        dW, dU = b.dw - a.dw - cross(a.w, W), b.dv - a.dv - 2.0 * cross(a.w, U)
        found: Any = np.zeros(len(kept), dtype=object)
        for i, (row, axis) in enumerate(axes):
            rate = dU if row.across is None else dW
            if axis is not None:
                found[i] = rate[axis]
                continue
            c_w, c_v = row.coefficients(P, F)
            found[i] = product(c_v if row.across is None else c_w, rate) + row.bias(P, F, W, U)
        return found

    def _axes(self, P: Pose, kept: Sequence[int]) -> list[tuple[Row, int | None]]:
        """Of each equation that is kept, the coordinate axis along which it can be written instead, if there is one.

        Three translations are none along any axes, those of the predecessor or others; and so are three rotations. Two are
        none across a direction: where that is a coordinate axis always, as in a plane, along the other two.
        """
        rows = [self.every_row[i] for i in kept]
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
        moment, force = self.every_row[row].coefficients(P, F)
        return np.concatenate([moment + cross(F.p, force), force])

    def content(self, index: Mapping[int, int], there: Callable[[End], Any]) -> Any:
        return self.kind, there(self.predecessor), there(self.successor)


@final
@dataclass(frozen=True)
class Coupling(LoopConstraint):
    """Σ coefficient * coordinate = offset over joints of the spanning tree: gears, belts, mimics, differentials.

    `terms` are (index of the joint, its component, coefficient).
    """

    name: str
    terms: tuple[tuple[int, int, float], ...]
    offset: float
    linear = True

    def __post_init__(self) -> None:
        put(self, "terms", tuple((k, component, coefficient) for k, component, coefficient in self.terms))

    @property
    def bodies(self) -> tuple[int, ...]:
        return tuple(k for k, _, _ in self.terms)

    @property
    def coefficients(self) -> tuple[float, ...]:
        return tuple(c for _, _, c in self.terms)

    def count(self, joints: Sequence[PlacedJoint]) -> int:
        return 1

    def residual(self, posture: Posture) -> np.ndarray:
        total: Any = -self.offset
        for joint, component, coefficient in self.terms:
            total = total + coefficient * posture.q(joint)[component]
        return np.array([total])

    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        K = np.zeros((1, posture.width), dtype=object)
        for joint, component, coefficient in self.terms:
            K[0, posture.columns[joint].start + component] = coefficient
        return K, np.zeros(1, dtype=object)

    def content(self, index: Mapping[int, int], there: Callable[[End], Any]) -> Any:
        return tuple((index[k], component, x) for k, component, x in self.terms), self.offset


def rows_of(loop: Loop) -> list[Row]:
    """The equations of a loop joint that are kept."""
    rows = loop.every_row
    return rows if loop.kept is None else [rows[i] for i in loop.kept]
