"""PV-early solver: multipliers are eliminated at the first joint that determines them (Constrained Sec. IX).

Each joint of one velocity determines one combination of the constraints beyond it (Sec. VII-B). Its
multiplier is eliminated there, with the joint's own stiffness and not with a chosen μ: inertias keep their
size, so it is the most exact of the linear solvers and needs no iterations where no constraints are
redundant. It costs a Householder reflection of the pending rows at every joint.
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
