"""Rollouts of mechanisms with loops: one kernel steps each row for as long as the model's own coordinates are good where it is.

A step of the kernel is taken where `Stepping` would take it in the model's own chart and stay there. Everywhere else the row
keeps its state, and `Stepping` takes that one step, in whatever chart is good. States alone decide, so a row goes the same way
alone and in a batch, whatever is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.conditioning import cluster_scales, postures, unit_free_residual
from linkwork.functions.dynamics import forward_dynamics
from linkwork.ir.functions import absolute, fma, loop, maximum, where
from linkwork.ir.program import Program
from linkwork.ir.trace import trace
from linkwork.model import Model
from linkwork.model.parameters import input_names, shape_of
from linkwork.runtime.build import build_on
from linkwork.simulate import kernels
from linkwork.simulate.charts import SINGULAR, Charts, test_vector
from linkwork.simulate.control import Control
from linkwork.simulate.integrators import INTEGRATORS
from linkwork.simulate.one_kernel import CHUNK, segments
from linkwork.simulate.stepping import CHANGED, CLOSED, CLOSED_AT_START, CORRECTION, NEAR, WITHIN, Stepping, looped
from linkwork.topology.elimination import Elimination
from linkwork.topology.motion import all_equations

MOST = 2**31  # steps of one call


def chart_kernel(model: Model, control: Control, integrator: str, parameters: tuple[str, ...]) -> Any:
    """The kernel of the program of `chart_program`."""
    key = ("rollout in one chart", control.key, tuple(control.inputs.items()), integrator, parameters)
    known = model.memory.get(key)
    if known is None:
        program = chart_program(model, control, integrator, parameters)
        known = model.memory[key] = build_on("cpu", None, lambda: program, "float64")
    return known


def chart_program(model: Model, control: Control, integrator: str, parameters: tuple[str, ...] = ()) -> Program:
    """From q, the velocities w of all joints, `far` (see `sizes_in`), how and what controls it to these after some steps.

    `how` is (dt, count, 0, over), where so many steps are over. `taken` says how many followed: at most `count`, fewer where a
    step is not one for the model's own chart.
    """
    charts = Charts(model)
    own, nq, size, near = charts.places(charts.own), model.nq, model.nv_spanning, looped(charts)
    shapes: dict[str, Any] = {"q": (nq,), "w": (size,), "far": (), "how": (4,), **control.inputs}
    words = input_names(parameters, taken=tuple(shapes)) if parameters else ()
    shapes |= {word: shape_of(model, name) for word, name in zip(words, parameters)}

    def body(*arrays: Any) -> dict[str, Any]:
        given = dict(zip(shapes, arrays))
        numbers = {n: given[w] for n, w in zip(parameters, words)}
        moving, whole = (each.traced_with(numbers) if parameters else each for each in (model, charts.whole))
        dt, count, zero, before = given["how"]

        def step(state: Any) -> tuple[Any, Any]:
            q0, w0, far0, k = state[:nq], state[nq : nq + size], state[-2], state[-1]

            def force(q: Any, v: Any, part: float) -> Any:
                return control.force(moving, q, v, (before + k + part) * dt, given)

            q1, w1, moved = STEPS[integrator](moving, q0, w0[own], dt, force)
            kept, far1 = _good(whole, q1, charts, INTEGRATORS[integrator][1])
            bad = zero
            for x in [*q1, *w1]:
                bad = fma(x, zero, bad)  # NaN where a number is not finite
            kept = kept & (bad == zero) & _same_branch(q0, w0, q1, w1, moved, dt)
            kept = kept & ~_watched(w0[near], far0, w1[near], far1, dt)
            after = [where(kept, new, old) for new, old in zip([*q1, *w1, far1, k + 1.0], state)]
            return np.array(after, dtype=object), kept & (k + 1.0 < count)

        last = loop(step, np.array([*given["q"], *given["w"], given["far"], 0.0], dtype=object), limit=MOST)
        return {"q_end": last[:nq], "w_end": last[nq : nq + size], "far_end": last[-2], "taken": last[-1]}

    return trace(body, shapes, name=f"rollout_{integrator}_in_chart")


def _euler(model: Model, q: Any, v: Any, dt: Any, force: Any) -> Any:
    v = v + dt * forward_dynamics(model, q, v, force(q, v, 0.0))
    return kernels.advanced(model, q, dt * v, v)


def _rk4(model: Model, q: Any, v: Any, dt: Any, force: Any) -> Any:
    def rates(q: Any, v: Any, part: float) -> tuple[Any, Any]:
        return kernels.rates(model, q, v), forward_dynamics(model, q, v, force(q, v, part))

    half, sixth = 0.5 * dt, dt / 6.0
    k1, l1 = rates(q, v, 0.0)
    k2, l2 = rates(q + half * k1, v + half * l1, 0.5)
    k3, l3 = rates(q + half * k2, v + half * l2, 0.5)
    k4, l4 = rates(q + dt * k3, v + dt * l3, 1.0)
    end = q + sixth * (k1 + 2.0 * (k2 + k3) + k4), v + sixth * (l1 + 2.0 * (l2 + l3) + l4)
    return kernels.settled(model, end[0], q, end[1])


STEPS: dict[str, Callable[..., Any]] = {"semi_implicit_euler": _euler, "rk4": _rk4}


def _good(model: Model, q: Any, charts: Charts, largest: float) -> tuple[Any, Any]:
    """Whether q is closed and a state for the model's own chart; and `far` there, as `Charts.measured` measures it.

    The `model` is the one that `charts` has as a whole.
    """
    far: Any = 0.0
    good = absolute(0.0 * q[0]) <= 0.0
    if not charts.moving:
        return good, far
    good = good & (unit_free_residual(model, q) <= CLOSED)
    every = zip(postures(model, q), cluster_scales(model.structure), strict=True)
    for n, ((cluster, posture), scales) in enumerate(every):
        if n not in charts.moving:
            continue
        rows, free, held = list(cluster.rows), list(cluster.independent), list(cluster.dependent)
        K = all_equations(posture, cluster.constraints)[0][rows]
        right = np.column_stack([K[:, free] * scales.columns[free], test_vector(len(rows)) / scales.rows[rows]])
        answer = Elimination(K[:, held]).solve(right) / scales.columns[held][:, None]
        for x in answer[:, :-1].ravel():
            good = good & (absolute(x) <= largest)
        for x in answer[:, -1]:
            good = good & (absolute(x) * SINGULAR <= 1.0)
            far = maximum(far, absolute(x))
    return good, far


def _largest(x: Any) -> Any:
    found: Any = 0.0
    for each in x:
        found = maximum(found, absolute(each))
    return found


def _same_branch(q0: Any, w0: Any, q1: Any, w1: Any, moved: Any, dt: Any) -> Any:
    """Whether closing loops moved q by less than the step; see `Stepping`."""
    return moved <= CORRECTION * maximum(_largest(q1 - q0), dt * _largest(w0)) + CLOSED_AT_START


def _watched(w0: Any, far0: Any, w1: Any, far1: Any, dt: Any) -> Any:
    """Whether a step may have passed a singular state of the mechanism, by velocities in its loops; see `Stepping`."""
    near = dt * maximum(far0 * _largest(w0), far1 * _largest(w1))
    change, before, after = (sum(x * x for x in w) for w in (w1 - w0, w0, w1))
    return (near * WITHIN > 1.0) | ((near * NEAR > 1.0) & (change > CHANGED**2 * maximum(before, after)))


def roll_out_loops(
    stepping: Stepping, kernel: Any, force: Any, take: Callable[[], None], parameters: Mapping[str, np.ndarray],
    *, dt: float, steps: int, every: int, each: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """q, (rows, n, nq), and v, (rows, n, nv), after every `every` steps; NaN from where a row has stopped.

    `force` has the inputs of what controls the kernel in the step that it is told; `each`: steps are taken one by one, since
    they differ. `take` has `stepping` take one step of the rows that are active; without a `kernel`, all of them.
    """
    model, rows, n = stepping.model, len(stepping.q), steps // every + 1
    found = [np.full((rows, n, size), np.nan) for size in (model.nq, model.nv)]
    found[0][:, 0], found[1][:, 0] = stepping.q, stepping.v
    for over, count, place in segments(steps, every, each):
        force.step, end = over, over + count
        reach(end, stepping, kernel, {} if kernel is None else {**force.inputs(), **parameters}, take, dt)
        if place is not None:
            here = stepping.steps == end
            found[0][here, place], found[1][here, place] = stepping.q[here], stepping.v[here]
    return found[0], found[1]


def reach(
    end: int, stepping: Stepping, kernel: Any, inputs: Mapping[str, np.ndarray], take: Callable[[], None], dt: float,
) -> None:  # fmt: skip
    """Have all active rows step until they took `end` steps or stopped; see `roll_out_loops`.

    `inputs` are those of the kernel's control, then its parameters.
    """
    while (going := stepping.active & (stepping.steps < end)).any():
        if kernel is not None:
            mine = np.flatnonzero(going & ~stepping.in_other_charts)
            _call(stepping, kernel, mine, end - stepping.steps[mine], inputs, dt)
        left = stepping.active & (stepping.steps < end)
        if left.any():
            others = stepping.active & ~left
            stepping.choose(left)
            take()
            stepping.choose(stepping.active | others)


def _call(
    stepping: Stepping, kernel: Any, rows: np.ndarray, counts: np.ndarray, inputs: Mapping[str, np.ndarray], dt: float
) -> None:
    """Let the kernel step some rows, each so often."""
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        numbers = (
            np.full(len(part), dt),
            counts[start : start + CHUNK],
            np.zeros(len(part)),
            stepping.before + stepping.steps[part],
        )
        states, given = (stepping.q[part], stepping.w[part], stepping.far[part]), (x[part] for x in inputs.values())
        stepping.q[part], stepping.w[part], stepping.far[part], taken = kernel(*states, np.column_stack(numbers), *given)
        stepping.steps[part] += taken.astype(int)
