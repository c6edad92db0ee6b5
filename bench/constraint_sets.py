"""Sets of constraints for benchmarks, by name: those of Constrained, Tables II and III and Figures 3 and 4.

In the names H is a hand, F a foot, T a fingertip and E an elbow; 3 is a point (connect), 6 a frame (weld);
"F6x2" is two of them. The paper's Solo is solo12, its Talos that of `robots.json`, its Atlas with Shadow hands
is `talos_hands` (four fingertips per hand instead of five).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import linkwork as lw
import robots
from linkwork.spatial import Pose


@dataclass(frozen=True)
class Constraint:
    """A frame on a body is held to the world, or to a frame on another body: its point (size 3) or all of it
    (size 6).
    """

    size: int
    body: int
    place: Pose
    to: int = -1
    """The other body; -1 is the world."""
    to_place: Pose = field(default_factory=Pose.identity)


@dataclass(frozen=True)
class ConstraintSet:
    """Constraints on one robot, which `robots.bodies` knows."""

    robot: str
    constraints: tuple[Constraint, ...]

    @property
    def rows(self) -> int:
        return sum(c.size for c in self.constraints)

    @property
    def to_world(self) -> bool:
        """Whether all constraints hold to the world."""
        return all(c.to < 0 for c in self.constraints)

    def model(self) -> lw.Model:
        """Return the robot with a frame "held0" for the first constraint, and "holder0" on its other body, if
        any.
        """
        frames = {f"held{i}": (c.body, c.place) for i, c in enumerate(self.constraints)}
        frames |= {f"holder{i}": (c.to, c.to_place) for i, c in enumerate(self.constraints) if c.to >= 0}
        return robots.from_bodies(self.robot, robots.bodies(self.robot), frames)


Place = tuple[int, float, float, float]
"""A body, and a point [m] in its frame."""


def at(size: int, body: int, *p: float, to: Place | None = None) -> Constraint:
    """Return a constraint at a point p [m] of a body's frame, to the world or to a point of another body, in
    body axes.
    """
    place = Pose.translation(np.array(p))
    if to is None:
        return Constraint(size, body, place)
    return Constraint(size, body, place, to[0], Pose.translation(np.array(to[1:])))


IIWA_TOOL: list[Place] = [(6, 0.0, 0.0, 0.045)]
SOLO_FEET = [
    (3, 0.0, 0.008, -0.16),
    (6, 0.0, -0.008, -0.16),
    (9, 0.0, 0.008, -0.16),
    (12, 0.0, -0.008, -0.16),
]
TALOS_FEET = [(6, 0.0, 0.0, -0.107), (12, 0.0, 0.0, -0.107)]
TALOS_HANDS = [(21, 0.0, 0.0, -0.063725), (29, 0.0, 0.0, -0.063725)]
TALOS_ELBOW = (18, 0.0, 0.0, 0.0)
SOLE = [(x, y, -0.107) for x in (-0.1, 0.1) for y in (-0.06, 0.06)]
G1_FEET = [(6, 0.0, 0.0, -0.035), (12, 0.0, 0.0, -0.035)]
G1_HANDS = [(22, 0.0415, 0.003, 0.0), (29, 0.0415, -0.003, 0.0)]
LEFT_TIPS = [(25, 0.0, 0.0, 0.0267), (29, 0.0, 0.0, 0.0423), (33, 0.0, 0.0, 0.0267), (37, 0.0, 0.0, 0.0267)]
RIGHT_TIPS = [(48, 0.0, 0.0, 0.0267), (52, 0.0, 0.0, 0.0423), (56, 0.0, 0.0, 0.0267), (60, 0.0, 0.0, 0.0267)]


def held(robot: str, *groups: tuple[int, list[Place]]) -> ConstraintSet:
    """Return the constraints of (size, places) groups, all to the world."""
    return ConstraintSet(robot, tuple(at(size, *place) for size, places in groups for place in places))


def chain(bodies: int) -> ConstraintSet:
    """Return the constraints of a chain with a welded tip (Constrained, Figures 3a and 3b)."""
    return held(f"chain{bodies}", (6, [(bodies - 1, 0.1, 0.0, 0.0)]))


def tree(bodies: int) -> ConstraintSet:
    """Return the constraints of a binary tree with all leaves connected (Constrained, Figures 3c and 3d)."""
    robot = f"tree{bodies}"
    parents = {b["parent"] for b in robots.bodies(robot)}
    return held(robot, (3, [(i, 0.1, 0.0, 0.0) for i in range(bodies) if i not in parents]))


TABLE: dict[str, ConstraintSet] = {
    "iiwa14 H3": held("iiwa14", (3, IIWA_TOOL)),
    "iiwa14 H6": held("iiwa14", (6, IIWA_TOOL)),
    "solo12 F3x2": held("solo12", (3, SOLO_FEET[:2])),
    "solo12 F3x3": held("solo12", (3, SOLO_FEET[:3])),
    "solo12 F3x4": held("solo12", (3, SOLO_FEET)),
    "talos F6x2": held("talos", (6, TALOS_FEET)),
    "talos F6x2 H6x2": held("talos", (6, TALOS_FEET + TALOS_HANDS)),
    "talos_hands F6x2": held("talos_hands", (6, TALOS_FEET)),
    "talos_hands F6x2 T3x4": held("talos_hands", (6, TALOS_FEET), (3, LEFT_TIPS)),
    "talos_hands F6x2 T3x8": held("talos_hands", (6, TALOS_FEET), (3, LEFT_TIPS + RIGHT_TIPS)),
    "g1 F6x2": held("g1", (6, G1_FEET)),
    "g1 F6x2 H6x2": held("g1", (6, G1_FEET + G1_HANDS)),
}
"""Constrained, Tables II and III: independent constraints, in general."""

REDUNDANT: dict[str, ConstraintSet] = {
    "talos F6x2 H6 E3": held("talos", (6, [*TALOS_FEET, TALOS_HANDS[0]]), (3, [TALOS_ELBOW])),
    "talos F3x8": held("talos", (3, [(foot[0], *corner) for foot in TALOS_FEET for corner in SOLE])),
}
"""Constrained, Figure 4: soles, a hand and the elbow before it; and soles connected at their four corners."""

LOOPS: dict[str, ConstraintSet] = {
    f"talos F6x2, hand to hand {size}": ConstraintSet(
        "talos", (*(at(6, *foot) for foot in TALOS_FEET), at(size, *TALOS_HANDS[0], to=TALOS_HANDS[1]))
    )
    for size in (6, 3)
}
"""Constraints between two bodies."""

CHAINS = {f"chain{n} H6": chain(n) for n in (10, 20, 50, 100)}
TREES = {f"tree{n}": tree(n) for n in (9, 21, 45, 93)}

SETS: dict[str, ConstraintSet] = {**TABLE, **REDUNDANT, **LOOPS, **CHAINS, **TREES}
