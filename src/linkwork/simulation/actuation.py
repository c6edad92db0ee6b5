"""Actuation of simulations: a controller and external forces, as part of a kernel or as numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.compiler.runtime.build import build_on
from linkwork.errors import ModelError
from linkwork.functions.kinematics import frame_jacobian
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.simulation.actuators import Controls
from linkwork.simulation.control import PD, Control, Policy, force_control, policy_control
from linkwork.simulation.numbers import real_numbers
from linkwork.simulation.rollout_arguments import broadcast_forces
from linkwork.simulation.stiffness import Feedback
from linkwork.sko.prepare.trees import hinge_tree

Arrays = dict[str, tuple[Any, tuple[int, ...]]]  # with the shape of one state's
Reads = Callable[[], dict[str, np.ndarray]]  # what sensors say now


class External:
    """External forces on all bodies, (..., bodies, 6), or on named frames, (..., 6) in world axes."""

    def __init__(self, model: Model, forces: Any) -> None:
        self.frames = tuple(forces) if isinstance(forces, Mapping) else None
        self.values = list(forces.values()) if isinstance(forces, Mapping) else [forces]
        for name in self.frames or ():
            model.frame(name)
        if self.frames == ():
            raise ModelError("simulate: f_ext: expected forces by frame name, got none")
        self.varies = any(map(callable, self.values))
        self.shape = (len(self.frames) if self.frames else len(model.bodies), 6)

    def numbers(self, t: float, batch: tuple[int, ...]) -> np.ndarray:
        """Return the forces at a time [s], (rows, frames or bodies, 6)."""
        shape = self.shape if self.frames is None else (6,)
        result = [self._one(k, t, batch, shape) for k in range(len(self.values))]
        return result[0] if self.frames is None else np.stack(result, axis=1)

    def _one(self, k: int, t: float, batch: tuple[int, ...], row_shape: tuple[int, ...]) -> np.ndarray:
        value = self.values[k]
        whose = "f_ext" if self.frames is None else f"f_ext of {printable(self.frames[k])}"
        return as_rows(value(t) if callable(value) else value, batch, row_shape, whose)

    def traced(self, model: Model, q: Any, inputs: Any) -> Any:
        """Return the equivalent joint forces, (nv,), over symbols."""
        if self.frames is None:
            nodes = hinge_tree(model.without_passive_forces(), q, None, inputs)
            return -inverse_dynamics(nodes, np.zeros(model.nv), passive=False)
        J = frame_jacobian(model, q, frame=self.frames, reference="world_aligned")
        return sum(J[k].T @ inputs[k] for k in range(len(self.frames)))


class Drive:
    """Controller and external forces for rows of states.

    `control` is both inside of a kernel. `sampled`: a Python function is called at every step.
    """

    def __init__(
        self,
        model: Model,
        controller: Any,
        policy: Policy | None,
        inputs: Mapping[str, Any] | None,
        f_ext: Any,
        memory: Any,
    ) -> None:
        self.model = model
        self._ask = controller if callable(controller) else None
        self._wants = _arguments(controller) if self._ask else set()
        if memory is not None and "memory" not in self._wants:
            raise ModelError(
                "simulate: memory= is for a controller with an argument of that name, which returns (tau, "
                "memory)"
            )
        self._control, self.arrays = _controller_control(model, controller, policy, inputs)
        self._external = None if f_ext is None else External(model, f_ext)
        self.control = (
            self._control if self._external is None else _with_external(self._control, self._external)
        )
        self.sampled = self._ask is not None or (self._external is not None and self._external.varies)
        self.only_joint_forces = self._control.key == "tau" and self._external is None
        self.asks_velocities = self._control.key != "tau"  # at every stage of a step
        self.batch: tuple[int, ...] = ()
        self._rows: dict[str, np.ndarray] = {}
        self._parameters: dict[str, np.ndarray] = {}

    @property
    def feedback_control(self) -> Control:
        """The control, without external forces that are functions of the time."""
        return self.control if set(self.control.inputs) <= set(self._rows) else self._control

    @property
    def settled(self) -> dict[str, np.ndarray]:
        """Inputs of the kernel that stay constant, arrays of rows by name."""
        return self._rows

    def settle(
        self, batch: tuple[int, ...], rows: dict[str, np.ndarray], parameters: dict[str, np.ndarray]
    ) -> None:
        """Set the batch shape, the rows of `arrays`, and those of parameters of the model."""
        self.batch = batch
        self._parameters = parameters
        self._rows = {name: rows[name] for name in self.arrays}
        if self._external is not None and not self._external.varies:
            self._rows["f_ext"] = self._external.numbers(0.0, batch)

    def inputs(
        self, q: np.ndarray, v: np.ndarray, t: float, reads: Reads, memory: Any
    ) -> tuple[dict[str, np.ndarray], Any]:
        """Return the inputs of the kernel for a step, arrays of rows, and the next controller memory."""
        result = dict(self._rows)
        if self._external is not None and self._external.varies:
            result["f_ext"] = self._external.numbers(t, self.batch)
        if self._ask is not None:
            result["tau"], memory = self._asked(q, v, t, reads, memory)
        return {name: result[name] for name in self.control.inputs}, memory

    def _asked(
        self, q: np.ndarray, v: np.ndarray, t: float, reads: Reads, memory: Any
    ) -> tuple[np.ndarray, Any]:
        assert self._ask is not None
        more: dict[str, Any] = {"sensors": reads()} if "sensors" in self._wants else {}
        states = (x.reshape(*self.batch, x.shape[1]).copy() for x in (q, v))
        if "memory" not in self._wants:
            returned = self._ask(*states, t, **more)
        else:
            answer = self._ask(*states, t, memory=memory, **more)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise ModelError("simulate: a controller with memory returns (tau, memory)")
            returned, memory = answer
        return as_rows(returned, self.batch, (self.model.nv,), "controller(q, v, t)"), memory

    def forces(self, q: np.ndarray, v: np.ndarray, t: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the joint forces of the controller in states at a time, (rows, nv)."""
        if self._control.key == "tau":
            return inputs["tau"]
        return evaluate_control(self.model, self._control, q, v, t, inputs, self._parameters)

    def all_forces(
        self, q: np.ndarray, v: np.ndarray, t: Any, inputs: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the joint forces of the controller and of external forces, (rows, nv)."""
        return (
            self.forces(q, v, t, inputs)
            if self._external is None
            else evaluate_control(self.model, self.control, q, v, t, inputs, self._parameters)
        )


def _arguments(controller: Any) -> set[str]:
    """Return which of "sensors" and "memory" a controller takes; raise if it cannot be called."""
    try:
        signature = inspect.signature(controller)
    except (TypeError, ValueError):  # a built-in function does not say
        return set()
    expected = set(signature.parameters) & {"sensors", "memory"}
    try:
        signature.bind(None, None, None, **dict.fromkeys(expected))
    except TypeError as error:
        raise ModelError(
            "simulate: a controller is called with (q, v, t), and with sensors= and memory= where it has "
            f"these: {error}"
        ) from None
    return expected


def _controller_control(
    model: Model, controller: Any, policy: Policy | None, inputs: Mapping[str, Any] | None
) -> tuple[Control, Arrays]:
    if policy is not None:
        if controller is not None or not callable(policy):
            raise ModelError("simulate: expected either controller= or policy=, a function (q, v, t, inputs)")
        arrays = dict(inputs or {})
        shapes = {name: np.shape(x) if np.ndim(x) < 2 else np.shape(x)[-1:] for name, x in arrays.items()}
        return policy_control(model, policy, shapes), {
            f"input_{name}": (x, shapes[name]) for name, x in arrays.items()
        }
    if inputs is not None:
        raise ModelError("simulate: inputs= requires policy=")
    if isinstance(controller, (PD, Controls)):
        return controller.control(model), controller.arrays(model)
    if callable(controller):
        return force_control(model), {}
    return force_control(model), {
        "tau": (np.zeros(model.nv) if controller is None else controller, (model.nv,))
    }


def _with_external(control: Control, external: External) -> Control:
    def force(model: Model, q: Any, v: Any, t: Any, inputs: Mapping[str, Any]) -> Any:
        return control.force(model, q, v, t, inputs) + external.traced(model, q, inputs["f_ext"])

    return Control(
        (control.key, "f_ext", external.frames), {**control.inputs, "f_ext": external.shape}, force
    )


def evaluate_control(
    model: Model,
    control: Control,
    q: np.ndarray,
    v: np.ndarray,
    t: Any,
    inputs: Mapping[str, np.ndarray],
    parameters: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return the forces of a control as numbers, (rows, nv), by a separate kernel."""
    names = tuple(parameters)
    key = ("forces", control.key, tuple(control.inputs.items()), names)
    kernel = model.cache.get(key)
    if kernel is None:
        kernel = model.cache[key] = build_on("cpu", None, lambda: control.program(model, names), "float64")
    arrays = (*(inputs[name] for name in control.inputs), *parameters.values())
    result: np.ndarray = kernel(q, v, np.asarray(t, dtype=float), *arrays)
    return result


def control_feedback(
    model: Model,
    control: Control | None,
    inputs: Mapping[str, np.ndarray],
    parameters: Mapping[str, np.ndarray],
) -> Feedback | None:
    """Return a function for the forces of a control at time 0 in states of one row; None without feedback."""
    if control is None or control.key == "tau":
        return None

    def forces(row: int, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        arrays = {
            name: np.broadcast_to(inputs[name][row], (len(q), *shape))
            for name, shape in control.inputs.items()
        }
        numbers = {name: np.broadcast_to(x[row], (len(q), *x.shape[1:])) for name, x in parameters.items()}
        return evaluate_control(model, control, q, v, np.zeros(len(q)), arrays, numbers)

    return forces


def as_rows(values: Any, batch: tuple[int, ...], row_shape: tuple[int, ...], whose: str) -> np.ndarray:
    """Return an array of all rows, or of each, as (rows, ...)."""
    return broadcast_forces(real_numbers("simulate", whose, values), batch, row_shape, whose, "simulate")
