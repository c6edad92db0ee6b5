"""What a joint is. Each kind is one file with one final class; nobody asks a joint its kind."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints.closure import Row
from linkwork.spatial import Inertia, Pose
from linkwork.spatial.constants import frozen
from linkwork.spatial.constants import length as length_of


class Symmetry(NamedTuple):
    """Constant displacements C that commute with a joint: C · transform(q) = transform(q) · C.

    `shifts` are the coordinate axes along which C may move, `turn` is the one about which it may turn. Where turning the child
    alone by an angle is the same as adding a multiple of it to q[0], `phase` is that multiple; otherwise it is zero.
    """

    shifts: tuple[int, ...] = ()
    turn: int | None = None
    phase: float = 0.0


_PACKAGE = __name__.partition(".")[0] + "."


class Joint(ABC):
    """A joint between a parent frame and a child frame, which coincide where all coordinates are neutral.

    `nq` coordinates q give the pose, `nv` velocities v the motion; q̇ is `rate(q, v)`, which is v unless a joint says
    otherwise. All methods work on numbers and on symbols. Joints are frozen values.
    """

    nq: ClassVar[int]
    nv: ClassVar[int]
    tree: ClassVar[bool] = True  # whether it can be a joint of the spanning tree; all but a few can
    springs: ClassVar[str] = "each"  # that have a potential: one for "each" velocity, "equal" ones around neutral, or "none"
    followed: ClassVar[int] = 0  # coordinates of another joint that move it: see `PlacedJoint.follows`
    elastic: ClassVar[bool] = False  # a deformation: loops are closed by other joints, whose velocities depend on its own

    def __setattr__(self, name: str, value: Any) -> None:
        if "_settled" in self.__dict__:
            raise FrozenInstanceError(f"cannot change {name!r}: this {type(self).__name__} is part of a model")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if "_settled" in self.__dict__:
            raise FrozenInstanceError(f"cannot delete {name!r}: this {type(self).__name__} is part of a model")
        object.__delattr__(self, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__reduce_ex__(self, max(protocol, 2))  # older ones do not know slots

    def __setstate__(self, state: Any) -> None:
        own, slots = state if isinstance(state, tuple) else (state, None)
        for name, value in {**(own or {}), **(slots or {})}.items():
            object.__setattr__(self, name, _unchangeable(value) if own and "_settled" in own else value)

    def settled(self) -> Joint:
        """The same joint as an immutable value: itself, or a frozen copy of one that could be changed."""
        if type(self).__module__.startswith(_PACKAGE) or "_settled" in self.__dict__:
            return self
        try:
            kept = copy.deepcopy(self)
        except Exception as error:
            raise ModelError(f"a {type(self).__name__} joint cannot be copied into a model: {error}") from error
        for name, value in [*kept.__dict__.items()]:
            object.__setattr__(kept, name, _unchangeable(value))
        object.__setattr__(kept, "_settled", True)
        return kept

    @property
    def components(self) -> tuple[str, ...]:
        """Short names of the velocities, (nv,)."""
        return tuple(map(str, range(self.nv)))

    def straightened(self) -> tuple[Joint, Pose]:
        """A joint of the same kind along coordinate axes, and the constant pose C that leads to its frames.

        transform(q) = C · straight.transform(q) · C⁻¹: bodies may then be described in frames where programs are short.
        """
        return self, Pose.identity()

    def symmetry(self) -> Symmetry:
        """Where both frames may stand instead; it is asked of straightened joints only."""
        return Symmetry()

    def partition(self) -> tuple[Joint, ...]:
        """Joints one after the other that are this one, with the same coordinates and velocities in their order; or none.

        A node for each may take fewer operations than one for all (Partition Sec. 2): elementary motions are cheap.
        """
        return ()

    @abstractmethod
    def transform(self, q: np.ndarray) -> Pose:
        """The pose of the child frame in the parent frame."""

    @abstractmethod
    def subspace(self, q: np.ndarray) -> np.ndarray:
        """S of the child's motion relative to the parent, S v, in the child's frame; (6, nv)."""

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Ṡ v, the bias acceleration of the joint; (6,)."""
        return np.zeros(6)

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """q̇, (nq,)."""
        return v

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The retraction of v at q, (nq,): integration of a constant v for one unit of time."""
        return q + v

    def turning(self, v: np.ndarray) -> np.ndarray | None:
        """What the rates of velocities lack since their axes turn with the child, (nv,); None where these do not turn.

        Added to them, they are the rates in axes at rest. See `straight` and `turned`.
        """
        return None

    def straight(self, v: np.ndarray) -> np.ndarray:
        """The motion for `integrate` that ends where v leads, if its axes stay as they are in a unit of time, (nv,)."""
        return v

    def turned(self, motion: np.ndarray, v: np.ndarray) -> np.ndarray:
        """v, in axes before a motion, in the axes after it, (nv,)."""
        return v

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """The inverse of `integrate`, (nv,): the v that takes q0 to q1 in one unit of time, up to the same pose."""
        return q1 - q0

    def chord(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """The v, in axes that stay as they are, that leads from q0 to q1, (nv,): `difference` is `straight` of it."""
        return self.difference(q0, q1)

    def units(self, length: float) -> np.ndarray:
        """What steps of its velocities are compared with, (nv,): a radian, or a `length` [m] where it slides."""
        S = np.asarray(self.subspace(self.neutral()), dtype=float)
        return np.asarray(1.0 / np.linalg.norm(np.concatenate([S[:3], S[3:] / length]), axis=0))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R and p of `transform` and S of `subspace` as floats, for searches over many states; some joints know a quick way."""
        pose = self.transform(q)
        return np.asarray(pose.R, dtype=float), np.asarray(pose.p, dtype=float), np.asarray(self.subspace(q), dtype=float)

    def numeric_integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The same of `integrate`."""
        return np.asarray(self.integrate(q, v), dtype=float)

    def closure(self) -> list[Row]:
        """The loop-closure equations of this joint, 6 - nv of them; NotImplementedError where it cannot be a loop joint."""
        raise NotImplementedError(f"a {type(self).__name__} joint cannot close a loop")

    def neutral(self) -> np.ndarray:
        """The coordinates at which both frames coincide, (nq,)."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Coordinates anywhere, (nq,): angles in all directions, lengths within a metre."""
        return rng.uniform(-1.0, 1.0, self.nq)


