"""Small linear systems and factors of symmetric matrices against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from linkwork.spatial import Factor
from linkwork.spatial.factor import VanishingRow
from linkwork.spatial.solve import solve, solve_without_pivots

TREES = {
    "one": [-1],
    "chain": [-1, 0, 1],
    "long chain": [-1, 0, 1, 2, 3, 4, 5],
    "branches": [-1, 0, 0, 1, 1, 2, 5],
    "forest": [-1, -1, 0, 1, 2, 3, -1],
}


def floats(x: object) -> np.ndarray:
    return np.asarray(x, dtype=float)


def like_a_mass_matrix(parents: list[int], rng: np.random.Generator) -> np.ndarray:
    """A positive definite matrix with entries only between velocities of which one carries the other."""
    n = len(parents)
    L = np.diag(rng.uniform(0.5, 2.0, n))
    for k in range(n):
        i = parents[k]
        while i >= 0:
            L[k, i] = rng.normal()
            i = parents[i]
    return L.T @ L


def entries(M: np.ndarray) -> np.ndarray:
    """The matrix with structural zeros."""
    return np.where(M == 0.0, 0.0, M.astype(object))


@pytest.mark.parametrize("n", range(6))
def test_solutions_of_regular_systems(n: int) -> None:
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    b, B = rng.normal(size=n), rng.normal(size=(n, 3))
    for right in (b, B):
        assert np.allclose(floats(solve(A, right)), np.linalg.solve(A, right), rtol=1e-10, atol=1e-10)
        strong = A + 4.0 * np.eye(n)
        x = floats(solve_without_pivots(strong, right))
        assert np.allclose(x, np.linalg.solve(strong, right), rtol=1e-12, atol=1e-12)
    if n:  # dx = A⁻¹ (db - dA x), of symbols
        dA = rng.normal(size=(n, n))
        for method, matrix in ((solve, A), (solve_without_pivots, A + 4.0 * np.eye(n))):
            x, dx = lw.jvp_of(lambda y, method=method: method(y.reshape(n, n), b), matrix.ravel(), dA.ravel())
            expected = -np.linalg.solve(matrix, dA @ np.linalg.solve(matrix, b))
            assert np.allclose(floats(dx), expected, rtol=1e-9, atol=1e-9)


def test_pivots_are_found_below_a_zero() -> None:
    A = np.array([[0.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, -3.0], [1e-20, 1.0, 0.0, 1.0], [4.0, 0.0, 1.0, 1.0]])
    b = np.array([1.0, 2.0, 3.0, 4.0])
    assert np.allclose(floats(solve(A, b)), np.linalg.solve(A, b), rtol=1e-14)


def test_rows_that_vanish_are_left_out() -> None:
    """Without pivots, x is zero there and solves the other rows."""
    rng = np.random.default_rng(0)
    kept = [0, 2, 3]
    A = np.zeros((5, 5))
    A[np.ix_(kept, kept)] = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
    b = np.where(A.any(axis=1), rng.normal(size=5), 0.0)
    x = floats(solve_without_pivots(A, b))
    assert np.allclose(A @ x, b) and not np.delete(x, kept).any()


@pytest.mark.parametrize("name", TREES)
def test_factors_of_mass_matrices(name: str) -> None:
    rng = np.random.default_rng(7)
    parents = TREES[name]
    n = len(parents)
    M = like_a_mass_matrix(parents, rng)
    inverse = np.linalg.inv(M)
    factor = Factor(entries(M))
    L = np.eye(n)
    for k, row in enumerate(factor.rows):
        for i, x in row:
            assert M[k, i] != 0.0  # no fill-in
            L[k, i] = x
    D = floats(factor.pivots)
    assert np.allclose(L.T @ np.diag(D) @ L, M) and np.allclose(floats(factor.inverse) * D, 1.0)
    rows = np.array([[row.get(i, 0.0) for i in range(n)] for row in factor.inverse_rows], dtype=float)
    assert np.allclose(rows @ L, np.eye(n))
    found = floats(factor.inverted())
    assert np.array_equal(found, found.T) and np.allclose(found, inverse)
    b, B = rng.normal(size=n), rng.normal(size=(n, 4))
    for right in (b, B):
        assert np.allclose(floats(factor.solve(right)), inverse @ right)
        half = floats(factor.half(right))
        assert np.allclose(L.T @ half, right) and np.allclose(L @ floats(factor.other_half(right)), right)
        root = floats(factor.root(right))
        assert np.allclose(root.T @ root, right.T @ inverse @ right)
    B[:, 0] = 0.0
    B[: n // 2, 1] = 0.0
    B[n // 2 :, 2] = 0.0
    assert np.allclose(floats(factor.solve_sparse(entries(B))), inverse @ B)
    assert np.allclose(floats(factor.solve_sparse(entries(B), negative=True)), -inverse @ B)
    halves = entries(np.linalg.solve(L.T, B))
    assert np.allclose(floats(factor.solve_sparse(halves, half=True)), inverse @ B)
    for i in range(n):
        reached = np.flatnonzero(np.linalg.solve(L.T, np.eye(n)[i]))
        assert set(factor.reached([i])) >= set(reached)
        carriers = {i}
        while parents[min(carriers)] >= 0:
            carriers.add(parents[min(carriers)])
        assert set(factor.reached([i])) == carriers
    columns = [k for columns, _ in factor.segments() for k in columns]
    assert columns == list(range(n))
    for series, filled in factor.segments():
        assert set(filled) == set(factor.reached([series[-1]]))
        assert all(parents[k] == k - 1 for k in series[1:])


def test_rows_that_depend_on_later_ones_are_left_out() -> None:
    """Of a singular matrix, x is zero in these rows, and a solution of all if there is one."""
    rng = np.random.default_rng(3)
    J = rng.normal(size=(5, 3))
    J[1] = 2.0 * J[3] - J[4]
    J[0] = J[2] + J[4]
    M = J @ J.T
    b = M @ rng.normal(size=5)
    x = floats(Factor(M, dependent=1e-10).solve(b))
    assert np.allclose(M @ x, b) and not x[:2].any() and x[2:].all()
    vanishing = np.diag([1.0, 0.0, 2.0])
    assert np.array_equal(floats(Factor(vanishing, dependent=1e-10).solve([3.0, 0.0, 4.0])), [3.0, 0.0, 2.0])
    with pytest.raises(VanishingRow) as raised:
        Factor(vanishing)
    assert raised.value.row == 1
