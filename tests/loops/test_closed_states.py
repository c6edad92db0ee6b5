"""What functions assume of configurations: every docstring says it, and `check=True` looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.loops.conditioning import unit_free_family_equations
from redundant_linkages import redundant

OPEN = ("close_loops", "closure_error")  # they take open states


def test_every_docstring_says_what_is_assumed() -> None:
    for name in lw.__all__:
        fn = getattr(lw, name)
        if isinstance(fn, lw.ModelFunction) and name not in OPEN:
            states = [word for word, shape in fn.shapes.items() if shape == "nq"]
            assert (
                f"Loops are assumed to be closed at {' and '.join(states)}; `check=True` raises" in fn.__doc__
            ), name


@pytest.mark.parametrize("held", [False, True])
def test_open_states_are_refused_by_row_loop_and_amount(held: bool) -> None:
    model = lw.robots.five_bar()
    model = model.with_loops(constrain=[loop.name for loop in model.loops]) if held else model
    q = model.neutral()
    still = np.zeros(model.nv)
    away = q + 0.1
    gap = lw.closure_error(model, away)[0, 0]
    words = f"loop 'tip_joint' is open by {gap:.2g} m"
    tau = lw.inverse_dynamics(model, q, still, still)
    assert (lw.inverse_dynamics(model, q, still, still, check=True) == tau).all()
    assert (
        lw.inverse_dynamics(model, away, still, still, check=False)
        == lw.inverse_dynamics(model, away, still, still)
    ).all()
    with pytest.raises(lw.ClosureError, match=f"inverse_dynamics: q is not closed: {words}"):
        lw.inverse_dynamics(model, away, still, still, check=True)
    states = np.stack([[q, q], [q, away], [away, q]])
    with pytest.raises(lw.ClosureError, match=rf"q is not closed in row \(1, 1\): {words}.* 2 rows are open"):
        lw.inverse_dynamics(model, states, still, still, check=True)
    with pytest.raises(lw.ClosureError, match=f"difference: q1 is not closed in row 1: {words}"):
        lw.difference(model, q, np.stack([q, away]), check=True)
    with pytest.raises(lw.ClosureError, match="open by nan m"):
        lw.mass_matrix(model, q * np.nan, check=True)
    single = lw.mass_matrix(model, q.astype(np.float32), dtype="float32", check=True)
    assert single.dtype == np.float32


def test_states_are_closed_for_the_parameters_of_the_call() -> None:
    model = lw.robots.four_bar()
    place = model.parameters()["loop_placement"] * ([1.1] * 3 + [1.0] * 4)
    other = model.with_parameters({"loop_placement": place})
    q = other.random_state(1)[0]
    mass = model.parameters()["mass"]
    both: dict[str, Any] = {"loop_placement": place, "mass": mass * np.ones((2, 1))}
    assert lw.mass_matrix(model, q, parameters=both, check=True).shape == (2, 1, 1)
    with pytest.raises(lw.ClosureError, match="mass_matrix: q is not closed: loop"):
        lw.mass_matrix(model, q, check=True)


def test_what_cannot_be_checked_is_refused() -> None:
    model, arm = lw.robots.five_bar(), lw.robots.arm()
    q = model.neutral()
    with pytest.raises(lw.ModelError, match="check: expected True or False"):
        lw.mass_matrix(model, q, check="yes")
    with pytest.raises(lw.ModelError, match="close_loops: check=True"):
        lw.close_loops(model, q, check=True)
    with pytest.raises(lw.ModelError, match="elsewhere call lw.closure_error"):
        lw.trace(lambda q: lw.mass_matrix(model, q, check=True), {"q": (model.nq,)})
    assert lw.mass_matrix(arm, arm.neutral(), check=True).shape == (arm.nv, arm.nv)


@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("name", ["Bricard, line", "parallel bars"])
def test_closed_states_on_branches_of_higher_rank_are_refused(name: str, constrained: bool) -> None:
    """There more equations are independent: the model's velocities would open the loops."""
    free = redundant(name, seed=1, constrained=True)
    starts = np.random.default_rng(0).uniform(-3.0, 3.0, (60, free.nq))
    q = lw.close_loops(free, starts)[0]
    q = q[(lw.closure_error(free, q) <= free.closure_tolerance).all(axis=(1, 2))]
    K = [unit_free_family_equations(free, each)[0].astype(float) for each in q]
    s = np.array([np.linalg.svd(each, compute_uv=False) for each in K])
    rank = len(free.v_names) - redundant(name, seed=1).nv
    model = redundant(name, seed=1, constrained=constrained)
    right, wrong = q[s[:, rank] < 1e-8 * s[:, 0]], q[s[:, rank] > 1e-2 * s[:, 0]]
    assert len(right) > 1 and len(wrong) > 1
    assert np.isfinite(lw.kinetic_energy(model, right, np.ones(model.nv), check=True)).all()
    with pytest.raises(
        lw.ClosureError, match="mass_matrix: q is closed on another branch of the mechanism: "
    ):
        lw.mass_matrix(model, wrong[0], check=True)
    with pytest.raises(lw.ClosureError, match=f"another branch of the mechanism in row {len(right)}: "):
        lw.mass_matrix(model, np.concatenate([right, wrong]), check=True)
    for options in ({}, {"dtype": "float32"}):
        path = lw.rollout(model, wrong[:2], np.full(model.nv, 0.1), dt=1e-3, steps=2, **options)
        assert (path.status == lw.Status.NOT_CLOSED).all()
