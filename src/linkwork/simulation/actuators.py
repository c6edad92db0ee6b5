"""Controls of the actuators of a model for rollouts and simulations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import InactiveActuatorsWarning, ModelError, ShapeError
from linkwork.functions.actuation import actuation, select_actuators
from linkwork.functions.caller import caller_stacklevel
from linkwork.mechanism import Actuator
from linkwork.mechanism.actuator_laws import has_dynamics, next_activation, obstacle
from linkwork.mechanism.names import join_names, printable
from linkwork.model import Model
from linkwork.simulation.control import Control


@dataclass(frozen=True)
class Controls:
    """Controls of a model's actuators, in place of joint forces in `lw.rollout` and `lw.simulate`.

    The joint forces are those of `lw.actuation`, computed at every stage of a step. Actuators with dynamics
    need `lw.simulate`: forces are then computed at the beginning of each step and activations at its end, as
    in MuJoCo.

    Parameters
    ----------
    values : array_like, shape (..., actuators), or callable
        The controls; in `lw.simulate` also a function (q, v, t) of all states, called at the beginning of
        each step.
    actuators : names or `linkwork.mechanism.Actuator`, optional
        Actuators that act, in this order. Default: all of `model.actuators`.
    activations : array_like, shape (..., actuators), optional
        Initial activations. Default zero.
    """

    values: Any
    actuators: Iterable[str | Actuator] | None = None
    activations: Any = None

    def arrays(self, model: Model) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Return the arrays by name, with the shape of one row."""
        selected = select_actuators(model, self.actuators)
        slow = [repr(each.name) for each in selected if has_dynamics(each)]
        if slow:
            raise ModelError(
                f"{join_names(slow)} of {printable(model.name)} {'have' if len(slow) > 1 else 'has'} "
                "dynamics, which lw.simulate "
                "integrates and rollouts do not; choose others with lw.Controls(..., actuators=)"
            )
        if self.activations is not None:
            raise ModelError(
                "activations= of lw.Controls is for actuators with dynamics, and none is among them"
            )
        if callable(self.values):
            raise ModelError(
                "a function in lw.Controls is for lw.simulate; in a rollout use policy= with lw.actuation"
            )
        return {"controls": (self.values, (len(selected),))}

    def control(self, model: Model) -> Control:
        """Return the control inside of a kernel."""
        selected = select_actuators(model, self.actuators)

        def force(model: Model, q: Any, v: Any, t: Any, inputs: Mapping[str, Any]) -> Any:
            return actuation(model, q, v, inputs["controls"], actuators=selected)

        return Control(("controls", selected), {"controls": (len(selected),)}, force)

    def is_sampled(self, model: Model) -> bool:
        """Return whether controls are evaluated once for each step."""
        return callable(self.values) or any(map(has_dynamics, select_actuators(model, self.actuators)))

    def sampled(self, model: Model, dt: float) -> tuple[Callable[..., tuple[Any, Any]], Any]:
        """Return a controller of `lw.simulate` and its initial memory, the activations."""
        selected = select_actuators(model, self.actuators)
        slow = any(map(has_dynamics, selected))
        if self.activations is not None and not slow:
            raise ModelError(
                "activations= of lw.Controls is for actuators with dynamics, and none is among them"
            )
        start = (
            np.zeros(len(selected)) if self.activations is None else np.asarray(self.activations, dtype=float)
        )

        def controller(q: Any, v: Any, t: float, memory: Any) -> tuple[Any, Any]:
            returned = self.values(q, v, t) if callable(self.values) else self.values
            u = _rows(returned, q, len(selected), "controls")
            x = _rows(memory, q, len(selected), "activations")
            tau = (
                actuation(model, q, v, u, x, actuators=selected)
                if slow
                else actuation(model, q, v, u, actuators=selected)
            )
            columns = [next_activation(each, u[..., k], x[..., k], dt) for k, each in enumerate(selected)]
            return tau, np.stack(np.broadcast_arrays(*columns), axis=-1)

        return controller, start


def warn_inactive_actuators(who: str, model: Any) -> None:
    """Warn once if a model moves without forces although its servos would exert some at zero control."""
    if who in getattr(model, "cache", {}).get("idle actuators", ()) or not getattr(model, "actuators", ()):
        return
    kinds = {joint.name: joint.kind for joint in model.joints}
    able = [each for each in model.actuators if each.enabled and not obstacle(each, kinds)]
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
    x = np.asarray(values, dtype=float)
    expected = (*q.shape[:-1], count)
    try:
        if x.shape[-1:] != (count,):
            raise ValueError
        return np.broadcast_to(x, expected)
    except ValueError:
        raise ShapeError(
            f"lw.Controls: {label}: expected an array that broadcasts to {expected}, got {x.shape}"
        ) from None
