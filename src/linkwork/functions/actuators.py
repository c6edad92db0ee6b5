"""The public functions of actuators behind gears and linkages: motor to joint velocities and torques, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from linkwork.algorithms import actuator_map as mapped
from linkwork.errors import ModelError
from linkwork.functions.constrained_inverse import all_but_a_free_base
from linkwork.functions.dynamics import actuated_places
from linkwork.functions.model_function import model_function
from linkwork.model import Model


def _places(model: Model, actuators: Any, joints: Any) -> dict[str, Any]:
    """Both as places in the spanning tree."""
    joints = all_but_a_free_base(model) if joints is None else joints
    found = {"actuators": actuated_places(model, actuators), "joints": actuated_places(model, joints, "joints")}
    for word, places in found.items():
        if not places:
            raise ModelError(f"{word} names no joint")
    return found


def _forward(model: Model, **names: Any) -> dict[str, Any]:
    found = _places(model, **names)
    mapped.check_followed(model.structure, found["actuators"], found["joints"])
    return found


def _backward(model: Model, **names: Any) -> dict[str, Any]:
    found = _places(model, **names)
    mapped.check_followed(model.structure, found["joints"], found["actuators"], "joints")
    return found


@model_function(q="nq", options=_forward)
def actuator_map(model: Model, q: Any, *, actuators: Iterable[Any], joints: Iterable[Any] | None = None) -> Any:
    """How joints follow actuators, (..., joints, actuators): the velocities of `joints` are this times those of `actuators`.

    Both are names of joints or of their velocities, in this order, dependent or not: the motors of a parallel ankle and its
    pitch and roll. By default `joints` are all of `model.v_names` but a free base. Power is the same on both sides: torques of
    actuators that do what torques of joints do are its transpose times these. Where joints do not follow, it is an error.
    """
    return mapped.actuator_map(model, q, tuple(actuators), tuple(joints or ()))


@model_function(q="nq", options=_backward)
def actuator_map_inverse(model: Model, q: Any, *, actuators: Iterable[Any], joints: Iterable[Any] | None = None) -> Any:
    """How actuators follow joints, (..., actuators, joints): the inverse of `actuator_map` where there are as many of both.

    The velocities of actuators are this times those of `joints`, and torques of joints its transpose times those of actuators.
    """
    return mapped.actuator_map(model, q, tuple(joints or ()), tuple(actuators))
