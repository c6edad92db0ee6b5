"""Loop equations are eliminated by structure: right for any regular system, NaN for singular ones, linear in
legs and bars.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.count import count_operations
from linkwork.joints import Revolute, Spherical
from linkwork.loops.block_triangular import block_triangular_form, maximum_matching
from linkwork.loops.elimination import Elimination, rounded_up
from linkwork.loops.embedding import tree_equations

EPS = float(np.finfo(float).eps)


def traced(A: np.ndarray, b: np.ndarray, sizes: np.ndarray | None = None) -> Any:
    """The program that solves A x + b = 0, with the zeros of A and b as its structure."""
    at, of = np.argwhere(A != 0.0), np.argwhere(b != 0.0)

    def solve(entries: Any, others: Any) -> Any:
        matrix = np.zeros(A.shape, dtype=object)
        right = np.zeros(b.shape, dtype=object)
        for k, place in enumerate(at):
            matrix[tuple(place)] = entries[k]
        for k, place in enumerate(of):
            right[tuple(place)] = others[k]
        return Elimination(matrix, sizes).solve(right)

    return trace(solve, {"entries": len(at), "others": len(of)})


def solved(A: np.ndarray, b: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """x of A x + b = 0 by that program, interpreted."""
    return np.asarray(interpret(traced(A, b, sizes), A[A != 0.0], b[b != 0.0]), dtype=float).reshape(b.shape)


def random_sparse(rng: np.random.Generator, n: int, filled: int) -> np.ndarray:
    """A regular matrix with a permuted diagonal and some more entries."""
    A = np.zeros((n, n))
    A[np.arange(n), rng.permutation(n)] = rng.uniform(0.5, 2.0, n) * rng.choice([-1.0, 1.0], n)
    for _ in range(filled):
        A[rng.integers(n), rng.integers(n)] = rng.normal()
    return A


def bordered(rng: np.random.Generator, more: int) -> np.ndarray:
    """The pattern of a parallel robot: six legs of three equations in two velocities of their own and six of
    a platform.

    There are `more` legs that are not driven, with three velocities of their own.
    """
    A = np.zeros((18 + 3 * more, 18 + 3 * more))
    A[:, -6:] = rng.normal(size=(len(A), 6))
    for k in range(6):
        A[3 * k : 3 * k + 3, 2 * k : 2 * k + 2] = rng.normal(size=(3, 2))
    for k in range(more):
        A[18 + 3 * k : 21 + 3 * k, 12 + 3 * k : 15 + 3 * k] = rng.normal(size=(3, 3))
    return A


def ring(rng: np.random.Generator, links: int) -> np.ndarray:
    """The pattern of loops around a ring: each has two equations in its own two velocities and in those of
    the next.
    """
    A = np.zeros((2 * links, 2 * links))
    for k in range(links):
        own = 2 * k + np.arange(2)
        following = (2 * k + 2 + np.arange(2)) % (2 * links)
        A[np.ix_(own, own)], A[np.ix_(own, following)] = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    return A


def exact(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of A x + b = 0 with 60 digits."""
    with mpmath.workdps(60):
        x = mpmath.lu_solve(mpmath.matrix(A.tolist()), -mpmath.matrix(b.tolist()))
        return np.array([float(y) for y in x])


@pytest.mark.parametrize("seed", range(12))
def test_random_sparse_systems_are_solved_to_what_their_condition_allows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    A = random_sparse(rng, n, int(rng.integers(0, 3 * n)))
    b = rng.normal(size=n)
    if np.linalg.cond(A) > 1e10:
        pytest.skip("singular by chance")
    x = exact(A, b)
    for found in (
        solved(A, b),
        solved(A, b, np.abs(A)),
        Elimination(A.astype(object)).solve(b).astype(float),
    ):
        assert np.abs(found - x).max() <= 100.0 * EPS * np.linalg.cond(A) * np.abs(x).max()


