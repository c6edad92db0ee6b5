"""Lumped rotors: the inertia of bodies that are balanced about their spin axis, added to the bodies that
carry and drive them.

The centre of a rotor's mass does not move when it turns, so its mass is lumped into the body that carries it;
or, where it drives a link and is at that link's origin, into the link, where nothing but the link's own mass
changes. So is its transverse inertia, always into the carrier, where it is constant if the rotor is
axisymmetric; if not, its mean is, and the part that turns with the rotor is an `AsymmetricRotor`. The rotor's
frame need not turn with it either.

What remains is its axial inertia J. Where a gear makes it turn n times as fast as a link that turns against
the carrier about the same axis, its joint's velocity is θ̇ = n (Ω_link - Ω_carrier) and its speed Ω =
Ω_carrier + θ̇, so that Ω² = Ω_carrier² + n (Ω_link² - Ω_carrier²) + (1 - 1/n) θ̇². Across the axis link and
carrier have the same angular velocity. So J is lumped into the carrier, n J about all axes goes from there to
the link, and the rest is an armature: reflected inertia, all of it constant, and exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import sqrt
from linkwork.compiler.ir.symbol import Symbol
from linkwork.loops.rotors import SAME, axis_of, find_rotors, gear_of
from linkwork.mechanism import GROUND, PlacedJoint
from linkwork.model import Model, cached_on_model
from linkwork.sko.bodies import Rotor
from linkwork.spatial import Inertia
from linkwork.spatial.constants import frozen, length, product


class Lumped(NamedTuple):
    """A body's inertia with that of its rotors lumped in, and what it is as a rotor; None where it is none.

    `added` is the part of its rotors, None where it has none.
    """

    inertia: Inertia
    rotor: Rotor | None
    added: Inertia | None


@cached_on_model
def lumped(model: Model) -> tuple[Lumped, ...]:
    """Return the bodies with their rotors lumped in."""
    inertias = [body.inertia for body in model.bodies]
    added: dict[int, Inertia] = {}

    def add(k: int, more: Inertia) -> None:
        inertias[k] = inertias[k] + more
        added[k] = added[k] + more if k in added else more

    structure = model.nominal
    moved = {
        k for k, joint in enumerate(model.joints) if joint.place is not structure.joints[k].place
    }  # an input
    places = [k for k in find_rotors(structure) if k not in model.inertia_inputs and k not in moved]
    R = {GROUND: np.eye(3)}
    for joint in model.joints:
        R[joint.child] = product(R[joint.parent], structure.joints[joint.child].place.R)
    rotors: dict[int, Rotor] = {}
    for k in places:
        joint = model.joints[k]
        u = axis_of(joint)
        inertia = inertias[k]
        J = product(product(u, inertia.A), u)
        delta = asymmetry(u, inertia.A)
        gear = gear_of(structure, k, places, R, moved)
        if gear and any(
            isinstance(c, Symbol) for loop in model.embedded if k in loop.bodies for c in loop.coefficients
        ):
            gear = None  # how fast it turns is an input
        remainder = Inertia.massless(np.zeros((3, 3)) if gear else J * np.outer(u, u))
        fixed = Inertia(inertia.A - remainder.A - delta, inertia.B, inertia.D, inertia.mass)
        if (
            gear
            and gear.link != GROUND
            and inertia.mass
            and _centred(joint, inertia, model.joints[gear.link])
        ):
            fixed = Inertia.massless(
                fixed.A - Inertia.rigid(inertia.mass, inertia.h / inertia.mass, np.zeros((3, 3))).A
            )
            add(gear.link, Inertia.rigid(inertia.mass, np.zeros(3), np.zeros((3, 3))))
        add(joint.parent, joint.place.congruence(fixed))
        for body, n in ((joint.parent, -gear.n), (gear.link, gear.n)) if gear else ():
            if body != GROUND:
                add(body, Inertia.massless(n * J * np.eye(3)))
        inertias[k] = remainder
        rotors[k] = Rotor(frozen(delta), gear is not None, (1.0 - 1.0 / gear.n) * J if gear else 0.0)
    return tuple(
        Lumped(inertia.frozen_constant(), rotors.get(k), added.get(k)) for k, inertia in enumerate(inertias)
    )


def unit_of_mass(model: Model) -> float:
    """Return a unit of mass [kg] in which the most frequent rotor asymmetry is one."""
    if model.inertia_inputs:  # to count them in another unit would cost operations
        return 1.0
    sizes = [
        length(rotor.asymmetry.ravel()) / sqrt(2.0)
        for _, rotor, _ in lumped(model)
        if rotor and np.any(rotor.asymmetry)
    ]
    return max(sizes, key=lambda d: np.isclose(sizes, d, rtol=SAME, atol=0.0).sum(), default=1.0)


def asymmetry(u: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return the part of an inertia across its axis u, (3, 3), that is not axisymmetric, up to rounding."""
    across = A - product(product(u, A), u) * np.outer(u, u)
    delta = across - 0.5 * np.trace(across) * (np.eye(3) - np.outer(u, u))
    return delta if np.abs(delta).max() > SAME * np.abs(A).max() else np.zeros((3, 3))


def _centred(joint: PlacedJoint, rotor: Inertia, hinge: PlacedJoint) -> bool:
    """Return whether a rotor's centre of mass is at the origin of the link that it drives."""
    centre = joint.place.p + product(joint.place.R, rotor.h / rotor.mass)
    return hinge.parent == joint.parent and bool(
        np.abs(centre - hinge.place.p).max() <= SAME * np.abs(centre).max()
    )
