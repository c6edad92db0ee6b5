"""Generalised eigenvalue problems of symmetric matrices, with the same bits on every machine: no LAPACK, no BLAS.

Modes end up as constants of programs, whose bits must not depend on the processor. NumPy's sums and products of whole arrays,
element by element, do not.
"""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np

ITERATIONS = 18
SWEEPS = 60  # at most; ten are usual
SMALL = 1e-30  # square of an off-diagonal entry, relative to its diagonal ones, that counts as zero


def times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B of matrices, or of a matrix and a vector, summed from the first term to the last."""
    if not A.shape[1]:
        return np.zeros((len(A), *B.shape[1:]))
    terms = A[:, :, None] * B[None] if B.ndim == 2 else A * B
    return np.ascontiguousarray(np.add.accumulate(terms, axis=1)[:, -1])


def cholesky(A: np.ndarray) -> np.ndarray:
    """L of A = L Lᵀ; ValueError where A is not positive definite."""
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
    """L⁻¹ B."""
    X = np.array(B, dtype=float)
    for k in range(len(L)):
        X[k] = X[k] / L[k, k]
        X[k + 1 :] = X[k + 1 :] - L[k + 1 :, k, None] * X[None, k]
    return X


def upper_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """L⁻ᵀ B."""
    X = np.array(B, dtype=float)
    for k in reversed(range(len(L))):
        X[k] = X[k] / L[k, k]
        X[:k] = X[:k] - L[k, :k, None] * X[None, k]
    return X


def solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A⁻¹ B of a positive definite A."""
    L = cholesky(A)
    return upper_solve(L, lower_solve(L, B))


def symmetric_eigen(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, (n,), the largest first, and eigenvectors as columns, (n, n), by Jacobi's rotations."""
    A, n = 0.5 * (A + A.T), len(A)
    V = np.eye(n)
    for _ in range(SWEEPS):
        turned = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                x = A[p, q]
                if x * x <= SMALL * abs(A[p, p] * A[q, q]):
                    continue
                turned = True
                half = 0.5 * (A[q, q] - A[p, p]) / x
                t = (1.0 if half >= 0.0 else -1.0) / (abs(half) + _with_one(abs(float(half))))
                c = 1.0 / sqrt(1.0 + t * t)
                s = t * c
                A[:, p], A[:, q] = c * A[:, p] - s * A[:, q], s * A[:, p] + c * A[:, q]
                A[p], A[q] = c * A[p] - s * A[q], s * A[p] + c * A[q]
                V[:, p], V[:, q] = c * V[:, p] - s * V[:, q], s * V[:, p] + c * V[:, q]
        if not turned:
            break
    values = np.diag(A).copy()
    order = np.argsort(-values, kind="stable")
    return values[order], V[:, order]


def normal_modes(K: np.ndarray, M: np.ndarray, count: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The lowest ω² in rising order, (count,), and their modes as columns, (n, count): K φ = ω² M φ and φᵀ M φ = 1.

    By subspace iteration (Bathe). Where K is only semidefinite, a `shift` above zero is added: K + shift M has the same modes.
    """
    L, n = cholesky(K + shift * M), len(K)
    wide = min(n, 2 * count + 8)
    X = _first_vectors(n, wide)
    for turn in range(ITERATIONS if wide < n else 1):
        X = upper_solve(L, lower_solve(L, times(M, X))) if wide < n else X
        X = Y = orthogonal(X, M)
        if turn % 6 == 5 or wide == n or turn == ITERATIONS - 1:
            values, turned = symmetric_eigen(times(Y.T, times(K, Y)))
            X = times(Y, turned)[:, ::-1]
    squares, modes = values[::-1][:count], X[:, :count]
    for j in range(modes.shape[1]):
        size = fsum((modes[:, j] * times(M, modes[:, j])).tolist())
        biggest = modes[int(np.argmax(np.abs(modes[:, j]))), j]
        modes[:, j] = modes[:, j] / (sqrt(size) if biggest > 0.0 else -sqrt(size))
        squares[j] = fsum((modes[:, j] * times(K, modes[:, j])).tolist())
    return squares, modes


def orthogonal(X: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The columns of X made orthogonal with respect to M, and of length one: Gram and Schmidt, twice."""
    X = X.copy()
    for j in range(X.shape[1]):
        for _ in range(2):
            before = X[:, :j]
            X[:, j] = X[:, j] - times(before, times(before.T, times(M, X[:, j])))
        X[:, j] = X[:, j] / sqrt(fsum((X[:, j] * times(M, X[:, j])).tolist()))
    return X


def _first_vectors(n: int, wide: int) -> np.ndarray:
    """Independent vectors with a share in all modes, (n, wide): the identity, or numbers of a simple generator."""
    if wide == n:
        return np.eye(n)
    found, state = np.empty((n, wide)), 1
    for place in np.ndindex(found.shape):
        state = (1103515245 * state + 12345) % 2**31
        found[place] = state / 2**31 - 0.5
    return found


def _with_one(x: float) -> float:
    """√(x² + 1) of a positive number, by operations that round the same everywhere: hypot of some libraries does not."""
    return sqrt(x * x + 1.0) if x < 1.0 else x * sqrt(1.0 + (1.0 / x) * (1.0 / x))