@pytest.mark.parametrize("seed", range(12))
def test_transposed_systems_are_solved_by_the_same_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    A = random_sparse(rng, n, int(rng.integers(0, 3 * n)))
    b = rng.normal(size=(n, 2))
    A *= rng.choice([1.0, 1e-6], n)[:, None]  # rows in other units are scaled
    if np.linalg.cond(A / np.abs(A).max(axis=1, keepdims=True)) > 1e8:
        pytest.skip("singular by chance")
    for sizes in (None, rounded_up(np.abs(A))):
        factors = Elimination(A.astype(object), sizes)
        factors.solve(b)  # it may not change them
        found = factors.solve_transposed(b).astype(float)
        for column, right in zip(found.T, b.T):
            x = exact(A.T, right)
            assert np.abs(column - x).max() <= 1e-7 * np.abs(x).max()
            assert np.array_equal(column, factors.solve_transposed(right).astype(float))
    assert np.isnan(Elimination(np.zeros((2, 2))).solve_transposed(np.ones(2)).astype(float)).all()


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e9])
def test_ill_conditioned_blocks_lose_no_more_than_they_must(condition: float) -> None:
    rng = np.random.default_rng(3)
    for n in (2, 3, 5, 8):
        U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
        A = U @ np.diag(np.geomspace(1.0, 1.0 / condition, n)) @ V
        b = rng.normal(size=n)
        x = exact(A, b)
        assert np.abs(solved(A, b) - x).max() <= 100.0 * EPS * condition * np.abs(x).max()


def test_rows_in_other_units_cost_no_digits() -> None:
    rng = np.random.default_rng(5)
    A = rng.normal(size=(6, 6))
    b = rng.normal(size=6)
    units = np.array([1.0, 1e-7, 1.0, 1e-7, 1e-7, 1.0])
    x = exact(A * units[:, None], b * units)
    found = solved(A * units[:, None], b * units, rounded_up(np.abs(A) * units[:, None]))
    assert np.abs(found - x).max() <= 100.0 * EPS * np.linalg.cond(A) * np.abs(x).max()


def test_the_form_is_block_triangular_and_as_fine_as_can_be() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        n = int(rng.integers(1, 6))
        A = random_sparse(rng, n, int(rng.integers(0, 2 * n)))
        form = block_triangular_form([np.flatnonzero(row).tolist() for row in A])
        assert form is not None
        order = [i for rows, _ in form for i in rows], [j for _, columns in form for j in columns]
        assert sorted(order[0]) == sorted(order[1]) == list(range(n))
        P, start = A[np.ix_(*order)], 0
        for rows, _ in form:
            stop = start + len(rows)
            assert not P[start:stop, stop:].any()
            block = P[start:stop, start:stop] != 0.0
            for size in range(1, len(rows)):  # no permutation leaves a block of zeros above the diagonal
                for some in permutations(range(len(rows)), size):
                    assert np.count_nonzero(block[list(some)].any(axis=0)) > size
            start = stop


def test_a_matching_is_as_large_as_the_structural_rank() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        n = int(rng.integers(1, 8))
        pattern = rng.random((n, n)) < 0.3
        rank = max(np.linalg.matrix_rank(pattern * rng.normal(size=(n, n))) for _ in range(3))
        matched = maximum_matching([np.flatnonzero(row).tolist() for row in pattern])
        assert len(matched) == rank == len(set(matched.values()))
        assert all(pattern[i, j] for i, j in matched.items())


def test_what_is_singular_is_nan_with_all_that_depends_on_it_and_nothing_else() -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 5):
        good = rng.normal(size=(n, n))
        bad = rng.normal(size=(n, n))
        bad[-1] = bad[:-1].sum(axis=0) * (1.0 + EPS) if n > 1 else 1e-17
        A = np.zeros((3 * n, 3 * n))
        A[:n, :n], A[n : 2 * n, n : 2 * n], A[2 * n :, 2 * n :] = good, bad, good
        A[2 * n, n] = 1.0
        x = solved(A, np.ones(3 * n), np.where(A == 0.0, 0.0, 1.0))
        assert np.isfinite(x[:n]).all() and np.isnan(x[n:]).all()
        for unit in (1e-9, 1.0, 1e9):
            sizes = np.full((n, n), unit)
            assert np.isnan(solved(bad * unit, np.ones(n), sizes)[-1])
            assert np.isfinite(solved(good * unit, np.ones(n), sizes)).all()


