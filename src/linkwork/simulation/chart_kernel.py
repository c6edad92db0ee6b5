"""Rollouts of mechanisms with loops: one kernel steps each row for as long as the model's own coordinates are
good where it is.

A step of the kernel is taken where `Stepping` would take it in the model's own chart and stay there.
Everywhere else the row keeps its state, and `Stepping` takes that one step in a regular chart. States
alone decide, so a row has the same motion alone and in a batch, for any recorded quantities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import absolute, fma, loop, maximum, where
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.runtime.build import build_on
from linkwork.compiler.runtime.results import POOL
from linkwork.contact import JointLaws
from linkwork.functions.dynamics import forward_dynamics
from linkwork.model import Model
from linkwork.model.parameters import input_names, shape_of
from linkwork.simulation import kernels
from linkwork.simulation.charts import Charts
from linkwork.simulation.control import Control
from linkwork.simulation.integrators import INTEGRATORS
from linkwork.simulation.joint_laws import held, same_branch, sliding_force
from linkwork.simulation.monitor import MAX_LOOP_MOTION, coordinate_scales, may_pass, monitor, motion
from linkwork.simulation.one_kernel import CHUNK_ROWS, segments
from linkwork.simulation.stepping import CLOSED_AT_START, MAX_CORRECTION_RATIO, Stepping

MAX_STEPS = 2**31  # steps of one call


def chart_kernel(
    model: Model,
    control: Control,
    integrator: str,
    parameters: tuple[str, ...],
    laws: JointLaws | None = None,
) -> Any:
    """Return the kernel of `chart_program`."""
    key = ("rollout in one chart", control.key, tuple(control.inputs.items()), integrator, parameters, laws)
    known = model.cache.get(key)
    if known is None:
        program = chart_program(model, control, integrator, parameters, laws)
        known = model.cache[key] = build_on("cpu", None, lambda: program, "float64")
    return known


def chart_program(
    model: Model,
    control: Control,
    integrator: str,
    parameters: tuple[str, ...] = (),
    laws: JointLaws | None = None,
) -> Program:
    """Return a program from q, velocities w of all joints, `far` (see `monitor`) and control inputs to these
    after some steps.

    `how` is (dt, count, 0, over), with the number of steps `over` already taken. `taken` says how many
    followed: at most `count`, fewer where a step is not one for the model's own chart.
    """
    charts = Charts(model)
    columns = charts.places(charts.own)
    nq = model.nq
    size = model.nv_spanning
    scales = coordinate_scales(charts)
    shapes: dict[str, Any] = {"q": (nq,), "w": (size,), "far": (), "how": (4,), **control.inputs}
    words = input_names(parameters, taken=tuple(shapes)) if parameters else ()
    shapes |= {word: shape_of(model, name) for word, name in zip(words, parameters)}

    def body(*arrays: Any) -> dict[str, Any]:
        values = dict(zip(shapes, arrays))
        numbers = {n: values[w] for n, w in zip(parameters, words)}
        moving, full = (each.traced_with(numbers) if parameters else each for each in (model, charts.whole))
        dt, count, zero, before = values["how"]

        def step(state: Any) -> tuple[Any, Any]:
            q0 = state[:nq]
            w0 = state[nq : nq + size]
            far0 = state[-2]
            k = state[-1]

            def force(q: Any, v: Any, part: float) -> Any:
                return control.force(moving, q, v, (before + k + part) * dt, values)

            (q1, w1, moved), solved = _stepped(moving, laws, integrator, q0, w0[columns], dt, force)
            retained, far1 = monitor(full, q1, charts, INTEGRATORS[integrator][1])
            bad = zero
            for x in [*q1, *w1]:
                bad = fma(x, zero, bad)  # NaN where a number is not finite
            retained = retained & solved & (bad == zero) & _same_branch(q0, w0, q1, w1, moved, dt)
            length = motion(scales, q0, q1)
            retained = retained & (length <= MAX_LOOP_MOTION) & ~may_pass(length, maximum(far0, far1))
            after = [where(retained, new, old) for new, old in zip([*q1, *w1, far1, k + 1.0], state)]
            return np.array(after, dtype=object), retained & (k + 1.0 < count)

        last = loop(
            step, np.array([*values["q"], *values["w"], values["far"], 0.0], dtype=object), limit=MAX_STEPS
        )
        return {"q_end": last[:nq], "w_end": last[nq : nq + size], "far_end": last[-2], "taken": last[-1]}

    return trace(body, shapes, name=f"rollout_{integrator}_in_chart")


def _stepped(
    model: Model, laws: JointLaws | None, integrator: str, q: Any, v: Any, dt: Any, force: Any
) -> tuple[Any, Any]:
    """Return q, the velocities of all joints and how far closing moved q; and whether laws in joints were
    solved.
    """
    always = 0.0 * dt == 0.0
    if laws is None:
        return STEPS[integrator](model, q, v, dt, force), always
    end = held(model, laws, q, v, v + dt * forward_dynamics(model, q, v, force(q, v, 0.0)), dt)
    arrived = kernels.advanced(model, q, dt * end.v, end.v)
    if integrator == "semi_implicit_euler":
        return arrived, end.converged > 0.5
    slides = sliding_force(model, laws, q, v)
    full = force if slides is None else lambda q, v, part: force(q, v, part) + slides(q)
    smooth = STEPS[integrator](model, q, v, dt, full)
    chart = Charts(model)
    same = same_branch(model, laws, (q, v), (smooth[0], smooth[1][chart.places(chart.own)]))
    flat = [np.array([*q, *w, far], dtype=object) for q, w, far in (smooth, arrived)]
    result = where(same, *flat)
    nq = model.nq
    return (result[:nq], result[nq:-1], result[-1]), where(same, 1.0, end.converged) > 0.5


def _euler(model: Model, q: Any, v: Any, dt: Any, force: Any) -> Any:
    v = v + dt * forward_dynamics(model, q, v, force(q, v, 0.0))
    return kernels.advanced(model, q, dt * v, v)


def _rk4(model: Model, q: Any, v: Any, dt: Any, force: Any) -> Any:
    def rates(q: Any, v: Any, part: float) -> tuple[Any, Any]:
        return kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))

    half = 0.5 * dt
    sixth = dt / 6.0
    k1, l1 = rates(q, v, 0.0)
    k2, l2 = rates(q + half * k1, v + half * l1, 0.5)
    k3, l3 = rates(q + half * k2, v + half * l2, 0.5)
    k4, l4 = rates(q + dt * k3, v + dt * l3, 1.0)
    end = q + sixth * (k1 + 2.0 * (k2 + k3) + k4), v + sixth * (l1 + 2.0 * (l2 + l3) + l4)
    return kernels.settled(model, end[0], q, end[1])


STEPS: dict[str, Callable[..., Any]] = {"semi_implicit_euler": _euler, "rk4": _rk4}


def _largest(x: Any) -> Any:
    result: Any = 0.0
    for each in x:
        result = maximum(result, absolute(each))
    return result


def _same_branch(q0: Any, w0: Any, q1: Any, w1: Any, moved: Any, dt: Any) -> Any:
    """Return whether closing loops moved q by less than the step; see `Stepping`."""
    return moved <= MAX_CORRECTION_RATIO * maximum(_largest(q1 - q0), dt * _largest(w0)) + CLOSED_AT_START


def roll_out_loops(
    stepping: Stepping,
    kernel: Any,
    force: Any,
    take: Callable[[], None],
    parameters: Mapping[str, np.ndarray],
    *,
    dt: float,
    steps: int,
    record_every: int,
    each: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return q, (rows, n, nq), and v, (rows, n, nv), after every `record_every` steps; NaN from where a row
    has stopped.

    `force` has the inputs of what controls the kernel in the given step; `each`: steps are taken
    one by one, since they differ. `take` has `stepping` take one step of the rows that are active; without a
    `kernel`, all of them.
    """
    model = stepping.model
    rows = len(stepping.q)
    n = steps // record_every + 1
    q, v = POOL.arrays([(rows, n, model.nq), (rows, n, model.nv)], float)
    q[:, 1:] = np.nan
    v[:, 1:] = np.nan
    q[:, 0] = stepping.q
    v[:, 0] = stepping.v
    for over, count, place in segments(steps, record_every, each):
        force.step = over
        end = over + count
        reach(end, stepping, kernel, {} if kernel is None else {**force.inputs(), **parameters}, take, dt)
        if place is not None:
            recorded = stepping.steps == end
            q[recorded, place] = stepping.q[recorded]
            v[recorded, place] = stepping.v[recorded]
    return q, v


