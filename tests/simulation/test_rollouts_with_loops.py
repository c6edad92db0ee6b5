"""Rollouts of mechanisms with loops: against an independent integrator, and over long times."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from test_dead_points import driven_four_bar

import leg_mechanisms as legs
import linkwork as lw
import planar_mechanisms as planar
import spatial_mechanisms as spatial
from reference_motion import Reference

INTEGRATORS = ["semi_implicit_euler", "rk4", "implicit_midpoint", "rk45"]
ORDERS = {"semi_implicit_euler": 1.0, "rk4": 4.0, "implicit_midpoint": 2.0}
TINY = 2e-9  # error of the reference

MECHANISMS: dict[str, Callable[[], lw.Model]] = {
    "four-bar": driven_four_bar,
    "bennett": lambda: spatial.bennett().builder.build(),
    "schatz": lambda: spatial.schatz().builder.build(),
    "finger": lambda: legs.one_finger().builder.build(),
    "jansen": lambda: planar.jansen().builder.build(),
    "peaucellier": lambda: planar.peaucellier().builder.build(),
    "pantograph": lambda: planar.pantograph().builder.build(),
    "stephenson": lambda: planar.stephenson(3).builder.build(),
    "scissors": lambda: planar.scissors(3).builder.build(),
    "spherical": lambda: spatial.spherical_four_bar().builder.build(),
    "sarrus": lambda: spatial.sarrus().builder.build(),
    "rssr": lambda: spatial.rssr().builder.build(),
}


def mechanism(name: str) -> tuple[lw.Model, np.ndarray, np.ndarray]:
    model = MECHANISMS[name]()
    q, v = model.random_state(1)
    return model, q, v


def constrained(model: lw.Model) -> lw.Model:
    return model.with_loops(constrain=[loop.name for loop in model.embedded])


@pytest.mark.parametrize(
    "name",
    ["four-bar", "bennett", *(pytest.param(name, marks=pytest.mark.slow) for name in list(MECHANISMS)[2:])],
)
def test_steps_have_the_order_of_their_integrator(name: str) -> None:
    """Against the independent solution of all loop equations; loops embedded and constrained."""
    model, q, v = mechanism(name)
    w = lw.spanning_velocity(model, q, v)
    path = Reference(model, q).follow(q, w, 0.2, np.zeros(model.nv_spanning), singular=1e-2)
    assert path.t[-1] == pytest.approx(0.2), "the mechanism is regular for so long"
    held = constrained(model)
    for integrator in INTEGRATORS:
        for one, speed in ((model, v), (held, w)):
            if integrator == "implicit_midpoint" and (one is held or name == "rssr"):
                continue  # refused
            errors = []
            for dt in (0.02, 0.01, 0.005):
                found = lw.rollout(
                    one, q, speed, dt=dt, steps=round(0.2 / dt), integrator=integrator, limits=False
                )
                assert found.status == lw.Status.OK
                assert (lw.closure_error(one, found.q) <= one.closure_tolerance).all()
                errors.append(float(np.abs(found.q[-1] - path.q[-1]).max()))
            if integrator == "rk45":
                assert max(errors) < 1e-6
                continue
            for coarse, fine in itertools.pairwise(errors):
                assert fine < TINY or coarse / fine > 0.6 * 2.0 ** ORDERS[integrator]


def true_end(model: lw.Model, q: np.ndarray, v: np.ndarray, dt: float, status: int) -> bool:
    """Whether a row that stopped in this state did so for the reason that its status gives."""
    if status != lw.Status.DEAD_POINT:
        return False
    w = lw.spanning_velocity(model, q, v)
    if lw.loop_conditioning(model, q, of="mechanism").min() < 1e-2:
        return True
    path = Reference(model, model.random_state(1)[0]).follow(
        q, w, 3.0 * dt, np.zeros(model.nv_spanning), singular=1e-2
    )
    return bool(path.conditioning.min() < 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_ten_seconds_are_taken_or_end_truly(name: str, integrator: str, dt: float) -> None:
    if name == "rssr" and integrator == "implicit_midpoint":
        pytest.skip("a ball joint has an independent velocity, which implicit_midpoint refuses")
    model, q, v = mechanism(name)
    seconds = (
        10.0 if integrator in ("semi_implicit_euler", "rk4") else 0.1 / dt * 1e-2
    )  # these run in Python, step by step
    steps = round(min(seconds, 10.0) / dt)
    found = lw.rollout(
        model,
        q,
        v,
        dt=dt,
        steps=steps,
        record_every=max(1, steps // 500),
        integrator=integrator,
        limits=False,
    )
    taken = int(found.steps)
    last = taken // max(1, steps // 500)
    Q = found.q[: last + 1]
    V = found.v[: last + 1]
    assert (lw.closure_error(model, Q) <= model.closure_tolerance).all()
    if found.status != lw.Status.OK:
        again = lw.rollout(
            model, q, v, dt=dt, steps=taken, record_every=max(taken, 1), integrator=integrator, limits=False
        )
        assert true_end(model, again.q[-1], again.v[-1], dt, int(found.status))
    energy = lw.kinetic_energy(model, Q, V) + lw.potential_energy(model, Q)
    good = lw.loop_conditioning(model, Q).min(axis=-1) > 0.03  # energies by these coordinates are exact there
    kinetic = lw.kinetic_energy(model, Q[good], V[good]).max()
    drift = np.abs(energy[good] - energy[0]).max() / kinetic if good.any() else 0.0
    limit = {"semi_implicit_euler": 2.0, "rk4": 0.1, "implicit_midpoint": 0.1, "rk45": 1e-3}[integrator]
    assert drift < limit * (1.0 if dt > 5e-3 else 0.3)
