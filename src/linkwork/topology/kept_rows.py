"""Which equations of force-held loops are independent: redundant ones cost time, and make forces ambiguous."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.errors import LimitError
from linkwork.parts import LoopConstraint, Mechanism
from linkwork.parts.limits import Budget, Limits
from linkwork.parts.names import some
from linkwork.topology.analysis import ATTEMPTS, CLOSED, CannotClose, close, independent_equations, kept_loops
from linkwork.topology.clusters import Cluster, find_families
from linkwork.topology.motion import all_equations, cluster_posture

STATES = 4  # closed ones that are looked at: in some of them a mechanism may be singular


def with_kept_rows(model: Mechanism, limits: Limits | None = None) -> tuple[LoopConstraint, ...]:
    """The model's force-held loops, each knowing which of its equations are kept; CannotClose where they cannot be closed."""
    budget = Budget(limits)
    found: dict[str, LoopConstraint] = {}
    for bodies, constraints in find_families(model.joints, model.force_held):
        if constraints:
            states = _closed_states(model, bodies, constraints, budget)
            every = [all_equations(cluster_posture(model, bodies, q), constraints)[0].astype(float) for q in states]
            rows = max((independent_equations(K) for K in every), key=len)
            cluster = Cluster(tuple(bodies), tuple(constraints), rows=tuple(rows), count=len(every[0]))
            found |= {loop.name: loop for loop in kept_loops(model, cluster)}
    return tuple(found.get(loop.name, loop) for loop in model.force_held)


def _closed_states(
    model: Mechanism, bodies: Sequence[int], constraints: Sequence[LoopConstraint], budget: Budget
) -> list[np.ndarray]:
    """A few closed states, (nq,) each: first from where all joints are neutral, then from random coordinates."""
    rng, q, nearest = np.random.default_rng(0), model.tree_neutral(), np.inf
    found: list[np.ndarray] = []
    names = some([repr(c.name) for c in constraints])
    for _ in range(ATTEMPTS):
        try:
            closed, residual = close(model, bodies, constraints, q, budget=budget)
        except LimitError as told:
            if found:
                break
            raise LimitError(f"{names}: {told}") from None
        nearest = min(nearest, residual)
        found += [closed] if residual < CLOSED else []
        if len(found) == STATES or (found and all(c.linear for c in constraints)):
            break
        q = q.copy()
        for joint in (model.joints[k] for k in bodies):
            q[joint.q_slice] = joint.kind.random(rng)
    if not found:
        missed = f"the smallest residual found is {nearest:.3g}; check placements and lengths"
        raise CannotClose(f"{names} cannot be closed: {missed}")
    return found
