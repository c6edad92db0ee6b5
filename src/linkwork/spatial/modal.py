"""Integrals over a body that deforms a little: the invariants of the floating frame of reference (Shabana; Wallrapp).

A point of mass at x moves to r = x + φ_j η_j + ½ g_jk η_j η_k in the body's frame: φ_j are mode shapes, η modal coordinates,
and g is the foreshortening that bending causes, to second order, where the data has it. Kinetic energy needs integrals of these
only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from linkwork.spatial.constants import frozen, put

ORTHOGONAL = 1e-14  # relative: what rounding leaves of a product of two modes that have none
AXIAL = ((1, 2), (2, 0), (0, 1))  # (r × s)_i is r_a s_b - r_b s_a


@dataclass(frozen=True, eq=False)
class ModalIntegrals:
    """Over the mass of a body with m modes: `first` ∫φ_j dm [kg m], (m, 3); `mixed` ∫x φ_jᵀ dm, (m, 3, 3); `second`
    ∫φ_j φ_kᵀ dm, (m, m, 3, 3) [kg m²]; and of foreshortening `short_first` ∫g_jk dm, (m, m, 3), and `short_mixed` ∫x g_jkᵀ dm,
    (m, m, 3, 3).

    Units are those of dimensionless shapes [m] times modal coordinates without unit; with other shapes they change accordingly.
    """

    first: np.ndarray
    mixed: np.ndarray
    second: np.ndarray
    short_first: np.ndarray
    short_mixed: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            put(self, field.name, frozen(getattr(self, field.name)))

    def __reduce__(self) -> Any:
        return ModalIntegrals, tuple(np.array(getattr(self, field.name)) for field in fields(self))

    @property
    def modes(self) -> int:
        return len(self.first)

    @property
    def mass(self) -> np.ndarray:
        """The modal mass matrix ∫φ_j · φ_k dm, (m, m); modes that are orthogonal but for rounding have nothing in common."""
        found = self.second[..., 0, 0] + self.second[..., 1, 1] + self.second[..., 2, 2]
        size = np.sqrt(np.abs(np.diag(found)))
        return np.where(np.abs(found) > ORTHOGONAL * np.outer(size, size), found, 0.0)

    def times(self, factor: float) -> ModalIntegrals:
        """The same in another unit of mass."""
        return ModalIntegrals(*(factor * getattr(self, field.name) for field in fields(self)))


def axial_moment(Z: np.ndarray) -> np.ndarray:
    """∫ r × s dm of Z = ∫ r sᵀ dm, (3,)."""
    return np.array([Z[a, b] - Z[b, a] for a, b in AXIAL])
