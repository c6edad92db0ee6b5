"""Steps of free bodies about their centre of mass, in axes at rest, so that momentum is kept whatever their
link frames are.

The velocity u after forces and impulses is in the axes before the step. A free rigid body then turns by the
Cayley map of the midpoint rule for Euler's equations,

    I y + y × I y / 2 = dt I ω,    R = cay(y),    I ω' = Rᵀ I ω,

which keeps its angular momentum and its energy; its centre of mass moves by dt u_c. So two bodies that push
each other with equal and opposite impulses at one point keep their linear and angular momentum to rounding.
Bodies that carry others turn by the screw of ω, also about the centre of mass of the body itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import atan2, sqrt, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.constraints import loop_constraints
from linkwork.joints import Free
from linkwork.mechanism import PlacedJoint
from linkwork.model import GROUND, Model
from linkwork.spatial import Inertia, cross, is_zero, rotation, skew

NEWTON_STEPS = 4  # for the midpoint rule; quadratic from a start that is off by a part dt |ω|
SMALL_ANGLE = 1e-6  # [rad²] below which atan(x) / x is a series


class TurningJoint(NamedTuple):
    """A joint whose velocities are in axes that turn with its child, and their places among the independent
    velocities.

    `center`, (3,), is the centre of mass in the child's frame; None where the step is about the frame's
    origin. `moment`, (3, 3), is the moment of inertia about it of a single free rigid body; None where the
    angular velocity keeps its components, as for isotropic bodies and for those that carry others.
    """

    joint: PlacedJoint
    v_slice: slice
    center: np.ndarray | None = None
    moment: np.ndarray | None = None


def turning_joints(model: Model) -> list[TurningJoint]:
    """Return the joints with turning axes that are not in loops."""
    result = []
    start = 0
    for cluster in model.clusters:
        stop = start + len(cluster.independent)
        joint = model.joints[cluster.bodies[0]]
        if not cluster.constraints and joint.kind.rotating_axes_term(np.zeros(joint.nv)) is not None:
            result.append(_turning_joint(model, joint, slice(start, stop)))
        start = stop
    return result


def is_single_body(model: Model, joint: PlacedJoint) -> bool:
    """Return whether a joint on the ground carries one rigid body and nothing else, which no loop holds."""
    nominal = model.nominal
    carries = any(other.parent == joint.child for other in nominal.joints)
    held = any(joint.child in constraint.bodies(nominal) for constraint in loop_constraints(nominal))
    armature = any(x != 0.0 for x in np.ravel(nominal.joints[joint.child].armature))
    pulled = any(joint.child in tendon.bodies for tendon in nominal.tendons if tendon.connects)
    return joint.parent == GROUND and not (carries or held or armature or pulled)


def _turning_joint(model: Model, joint: PlacedJoint, v_slice: slice) -> TurningJoint:
    if joint.parent != GROUND:
        return TurningJoint(joint, v_slice)
    body = model.bodies[joint.child]
    if model.nominal.bodies[joint.child].mass == 0.0:
        return TurningJoint(joint, v_slice)
    h = body.inertia.h
    center: np.ndarray | None = None
    if not all(is_zero(x) for x in h):
        center = np.asarray(h * (1.0 / body.mass), dtype=object)
    if not (isinstance(joint.kind, Free) and is_single_body(model, joint)):
        return TurningJoint(joint, v_slice, center)
    about = np.zeros(3) if center is None else center
    moment = np.asarray(Inertia.rigid(-body.mass, about, body.inertia.A).A, dtype=object)
    return TurningJoint(joint, v_slice, center, None if _isotropic(moment) else moment)


def _isotropic(moment: np.ndarray) -> bool:
    """Return whether a moment of inertia is known to be the same about all axes."""
    if any(isinstance(x, Symbol) for x in moment.ravel()):
        return False
    numbers = moment.astype(float)
    return bool(np.abs(numbers - numbers[0, 0] * np.eye(3)).max() <= 1e-12 * abs(numbers[0, 0]))


def turning_axes(model: Model, v: np.ndarray) -> np.ndarray:
    """Return the difference between v̇ and the rates of momentum in axes at rest, (nv,)."""
    result: Any = np.zeros(model.nv, dtype=object)
    for each in turning_joints(model):
        result[each.v_slice] = _turning_of(each, v[each.v_slice])
    return result


def _turning_of(each: TurningJoint, v: np.ndarray) -> np.ndarray:
    kind = each.joint.kind
    if each.center is None and each.moment is None:
        return np.asarray(kind.rotating_axes_term(v), dtype=object)
    if not isinstance(kind, Free):
        return _in_plane(each, v, kind.rotating_axes_term)
    w = v[:3]
    c = _center(each)
    angular = np.zeros(3, dtype=object)
    if each.moment is not None:
        angular = _solve(each.moment, cross(w, each.moment @ w))
    return np.array([*angular, *(cross(w, v[3:] + cross(w, c)) - cross(angular, c))], dtype=object)


def _center(each: TurningJoint) -> np.ndarray:
    return np.zeros(3) if each.center is None else each.center


def moved_straight(model: Model, step: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the motion for `integrate` of a `step` in axes before it, (nv,); and v, in the same, as it is
    after the step, (nv,).
    """
    motion: Any = np.array(step, dtype=object)
    turned: Any = np.array(v, dtype=object)
    for each in turning_joints(model):
        motion[each.v_slice], turned[each.v_slice] = _moved(each, step[each.v_slice], v[each.v_slice])
    return motion, turned


