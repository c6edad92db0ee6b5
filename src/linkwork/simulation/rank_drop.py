"""Detection of rank drops of all loop equations between two states, by singular values along a path.

Neither the integrator nor the step size matters: the path leads straight from one closed state to the other
in the coordinates of all joints, and loops are closed along it. Between two points of it, σ_min changes by no
more than K does (Weyl), so parts of the path are excluded as a whole, and only those that may hold a singular
state are divided further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

INITIAL_PARTS = 8  # of a path
SUBDIVISIONS = 4  # of a part that may contain a singular state
MAX_PATH_RATIO = 1.5  # of the length of the path of K to its chord
MAX_CONDITIONING = 1e-3  # below which a smallest singular value may vanish
# smallest singular value, relative to the motion, that counts as zero
MAX_MINIMUM = 0.03
# ... and relative to its value at the ends: a value that is small everywhere belongs to the mechanism
SHARE = 0.3
MAX_LEVELS = 12

States = Callable[
    [np.ndarray], np.ndarray
]  # from fractions of the path, (n,), to closed states there, (n, nq)
Equations = Callable[
    [np.ndarray], list[np.ndarray]
]  # of states, (n, nq): unit-free K, (n, count, size), of each cluster


class PathRank(NamedTuple):
    """The smallest σ_min / σ_max of any cluster along a path, and whether a rank drops there."""

    conditioning: float
    drops: bool


def singular_values(K: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and the smallest singular value that counts, (n,) each, of K, (n, count, size); NaN
    where K is.
    """
    fine = np.isfinite(K).all(axis=(-2, -1))
    s = np.linalg.svd(np.where(fine[:, None, None], K, 0.0), compute_uv=False)
    return np.where(fine, s[:, 0], np.nan), np.where(fine, s[:, rank - 1], np.nan)


def find_rank_drop(states: States, equations: Equations, ranks: list[int], moved: float) -> PathRank:
    """Return the rank along a path on which unit-free coordinates change by `moved`.

    See the module docstring.
    """
    at = np.linspace(0.0, 1.0, INITIAL_PARTS + 1)
    lowest = np.inf
    drops = False
    measured = _PathSamples(equations(states(at)), ranks)
    limits = measured.limits(moved)
    intervals = measured.intervals(at)
    for level in range(MAX_LEVELS):
        lowest = min(lowest, measured.lowest())
        drops = drops or measured.drops(limits)
        doubtful = measured.doubtful(limits)
        if drops or not doubtful.any():
            break
        starts = intervals[doubtful]
        width = (at[1] - at[0]) / SUBDIVISIONS**level
        fine = np.concatenate(
            [[start + width * k / SUBDIVISIONS for k in range(SUBDIVISIONS + 1)] for start in starts]
        )
        measured = _PathSamples(equations(states(fine)), ranks, SUBDIVISIONS + 1)
        intervals = measured.intervals(fine)
    else:
        drops = True  # not distinguishable from singular states
    return PathRank(lowest, drops)


class _PathSamples:
    """Singular values at points of a path, in runs of neighbours; all clusters together."""

    def __init__(self, K: list[np.ndarray], ranks: list[int], run: int = 0) -> None:
        self._run = run or len(K[0])
        self._values = [singular_values(k, rank) for k, rank in zip(K, ranks)]
        self._changes = [self._of_neighbours(np.linalg.norm, k) for k in K]

    def _of_neighbours(self, size: Callable[..., np.ndarray], K: np.ndarray) -> np.ndarray:
        runs = K.reshape(-1, self._run, *K.shape[1:])
        result: np.ndarray = size(np.diff(runs, axis=1), axis=(-2, -1)).reshape(-1)
        return result

    def intervals(self, at: np.ndarray) -> np.ndarray:
        """Return the starts of intervals between neighbours."""
        result: np.ndarray = at.reshape(-1, self._run)[:, :-1].reshape(-1)
        return result

    def lowest(self) -> float:
        return float(min(np.nanmin(low / high, initial=np.inf) for high, low in self._values))

    def limits(self, moved: float) -> list[float]:
        """Return, for each cluster, the bound below which a singular value counts as zero on this path."""
        return [
            float(
                np.nanmin(
                    [MAX_CONDITIONING * np.nanmax(high), MAX_MINIMUM * moved, SHARE * np.nanmax(low[[0, -1]])]
                )
            )
            for high, low in self._values
        ]

    def drops(self, limits: list[float]) -> bool:
        """Return whether a smallest singular value vanishes at one of the points."""
        return any(bool((low <= limit).any()) for (_, low), limit in zip(self._values, limits))

    def doubtful(self, limits: list[float]) -> np.ndarray:
        """Return intervals in which a smallest singular value may vanish."""
        result = np.zeros(len(self._changes[0]), dtype=bool)
        for (_, low), change, limit in zip(self._values, self._changes, limits):
            runs = low.reshape(-1, self._run)
            bound = 0.5 * (runs[:, :-1] + runs[:, 1:]).reshape(-1) - 0.5 * MAX_PATH_RATIO * change
            result |= ~(bound > limit)
        return result
