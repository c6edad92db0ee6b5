"""A joint made by the recipe of docs/extending.md."""

from dataclasses import dataclass
from typing import final

import numpy as np

from linkwork.joints import Joint
from linkwork.joints.joint import columns
from linkwork.spatial import Pose


@final
@dataclass(frozen=True)
class Polar(Joint):
    """Rotation about z by q[0] [rad], then translation along the new x by q[1] [m]."""

    nq = nv = 2

    def transform(self, q):
        return Pose.rotation_about(2, q[0]).then(Pose.translation(np.array([q[1], 0.0, 0.0])))

    def subspace(self, q):
        none = (0.0, 0.0, 0.0)
        return columns(((0.0, 0.0, 1.0), (0.0, q[1], 0.0)), (none, (1.0, 0.0, 0.0)))

    def bias(self, q, v):
        return np.array([0.0, 0.0, 0.0, 0.0, v[0] * v[1], 0.0])
