"""Gaps of loops from all of their equations, including redundant ones."""

from __future__ import annotations

import numpy as np

from linkwork.loops.clusters import find_families
from linkwork.loops.motion import cluster_posture
from linkwork.model import Model


def closure_gaps(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the distance [m] and angle [rad] by which each of `model.loops` is open, (loops, 2)."""
    gap_of: dict[str, tuple[object, object]] = {}
    for bodies, constraints in find_families(model.joints, model.loops):
        if constraints:
            posture = cluster_posture(model, bodies, q)
            gap_of |= {constraint.name: constraint.gap(posture) for constraint in constraints}
    gaps = [gap_of.get(loop.name, (0.0, 0.0)) for loop in model.loops]
    return np.array(gaps, dtype=object).reshape(len(gaps), 2)
