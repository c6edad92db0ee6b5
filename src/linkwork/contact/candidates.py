"""Candidates: points of a mechanism that may touch something, fixed when a kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import sqrt
from linkwork.constraints import BodyKinematics
from linkwork.contact.collision_functions import CollisionFunction, Nearest, PointOf
from linkwork.mechanism import GROUND
from linkwork.spatial import Pose, cross, is_zero
from linkwork.spatial.constants import product

# of the distance at which two shapes can touch: what forces in a step may add to the way of the shapes
NEAR_MARGIN = 0.1


class ContactPoint(NamedTuple):
    """A candidate in one state, over numbers or symbols.

    `gap` [m] is negative where the shapes overlap. `point` [m], (3,), and `axes`, (3, 3), rows n, t1, t2, are
    in the frame of the first body, `other_point` and `other_axes` the same in the other's; n points from the
    other body to the first. These are the frames of bodies that nodes are described in
    (`kinematics.nodes[body]`); that of the ground is the world.
    """

    gap: Any
    point: np.ndarray
    axes: np.ndarray
    other_point: np.ndarray
    other_axes: np.ndarray


@final
@dataclass(frozen=True)
class Place:
    """A constant pose as a value that is compared, hashed and printed by its numbers: R row by row, and p
    [m].
    """

    rotation: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    point: tuple[float, ...] = (0.0, 0.0, 0.0)

    @classmethod
    def of(cls, pose: Pose) -> Place:
        # no -0
        R = np.asarray(pose.R, dtype=float) + 0.0
        p = np.asarray(pose.p, dtype=float) + 0.0
        return cls(tuple(R.ravel().tolist()), tuple(p.tolist()))

    @property
    def pose(self) -> Pose:
        return Pose(np.reshape(self.rotation, (3, 3)), np.array(self.point))


@final
@dataclass(frozen=True)
class Candidate:
    """A pair of places on two bodies that may touch: the first on `body`, the other on `other`, or fixed to
    the world (GROUND).

    `place` and `other_place` are the frames of the two shapes, in those of their bodies (or in the world);
    `law` is their collision function. `friction` holds the coefficients of sliding, torsional [m] and rolling
    [m] friction. `dimension` is the number of rows: 1 along the normal, 3 with both tangents, 4 with torsion
    about the normal, 6 with rolling about both tangents. `margin` [m]: the shapes touch when they are this
    near. `kind` names the shapes, such as "sphere on plane".
    """

    name: str
    body: int
    law: CollisionFunction
    place: Place = Place()
    other: int = GROUND
    other_place: Place = Place()
    friction: tuple[float, float, float] = (1.0, 0.0, 0.0)
    restitution: float = 0.0
    dimension: int = 3
    margin: float = 0.0
    kind: str = ""

    @property
    def bodies(self) -> tuple[int, ...]:
        """The bodies that it acts on, by index."""
        return tuple(body for body in (self.body, self.other) if body != GROUND)

    @property
    def pair(self) -> tuple[Any, ...]:
        """A key shared by candidates whose points are computed together and may change places in a step."""
        if not isinstance(self.law, PointOf):
            return (self,)
        return (self.law.collision, self.body, self.place, self.other, self.other_place)

    def touch(self, kinematics: BodyKinematics) -> ContactPoint:
        """Return gap, point and axes in one state."""
        F, G, S_in_P, T = self.frames(kinematics)
        gap, centre, along, axes = self._nearest(kinematics, T)
        other_axes = product(axes, G.R.T)
        own_axes = product(other_axes, S_in_P.R)
        at = T.point(centre) - along * axes[0]
        own_at = F.point(centre) - along * own_axes[0]
        return ContactPoint(
            gap - self.margin if self.margin else gap, own_at, own_axes, G.point(at), other_axes
        )

    def frames(self, kinematics: BodyKinematics) -> tuple[Pose, Pose, Pose, Pose]:
        """Return frames: both shapes' in those of their bodies, the first body's in the other's, the first
        shape's in the other's.
        """
        S = kinematics.nodes[self.body]
        P = kinematics.nodes[self.other]
        F = S.C.inverse().then(self.place.pose)
        G = P.C.inverse().then(self.other_place.pose)
        S_in_P = kinematics.pose(S, P)
        return F, G, S_in_P, G.inverse().then(S_in_P).then(F)

    def _nearest(self, kinematics: BodyKinematics, T: Pose) -> Nearest:
        """Return the contact by the law; what several candidates share is computed once in a state."""
        if not isinstance(self.law, PointOf):
            return self.law.nearest(T)
        key = self.pair
        if key not in kinematics.shared:
            kinematics.shared[key] = self._found(kinematics, T)
        result: Nearest = kinematics.shared[key][0][self.law.index]
        return result

    def is_near(self, kinematics: BodyKinematics) -> Any:
        """Return whether the points of the shapes were searched for, after `touch`: they may meet within the
        horizon of the kinematics.
        """
        return kinematics.shared[self.pair][1] if isinstance(self.law, PointOf) else True

    def _found(self, kinematics: BodyKinematics, T: Pose) -> tuple[list[Nearest], Any]:
        """Return the contact points of the pair of shapes, and whether they were searched for."""
        assert isinstance(self.law, PointOf)
        collision = self.law.collision
        if kinematics.horizon is None or not collision.reach:
            return collision.nearest(T), True
        reach: Any = collision.reach
        if not is_zero(kinematics.horizon):
            u = self._velocity_of_centres(kinematics)
            reach = (1.0 + NEAR_MARGIN) * reach + kinematics.horizon * sqrt(product(u, u))
        near = product(T.p, T.p) < reach * reach
        return collision.nearest_if_near(T, near), near

    def _velocity_of_centres(self, kinematics: BodyKinematics) -> np.ndarray:
        """Return the velocity of the first shape's origin less that of the other's, in axes of the other
        body.
        """
        F, G, S_in_P, _ = self.frames(kinematics)
        twists = [kinematics.velocity(kinematics.nodes[body]) for body in (self.body, self.other)]
        own, other = (V[3:] + cross(V[:3], at.p) for V, at in zip(twists, (F, G)))
        result: np.ndarray = product(S_in_P.R, own) - other
        return result
