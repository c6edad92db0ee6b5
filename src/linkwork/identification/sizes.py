"""Typical sizes of parameters and of motions, in any system of units.

They follow from three numbers of a model and its recordings, a length, a mass and a time, so that a fit takes
the same steps whether its numbers are in metres or millimetres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linkwork.algorithms.constrained.truncation import units_of_velocities
from linkwork.loops.scales import velocity_units
from linkwork.model import Model
from linkwork.model.parameters import KINDS, entries_of, parse, shape_of

POSES = ("placement", "frame_placement", "loop_placement")


class Scales(NamedTuple):
    """Length, mass and time by which parameters are compared, and the unit of each velocity of the tree,
    (nv_spanning,), and of each independent one, (nv,): a radian, or the length.
    """

    length: float
    mass: float
    time: float
    units: np.ndarray
    independent_units: np.ndarray


def scales_of(model: Model, time: float) -> Scales:
    """Return the size of a model and the mass of its bodies; 1 where it has none."""
    points = [np.zeros(3), *(joint.place.p for joint in model.joints)]
    points += [body.center for body in model.bodies]
    points += [end.place.p for loop in model.loops for end in getattr(loop, "ends", ())]
    gyration = [np.trace(body.moment) / (2.0 * body.mass) for body in model.bodies if body.mass > 0.0]
    length = max(float(np.linalg.norm(np.array(points, dtype=float), axis=1).max()), *np.sqrt(gyration), 0.0)
    length = length or 1.0
    mass = float(sum(body.mass for body in model.bodies)) or 1.0
    units = velocity_units(model, range(len(model.joints)), length)
    return Scales(length, mass, time, units, units_of_velocities(model, length))


def natural_sizes(model: Model, name: str, scales: Scales) -> np.ndarray:
    """Return the size of each entry of a parameter that is a product of powers of the scales."""
    length, mass, time, units, _ = scales
    kind = parse(name)[0]
    if kind in POSES:
        count = 2 if kind == "loop_placement" else 1
        return np.tile([length] * 3 + [1.0] * 3, count)
    if KINDS[kind].owner_kind == "velocity":
        inertia = mass * (length / units[entries_of(model, name)]) ** 2
        if kind == "friction":
            return inertia * units[entries_of(model, name)] / time**2
        return inertia / time ** {"armature": 0, "damping": 1, "stiffness": 2}[kind]
    of_entries = {"mass": mass, "center": length, "inertia": mass * length**2, "gravity": length / time**2}
    return np.full(int(np.prod(shape_of(model, name), dtype=int)), of_entries.get(kind, 1.0))
