"""Vectors with three and six components: cross products and the adjoint actions of se(3)."""

from __future__ import annotations

import numpy as np


def skew(r: np.ndarray) -> np.ndarray:
    """Return the matrix [r] with [r] x = r × x (Lie Eq. 5)."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def axial(M: np.ndarray) -> np.ndarray:
    """Return the vector r of a skew-symmetric matrix [r]."""
    return np.array([M[2, 1], M[0, 2], M[1, 0]])


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a × b; unlike NumPy's, it takes symbols."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def ad(V: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return ad_V X, the rate of a motion X fixed in a frame that moves with V (Lie Eq. 27)."""
    return np.concatenate([cross(V[:3], X[:3]), cross(V[3:], X[:3]) + cross(V[:3], X[3:])])


def ad_star(V: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return ad*_V F = ad_Vᵀ F (Lie Eq. 29).

    Its negative is the rate of a force F fixed in a frame that moves with V.
    """
    return np.concatenate([cross(F[:3], V[:3]) + cross(F[3:], V[3:]), cross(F[3:], V[:3])])
