"""Rotors: bodies that are balanced about the axis they spin on.

The centre of a rotor's mass does not move when it turns, so its mass is lumped into the body that carries it; or, where it
drives a link and is at that link's origin, into the link, where nothing but the link's own mass changes. So is its inertia
across the axis, always into the carrier, where it is constant if the rotor is round; if not, the mean of it is, and what turns
with the rotor is `Uneven`. The rotor's frame need not turn with it either.

What remains is its inertia J about the axis. Where a gear makes it turn n times as fast as a link that turns against the
carrier about the same axis, its joint's velocity is θ̇ = n (Ω_link - Ω_carrier) and its speed Ω = Ω_carrier + θ̇, so that
Ω² = Ω_carrier² + n (Ω_link² - Ω_carrier²) + (1 - 1/n) θ̇². Across the axis link and carrier turn alike. So J is lumped into the
carrier, n J about all axes goes from there to the link, and the rest is an armature: constants. Exact, and free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linkwork.ir.functions import sqrt
from linkwork.joints import Revolute
from linkwork.model.bodies import MovingBody, Rotor
from linkwork.model.loops import Coupling, Loop
from linkwork.model.parts import GROUND, PlacedJoint, way_down
from linkwork.spatial import Inertia
from linkwork.spatial.constants import frozen, length, product

if TYPE_CHECKING:
    from linkwork.model.model import Model

SAME = 1e-12  # relative


class Lumped(NamedTuple):
    """A body's constant inertia with that of its rotors lumped in, and what it is as a rotor; None where it is none."""

    inertia: Inertia
    rotor: Rotor | None


def lumped(model: Model) -> tuple[Lumped, ...]:
    """Every body with its rotors lumped in."""
    carrying = {joint.parent for joint in model.joints}
    for constraint in (*model.constraints, *model.held):
        if isinstance(constraint, Loop):
            carrying |= {constraint.predecessor.body, constraint.successor.body}
    inertias = [body.inertia for body in model.bodies]
    places = [k for k, joint in enumerate(model.joints) if k not in carrying and is_rotor(joint, inertias[k])]
    R = {GROUND: np.eye(3)}
    for joint in model.joints:
        R[joint.child] = product(R[joint.parent], joint.place.R)
    rotors: dict[int, Rotor] = {}
    for k in places:
        joint = model.joints[k]
        u, own = axis_of(joint), inertias[k]
        J, uneven = product(product(u, own.A), u), unevenness(u, own.A)
        gear = gear_of(model, k, places, R)
        left = Inertia.massless(np.zeros((3, 3)) if gear else J * np.outer(u, u))
        fixed = Inertia(own.A - left.A - uneven, own.B, own.D, own.mass)
        if gear and gear.link != GROUND and own.mass and _centred(joint, own, model.joints[gear.link]):
            fixed = Inertia.massless(fixed.A - Inertia.rigid(own.mass, own.h / own.mass, np.zeros((3, 3))).A)
            inertias[gear.link] = inertias[gear.link] + Inertia.rigid(own.mass, np.zeros(3), np.zeros((3, 3)))
        inertias[joint.parent] = inertias[joint.parent] + joint.place.congruence(fixed)
        for body, n in ((joint.parent, -gear.n), (gear.link, gear.n)) if gear else ():
            if body != GROUND:
                inertias[body] = inertias[body] + Inertia.massless(n * J * np.eye(3))
        inertias[k] = left
        rotors[k] = Rotor(frozen(uneven), gear is not None, (1.0 - 1.0 / gear.n) * J if gear else 0.0)
    return tuple(Lumped(inertia.constant().frozen(), rotors.get(k)) for k, inertia in enumerate(inertias))


def unit_of_mass(model: Model) -> float:
    """In kg: a unit in which the commonest unevenness of rotors is one, so that nothing is multiplied by it."""
    found = [length(rotor.uneven.ravel()) / sqrt(2.0) for _, rotor in model.lumped if rotor and np.any(rotor.uneven)]
    return max(found, key=lambda d: np.isclose(found, d, rtol=SAME, atol=0.0).sum(), default=1.0)


def is_rotor(joint: PlacedJoint, inertia: Inertia) -> bool:
    """Whether a body is balanced about the axis of the hinge that holds it on another body."""
    if not isinstance(joint.kind, Revolute) or joint.parent == GROUND or not np.any(inertia.A):
        return False
    u, A, h = axis_of(joint), inertia.A, inertia.h
    return bool(
        np.abs(np.cross(u, product(A, u))).max() <= SAME * np.abs(A).max()
        and np.abs(np.cross(u, h)).max() <= SAME * max(np.abs(h).max(), 1e-300)
    )


