"""The public functions of contact geometry: which points of a mechanism may touch something, and how far they are from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.constraints import BodyKinematics
from linkwork.contact import Candidate, Contacts, chosen_contacts
from linkwork.errors import ModelError
from linkwork.functions.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.simplify.rotors import lumped
from linkwork.simplify.trees import hinge_tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial.constants import product


def contact_candidates(model: Model, contacts: Contacts | None = None) -> tuple[Candidate, ...]:
    """The points of a model that may touch something, in the order of all arrays of contacts; see `Contacts`."""
    if not isinstance(model, Model):
        raise ModelError(f"contact_candidates: the first argument must be a model, not {type(model).__name__}")
    given = Contacts() if contacts is None else contacts
    if not isinstance(given, Contacts):
        raise ModelError(f"contacts must be given as Contacts(...), not {contacts!r}")
    return given.candidates(model)


def nodes_with(model: Model, candidates: tuple[Candidate, ...], q: Any, v: Any = None) -> ModelTree[Any]:
    """Nodes in which the bodies of candidates have rows of their own, also where they are rotors."""
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    return hinge_tree(model, q, v, whole=any(body in rotors for each in candidates for body in each.bodies))


@model_function(q="nq", options=chosen_contacts)
def contact_points(model: Model, q: Any, *, contacts: Contacts | None = None) -> tuple[Any, Any, Any]:
    """Gaps [m], (..., c), points [m], (..., c, 3), and normals, (..., c, 3), of the c `contact_candidates`, in the world.

    A gap is negative where two shapes overlap. The normal points from the other body, or the ground, to the first; the rate of
    the gap is the velocity of the first against the other at the point, along the normal.
    """
    assert contacts is not None
    found = contacts.candidates(model)
    kinematics = BodyKinematics(nodes_with(model, found, q))
    below = kinematics.nodes.below
    gaps, points, normals = [], [], []
    for each in found:
        gap, _, _, point, axes = each.touch(kinematics)
        gaps.append(gap)
        if each.other == GROUND:
            points.append(point)
            normals.append(axes[0])
        else:
            T = kinematics.pose(kinematics.nodes[each.other], below)
            points.append(T.point(point))
            normals.append(product(T.R, axes[0]))
    c = len(found)
    return (
        np.array(gaps, dtype=object),
        np.array(points, dtype=object).reshape(c, 3),
        np.array(normals, dtype=object).reshape(c, 3),
    )
