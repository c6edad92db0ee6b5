"""Robots with geared rotors as tables: one row is a joint and the link or the rotor that it moves.

A rotor turns with the joints of the links that it drives, faster than they do. Exact models have it as a body of its own;
approximate ones leave it out, and at most add to the joints what its spin weighs there.
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
from linkwork.robots.table import AXES, touching
from linkwork.spatial.constants import product

EXACT, IGNORED, DIAGONAL, BLOCK = "exact", "ignored", "diagonal", "block"
SPEED, EFFORT = 100.0, 150.0  # of every joint at most [rad/s, N m]


@dataclass(frozen=True)
class Link:
    """A revolute joint `at` a point of its parent [m], turned by `rpy` [rad], about an axis, and the link that it moves.

    `independent` says whether its velocity is independent where a transmission ties it to others, `reach` how far it turns
    both ways [rad].
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
    """The same for a rotor, which turns `gear` times as fast as the joints between its parent and the link it `drives`.

    Without a link that it drives, a closure must say how it turns.
    """

    gear: float = 1.0
    drives: str = ""

    @property
    def spin(self) -> float:
        """Its moment of inertia about the axis that it turns on [kg m²]."""
        u = np.array(AXES[self.axis])
        return float(product(product(u, self.solid.moment), u))


class Differential(NamedTuple):
    """φ = 0 for a function of some joints' coordinates."""

    name: str
    function: Callable[[Any], Any]
    joints: tuple[str, ...]


Rates = Mapping[str, Mapping[str, float]]  # of each rotor's joint: how much faster it turns than each of the links' joints


def exactness(approximate: Any) -> str:
    """What a robot's argument `approximate` asks for."""
    known = {False: EXACT, True: DIAGONAL, IGNORED: IGNORED, DIAGONAL: DIAGONAL, BLOCK: BLOCK}
    if not isinstance(approximate, (bool, str)) or approximate not in known:
        raise ModelError(f"approximate must be False, True, 'ignored', 'diagonal' or 'block', not {approximate!r}")
    return known[approximate]


def measured(mass: float, center: Point, moments: Sequence[float], side: float = 1.0) -> Solid:
    """A solid from its mass [kg], centre [m] and moments xx, xy, xz, yy, yz, zz about it [kg m²]; mirrored for side -1.

    Three moments are xx, yy and zz.
    """
    xx, xy, xz, yy, yz, zz = moments if len(moments) == 6 else (moments[0], 0.0, 0.0, moments[1], 0.0, moments[2])
    solid = Solid(mass, np.array(center, dtype=float), np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    return solid if side > 0 else solid.mirrored()


def spinning(mass: float, about: float, across: float, axis: str) -> Solid:
    """A rotor with its moments of inertia about its axis and across it [kg m²]."""
    return measured(mass, ORIGIN, [about if name == axis else across for name in "xyz"])


def rates(parts: Iterable[Link]) -> dict[str, dict[str, float]]:
    """How fast each geared rotor turns for each of the joints that drive it."""
    parts = list(parts)
    by_name = {part.name: part for part in parts}
    found: dict[str, dict[str, float]] = {}
    for rotor in parts:
        if isinstance(rotor, Rotor) and rotor.drives:
            found[rotor.joint], link = {}, rotor.drives
            while link != rotor.parent:
                found[rotor.joint][by_name[link].joint] = rotor.gear
                link = by_name[link].parent
    return found


def assemble(
    name: str,
    base: tuple[str, str, Solid] | None,
    parts: Iterable[Link],
    *,
    how: str = EXACT,
    closures: Sequence[Differential] = (),
    turning: Rates | None = None,
    balls: Iterable[tuple[str, str, Point, float]] = (),
) -> Model:
    """The model of a base that is free to move, given as joint, body and solid, and of all that hangs on it.

    `how` is what `exactness` gives. Approximate models take the rotors' rates from `turning`, or from their gears. Those
    that turn with several joints are kept in "block" as bodies without any inertia, whose joints have it as armature. `balls`
    touch the ground: name, link, where on it [m], radius [m].
    """
    parts = list(parts)
    builder = ModelBuilder(name if how == EXACT else f"{name} ({how} rotors)")
    if base:
        joint, body, solid = base
        builder.add_body(body, **solid.figures()).add_joint(joint, Free(), parent=WORLD, child=body)
    turning = turning or rates(parts)
    armature: dict[str, float] = {}
    for rotor in parts if how in (DIAGONAL, BLOCK) else ():
        if isinstance(rotor, Rotor):
            own = turning[rotor.joint]
            if how == BLOCK and len(own) > 1:
                armature[rotor.joint] = rotor.spin
            else:
                for link, rate in own.items():
                    armature[link] = armature.get(link, 0.0) + rotor.spin * (rate * rate)
    for part in parts:
        if how == EXACT:
            _add(builder, part, part.solid.figures(), independent=part.independent)
        elif not isinstance(part, Rotor):
            _add(builder, part, part.solid.figures(), armature=armature.get(part.joint, 0.0))
        elif part.joint in armature:
            _add(builder, part, {}, armature=armature[part.joint], independent=False)
            builder.add_coupling(f"{part.name} reflected", {part.joint: 1.0, **{k: -r for k, r in turning[part.joint].items()}})
        if how == EXACT and isinstance(part, Rotor) and part.drives:
            builder.add_coupling(f"{part.name} gear", predecessor=part.drives, successor=part.name, ratio=part.gear)
    for closure in closures if how == EXACT else ():
        builder.add_implicit_constraint(closure.name, closure.function, joints=closure.joints)
    for ball in balls:
        builder.add_geometry(touching(*ball))
    return builder.build()


def _add(builder: ModelBuilder, part: Link, figures: dict[str, Any], **more: Any) -> None:
    kind: Joint = Revolute(AXES[part.axis])
    more |= {"lower": -part.reach, "upper": part.reach, "max_velocity": SPEED, "max_effort": EFFORT}
    builder.add_body(part.name, **figures, check=False)  # some figures are those of no real body: the report says which
    builder.add_joint(part.joint, kind, parent=part.parent, child=part.name, xyz=part.at, rpy=part.rpy, **more)
