"""Contact forces in the world from the impulses of a step, for logs and sensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.constraints import BodyKinematics
from linkwork.contact import Contacts, chosen_contacts
from linkwork.functions.contact_points import nodes_with
from linkwork.functions.engine.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.spatial.constants import product


@model_function(q="nq", impulses="impulses", options=chosen_contacts)
def contact_forces(model: Model, q: Any, impulses: Any, *, contacts: Contacts) -> tuple[Any, Any]:
    """Return contact points [m] and the forces on the first bodies of c candidates, (..., c, 3) each.

    Both are in world axes. Impulses [N s] of `lw.step` give impulses; divided by its dt, they give forces
    [N].
    """
    result = contacts.candidates(model)
    kinematics = BodyKinematics(nodes_with(model, result, q))
    points = []
    forces = []
    first = 0
    for each in result:
        touch = each.touch(kinematics)
        point = touch.other_point
        axes = touch.other_axes
        if each.other != GROUND:
            T = kinematics.pose(kinematics.nodes[each.other], kinematics.nodes.below)
            point = T.point(point)
            axes = product(axes, T.R.T)
        force_count = min(each.dimension, 3)
        points.append(point)
        forces.append(product(axes[:force_count].T, impulses[first : first + force_count]))
        first += each.dimension
    return np.array(points, dtype=object).reshape(-1, 3), np.array(forces, dtype=object).reshape(-1, 3)
