"""Posture and motion of a cluster's bodies relative to the body below, in its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from linkwork.loops.kinematics import BodyMotion, Ground, JointState, own_frame
from linkwork.mechanism import End, LoopConstraint, Mechanism, PlacedJoint
from linkwork.mechanism.loops import Drift, Posture
from linkwork.mechanism.loops import Speeds as LoopSpeeds
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product


class Joints:
    """Some joints in one state, and the columns of their velocities, one joint after the other."""

    def __init__(self, states: Mapping[int, JointState]) -> None:
        self.states = states
        self.columns: dict[int, slice] = {}
        self.size = 0
        for k, state in states.items():
            follows = state.joint.follows
            v_slice = slice(self.size, self.size + state.joint.nv)
            self.columns[k] = v_slice if follows is None else self.columns[follows]  # what moves it
            self.size = v_slice.stop
        self.width = self.size

    def joint(self, k: int) -> PlacedJoint:
        return self.states[k].joint

    def q(self, k: int) -> np.ndarray:
        return self.states[k].q

    def frame(self, end: End) -> Pose:
        raise NotImplementedError("joints alone have no frames")

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("joints alone have no frames")

    def relative_velocity(self, end: End, seen_from: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Jacobians of the motion of one end relative to another, (3, width)."""
        (below, sliding), (w, v) = self.velocity(seen_from, at), self.velocity(end, at)
        return w - below, v - sliding


class ClusterPosture(Joints):
    """The poses of a cluster's bodies, relative to the body `base` that supports it.

    A cluster with several `supports` is supported by bodies of another one, `below`, and is described
    relative to where that one is seen from. The motions of its supports, six components each in their own
    axes, then count like those of joints: their columns are the last.
    """

    def __init__(
        self,
        states: Mapping[int, JointState],
        base: Ground | BodyMotion,
        below: ClusterPosture | None = None,
        supports: Sequence[int] = (),
    ) -> None:
        super().__init__(states)
        self.base = base
        self.below = below
        self.supports = supports
        self.pose: dict[int, Pose] = {}
        self._frames: dict[int, tuple[End, Pose]] = {}  # by the end's identity
        self._known = dict(states)
        if below:
            for k in supports:
                self.columns[k] = slice(self.width, self.width + 6)
                self.width += 6
                self.pose[k], self._known[k] = below.pose[k], below.states[k]
        self.on: dict[int, int | None] = {
            k: state.joint.parent if state.joint.parent in self._known else None
            for k, state in states.items()
        }
        for k, state in states.items():
            on = self.on[k]
            self.pose[k] = state.X if on is None else self.pose[on].then(state.X)

    def frame(self, end: End) -> Pose:
        """Return the pose of a loop's end."""
        if id(end) not in self._frames:
            known = self._known.get(end.body)
            body = self.pose[end.body].then(known.C.inverse()) if known else self.base.C.inverse()
            self._frames[id(end)] = end, body.then(end.place)
        return self._frames[id(end)][1]

    def path(self, end: End) -> list[int]:
        """Return the bodies that move a loop's end, from its own towards the ground."""
        bodies: list[int] = []
        k: int | None = end.body if end.body in self._known else None
        while k is not None:
            bodies.append(k)
            k = self.on.get(k)
        return bodies

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Jacobians of the angular velocity of an end and of its point `at`, (3, width)."""
        w = np.zeros((3, self.width), dtype=object)
        v = np.zeros((3, self.width), dtype=object)
        for k in self.path(end):
            T = self.pose[k]
            where = self.columns[k]
            S = self.states[k].joint_map if k in self.states else np.eye(6)
            if k in self.states and self.states[k].kind.elastic:  # its frame stays where it is
                continue
            turning = product(T.R, S[:3])
            w[:, where] = turning
            v[:, where] = product(T.R, S[3:]) + cross(
                turning, np.reshape(at - T.p, (3, 1)) * np.ones((1, S.shape[1]))
            )
        return w, v


class Speeds:
    """Motion of a cluster: the velocities v of its joints, (size,), and those of the cluster `below`."""

    def __init__(self, posture: ClusterPosture, v: np.ndarray, below: Speeds | None = None) -> None:
        self.posture = posture
        self.v = v
        self.below = below
        self._found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return w and v of a body's frame, (3,) each."""
        posture = self.posture
        if self.below and k in posture.supports:
            return self.below.of(k)
        if k not in self._found:
            on = posture.on[k]
            T = posture.pose[k]
            J = product(posture.states[k].joint_map, self.v[posture.columns[k]])
            w, u, p = (
                (np.zeros(3), np.zeros(3), np.zeros(3)) if on is None else (*self.of(on), posture.pose[on].p)
            )
            self._found[k] = w + product(T.R, J[:3]), u + cross(w, T.p - p) + product(T.R, J[3:])
        return self._found[k]

    def drift(self, end: End, at: np.ndarray) -> Drift:
        """Return the bias acceleration of point `at` of a loop's end, without joint accelerations."""
        posture = self.posture
        p = np.zeros(3)
        w = np.zeros(3)
        u = np.zeros(3)
        dw = np.zeros(3)
        du = np.zeros(3)
        for k in reversed(posture.path(end)):
            T = posture.pose[k]
            if k in posture.supports:
                p, (w, u, dw, du) = T.p, self._supporting(k)
                continue
            state = posture.states[k]
            joint_velocity = self.v[posture.columns[k]]
            J = product(state.joint_map, joint_velocity)
            rate = state.bias(joint_velocity)
            d = T.p - p
            wJ = product(T.R, J[:3])
            uJ = product(T.R, J[3:])
            du = (
                du
                + cross(dw, d)
                + cross(w, cross(w, d))
                + 2.0 * cross(w, uJ)
                + cross(wJ, uJ)
                + product(T.R, rate[3:])
            )
            u = u + cross(w, d) + uJ
            dw = dw + cross(w, wJ) + product(T.R, rate[:3])
            w = w + wJ
            p = T.p
        d = at - p
        return Drift(w, u + cross(w, d), dw, du + cross(dw, d) + cross(w, cross(w, d)))

    def _supporting(self, k: int) -> Drift:
        """Return the acceleration due to the turning of a support whose origin does not accelerate."""
        (w, u), turning = self.of(k), self.posture.base.w
        return Drift(
            w, u, -cross(turning, w), -cross(turning, cross(turning, self.posture.pose[k].p) + 2.0 * u)
        )


