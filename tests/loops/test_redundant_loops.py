"""Loops with redundant equations: all of them count, in states, closing and accelerations, embedded and
constrained alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw
from linkages import floats, numbers, tree
from linkwork.algorithms.loops.conditioning import unit_free_equations, unit_free_family_equations
from linkwork.joints import Spherical, Universal
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.loops.elimination import Elimination
from linkwork.loops.embedding import tree_equations
from redundant_linkages import EXACT, LINKAGES, ROUNDED, accelerations, along, base, motion, redundant
from spatial_mechanisms import around

OVERDETERMINED = [name for name in LINKAGES if "in space" not in name]
RINGS = ["Bennett", "Goldberg", "Myard", "Schatz", "Bricard, trihedral", "Bricard, line", "Bricard, plane"]


def off(model: lw.Model, q: np.ndarray, v: np.ndarray, seed: int, cut: float) -> float:
    """How far accelerations are from those of least residual, relative to these."""
    tau = np.random.default_rng(seed).normal(size=model.nv)
    right = motion(model, q, v, tau, cut).a
    return float(np.abs(accelerations(model, q, v, tau) - right).max() / np.abs(right).max())


@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("name", LINKAGES)
def test_accelerations_satisfy_all_equations(name: str, constrained: bool) -> None:
    model = redundant(name, seed=1, constrained=constrained)
    for seed in range(2):
        q, v = model.random_state(seed)
        assert np.all(lw.closure_error.body(model, q).astype(float) < 1e-9)
        assert off(model, q, v, seed, EXACT) < 1e-8


@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("digits", [4, 5, 6])
@pytest.mark.parametrize("name", ["Bennett", "Bricard, trihedral", "Sarrus"])
def test_rounded_numbers_cost_no_more_than_their_digits(name: str, digits: int, constrained: bool) -> None:
    model = redundant(name, digits, seed=1, constrained=constrained)
    for seed in range(2):
        q, v = model.random_state(seed)
        assert np.all(lw.closure_error.body(model, q).astype(float) <= model.closure_tolerance)
        assert off(model, q, v, seed, ROUNDED) < 50.0 * 10.0**-digits


@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
@pytest.mark.parametrize("name", ["Bennett", "Schatz", "Bricard, trihedral"])
def test_no_choice_of_equations_becomes_dependent_along_the_motion(name: str, constrained: bool) -> None:
    """A fixed choice of as many equations as the rank may: accelerations were wrong, or had no value, there."""
    model, held = (redundant(name, seed=2, constrained=which) for which in (False, True))
    cluster = model.clusters[0]
    rng = np.random.default_rng(0)
    found = []
    for q in along(model, 60, 0.1):
        K = unit_free_equations(model, q)[0].astype(float)
        fixed, every = (
            np.linalg.svd(rows, compute_uv=False)[len(cluster.rows) - 1]
            for rows in (K[list(cluster.rows)], K)
        )
        found.append((fixed / every, q, np.linalg.svd(K)[2][len(cluster.rows) :]))
    if name == "Bennett":
        assert min(ratio for ratio, *_ in found) < 0.7  # the choice is poorer than all of them, somewhere
    for _, q, tangent in sorted(found, key=lambda one: one[0])[:2]:
        own = held if constrained else model.with_independent(*model.independent_at(q))
        v = rng.normal(size=own.nv)
        v = (
            tangent.T @ (tangent @ v) if constrained else v
        )  # hinges only: velocities without units are their own
        assert off(own, q, v, 0, EXACT) < 1e-8


@pytest.mark.parametrize("digits", [None, 5])
@pytest.mark.parametrize("name", OVERDETERMINED)
def test_states_satisfy_all_equations(name: str, digits: int | None) -> None:
    """States from random ones, and from `close_loops`, whose residual is that of all equations."""
    for constrained in (False, True):
        model = redundant(name, digits, seed=3, constrained=constrained)
        q = model.random_state(7)[0]
        assert np.all(lw.closure_error.body(model, q).astype(float) <= model.closure_tolerance)
        moved = q + 0.02 * np.random.default_rng(1).normal(size=model.nq)
        closed, left = lw.close_loops.body(model, moved)
        gaps = lw.closure_error.body(model, closed.astype(float)).astype(float)
        assert np.all(gaps <= model.closure_tolerance) and float(left) <= 1.01 * model.closure_tolerance.max()
        assert float(left) >= gaps.max() / 3.0 - 1e-12


def test_steps_in_single_precision_stay_closed() -> None:
    model = redundant("Bennett", seed=4)
    q, v = model.random_state(0)
    for part in (0.2, 0.4):
        step = (part * v / np.abs(v).max()).astype("float32")
        moved = lw.integrate(model, q.astype("float32"), step, dtype="float32")
        assert np.all(lw.closure_error(model, moved.astype(float)) < 1e-5)
    with pytest.raises(lw.ClosureError, match="cannot be closed after this motion"):
        opened = (q + np.array([0.3, 0.0, -0.2])).astype("float32")
        lw.integrate(model, opened, (1e-3 * v).astype("float32"), dtype="float32")


@pytest.mark.parametrize("name", LINKAGES)
def test_only_equations_that_say_something_are_used(name: str) -> None:
    """Those out of the plane of a planar loop say nothing anywhere, in whatever plane: programs stay as short
    as without.
    """
    clusters = [c for c in redundant(name, seed=5).clusters if c.constraints]
    assert any(c.overdetermined for c in clusters) == (name in OVERDETERMINED)
    for cluster in clusters:
        assert set(cluster.rows) <= {*range(cluster.count)} and len(cluster.used) >= len(cluster.rows)


@pytest.mark.parametrize("seed", range(6))
def test_elimination_of_more_equations_than_unknowns(seed: int) -> None:
    """Least squares, and least norm of the transpose, whatever is structurally zero."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(4, 9))
    n = int(rng.integers(2, 4))
    A = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.7)
    A[:n] += np.eye(n)
    A[-1] = 0.0
    one = rng.normal(size=(m, 3))
    other = rng.normal(size=(n, 2))
    elimination = Elimination(A.astype(object))
    assert np.allclose(elimination.solve(one).astype(float), -np.linalg.pinv(A) @ one, atol=1e-11)
    found = elimination.solve_transposed(other).astype(float)
    assert np.allclose(A.T @ found, -other, atol=1e-11)
    if not (A == 0.0).any():
        assert np.allclose(found, -np.linalg.pinv(A.T) @ other, atol=1e-11)


