"""Spatial algebra over numbers or symbols: motions, forces, poses and inertias.

Spatial vectors have the angular part first. A motion (velocity, acceleration) is [ω, v] and a force [m, f],
both of a frame and in that frame's axes, as in Lie Sec. 1.
"""

from linkwork.spatial import rotation
from linkwork.spatial.factor import Factor, any_nonzero, is_zero, mirrored
from linkwork.spatial.inertia import Inertia, physical_problems
from linkwork.spatial.inertial_parameters import (
    log_cholesky,
    parameters_of_log_cholesky,
    parameters_of_pseudo_inertia,
    pseudo_inertia,
)
from linkwork.spatial.pose import Pose, snapped
from linkwork.spatial.vectors import ad, ad_star, axial, cross, skew

__all__ = [
    "Factor",
    "Inertia",
    "Pose",
    "ad",
    "ad_star",
    "any_nonzero",
    "axial",
    "cross",
    "is_zero",
    "log_cholesky",
    "mirrored",
    "parameters_of_log_cholesky",
    "parameters_of_pseudo_inertia",
    "physical_problems",
    "pseudo_inertia",
    "rotation",
    "skew",
    "snapped",
]
