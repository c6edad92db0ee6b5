"""What acts on a model in a simulation: a controller, and forces from outside; as part of a kernel, or as numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.inverse_dynamics import inverse_dynamics
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.kinematics import frame_jacobian
from linkwork.model import Model
from linkwork.parts.names import shown
from linkwork.runtime.build import build_on
from linkwork.simplify.trees import hinge_tree
from linkwork.simulate.control import PD, Control, Policy, given_forces, pd_control, traced_policy

Arrays = dict[str, tuple[Any, tuple[int, ...]]]  # with the shape of one state's
Reads = Callable[[], dict[str, np.ndarray]]  # what sensors say now


class External:
    """Forces from outside: on all bodies, (..., bodies, 6), or by the names of frames, each (..., 6) in the world's axes."""

    def __init__(self, model: Model, given: Any) -> None:
        self.frames = tuple(given) if isinstance(given, Mapping) else None
        self.values = list(given.values()) if isinstance(given, Mapping) else [given]
        for name in self.frames or ():
            model.frame(name)
        if self.frames == ():
            raise ModelError("simulate: f_ext names no frame")
        self.varies = any(map(callable, self.values))
        self.shape = (len(self.frames) if self.frames else len(model.bodies), 6)

    def numbers(self, t: float, batch: tuple[int, ...]) -> np.ndarray:
        """The forces at a time [s], (rows, frames or bodies, 6)."""
        own = self.shape if self.frames is None else (6,)
        found = [self._one(k, t, batch, own) for k in range(len(self.values))]
        return found[0] if self.frames is None else np.stack(found, axis=1)

    def _one(self, k: int, t: float, batch: tuple[int, ...], own: tuple[int, ...]) -> np.ndarray:
        value = self.values[k]
        whose = "f_ext" if self.frames is None else f"f_ext of {shown(self.frames[k])}"
        return as_rows(value(t) if callable(value) else value, batch, own, whose)

    def traced(self, model: Model, q: Any, given: Any) -> Any:
        """The joint forces that do the same, (nv,), over symbols."""
        if self.frames is None:
            nodes = hinge_tree(model.weightless(), q, None, given)
            return -inverse_dynamics(nodes, np.zeros(model.nv), passive=False)
        J = frame_jacobian(model, q, frame=self.frames, reference="world_aligned")
        return sum(J[k].T @ given[k] for k in range(len(self.frames)))


