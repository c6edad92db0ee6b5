"""Constraints that forces uphold: frozen values, one file for each family."""

from linkwork.constraints.constraint import Constraint, Gains, Rows, total
from linkwork.constraints.frames import Connect, Hold, OnPlane, Rolling, Weld
from linkwork.constraints.joints import Coupled, Locked
from linkwork.constraints.loops import held_loops
from linkwork.constraints.relative import Relative, Scene

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
    "held_loops",
    "total",
]