@pytest.mark.parametrize("name", ["Bennett", "Bricard, trihedral"])
def test_forces_of_rounded_redundant_loops_are_those_of_exact_ones(name: str) -> None:
    """How redundant rows share a load does not depend on the number of digits."""
    exact = redundant(name, None, seed=1, constrained=True)
    J = jacobian_of_rows(exact)
    assert np.linalg.matrix_rank(J, tol=1e-8) < len(J)
    for digits in (4, 5, 6):
        model = redundant(name, digits, seed=1, constrained=True)
        q = model.random_state(1)[0]
        tau = np.ones(model.nv)
        found = lw.constrained_dynamics(model, q, 0 * tau, tau, constraints=())[1]
        right = lw.constrained_dynamics(exact, lw.close_loops(exact, q)[0], 0 * tau, tau, constraints=())[1]
        assert np.abs(found - right).max() < 50.0 * 10.0**-digits * np.abs(right).max()


def jacobian_of_rows(model: lw.Model) -> np.ndarray:
    """All rows of constrained loops in a closed state."""
    return np.asarray(lw.constraint_jacobian(model, model.random_state(1)[0], constraints=()))


@pytest.mark.parametrize("digits", [None, 5])
@pytest.mark.parametrize("name", ["Bennett", "Goldberg", "four-bars, braced"])
def test_accelerations_of_constrained_loops_do_not_depend_on_units(name: str, digits: int | None) -> None:
    """Angular accelerations of a mechanism drawn in micrometres are those of one in metres or kilometres."""
    found = []
    for size in (1.0, 1e-6, 1e3):
        drawing = LINKAGES[name](digits=digits, base=base(1), size=size)
        model = drawing.builder.build(embed=False)
        model = replace(model, gravity=tuple(size * np.array(model.gravity)))
        q, v = model.random_state(0)
        tau = np.random.default_rng(0).normal(size=model.nv) * size**2
        a, *details = lw.forward_dynamics(model, q, v, tau, details=True)
        assert details[-1] == 1
        found.append((q, v, a))
    for other in found[1:]:
        for x, y in zip(found[0], other):
            assert np.allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e2])
