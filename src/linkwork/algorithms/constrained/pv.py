"""Proximal Popov-Vereshchagin solver: all multipliers are eliminated at the base (Constrained Alg. 4)."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constrained.caba import by_sweeps
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import Result, Settings
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def pv(rows: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """Return θ̈ under T, (nv,), and constraint forces, starting from λ⁰; iterations visit only free bases."""
    return by_sweeps(rows, T, lam0, settings, eliminate_at_base)


def eliminate_at_base(nodes: TreeState[HingeNode], k: HingeNode) -> bool:
    """Return whether a node is on the ground with a free base, before which branches are coupled.

    Multipliers are eliminated at the ground, or at such a base (Constrained Sec. VIII-B.1).
    """
    return k.parent is nodes.ground and len(k.H) >= 6