def supports_motion(posture: ClusterPosture, below: Speeds | None) -> np.ndarray:
    """Return the motions of all supports in their own axes, (width - size,)."""
    if below is None:
        return np.zeros(0)
    return np.concatenate(
        [np.zeros(0), *(product(posture.pose[k].R.T, x) for k in posture.supports for x in below.of(k))]
    )


def cluster_posture(
    model: Mechanism,
    bodies: Sequence[int],
    q: np.ndarray,
    below: ClusterPosture | None = None,
    supports: Sequence[int] = (),
) -> ClusterPosture:
    """Return the poses of a cluster's bodies at q, (nq,), relative to the body below."""
    made: dict[int, JointState] = dict(below.states) if below else {}
    for k in bodies:
        joint = model.joints[k]
        carrier = made[joint.parent].C if joint.parent in made else Pose.identity()
        made[k] = JointState(joint, own_frame(joint, carrier), q[joint.pose_slice])
    return ClusterPosture({k: made[k] for k in bodies}, Ground(), below, supports)


def residuals(posture: Posture, constraints: Sequence[LoopConstraint]) -> np.ndarray:
    """Return φ of several constraints, concatenated."""
    return np.concatenate([np.zeros(0), *(constraint.residual(posture) for constraint in constraints)])


def all_equations(
    posture: Posture, constraints: Sequence[LoopConstraint], speeds: LoopSpeeds | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return K and k of several constraints, stacked."""
    parts = [constraint.equations(posture, speeds) for constraint in constraints]
    return np.concatenate([K for K, _ in parts]), np.concatenate([k for _, k in parts])