def test_derivatives_of_redundant_loops_in_single_precision(size: float) -> None:
    """As exact in millimetres as in metres, though rows in metres and radians then differ by orders."""
    drawing = LINKAGES["Bennett"](base=base(1), size=size)
    model = drawing.builder.build(embed=False)
    model = replace(model, gravity=tuple(size * np.array(model.gravity)))
    q, v = (x.astype(np.float32) for x in model.random_state(1))
    tau = (size**2 * np.random.default_rng(0).normal(size=model.nv)).astype(np.float32)
    single = lw.forward_dynamics_derivatives(model, q, v, tau, dtype="float32")
    double = lw.forward_dynamics_derivatives(model, *(x.astype(float) for x in (q, v, tau)))
    for x, y in zip(single, double):
        assert np.abs(x - y).max() < 1e-4 * np.abs(y).max()
    single = lw.constrained_dynamics_derivatives(model, q, v, tau, constraints=(), dtype="float32")
    double = lw.constrained_dynamics_derivatives(
        model, *(x.astype(float) for x in (q, v, tau)), constraints=()
    )
    for x, y in zip(single, double):
        assert np.abs(x - y).max() < 1e-4 * np.abs(y).max()


# what is refused, and why


def platform(legs: str, count: int, *, regular: bool = False) -> lw.ModelBuilder:
    """A plate on parallel bars of equal length, which moves on a sphere; with balls at both ends, bars spin."""
    kinds = {"U": Universal(), "S": Spherical()}
    first = kinds[legs[0]]
    last = kinds[legs[1]]
    rng = np.random.default_rng(1)
    builder = lw.ModelBuilder("platform")
    solid = {"mass": 1.0, "inertia": np.eye(3) * 0.1}
    points = np.array(
        [around(1.0, 2 * np.pi * k / count)[:2] if regular else rng.normal(size=2) for k in range(count)]
    )
    for k, (x, y) in enumerate(points):
        builder.add_body(f"bar{k}", **solid)
        builder.add_joint(f"bar{k}", first, parent="world", child=f"bar{k}", xyz=(x, y, 0.0))
        if k == 0:
            builder.add_body("plate", **solid)
            builder.add_joint("plate", last, parent="bar0", child="plate", xyz=(0.0, 0.0, 1.0))
        else:
            at = (*(points[k] - points[0]), 0.0)
            builder.add_loop(
                f"loop{k}", last, predecessor=f"bar{k}", successor="plate", xyz=(0, 0, 1), successor_xyz=at
            )
    return builder


def test_platforms_on_parallel_bars_are_singular_and_not_immobile() -> None:
    """Their equations never stop a turn of the plate at first order, though no turn leads anywhere."""
    with pytest.raises(
        lw.ModelError, match=r"singular in every .* leave 3 velocities, but .* in 2 directions only"
    ):
        platform("US", 6).build()
    with pytest.raises(
        lw.ModelError, match="branches of the motion meet there, .* can move in 3 directions; give a start="
    ):
        platform("US", 6, regular=True).build()
    assert platform("UU", 4).build().nv == 1


