"""PV-early solver: multipliers are eliminated at the first joint determining them (Constrained Sec. VII-B).

Each joint of one velocity determines one combination of the constraints beyond it. Its multiplier is
eliminated there, with the joint's own stiffness and not with a chosen μ: inertias keep their size, so it is
the most exact of the linear solvers and needs no iterations where no constraints are redundant. The paper
finds the combination by the singular value decomposition of a matrix of rank one (Sec. IX); here it is the
first row after a Householder reflection of the pending rows.
"""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.constrained.caba import by_sweeps
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import Result, Settings
from linkwork.algorithms.constrained.pv import eliminate_at_base


def pv_early(rows: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """Return θ̈ under T, (nv,), and constraint forces, starting from λ⁰, (m,)."""
    return by_sweeps(rows, T, lam0, settings, eliminate_at_base, early=True)
