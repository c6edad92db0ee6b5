"""The ten inertial parameters of a body, and physically consistent parametrizations of them.

Ten numbers are those of a body if their pseudo-inertia is positive definite (Wensing, Kim and Slotine 2018):
a nonnegative mass density with these parameters exists. Log-Cholesky parameters are unconstrained (Rucker and
Wensing 2022). All functions take numbers, also in batches, or symbols.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import exp, log, sqrt
from linkwork.compiler.ir.symbol import Symbol
from linkwork.errors import DtypeError, ModelError, ShapeError

# Indices of xx xy yy xz yz zz of the moment of inertia among the ten parameters.
_MOMENT_INDICES = np.array([[4, 5, 7], [5, 6, 8], [7, 8, 9]])


def pseudo_inertia(parameters: Any) -> np.ndarray:
    """Return the pseudo-inertia [[Σ, m c], [m cᵀ, m]], (..., 4, 4), with Σ = ∫ r rᵀ dm.

    `parameters`, (..., 10), are m [kg], m c [kg m] (3), then xx xy yy xz yz zz of the moment of inertia about
    the origin [kg m²].
    """
    p = _numbers(parameters, (10,), "inertial parameters")
    P = np.empty((*p.shape[:-1], 4, 4), dtype=p.dtype)
    half = 0.5 * (p[..., 4] + p[..., 6] + p[..., 9])
    P[..., :3, :3] = -p[..., _MOMENT_INDICES]
    for i in range(3):
        P[..., i, i] = half + P[..., i, i]
    P[..., :3, 3] = P[..., 3, :3] = p[..., 1:4]
    P[..., 3, 3] = p[..., 0]
    return P


def parameters_of_pseudo_inertia(matrix: Any) -> np.ndarray:
    """Return the ten inertial parameters of a pseudo-inertia (..., 4, 4), as in `pseudo_inertia`, (..., 10).

    The matrix must be symmetric to rounding; positive definiteness is not checked.
    """
    P = _numbers(matrix, (4, 4), "a pseudo-inertia")
    if P.dtype != object:
        _check_symmetric(P)
    trace = P[..., 0, 0] + P[..., 1, 1] + P[..., 2, 2]
    p = np.empty((*P.shape[:-2], 10), dtype=P.dtype)
    p[..., 0] = P[..., 3, 3]
    p[..., 1:4] = P[..., :3, 3]
    for i in range(3):
        for j in range(i + 1):
            p[..., _MOMENT_INDICES[i, j]] = trace - P[..., i, i] if i == j else -P[..., i, j]
    return p


def log_cholesky(parameters: Any) -> np.ndarray:
    """Return the log-Cholesky parameters of ten inertial ones: α, d1 d2 d3, s12 s23 s13, t1 t2 t3.

    Both are (..., 10). The pseudo-inertia is U Uᵀ, where U is e^α times [[e^d1, s12, s13, t1], [0, e^d2, s23,
    t2], [0, 0, e^d3, t3], [0, 0, 0, 1]]. Physically inconsistent numbers raise ModelError; so do those of a
    point, a rod or a plate, which have no logarithm.
    """
    P = pseudo_inertia(parameters)
    if P.dtype != object:
        _check_consistent(P)
    m = P[..., 3, 3]
    t = P[..., :3, 3] / P[..., 3, 3, None]
    N = P[..., :3, :3] / m[..., None, None] - t[..., :, None] * t[..., None, :]
    e3 = sqrt(N[..., 2, 2])
    s23 = N[..., 1, 2] / e3
    s13 = N[..., 0, 2] / e3
    e2 = sqrt(N[..., 1, 1] - s23 * s23)
    s12 = (N[..., 0, 1] - s13 * s23) / e2
    e1 = sqrt(N[..., 0, 0] - s12 * s12 - s13 * s13)
    theta = np.empty((*P.shape[:-2], 10), dtype=P.dtype)
    for k, x in enumerate((0.5 * log(m), log(e1), log(e2), log(e3), s12, s23, s13)):
        theta[..., k] = x
    theta[..., 7:] = t
    return theta


def parameters_of_log_cholesky(parameters: Any) -> np.ndarray:
    """Return the ten inertial parameters of log-Cholesky ones, both (..., 10); always consistent."""
    theta = _numbers(parameters, (10,), "log-Cholesky parameters")
    U = np.zeros((*theta.shape[:-1], 4, 4), dtype=theta.dtype)
    for i in range(3):
        U[..., i, i] = exp(theta[..., 1 + i])
    U[..., 0, 1] = theta[..., 4]
    U[..., 1, 2] = theta[..., 5]
    U[..., 0, 2] = theta[..., 6]
    U[..., :3, 3] = theta[..., 7:]
    U[..., 3, 3] = 1.0
    scale = exp(2.0 * theta[..., 0])
    return parameters_of_pseudo_inertia(np.asarray(scale)[..., None, None] * (U @ np.swapaxes(U, -1, -2)))


def _check_symmetric(P: np.ndarray) -> None:
    """Raise ModelError for a matrix that is asymmetric by more than rounding."""
    skew = np.abs(P - np.swapaxes(P, -1, -2)).max(axis=(-2, -1))
    wrong = skew > 1e-8 * np.abs(P).max(axis=(-2, -1))
    if wrong.any():
        raise ModelError(
            f"parameters_of_pseudo_inertia: {_which('matrix', wrong)} is not symmetric: "
            f"entries across the diagonal differ by {skew[_first(wrong)]:g}"
        )


def _check_consistent(P: np.ndarray) -> None:
    """Raise ModelError for pseudo-inertias that are not positive definite beyond rounding.

    Eigenvalues are compared in a unit of length in which Σ and m are of equal size: a small body is not a
    point.
    """
    finite = np.isfinite(P).all(axis=(-2, -1))
    known = np.where(finite[..., None, None], P, 0.0)
    m = known[..., 3, 3]
    spread = np.trace(known[..., :3, :3], axis1=-2, axis2=-1)
    solid = (m > 0.0) & (spread > 0.0)
    unit = np.ones(P.shape[:-1])
    unit[..., :3] = np.sqrt(np.where(solid, m, 1.0) / np.where(solid, spread, 1.0))[..., None]
    balanced = known * unit[..., :, None] * unit[..., None, :]
    smallest, largest = (np.linalg.eigvalsh(balanced)[..., k] for k in (0, -1))
    wrong = ~(finite & solid & (smallest > 1e-15 * largest))
    if wrong.any():
        first = _first(wrong)
        if not finite[first]:
            raise ModelError(f"log_cholesky: {_which('parameters', wrong)}: expected finite numbers")
        lowest = np.linalg.eigvalsh(known[first])[0]
        why = "not positive" if lowest <= 0.0 else "zero to rounding (a point, rod or plate)"
        raise ModelError(
            f"log_cholesky: {_which('parameters', wrong)}: expected a solid body, got a pseudo-inertia "
            f"with the eigenvalue {lowest:g}, {why} (see spatial.pseudo_inertia)"
        )


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(wrong)[0])


def _which(word: str, wrong: np.ndarray) -> str:
    """Return the first invalid entry as an expression such as parameters[1, 2]."""
    where = _first(wrong)
    return f"{word}[{', '.join(map(str, where))}]" if where else word


def _numbers(value: Any, shape: tuple[int, ...], label: str) -> np.ndarray:
    expectation = f"{label}: expected shape (..., {', '.join(map(str, shape))})"
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f"{expectation}, got rows of different lengths") from None
    if array.shape[-len(shape) :] != shape or array.ndim < len(shape):
        raise ShapeError(f"{expectation}, got {array.shape}")
    if array.dtype.kind in "biuf":
        return array.astype(float)
    entries = array.ravel().tolist()
    for x in entries:
        if not isinstance(x, (Symbol, Real)):
            raise DtypeError(f"{label}: expected real numbers or symbols, got {x!r}")
    return array if any(isinstance(x, Symbol) for x in entries) else array.astype(float)
