"""The poses of a cluster's bodies, over numbers only: what Newton steps ask of a `ClusterPosture`, in much less time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.parts import End, Mechanism, PlacedJoint
from linkwork.spatial import Pose
from linkwork.topology.motion import ClusterPosture


class NumericPosture:
    """A cluster's bodies in one state after another, each in its own frame, seen from the one body below.

    With several `supports` it is seen from where the cluster `below`, which stays, is seen from.
    """

    def __init__(
        self, model: Mechanism, bodies: Sequence[int], below: ClusterPosture | None = None, supports: Sequence[int] = ()
    ) -> None:
        self._joints = {k: model.joints[k] for k in bodies}
        self.columns: dict[int, slice] = {}
        self.size = 0
        for k, joint in self._joints.items():
            self.columns[k] = slice(self.size, self.size + joint.nv)
            self.size += joint.nv
        self.width = self.size  # supports stay
        self._R: dict[int, np.ndarray] = {}
        self._p: dict[int, np.ndarray] = {}
        for k in supports if below else ():
            assert below is not None
            pose = below.pose[k].then(below.states[k].C.inverse())
            self._R[k], self._p[k] = pose.R.astype(float), pose.p.astype(float)
        self._moving: dict[int, np.ndarray] = {}
        self._frames: dict[int, Pose] = {}  # by the end's identity
        self._turning, self._sliding, self._origin = (np.zeros((3, self.size)) for _ in range(3))
        self._q: dict[int, np.ndarray] = {}

    def move(self, q: np.ndarray) -> None:
        """Go to the state q, (nq,) of the model."""
        still = np.eye(3), np.zeros(3)
        self._frames.clear()
        for k, joint in self._joints.items():
            own = q[joint.q_slice]
            self._q[k] = own
            R, p = (self._R[joint.parent], self._p[joint.parent]) if joint.parent in self._R else still
            turned, S = joint.kind.transform(own), joint.kind.subspace(own).astype(float)
            p = p + R @ (joint.place.p + joint.place.R @ turned.p.astype(float))
            R = R @ (joint.place.R @ turned.R.astype(float))
            self._R[k], self._p[k] = R, p
            where = self.columns[k]
            self._turning[:, where], self._sliding[:, where], self._origin[:, where] = R @ S[:3], R @ S[3:], p[:, None]

    def joint(self, k: int) -> PlacedJoint:
        return self._joints[k]

    def q(self, k: int) -> np.ndarray:
        return self._q[k]

    def frame(self, end: End) -> Pose:
        """The pose of a loop's end."""
        if end.body not in self._R:
            return end.place
        if id(end) not in self._frames:
            R = self._R[end.body]
            self._frames[id(end)] = Pose(R @ end.place.R, self._p[end.body] + R @ end.place.p)
        return self._frames[id(end)]

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of the angular velocity of a loop's end, and of the velocity of its point that is `at`, (3, width)."""
        w, v = np.zeros((3, self.size)), np.zeros((3, self.size))
        own = self._columns_below(end.body)
        w[:, own] = self._turning[:, own]
        x, y, z = at[:, None] - self._origin[:, own]
        a, b, c = w[:, own]
        v[:, own] = self._sliding[:, own] + np.stack([b * z - c * y, c * x - a * z, a * y - b * x])
        return w, v

    def _columns_below(self, body: int) -> np.ndarray:
        """The columns of all joints that move a body."""
        if body not in self._moving:
            found: list[int] = []
            k = body
            while k in self._joints:
                found += range(self.columns[k].start, self.columns[k].stop)
                k = self._joints[k].parent
            self._moving[body] = np.array(found, dtype=int)
        return self._moving[body]