def _unchangeable(value: Any) -> Any:
    """The same with arrays that cannot be written, and tuples for lists."""
    if isinstance(value, np.ndarray) and value.dtype == float:
        return frozen(value)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    if isinstance(value, (Pose, Inertia)):
        return value.frozen()
    return tuple(map(_unchangeable, value)) if type(value) in (list, tuple) else value


class AxisJoint(Joint):
    """A joint with a fixed `axis`, of the parent as of the child; it is scaled to length 1."""

    axis: tuple[float, float, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", tuple(unit_axis(self.axis).tolist()))

    @property
    def normals(self) -> tuple[np.ndarray, np.ndarray]:
        """Two unit directions at right angles to the axis and to each other; coordinate axes where the axis is one."""
        k = self.coordinate
        if is_coordinate(self.unit):
            return np.eye(3)[(k + 1) % 3], np.eye(3)[(k + 2) % 3]
        R = aligned(self.unit).R
        return R[:, 0], R[:, 1]

    @property
    def unit(self) -> np.ndarray:
        """The axis as an array, (3,)."""
        return np.array(self.axis)

    @property
    def coordinate(self) -> int:
        """The coordinate axis that the axis of a straightened joint lies along."""
        return int(np.argmax(np.abs(self.unit)))

    def straightened(self) -> tuple[Joint, Pose]:
        if is_coordinate(self.unit):
            return self, Pose.identity()
        return replace(self, axis=(0.0, 0.0, 1.0)), aligned(self.unit)  # type: ignore[type-var]


def columns(*pairs: tuple[Any, Any]) -> np.ndarray:
    """A (6, n) matrix from the (angular, linear) parts of its columns."""
    return np.array([[*angular, *linear] for angular, linear in pairs]).T


def unit_axis(axis: Any) -> np.ndarray:
    """A direction scaled to length 1; ValueError where it is none."""
    a = np.asarray(axis, dtype=float)
    length = length_of(a) if a.shape == (3,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"an axis is three finite numbers, not all zero; this is {axis!r}")
    a = np.where(np.abs(a) < 1e-12 * length, 0.0, a / length)
    return np.sign(a) if is_coordinate(a) else a  # exact zeros and ones make cheap programs


def is_coordinate(unit: np.ndarray) -> bool:
    """Whether a direction is that of a coordinate axis: one that is off by 1e-8 has a component that rounds to one, too."""
    return int(np.count_nonzero(unit)) == 1


def turned_about(axis: np.ndarray, angle: Any) -> Pose:
    """Turned about a constant unit axis by an angle [rad]."""
    k = int(np.argmax(np.abs(axis)))
    if is_coordinate(axis):
        return Pose.turned(k, float(axis[k]) * angle)
    to = aligned(axis)  # a frame whose z is the axis
    return to.then(Pose.turned(2, angle)).then(to.inverse())


def aligned(axis: np.ndarray) -> Pose:
    """A constant pose whose z axis points along a unit axis."""
    k = int(np.argmin(np.abs(axis)))
    x = np.cross(axis, np.eye(3)[k])
    x = x / length_of(x)
    return Pose(np.column_stack([x, np.cross(axis, x), axis]), np.zeros(3))
