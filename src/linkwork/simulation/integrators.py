"""Integrators: one step of all rows of a rollout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.states import independent_force, integrate
from linkwork.simulation import kernels
from linkwork.simulation.adaptive import MAX_ATTEMPTS, MIN_ATTEMPT, Adaptive, attempt, growth, relative
from linkwork.simulation.stepping import Step, Stepping, StepResult


class Force(Protocol):
    """Joint forces at the model's own independent joints, (rows, nv), in one step."""

    depends_on_state: bool  # whether they depend on q and v

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        """For states q and v of all rows, and the part of the step that has passed, a number or one for each
        row.
        """


MAX_FORCE_ITERATIONS = 30  # evaluations of forces at the midpoint of a step
FORCE_TOL = 1e-13  # relative change of such forces that ends this

Integrator = Callable[[Stepping, Force, float], StepResult]


def semi_implicit_euler(rows: Stepping, force: Force, dt: float) -> StepResult:
    """Step by v' = v + dt a(q, v, tau) and q' = integrate(q, dt v'); laws in joints act at v'."""
    y = rows.y
    free = y + dt * _accelerations(rows, rows.q, y, force(rows.q, rows.v, 0.0))
    y = free if rows.laws is None else rows.held_in_joints(free, dt)
    if not rows.model.loops:
        q = rows.called(integrate, rows.q, dt * y)
        return q, y, np.zeros(len(q))
    arrived: StepResult = rows.called(kernels.advanced, rows.q, dt * y, y)
    return arrived


def rk4(rows: Stepping, force: Force, dt: float) -> StepResult:
    """Step by the classical Runge-Kutta method of order 4 on q̇ and ẏ, the independent velocities of each
    row's chart, then close loops.
    """
    q0 = rows.q
    y0 = rows.y
    active = rows.active[:, None]

    def rates(q: np.ndarray, y: np.ndarray, part: float) -> tuple[np.ndarray, np.ndarray]:
        q = np.where(active, q, q0)
        y = np.where(active, y, y0)
        tau = force(q, rows.own_velocity(q, y) if force.depends_on_state else y, part)
        return rows.called(kernels.rates, q, y), _accelerations(rows, q, y, tau)

    k1, l1 = rates(q0, y0, 0.0)
    k2, l2 = rates(q0 + 0.5 * dt * k1, y0 + 0.5 * dt * l1, 0.5)
    k3, l3 = rates(q0 + 0.5 * dt * k2, y0 + 0.5 * dt * l2, 0.5)
    k4, l4 = rates(q0 + dt * k3, y0 + dt * l3, 1.0)
    q = q0 + dt / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
    y = y0 + dt / 6.0 * (l1 + 2.0 * (l2 + l3) + l4)
    arrived: StepResult = rows.called(kernels.settled, q, q0, y)
    return arrived


def implicit_midpoint(rows: Stepping, force: Force, dt: float) -> StepResult:
    """Return the midpoint rule in the coordinates of each row's chart; forces that ask for states are those
    in the middle.
    """
    q = rows.q
    y = rows.y
    tau = force(q, rows.v, 0.5)
    for _ in range(MAX_FORCE_ITERATIONS):
        *arrived, q_middle, y_middle = rows.called(
            kernels.midpoint_step, q, y, _in_charts(rows, q, tau), np.full(len(q), dt)
        )
        if not force.depends_on_state:
            break
        fine = rows.active[:, None] & np.isfinite(q_middle).all(axis=1, keepdims=True)
        q_middle = np.where(fine, q_middle, q)
        y_middle = np.where(fine, y_middle, y)
        before = tau
        tau = force(q_middle, rows.own_velocity(q_middle, y_middle), 0.5)
        settled = np.abs(tau - before).max(axis=1) <= FORCE_TOL * np.abs(tau).max(axis=1)
        tau = np.where(
            settled[:, None], before, tau
        )  # a converged row keeps its bits, independent of other rows
        if (settled | ~rows.active).all():
            break
    return tuple(arrived)