def unevenness(u: np.ndarray, A: np.ndarray) -> np.ndarray:
    """How an inertia across its axis u, (3, 3), differs from a round one; zero where rounding could have made it."""
    across = A - product(product(u, A), u) * np.outer(u, u)
    uneven = across - 0.5 * np.trace(across) * (np.eye(3) - np.outer(u, u))
    return uneven if np.abs(uneven).max() > SAME * np.abs(A).max() else np.zeros((3, 3))


def axis_of(joint: PlacedJoint) -> np.ndarray:
    """The unit axis of a hinge, in its own frame."""
    return np.array(joint.kind.axis)  # type: ignore[attr-defined]


class Gear(NamedTuple):
    """A rotor turns n times as fast as a link, both against the rotor's carrier and about its axis."""

    link: int
    n: float


def gear_of(model: Model, rotor: int, rotors: Collection[int], R: Mapping[int, np.ndarray]) -> Gear | None:
    """What drives a rotor, if it is a single link, and all hinges between that and the rotor's carrier are parallel to its own.

    The link may hang on the carrier, or the carrier on the link. `R`: how all bodies stand where no joint has turned.
    """
    carrier, u = model.joints[rotor].parent, product(R[rotor], axis_of(model.joints[rotor]))
    for coupling in model.constraints:
        rates = {j: -c for j, _, c in coupling.terms} if isinstance(coupling, Coupling) else {}
        own = -rates.pop(rotor, 0.0)
        for link in dict.fromkeys(k for j in rates for k in (j, model.joints[j].parent)) if own else ():
            up, down = (set(way_down(body, model.joints)) for body in (carrier, link))
            hinges = [model.joints[j] for j in up ^ down]
            if link in rotors or up ^ down != set(rates) or not all(_turns_about(u, hinge, R) for hinge in hinges):
                continue
            signs = [
                np.sign(product(u, product(R[hinge.child], axis_of(hinge)))) * (1.0 if hinge.child in down else -1.0)
                for hinge in hinges
            ]
            ratios = [sign * rates[hinge.child] / own for sign, hinge in zip(signs, hinges)]
            if ratios[0] and max(ratios) - min(ratios) <= SAME * abs(ratios[0]):
                return Gear(link, float(ratios[0]))
    return None


def _centred(joint: PlacedJoint, rotor: Inertia, hinge: PlacedJoint) -> bool:
    """Whether a rotor's mass has its centre at the origin of the link that it drives, whose `hinge` is on the same carrier."""
    centre = joint.place.p + product(joint.place.R, rotor.h / rotor.mass)
    return hinge.parent == joint.parent and bool(np.abs(centre - hinge.place.p).max() <= SAME * np.abs(centre).max())


def _turns_about(u: np.ndarray, hinge: PlacedJoint, R: Mapping[int, np.ndarray]) -> bool:
    return isinstance(hinge.kind, Revolute) and parallel(product(R[hinge.child], axis_of(hinge)), u)


def parallel(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two unit vectors are, in one direction or the other."""
    return bool(np.abs(np.cross(a, b)).max() < SAME)


class Host(NamedTuple):
    """Where a rotor is at home: a body on the same carrier whose hinge has the rotor's axis.

    `k` is that axis in the body's frame, `sign` whether it points along the rotor's, `hinge` whether the hinge's does, and
    `J` [kg m²] the rotor's inertia about it.
    """

    body: MovingBody
    k: int
    sign: float
    hinge: float
    J: float

    def excess(self, rotor: MovingBody, of: Callable[[MovingBody], Any]) -> Any:
        """What the rotor has more than its host about the host's axis, of something that every joint has."""
        return self.sign * (of(rotor) - self.hinge * of(self.body))


def host_of(rotor: MovingBody, members: Sequence[MovingBody]) -> Host | None:
    """The first body of a cluster that can be a rotor's host; None where there is none."""
    axis = product(
        rotor.X.R.astype(float), rotor.joint_map[:3, 0].astype(float)
    )  # in the carrier's frame, where it is constant
    J = float(product(product(rotor.joint_map[:3, 0], rotor.rigid.A), rotor.joint_map[:3, 0]))
    for body in members:
        if body is rotor or body.rotor or body.on is not rotor.on or not isinstance(body.joint.kind, Revolute):
            continue
        turn = body.X.turn
        own = np.asarray(body.joint_map[:3, 0], dtype=float)
        if turn is None or np.count_nonzero(own) != 1:
            continue
        there = product(turn.before, own)  # the hinge's axis in the carrier's frame: turning about it changes nothing
        k = int(np.argmax(np.abs(own)))
        if parallel(there, axis):
            sign = float(np.sign(product(there, axis)))
            return Host(body, k, sign * float(np.sign(own[k])), sign, J)
    return None
