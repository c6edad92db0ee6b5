"""Loop equations are eliminated by structure: right for any regular system, NaN for singular ones, linear in legs and bars."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest

import linkwork as lw
from linkwork.ir.interpret import interpret
from linkwork.ir.trace import trace
from linkwork.joints import Revolute, Spherical
from linkwork.passes.count import count_operations
from linkwork.topology.block_triangular import block_triangular_form, maximum_matching
from linkwork.topology.elimination import Elimination, rounded_up

EPS = float(np.finfo(float).eps)


def traced(A: np.ndarray, b: np.ndarray, sizes: np.ndarray | None = None) -> Any:
    """The program that solves A x + b = 0, with the zeros of A and b as its structure."""
    at, of = np.argwhere(A != 0.0), np.argwhere(b != 0.0)

    def solve(entries: Any, others: Any) -> Any:
        matrix, right = np.zeros(A.shape, dtype=object), np.zeros(b.shape, dtype=object)
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


def bordered(rng: np.random.Generator, legs: int, platform: int = 6) -> np.ndarray:
    """The pattern of a parallel robot: each leg has three equations in two velocities of its own and those of a platform."""
    n = 2 * legs + platform
    A = np.zeros((3 * legs, n))
    for k in range(legs):
        A[3 * k : 3 * k + 3, 2 * k : 2 * k + 2] = rng.normal(size=(3, 2))
        A[3 * k : 3 * k + 3, 2 * legs :] = rng.normal(size=(3, platform))
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
    A, b = random_sparse(rng, n, int(rng.integers(0, 3 * n))), rng.normal(size=n)
    if np.linalg.cond(A) > 1e10:
        pytest.skip("singular by chance")
    x = exact(A, b)
    for found in (solved(A, b), solved(A, b, np.abs(A)), Elimination(A.astype(object)).solve(b).astype(float)):
        assert np.abs(found - x).max() <= 100.0 * EPS * np.linalg.cond(A) * np.abs(x).max()


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e9])
def test_ill_conditioned_blocks_lose_no_more_than_they_must(condition: float) -> None:
    rng = np.random.default_rng(3)
    for n in (2, 3, 5, 8):
        U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
        A, b = U @ np.diag(np.geomspace(1.0, 1.0 / condition, n)) @ V, rng.normal(size=n)
        x = exact(A, b)
        assert np.abs(solved(A, b) - x).max() <= 100.0 * EPS * condition * np.abs(x).max()


def test_rows_in_other_units_cost_no_digits() -> None:
    rng = np.random.default_rng(5)
    A, b = rng.normal(size=(6, 6)), rng.normal(size=6)
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
        good, bad = rng.normal(size=(n, n)), rng.normal(size=(n, n))
        bad[-1] = bad[:-1].sum(axis=0) * (1.0 + EPS) if n > 1 else 1e-17
        A = np.zeros((3 * n, 3 * n))
        A[:n, :n], A[n : 2 * n, n : 2 * n], A[2 * n :, 2 * n :] = good, bad, good
        A[2 * n, n] = 1.0
        x = solved(A, np.ones(3 * n), np.where(A == 0.0, 0.0, 1.0))
        assert np.isfinite(x[:n]).all() and np.isnan(x[n:]).all()
        if n > 1:  # without known sizes, entries are compared with one another, whatever the unit
            for unit in (1e-9, 1.0, 1e9):
                assert np.isnan(solved(bad * unit, np.ones(n))).all()
                assert np.isfinite(solved(good * unit, np.ones(n))).all()


def test_a_matrix_without_a_diagonal_is_nan() -> None:
    A = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 1.0, 0.0]], dtype=object)
    assert np.isnan(Elimination(A).solve(np.ones(3)).astype(float)).all()


def operations(A: np.ndarray, b: np.ndarray) -> int:
    return count_operations(traced(A, b))["total"]


def test_legs_cost_the_same_each_and_zeros_of_right_hand_sides_stay() -> None:
    rng = np.random.default_rng(4)
    six, twelve = (bordered(rng, legs)[: 2 * legs + 6] for legs in (6, 12))
    per_leg = (operations(twelve, rng.normal(size=30)) - operations(six, rng.normal(size=18))) / 6
    assert per_leg <= 170
    A = np.kron(np.eye(3), np.array([[1.5, 2.0], [0.5, 1.0]]))
    b = np.zeros((6, 3))
    b[0, 0] = b[2, 1] = b[5, 2] = 1.0
    x = Elimination(A.astype(object)).solve(b)
    assert np.array_equal(x != 0.0, np.kron(np.eye(3), np.ones((2, 1))) != 0.0)


def ladder(bars: int, loop: Any = None) -> lw.Model:
    """Upright bars on the ground, and level ones that hinge each tip to the next: one cluster."""
    builder, hinge = lw.ModelBuilder(f"ladder of {bars}"), Revolute((0.0, 1.0, 0.0))
    for k in range(bars + 1):
        builder.add_body(f"up_{k}", mass=1.0, center=(0.0, 0.0, 0.5), inertia=(0.1, 0.1, 0.01))
        builder.add_joint(f"up_{k}", hinge, parent="world", child=f"up_{k}", xyz=(float(k), 0.0, 0.0), independent=k == 0)
    for k in range(bars):
        builder.add_body(f"level_{k}", mass=1.0, center=(0.5, 0.0, 0.0), inertia=(0.01, 0.1, 0.1))
        builder.add_joint(f"level_{k}", hinge, parent=f"up_{k}", child=f"level_{k}", xyz=(0.0, 0.0, 1.0), independent=False)
        ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.0, 0.0, 1.0)}
        builder.add_loop(f"loop_{k}", loop or hinge, predecessor=f"level_{k}", successor=f"up_{k + 1}", **ends)
    return builder.build()


@pytest.mark.parametrize("loop", [None, Spherical()])
def test_a_ladder_costs_the_same_for_each_bar(loop: Any) -> None:
    two, four, eight = (lw.count_operations(lw.forward_dynamics, ladder(bars, loop))["total"] for bars in (2, 4, 8))
    assert eight - four <= 2.02 * (four - two)


@pytest.mark.parametrize("function", [lw.forward_dynamics, lw.inverse_dynamics])
def test_a_flat_parallelogram_is_nan(function: Any) -> None:
    model = lw.robots.four_bar()
    flat = function(model, np.zeros(3), np.ones(1), np.ones(1))
    near = function(model, np.array([1e-3, -1e-3, 1e-3]), np.ones(1), np.ones(1))
    assert np.isnan(flat).all() and np.isfinite(near).all()
