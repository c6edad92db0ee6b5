"""Public functions of contact geometry: contact candidates, their gaps, points and normals."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.constraints import BodyKinematics
from linkwork.contact import Candidate, Contacts, chosen_contacts
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.model import GROUND, Model
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.sko.tree import ModelTree
from linkwork.spatial.constants import product


def contact_candidates(model: Model, contacts: Contacts | None = None) -> tuple[Candidate, ...]:
    """Return the contact candidates of a model, in the order of all contact arrays; see `Contacts`."""
    if not isinstance(model, Model):
        raise ModelError(f"contact_candidates: first argument: expected a model, got {type(model).__name__}")
    settings = Contacts() if contacts is None else contacts
    if not isinstance(settings, Contacts):
        raise ModelError(f"contacts: expected Contacts(...), got {contacts!r}")
    return settings.candidates(model)


def nodes_with(model: Model, candidates: tuple[Candidate, ...], q: Any, v: Any = None) -> ModelTree[Any]:
    """Return nodes in which the bodies of candidates have rows of their own, also if they are rotors."""
    rotors = {k for k, each in enumerate(lumped(model)) if each.rotor}
    return hinge_tree(
        model, q, v, all_bodies=any(body in rotors for each in candidates for body in each.bodies)
    )


@model_function(q="nq", options=chosen_contacts)
def contact_points(model: Model, q: Any, *, contacts: Contacts | None = None) -> tuple[Any, Any, Any]:
    """Return gaps, points and normals of the contact candidates.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    contacts : Contacts, optional
        Possible contacts. Default: `Contacts()`.

    Returns
    -------
    gap : ndarray, shape (..., c)
        Gaps of the c `contact_candidates` [m], negative where shapes overlap.
    point, normal : ndarray, shape (..., c, 3)
        Contact points [m] and unit normals in the world. The normal points from the other body, or the
        ground, to the first. The rate of a gap is the relative velocity at the point along the normal.

    See Also
    --------
    distance : Exact distances of any pairs of shapes.
    """
    assert contacts is not None
    candidates = contacts.candidates(model)
    kinematics = BodyKinematics(nodes_with(model, candidates, q))
    below = kinematics.nodes.below
    gaps = []
    points = []
    normals = []
    for each in candidates:
        gap, _, _, point, axes = each.touch(kinematics)
        gaps.append(gap)
        if each.other == GROUND:
            points.append(point)
            normals.append(axes[0])
        else:
            T = kinematics.pose(kinematics.nodes[each.other], below)
            points.append(T.point(point))
            normals.append(product(T.R, axes[0]))
    c = len(candidates)
    return (
        np.array(gaps, dtype=object),
        np.array(points, dtype=object).reshape(c, 3),
        np.array(normals, dtype=object).reshape(c, 3),
    )