def test_coarse_numbers_are_told_from_immobile_loops() -> None:
    with pytest.raises(
        lw.ModelError, match="redundant equations miss by up to .* more than the tolerance of 0.0001: give"
    ):
        redundant("Bennett", 4, seed=4)
    assert LINKAGES["Bennett"](digits=4, base=base(4)).builder.build(tolerance=1e-3).nv == 1


@pytest.mark.parametrize("digits", [None, 5])
@pytest.mark.parametrize("constrained", [False, True], ids=["embedded", "constrained"])
def test_rollouts_stay_closed(constrained: bool, digits: int | None) -> None:
    model = redundant("Bennett", digits, seed=1, constrained=constrained)
    q, v = model.random_state(1)
    motion = lw.rollout(model, q, 0.1 * v, dt=1e-2, steps=50)
    assert int(motion.status) == 0
    assert np.all(lw.closure_error(model, motion.q) <= model.closure_tolerance)


@pytest.mark.parametrize("digits", [4, 6, 8])
@pytest.mark.parametrize("name", ["four-bar in space", "Bennett"])
def test_constrained_loops_of_rounded_numbers_move_as_embedded_ones(name: str, digits: int) -> None:
    """Also where redundant equations are dropped and the numbers cannot satisfy them."""
    models = [redundant(name, digits, seed=1, constrained=constrained) for constrained in (False, True)]
    q, v = models[0].random_state(1)
    speeds = v, lw.spanning_velocity(models[0], q, v)
    ends = []
    for model, speed in zip(models, speeds):
        path = lw.rollout(model, q, speed, dt=2e-3, steps=20, integrator="rk4")
        assert path.status == lw.Status.OK
        ends.append(path.q[-1])
    assert np.allclose(*ends, rtol=0.0, atol=20.0 * 10.0**-digits + 1e-9)


