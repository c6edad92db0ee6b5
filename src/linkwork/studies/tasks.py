"""Tasks, computed for every sample of a study: rollouts, or functions of the model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.contact import Contacts
from linkwork.errors import StudyError
from linkwork.functions.engine.call_arguments import on_host, shape_of
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model
from linkwork.simulation.actuators import Controls
from linkwork.simulation.closedness import open_rows
from linkwork.simulation.control import PD
from linkwork.simulation.rollout import rollout
from linkwork.simulation.status import Status
from linkwork.studies.quantities import Arguments, Quantity

_ARGUMENTS = inspect.signature(rollout).parameters

DRIVERS = (PD, Controls)  # accepted as tau besides numbers


class TaskResult(NamedTuple):
    """Result of a task for a batch: status and steps, (rows,), and a motion or arrays by name."""

    status: np.ndarray
    steps: np.ndarray
    motion: Any
    results: Mapping[str, np.ndarray]


class Task:
    """Computation that a study runs for every sample."""

    def quantities(self, model: Model) -> dict[str, tuple[int, ...]]:
        """Return the arrays that it takes, with the shape of one sample's."""
        raise NotImplementedError

    def start(self, model: Model) -> dict[str, np.ndarray]:
        """Return the arrays of samples in which they do not vary."""
        raise NotImplementedError

    def steps_of_forces(self) -> int | None:
        """Return how many joint forces one sample may have over time."""
        return None

    def nominal_of_pd(self, model: Model, field_name: str) -> np.ndarray:
        """Return the task's own value of a field of `lw.PD`."""
        raise StudyError("study: pd@... varies the lw.PD of a rollout's tau; pass one as tau=")

    def control(self, model: Model) -> Quantity:
        """Return the controls of the task's actuators."""
        raise StudyError("study: control varies the lw.Controls of a rollout's tau; pass one as tau=")

    def contact_coefficient(self, model: Model, name: str) -> Quantity:
        """Return the shape of a coefficient of contact."""
        raise StudyError(
            f"study: {name} varies contact coefficients of a rollout with contacts=, which is not given"
        )

    def run(
        self, model: Model, arguments: Arguments, rows: int, *, record_every: int | None = None
    ) -> TaskResult:
        """Compute a batch."""
        raise NotImplementedError


@final
@dataclass(frozen=True, eq=False)
class RolloutTask(Task):
    """A rollout of every sample, by `linkwork.rollout`.

    Parameters
    ----------
    dt : float
        Step [s].
    steps : int
        Steps of each rollout.
    q, v : array_like, optional
        The start of samples in which it does not vary, (nq,) and (nv,). Default: the neutral state at rest.
    tau : array_like, PD or Controls, optional
        Joint forces: (nv,), (steps, nv), `lw.PD`, or `lw.Controls` of actuators.
    policy, inputs : optional
        As in `linkwork.rollout`: traced control, and its arrays.
    integrator : str
        As in `linkwork.rollout`.
    contacts : Contacts, optional
        As in `linkwork.rollout`.
    record_every : int, optional
        Steps between the states that outputs see. Default: start and end only.
    dtype, device : str, optional
        As in `linkwork.rollout`.
    options : dict, optional
        Further arguments of `linkwork.rollout`, such as ``{"limits": False}``.
    """

    dt: float
    steps: int
    q: Any = None
    v: Any = None
    tau: Any = None
    policy: Any = None
    inputs: Mapping[str, Any] | None = None
    integrator: str = "semi_implicit_euler"
    contacts: Contacts | None = None
    record_every: int | None = None
    dtype: str | None = None
    device: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.options:
            if name not in _ARGUMENTS or name in (
                *self.__dataclass_fields__,
                "model",
                "parameters",
                "status",
            ):
                raise StudyError(
                    f"RolloutTask: options: expected further arguments of lw.rollout, got {name!r}"
                )
        if callable(self.tau):
            raise StudyError(
                "RolloutTask: tau: expected joint forces or lw.PD, got a function; give policy=, which is "
                "traced"
            )
        for name, least in (("steps", 1), ("record_every", 1)):
            value = getattr(self, name)
            if value is None and name == "record_every":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise StudyError(f"RolloutTask: {name}: expected an integer >= {least}, got {value!r}")

    def quantities(self, model: Model) -> dict[str, tuple[int, ...]]:
        result: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,), "dq": (model.nv,)}
        return result | (
            {} if self.policy is not None or isinstance(self.tau, DRIVERS) else {"tau": (model.nv,)}
        )

    def start(self, model: Model) -> dict[str, np.ndarray]:
        result = {
            "q": model.neutral() if self.q is None else np.asarray(self.q, dtype=float),
            "v": np.zeros(model.nv) if self.v is None else np.asarray(self.v, dtype=float),
        }
        for name, size in (("q", model.nq), ("v", model.nv)):
            if result[name].shape != (size,):
                raise StudyError(f"RolloutTask: {name}: expected shape ({size},), got {result[name].shape}")
        if self.tau is not None and not isinstance(self.tau, DRIVERS):
            result["tau"] = np.asarray(self.tau, dtype=float)
        return result

    def steps_of_forces(self) -> int | None:
        return self.steps

    def nominal_of_pd(self, model: Model, field_name: str) -> np.ndarray:
        if not isinstance(self.tau, PD):
            return super().nominal_of_pd(model, field_name)
        size = model.nq if field_name == "q" else model.nv
        return np.array(np.broadcast_to(np.asarray(getattr(self.tau, field_name), dtype=float), (size,)))

    def control(self, model: Model) -> Quantity:
        if not isinstance(self.tau, Controls):
            return super().control(model)
        shape = next(iter(self.tau.arrays(model).values()))[1]
        return Quantity(shape, np.array(np.broadcast_to(np.asarray(self.tau.values, dtype=float), shape)))

    def contact_coefficient(self, model: Model, name: str) -> Quantity:
        if self.contacts is None:
            return super().contact_coefficient(model, name)
        return Quantity((len(self.contacts.candidates(model)),), None, minimum=0.0)

    def run(
        self, model: Model, arguments: Arguments, rows: int, *, record_every: int | None = None
    ) -> TaskResult:
        arrays = arguments.arrays
        how: dict[str, Any] = {
            "dt": self.dt,
            "steps": self.steps,
            "integrator": self.integrator,
            "record_every": record_every or self.record_every or self.steps,
        }
        if isinstance(self.tau, DRIVERS):
            changed: dict[str, Any] = arguments.pd
            how["tau"] = replace(self.tau, **changed)
        elif "tau" in arrays:
            how["tau"] = arrays["tau"]
        inputs = {**(self.inputs or {}), **arguments.inputs}
        optional = {
            "policy": self.policy,
            "inputs": inputs or None,
            "contacts": self.contacts,
            "dtype": self.dtype,
        }
        optional |= {**self.options, "device": self.device, "parameters": arguments.parameters or None}
        motion = rollout(
            model,
            arrays["q"],
            arrays["v"],
            **how,
            **{name: x for name, x in optional.items() if x is not None},
        )
        return TaskResult(
            np.asarray(motion.status, dtype=np.int64), np.asarray(on_host(motion.steps)), motion, {}
        )


