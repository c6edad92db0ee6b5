"""The PV-early solver: multipliers are eliminated at the first joint that determines them (Constrained Sec. VII-B and IX).

Each joint of one velocity determines one combination of the constraints beyond it. Its multiplier is eliminated there, with the
joint's own stiffness and not with a chosen μ: inertias keep their size, so that it is the most exact of the linear solvers, and
where no constraints are redundant it needs no iterations. It costs a Householder reflection of the pending rows at every joint.
"""

from __future__ import annotations

import numpy as np

from linkwork.algorithms.caba import by_sweeps
from linkwork.algorithms.constraint_rows import ConstraintRows
from linkwork.algorithms.proximal import Result, Settings
from linkwork.algorithms.pv import eliminate_at_base


def pv_early(held: ConstraintRows, T: np.ndarray, lam0: np.ndarray, settings: Settings) -> Result:
    """θ̈ under T, (nv,), and forces; starting from λ⁰, (m,)."""
    return by_sweeps(held, T, lam0, settings, eliminate_at_base, early=True)