def reach(
    end: int,
    stepping: Stepping,
    kernel: Any,
    inputs: Mapping[str, np.ndarray],
    take: Callable[[], None],
    dt: float,
) -> None:
    """Have all active rows step until they took `end` steps or stopped; see `roll_out_loops`.

    `inputs` are those of the kernel's control, then its parameters.
    """
    while (going := stepping.active & (stepping.steps < end)).any():
        if kernel is not None:
            mine = np.flatnonzero(going & ~stepping.in_other_charts)
            _call(stepping, kernel, mine, end - stepping.steps[mine], inputs, dt)
        remaining = stepping.active & (stepping.steps < end)
        if remaining.any():
            others = stepping.active & ~remaining
            stepping.choose(remaining)
            take()
            stepping.choose(stepping.active | others)


def _call(
    stepping: Stepping,
    kernel: Any,
    rows: np.ndarray,
    counts: np.ndarray,
    inputs: Mapping[str, np.ndarray],
    dt: float,
) -> None:
    """Let the kernel step some rows, each so often."""
    for start in range(0, len(rows), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        numbers = (
            np.full(len(part), dt),
            counts[start : start + CHUNK_ROWS],
            np.zeros(len(part)),
            stepping.before + stepping.steps[part],
        )
        states = (stepping.q[part], stepping.w[part], stepping.far[part])
        values = (x[part] for x in inputs.values())
        stepping.q[part], stepping.w[part], stepping.far[part], taken = kernel(
            *states, np.column_stack(numbers), *values
        )
        stepping.steps[part] += taken.astype(int)
