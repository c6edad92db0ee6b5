"""Arguments of rollouts and simulations: checks, normal forms and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.compiler.runtime.build import check_dtype
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.contact import Contacts, chosen_contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.engine.parameter_names import known, shape_of
from linkwork.model import Model
from linkwork.simulation.actuators import Controls
from linkwork.simulation.adaptive import Adaptive
from linkwork.simulation.control import PD, Control, Policy, force_control, policy_control
from linkwork.simulation.integrators import INTEGRATORS
from linkwork.simulation.midpoint import check_midpoint
from linkwork.simulation.numbers import real_numbers
from linkwork.simulation.rollout_problem import RolloutCall
from linkwork.simulation.traced import check_moves
from linkwork.sko import Tree

IMPLICIT = "linearly_implicit_euler"  # semi-implicit Euler with other armatures and dampings
MIN_TOLERANCE = 1e-14  # of adaptive steps


def rollout_control(
    model: Model, tau: Any, policy: Policy | None, inputs: Mapping[str, Any] | None
) -> tuple[Control | None, dict[str, tuple[Any, tuple[int, ...]]]]:
    """Return the control inside of a kernel, None for a Python function,
    and its arrays with shapes of a row.
    """
    if policy is None and inputs is not None:
        raise ModelError("rollout: inputs= requires policy=")
    if policy is not None:
        if tau is not None or not callable(policy):
            raise ModelError("rollout: expected either tau or policy=, a function (q, v, t, inputs)")
        if not isinstance(inputs or {}, Mapping):
            raise ModelError(
                f"rollout: inputs: expected a dict of arrays by name, got {type(inputs).__name__}"
            )
        arrays = {
            name: x if hasattr(x, "shape") else real_numbers("rollout", f"input {name}", x)
            for name, x in (inputs or {}).items()
        }
        shapes = {name: np.shape(x) if np.ndim(x) < 2 else np.shape(x)[-1:] for name, x in arrays.items()}
        control = policy_control(model, policy, shapes)
        return control, {f"input_{name}": (x, shapes[name]) for name, x in arrays.items()}
    if isinstance(tau, (PD, Controls)):
        return tau.control(model), tau.arrays(model)
    return (None if callable(tau) else force_control(model)), {}


def contacts_in_rollout(model: Model, contacts: Any, control: Control | None, integrator: str) -> Contacts:
    """Return the contacts of a rollout in normal form."""
    if control is None:
        raise ModelError(
            "rollout: with contacts= tau cannot be a function that is called in Python: give policy=, which "
            "is traced, or let lw.simulate call it as controller="
        )
    return normal_contacts("rollout", model, contacts, integrator)


def normal_contacts(caller: str, model: Model, contacts: Any, integrator: str) -> Contacts:
    """Return contacts in normal form; raise for integrators that cannot be combined with them."""
    if integrator != "semi_implicit_euler":
        raise ModelError(
            f"{caller}: integrator: expected 'semi_implicit_euler' with contacts=, got {integrator!r}"
        )
    normalized: Contacts = chosen_contacts(model, contacts)["contacts"]
    return normalized


def check_arguments(
    model: Any, dt: Any, steps: Any, record_every: Any, integrator: Any, parameters: Any
) -> None:
    """Raise if the model, a count, the step, the integrator or the type of the parameters is invalid."""
    if not isinstance(model, (Model, Tree)):
        raise ModelError(f"rollout: expected a model, got {type(model).__name__}")
    check_moves(model, "rollout")
    check_integrator_name("rollout", integrator)
    for name, value, minimum in (("steps", steps, 0), ("record_every", record_every, 1)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < minimum:
            raise ModelError(f"rollout: {name}: expected an integer of at least {minimum}, got {value!r}")
    if not is_finite_number(dt) or not dt > 0.0:
        raise ModelError(f"rollout: dt: expected a positive number of seconds, got {dt!r}")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ModelError(
            f"rollout: parameters: expected a dict of arrays by name, got {type(parameters).__name__}"
        )


def check_integrator_name(caller: str, integrator: Any) -> None:
    """Raise if the integrator is unknown."""
    names = (*INTEGRATORS, "rk45", IMPLICIT)
    if integrator not in names:
        raise ModelError(f"{caller}: integrator: expected one of {', '.join(names)}, got {integrator!r}")


def is_finite_number(value: Any) -> bool:
    """Return whether a value is a finite real number of Python or NumPy, and not a bool."""
    is_number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    return bool(is_number and np.isfinite(value))


def check_tree(tree: Tree, integrator: str, is_function: bool, contacts: Contacts | None) -> None:
    """Raise if a rollout of a custom tree needs joints, shapes or a Python function at each step."""
    tree.integrate(np.zeros(tree.nq), np.zeros(tree.nv))  # raises where v is not dq/dt
    if contacts is not None:
        raise ModelError(f"rollout: {tree.name!r} is a custom tree and has no shapes for contacts=")
    if integrator in ("implicit_midpoint", IMPLICIT):
        raise ModelError(
            f"rollout: {tree.name!r} is a custom tree: expected semi_implicit_euler, rk4 or rk45, got "
            f"{integrator!r}"
        )
    if is_function:
        raise ModelError(
            f"rollout: {tree.name!r} is a custom tree, whose steps are one kernel: expected forces or "
            "policy=, got a function that is called in Python"
        )


def check_device(model: Model | Tree, control: Control | None, device: str, dtype: str) -> None:
    """Raise if the device or the dtype is invalid, or does not support the model or forces of a function."""
    check_dtype(dtype)
    if isinstance(model, Tree) and device == "cuda":
        raise ModelError(f"rollout: {model.name!r} is a custom tree, which runs on the CPU; omit device=")
    if control is None and (device == "cuda" or dtype != "float64"):
        where = "on a GPU" if device == "cuda" else f"in {dtype}"
        raise ModelError(
            f"rollout: {where} tau cannot be a function that is called in Python: give policy=, which is "
            "traced"
        )


def check_counts(dt: float, steps: int, dtype: str) -> None:
    """Raise if `steps` or `dt` overflows the dtype."""
    max_steps = round(2.0 / np.finfo(dtype).eps)
    if steps > max_steps:
        raise ModelError(
            f"rollout: steps: expected at most {max_steps} in one call in {dtype}, got {steps}: continue in "
            "further calls"
        )
    if not float(np.finfo(dtype).smallest_subnormal) <= float(dt) <= float(np.finfo(dtype).max):
        raise ModelError(f"rollout: dt: expected a positive number of seconds in {dtype}, got {dt!r}")


def integration_method(
    model: Model, integrator: str, rtol: Any, atol: Any, caller: str = "rollout"
) -> str | Adaptive:
    """Return the name of the integrator, or adaptive steps with their tolerances."""
    tolerances = {name: x for name, x in (("rtol", rtol), ("atol", atol)) if x is not None}
    if tolerances and integrator != "rk45":
        name = next(iter(tolerances))
        raise ModelError(f"{caller}: {name}= is for integrator='rk45', not for {integrator!r}")
    for name, x in tolerances.items():
        if not is_finite_number(x) or x < MIN_TOLERANCE:
            raise ModelError(f"{caller}: {name}: expected a number of at least {MIN_TOLERANCE}, got {x!r}")
    if integrator == "rk45":
        return Adaptive(**{name: float(x) for name, x in tolerances.items()})
    if integrator == "implicit_midpoint":
        check_midpoint(model)
    return "semi_implicit_euler" if integrator == IMPLICIT else integrator


def broadcast_forces(
    forces: np.ndarray,
    batch: tuple[int, ...],
    row_shape: tuple[int, ...],
    label: str,
    caller: str = "rollout",
) -> np.ndarray:
    """Return forces as (rows, *row_shape)."""
    try:
        if forces.shape[-len(row_shape) :] != row_shape:
            raise ValueError
        return np.broadcast_to(forces, (*batch, *row_shape)).reshape(-1, *row_shape)
    except ValueError as error:
        reraise_signal(error)
        raise ShapeError(
            f"{caller}: {label}: expected a shape that broadcasts to {(*batch, *row_shape)}, got shape "
            f"{forces.shape}"
        ) from None


def broadcast_arrays(
    arrays: Mapping[str, tuple[Any, tuple[int, ...]]], caller: str = "rollout"
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Return the common batch shape of arrays with given shapes of a row, and the arrays as (rows, ...)."""
    checked: dict[str, np.ndarray] = {}
    batch: tuple[int, ...] = ()
    for name, (value, row_shape) in arrays.items():
        x = checked[name] = real_numbers(caller, name, value)
        leading = x.shape[: max(x.ndim - len(row_shape), 0)]
        if x.shape[len(leading) :] != row_shape:
            expected = ", ".join(map(str, row_shape))
            raise ShapeError(f"{caller}: {name}: expected shape (..., {expected}), got shape {x.shape}")
        try:
            batch = np.broadcast_shapes(batch, leading)
        except ValueError as error:
            reraise_signal(error)
            names = ", ".join(checked)
            raise ShapeError(
                f"{caller}: the leading dimensions of {names} cannot be broadcast: {leading} and {batch}"
            ) from None
    rows = math.prod(batch)
    return batch, {
        name: np.broadcast_to(x, (*batch, *arrays[name][1])).reshape(rows, *arrays[name][1])
        for name, x in checked.items()
    }


def arrays_by_name(call: RolloutCall) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return all arrays of a rollout with the shape of one row."""
    model = call.model
    contacts = call.contacts
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (call.q, (model.nq,)), "v": (call.v, (model.nv,))}
    arrays |= {name: (call.parameters[name], shape_of(model, name)) for name in known(model, call.parameters)}
    if contacts is not None and call.coefficients:
        arrays |= {name: (x, (len(contacts.candidates(model)),)) for name, x in call.coefficients.items()}
    arrays |= call.control_arrays
    if contacts is not None and (count := contact_rows.count(model, contacts)):
        impulses = np.zeros(count) if call.warm_start is None else call.warm_start
        arrays["warm_start"] = (impulses, (count,))
    return arrays