def _moved(each: TurningJoint, step: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind = each.joint.kind
    if each.center is None and each.moment is None:
        return kind.chord_to_velocity(step), kind.in_moved_axes(step, v)
    if not isinstance(kind, Free):
        return _moved_in_plane(each, step, v)
    c = _center(each)
    # of the centre
    far = step[3:] + cross(step[:3], c)
    fast = v[3:] + cross(v[:3], c)
    if each.moment is None:
        turn = step[:3]
        w = v[:3]
        R = rotation.matrix(rotation.exp(turn))
        fast = R.T @ fast
        back = R @ c
    else:
        y = _midpoint_turn(each.moment, step[:3])
        turn = _cayley_vector(y)
        w = _solve(each.moment, _carried_back(y, each.moment @ v[:3]))
        fast = _carried_back(y, fast)
        back = _carried_back(-y, c)
    shift = far if each.center is None else far + c - back
    motion = np.array([*turn, *rotation.screw_inverse(turn, shift)], dtype=object)
    return motion, np.array([*w, *(fast - cross(w, c))], dtype=object)


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return A⁻¹ b by Cramer's rule, (3,)."""
    x, y, z = A.T
    across = np.array([cross(y, z), cross(z, x), cross(x, y)], dtype=object)
    return (across * (1.0 / (x @ across[0]))) @ b


def _midpoint_turn(moment: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the y of I y + y × I y / 2 = I step."""
    y = step
    goal = moment @ step
    for _ in range(NEWTON_STEPS):
        I_y = moment @ y
        missing = I_y + 0.5 * cross(y, I_y) - goal
        y = y - _solve(moment + 0.5 * (skew(y) @ moment - skew(I_y)), missing)
    return y


def _carried_back(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return cay(y)ᵀ x."""
    across = cross(y, x)
    return x + (0.5 * cross(y, across) - across) * (1.0 / (1.0 + 0.25 * (y @ y)))


def _cayley_vector(y: np.ndarray) -> np.ndarray:
    """Return the rotation vector of cay(y): 2 atan(|y| / 2) about y."""
    square = 0.25 * (y @ y)
    large = square > SMALL_ANGLE
    half = sqrt(where(large, square, 1.0))
    return y * where(large, atan2(half, 1.0) / half, 1.0 - square * (1.0 / 3.0 - 0.2 * square))


def _plane(each: TurningJoint) -> tuple[Any, Any]:
    """Return the centre of mass along the two axes in the plane of a planar joint."""
    S = np.asarray(each.joint.kind.subspace(np.zeros(3)), dtype=object)
    c = _center(each)
    return S[3:, 0] @ c, S[3:, 1] @ c


def _at_center(each: TurningJoint, v: np.ndarray) -> np.ndarray:
    x, y = _plane(each)
    return np.array([v[0] - v[2] * y, v[1] + v[2] * x, v[2]], dtype=object)


def _at_origin(each: TurningJoint, v: np.ndarray) -> np.ndarray:
    x, y = _plane(each)
    return np.array([v[0] + v[2] * y, v[1] - v[2] * x, v[2]], dtype=object)


def _in_plane(each: TurningJoint, v: np.ndarray, turning: Any) -> np.ndarray:
    result: np.ndarray = turning(_at_center(each, v))  # the angular part is zero
    return result


def _moved_in_plane(each: TurningJoint, step: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind, (x, y) = each.joint.kind, _plane(each)
    far = _at_center(each, step)
    fast = _at_center(each, v)
    turned = _at_origin(each, kind.in_moved_axes(far, fast))
    back = kind.in_moved_axes(
        np.array([0.0, 0.0, -step[2]], dtype=object), np.array([x, y, 0.0], dtype=object)
    )
    shift = np.array([far[0] + x - back[0], far[1] + y - back[1], step[2]], dtype=object)
    return kind.chord_to_velocity(shift), turned
