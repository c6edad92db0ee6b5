"""Detection of rotors, balanced about their spin axis, and of the gears that drive them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from linkwork.joints import Revolute
from linkwork.mechanism import GROUND, Coupling, Mechanism, PlacedJoint, path_to_ground
from linkwork.spatial import Inertia
from linkwork.spatial.constants import product

PARALLEL_TOL = 1e-12  # relative


def find_rotors(model: Mechanism) -> list[int]:
    """Return the bodies that carry nothing and are balanced about the axis of their hinge."""
    carrying = {joint.parent for joint in model.joints}
    for constraint in (*model.embedded, *model.constrained_loops):
        carrying |= {end.body for end in constraint.ends}
    return [
        k
        for k, joint in enumerate(model.joints)
        if k not in carrying and is_rotor(joint, model.bodies[k].inertia)
    ]


def is_rotor(joint: PlacedJoint, inertia: Inertia) -> bool:
    """Return whether a body is balanced, statically and dynamically, about the axis of its hinge."""
    if not isinstance(joint.kind, Revolute) or joint.parent == GROUND or not np.any(inertia.A):
        return False
    u = axis_of(joint)
    A = inertia.A
    h = inertia.h
    return bool(
        np.abs(np.cross(u, product(A, u))).max() <= PARALLEL_TOL * np.abs(A).max()
        and np.abs(np.cross(u, h)).max() <= PARALLEL_TOL * max(np.abs(h).max(), 1e-300)
    )


def axis_of(joint: PlacedJoint) -> np.ndarray:
    """Return the unit axis of a hinge, in its own frame."""
    return np.array(joint.kind.axis)  # type: ignore[attr-defined]


class Gear(NamedTuple):
    """A rotor turns n times as fast as a link, both against the rotor's carrier and about its axis."""

    link: int
    n: float


def gear_of(
    model: Mechanism, rotor: int, rotors: Collection[int], R: Mapping[int, np.ndarray], moved: Collection[int]
) -> Gear | None:
    """Return the gear of a rotor driven by a single link through parallel hinges, or None.

    The link may be supported by the carrier, or the carrier by the link. `R` holds the orientations of all
    bodies at zero joint angles, `moved` the joints whose axes are inputs.
    """
    carrier = model.joints[rotor].parent
    u = product(R[rotor], axis_of(model.joints[rotor]))
    for coupling in model.embedded:
        rates = {j: -c for j, _, c in coupling.terms} if isinstance(coupling, Coupling) else {}
        rotor_rate = -rates.pop(rotor, 0.0)
        for link in (
            dict.fromkeys(k for j in rates for k in (j, model.joints[j].parent)) if rotor_rate else ()
        ):
            up, down = (set(path_to_ground(body, model.joints)) for body in (carrier, link))
            hinges = [model.joints[j] for j in up ^ down]
            if (
                link in rotors
                or up ^ down != set(rates)
                or not all(_turns_about(u, hinge, R) for hinge in hinges)
            ):
                continue
            if not set(rates).isdisjoint(moved):
                continue
            along = [product(u, product(R[hinge.child], axis_of(hinge))) for hinge in hinges]
            signs = [np.sign(x) * (1.0 if hinge.child in down else -1.0) for x, hinge in zip(along, hinges)]
            ratios = [sign * rates[hinge.child] / rotor_rate for sign, hinge in zip(signs, hinges)]
            if ratios[0] and max(ratios) - min(ratios) <= PARALLEL_TOL * abs(ratios[0]):
                return Gear(link, float(ratios[0]))
    return None


def _turns_about(u: np.ndarray, hinge: PlacedJoint, R: Mapping[int, np.ndarray]) -> bool:
    return isinstance(hinge.kind, Revolute) and parallel(product(R[hinge.child], axis_of(hinge)), u)


def parallel(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two unit vectors are parallel or opposite."""
    return bool(np.abs(np.cross(a, b)).max() < PARALLEL_TOL)
