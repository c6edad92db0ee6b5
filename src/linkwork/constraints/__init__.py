"""Constraints that are enforced by constraint forces: frozen values, one file for each family."""

from linkwork.constraints.by_hand import rows_of
from linkwork.constraints.constraint import Constraint, Gains, total
from linkwork.constraints.frames import Connect, Hold, OnPlane, Rolling, Weld
from linkwork.constraints.joints import Coupled, Locked
from linkwork.constraints.loops import force_held_loops, given_constraints
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
    "force_held_loops",
    "given_constraints",
    "rows_of",
    "total",
]
