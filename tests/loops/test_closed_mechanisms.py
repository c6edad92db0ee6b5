"""The collection of closed mechanisms: they load, have the mobility of mechanism theory, and their states are
closed, stay on one branch, and move as a KKT solve with 40 digits says."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest

import linkwork as lw
import spatial_mechanisms as spatial
from closed_mechanisms import CATALOGUE, Mechanism, side_signs
from drawings import Drawing, frame
from linkages import floats
from linkwork.joints import Fixed, Prismatic, Revolute, Rod
from linkwork.model import WORLD, Model
from mp_mechanics import Tree, constrained_motion

EPS = float(np.finfo(float).eps)
QUICK = [name for name, mechanism in CATALOGUE.items() if not mechanism.large]
ALL = list(CATALOGUE)
STATES = int(
    os.environ.get("LINKWORK_STATES", "100")
)  # of each mechanism in the long tests: 1000 take two hours
slow = pytest.mark.slow
third = pytest.mark.sweep(3)


def test_there_are_many() -> None:
    assert len(CATALOGUE) >= 100 and len(QUICK) >= 60


def tree(model: Model, q: np.ndarray) -> Tree:
    return Tree(model, q, jacobians=False)


def misses(mechanism: Mechanism, q: np.ndarray) -> float:
    """How far loops are from closed, relative to the mechanism's size, or in radians."""
    model = mechanism.model()
    return tree(model, q).misses(model.embedded, mechanism.drawing().size)


def signs(mechanism: Mechanism, q: np.ndarray) -> list[int]:
    model = mechanism.model()
    there = tree(model, q).places
    named = {
        WORLD: there[-1],
        "base": there[-1],
        **{body.name: there[k] for k, body in enumerate(model.bodies)},
    }
    return side_signs(mechanism.drawing(), named)


def allowed(mechanism: Mechanism) -> float:
    return max(1e-12, mechanism.gap)


def check_states(mechanism: Mechanism, count: int, seed: int) -> None:
    model = mechanism.model()
    rng = np.random.default_rng(seed)
    branch = signs(mechanism, model.tree_neutral())
    assert 0 not in branch
    for n in range(count):
        q, _ = model.random_state(rng)
        assert misses(mechanism, q) <= allowed(mechanism), n
        assert signs(mechanism, q) == branch, n


def independent_indices(model: Model) -> np.ndarray:
    """Where each entry of v is in the spanning velocity."""
    names = [name for joint in model.joints for name in joint.v_names]
    return np.array([names.index(name) for name in model.v_names])


def check_dynamics(mechanism: Mechanism, count: int, seed: int, call: Any) -> None:
    """Spanning velocity and acceleration against the oracle: 100 × what the conditioning of its KKT system
    allows.
    """
    model = mechanism.model()
    rng = np.random.default_rng(seed)
    size = mechanism.drawing().size
    places = independent_indices(model)
    for n in range(count):
        q, v = model.random_state(rng)
        tau = rng.normal(size=model.nv_spanning)
        right = constrained_motion(model, q, v, tau, places, size)
        a = call(lw.forward_dynamics, model, q, v, call(lw.independent_force, model, q, tau))
        found = call(lw.spanning_velocity, model, q, v), call(lw.spanning_acceleration, model, q, v, a)
        most = 100 * right.condition * max(EPS, mechanism.gap)
        for got, want in zip(found, (right.v, right.a)):
            error = np.abs((got - want) * right.scale).max() / np.abs(want * right.scale).max()
            assert error <= most, (n, error, most)


def compiled(function: Any, *args: Any) -> np.ndarray:
    return function(*args)


@pytest.mark.parametrize("name", QUICK)
def test_mobility(name: str) -> None:
    mechanism = CATALOGUE[name]
    assert mechanism.model().nv == mechanism.freedom


@pytest.mark.parametrize("name", QUICK)
@third
def test_states_are_closed_and_on_one_branch(name: str) -> None:
    check_states(CATALOGUE[name], 5, 1)


