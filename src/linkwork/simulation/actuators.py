"""Controls of the actuators of a model for rollouts and simulations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import InactiveActuatorsWarning, ModelError, ShapeError
from linkwork.functions.actuation import actuation, select_actuators
from linkwork.functions.caller import caller_stacklevel
from linkwork.functions.contact import COEFFICIENTS
from linkwork.mechanism import Actuator
from linkwork.mechanism.actuator_laws import (
    activation_at,
    has_closed_form,
    has_dynamics,
    next_activation,
    unsupported_reason,
)
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model
from linkwork.simulation.control import Control
from linkwork.simulation.numbers import real_numbers


@dataclass(frozen=True)
class Controls:
    """Controls of a model's actuators, in place of joint forces in `lw.rollout` and `lw.simulate`.

    The joint forces are those of `lw.actuation`, computed at every stage of a step.

    Parameters
    ----------
    values : array_like, shape (..., actuators), or callable
        The controls; in `lw.simulate` also a function (q, v, t) of all states, called at the beginning of
        each step.
    actuators : names or `linkwork.mechanism.Actuator`, optional
        Actuators that act, in this order. Default: all of `model.actuators`.
    activations : array_like, shape (..., actuators), optional
        Initial activations of actuators with dynamics. Default zero.

    Notes
    -----
    `lw.simulate` integrates activations as MuJoCo does: forces are then computed at the beginning of each
    step and activations at its end. In a rollout controls are constant, and activations are the exact
    functions of time that `activations_at` returns; those of muscles and of the dynamics "filter" differ
    from Euler's steps of `lw.simulate` by O(dt). Muscles with `tausmooth` need `lw.simulate`.
    """

    values: Any
    actuators: Iterable[str | Actuator] | None = None
    activations: Any = None

    def arrays(self, model: Model) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Return the arrays by name, with the shape of one row."""
        selected = select_actuators(model, self.actuators)
        slow = [repr(each.name) for each in selected if not has_closed_form(each)]
        if slow:
            raise ModelError(
                f"{join_names(slow)} of {printable(model.name)} {'have' if len(slow) > 1 else 'has'} "
                "dynamics with tausmooth, which lw.simulate "
                "integrates and rollouts do not; choose others with lw.Controls(..., actuators=)"
            )
        if callable(self.values):
            raise ModelError(
                "a function in lw.Controls is for lw.simulate; in a rollout use policy= with lw.actuation"
            )
        start = self._start(selected)
        shape = (len(selected),)
        arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"controls": (self.values, shape)}
        return arrays if start is None else {**arrays, "activations": (start, shape)}

    def control(self, model: Model) -> Control:
        """Return the control inside of a kernel."""
        selected = select_actuators(model, self.actuators)
        shape = (len(selected),)

        def force(model: Model, q: Any, v: Any, t: Any, given: Mapping[str, Any]) -> Any:
            u = given["controls"]
            if "activations" not in given:
                return actuation(model, q, v, u, actuators=selected)
            start = given["activations"]
            x = [activation_at(each, u[k], start[k], t) for k, each in enumerate(selected)]
            return actuation(model, q, v, u, np.array(x, dtype=object), actuators=selected)

        slow = any(map(has_dynamics, selected))
        inputs = {"controls": shape, "activations": shape} if slow else {"controls": shape}
        return Control(("controls", selected), inputs, force)

    def activations_at(self, model: Model, t: float) -> np.ndarray:
        """Return the activations of a rollout after a time t [s], (..., actuators)."""
        u, shape = self.arrays(model)["controls"]
        selected = select_actuators(model, self.actuators)
        start = self._start(selected)
        u, x = np.broadcast_arrays(u, np.zeros(shape) if start is None else start)
        columns = [activation_at(each, u[..., k], x[..., k], float(t)) for k, each in enumerate(selected)]
        return np.stack([np.asarray(column, dtype=float) for column in columns], axis=-1)

    def _start(self, selected: tuple[Actuator, ...]) -> Any:
        """Return the initial activations, None without dynamics."""
        if any(map(has_dynamics, selected)):
            return np.zeros(len(selected)) if self.activations is None else self.activations
        if self.activations is not None:
            raise ModelError("activations= of lw.Controls is for actuators with dynamics, but there are none")
        return None

    def is_sampled(self, model: Model) -> bool:
        """Return whether controls are evaluated once for each step."""
        return callable(self.values) or any(map(has_dynamics, select_actuators(model, self.actuators)))

    def sampled(
        self, model: Model, dt: float, parameters: Mapping[str, Any]
    ) -> tuple[Callable[..., tuple[Any, Any]], Any]:
        """Return a controller of `lw.simulate` and its initial memory, the activations."""
        numbers = {name: x for name, x in parameters.items() if name not in COEFFICIENTS}
        selected = select_actuators(model, self.actuators)
        activations = self._start(selected)
        slow = activations is not None
        start = np.asarray(activations if slow else np.zeros(len(selected)), dtype=float)

        def controller(q: Any, v: Any, t: float, memory: Any) -> tuple[Any, Any]:
            returned = self.values(q, v, t) if callable(self.values) else self.values
            u = _rows(returned, q, len(selected), "controls")
            x = _rows(memory, q, len(selected), "activations")
            arrays = (q, v, u, x) if slow else (q, v, u)
            tau = actuation(model, *arrays, actuators=selected, parameters=numbers)
            columns = [next_activation(each, u[..., k], x[..., k], dt) for k, each in enumerate(selected)]
            return tau, np.stack(np.broadcast_arrays(*columns), axis=-1)

        return controller, start


def warn_inactive_actuators(who: str, model: Any) -> None:
    """Warn once if a model moves without forces although its servos would exert some at zero control."""
    if who in getattr(model, "cache", {}).get("idle actuators", ()) or not getattr(model, "actuators", ()):
        return
    kinds = {joint.name: joint.kind for joint in model.joints}
    able = [each for each in model.actuators if each.enabled and not unsupported_reason(each, kinds)]
    servos = [repr(each.name) for each in able if each.bias[0] != "none" and any(each.bias[1])]
    model.cache["idle actuators"] = {*model.cache.get("idle actuators", ()), who}
    if servos:
        forms = "is a servo and exerts" if len(servos) == 1 else "are servos and exert"
        warnings.warn(
            f"{who}: {join_names(servos)} of {printable(model.name)} {forms} nothing here, since no forces "
            "are given: lw.Controls(controls) lets actuators act, and zero forces say that none shall",
            InactiveActuatorsWarning,
            stacklevel=caller_stacklevel(),
        )


def _rows(values: Any, q: np.ndarray, count: int, label: str) -> np.ndarray:
    x = real_numbers("lw.Controls", label, values)
    expected = (*q.shape[:-1], count)
    try:
        if x.shape[-1:] != (count,):
            raise ValueError
        return np.broadcast_to(x, expected)
    except ValueError as error:
        reraise_signal(error)
        raise ShapeError(
            f"lw.Controls: {label}: expected an array that broadcasts to {expected}, got {x.shape}"
        ) from None
