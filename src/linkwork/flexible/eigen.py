"""Generalized eigenvalue problems of symmetric matrices with identical bits on every machine.

Modes become constants of programs, whose bits must not depend on the processor. Therefore neither LAPACK nor
BLAS is used, only NumPy's elementwise operations on whole arrays.
"""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np

MAX_SUBSPACE_ITERATIONS = 18
MAX_JACOBI_SWEEPS = 60  # ten are typical
OFF_DIAGONAL_TOL = 1e-30  # squared off-diagonal entry relative to the diagonal ones


def times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A @ B of matrices, or of a matrix and a vector, summed from first to last term."""
    if not A.shape[1]:
        return np.zeros((len(A), *B.shape[1:]))
    terms = A[:, :, None] * B[None] if B.ndim == 2 else A * B
    return np.ascontiguousarray(np.add.accumulate(terms, axis=1)[:, -1])


def cholesky(A: np.ndarray) -> np.ndarray:
    """Return L of A = L Lᵀ; raise ValueError if A is not positive definite."""
    A = A.copy()
    n = len(A)
    L = np.zeros((n, n))
    for k in range(n):
        if not A[k, k] > 0.0:
            raise ValueError("the matrix is not positive definite")
        L[k:, k] = A[k:, k] / sqrt(A[k, k])
        A[k:, k:] = A[k:, k:] - L[k:, k, None] * L[None, k:, k]
    return L


def lower_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return L⁻¹ B."""
    X = np.array(B, dtype=float)
    for k in range(len(L)):
        X[k] = X[k] / L[k, k]
        X[k + 1 :] = X[k + 1 :] - L[k + 1 :, k, None] * X[None, k]
    return X


def upper_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return L⁻ᵀ B."""
    X = np.array(B, dtype=float)
    for k in reversed(range(len(L))):
        X[k] = X[k] / L[k, k]
        X[:k] = X[:k] - L[k, :k, None] * X[None, k]
    return X


def solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A⁻¹ B of a positive definite A."""
    L = cholesky(A)
    return upper_solve(L, lower_solve(L, B))


def symmetric_eigen(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, (n,), descending, and eigenvectors as columns, (n, n), by Jacobi rotations."""
    A = 0.5 * (A + A.T)
    n = len(A)
    V = np.eye(n)
    for _ in range(MAX_JACOBI_SWEEPS):
        changed = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                x = A[p, q]
                if x * x <= OFF_DIAGONAL_TOL * abs(A[p, p] * A[q, q]):
                    continue
                changed = True
                half = 0.5 * (A[q, q] - A[p, p]) / x
                t = (1.0 if half >= 0.0 else -1.0) / (abs(half) + _sqrt_one_plus_square(abs(float(half))))
                c = 1.0 / sqrt(1.0 + t * t)
                s = t * c
                A[:, p], A[:, q] = c * A[:, p] - s * A[:, q], s * A[:, p] + c * A[:, q]
                A[p], A[q] = c * A[p] - s * A[q], s * A[p] + c * A[q]
                V[:, p], V[:, q] = c * V[:, p] - s * V[:, q], s * V[:, p] + c * V[:, q]
        if not changed:
            break
    values = np.diag(A).copy()
    order = np.argsort(-values, kind="stable")
    return values[order], V[:, order]


def normal_modes(
    K: np.ndarray, M: np.ndarray, count: int, shift: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest ω², (count,), ascending, and modes as columns, (n, count).

    K φ = ω² M φ and φᵀ M φ = 1, by subspace iteration (Bathe). If K is only semidefinite, a positive `shift`
    is needed: K + shift M has the same modes.
    """
    L = cholesky(K + shift * M)
    n = len(K)
    width = min(n, 2 * count + 8)
    X = _first_vectors(n, width)
    for iteration in range(MAX_SUBSPACE_ITERATIONS if width < n else 1):
        X = upper_solve(L, lower_solve(L, times(M, X))) if width < n else X
        X = Y = orthogonal(X, M)
        if iteration % 6 == 5 or width == n or iteration == MAX_SUBSPACE_ITERATIONS - 1:
            values, rotation = symmetric_eigen(times(Y.T, times(K, Y)))
            X = times(Y, rotation)[:, ::-1]
    squares = values[::-1][:count]
    modes = X[:, :count]
    for j in range(modes.shape[1]):
        size = fsum((modes[:, j] * times(M, modes[:, j])).tolist())
        largest = modes[int(np.argmax(np.abs(modes[:, j]))), j]
        modes[:, j] = modes[:, j] / (sqrt(size) if largest > 0.0 else -sqrt(size))
        squares[j] = fsum((modes[:, j] * times(K, modes[:, j])).tolist())
    return squares, modes


def orthogonal(X: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return the columns of X orthonormalized with respect to M, by Gram-Schmidt applied twice."""
    X = X.copy()
    for j in range(X.shape[1]):
        for _ in range(2):
            before = X[:, :j]
            X[:, j] = X[:, j] - times(before, times(before.T, times(M, X[:, j])))
        X[:, j] = X[:, j] / sqrt(fsum((X[:, j] * times(M, X[:, j])).tolist()))
    return X


def _first_vectors(n: int, width: int) -> np.ndarray:
    """Return independent vectors with components in all modes, (n, width).

    They are the identity, or numbers of a simple generator.
    """
    if width == n:
        return np.eye(n)
    vectors = np.empty((n, width))
    state = 1
    for index in np.ndindex(vectors.shape):
        state = (1103515245 * state + 12345) % 2**31
        vectors[index] = state / 2**31 - 0.5
    return vectors


def _sqrt_one_plus_square(x: float) -> float:
    """Return √(x² + 1) of a positive number, with identical rounding everywhere, unlike hypot."""
    return sqrt(x * x + 1.0) if x < 1.0 else x * sqrt(1.0 + (1.0 / x) * (1.0 / x))
