"""The proximal Popov-Vereshchagin solver (Constrained Alg. 4): all multipliers are eliminated at the base."""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.caba import by_sweeps
from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.proximal import Result, Settings
from linkwork.sko.contracts import HingeNode
from linkwork.sko.tree import TreeState


def pv(held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """θ̈ under T, (nv,), and forces; starting from λ⁰, (m,). Iterations pass no node but a free base."""
    return by_sweeps(held, T, lam0, settings, eliminate_at_base)


def eliminate_at_base(nodes: TreeState[HingeNode], k: HingeNode) -> bool:
    """Eliminates multipliers at the ground; or at a free base, before it couples its branches (Constrained Sec. VIII-B.1)."""
    return k.parent is nodes.ground and len(k.H) >= 6
