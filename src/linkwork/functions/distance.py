"""The public functions of distances between shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.constraints import BodyKinematics
from linkwork.contact.distances import chosen_pairs
from linkwork.errors import ModelError
from linkwork.functions.contact_points import nodes_with
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model


@model_function(q="nq", options=chosen_pairs)
def distance(model: Model, q: Any, *, pairs: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return the distances of pairs of shapes, with their nearest points and normals.

    Parameters
    ----------
    model : Model
        A model with shapes (`Model.geometries`).
    q : array_like, shape (..., nq)
        Configurations.
    pairs : sequence of pairs, optional
        Names of shapes, of links (all their shapes that can collide), of frames (as points), or `Geometry`
        values. By default all pairs of shapes that the model lets collide, also of one mechanism.
        `distance_pairs` gives their order.

    Returns
    -------
    distance : ndarray, shape (..., p)
        Signed distances [m]: where shapes overlap, minus the length of the shortest translation that
        separates them.
    point, other_point : ndarray, shape (..., p, 3)
        Nearest points of the first and of the second shape in the world [m]. Where these are not unique, such
        as between parallel faces, they are one choice.
    normal : ndarray, shape (..., p, 3)
        Unit vectors from the second shape to the first; ``point - other_point = distance * normal``.

    Raises
    ------
    ModelError
        If a name is unknown, or two shapes cannot be tested against each other (such as a mesh without a
        hull).

    See Also
    --------
    contact_points : Gaps of all contact candidates, with manifolds of several points.
    with_hulls : Hulls in place of meshes.

    Notes
    -----
    Distances are exact to 1e-9 of the size of the shapes, to 1e-7 with cylinders and ellipsoids; in single
    precision to 1e-4. Where a hull overlaps another shape by more than some percent of their size, a shorter
    translation exists in less than one of 100 poses. The distance to a height field is that to the plane of
    the triangle below or above a point of the shape.

    `jacobian`, `jvp` and `vjp` differentiate all results where the nearest points are unique, and the
    distance also where only the normal is.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> table = lw.Geometry("table", shape="box", size=(1.0, 1.0, 0.1))
    >>> pairs = [(body.name, table) for body in arm.bodies]  # origins of the bodies
    >>> gap, point, other_point, normal = lw.distance(arm, arm.neutral(), pairs=pairs)
    >>> gap.shape, normal.shape
    ((3,), (3, 3))
    """
    candidates = tuple(candidate for pair in pairs for candidate in pair.candidates)
    kinematics = BodyKinematics(nodes_with(model, candidates, q))
    results = [pair.distance(kinematics) for pair in pairs]
    gaps = np.array([each.gap for each in results], dtype=object)
    vectors = [
        np.array([each[k] for each in results], dtype=object).reshape(len(pairs), 3) for k in (1, 2, 3)
    ]
    return gaps, vectors[0], vectors[1], vectors[2]


def distance_pairs(model: Model, pairs: Any = None) -> tuple[tuple[str, str], ...]:
    """Return the names of the two shapes of each distance, in the order of the results of `distance`."""
    if not isinstance(model, Model):
        raise ModelError(f"distance_pairs: first argument: expected a model, got {type(model).__name__}")
    return tuple((each.first, each.second) for each in chosen_pairs(model, pairs)["pairs"])
