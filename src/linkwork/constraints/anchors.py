"""Anchors: where the gains of constraints pull to. A place in the world, or how two frames stand to each other in a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.constraints.relative_motion import RelativeMotion
from linkwork.errors import ModelError
from linkwork.lazy import cached_property
from linkwork.model import Model
from linkwork.parts import GROUND, Frame, path_to_ground
from linkwork.spatial import Pose, rotation
from linkwork.spatial.constants import product


@dataclass(frozen=True)
class PlaceInWorld:
    """A pose in the world as a value: kernels are found by it. `rotation` are the nine numbers of R, row by row."""

    rotation: tuple[float, ...]
    point: tuple[float, ...]  # [m]

    @classmethod
    def of(cls, what: str, given: Any) -> PlaceInWorld:
        """From a `Pose`, or its homogeneous matrix, (4, 4)."""
        if isinstance(given, cls):
            return given
        try:
            T = np.asarray(given.matrix() if isinstance(given, Pose) else given, dtype=float)
        except (TypeError, ValueError):
            T = np.zeros(0)
        if T.shape != (4, 4) or not np.isfinite(T).all():
            raise ModelError(f"{what}: `to` must be the name of a frame, or a pose: a Pose or a (4, 4) matrix, not {given!r}")
        R = T[:3, :3]
        if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0 or np.any(T[3] != (0.0, 0.0, 0.0, 1.0)):
            raise ModelError(f"{what}: `to` must be a pose: a rotation, a point, and 0 0 0 1 in the last row, not {given!r}")
        return cls(tuple(R.ravel().tolist()), tuple(T[:3, 3].tolist()))

    @property
    def frame(self) -> Frame:
        return Frame("world", GROUND, Pose(np.reshape(self.rotation, (3, 3)), np.array(self.point)))


def coordinates(what: str, at: Any) -> tuple[float, ...]:
    """The coordinates of a state as a value."""
    try:
        q = np.asarray(at, dtype=float)
    except (TypeError, ValueError):
        q = np.array(np.nan)
    if q.ndim != 1 or not np.isfinite(q).all():
        raise ModelError(f"{what}: `at` must be the coordinates q of one state, (nq,), not {at!r}")
    return tuple(q.tolist())


def relative_pose(model: Model, frame: Frame, to: Frame, q: tuple[float, ...]) -> Pose:
    """The pose of a frame in another in the state q, (nq,)."""
    one, other = (_in_world(model, end, q) for end in (frame, to))
    return other.inverse().then(one)


def _in_world(model: Model, frame: Frame, q: tuple[float, ...]) -> Pose:
    found = frame.place
    for k in path_to_ground(frame.body, model.joints):
        joint = model.joints[k]
        found = joint.place.then(joint.kind.transform(np.array(q[joint.q_slice]))).then(found)
    return found


class Displaced:
    """A frame F as seen from T, and from where it stood there at rest: `p` and both rotation vectors are counted from there."""

    def __init__(self, seen: RelativeMotion, rest: Pose) -> None:
        self.R, self.rest = seen.R, rest
        self.p = seen.p - rest.p

    @cached_property
    def rotation_vector(self) -> np.ndarray:
        """The rotation vector from the axes at rest to F's [rad], in T's axes."""
        return rotation.log(rotation.of_matrix(product(self.R, self.rest.R.T)))

    @cached_property
    def own_rotation_vector(self) -> np.ndarray:
        """The same in F's axes."""
        return rotation.log(rotation.of_matrix(product(self.rest.R.T, self.R)))
