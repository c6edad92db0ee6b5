"""The size of a loop, and its equations and velocities in units of it: what is small does not depend on metres."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.parts import Loop, LoopConstraint, Mechanism


def loop_size(model: Mechanism, bodies: Sequence[int], constraints: Sequence[LoopConstraint]) -> float:
    """The largest distance [m] between joints, loop ends and origins of these bodies; 1 where all of them coincide."""
    places = [model.joints[k].place.p for k in bodies] + [end.place.p for c in constraints for end in c.ends]
    found = [float(np.linalg.norm(np.asarray(p, dtype=float))) for p in places]
    found += [row.length for c in constraints if isinstance(c, Loop) for row in c.every_row if row.length is not None]
    size = max(found, default=0.0)
    return size if size > 0.0 else 1.0


def row_units(model: Mechanism, constraints: Sequence[LoopConstraint], size: float) -> np.ndarray:
    """What a residual of each equation is compared with, (equations,): a loop's size for distances, one for the others."""
    found: list[float] = []
    for c in constraints:
        if not isinstance(c, Loop):
            found += [1.0] * c.count(model.joints)
            continue
        for row in c.every_row:
            unit = 1.0 if row.across is not None else size
            found.append(size * row.length if row.length is not None else unit)
    return np.array(found)


def velocity_units(model: Mechanism, bodies: Sequence[int], size: float) -> np.ndarray:
    """What steps of each velocity of these bodies' joints are compared with: the size where it only slides, or one radian."""
    found: list[float] = []
    for joint in (model.joints[k] for k in bodies):
        S = np.asarray(joint.kind.subspace(joint.kind.neutral()), dtype=float)
        found += np.where(np.abs(S[:3]).max(axis=0, initial=0.0) > 0.0, 1.0, size).tolist()
    return np.array(found)