@pytest.mark.parametrize("name", QUICK)
def test_neutral_is_what_was_drawn(name: str) -> None:
    """A state that is closed is returned as it is."""
    mechanism = CATALOGUE[name]
    model = mechanism.model()
    q = model.neutral()
    drawn = model.tree_neutral()
    assert misses(mechanism, q) <= allowed(mechanism)
    if misses(mechanism, drawn) < 1e-14:
        assert np.abs(q - drawn).max() < 1e-12


@pytest.mark.parametrize("name", QUICK)
@third
def test_dynamics_to_40_digits(name: str) -> None:
    check_dynamics(CATALOGUE[name], 1, 2, floats)


def test_equations_are_kept_that_stay_independent() -> None:
    """Those of Goldberg's linkage that are best in one state say nearly the same in others."""
    check_dynamics(CATALOGUE["Goldberg"], 4, 4, floats)


@slow
@pytest.mark.parametrize("name", ALL)
def test_many_states(name: str) -> None:
    mechanism = CATALOGUE[name]
    assert mechanism.model().nv == mechanism.freedom
    check_states(mechanism, STATES, 3)


@slow
@pytest.mark.parametrize("name", ALL)
def test_dynamics_at_many_states(name: str) -> None:
    check_dynamics(CATALOGUE[name], max(2, STATES // 100), 4, compiled)


# what cannot be closed


def too_far() -> Drawing:
    """Bars of 0.3, 0.8 and 0.6 m over 3 m."""
    d = Drawing("too far")
    d.bar("crank", WORLD, (0, 0))
    d.bar("coupler", "crank", (0.3, 0))
    d.bar("rocker", WORLD, (3.0, 0))
    d.loop(Revolute(), "coupler", "rocker", (1.1, 0, 0), (2.4, 0, 0), name="the pin")
    return d


def rod_too_long() -> Drawing:
    d = Drawing("rod too long")
    d.bar("crank", WORLD, (0, 0))
    d.slider("slider", WORLD, (0, 0, 0), (0, 1))
    d.loop(Rod(3.0), "crank", WORLD, (0.2, 0, 0), (0.3, 0.4, 1.2), name="the rod")
    return d


def tilted_weld() -> Drawing:
    """Three hinges in the plane cannot tilt a body by 0.3 rad."""
    d = Drawing("tilted weld")
    on = WORLD
    for k in range(4):
        on = d.bar(f"bar {k}", on, (0.5 * k, 0.1 * k * k))
    at = frame((1.5, 1.0, 0))
    tilted = frame((1.5, 1.0, 0), (0.0, np.sin(0.3), np.cos(0.3)), (1.0, 0.0, 0.0))
    d.loop(Fixed(), on, WORLD, at, tilted, name="the weld")
    return d


def crossed_rails() -> Drawing:
    """A slider and a rail that pass each other at 0.25 m."""
    d = Drawing("crossed rails")
    d.body("slider", WORLD, Prismatic((1.0, 0.0, 0.0)), (0, 0, 0))
    d.bar("bar", "slider", (0, 0))
    d.loop(Prismatic((0.0, 1.0, 0.0)), "bar", WORLD, (0.1, 0, 0), (0.1, 0, 0.25), name="the rail")
    return d


@pytest.mark.parametrize(
    ("draw", "name", "gap", "unit"),
    [(too_far, "the pin", 1.3, "m"), (rod_too_long, "the rod", 1.6, "m"), (tilted_weld, "the weld", 0.3, "rad"),
     (crossed_rails, "the rail", 0.25, "m")],
)  # fmt: skip
def test_what_cannot_be_closed_is_refused_with_its_gap(draw: Any, name: str, gap: float, unit: str) -> None:
    with pytest.raises(lw.ModelError, match=re.escape(name)) as told:
        draw().builder.build()
    numbers = [float(x) for x in re.findall(rf"([0-9.]+(?:e[-+]?\d+)?) {unit}\b", str(told.value))]
    assert any(abs(x - gap) < 0.02 * gap for x in numbers), str(told.value)


def test_equations_that_tie_supports_are_not_taken_for_redundant() -> None:
    """A rod between a crank and the plate, which hangs elsewhere, follows both in one state, but not where
    they go.
    """
    assert spatial.delta_on_a_rod(digits=4).builder.build(tolerance=2e-3).nv == 3