def test_a_matrix_without_a_diagonal_is_nan() -> None:
    A = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 1.0, 0.0]], dtype=object)
    assert np.isnan(Elimination(A).solve(np.ones(3)).astype(float)).all()


def operations(A: np.ndarray, b: np.ndarray) -> int:
    return count_operations(traced(A, b))["total"]


def test_legs_cost_the_same_each_and_come_before_their_platform() -> None:
    rng = np.random.default_rng(4)
    six, seven, nine = (operations(bordered(rng, more), rng.normal(size=18 + 3 * more)) for more in (0, 1, 3))
    assert nine - seven <= 2 * (seven - six) and six < 1300  # as one dense system: 5400


def test_a_large_ring_costs_the_same_for_each_link() -> None:
    rng = np.random.default_rng(4)
    five, ten, twenty = (operations(ring(rng, links), rng.normal(size=2 * links)) for links in (5, 10, 20))
    assert twenty - ten <= 2.05 * (ten - five)


def test_zeros_of_right_hand_sides_stay() -> None:
    A = np.kron(np.eye(3), np.array([[1.5, 2.0], [0.5, 1.0]]))
    b = np.zeros((6, 3))
    b[0, 0] = b[2, 1] = b[5, 2] = 1.0
    x = Elimination(A.astype(object)).solve(b)
    assert np.array_equal(x != 0.0, np.kron(np.eye(3), np.ones((2, 1))) != 0.0)


def ladder(bars: int, loop: Any = None) -> lw.Model:
    """Upright bars on the ground, and level ones that hinge each tip to the next: one cluster."""
    builder = lw.ModelBuilder(f"ladder of {bars}")
    hinge = Revolute((0.0, 1.0, 0.0))
    for k in range(bars + 1):
        builder.add_body(f"up_{k}", mass=1.0, center=(0.0, 0.0, 0.5), inertia=(0.1, 0.1, 0.01))
        builder.add_joint(
            f"up_{k}", hinge, parent="world", child=f"up_{k}", xyz=(float(k), 0.0, 0.0), independent=k == 0
        )
    for k in range(bars):
        builder.add_body(f"level_{k}", mass=1.0, center=(0.5, 0.0, 0.0), inertia=(0.01, 0.1, 0.1))
        builder.add_joint(
            f"level_{k}", hinge, parent=f"up_{k}", child=f"level_{k}", xyz=(0.0, 0.0, 1.0), independent=False
        )
        ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.0, 0.0, 1.0)}
        builder.add_loop(
            f"loop_{k}", loop or hinge, predecessor=f"level_{k}", successor=f"up_{k + 1}", **ends
        )
    return builder.build()


@pytest.mark.parametrize("loop", [None, Spherical()])
def test_a_ladder_costs_the_same_for_each_bar(loop: Any) -> None:
    two, three, four = (
        lw.count_operations(lw.forward_dynamics, ladder(bars, loop))["total"] for bars in (2, 3, 4)
    )
    assert four - three <= 1.02 * (three - two)


@pytest.mark.parametrize("function", [lw.forward_dynamics, lw.inverse_dynamics])
def test_a_flat_parallelogram_is_nan(function: Any) -> None:
    model = lw.robots.four_bar()
    flat = function(model, np.zeros(3), np.ones(1), np.ones(1))
    near = function(model, np.array([1e-3, -1e-3, 1e-3]), np.ones(1), np.ones(1))
    assert np.isnan(flat).all() and np.isfinite(near).all()


