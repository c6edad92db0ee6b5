"""Contact forces in the world, of the impulses of a step: for logs and sensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.constraints import BodyKinematics
from linkwork.contact import Contacts, chosen_contacts
from linkwork.functions.contact_points import nodes_with
from linkwork.functions.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.spatial.constants import product


@model_function(q="nq", impulses="impulses", options=chosen_contacts)
def contact_forces(model: Model, q: Any, impulses: Any, *, contacts: Contacts) -> tuple[Any, Any]:
    """Points [m], (..., c, 3), and what acts there on the first bodies of the c candidates, (..., c, 3), in the world's axes.

    Of impulses [N s] of `lw.step` these are impulses; divided by its dt, forces [N].
    """
    found = contacts.candidates(model)
    kinematics = BodyKinematics(nodes_with(model, found, q))
    points, forces, first = [], [], 0
    for each in found:
        touch = each.touch(kinematics)
        point, axes = touch.other_point, touch.other_axes
        if each.other != GROUND:
            T = kinematics.pose(kinematics.nodes[each.other], kinematics.nodes.below)
            point, axes = T.point(point), product(axes, T.R.T)
        own = min(each.dimension, 3)
        points.append(point)
        forces.append(product(axes[:own].T, impulses[first : first + own]))
        first += each.dimension
    return np.array(points, dtype=object).reshape(-1, 3), np.array(forces, dtype=object).reshape(-1, 3)
