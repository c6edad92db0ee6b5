"""Rows of limits and dry friction: of coordinates, of angles of ball joints, and of spatial tendons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import sqrt, where
from linkwork.compiler.ir.symbol import Symbol
from linkwork.constraints import BodyKinematics, Rows
from linkwork.joints import Joint
from linkwork.mechanism import Coupling, PlacedJoint, SpatialTendon
from linkwork.model import Model
from linkwork.sko.body_loads import BodyLoads
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.tree import ModelTree
from linkwork.spatial.constants import product


class Limited(NamedTuple):
    """A limited quantity in one state: its rate as a row, and its value."""

    rows: Rows
    value: Any


@dataclass(frozen=True)
class CoordinateLimit:
    """The limits of coordinate `i` of a joint."""

    joint: PlacedJoint
    i: int
    lower: float
    upper: float

    @property
    def name(self) -> str:
        return f"{self.joint.name}.limit" if self.joint.nq == 1 else f"{self.joint.name}.limit {self.i}"

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    def at(self, kinematics: BodyKinematics) -> Limited:
        q = kinematics.nodes.q[self.joint.q_slice]
        return Limited(_in_joint(kinematics, self.joint, _rate_of(self.joint, self.i, q)), q[self.i])


@dataclass(frozen=True)
class AngleLimit:
    """The limit of the angle by which a joint turns its child, about any axis."""

    joint: PlacedJoint

    @property
    def name(self) -> str:
        return f"{self.joint.name}.limit"

    @property
    def bounds(self) -> tuple[float, float]:
        return -np.inf, self.joint.max_angle

    def at(self, kinematics: BodyKinematics) -> Limited:
        vector = self.joint.kind.rotation_vector(kinematics.nodes.q[self.joint.q_slice])
        square = product(vector, vector)
        turned = square > 0.0
        angle = where(turned, sqrt(where(turned, square, 1.0)), 0.0)
        # At rest the axis is arbitrary: the limit is far away.
        axis = where(turned, vector / where(turned, angle, 1.0), np.array([1.0, 0.0, 0.0]))
        return Limited(_in_joint(kinematics, self.joint, axis), angle)


@dataclass(frozen=True)
class LengthLimit:
    """The limits of the length of a spatial tendon."""

    tendon: SpatialTendon

    @property
    def name(self) -> str:
        return f"{self.tendon.name}.limit"

    @property
    def bounds(self) -> tuple[float, float]:
        return self.tendon.range

    def at(self, kinematics: BodyKinematics) -> Limited:
        return Limited(*_along_tendon(kinematics, self.tendon))


Limit = CoordinateLimit | AngleLimit | LengthLimit


@dataclass(frozen=True)
class JointFriction:
    """Dry friction against velocity `i` of a joint."""

    joint: PlacedJoint
    i: int

    @property
    def name(self) -> str:
        return f"{self.joint.v_names[self.i]}.friction"

    @property
    def force(self) -> Any:
        return self.joint.friction[self.i]

    def at(self, kinematics: BodyKinematics) -> Rows:
        return _in_joint(kinematics, self.joint, np.eye(self.joint.nv)[self.i])


@dataclass(frozen=True)
class TendonFriction:
    """Dry friction against the rate of the length of a spatial tendon."""

    tendon: SpatialTendon

    @property
    def name(self) -> str:
        return f"{self.tendon.name}.friction"

    @property
    def force(self) -> float:
        return self.tendon.friction

    def at(self, kinematics: BodyKinematics) -> Rows:
        return _along_tendon(kinematics, self.tendon)[0]


Friction = JointFriction | TendonFriction


def limited(model: Model) -> list[Limit]:
    """Return the limits of a model.

    The limits of a rotor that a gear couples to one joint are limits of that joint. Other rotors have their
    own: the last link of an arm is a rotor too, if it is balanced about its axis.
    """
    bounds = _bounds_by_coordinate(model)
    coordinates = [
        CoordinateLimit(joint, i, *bounds[joint.child, i])
        for joint in model.joints
        for i in range(joint.nq)
        if np.isfinite(bounds[joint.child, i]).any()
    ]
    angles = [AngleLimit(joint) for joint in model.joints if joint.max_angle < np.pi]
    return [*coordinates, *angles, *(LengthLimit(tendon) for tendon in model.tendons if tendon.limited)]


def _bounds_by_coordinate(model: Model) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the bounds of each coordinate of each joint; those of geared rotors are moved to their links."""
    bounds = {
        (joint.child, i): (joint.lower[i], joint.upper[i]) if joint.lower else (-np.inf, np.inf)
        for joint in model.joints
        for i in range(joint.nq)
    }
    for k, each in enumerate(lumped(model.nominal)):
        gear = _driving_coordinate(model, k) if each.rotor else None
        if gear is None:
            continue
        link, ratio, offset = gear
        ends = sorted((bound - offset) / ratio for bound in bounds[k, 0])
        lower, upper = max(bounds[link][0], ends[0]), min(bounds[link][1], ends[1])
        if lower <= upper:  # contradictory limits keep their rows, which report it
            bounds[link] = lower, upper
            bounds[k, 0] = -np.inf, np.inf
    return bounds


