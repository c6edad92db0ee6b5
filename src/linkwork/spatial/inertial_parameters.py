"""The ten inertial parameters of a body, and ways to write them in which they are physically consistent.

Ten numbers are those of a body if their pseudo-inertia is positive definite (Wensing, Kim and Slotine 2018): some density of
mass, nowhere negative, has them. Log-Cholesky parameters are any ten numbers (Rucker and Wensing 2022).
All functions take numbers, in batches too, or symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.ir.functions import exp, log, sqrt

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
    """The ten inertial parameters of a pseudo-inertia (..., 4, 4), as in `pseudo_inertia`, (..., 10)."""
    P = _numbers(matrix, (4, 4), "a pseudo-inertia")
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


def _check_consistent(P: np.ndarray) -> None:
    """That pseudo-inertias are positive definite, and if not, which of them is not."""
    least, most = (np.linalg.eigvalsh(np.where(np.isfinite(P), P, 0.0))[..., k] for k in (0, -1))
    wrong = ~(np.isfinite(P).all(axis=(-2, -1)) & (least > 1e-15 * most))
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])
        which = f"parameters[{', '.join(map(str, where))}]" if where else "parameters"
        raise ModelError(
            f"log_cholesky: {which} are not those of a solid body: the pseudo-inertia has the eigenvalue {least[where]:g}, "
            "which must be positive (spatial.pseudo_inertia shows it)"
        )


def _numbers(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    array = np.asarray(value)
    if array.shape[-len(shape) :] != shape or array.ndim < len(shape):
        raise ShapeError(f"{what} must have shape (..., {', '.join(map(str, shape))}), not {array.shape}")
    return array if array.dtype == object else array.astype(float)
