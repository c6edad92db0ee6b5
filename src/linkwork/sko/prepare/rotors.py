"""Lumped rotors: inertia of rotors balanced about their spin axis, added to their carrier and driven link.

The centre of mass of a balanced rotor does not move when it spins. Its mass is therefore lumped into its
carrier, or into the link that it drives if it is at the origin of that link, where only the mass of the link
changes. Its transverse inertia is lumped into the carrier, where it is constant if the rotor is axisymmetric;
otherwise its mean is lumped, and the part that rotates with the rotor is an `AsymmetricRotor`. The frame of
the rotor does not rotate with it either.

The axial inertia J remains. If a gear drives the rotor n times as fast as a link that rotates relative to the
carrier about the same axis, the velocity of its joint is θ̇ = n (Ω_link - Ω_carrier) and its angular velocity
Ω = Ω_carrier + θ̇, so that Ω² = Ω_carrier² + n (Ω_link² - Ω_carrier²) + (1 - 1/n) θ̇². Transverse to the
axis, link and carrier have equal angular velocities. Therefore J is lumped into the carrier, n J about all
axes is moved from there to the link, and the rest is armature. This reflected inertia is constant and exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkwork.compiler.ir.functions import sqrt
from linkwork.compiler.ir.symbol import Symbol
from linkwork.loops.rotors import PARALLEL_TOL, axis_of, find_rotors, gear_of
from linkwork.mechanism import GROUND, PlacedJoint
from linkwork.model import Model, cached_on_model
from linkwork.sko.bodies import Rotor
from linkwork.spatial import Inertia
from linkwork.spatial.constants import frozen, length, product


class Lumped(NamedTuple):
    """A body's inertia with lumped rotors, the part `added` by these, and its properties as a rotor.

    `added` and `rotor` are None if the body has no rotors, or is not a rotor.
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
    return max(sizes, key=lambda d: np.isclose(sizes, d, rtol=PARALLEL_TOL, atol=0.0).sum(), default=1.0)


def asymmetry(u: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return the part of an inertia across its axis u, (3, 3), that is not axisymmetric, up to rounding."""
    across = A - product(product(u, A), u) * np.outer(u, u)
    delta = across - 0.5 * np.trace(across) * (np.eye(3) - np.outer(u, u))
    return delta if np.abs(delta).max() > PARALLEL_TOL * np.abs(A).max() else np.zeros((3, 3))


def _centred(joint: PlacedJoint, rotor: Inertia, hinge: PlacedJoint) -> bool:
    """Return whether a rotor's centre of mass is at the origin of the link that it drives."""
    centre = joint.place.p + product(joint.place.R, rotor.h / rotor.mass)
    return hinge.parent == joint.parent and bool(
        np.abs(centre - hinge.place.p).max() <= PARALLEL_TOL * np.abs(centre).max()
    )