SINGULAR_FUNCTIONS = {
    lw.forward_dynamics: 2,
    lw.inverse_dynamics: 2,
    lw.mass_matrix: 0,
    lw.mass_matrix_inverse: 0,
    lw.bias_force: 1,
    lw.gravity_force: 0,
    lw.kinetic_energy: 1,
    lw.momentum: 1,
    lw.spanning_velocity: 1,
    lw.spanning_acceleration: 2,
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("function", SINGULAR_FUNCTIONS, ids=lambda f: f.__name__)
def test_where_coordinates_are_singular_nothing_is_infinite_or_absurd(function: Any, dtype: str) -> None:
    model = sliding(1.0)
    size = 1e-5 if dtype == "float32" else 1e-13
    more = [np.full((3, 1), 0.7, dtype)] * SINGULAR_FUNCTIONS[function]
    angles = [
        np.pi / 2,
        np.pi / 2 + 0.01 * size,
        0.3,
    ]  # the crank is upright: the slider's velocity says nothing of its own
    q = np.array([closed_slider(x) for x in angles], dtype)
    found = function(model, q, *more, dtype=dtype)
    for row in np.reshape(found[:2], (2, -1)):
        assert np.isnan(row).any() and not np.isinf(row).any() and (np.abs(row[np.isfinite(row)]) < 1e4).all()
    assert np.isfinite(found[2]).all()


START = 0.8  # angle of the crank at zero [rad]


def sliding(scale: float) -> lw.Model:
    """A crank and a rod of the same length, and a slider that moves them: where the crank is upright, it
    cannot.
    """
    builder = lw.ModelBuilder("slider first")
    hinge = Revolute((0.0, 1.0, 0.0))
    figures: Any = {"mass": 1.0, "center": (0.5 * scale, 0.0, 0.0), "inertia": (scale**2, scale**2, scale**2)}
    for body in ("crank", "rod", "slider"):
        builder.add_body(body, **figures)
    builder.add_joint("crank", hinge, parent="world", child="crank", rpy=(0.0, START, 0.0), independent=False)
    at: Any = {"xyz": (scale, 0.0, 0.0), "rpy": (0.0, -2.0 * START, 0.0)}
    builder.add_joint("rod", hinge, parent="crank", child="rod", **at, independent=False)
    slide = lw.joints.Prismatic((1.0, 0.0, 0.0))
    out = 2.0 * scale * np.cos(START)
    builder.add_joint("slider", slide, parent="world", child="slider", xyz=(out, 0.0, 0.0), independent=True)
    return builder.add_loop(
        "pin", hinge, predecessor="rod", successor="slider", xyz=(scale, 0.0, 0.0)
    ).build()


def closed_slider(angle: float, scale: float = 1.0) -> list[float]:
    """Its coordinates for an angle of the crank."""
    return [angle - START, -2.0 * (angle - START), 2.0 * scale * (np.cos(angle) - np.cos(START))]


def spanning_oracle(model: lw.Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """All joints' velocities from the loop equations with 60 digits, and what their condition lets an error
    be.
    """
    (cluster,) = model.clusters
    K = tree_equations(model, cluster, q)[0].astype(float)[list(cluster.rows)]
    A = K[:, cluster.dependent]
    own = list(cluster.independent)
    found = np.zeros(model.nv_spanning)
    found[own], found[cluster.dependent] = v, exact(A, K[:, own] @ v)
    lengths = np.linalg.norm(A, axis=0)
    return found, EPS * float(np.linalg.cond(A / lengths)) * float(np.abs(found).max())


@pytest.mark.parametrize(
    "robot", [lw.robots.stewart, lw.robots.delta, lw.robots.bricard, lw.robots.watt, lw.robots.six_bar]
)
def test_velocities_of_robots_are_as_good_as_the_condition_of_their_loops(robot: Any) -> None:
    model = robot()
    rng = np.random.default_rng(6)
    for _ in range(3):
        q, v = model.random_state(rng)
        expected, allowed = spanning_oracle(model, q, v)
        assert np.abs(lw.spanning_velocity(model, q, v) - expected).max() <= 100.0 * allowed


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_regular_and_singular_are_told_apart_at_any_scale(scale: float) -> None:
    model = sliding(scale)
    q = np.array([closed_slider(x, scale) for x in (0.5, np.pi / 2)])
    v = lw.spanning_velocity(model, q, np.full((2, 1), scale))
    crank = -1.0 / (2.0 * np.sin(0.5))
    assert v[0] == pytest.approx([crank, -2.0 * crank, scale], rel=1e-12)
    assert np.isnan(v[1, 0]) and v[1, 2] == scale


def test_parallel_robots_are_not_solved_as_one_dense_system() -> None:
    for robot, bound in ((lw.robots.stewart, 6000), (lw.robots.delta, 4000)):
        assert lw.count_operations(lw.forward_dynamics, robot())["total"] < bound
