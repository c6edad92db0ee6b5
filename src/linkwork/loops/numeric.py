"""Postures of clusters over numbers: a fast `ClusterPosture` for Newton steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from linkwork.joints import Joint
from linkwork.loops.motion import ClusterPosture
from linkwork.mechanism import End, Mechanism, PlacedJoint
from linkwork.spatial import Pose

Placing = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]  # q to R, p and S of a joint


def placing(kind: Joint) -> Placing:
    """Return a function of q to pose (R, p) and motion subspace S, (6, nv), of a joint, over numbers.

    A joint with one velocity and constant S is a screw: its pose is exp(S q), in a fraction of the time.
    """
    if kind.nq != 1 or kind.nv != 1:
        return kind.numeric_motion
    S = kind.subspace(np.zeros(1)).astype(float)
    screw = _Screw(S)
    for q in (np.zeros(1), np.array([0.7]), np.array([-2.1])):
        if not all(
            np.abs(a - b).max() < 1e-13 * (1.0 + np.abs(S).max())
            for a, b in zip(kind.numeric_motion(q), screw(q))
        ):
            return kind.numeric_motion
    return screw


_known_placing = lru_cache(maxsize=256)(placing)  # chains repeat themselves


def _placing_of(kind: Joint) -> Placing:
    try:
        return _known_placing(kind)
    except TypeError:  # a joint of the user's own that has no hash
        return placing(kind)


class _Screw:
    """exp(S q) of a constant unit screw S, (6, 1), or of a translation."""

    def __init__(self, S: np.ndarray) -> None:
        self.S = S
        (x, y, z), v = S[:3, 0], S[3:, 0]
        self.W = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        self.WW = self.W @ self.W
        self.Wv = self.W @ v
        self.WWv = self.W @ (self.W @ v)
        self.v = v
        self.slides, self.turns = bool(v.any()), bool(S[:3].any())

    def __call__(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = float(q[0])
        if not self.turns:
            return _EYE, x * self.v, self.S
        s, c = (math.sin(x), 1.0 - math.cos(x)) if math.isfinite(x) else (math.nan, math.nan)
        p = x * self.v + c * self.Wv + (x - s) * self.WWv if self.slides else _ZERO
        return _EYE + s * self.W + c * self.WW, p, self.S


_EYE = np.eye(3)
_ZERO = np.zeros(3)


class NumericPosture:
    """A cluster's bodies in one state after another, each in its own frame, seen from the one body below.

    With several `supports` it is seen from where the cluster `below`, which stays, is seen from.
    """

    def __init__(
        self,
        model: Mechanism,
        bodies: Sequence[int],
        below: ClusterPosture | None = None,
        supports: Sequence[int] = (),
    ) -> None:
        self._joints = {k: model.joints[k] for k in bodies}
        self.own: dict[int, slice] = {}  # of each joint's velocities
        self.size = 0
        for k, joint in self._joints.items():
            self.own[k] = slice(self.size, self.size + joint.nv)
            self.size += joint.nv
        # frames that follow a flexible body are moved by its velocities, each in its own way: these are
        # further columns
        self.columns = dict(self.own)
        self._folded = [*range(self.size)]
        for k, joint in self._joints.items():
            if joint.follows is not None:
                self.columns[k] = slice(len(self._folded), len(self._folded) + joint.kind.followed)
                of = self.own[joint.follows]
                self._folded += range(of.start, of.stop)
        self.width = self.size  # supports stay
        self._R: dict[int, np.ndarray] = {}
        self._p: dict[int, np.ndarray] = {}
        for k in supports if below else ():
            assert below is not None
            pose = below.pose[k].then(below.states[k].C.inverse())
            self._R[k], self._p[k] = pose.R.astype(float), pose.p.astype(float)
        self._steps = [
            (k, joint.pose_slice, joint.parent, joint.place.R, joint.place.p, _placing_of(joint.kind))
            for k, joint in self._joints.items()
        ]
        screws = {k: placing.S for k, *_, placing in self._steps if isinstance(placing, _Screw)}
        self._screws, self._screw_columns = list(screws), [self.columns[k].start for k in screws]
        self._screw_axes = np.array([S.reshape(2, 3) for S in screws.values()]).reshape(-1, 2, 3)
        self._moving: dict[int, np.ndarray] = {}
        self._asked: dict[
            tuple[int, int], tuple[End, np.ndarray]
        ] = {}  # requested ends of relative velocities, signs
        self._signs: np.ndarray | None = None  # these as an array
        self._motions: dict[
            tuple[int, int], tuple[np.ndarray, np.ndarray]
        ] = {}  # what was found in this state
        self._frames: dict[int, Pose] = {}  # by the end's identity, in this state
        self._ends: dict[int, End] = {}  # requested ends
        self._places: tuple[np.ndarray, np.ndarray] | None = None  # these as arrays
        self._turning, self._sliding, self._origin = (np.zeros((3, len(self._folded))) for _ in range(3))
        self._q: dict[int, np.ndarray] = {}

    def move(self, q: np.ndarray) -> None:
        """Move to the state q, (nq,), of the model."""
        self._frames.clear()
        self._motions.clear()
        Rs = self._R
        ps = self._p
        for k, q_slice, parent, place_R, place_p, placing in self._steps:
            coordinates = self._q[k] = q[q_slice]
            turned, moved, S = placing(coordinates)
            R = place_R @ turned
            p = place_p if moved is _ZERO else place_p + place_R @ moved
            if parent in Rs:
                p = ps[parent] + Rs[parent] @ p
                R = Rs[parent] @ R
            Rs[k], ps[k] = R, p
            if not isinstance(placing, _Screw):
                where = self.columns[k]
                self._turning[:, where], self._sliding[:, where], self._origin[:, where] = (
                    R @ S[:3],
                    R @ S[3:],
                    p[:, None],
                )
        if self._screws:  # all at once
            R = np.array([Rs[k] for k in self._screws])
            axes = np.einsum("nij,nkj->kin", R, self._screw_axes)
            self._turning[:, self._screw_columns], self._sliding[:, self._screw_columns] = axes
            self._origin[:, self._screw_columns] = np.array([ps[k] for k in self._screws]).T

    def joint(self, k: int) -> PlacedJoint:
        return self._joints[k]

    def q(self, k: int) -> np.ndarray:
        return self._q[k]

    def frame(self, end: End) -> Pose:
        """Return the pose of a loop's end.

        All poses requested once are computed together in the next state.
        """
        if end.body not in self._R:
            return end.place
        if id(end) not in self._ends:
            self._ends[id(end)] = end
            self._places = None
            self._frames |= self._frames_of([end], *_placed([end]))
        elif id(end) not in self._frames:
            ends = list(self._ends.values())
            self._places = self._places or _placed(ends)
            self._frames = self._frames_of(ends, *self._places)
        return self._frames[id(end)]

    def _frames_of(self, ends: Sequence[End], places: np.ndarray, points: np.ndarray) -> dict[int, Pose]:
        """Return the poses of ends, by identity, from their placements on bodies."""
        R = np.array([self._R[one.body] for one in ends])
        p = np.array([self._p[one.body] for one in ends])
        turned = R @ places
        moved = p + np.einsum("nij,nj->ni", R, points)
        return {id(end): Pose(*at) for end, *at in zip(ends, turned, moved)}

    def velocity(self, end: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Jacobians of the angular velocity of an end and of its point `at`, (3, width)."""
        return self.motion(self.moving(end.body), at)

    def relative_velocity(self, end: End, seen_from: End, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Jacobians of one end relative to another at the origin of the first, (3, width).

        All Jacobians requested once are computed together in the next state: there are many small ones.
        """
        key = id(end), id(seen_from)
        if key not in self._asked:
            self._asked[key] = end, self.moving(end.body) - self.moving(seen_from.body)
            self._signs = None
            self._motions[key] = self.motion(self._asked[key][1], self.frame(end).p)
        elif key not in self._motions:
            if self._signs is None:
                self._signs = np.array([signs for _, signs in self._asked.values()])
            points = np.array([self.frame(one).p for one, _ in self._asked.values()])
            self._motions = dict(zip(self._asked, zip(*self._motions_of(self._signs[:, None], points))))
        return self._motions[key]

    def motion(self, signs: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Jacobians of a sum of paths, with the sign of each column in `moving`."""
        w, v = self._motions_of(signs[None, None], at[None])
        return w[0], v[0]

    def _motions_of(self, signs: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Jacobians of several sums, (n, 1, columns), at points, (n, 3): (n, 3, width) each."""
        w = self._turning * signs
        v = self._sliding * signs
        a = w[:, 0]
        b = w[:, 1]
        c = w[:, 2]
        arm = at[:, :, None] - self._origin
        x = arm[:, 0]
        y = arm[:, 1]
        z = arm[:, 2]
        v[:, 0] += b * z - c * y
        v[:, 1] += c * x - a * z
        v[:, 2] += a * y - b * x
        return self._fold(w), self._fold(v)

    def _fold(self, J: np.ndarray) -> np.ndarray:
        """Return columns with those of frames on flexible bodies added, (..., size)."""
        folded = J[..., : self.size]
        for column in range(self.size, len(self._folded)):
            folded[..., self._folded[column]] += J[..., column]
        return folded

    def moving(self, body: int) -> np.ndarray:
        """Return 1 for the columns of all joints that move a body, 0 for the others."""
        mask = np.zeros(len(self._folded))
        mask[self._columns_below(body)] = 1.0
        return mask

    def _columns_below(self, body: int) -> np.ndarray:
        """Return the columns of all joints that move a body."""
        if body not in self._moving:
            columns: list[int] = []
            k = body
            while k in self._joints:
                if not self._joints[k].kind.elastic:  # that does not move its frame
                    columns += range(self.columns[k].start, self.columns[k].stop)
                k = self._joints[k].parent
            self._moving[body] = np.array(columns, dtype=int)
        return self._moving[body]


def _placed(ends: Sequence[End]) -> tuple[np.ndarray, np.ndarray]:
    """Return orientations, (n, 3, 3), and positions, (n, 3), of ends on their bodies."""
    return np.array([one.place.R for one in ends]).astype(float), np.array(
        [one.place.p for one in ends]
    ).astype(float)
