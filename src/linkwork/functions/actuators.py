"""Public functions of actuators behind gears and linkages: maps between motor and joint velocities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from linkwork.algorithms.loops import actuator_map as mapped
from linkwork.algorithms.loops.embed_all import embed_all
from linkwork.errors import ModelError
from linkwork.functions.actuator_forces import actuated_indices
from linkwork.functions.constrained_inverse import all_but_free_base
from linkwork.functions.engine.model_function import model_function
from linkwork.model import Model


def _indices(model: Model, actuators: Any, joints: Any) -> dict[str, Any]:
    """Return both as indices into the velocities of the spanning tree."""
    joints = all_but_free_base(model) if joints is None else joints
    indices = {
        "actuators": actuated_indices(model, actuators),
        "joints": actuated_indices(model, joints, "joints"),
    }
    for word, velocities in indices.items():
        if not velocities:
            raise ModelError(f"{word}: expected at least one joint, got none")
    return indices


def _forward(model: Model, **names: Any) -> dict[str, Any]:
    indices = _indices(model, **names)
    mapped.check_followed(embed_all(model.nominal), indices["actuators"], indices["joints"])
    return indices


def _backward(model: Model, **names: Any) -> dict[str, Any]:
    indices = _indices(model, **names)
    mapped.check_followed(embed_all(model.nominal), indices["joints"], indices["actuators"], "joints")
    return indices


@model_function(q="nq", options=_forward)
def actuator_map(
    model: Model, q: Any, *, actuators: Iterable[Any], joints: Iterable[Any] | None = None
) -> Any:
    """Return the map from velocities of actuators to those of joints, (..., joints, actuators).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    actuators, joints : names
        Joints or velocities, dependent or independent, such as the motors of a parallel ankle and its pitch
        and roll. Default for `joints`: all of `model.v_names` except a free base.

    Returns
    -------
    ndarray, shape (..., joints, actuators)
        Its transpose maps torques of joints to equivalent torques of actuators, since power is the same.

    Raises
    ------
    ModelError
        If the actuators do not determine the joints.

    Notes
    -----
    Constrained loops couple joints as embedded ones do.
    """
    return mapped.actuator_map(embed_all(model), q, tuple(actuators), tuple(joints or ()))


@model_function(q="nq", options=_backward)
def actuator_map_inverse(
    model: Model, q: Any, *, actuators: Iterable[Any], joints: Iterable[Any] | None = None
) -> Any:
    """Return the map from velocities of joints to those of actuators, (..., actuators, joints).

    Arguments as in `actuator_map`, of which it is the inverse where there are as many joints as actuators.
    Its transpose maps torques of actuators to equivalent torques of joints. Raises ModelError if the joints
    do not determine the actuators.
    """
    return mapped.actuator_map(embed_all(model), q, tuple(joints or ()), tuple(actuators))
