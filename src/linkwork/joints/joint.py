"""The interface of joints. Each kind is one final class in a file of its own; no code tests for kinds."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import FrozenInstanceError, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import atan2
from linkwork.errors import ModelError
from linkwork.joints.check import check_closure, check_joint
from linkwork.joints.closure import Row
from linkwork.spatial import Inertia, Pose
from linkwork.spatial.constants import frozen, real_or_nan
from linkwork.spatial.constants import length as length_of


class Symmetry(NamedTuple):
    """Constant displacements C that commute with a joint: C · transform(q) = transform(q) · C.

    `shifts` are the coordinate axes along which C may translate, `turn` is the one about which it may rotate.
    If rotating the child alone by an angle equals adding a multiple of it to q[0], `phase` is that multiple;
    otherwise it is zero.
    """

    shifts: tuple[int, ...] = ()
    turn: int | None = None
    phase: float = 0.0


_PACKAGE = __name__.partition(".")[0] + "."


class Joint(ABC):
    """A joint between a parent frame and a child frame, which coincide at the neutral coordinates.

    `nq` coordinates q give the pose and `nv` velocities v the motion; q̇ = `rate(q, v)`, by default v. All
    methods take numbers or symbols. Joints are immutable.
    """

    nq: ClassVar[int]
    nv: ClassVar[int]
    # Whether the joint can be in the spanning tree.
    tree: ClassVar[bool] = True
    # Springs that have a potential: one for "each" velocity, "equal" stiffness around neutral, or "none".
    springs: ClassVar[str] = "each"
    # Number of coordinates of another joint that move this one; see `PlacedJoint.follows`.
    followed: ClassVar[int] = 0
    # Whether its velocities are an angular velocity, so that it has a `rotation_vector`.
    has_angle: ClassVar[bool] = False
    # Whether this is a deformation. Loops are then closed by other joints, whose velocities depend on it.
    elastic: ClassVar[bool] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if "_frozen" in self.__dict__:
            raise FrozenInstanceError(
                f"cannot set {name!r}: this {type(self).__name__} joint is part of a model and immutable"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if "_frozen" in self.__dict__:
            raise FrozenInstanceError(
                f"cannot delete {name!r}: this {type(self).__name__} joint is part of a model and immutable"
            )
        object.__delattr__(self, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__reduce_ex__(self, max(protocol, 2))  # older protocols do not support slots

    def __setstate__(self, state: Any) -> None:
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        for name, value in {**(attributes or {}), **(slots or {})}.items():
            object.__setattr__(
                self, name, _as_immutable(value) if attributes and "_frozen" in attributes else value
            )

    @property
    def is_builtin(self) -> bool:
        """True for joints defined in linkwork, which its tests check."""
        return type(self).__module__.startswith(_PACKAGE)

    def frozen(self) -> Joint:
        """Return this joint as an immutable value: itself, or a frozen copy if it is mutable.

        A joint defined outside linkwork is checked here at a few random coordinates; see
        `linkwork.joints.check`.
        """
        if self.is_builtin or "_frozen" in self.__dict__:
            return self
        try:
            copied = copy.deepcopy(self)
        except Exception as error:
            raise ModelError(
                f"{type(self).__name__} joint: cannot be copied into a model: {error}"
            ) from error
        for name, value in [*copied.__dict__.items()]:
            object.__setattr__(copied, name, _as_immutable(value))
        if copied.tree and not copied.followed:
            check_joint(copied)
        object.__setattr__(copied, "_frozen", True)
        return copied

    def frozen_for_loop(self) -> Joint:
        """Return `frozen()` with checked closure equations, for a loop joint."""
        joint = self.frozen()
        if "_frozen" in joint.__dict__ and "_closure_checked" not in joint.__dict__:
            check_closure(joint)
            object.__setattr__(joint, "_closure_checked", True)
        return joint

    def without_elasticity(self) -> Joint:
        """Return this joint without modal stiffness and damping, which only deformations have."""
        return self

    def times(self, factor: float) -> Joint:
        """Return this joint in another unit of mass, in which only deformations differ."""
        return self

    @property
    def components(self) -> tuple[str, ...]:
        """Short names of the velocities, (nv,)."""
        return tuple(map(str, range(self.nv)))

    def axis_aligned(self) -> tuple[Joint, Pose]:
        """Return a joint of this kind along a coordinate axis, and the constant pose C of its frames.

        transform(q) = C · aligned.transform(q) · C⁻¹. Bodies described in the aligned frames give shorter
        programs.
        """
        return self, Pose.identity()

    def symmetry(self) -> Symmetry:
        """Return displacements that commute with this joint; called for `axis_aligned` joints only."""
        return Symmetry()

    def partition(self) -> tuple[Joint, ...]:
        """Return simpler joints that in series equal this one, or an empty tuple.

        They take this joint's coordinates and velocities in order. One node for each may need fewer
        operations than one node for all (Partition Sec. 2), since elementary motions are cheap.
        """
        return ()

    @abstractmethod
    def transform(self, q: np.ndarray) -> Pose:
        """Return the pose of the child frame in the parent frame."""

    @abstractmethod
    def subspace(self, q: np.ndarray) -> np.ndarray:
        """Return S, (6, nv): S v is the child's twist relative to the parent, in the child's frame."""

    def coordinates_of(self, pose: Pose) -> np.ndarray:
        """Return q, (nq,), such that `transform(q)` is this pose, which the joint must allow.

        Angles are within ±π. Raises NotImplementedError if the joint does not define them.
        """
        raise NotImplementedError(f"{type(self).__name__} joint: coordinates_of is not defined")

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return Ṡ v, the bias acceleration of the joint, (6,)."""
        return np.zeros(6)

    def rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return q̇, (nq,)."""
        return v

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the retraction of v at q, (nq,): constant v integrated over one unit of time."""
        return q + v

    def rotating_axes_term(self, v: np.ndarray) -> np.ndarray | None:
        """Return the term of v̇ due to axes that rotate with the child, (nv,), or None if they do not rotate.

        v̇ plus this term is the rate of the velocity in fixed axes: ω × v of a free joint's linear velocity.
        """
        return None

    def chord_to_velocity(self, v: np.ndarray) -> np.ndarray:
        """Return the constant velocity whose `integrate` gives the displacement v of `chord`, (nv,)."""
        return v

    def in_moved_axes(self, motion: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return a velocity v, given in the axes before `motion`, in those after it, (nv,).

        `motion`, (nv,), is an argument of `integrate`.
        """
        return v

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return the v that takes q0 to the pose of q1 in unit time, (nv,): the inverse of `integrate`."""
        return q1 - q0

    def chord(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return the displacement from q0 to q1 in the axes at q0, (nv,).

        `chord_to_velocity` maps it to `difference(q0, q1)`.
        """
        return self.difference(q0, q1)

    def units(self, length: float) -> np.ndarray:
        """Return a scale for each velocity, (nv,): one radian, or a `length` [m] for translations."""
        S = np.asarray(self.subspace(self.neutral()), dtype=float)
        return np.asarray(1.0 / np.linalg.norm(np.concatenate([S[:3], S[3:] / length]), axis=0))

    def numeric_motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return R and p of `transform` and S of `subspace` as floats; subclasses may have a fast version."""
        pose = self.transform(q)
        return (
            np.asarray(pose.R, dtype=float),
            np.asarray(pose.p, dtype=float),
            np.asarray(self.subspace(q), dtype=float),
        )

    def numeric_integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return `integrate` as floats."""
        return np.asarray(self.integrate(q, v), dtype=float)

    def closure(self) -> list[Row]:
        """Return the 6 - nv loop-closure equations; NotImplementedError if it cannot be a loop joint."""
        raise NotImplementedError(
            f"{type(self).__name__} joint: cannot close a loop, since closure() is not defined"
        )

    def rotation_vector(self, q: np.ndarray) -> np.ndarray:
        """Return the rotation vector [rad], (3,), if `has_angle`.

        `PlacedJoint.max_angle` limits its length.
        """
        raise NotImplementedError

    def neutral(self) -> np.ndarray:
        """Return the coordinates at which both frames coincide, (nq,)."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Return random coordinates, (nq,): angles within ±π, lengths within ±1 m."""
        return rng.uniform(-1.0, 1.0, self.nq)


def _as_immutable(value: Any) -> Any:
    """Return a value with read-only arrays, and tuples for lists."""
    if isinstance(value, np.ndarray) and value.dtype == float:
        return frozen(value)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    if isinstance(value, (Pose, Inertia)):
        return value.frozen()
    return tuple(map(_as_immutable, value)) if type(value) in (list, tuple) else value


class AxisJoint(Joint):
    """A joint with a fixed `axis`, shared by parent and child and scaled to unit length."""

    axis: tuple[float, float, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", tuple(unit_axis(self.axis).tolist()))

    @property
    def normals(self) -> tuple[np.ndarray, np.ndarray]:
        """Two orthonormal directions normal to the axis; coordinate axes if the axis is one."""
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
        """The index of the coordinate axis along which the axis of an `axis_aligned` joint lies."""
        return int(np.argmax(np.abs(self.unit)))

    def axis_aligned(self) -> tuple[Joint, Pose]:
        if is_coordinate(self.unit):
            return self, Pose.identity()
        return replace(self, axis=(0.0, 0.0, 1.0)), aligned(self.unit)  # type: ignore[type-var]


def angle_about(axis: np.ndarray, R: np.ndarray) -> Any:
    """Return the angle of a rotation matrix about an axis, (3,), within ±π."""
    twice_sine = axis[0] * (R[2, 1] - R[1, 2]) + axis[1] * (R[0, 2] - R[2, 0]) + axis[2] * (R[1, 0] - R[0, 1])
    return atan2(twice_sine, R[0, 0] + R[1, 1] + R[2, 2] - 1.0)


def columns(*pairs: tuple[Any, Any]) -> np.ndarray:
    """Return a (6, n) matrix from the (angular, linear) parts of its columns."""
    return np.array([[*angular, *linear] for angular, linear in pairs]).T


def unit_axis(axis: Any) -> np.ndarray:
    """Return a direction scaled to unit length; raise ModelError if it is invalid."""
    a = np.array([real_or_nan(x) for x in axis] if isinstance(axis, Iterable) else [])
    length = length_of(a) if a.shape == (3,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise ModelError(f"axis: expected three finite numbers, not all zero; got {axis!r}")
    a = np.where(np.abs(a) < 1e-12 * length, 0.0, a / length)
    return np.sign(a) if is_coordinate(a) else a  # exact zeros and ones are folded by the compiler


def is_coordinate(unit: np.ndarray) -> bool:
    """Return True if a unit vector is along a coordinate axis.

    Counts nonzero entries: an axis that is off by 1e-8 also has a component that rounds to one.
    """
    return int(np.count_nonzero(unit)) == 1


def axis_rotation(axis: np.ndarray, angle: Any) -> Pose:
    """Return a rotation about a constant unit axis by an angle [rad]."""
    k = int(np.argmax(np.abs(axis)))
    if is_coordinate(axis):
        return Pose.rotation_about(k, float(axis[k]) * angle)
    frame = aligned(axis)  # its z is the axis
    return frame.then(Pose.rotation_about(2, angle)).then(frame.inverse())


def aligned(axis: np.ndarray) -> Pose:
    """Return a constant pose whose z axis points along a unit axis."""
    k = int(np.argmin(np.abs(axis)))
    x = np.cross(axis, np.eye(3)[k])
    x = x / length_of(x)
    return Pose(np.column_stack([x, np.cross(axis, x), axis]), np.zeros(3))
