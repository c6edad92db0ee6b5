"""Public function of actuator forces, and checks of actuators and their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.loops import active_joints as active
from linkwork.algorithms.loops.actuator_map import check_driven
from linkwork.algorithms.loops.closing import independent_force
from linkwork.algorithms.loops.embed_all import embed_all, independent_indices
from linkwork.errors import ModelError
from linkwork.functions.engine.call_arguments import as_numbers
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree


def positive_weights(weights: Any, count: int, label: str) -> tuple[float, ...]:
    """Return `count` positive numbers; all 1 if `weights` is None."""
    values = np.ones(count) if weights is None else as_numbers(weights)
    if values.shape != (count,) or not np.all((values > 0) & np.isfinite(values)):
        raise ModelError(f"weights: expected {count} positive numbers, one for each {label}, got {weights!r}")
    return tuple(values.tolist())


def cost_weights(minimize: Any, weights: Any, counts: Mapping[str, tuple[int, str]]) -> tuple[float, ...]:
    """Return the weights of the quantity to minimize; `counts` gives size and label for each name."""
    if minimize not in [*counts]:  # a list, since the argument may not be hashable
        raise ModelError(f"minimize: expected one of {', '.join(counts)}, got {minimize!r}")
    return positive_weights(weights, *counts[minimize])


def actuated_indices(model: Model, actuators: Any, label: str = "actuators") -> tuple[int, ...]:
    """Return indices into the velocities of the spanning tree, from names of joints or of velocities."""
    names = [name for joint in model.joints for name in joint.v_names]
    indices: list[int] = []
    if not isinstance(actuators, Iterable):
        raise ModelError(f"{label}: expected names of joints or of their velocities, got {actuators!r}")
    for name in [actuators] if isinstance(actuators, str) else actuators:
        if name in names:
            indices.append(names.index(name))
        else:
            velocities = model.joint(name).v_slice
            indices += range(velocities.start, velocities.stop)
    if len(set(indices)) < len(indices):
        raise ModelError(f"{label}: expected different joints, got {actuators!r}")
    return tuple(indices)


def _actuator_options(model: Model, actuators: Any, weights: Any) -> dict[str, Any]:
    indices = actuated_indices(model, actuators)
    check_driven(embed_all(model.nominal), indices)
    return {"actuators": indices, "weights": positive_weights(weights, len(indices), "actuated velocity")}


@model_function(q="nq", tau="nv", options=_actuator_options)
def actuator_force(model: Model, q: Any, tau: Any, *, actuators: Iterable[Any], weights: Any = None) -> Any:
    """Return the forces of actuators in any joints that are equivalent to generalized forces tau.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    tau : array_like, shape (..., nv)
        Generalized forces of the independent joints [N m, N].
    actuators : names
        Driven joints or velocities, dependent or independent.
    weights : array_like, shape (actuators,), optional
        Where a cluster has more actuators than it needs, the weighted sum of squares of their forces is
        minimal. Default: ones.

    Returns
    -------
    ndarray, shape (..., actuators)
        Forces of the actuators [N m, N].

    Raises
    ------
    ModelError
        If a cluster has fewer actuators than it needs, or they do not determine its motion.

    See Also
    --------
    spanning_hybrid_dynamics : Active and passive joints in a motion, with other costs.
    independent_force : The reverse map.

    Notes
    -----
    A free base needs no actuators; entries of tau there are ignored (they vanish if contact forces are
    accounted for). Constrained loops are embedded.
    """
    embedded_model = embed_all(model)
    if embedded_model is not model:
        tau_spanning: Any = np.zeros(model.nv_spanning, dtype=object)
        tau_spanning[independent_indices(model)] = tau
        tau = independent_force(tree(embedded_model, q), tau_spanning)
    return active.actuator_force(tree(embedded_model, q), tau, tuple(actuators), np.array(weights))
