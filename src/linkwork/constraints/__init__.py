"""Constraints that are enforced by constraint forces: frozen values, one file for each family."""

from linkwork.constraints.constraint import Constraint, Gains, total
from linkwork.constraints.custom import rows_of
from linkwork.constraints.frames import Connect, Hold, OnPlane, Rolling, Weld
from linkwork.constraints.joints import Coupled, Locked
from linkwork.constraints.loops import (
    all_constraints,
    loop_constraints,
    user_constraints,
    with_nominal_numbers,
)
from linkwork.constraints.relative_motion import BodyKinematics, RelativeMotion
from linkwork.constraints.rows import Rows

__all__ = [
    "BodyKinematics",
    "Connect",
    "Constraint",
    "Coupled",
    "Gains",
    "Hold",
    "Locked",
    "OnPlane",
    "RelativeMotion",
    "Rolling",
    "Rows",
    "Weld",
    "all_constraints",
    "loop_constraints",
    "rows_of",
    "total",
    "user_constraints",
    "with_nominal_numbers",
]
