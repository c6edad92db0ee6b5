"""The ten inertial parameters of a body, and ways to write them in which they are physically consistent.

Ten numbers are those of a body if their pseudo-inertia is positive definite (Wensing, Kim and Slotine 2018): some density of
mass, nowhere negative, has them. Log-Cholesky parameters are any ten numbers (Rucker and Wensing 2022).
All functions take numbers, in batches too, or symbols.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from linkwork.errors import DtypeError, ModelError, ShapeError
from linkwork.ir.functions import exp, log, sqrt
from linkwork.ir.symbol import Symbol

# places of xx xy yy xz yz zz of the moment of inertia among the ten parameters
_PLACES = np.array([[4, 5, 7], [5, 6, 8], [7, 8, 9]])


def pseudo_inertia(parameters: Any) -> np.ndarray:
    """The pseudo-inertia [[Σ, m c], [m cᵀ, m]] of ten inertial parameters (..., 10), (..., 4, 4), with Σ = ∫ r rᵀ dm.

    The parameters are m [kg], m c [kg m] (3), then xx xy yy xz yz zz of the moment of inertia about the origin [kg m²].
    """
    p = _numbers(parameters, (10,), "inertial parameters")
    P = np.empty((*p.shape[:-1], 4, 4), dtype=p.dtype)
    half = 0.5 * (p[..., 4] + p[..., 6] + p[..., 9])
    P[..., :3, :3] = -p[..., _PLACES]
    for i in range(3):
        P[..., i, i] = half + P[..., i, i]
    P[..., :3, 3] = P[..., 3, :3] = p[..., 1:4]
    P[..., 3, 3] = p[..., 0]
    return P


def parameters_of_pseudo_inertia(matrix: Any) -> np.ndarray:
    """The ten inertial parameters of a pseudo-inertia (..., 4, 4), as in `pseudo_inertia`, (..., 10).

    It must be symmetric, to rounding; whether it is positive definite is not asked here.
    """
    P = _numbers(matrix, (4, 4), "a pseudo-inertia")
    if P.dtype != object:
        _check_symmetric(P)
    trace = P[..., 0, 0] + P[..., 1, 1] + P[..., 2, 2]
    p = np.empty((*P.shape[:-2], 10), dtype=P.dtype)
    p[..., 0], p[..., 1:4] = P[..., 3, 3], P[..., :3, 3]
    for i in range(3):
        for j in range(i + 1):
            p[..., _PLACES[i, j]] = trace - P[..., i, i] if i == j else -P[..., i, j]
    return p


def log_cholesky(parameters: Any) -> np.ndarray:
    """The log-Cholesky parameters of ten inertial ones, both (..., 10): α, d1 d2 d3, s12 s23 s13, t1 t2 t3.

    The pseudo-inertia is U Uᵀ, where U is e^α times [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3], [0, 0, 0, 1]].
    Numbers that no body can have are an error; so are those of a point, a rod or a plate, which have no logarithm.
    """
    P = pseudo_inertia(parameters)
    if P.dtype != object:
        _check_consistent(P)
    m, t = P[..., 3, 3], P[..., :3, 3] / P[..., 3, 3, None]
    N = P[..., :3, :3] / m[..., None, None] - t[..., :, None] * t[..., None, :]
    e3 = sqrt(N[..., 2, 2])
    s23, s13 = N[..., 1, 2] / e3, N[..., 0, 2] / e3
    e2 = sqrt(N[..., 1, 1] - s23 * s23)
    s12 = (N[..., 0, 1] - s13 * s23) / e2
    e1 = sqrt(N[..., 0, 0] - s12 * s12 - s13 * s13)
    found = np.empty((*P.shape[:-2], 10), dtype=P.dtype)
    for k, x in enumerate((0.5 * log(m), log(e1), log(e2), log(e3), s12, s23, s13)):
        found[..., k] = x
    found[..., 7:] = t
    return found


def parameters_of_log_cholesky(parameters: Any) -> np.ndarray:
    """The ten inertial parameters of log-Cholesky ones, both (..., 10): those of a body, whatever numbers these are."""
    theta = _numbers(parameters, (10,), "log-Cholesky parameters")
    U = np.zeros((*theta.shape[:-1], 4, 4), dtype=theta.dtype)
    for i in range(3):
        U[..., i, i] = exp(theta[..., 1 + i])
    U[..., 0, 1], U[..., 1, 2], U[..., 0, 2] = theta[..., 4], theta[..., 5], theta[..., 6]
    U[..., :3, 3], U[..., 3, 3] = theta[..., 7:], 1.0
    scale = exp(2.0 * theta[..., 0])
    return parameters_of_pseudo_inertia(np.asarray(scale)[..., None, None] * (U @ np.swapaxes(U, -1, -2)))


def _check_symmetric(P: np.ndarray) -> None:
    """That no matrix has entries across the diagonal that differ by more than rounding, of a solver say."""
    skew = np.abs(P - np.swapaxes(P, -1, -2)).max(axis=(-2, -1))
    wrong = skew > 1e-8 * np.abs(P).max(axis=(-2, -1))
    if wrong.any():
        raise ModelError(
            f"parameters_of_pseudo_inertia: {_which('matrix', wrong)} is not symmetric: "
            f"entries across the diagonal differ by {skew[_first(wrong)]:g}"
        )


def _check_consistent(P: np.ndarray) -> None:
    """That pseudo-inertias are positive definite beyond rounding, and if not, which of them is not.

    Compared are eigenvalues in units of length in which Σ and m are alike: a small body is not a point.
    """
    finite = np.isfinite(P).all(axis=(-2, -1))
    known = np.where(finite[..., None, None], P, 0.0)
    m, spread = known[..., 3, 3], np.trace(known[..., :3, :3], axis1=-2, axis2=-1)
    solid = (m > 0.0) & (spread > 0.0)
    unit = np.ones(P.shape[:-1])
    unit[..., :3] = np.sqrt(np.where(solid, m, 1.0) / np.where(solid, spread, 1.0))[..., None]
    alike = known * unit[..., :, None] * unit[..., None, :]
    least, most = (np.linalg.eigvalsh(alike)[..., k] for k in (0, -1))
    wrong = ~(finite & solid & (least > 1e-15 * most))
    if wrong.any():
        first = _first(wrong)
        if not finite[first]:
            raise ModelError(f"log_cholesky: {_which('parameters', wrong)} are not those of a solid body: they are not finite")
        lowest = np.linalg.eigvalsh(known[first])[0]
        why = "which must be positive" if lowest <= 0.0 else "which is zero to rounding, as of a point, a rod or a plate"
        raise ModelError(
            f"log_cholesky: {_which('parameters', wrong)} are not those of a solid body: the pseudo-inertia has the eigenvalue "
            f"{lowest:g}, {why} (spatial.pseudo_inertia shows it)"
        )


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(wrong)[0])


def _which(word: str, wrong: np.ndarray) -> str:
    """The first that is wrong, as one would write it: parameters[1, 2]."""
    where = _first(wrong)
    return f"{word}[{', '.join(map(str, where))}]" if where else word


def _numbers(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    wanted = f"{what} must have shape (..., {', '.join(map(str, shape))})"
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f"{wanted}, not rows of different lengths") from None
    if array.shape[-len(shape) :] != shape or array.ndim < len(shape):
        raise ShapeError(f"{wanted}, not {array.shape}")
    if array.dtype.kind in "biuf":
        return array.astype(float)
    entries = array.ravel().tolist()
    for x in entries:
        if not isinstance(x, (Symbol, Real)):
            raise DtypeError(f"{what} must be real numbers or symbols, not {x!r}")
    return array if any(isinstance(x, Symbol) for x in entries) else array.astype(float)
