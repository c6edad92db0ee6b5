"""Modal integrals of a flexible body: the invariants of the floating frame of reference (Shabana; Wallrapp).

A point of mass at x moves to r = x + φ_j η_j + ½ g_jk η_j η_k in the body's frame: φ_j are mode shapes, η
modal coordinates, and g is the second-order foreshortening by bending, if known. Kinetic energy depends only
on integrals of these.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from linkwork.spatial.constants import frozen, set_frozen

ORTHOGONALITY_TOL = 1e-14  # of the product of two modes, relative to their norms
AXIAL = ((1, 2), (2, 0), (0, 1))  # (r × s)_i is r_a s_b - r_b s_a


@dataclass(frozen=True, eq=False)
class ModalIntegrals:
    """Integrals over the mass of a body with m modes.

    `first` ∫φ_j dm [kg m], (m, 3); `mixed` ∫x φ_jᵀ dm, (m, 3, 3); `second` ∫φ_j φ_kᵀ dm [kg m²], (m, m, 3,
    3); and of foreshortening `short_first` ∫g_jk dm, (m, m, 3), and `short_mixed` ∫x g_jkᵀ dm, (m, m, 3, 3).
    Units are those of dimensionless modal coordinates and shapes in m; with other shapes they change
    accordingly.
    """

    first: np.ndarray
    mixed: np.ndarray
    second: np.ndarray
    short_first: np.ndarray
    short_mixed: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            set_frozen(self, field.name, frozen(getattr(self, field.name)))

    def __reduce__(self) -> Any:
        return ModalIntegrals, tuple(np.array(getattr(self, field.name)) for field in fields(self))

    @property
    def modes(self) -> int:
        """The number of modes."""
        return len(self.first)

    @property
    def mass(self) -> np.ndarray:
        """The modal mass matrix ∫φ_j · φ_k dm, (m, m), with exact zeros for orthogonal modes."""
        mass = self.second[..., 0, 0] + self.second[..., 1, 1] + self.second[..., 2, 2]
        norms = np.sqrt(np.abs(np.diag(mass)))
        return np.where(np.abs(mass) > ORTHOGONALITY_TOL * np.outer(norms, norms), mass, 0.0)

    def times(self, factor: float) -> ModalIntegrals:
        """Return the integrals scaled by a factor, for another unit of mass."""
        return ModalIntegrals(*(factor * getattr(self, field.name) for field in fields(self)))


def axial_moment(Z: np.ndarray) -> np.ndarray:
    """Return ∫ r × s dm of Z = ∫ r sᵀ dm, (3,)."""
    return np.array([Z[a, b] - Z[b, a] for a, b in AXIAL])
