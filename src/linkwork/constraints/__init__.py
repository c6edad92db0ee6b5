"""Constraints that forces uphold: frozen values, one file for each family."""

from linkwork.constraints.constraint import Constraint, Gains, total
from linkwork.constraints.frames import Connect, Hold, OnPlane, Rolling, Weld
from linkwork.constraints.joints import Coupled, Locked
from linkwork.constraints.loops import force_held_loops
from linkwork.constraints.picked import rows_of
from linkwork.constraints.relative import Relative, Scene
from linkwork.constraints.rows import Rows

__all__ = [
    "Connect",
    "Constraint",
    "Coupled",
    "Gains",
    "Hold",
    "Locked",
    "OnPlane",
    "Relative",
    "Rolling",
    "Rows",
    "Scene",
    "Weld",
    "force_held_loops",
    "rows_of",
    "total",
]