@final
@dataclass(frozen=True, eq=False)
class FunctionTask(Task):
    """A function of the model in every sample, such as `lw.forward_dynamics`.

    Parameters
    ----------
    function : ModelFunction
        The function.
    arrays : dict, optional
        Its arrays in samples in which they do not vary. Default: the neutral configuration, and zeros.
    options : dict, optional
        Its options.

    Notes
    -----
    Results are the outputs "out", or "out0", "out1", ... A row with a number that is not finite has the
    status NOT_FINITE, and one whose configuration leaves loops open NOT_CLOSED.
    """

    function: Any
    arrays: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.function, ModelFunction):
            raise StudyError(f"FunctionTask: expected a function of a model, got {self.function!r}")
        unknown = [
            name for name in self.arrays if name not in (*self.function.required, *self.function.optional)
        ]
        if unknown:
            raise StudyError(f"FunctionTask: {self.function.__name__} has no array {unknown[0]!r}")

    def quantities(self, model: Model) -> dict[str, tuple[int, ...]]:
        settings = self.function.normalize_options(model, dict(self.options))
        names = (*self.function.required, *self.function.optional)
        result = {name: shape_of(self.function.shapes[name], model, settings) for name in names}
        return result | ({"dq": (model.nv,)} if "q" in result else {})

    def start(self, model: Model) -> dict[str, np.ndarray]:
        shapes = self.quantities(model)
        result = {name: np.zeros(shapes[name]) for name in self.function.required}
        if "q" in result:
            result["q"] = model.neutral()
        for name, value in self.arrays.items():
            result[name] = np.asarray(value, dtype=float)
            if result[name].shape != shapes[name]:
                raise StudyError(
                    f"FunctionTask: {name}: expected shape {shapes[name]}, got {result[name].shape}"
                )
        return result

    def run(
        self, model: Model, arguments: Arguments, rows: int, *, record_every: int | None = None
    ) -> TaskResult:
        named: dict[str, Any] = {"parameters": arguments.parameters} if arguments.parameters else {}
        result = self.function(model, **arguments.arrays, **named, **self.options)
        several = isinstance(result, tuple)
        results = {
            f"out{k}" if several else "out": np.asarray(x)
            for k, x in enumerate(result if several else (result,))
        }
        finite = np.ones(rows, dtype=bool)
        for x in results.values():
            finite &= np.isfinite(x.reshape(rows, -1)).all(axis=1)
        status = np.where(finite, int(Status.OK), int(Status.NOT_FINITE)).astype(np.int64)
        for name in self.function.closed_states:
            if name in arguments.arrays:
                opened = open_rows(model, np.asarray(arguments.arrays[name]), arguments.parameters)
                status[opened] = int(Status.NOT_CLOSED)
        return TaskResult(status, np.zeros(rows, dtype=np.int64), None, results)
