"""Null spaces of constraint Jacobians, and the conditioning of independent velocities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def null_space(K: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the null space of K, (rank, size), of full rank: (size - rank, size)."""
    return np.linalg.qr(K.T, mode="complete")[0][:, len(K) :].T


def conditioning(K: np.ndarray, independent: Sequence[int]) -> float:
    """Return smallest singular value of the dependent part over the largest of unit-free K, (rank, size)."""
    dependent = sorted({*range(K.shape[1])} - {*independent})
    largest = float(np.linalg.norm(K, 2)) if dependent else 0.0
    return (
        float(np.linalg.svd(K[:, dependent], compute_uv=False)[-1]) / largest
        if largest
        else 1.0 - len(dependent)
    )


def combined(K: np.ndarray, rank: int, like: np.ndarray | None = None) -> np.ndarray:
    """Return combinations of equations K, (used, size), equivalent to all: (rank, size).

    With `like`, those of a nearby state, they have equal orientation: signs of determinants change at
    singularities only.
    """
    _, s, vt = np.linalg.svd(K, full_matrices=False)
    directions = s[:rank, None] * vt[:rank]
    if like is not None and np.linalg.det(directions @ like.T) < 0.0:
        directions[-1] *= -1.0
    return directions
