"""Rollouts: many states of one model stepped through time, each in coordinates that are good where it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms import contact_rows
from linkwork.contact import Contacts, chosen_contacts
from linkwork.errors import ModelError, ShapeError
from linkwork.functions.call_arguments import place_of
from linkwork.functions.compile import check_dtype
from linkwork.model import Model
from linkwork.model.parameters import known, shape_of
from linkwork.simulate.adaptive import Adaptive
from linkwork.simulate.charts import Charts
from linkwork.simulate.control import PD, Control, Policy, given_forces, pd_control, traced_policy
from linkwork.simulate.driving import evaluated
from linkwork.simulate.in_chart import STEPS, chart_kernel, roll_out_loops
from linkwork.simulate.integrators import INTEGRATORS, in_parts, integrator_of
from linkwork.simulate.midpoint import check_midpoint
from linkwork.simulate.numbers import real_numbers, tells_too_little_memory
from linkwork.simulate.one_kernel import kernel_for, roll_out
from linkwork.simulate.status import Status
from linkwork.simulate.stepping import CLOSED_AT_START, Stepping
from linkwork.simulate.stiffness import implicit_parameters
from linkwork.simulate.stopped import (
    CLOSED_IN_SINGLE,
    WENT_ON,
    earlier_status,
    open_at_start,
    status_of_stopped,
    told_stiff,
    went_on,
)
from linkwork.simulate.traced import CARRIED, COEFFICIENTS, check_moves, taken_coefficients

IMPLICIT = "linearly_implicit_euler"  # semi-implicit Euler with other armatures and dampings


class _Arrays(NamedTuple):
    q: np.ndarray
    v: np.ndarray
    status: np.ndarray


class Rollout(_Arrays):
    """The arrays q, (..., n, nq), v, (..., n, nv), and status, (...), whose numbers are those of `Status`.

    `steps`, (...), is how many steps each row took: all of them, or those before it had to stop. With contacts, `impulses`,
    (..., impulses), are those of the last step, `residual`, (...), the largest violation of any law of contact in any step
    [m/s or rad/s], and `iterations`, (...), the most that a step needed.
    """

    steps: np.ndarray
    impulses: Any
    residual: Any
    iterations: Any


@tells_too_little_memory
def rollout(
    model: Model,
    q: Any,
    v: Any,
    tau: Any = None,
    *,
    dt: float,
    steps: int,
    integrator: str = "semi_implicit_euler",
    rtol: float | None = None,
    atol: float | None = None,
    every: int = 1,
    parameters: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    inputs: Mapping[str, Any] | None = None,
    contacts: Contacts | None = None,
    warm_start: Any = None,
    status: Any = None,
    dtype: str | None = None,
    with_device: str | None = None,
) -> Rollout:
    """The motion from states q, (..., nq), and v, (..., nv), in so many `steps` of `dt` [s]: q, v and a status for each row.

    q has shape (..., n, nq) and v (..., n, nv), with n = steps // every + 1: row k is the state after k * every steps, row 0
    the start. `tau` are joint forces at the model's independent joints: None for zero, (..., nv), constant over each step as
    (..., steps, nv), which has one dimension more than the states, or a function tau(q, v, t) that takes all states, is called
    at every stage of a step and returns (..., nv). It may also be `lw.PD(kp, kd, q_target)`.

    `policy(q, v, t, inputs)` gives the forces of one state and is traced, so that it becomes part of the kernel; `inputs` are
    arrays by name that it gets, (..., anything), of each row or of all: matrices of the policy go flat. It is called once for a
    model: numbers that it takes from elsewhere stay as they were then, and those that change must be inputs.

    "semi_implicit_euler" is v' = v + dt a(q, v, tau), q' = integrate(q, dt v'), of order 1. "rk4" is the classical method of
    Runge and Kutta, of order 4, on q̇ and v̇, in the coordinates q (quaternions are scaled to length 1 after each step); its
    stages need not be closed, each step's end is.

    "implicit_midpoint" is the midpoint rule as a variational integrator, of order 2 and symplectic: energy neither grows nor
    fades over long times. Forces are those in the middle of a step. Loops must be embedded. "rk45" divides every step as its
    error asks for, in each row on its own (Dormand and Prince, of order 5): no coordinate or velocity misses by more than
    `atol` (1e-9) + `rtol` (1e-6) times its size in any part of it, by estimate; t of tau(q, v, t) is then an array (...).

    "linearly_implicit_euler" is semi-implicit Euler with springs and dampers of joints at the step's end, linearised:
    stable for steps of any length where these are stiff, and it takes energy out of fast modes.

    Where the model's independent velocities turn bad coordinates in a row, as at a turning point of their joint, others are
    chosen for that row, from its state alone; v is always that of the model's own, and tau acts at their joints. Where the
    mechanism itself is singular, or a row cannot go on, its `Status` says why, the result's attribute `steps` when, and later
    rows of its trajectory are NaN. Within some steps of such a state, a step is compared with finer ones: it is passed, on the
    same branch, where they agree as well as the integrator can, and where they do not the row stops before it, as
    `Status.DEAD_POINT`. Force-held loops are closed after every step, and velocities projected onto those that keep them
    closed, in the kinetic-energy metric. A row that stops where its joints' springs and dampers make such a step unstable is
    `Status.STIFF`.

    `contacts` (`lw.Contacts(...)`): each step is that of `lw.step`, with contact, friction and limits of joints, begun with the
    impulses of the step before; `warm_start`, (..., impulses), are those before the first. A row in which the contact problem
    was not solved within the tolerance goes on, and is `Status.CONTACT_NOT_CONVERGED` at the end. Loops stay closed in the
    model's own coordinates; a row stops some ten steps before these turn singular. "contact_friction" and
    "contact_restitution", (..., candidates), among `parameters` are coefficients of each row's own.

    `status`, (...), is that of an earlier rollout whose last states these are: rows that had stopped take no step and keep
    their status, and one that is `Status.CONTACT_NOT_CONVERGED` stays so.

    Unless tau is a function, steps are taken inside of one kernel, with the same bits for any number of steps in a call and
    whether forces are constant or given for each step. `lw.step` has these bits for trees (v + dt a is rounded once there, in
    NumPy twice); with parameters or gears it agrees to rounding, since here what no step changes is computed once. A row
    of a mechanism with loops leaves the kernel for those steps in which it needs other coordinates than the model's own. On
    a GPU (`with_device="cuda"`, or arrays that lie there) everything is: loops stay closed in the model's own coordinates, and
    a row stops where these are about to turn singular. There a result has arrays of the library that the states came in.

    `dtype` is "float64", or "float32" for steps in single precision, as a GPU takes them and with its bits; by default that of
    arrays that lie on a GPU, and float64 on the CPU.
    """
    _check(model, dt, steps, every, integrator)
    if not isinstance(parameters or {}, Mapping):
        raise ModelError(f"rollout: parameters= must be a dict of arrays by name, not {type(parameters).__name__}")
    method = _method(model, integrator, rtol, atol)
    if integrator == IMPLICIT:
        parameters = implicit_parameters(model, parameters or {}, dt)
    control, driven = _control(model, tau, policy, inputs)
    if contacts is not None:
        contacts = contacts_in_rollout(model, contacts, control, integrator)
    elif warm_start is not None:
        raise ModelError("rollout: warm_start= are impulses of contacts=, which is not given")
    named = {name: x for name, x in (("with_device", with_device), ("dtype", dtype)) if x is not None}
    device, dtype = place_of("rollout", named, (q, v, tau))
    check_dtype(dtype)
    _check_counts(dt, steps, dtype)
    if control is None and (device == "cuda" or dtype != "float64"):
        where = "on a GPU" if device == "cuda" else f"in {dtype}"
        raise ModelError(f"rollout: {where} tau cannot be a function that is called in Python: give policy=, which is traced")
    how: dict[str, Any] = {"dt": dt, "steps": steps, "every": every, "integrator": method, "dtype": dtype, "contacts": contacts}
    if device == "cuda":
        from linkwork.simulate.on_gpu import rollout_on_gpu

        how |= {"warm_start": warm_start, "earlier": status}
        assert control is not None
        found = rollout_on_gpu(model, q, v, tau, control, driven, dict(parameters or {}), **how)
        result = Rollout(*found[:3])
        result.steps = found[3]
        return _with_contact(result, found[4])
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {"q": (q, (model.nq,)), "v": (v, (model.nv,))}
    numbers = dict(parameters or {})
    own = taken_coefficients(numbers, contacts, "rollout")
    arrays |= {name: (numbers[name], shape_of(model, name)) for name in known(model, numbers)}
    if contacts is not None and own:
        arrays |= {name: (x, (len(contacts.candidates(model)),)) for name, x in own.items()}
    arrays |= driven
    if contacts is not None and (m := contact_rows.count(model, contacts)):
        arrays["warm_start"] = (np.zeros(m) if warm_start is None else warm_start, (m,))
    batch, rows = _rows(arrays)
    q0, v0, earlier = rows.pop("q"), rows.pop("v"), earlier_status(status, batch)
    ruled = policy is not None or isinstance(tau, PD)
    steady = not model.loops or (ruled and not Charts(model).moving)  # the model's own coordinates are good everywhere
    if control is not None and (steady or contacts is not None or dtype != "float64"):
        return _in_one_kernel(model, control, batch, q0, v0, rows, tau, names=(*own, *numbers), earlier=earlier, **how)
    given = {name: rows.pop(name) for name in driven}
    step, largest, agree = integrator_of(method)
    going = np.isin(earlier, WENT_ON)
    stepping = Stepping(model, np.where(going[:, None], q0, np.nan), v0, rows, largest)
    forces = _Driven(control, given, stepping, dt) if control and ruled else _Forces(model, tau, batch, steps, dt)
    began = stepping.active

    def take() -> None:
        with np.errstate(invalid="ignore", over="ignore"):  # a status tells of what is not finite
            stepping.take(in_parts(step, forces, dt), dt, agree)

    kernel = None if control is None or method not in STEPS else chart_kernel(model, control, str(method), tuple(rows))
    each = kernel is None or forces.differ
    found_q, found_v = roll_out_loops(stepping, kernel, forces, take, rows, dt=dt, steps=steps, every=every, each=each)
    found_q[:, 0], found_v[:, 0] = q0, v0
    ended = told_stiff(model, stepping.status, began, (q0, stepping.q), rows, dt, method)
    result = Rollout(*(x.reshape((*batch, *x.shape[1:])) for x in (found_q, found_v, went_on(earlier, ended))))
    result.steps = stepping.steps.reshape(batch)
    return result


def _control(
    model: Model, tau: Any, policy: Policy | None, inputs: Mapping[str, Any] | None
) -> tuple[Control | None, dict[str, tuple[Any, tuple[int, ...]]]]:
    """What controls a rollout inside of a kernel, None if nothing can, and its arrays with the shapes of one state's."""
    if policy is None and inputs is not None:
        raise ModelError("rollout: inputs= are for policy=, which is not given")
    if policy is not None:
        if tau is not None or not callable(policy):
            raise ModelError("rollout: give either tau or policy=, and policy= a function (q, v, t, inputs)")
        if not isinstance(inputs or {}, Mapping):
            raise ModelError(f"rollout: inputs= must be a dict of arrays by name, not {type(inputs).__name__}")
        given = {
            name: x if hasattr(x, "shape") else real_numbers("rollout", f"input {name}", x)
            for name, x in (inputs or {}).items()
        }
        shapes = {name: np.shape(x) if np.ndim(x) < 2 else np.shape(x)[-1:] for name, x in given.items()}
        control = traced_policy(model, policy, shapes)
        return control, {f"input_{name}": (x, shapes[name]) for name, x in given.items()}
    if isinstance(tau, PD):
        return pd_control(model), tau.arrays(model)
    return (None if callable(tau) else given_forces(model)), {}


def _in_one_kernel(
    model: Model, control: Control, batch: tuple[int, ...], q: np.ndarray, v: np.ndarray, rows: dict[str, np.ndarray], tau: Any,
    *, dt: float, steps: int, every: int, integrator: str | Adaptive, names: tuple[str, ...], contacts: Contacts | None,
    earlier: np.ndarray, dtype: str,
) -> Rollout:  # fmt: skip
    """The rollout by a kernel that takes the steps itself; see `one_kernel`."""
    inputs = {name: rows[name] for name in (*control.inputs, *names) if name in rows}
    each = None
    if "tau" in control.inputs:
        forces = _Forces(model, tau, batch, steps, dt)
        each = forces._given if forces._each else None
        inputs = {"tau": forces._given[:, 0] if forces._each and steps else forces._given, **inputs}
    kernel = kernel_for(model, control, integrator, names, target="cpu", dtype=dtype, contacts=contacts)
    carried = None
    if contacts is not None:
        carried = np.pad(rows.get("warm_start", np.zeros((len(q), 0))), ((0, 0), (0, len(CARRIED))))
    numbers = {name: rows[name] for name in names if name not in COEFFICIENTS}
    within = CLOSED_AT_START if dtype == "float64" else CLOSED_IN_SINGLE
    unclosed, going = open_at_start(model, q, numbers, within), np.isin(earlier, WENT_ON)
    first = np.where((unclosed | ~going)[:, None], np.nan, q)  # these take no step
    found = roll_out(kernel, (first, v), inputs, each, dt=dt, steps=steps, every=every, carried=carried)
    found[0][:, 0] = q
    status = np.full(len(q), int(Status.OK))
    bad = ~np.isfinite(np.column_stack([q, v])).all(axis=1)
    stopped = np.flatnonzero(((found[2] != steps) | unclosed | bad) & going)
    start, last = ((x[0][stopped].astype(float), x[1][stopped].astype(float)) for x in ((q, v), found[4]))
    solved = np.zeros(len(stopped), dtype=bool) if found[3] is None else np.isfinite(found[3][stopped]).all(axis=1)
    here = {name: x[stopped] for name, x in numbers.items()}
    status[stopped] = status_of_stopped(model, start, last, unclosed[stopped], solved, dt, integrator, here)
    if found[3] is not None:
        status[(found[3][:, -1] > 0.0) & (status == int(Status.OK))] = int(Status.CONTACT_NOT_CONVERGED)
    status = went_on(earlier, status)
    result = Rollout(*(x.reshape((*batch, *x.shape[1:])) for x in (found[0], found[1], status)))
    result.steps = found[2].reshape(batch)
    return _with_contact(result, None if found[3] is None else found[3].reshape((*batch, -1)))


def _with_contact(result: Rollout, carried: Any) -> Rollout:
    """The result with what steps with contact carried, (..., impulses and `CARRIED`)."""
    if carried is not None:
        result.impulses, result.residual = carried[..., : -len(CARRIED)], carried[..., -len(CARRIED)]
        result.iterations = carried[..., 1 - len(CARRIED)]
    return result


def contacts_in_rollout(model: Model, contacts: Any, control: Control | None, integrator: str) -> Contacts:
    """The contacts of a rollout in normal form."""
    if control is None:
        raise ModelError(
            "rollout: with contacts= tau cannot be a function that is called in Python: give policy=, which is traced, or let "
            "lw.simulate call it as controller="
        )
    if integrator != "semi_implicit_euler":
        raise ModelError(f"rollout: with contacts= the integrator is semi_implicit_euler, not {integrator!r}")
    chosen: Contacts = chosen_contacts(model, contacts)["contacts"]
    return chosen


def _check(model: Any, dt: Any, steps: Any, every: Any, integrator: Any) -> None:
    if not isinstance(model, Model):
        raise ModelError(f"rollout takes a model, not {type(model).__name__}")
    check_moves(model, "rollout")
    known = (*INTEGRATORS, "rk45", IMPLICIT)
    if integrator not in known:
        raise ModelError(f"rollout: integrator must be one of {', '.join(known)}, not {integrator!r}")
    for name, value, least in (("steps", steps, 0), ("every", every, 1)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ModelError(f"rollout: {name} must be a whole number, at least {least}, not {value!r}")
    if not isinstance(dt, (int, float, np.floating)) or isinstance(dt, bool) or not (np.isfinite(dt) and dt > 0.0):
        raise ModelError(f"rollout: dt must be a positive number of seconds, not {dt!r}")


def _check_counts(dt: float, steps: int, dtype: str) -> None:
    """Refuse what numbers of the dtype cannot count."""
    most = round(2.0 / np.finfo(dtype).eps)
    if steps > most:
        raise ModelError(f"rollout: in {dtype} one call takes at most {most} steps, not {steps}: go on in further calls")
    if not float(np.finfo(dtype).smallest_subnormal) <= dt <= float(np.finfo(dtype).max):
        raise ModelError(f"rollout: a dt of {dt!r} seconds is no positive number in {dtype}")


def _method(model: Model, integrator: str, rtol: Any, atol: Any, who: str = "rollout") -> str | Adaptive:
    """What takes the steps: the name of an integrator, or adaptive steps with their tolerances."""
    given = {name: x for name, x in (("rtol", rtol), ("atol", atol)) if x is not None}
    if given and integrator != "rk45":
        raise ModelError(f"{who}: {next(iter(given))}= is for integrator='rk45', not for {integrator!r}")
    for name, x in given.items():
        if isinstance(x, bool) or not isinstance(x, (int, float, np.floating)) or not (np.isfinite(x) and x >= 1e-14):
            raise ModelError(f"{who}: {name} must be a number, at least 1e-14, not {x!r}")
    if integrator == "rk45":
        return Adaptive(**{name: float(x) for name, x in given.items()})
    if integrator == "implicit_midpoint":
        check_midpoint(model)
    return "semi_implicit_euler" if integrator == IMPLICIT else integrator


class _Driven:
    """Joint forces of PD control or of a policy, with the arrays `given` to it."""

    asks_states, differ, step = True, False, 0

    def __init__(self, control: Control, given: dict[str, np.ndarray], rows: Stepping, dt: float) -> None:
        self._control, self._given, self._rows, self._dt = control, given, rows, dt

    def inputs(self) -> dict[str, np.ndarray]:
        return self._given

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        return evaluated(self._rows.model, self._control, q, v, (self._rows.steps + part) * self._dt, self._given)


class _Forces:
    """Joint forces in one `step` after another, of whatever was given as tau."""

    def __init__(self, model: Model, tau: Any, batch: tuple[int, ...], steps: int, dt: float) -> None:
        self.asks_states, self.step, self.differ = callable(tau), 0, callable(tau)  # differ: from step to step
        self._tau, self._batch, self._nv, self._dt, self._warnings = tau, batch, model.nv, dt, np.geterr()
        if self.asks_states:
            return
        given = np.zeros(model.nv) if tau is None else real_numbers("rollout", "tau", tau)
        self._each = self.differ = given.ndim == len(batch) + 2
        own = (steps, model.nv) if self._each else (model.nv,)
        self._given = _as_rows(given, batch, own, "tau has shape")

    def inputs(self) -> dict[str, np.ndarray]:
        """Those of a kernel in the step that is told."""
        return {"tau": self._given[:, self.step] if self._each else self._given}

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        if not self.asks_states:
            return self.inputs()["tau"]
        states = q.reshape(*self._batch, -1).copy(), v.reshape(*self._batch, self._nv).copy()
        t = (self.step + part) * self._dt
        with np.errstate(**self._warnings):
            said = self._tau(*states, t.reshape(self._batch) if isinstance(t, np.ndarray) else t)
        said = real_numbers("rollout", "what tau(q, v, t) returns", said)
        return _as_rows(said, self._batch, (self._nv,), "what tau(q, v, t) returns has shape")


def _as_rows(tau: np.ndarray, batch: tuple[int, ...], own: tuple[int, ...], told: str) -> np.ndarray:
    try:
        if tau.shape[-len(own) :] != own:
            raise ValueError
        return np.broadcast_to(tau, (*batch, *own)).reshape(-1, *own)
    except ValueError:
        raise ShapeError(f"rollout: {told} {tau.shape}, which does not go with {(*batch, *own)}") from None


def _rows(
    arrays: Mapping[str, tuple[Any, tuple[int, ...]]], who: str = "rollout"
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """The common leading dimensions of arrays that have certain last ones, and the arrays as (rows, ...)."""
    given: dict[str, np.ndarray] = {}
    batch: tuple[int, ...] = ()
    for name, (value, own) in arrays.items():
        x = given[name] = real_numbers(who, name, value)
        leading = x.shape[: max(x.ndim - len(own), 0)]
        if x.shape[len(leading) :] != own:
            raise ShapeError(f"{who}: {name} has shape {x.shape}, not (..., {', '.join(map(str, own))})")
        try:
            batch = np.broadcast_shapes(batch, leading)
        except ValueError:
            before = ", ".join(given)
            raise ShapeError(f"{who}: the leading dimensions of {before} do not go together: {leading} and {batch}") from None
    return batch, {
        name: np.broadcast_to(x, (*batch, *arrays[name][1])).reshape(math.prod(batch), *arrays[name][1])
        for name, x in given.items()
    }