def test_derivatives_along_closed_states() -> None:
    """Of embedded loops by q and v; of constrained ones by velocities that keep them closed."""
    model = redundant("Goldberg", seed=7)
    (q, v), tau, h = model.random_state(0), np.ones(1), 1e-6
    by_q, by_v, _ = lw.forward_dynamics_derivatives(model, q, v, tau)
    there, back = (lw.forward_dynamics(model, lw.integrate(model, q, np.array([x])), v, tau) for x in (h, -h))
    assert by_q.ravel() == pytest.approx((there - back) / (2.0 * h), rel=1e-6)
    there, back = (lw.forward_dynamics(model, q, v + x, tau) for x in (h, -h))
    assert by_v.ravel() == pytest.approx((there - back) / (2.0 * h), rel=1e-6)
    held = redundant("Goldberg", seed=7, constrained=True)
    (q, v), tau = held.random_state(0), np.ones(held.nv)
    free = np.linalg.svd(lw.constraint_jacobian(held, q, constraints=()))[2][3]
    by_v = lw.forward_dynamics_derivatives(held, q, v, tau)[1]
    there, back = (lw.forward_dynamics(held, q, v + x * free, tau) for x in (1e-5, -1e-5))
    assert by_v @ free == pytest.approx((there - back) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("digits", [None, 4, 6])
def test_loops_that_were_added_as_constrained_know_their_digits(digits: int | None) -> None:
    """Each loop with `embed=False`: the same states and accelerations as where all are constrained together."""
    builder = LINKAGES["Bennett"](digits=digits, base=base(1)).builder
    for loop in list(builder._constraints.values()):
        builder._constraints[loop.name] = replace(loop, embed=False)
        builder._constrained_names.add(loop.name)
    model = builder.build()
    q, v = model.random_state(0)
    assert np.all(lw.closure_error.body(model, q).astype(float) <= model.closure_tolerance)
    assert off(model, q, v, 0, ROUNDED if digits else EXACT) < (50.0 * 10.0**-digits if digits else 1e-8)


@pytest.mark.parametrize("digits", [4, 5, 6])
@pytest.mark.parametrize("name", ["Bennett", "Bricard, trihedral", "Sarrus"])
def test_random_velocities_of_rounded_loops_move(name: str, digits: int) -> None:
    """Equations that only rounding leaves independent take no velocity away."""
    exact, rounded = (redundant(name, n, seed=1, constrained=True) for n in (None, digits))
    for seed in range(2):
        right, found = (np.abs(model.random_state(seed)[1]).max() for model in (exact, rounded))
        assert found == pytest.approx(right, rel=0.2) and right > 0.01


def energies(model: lw.Model, motion: lw.Rollout) -> np.ndarray:
    """The total energy along a motion, relative to the kinetic energy at its start, without that at its start."""
    every = [lw.kinetic_energy(model, motion.q, motion.v), lw.potential_energy(model, motion.q)]
    found: np.ndarray = (sum(every) - sum(x[0] for x in every)) / every[0][0]
    return found


@pytest.mark.parametrize("name", ["Bennett", "Goldberg", "Myard"])
def test_steps_of_constrained_redundant_loops_have_order_four(name: str) -> None:
    """Their stages are open, where equations that are redundant in closed states contradict each other."""
    model = redundant(name, seed=1, constrained=True)
    q, v = model.random_state(1)
    v = v / np.abs(v).max()
    errors = []
    for dt in (0.02, 0.01):
        motion = lw.rollout(model, q, v, dt=dt, steps=round(0.6 / dt), integrator="rk4")
        assert int(motion.status) == 0
        errors.append(np.abs(energies(model, motion)).max())
    assert errors[1] < 1e-5 and errors[0] > 8.0 * errors[1]


@pytest.mark.parametrize("name", ["Bennett", "Schatz", "Sarrus"])
def test_loop_forces_hold_the_tree_with_least_norm(name: str) -> None:
    """M v̇ + c = τ + Kᵀ λ for the equations in use, wherever a choice of some becomes dependent."""
    model = redundant(name, seed=2)
    for k, q in enumerate(along(model, 40, 0.15)):
        if k % 5:
            continue
        own = model.with_independent(*model.independent_at(q))
        (cluster,) = (c for c in own.clusters if c.constraints)
        v = np.ones(1)
        a = floats(lw.forward_dynamics, own, q, v, np.zeros(1))
        w = floats(lw.spanning_velocity, own, q, v)
        needed = floats(lw.inverse_dynamics, tree(own), q, w, floats(lw.spanning_acceleration, own, q, v, a))
        K = numbers(tree_equations(own, cluster, q)[0])[list(cluster.used)]
        right = np.linalg.pinv(K.T, rcond=EXACT) @ needed
        found = floats(lw.loop_forces, own, q, v, a, None, np.zeros(own.nv_spanning))
        assert len(found) == len(cluster.used)
        assert np.abs(found - right).max() < 1e-8 * np.abs(right).max()


@pytest.mark.parametrize("digits", [None, 5])
def test_derivatives_of_redundant_constrained_loops(digits: int | None) -> None:
    """Of accelerations and of the forces that are returned, by velocities that open the loops too."""
    model = redundant("Bennett", digits, seed=1, constrained=True)
    q, v = model.random_state(1)
    rng = np.random.default_rng(0)
    v = v + rng.normal(size=model.nv)
    tau, along_q, along_v = rng.normal(size=(3, model.nv))

    def solved(x: float) -> tuple[np.ndarray, np.ndarray]:
        a, f = lw.constrained_dynamics(model, q + x * along_q, v + x * along_v, tau, constraints=())
        return a, f

    h = 1e-3
    right = [(y - x) / (2.0 * h) for x, y in zip(solved(-h), solved(h))]
    by = lw.constrained_dynamics_derivatives(model, q, v, tau, constraints=())
    found = [by[k] @ along_q + by[k + 1] @ along_v for k in (0, 3)]
    for x, y in zip(found, right):
        assert np.abs(x - y).max() < 1e-4 * np.abs(y).max()
    whole = lw.jacobian(lw.constrained_dynamics, model, wrt=("q", "v"), constraints=())(q, v, tau)
    assert len(whole) == 4
    for x in whole:
        assert any(x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-9) for y in by)


