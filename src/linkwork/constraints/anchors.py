"""Anchors: poses that the gains of constraints pull towards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.constraints.relative_motion import RelativeMotion
from linkwork.errors import ModelError
from linkwork.lazy import cached_property
from linkwork.mechanism import GROUND, Frame, path_to_ground
from linkwork.model import Model
from linkwork.spatial import Pose, rotation
from linkwork.spatial.constants import product


@dataclass(frozen=True)
class PlaceInWorld:
    """A hashable pose in the world; `rotation` holds the nine numbers of R row by row."""

    rotation: tuple[float, ...]
    point: tuple[float, ...]  # [m]

    @classmethod
    def of(cls, label: str, pose: Any) -> PlaceInWorld:
        """Return the anchor at a `Pose`, or at a homogeneous matrix, (4, 4)."""
        if isinstance(pose, cls):
            return pose
        try:
            T = np.asarray(pose.matrix() if isinstance(pose, Pose) else pose, dtype=float)
        except (TypeError, ValueError):
            T = np.zeros(0)
        if T.shape != (4, 4) or not np.isfinite(T).all():
            raise ModelError(
                f"{label}: `to`: expected the name of a frame, or a pose: a Pose or a (4, 4) matrix, got "
                f"{pose!r}"
            )
        R = T[:3, :3]
        if (
            np.abs(R @ R.T - np.eye(3)).max() > 1e-6
            or np.linalg.det(R) < 0
            or np.any(T[3] != (0.0, 0.0, 0.0, 1.0))
        ):
            raise ModelError(
                f"{label}: `to`: expected a pose: a rotation, a point, and 0 0 0 1 in the last row, got "
                f"{pose!r}"
            )
        return cls(tuple(R.ravel().tolist()), tuple(T[:3, 3].tolist()))

    @property
    def frame(self) -> Frame:
        return Frame("world", GROUND, Pose(np.reshape(self.rotation, (3, 3)), np.array(self.point)))


def coordinates(label: str, at: Any) -> tuple[float, ...]:
    """Return the coordinates of a state as a hashable value."""
    try:
        q = np.asarray(at, dtype=float)
    except (TypeError, ValueError):
        q = np.array(np.nan)
    if q.ndim != 1 or not np.isfinite(q).all():
        raise ModelError(f"{label}: `at`: expected the coordinates q of one state, (nq,), got {at!r}")
    return tuple(q.tolist())


def relative_pose(model: Model, frame: Frame, to: Frame, q: tuple[float, ...]) -> Pose:
    """Return the pose of one frame in another at q, (nq,)."""
    one, other = (_in_world(model, end, q) for end in (frame, to))
    return other.inverse().then(one)


def _in_world(model: Model, frame: Frame, q: tuple[float, ...]) -> Pose:
    place = frame.place
    for k in path_to_ground(frame.body, model.joints):
        joint = model.joints[k]
        mover = joint if joint.follows is None else model.joints[joint.follows]  # modes of a flexible body
        place = joint.place.then(joint.kind.transform(np.array(q[mover.q_slice]))).then(place)
    return place


class Displaced:
    """Motion of a frame F relative to T, measured from an anchor: `p` and both rotation vectors."""

    def __init__(self, seen: RelativeMotion, anchor: Pose) -> None:
        self.R = seen.R
        self.rest = anchor
        self.p = seen.p - anchor.p

    @cached_property
    def rotation_vector(self) -> np.ndarray:
        """The rotation vector from the axes at rest to F's [rad], in T's axes."""
        return rotation.log(rotation.of_matrix(product(self.R, self.rest.R.T)))

    @cached_property
    def own_rotation_vector(self) -> np.ndarray:
        """The rotation vector in the axes of F."""
        return rotation.log(rotation.of_matrix(product(self.rest.R.T, self.R)))
