"""Robots with geared rotors as tables, with one row per joint and its link or rotor.

A rotor turns with the joints of the links that it drives, but faster. Exact models have it as a body;
approximate models omit it, and may add its reflected inertia to the joints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Free, Joint, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import ORIGIN, Point, Solid
from linkwork.robots.table import AXES, ground_contact
from linkwork.spatial.constants import product

EXACT = "exact"
IGNORED = "ignored"
DIAGONAL = "diagonal"
BLOCK = "block"
# Limits of every joint [rad/s, N m].
SPEED = 100.0
EFFORT = 150.0


@dataclass(frozen=True)
class Link:
    """A revolute joint `at` a point of its parent [m], rotated by `rpy` [rad], with axis and moved link.

    `independent` tells whether its velocity is independent if a transmission couples it; `reach` is its range
    in both directions [rad].
    """

    joint: str
    parent: str
    name: str
    at: Point
    axis: str
    solid: Solid
    rpy: Point = ORIGIN
    independent: bool | None = None
    reach: float = 10.0


@dataclass(frozen=True)
class Rotor(Link):
    """A rotor, which turns `gear` times as fast as the joints between its parent and the link it `drives`.

    Without a driven link, an implicit constraint determines its motion.
    """

    gear: float = 1.0
    drives: str = ""

    @property
    def spin(self) -> float:
        """Moment of inertia about its axis [kg m²]."""
        u = np.array(AXES[self.axis])
        return float(product(product(u, self.solid.moment), u))


class Differential(NamedTuple):
    """A constraint φ = 0 on the coordinates of some joints."""

    name: str
    function: Callable[[Any], Any]
    joints: tuple[str, ...]


# Gear ratios by the joint of a rotor and the joints of links.
GearRatios = Mapping[str, Mapping[str, float]]


def approximation_level(approximate: Any) -> str:
    """Return the level of approximation for the argument `approximate`."""
    known = {False: EXACT, True: DIAGONAL, IGNORED: IGNORED, DIAGONAL: DIAGONAL, BLOCK: BLOCK}
    if not isinstance(approximate, (bool, str)) or approximate not in known:
        raise ModelError(
            f"approximate: expected False, True, 'ignored', 'diagonal' or 'block', got {approximate!r}"
        )
    return known[approximate]


def solid_from_moments(mass: float, center: Point, moments: Sequence[float], side: float = 1.0) -> Solid:
    """Return a solid from mass [kg], center [m] and moments xx, xy, xz, yy, yz, zz about it [kg m²].

    Three moments are xx, yy and zz. The solid is mirrored for side -1.
    """
    xx, xy, xz, yy, yz, zz = (
        moments if len(moments) == 6 else (moments[0], 0.0, 0.0, moments[1], 0.0, moments[2])
    )
    solid = Solid(mass, np.array(center, dtype=float), np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    return solid if side > 0 else solid.mirrored()


def rotor_solid(mass: float, about: float, across: float, axis: str) -> Solid:
    """Return a rotor from its moments of inertia about its axis and across it [kg m²]."""
    return solid_from_moments(mass, ORIGIN, [about if name == axis else across for name in "xyz"])


def gear_ratios(parts: Iterable[Link]) -> dict[str, dict[str, float]]:
    """Return the gear ratio of each geared rotor for each of the joints that drive it."""
    parts = list(parts)
    by_name = {part.name: part for part in parts}
    ratios: dict[str, dict[str, float]] = {}
    for rotor in parts:
        if isinstance(rotor, Rotor) and rotor.drives:
            ratios[rotor.joint] = {}
            link = rotor.drives
            while link != rotor.parent:
                ratios[rotor.joint][by_name[link].joint] = rotor.gear
                link = by_name[link].parent
    return ratios


def assemble(
    name: str,
    base: tuple[str, str, Solid] | None,
    parts: Iterable[Link],
    *,
    level: str = EXACT,
    differentials: Sequence[Differential] = (),
    ratios_by_rotor: GearRatios | None = None,
    balls: Iterable[tuple[str, str, Point, float]] = (),
) -> Model:
    """Return the model of a floating base, given as joint, body and solid, with all parts.

    `level` is a result of `approximation_level`. Approximate models use `ratios_by_rotor`, by default the
    gear ratios of the rotors. In "block" models, rotors that turn with several joints remain as massless
    bodies, whose joints have their inertia as armature. `balls` collide with the ground: name, link, position
    on it [m], radius [m].
    """
    parts = list(parts)
    builder = ModelBuilder(name if level == EXACT else f"{name} ({level} rotors)")
    if base:
        joint, body, solid = base
        builder.add_body(body, **solid.body_args()).add_joint(joint, Free(), parent=WORLD, child=body)
    ratios_by_rotor = ratios_by_rotor or gear_ratios(parts)
    armature: dict[str, float] = {}
    for rotor in parts if level in (DIAGONAL, BLOCK) else ():
        if isinstance(rotor, Rotor):
            ratios = ratios_by_rotor[rotor.joint]
            if level == BLOCK and len(ratios) > 1:
                armature[rotor.joint] = rotor.spin
            else:
                for link, rate in ratios.items():
                    armature[link] = armature.get(link, 0.0) + rotor.spin * (rate * rate)
    for part in parts:
        if level == EXACT:
            _add(builder, part, part.solid.body_args(), independent=part.independent)
        elif not isinstance(part, Rotor):
            _add(builder, part, part.solid.body_args(), armature=armature.get(part.joint, 0.0))
        elif part.joint in armature:
            _add(builder, part, {}, armature=armature[part.joint], independent=False)
            builder.add_coupling(
                f"{part.name} reflected",
                {part.joint: 1.0, **{k: -r for k, r in ratios_by_rotor[part.joint].items()}},
            )
        if level == EXACT and isinstance(part, Rotor) and part.drives:
            builder.add_coupling(
                f"{part.name} gear", predecessor=part.drives, successor=part.name, ratio=part.gear
            )
    for differential in differentials if level == EXACT else ():
        builder.add_implicit_constraint(differential.name, differential.function, joints=differential.joints)
    for ball in balls:
        builder.add_geometry(ground_contact(*ball))
    return builder.build()


def _add(builder: ModelBuilder, part: Link, figures: dict[str, Any], **more: Any) -> None:
    kind: Joint = Revolute(AXES[part.axis])
    more |= {"lower": -part.reach, "upper": part.reach, "max_velocity": SPEED, "max_effort": EFFORT}
    # Some data are physically inconsistent; the report lists them.
    builder.add_body(part.name, **figures, check=False)
    builder.add_joint(
        part.joint, kind, parent=part.parent, child=part.name, xyz=part.at, rpy=part.rpy, **more
    )