def _driving_coordinate(model: Model, rotor: int) -> tuple[tuple[int, int], float, float] | None:
    """Return the coordinate to which a rotor is geared, ratio and offset: q = ratio · coordinate + offset.

    None without such a coordinate, and where the ratio is an input.
    """
    for coupling in (*model.embedded, *model.constrained_loops):
        if not isinstance(coupling, Coupling) or len(coupling.terms) != 2 or rotor not in coupling.bodies:
            continue
        if any(isinstance(c, Symbol) for c in coupling.coefficients):
            continue
        (link, i, c_link), (_, _, c) = sorted(coupling.terms, key=lambda term: term[0] == rotor)
        return (link, i), -c_link / c, coupling.offset / c
    return None


def with_friction(model: Model) -> list[Friction]:
    """Return where there is dry friction in the nominal model."""
    joints = model.nominal.joints
    in_joints = [
        JointFriction(joint, i)
        for joint, was in zip(model.joints, joints)
        for i, f in enumerate(was.friction)
        if f != 0.0
    ]
    return [*in_joints, *(TendonFriction(tendon) for tendon in model.tendons if tendon.friction)]


def held_bodies(model: Model) -> set[int]:
    """Return the bodies on which limits and friction of spatial tendons act."""
    tendons = [tendon for tendon in model.tendons if tendon.limited or tendon.friction]
    return {body for tendon in tendons for body in tendon.bodies}


def values_of(limits: Sequence[Limit], q: Any, nodes: Callable[[Any], ModelTree[Any]]) -> list[Any]:
    """Return the limited quantities at q; `nodes` returns the nodes there, where they are needed."""
    if all(isinstance(limit, CoordinateLimit) for limit in limits):
        return [q[limit.joint.q_start + limit.i] for limit in limits if isinstance(limit, CoordinateLimit)]
    kinematics = BodyKinematics(nodes(q))
    return [limit.at(kinematics).value for limit in limits]


def _rate_of(joint: PlacedJoint, i: int, q: Any) -> np.ndarray:
    """Return the rate of coordinate i by the velocities of the joint, (nv,): row i of E in q̇ = E(q) v."""
    ones = np.eye(joint.nv)
    if type(joint.kind).rate is Joint.rate:
        return ones[i]
    return np.array([joint.kind.rate(q, one)[i] for one in ones], dtype=object)


def _in_joint(kinematics: BodyKinematics, joint: PlacedJoint, row: np.ndarray) -> Rows:
    """Return a row over the velocities of a joint, (nv,)."""
    return kinematics.on_joints([(joint.child, row[None])], np.zeros(1, dtype=object))._replace(k=np.zeros(1))


def _along_tendon(kinematics: BodyKinematics, tendon: SpatialTendon) -> tuple[Rows, Any]:
    """Return the rate of the length of a spatial tendon as a row, and the length [m]."""
    key = ("tendon", tendon.name)
    if key not in kinematics.shared:
        nodes: ModelTree[Any] = kinematics.nodes
        loads = kinematics.shared.setdefault("tendons", BodyLoads(nodes.model, nodes.bodies, nodes.below))
        length, gradient = loads.length_and_gradient(tendon)
        rows = _in_hinges(nodes, gradient)
        kinematics.shared[key] = rows, length
    result: tuple[Rows, Any] = kinematics.shared[key]
    return result


def _in_hinges(nodes: ModelTree[Any], gradient: Mapping[int, np.ndarray]) -> Rows:
    """Return a row over the motions of bodies, (6,) each in the frames of their descriptions, on hinges.

    Rows on the motions of two nodes would mean their relative motion (see `Rows`), but a tendon may also be
    fixed to the ground.
    """
    F: dict[Any, Any] = {}
    for body, row in gradient.items():
        node = nodes.node_of(body)
        full = np.zeros(node.rows, dtype=object)
        full[node.blocks[body]] = row
        F[node] = F[node] + full if node in F else full
    hinges = []
    for k in nodes.tips_to_base():
        if k not in F:
            continue
        if k.dofs.stop > k.dofs.start:
            hinges.append((k, np.asarray(k.H @ F[k], dtype=object)[None]))
        if k.parent is not nodes.ground:
            pushed = k.A.gather(F[k])
            F[k.parent] = F[k.parent] + pushed if k.parent in F else pushed
    return Rows((), hinges, np.zeros(1, dtype=object))
