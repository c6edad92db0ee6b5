"""How a cluster's bodies stand and move as seen from the one body below, all in that body's axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from linkwork.parts import End, LoopConstraint, Mechanism, PlacedJoint
from linkwork.parts.loops import Drift, Posture
from linkwork.parts.loops import Speeds as LoopSpeeds
from linkwork.spatial import Pose, cross
from linkwork.spatial.constants import product
from linkwork.topology.kinematics import BodyMotion, Ground, JointState, own_frame


class Joints:
    """Some joints in one state, and the columns of their velocities, one joint after the other."""

    def __init__(self, states: Mapping[int, JointState]) -> None:
        self.states = states
        self.columns: dict[int, slice] = {}
        self.size = 0
        for k, state in states.items():
            follows = state.joint.follows
            own = slice(self.size, self.size + state.joint.nv)
            self.columns[k] = own if follows is None else self.columns[follows]  # what moves it
            self.size = own.stop
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
        """The same Jacobians of the motion of one end as seen from another, (3, width)."""
        (below, sliding), (w, v) = self.velocity(seen_from, at), self.velocity(end, at)
        return w - below, v - sliding


class ClusterPosture(Joints):
    """The poses of a cluster's bodies, seen from the body `base` that it hangs on.

    A cluster with several `supports` hangs on bodies of another one, `below`, and is seen from where that one is seen from. The
    motions of its supports, six components each in their own axes, then count like those of joints: their columns are the last.
    """

    def __init__(
        self,
        states: Mapping[int, JointState],
        base: Ground | BodyMotion,
        below: ClusterPosture | None = None,
        supports: Sequence[int] = (),
    ) -> None:
        super().__init__(states)
        self.base, self.below, self.supports = base, below, supports
        self.pose: dict[int, Pose] = {}
        self._frames: dict[int, tuple[End, Pose]] = {}  # by the end's identity
        self._known = dict(states)
        if below:
            for k in supports:
                self.columns[k] = slice(self.width, self.width + 6)
                self.width += 6
                self.pose[k], self._known[k] = below.pose[k], below.states[k]
        self.on: dict[int, int | None] = {
            k: state.joint.parent if state.joint.parent in self._known else None for k, state in states.items()
        }
        for k, state in states.items():
            on = self.on[k]
            self.pose[k] = state.X if on is None else self.pose[on].then(state.X)

    def frame(self, end: End) -> Pose:
        """The pose of a loop's end."""
        if id(end) not in self._frames:
            known = self._known.get(end.body)
            body = self.pose[end.body].then(known.C.inverse()) if known else self.base.C.inverse()
            self._frames[id(end)] = end, body.then(end.place)
        return self._frames[id(end)][1]

    def path(self, end: End) -> list[int]:
        """The bodies that move a loop's end, from its own down."""
        found: list[int] = []
        k: int | None = end.body if end.body in self._known else None
        while k is not None:
            found.append(k)
            k = self.on.get(k)
        return found

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of the angular velocity of a loop's end, and of the velocity of its point that is `at`, (3, width)."""
        w = np.zeros((3, self.width), dtype=object)
        v = np.zeros((3, self.width), dtype=object)
        for k in self.path(end):
            T, where = self.pose[k], self.columns[k]
            S = self.states[k].joint_map if k in self.states else np.eye(6)
            if k in self.states and self.states[k].kind.elastic:  # its frame stays where it is
                continue
            turning = product(T.R, S[:3])
            w[:, where] = turning
            v[:, where] = product(T.R, S[3:]) + cross(turning, np.reshape(at - T.p, (3, 1)) * np.ones((1, S.shape[1])))
        return w, v


class Speeds:
    """How a cluster moves: the velocities v of its joints, (size,), and those of the cluster `below` that supports it."""

    def __init__(self, posture: ClusterPosture, v: np.ndarray, below: Speeds | None = None) -> None:
        self.posture, self.v, self.below = posture, v, below
        self._found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """w and v of a body's frame, (3,) each."""
        posture = self.posture
        if self.below and k in posture.supports:
            return self.below.of(k)
        if k not in self._found:
            on, T = posture.on[k], posture.pose[k]
            J = product(posture.states[k].joint_map, self.v[posture.columns[k]])
            w, u, p = (np.zeros(3), np.zeros(3), np.zeros(3)) if on is None else (*self.of(on), posture.pose[on].p)
            self._found[k] = w + product(T.R, J[:3]), u + cross(w, T.p - p) + product(T.R, J[3:])
        return self._found[k]

    def drift(self, end: End, at: np.ndarray) -> Drift:
        """The bias acceleration of the point of a loop's end that is `at`: neither joints nor supports accelerate."""
        posture = self.posture
        p, w, u = np.zeros(3), np.zeros(3), np.zeros(3)
        dw, du = np.zeros(3), np.zeros(3)
        for k in reversed(posture.path(end)):
            T = posture.pose[k]
            if k in posture.supports:
                p, (w, u, dw, du) = T.p, self._supporting(k)
                continue
            state, own = posture.states[k], self.v[posture.columns[k]]
            J, rate = product(state.joint_map, own), state.bias(own)
            d, wJ, uJ = T.p - p, product(T.R, J[:3]), product(T.R, J[3:])
            du = du + cross(dw, d) + cross(w, cross(w, d)) + 2.0 * cross(w, uJ) + cross(wJ, uJ) + product(T.R, rate[3:])
            u = u + cross(w, d) + uJ
            dw = dw + cross(w, wJ) + product(T.R, rate[:3])
            w, p = w + wJ, T.p
        d = at - p
        return Drift(w, u + cross(w, d), dw, du + cross(dw, d) + cross(w, cross(w, d)))

    def _supporting(self, k: int) -> Drift:
        """Of a support's origin where an observer at rest sees no acceleration of it: only what turning adds."""
        (w, u), turning = self.of(k), self.posture.base.w
        return Drift(w, u, -cross(turning, w), -cross(turning, cross(turning, self.posture.pose[k].p) + 2.0 * u))


def supports_motion(posture: ClusterPosture, below: Speeds | None) -> np.ndarray:
    """The motions of all supports in their own axes, (width - size,)."""
    if below is None:
        return np.zeros(0)
    return np.concatenate([np.zeros(0), *(product(posture.pose[k].R.T, x) for k in posture.supports for x in below.of(k))])


def cluster_posture(
    model: Mechanism,
    bodies: Sequence[int],
    q: np.ndarray,
    below: ClusterPosture | None = None,
    supports: Sequence[int] = (),
) -> ClusterPosture:
    """The poses of a cluster's bodies at q, (nq,), seen from the body below."""
    made: dict[int, JointState] = dict(below.states) if below else {}
    for k in bodies:
        joint = model.joints[k]
        carrier = made[joint.parent].C if joint.parent in made else Pose.identity()
        made[k] = JointState(joint, own_frame(joint, carrier), q[joint.pose_slice])
    return ClusterPosture({k: made[k] for k in bodies}, Ground(), below, supports)


def residuals(posture: Posture, constraints: Sequence[LoopConstraint]) -> np.ndarray:
    """φ of several constraints, one after the other."""
    return np.concatenate([np.zeros(0), *(constraint.residual(posture) for constraint in constraints)])


def all_equations(
    posture: Posture, constraints: Sequence[LoopConstraint], speeds: LoopSpeeds | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """K and k of several constraints, one under the other."""
    found = [constraint.equations(posture, speeds) for constraint in constraints]
    return np.concatenate([K for K, _ in found]), np.concatenate([k for _, k in found])
