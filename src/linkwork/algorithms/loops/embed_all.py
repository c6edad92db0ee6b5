"""A model with constrained loops as one with all loops embedded: the same mechanism in fewer velocities.

Quantities of all joints of the tree, such as what joints and loops transmit, do not depend on how loops are
enforced. Functions for them are written for embedded loops and use this model when loops are constrained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.loops.closing import places_of, spanning_acceleration, spanning_velocity
from linkwork.errors import ModelError
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model, cached_on_model
from linkwork.sko.prepare.trees import tree


class EmbeddedState(NamedTuple):
    """Model with all loops embedded, with velocities and accelerations of its independent joints, (nv,)."""

    model: Model
    v: Any
    a: Any


@cached_on_model
def embed_all(model: Model) -> Model:
    """Return the same mechanism with constrained loops embedded; raise ModelError if that is impossible."""
    if not model.constrained_loops:
        return model
    nominal_model = None if model.nominal_model is None else embed_all(model.nominal)
    embedded = (*model.embedded, *(loop.with_independent_rows(None) for loop in model.constrained_loops))
    result = replace(model, embedded=embedded, constrained_loops=(), kernels={}, nominal_model=nominal_model)
    try:
        _ = result.clusters
    except ModelError as error:
        names = join_names([repr(loop.name) for loop in model.constrained_loops])
        raise ModelError(
            f"{printable(model.name)}: this function needs {names} embedded, which cannot be done: {error}"
        ) from None
    return result


def embedded_state(model: Model, q: Any, v: Any, a: Any = None) -> EmbeddedState:
    """Return the motion of a model with all loops embedded; v and a must keep the loops closed."""
    embedded_model = embed_all(model)
    if embedded_model is model:
        return EmbeddedState(model, v, a)
    independent = independent_indices(embedded_model)
    nodes = tree(model, q, v)
    accelerations = None if a is None else spanning_acceleration(nodes, np.asarray(a))[independent]
    return EmbeddedState(embedded_model, spanning_velocity(nodes)[independent], accelerations)


def independent_indices(model: Model) -> np.ndarray:
    """Return indices of independent velocities in the spanning tree."""
    indices = [
        places_of(model, cluster)[list(cluster.independent)]
        for cluster in model.clusters
        if cluster.independent
    ]
    return np.concatenate([*indices, []]).astype(int)