def rk45(rows: Stepping, force: Force, dt: float, tolerances: Adaptive) -> StepResult:
    """Step each row adaptively until dt is over, closing loops after each step. See `adaptive`.

    Rows whose step is over wait for the others, and are not computed any more: many steps in one take no time
    of another.
    """
    nq = rows.q.shape[1]
    everyone = rows.active
    q = rows.q
    y = rows.y
    w = rows.w
    over = np.zeros(len(q))
    length = np.ones(len(q))
    moved = np.zeros(len(q))
    going = rows.active.copy()

    def rates(state: np.ndarray, part: np.ndarray) -> np.ndarray:
        state = np.where(going[:, None], state, start)
        q = state[:, :nq]
        y = state[:, nq:]
        tau = force(q, rows.own_velocity(q, y) if force.depends_on_state else y, part[:, 0])
        return np.concatenate([rows.called(kernels.rates, q, y), _accelerations(rows, q, y, tau)], axis=1)

    for _ in range(MAX_ATTEMPTS):
        if (going != rows.active).any():
            rows.choose(going)
        start = np.concatenate([q, y], axis=1)
        last = over + length >= 1.0
        part = np.where(last, 1.0 - over, length)
        after, error = attempt(rates, start, over[:, None], part[:, None], dt)
        size = relative(error.T, start.T, after.T, tolerances)
        good = going & (size <= 1.0)
        if good.any():
            reached = np.where(good[:, None], after, start)
            q1, w1, far = rows.called(kernels.settled, reached[:, :nq], q, reached[:, nq:])
            good &= np.isfinite(q1).all(axis=1)
            q = np.where(good[:, None], q1, q)
            w = np.where(good[:, None], w1, w)
            y = np.where(going[:, None], rows.chart_velocity(w), y)
            moved = np.where(good, np.maximum(moved, far), moved)
        over = np.where(good, np.where(last, 1.0, over + part), over)
        length = np.where(going, part * np.where(good | ~(size <= 1.0), growth(size), 0.2), length)
        going = going & (over < 1.0) & (length > MIN_ATTEMPT)
        if not going.any():
            break
    rows.choose(everyone)
    arrived = (over >= 1.0)[:, None]
    return np.where(arrived, q, np.nan), np.where(arrived, w, np.nan), moved


def _accelerations(rows: Stepping, q: np.ndarray, y: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return ẏ of each row's chart, (rows, nv), for forces tau at the model's own independent joints."""
    result: np.ndarray = rows.called(forward_dynamics, q, y, _in_charts(rows, q, tau))
    return result


def _in_charts(rows: Stepping, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return forces tau at the model's own independent joints as forces of each row's chart, (rows, nv)."""
    other = rows.in_other_charts
    if not other.any() or not tau.any():  # in its own chart a row has bits independent of other rows
        return tau
    spread = rows.called(independent_force, q, rows.spanning_force(tau))
    return np.where(other[:, None], spread, tau)


class _InPart:
    """Forces in one of several equal parts of a step."""

    def __init__(self, force: Force, k: int, count: int) -> None:
        self.depends_on_state = force.depends_on_state
        self._force = force
        self._k = k
        self._count = count

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        return self._force(q, v, (self._k + part) / self._count)


def in_parts(integrator: Integrator, force: Force, dt: float) -> Step:
    """Return an integrator that takes steps of dt whole or in parts."""
    return lambda rows, k, count: integrator(
        rows, force if count == 1 else _InPart(force, k, count), dt / count
    )


# With the largest entry of unit-free G of charts that are kept: an accurate method gains by coordinates that
# are good. And with how well a step must agree with its parts near to a singular state, relative to
# velocities: an accurate one has more to lose.
INTEGRATORS: dict[str, tuple[Integrator, float, float]] = {
    "semi_implicit_euler": (semi_implicit_euler, 10.0, 3e-3),
    "rk4": (rk4, 2.5, 1e-7),
    "implicit_midpoint": (implicit_midpoint, 2.5, 1e-5),
}


def find_integrator(name: str | Adaptive, laws: Any = None) -> tuple[Integrator, float, float]:
    """Return the integrator of a name, or that of adaptive steps with some tolerances; see `INTEGRATORS`.

    With `laws` in joints, steps in which one changes its branch are those of semi-implicit Euler; see
    `joint_laws`.
    """
    if isinstance(name, Adaptive):
        integrator: Integrator = partial(rk45, tolerances=name)
        largest = 2.5
        agree = 1e-7 + 10.0 * name.rtol
    else:
        integrator, largest, agree = INTEGRATORS[name]
    if laws is not None and name != "semi_implicit_euler":
        integrator = _on_one_branch(integrator)
    return integrator, largest, agree


def _on_one_branch(smooth: Integrator) -> Integrator:
    """Return an integrator while no law in joints changes its branch.

    Other steps are those of semi-implicit Euler.
    """

    def step(rows: Stepping, force: Force, dt: float) -> StepResult:
        everyone = rows.active
        arrived = smooth(rows, _WithFriction(force, rows), dt)
        other = everyone & ~rows.on_same_branch(arrived)
        if not other.any():
            return arrived
        rows.choose(other)
        again = semi_implicit_euler(rows, force, dt)
        rows.choose(everyone)
        q, w, moved = (
            np.where(other.reshape(-1, *(1,) * (x.ndim - 1)), y, x) for x, y in zip(arrived, again)
        )
        return q, w, moved

    return step


class _WithFriction:
    """Forces, and dry friction of joints that slide as they did at the start of a step."""

    def __init__(self, force: Force, rows: Stepping) -> None:
        self.depends_on_state = force.depends_on_state
        self._force = force
        self._friction = rows.sliding_friction()

    def __call__(self, q: np.ndarray, v: np.ndarray, part: Any) -> np.ndarray:
        forces = self._force(q, v, part)
        return forces if self._friction is None else forces + self._friction
