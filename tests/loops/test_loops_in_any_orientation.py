"""Linkages with and without redundant equations, exact and rounded, in any orientation, against dense algebra.

A long test: `LINKWORK_BASES` is the number of orientations of each, 3 by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import leg_mechanisms as legs
import linkwork as lw
import planar_mechanisms as planar
import redundant_linkages as linkages
import spatial_mechanisms as spatial
from drawings import Drawing
from linkages import floats
from redundant_linkages import EXACT, ROUNDED, accelerations, motion
from reference_motion import Reference

BASES = range(int(os.environ.get("LINKWORK_BASES", "3")))
REGULAR: dict[str, Callable[..., Drawing]] = {
    "four-bar": lambda **more: planar.four_bar(0.3, 0.8, 0.6, 0.9, **more),
    "Stewart": spatial.stewart,
    "hexapod": lambda **more: spatial.stewart("PUS", **more),
    "delta": lambda **more: spatial.delta("bars", **more),
    "hand": lambda **more: legs.hand(2, **more),
    "train": lambda **more: planar.four_bars_in_a_row(6, **more),
    "spherical four-bar": spatial.spherical_four_bar,
    "agile eye": lambda **more: spatial.spherical_wrist(agile=True, **more),
}
LINKAGES = {
    **linkages.LINKAGES,
    "Sarrus, four legs": lambda **more: spatial.sarrus(4, **more),
    "four parallel bars": lambda **more: spatial.parallel_bars(4, **more),
}
DIGITS = [None, 4, 5, 6]


def built(name: str, digits: int | None, seed: int) -> lw.Model | None:
    """The mechanism in an orientation; None where its numbers are too coarse, which is told."""
    try:
        return ({**LINKAGES, **REGULAR})[name](digits=digits, base=linkages.base(seed)).builder.build()
    except lw.ModelError as error:
        assert digits == 4 and ("give numbers with more digits" in str(error) or "tolerance=" in str(error))
        return None


def closed(model: lw.Model, q: np.ndarray, factor: float = 1.0) -> bool:
    return bool(np.all(floats(lw.closure_error, model, q) <= factor * model.closure_tolerance))


def variants(model: lw.Model) -> list[lw.Model]:
    return [model, model.with_loops(constrain=[loop.name for loop in model.loops])]


@pytest.mark.slow
@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("name", [*LINKAGES, *REGULAR])
def test_states_and_accelerations(name: str, digits: int | None) -> None:
    cut = EXACT if digits is None else ROUNDED
    limit = 1e-8 if digits is None else 50.0 * 10.0**-digits
    models = [model for seed in BASES if (model := built(name, digits, seed)) is not None]
    assert len(models) >= len(BASES) // 2
    for model in models:
        for one in variants(model):
            assert closed(one, one.neutral())
            q, v = one.random_state(1)
            tau = np.random.default_rng(0).normal(size=one.nv)
            assert closed(one, q)
            right = motion(one, q, v, tau, cut)
            assert right.missed < (1e-9 if digits is None else limit) * (1.0 + np.abs(right.v).max())
            off = np.abs(accelerations(one, q, v, tau) - right.a).max()
            assert off < limit * np.abs(right.a).max()
            moved = q + 0.01 * np.random.default_rng(1).normal(size=len(q)) * (one.nq == one.nv_spanning)
            found, left = (x.astype(float) for x in lw.close_loops.body(one, moved))
            assert closed(one, found) == (float(left) < one.closure_tolerance.max())
            step = 0.05 * v / max(1.0, np.abs(v).max())
            assert closed(one, floats(lw.integrate, one, q, step))


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("digits", [None, 4, 6])
@pytest.mark.parametrize("name", LINKAGES)
def test_rollouts(name: str, digits: int | None, constrained: bool) -> None:
    """Closed, and along the reference's path, with errors of the integrator or of the digits; or ended truly."""
    model = built(name, digits, 1)
    if model is None:
        return
    q, v = model.random_state(1)
    w = floats(lw.spanning_velocity, model, q, v)
    size = max(np.abs(w).max(), 1e-3)
    v, w = v / size, w / size
    reference = Reference(model, q, EXACT if digits is None else ROUNDED)
    path = reference.follow(q, w, 0.4, np.zeros(model.nv_spanning), tol=1e-8, singular=1e-2)
    regular = path.t[-1] > 0.399
    one, speed = (variants(model)[1], w) if constrained else (model, v)
    coarse = 0.0 if digits is None else 100.0 * 10.0**-digits
    limits = {"semi_implicit_euler": 20.0, "rk4": 2e-3, "implicit_midpoint": 2.0, "rk45": 1e-6}
    for integrator, limit in limits.items():
        if integrator == "implicit_midpoint" and constrained:
            continue  # refused
        for dt in (1e-2, 1e-3):
            found = lw.rollout(
                one, q, speed, dt=dt, steps=round(0.4 / dt), integrator=integrator, limits=False
            )
            last = int(found.steps)
            gaps = lw.closure_error(one, found.q[: last + 1])
            assert (gaps <= one.closure_tolerance).all()
            if not regular:
                assert found.status in (lw.Status.OK, lw.Status.DEAD_POINT)
                continue
            assert found.status == lw.Status.OK
            error = np.abs(found.q[-1] - path.q[-1]).max()
            order = 1e-6 if integrator == "rk45" else limit * dt * (dt if limit < 20.0 else 1.0)
            assert error < order + coarse + 1e-6