class Drive:
    """A controller and forces from outside, for rows of states.

    `control` is what both do inside of a kernel. `sampled`: something is asked in Python at every step.
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
            raise ModelError("simulate: memory= is for a controller with an argument of that name, which returns (tau, memory)")
        self._own, self.arrays = _own_control(model, controller, policy, inputs)
        self._external = None if f_ext is None else External(model, f_ext)
        self.control = self._own if self._external is None else _with_external(self._own, self._external)
        self.sampled = self._ask is not None or (self._external is not None and self._external.varies)
        self.only_joint_forces = self._own.key == "tau" and self._external is None
        self.asks_velocities = self._own.key != "tau"  # at every stage of a step
        self.batch: tuple[int, ...] = ()
        self._rows: dict[str, np.ndarray] = {}

    def settle(self, batch: tuple[int, ...], rows: dict[str, np.ndarray]) -> None:
        """Say which batch it is, and give the rows of `arrays`."""
        self.batch, self._rows = batch, {name: rows[name] for name in self.arrays}
        if self._external is not None and not self._external.varies:
            self._rows["f_ext"] = self._external.numbers(0.0, batch)

    def inputs(self, q: np.ndarray, v: np.ndarray, t: float, reads: Reads, memory: Any) -> tuple[dict[str, np.ndarray], Any]:
        """The kernel's inputs for a step from states at a time, arrays of rows, and the controller's next memory."""
        found = dict(self._rows)
        if self._external is not None and self._external.varies:
            found["f_ext"] = self._external.numbers(t, self.batch)
        if self._ask is not None:
            found["tau"], memory = self._asked(q, v, t, reads, memory)
        return {name: found[name] for name in self.control.inputs}, memory

    def _asked(self, q: np.ndarray, v: np.ndarray, t: float, reads: Reads, memory: Any) -> tuple[np.ndarray, Any]:
        assert self._ask is not None
        more: dict[str, Any] = {"sensors": reads()} if "sensors" in self._wants else {}
        states = (x.reshape(*self.batch, x.shape[1]).copy() for x in (q, v))
        if "memory" not in self._wants:
            said = self._ask(*states, t, **more)
        else:
            answer = self._ask(*states, t, memory=memory, **more)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise ModelError("simulate: a controller with memory returns (tau, memory)")
            said, memory = answer
        return as_rows(said, self.batch, (self.model.nv,), "what the controller returns"), memory

    def forces(self, q: np.ndarray, v: np.ndarray, t: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The controller's joint forces in states at a time, (rows, nv)."""
        if self._own.key == "tau":
            return inputs["tau"]
        return evaluated(self.model, self._own, q, v, t, inputs)

    def all_forces(self, q: np.ndarray, v: np.ndarray, t: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The same with forces from outside."""
        return self.forces(q, v, t, inputs) if self._external is None else evaluated(self.model, self.control, q, v, t, inputs)


def _arguments(controller: Any) -> set[str]:
    """Which of "sensors" and "memory" a controller asks for; ModelError where it cannot be called with (q, v, t) besides."""
    try:
        signature = inspect.signature(controller)
    except (TypeError, ValueError):  # a built-in function does not say
        return set()
    wanted = set(signature.parameters) & {"sensors", "memory"}
    try:
        signature.bind(None, None, None, **dict.fromkeys(wanted))
    except TypeError as error:
        raise ModelError(
            f"simulate: a controller is called with (q, v, t), and with sensors= and memory= where it has these: {error}"
        ) from None
    return wanted


def _own_control(
    model: Model, controller: Any, policy: Policy | None, inputs: Mapping[str, Any] | None
) -> tuple[Control, Arrays]:
    if policy is not None:
        if controller is not None or not callable(policy):
            raise ModelError("simulate: give either controller= or policy=, and policy= a function (q, v, t, inputs)")
        given = dict(inputs or {})
        shapes = {name: np.shape(x) if np.ndim(x) < 2 else np.shape(x)[-1:] for name, x in given.items()}
        return traced_policy(model, policy, shapes), {f"input_{name}": (x, shapes[name]) for name, x in given.items()}
    if inputs is not None:
        raise ModelError("simulate: inputs= are for policy=, which is not given")
    if isinstance(controller, PD):
        return pd_control(model), controller.arrays(model)
    if callable(controller):
        return given_forces(model), {}
    return given_forces(model), {"tau": (np.zeros(model.nv) if controller is None else controller, (model.nv,))}


def _with_external(own: Control, external: External) -> Control:
    def force(model: Model, q: Any, v: Any, t: Any, given: Mapping[str, Any]) -> Any:
        return own.force(model, q, v, t, given) + external.traced(model, q, given["f_ext"])

    return Control((own.key, "f_ext", external.frames), {**own.inputs, "f_ext": external.shape}, force)


def evaluated(
    model: Model, control: Control, q: np.ndarray, v: np.ndarray, t: Any, inputs: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Forces of a control as numbers, (rows, nv), by a kernel of its own."""
    key = ("forces", control.key, tuple(control.inputs.items()))
    kernel = model.memory.get(key)
    if kernel is None:
        kernel = model.memory[key] = build_on("cpu", None, lambda: control.program(model), "float64")
    found: np.ndarray = kernel(q, v, np.asarray(t, dtype=float), *(inputs[name] for name in control.inputs))
    return found


def as_rows(given: Any, batch: tuple[int, ...], own: tuple[int, ...], whose: str) -> np.ndarray:
    """An array of all rows, or of each, as (rows, ...)."""
    try:
        x = np.asarray(given, dtype=float)
        if x.shape == (*batch, *own):
            return x.reshape(-1, *own)
        if x.shape[max(x.ndim - len(own), 0) :] != own:
            raise ValueError
        return np.broadcast_to(x, (*batch, *own)).reshape(-1, *own)
    except (ValueError, TypeError):
        wanted = ", ".join(map(str, (*batch, *own)))
        raise ShapeError(f"simulate: {whose} has shape {np.shape(given)}, which does not go with ({wanted})") from None
