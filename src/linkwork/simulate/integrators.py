"""Integrators: one step of all rows of a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.states import independent_force, integrate
from linkwork.simulate import kernels
from linkwork.simulate.stepping import Arrived, Stepping


class Force(Protocol):
    """Joint forces at the model's own independent joints, (rows, nv), in one step."""

    asks_states: bool  # whether they depend on q and v

    def __call__(self, q: np.ndarray, v: np.ndarray, part: float) -> np.ndarray:
        """For states q and v of all rows, and the part of the step that has passed."""


Integrator = Callable[[Stepping, Force, float], Arrived]


def semi_implicit_euler(rows: Stepping, force: Force, dt: float) -> Arrived:
    """v' = v + dt a(q, v, tau) and q' = integrate(q, dt v')."""
    y = rows.y
    y = y + dt * _accelerations(rows, rows.q, y, force(rows.q, rows.v, 0.0))
    if not rows.model.loops:
        q = rows.called(integrate, rows.q, dt * y)
        return q, y, np.zeros(len(q))
    arrived: Arrived = rows.called(kernels.advanced, rows.q, dt * y, y)
    return arrived


def rk4(rows: Stepping, force: Force, dt: float) -> Arrived:
    """Runge and Kutta's method of order 4 on q̇ and ẏ, the independent velocities of each row's chart, then closed loops."""
    q0, y0, active = rows.q, rows.y, rows.active[:, None]

    def rates(q: np.ndarray, y: np.ndarray, part: float) -> tuple[np.ndarray, np.ndarray]:
        q, y = np.where(active, q, q0), np.where(active, y, y0)
        tau = force(q, rows.own_velocity(q, y) if force.asks_states else y, part)
        return rows.called(kernels.rates, q, y), _accelerations(rows, q, y, tau)

    k1, l1 = rates(q0, y0, 0.0)
    k2, l2 = rates(q0 + 0.5 * dt * k1, y0 + 0.5 * dt * l1, 0.5)
    k3, l3 = rates(q0 + 0.5 * dt * k2, y0 + 0.5 * dt * l2, 0.5)
    k4, l4 = rates(q0 + dt * k3, y0 + dt * l3, 1.0)
    q = q0 + dt / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
    y = y0 + dt / 6.0 * (l1 + 2.0 * (l2 + l3) + l4)
    arrived: Arrived = rows.called(kernels.settled, q, q0, y)
    return arrived


def _accelerations(rows: Stepping, q: np.ndarray, y: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """ẏ of each row's chart, (rows, nv), for forces tau at the model's own independent joints."""
    other = rows.in_other_charts
    if other.any() and tau.any():  # in its own chart a row has the same bits whatever its neighbours do
        spread = rows.called(independent_force, q, rows.spanning_force(tau))
        tau = np.where(other[:, None], spread, tau)
    found: np.ndarray = rows.called(forward_dynamics, q, y, tau)
    return found


# With the largest entry of unit-free G of charts that are kept: an accurate method gains by coordinates that are good.
INTEGRATORS: dict[str, tuple[Integrator, float]] = {"semi_implicit_euler": (semi_implicit_euler, 10.0), "rk4": (rk4, 2.5)}
