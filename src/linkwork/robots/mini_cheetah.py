"""Mini Cheetah, a four-legged walking robot, with the rotors of its motors."""

from __future__ import annotations

from functools import cache
from math import pi

from linkwork.model import Model
from linkwork.robots.geared import Link, Rotor, approximation_level, assemble, rotor_solid, solid_from_moments
from linkwork.robots.solids import ORIGIN

BODY = "Floating Base"
BASE = ("base_to_floating_base", BODY, solid_from_moments(3.3, ORIGIN, (0.011253, 0.036203, 0.042673)))
ROTOR = (0.055, 6.3e-5, 3.3e-5)  # mass [kg], moments of inertia about the axis and across it [kg m²]
BACKWARDS = (0.0, 0.0, pi)


def leg(name: str, end: float, side: float) -> list[Link]:
    """Return a leg at one end of the trunk (1 front, -1 rear), on one side (1 left, -1 right)."""
    abad, hip, knee = (f"{name}_{part}" for part in ("abad", "hip", "knee"))
    return [
        Link(f"torso_to_{abad}_j", BODY, f"{abad}_link", (0.19 * end, 0.049 * side, 0.0), "x",
             solid_from_moments(0.54, (0.0, 0.036, 0.0),
                 (0.000381, 5.8e-5, 4.5e-7, 0.00056, 9.5e-7, 0.000444), side)),
        Rotor(f"torso_to_{abad}_rotor_j", BODY, f"{abad}_rotor", (0.125 * end, 0.049 * side, 0.0), "x",
              rotor_solid(*ROTOR, "x"), independent=False, gear=6.0, drives=f"{abad}_link"),
        Link(f"{abad}_to_hip_j", f"{abad}_link", f"{hip}_link", (0.0, 0.062 * side, 0.0), "y",
             solid_from_moments(0.634, (0.0, 0.016, -0.02),
                 (0.001983, 0.000245, 1.3e-5, 0.002103, 1.5e-6, 0.000408), side), BACKWARDS),
        Rotor(f"{abad}_to_hip_rotor_j", f"{abad}_link", f"{hip}_rotor", (0.0, 0.04 * side, 0.0), "y",
              rotor_solid(*ROTOR, "y"), BACKWARDS, independent=False, gear=6.0, drives=f"{hip}_link"),
        Link(f"{hip}_to_knee_j", f"{hip}_link", f"{knee}_link", (0.0, 0.0, -0.209), "y",
             solid_from_moments(0.064, (0.0, 0.0, -0.061), (6e-6, 0.000248, 0.000245))),
        Rotor(f"{hip}_to_knee_rotor_j", f"{hip}_link", f"{knee}_rotor", ORIGIN, "y",
              rotor_solid(*ROTOR, "y"), independent=False, gear=9.33, drives=f"{knee}_link"),
    ]  # fmt: skip


LEGS = {"FR": (1.0, -1.0), "FL": (1.0, 1.0), "HR": (-1.0, -1.0), "HL": (-1.0, 1.0)}


def mini_cheetah(approximate: bool | str = False) -> Model:
    """Return Mini Cheetah with a floating base: 25 bodies, 13 clusters, nv = 18.

    Four legs have three joints, each with its rotor. `approximate` omits the rotors with their mass:
    "ignored" adds nothing for them; "diagonal" (or True) and "block" add the reflected inertia to each joint,
    with equal results here, since each rotor turns with one joint.
    """
    return _mini_cheetah(approximation_level(approximate))


@cache
def _mini_cheetah(level: str) -> Model:
    parts = [part for name, (end, side) in LEGS.items() for part in leg(name, end, side)]
    balls = [(f"{name}_foot", f"{name}_knee_link", (0.0, 0.0, -0.18), 0.0175) for name in LEGS]
    return assemble("mini_cheetah", BASE, parts, level=level, balls=balls)
