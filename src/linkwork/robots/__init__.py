"""Mechanisms that ship with linkwork. Their figures are its own: sensible ones, of no robot that can be bought.

`arm`, `quadruped` and `humanoid` are robots, `chain` and `binary_tree` mechanisms of any size. Each call with the same
arguments gives the same model, so what was compiled for it is found again.
"""

from linkwork.robots.arm import arm
from linkwork.robots.chains import binary_tree, chain
from linkwork.robots.humanoid import humanoid
from linkwork.robots.quadruped import quadruped

__all__ = ["arm", "binary_tree", "chain", "humanoid", "names", "quadruped"]


def names() -> tuple[str, ...]:
    """The robots: functions of this module that need no arguments."""
    return ("arm", "quadruped", "humanoid")