@pytest.mark.parametrize(("digits", "seed"), [(4, 1), (6, 0)])
def test_rounded_linkages_stay_on_the_branch_that_was_drawn(digits: int, seed: int) -> None:
    """Three legs close exactly where they are folded, with more mobility, and as drawn up to rounding only."""
    for constrained in (False, True):
        model = redundant("Sarrus, three legs", digits, seed, constrained=constrained)
        assert model.nv == (7 if constrained else 1)
        assert np.abs(model.neutral()).max() < 1e-3
        q, v = model.random_state(0)
        assert off(model, q, v, 0, ROUNDED) < 50.0 * 10.0**-digits


def test_random_states_have_the_rank_of_the_model() -> None:
    """A plate on three parallel bars also turns, on a branch with one degree of freedom less."""
    model = redundant("parallel bars", 4, 0, constrained=True)
    for seed in range(4):
        q, v = model.random_state(seed)
        K = unit_free_family_equations(model, q)[0].astype(float)
        s = np.linalg.svd(K, compute_uv=False)
        assert s[6] < 1e-3 * s[0] < s[5]
        assert off(model, q, v, seed, ROUNDED) < 1e-2


def test_rounded_linkages_move_as_far_as_they_are_tolerated() -> None:
    """A whole turn, in which equations miss by more than near the start; NOT_CLOSED where they may not."""
    model = redundant("Bennett", 4, seed=1)
    q, v = model.random_state(1)
    v = 2.0 * v / np.abs(lw.spanning_velocity(model, q, v)).max()
    motion = lw.rollout(model, q, v, dt=0.02, steps=200)
    assert motion.status == lw.Status.OK
    assert (lw.closure_error(model, motion.q) <= model.closure_tolerance).all()
    strict = model.with_clusters(
        tuple(replace(c, slack=tuple(x / 3.5 for x in c.slack)) for c in model.clusters)
    )
    start = next(q for q in motion.q if (lw.closure_error(model, q) <= strict.closure_tolerance).all())
    stopped = lw.rollout(strict, start, v, dt=0.02, steps=200)
    assert stopped.status == lw.Status.NOT_CLOSED


def test_accelerations_of_a_bricard_linkage_where_equations_become_dependent() -> None:
    """At half a turn of the first hinge the others move as 2 / √3, whatever is chosen."""
    model = lw.robots.bricard()
    held = model.with_loops(constrain=[loop.name for loop in model.loops])
    problem = ClosureProblem(model, model.clusters[0].bodies, model.clusters[0].constraints)
    q = model.neutral()
    before = np.array([-1.0, 0.0, 0.0, 0.0, 0.0])
    while q[0] > -1.5702:
        tangent = np.linalg.svd(problem.at(q)[1])[2][-1]
        before = tangent * np.sign(tangent @ before)
        q = problem.retract(q, before * min(0.02, (q[0] + 1.5702) / abs(before[0]) + 1e-12))
        for _ in range(4):
            q = problem.retract(q, -np.linalg.lstsq(problem.at(q)[1], problem.at(q)[0], rcond=EXACT)[0])
    w = np.linalg.svd(problem.at(q)[1])[2][-1]
    w = -2.0 * w / w[0]
    a = floats(lw.forward_dynamics, held, q, w, np.zeros(5))
    assert abs(a[3]) == pytest.approx(2.0 / np.sqrt(3.0), rel=1e-4)
    assert np.abs(a - motion(held, q, w, np.zeros(5), EXACT).a).max() < 1e-9
