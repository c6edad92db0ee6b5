"""Information of recordings about parameters: covariance, and directions that are not identifiable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linkwork.identification.solver import UNIDENTIFIABLE, WITHOUT_EFFECT, Information

SMALL_PART = 1e-3  # size and effect relative to the largest of a direction, below which a coefficient is zero


@dataclass(frozen=True)
class Direction:
    """A combination of parameters along which no residual changes: coefficients of a change of entries,
    by label.
    """

    coefficients: dict[str, float]

    def __str__(self) -> str:
        """Return the direction as text: 0.71 mass@link2 - 0.71 mass@link3."""
        text = ""
        for label, x in self.coefficients.items():
            sign = ("-" if x < 0.0 else "") if not text else (" - " if x < 0.0 else " + ")
            text += f"{sign}{abs(x):.3g} {label}"
        return text


def covariance(information: Information, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance of entries and their directions that are not identifiable, (entries, directions).

    `rate` is the derivative of entries by coordinates. Along those directions the covariance is that of fixed
    values.
    """
    scale = np.where(information.scale > 0.0, information.scale, 1.0)
    unit = information.H / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(unit)
    seen = values > UNIDENTIFIABLE
    inner = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    by_entry = rate / scale
    return by_entry @ inner @ by_entry.T, by_entry @ vectors[:, ~seen]


def effects_of(information: Information, rate: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the norm of all residuals' derivatives by each entry; zero where it is of rounding errors."""
    inverse = np.linalg.inv(rate / sizes[:, None]) / sizes
    squares = np.einsum("ki,kl,li->i", inverse, information.products, inverse)
    effects = np.sqrt(np.maximum(squares, 0.0))
    return np.where(effects * sizes > WITHOUT_EFFECT * (effects * sizes).max(initial=0.0), effects, 0.0)


def readable(
    labels: Sequence[str], space: np.ndarray, sizes: np.ndarray, effects: np.ndarray
) -> list[Direction]:
    """Return a sparse basis of a space of changes of entries, each of unit length, as directions.

    `sizes` are typical sizes of entries, by which pivots are chosen. Coefficients are left out that are small
    compared with these sizes and have small effects.
    """
    basis = (space / sizes[:, None]).T.copy()
    if not len(basis):
        return []
    basis = np.linalg.svd(basis, full_matrices=False)[2]
    for k in range(len(basis)):
        remainder = np.abs(basis[k:])
        pivot, column = divmod(int(np.argmax(remainder)), remainder.shape[1])
        basis[[k, k + pivot]] = basis[[k + pivot, k]]
        basis[k] /= basis[k, column]
        others = np.arange(len(basis)) != k
        basis[others] -= np.outer(basis[others, column], basis[k])
    directions = []
    for row in sorted(basis, key=lambda row: int(np.argmax(np.abs(row)))):
        effect = np.abs(row) * sizes * effects
        large = SMALL_PART * max(effect.max(), SMALL_PART * (sizes * effects).max())
        counts = (np.abs(row) > SMALL_PART * np.abs(row).max()) | (effect > large)
        scaled = np.where(counts, row, 0.0) * sizes
        scaled /= np.linalg.norm(scaled)
        order = [int(k) for k in np.flatnonzero(scaled)]
        scaled = scaled if scaled[order[0]] > 0.0 else -scaled
        directions.append(Direction({labels[k]: float(scaled[k]) for k in order}))
    return directions
