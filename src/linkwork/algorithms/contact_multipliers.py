"""The method of multipliers for contacts on few bodies: many coplanar points, whose branches sweeps may not find.

Impulses are p(w) = the nearest to λ - ρ w on the laws' sets (Alart and Curnier 1991), and f = Tᵀ p are the forces on bodies
that they make. A semismooth Newton method with line search solves f = Tᵀ p(T C f + g) for f; where it has come near, λ
becomes p, and ρ grows. Redundant contacts do no harm: the equations are as many as the motions of bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact_carried import Carried
from linkwork.algorithms.contact_laws import Block
from linkwork.algorithms.newton import infinity_norm, one_norm, tolerance
from linkwork.ir.functions import loop, maximum, minimum, where
from linkwork.spatial.solve import solve_without_pivots

FIRST_RATE, LEAST_RATE, LAST_RATE = 30.0, 1.0, 1e5  # ρ in units of 1 / G
LAST_RATE_SINGLE = 1e3  # in single precision, where ρ makes more of what is rounded
GROWS, FALLS = 10.0, 0.04  # ρ by what factors where λ becomes p, and where the line search fails
NEAR = 0.5  # λ becomes p where the velocities of bodies are known to this part of what p - λ stands for
SHORTEST = 0.25  # part of a Newton step


class _Near(NamedTuple):
    """p, by row; S, what forces on bodies lose by their motion; what is missing, f - Tᵀ p; the largest p - λ as a velocity."""

    p: np.ndarray
    S: np.ndarray
    missing: np.ndarray
    moved: Any


class _Bodies:
    """Contacts and the motions that they depend on."""

    def __init__(self, carried: Carried, g: np.ndarray, blocks: Sequence[Block]) -> None:
        self.T, self.C, self.g, self.soft, self.groups = carried.T, carried.C, g, carried.soft, carried.groups
        self.blocks = [[block for block in blocks if block.rows[0] in group] for group in self.groups]
        self.columns = [carried.columns(group) for group in self.groups]

    def near(self, V: np.ndarray, f: np.ndarray, lam: np.ndarray, rate: Any) -> _Near:
        """Impulses p where the motion is V, and what depends on them."""
        p, moved = np.array(lam, dtype=object), 0.0
        S: Any = np.zeros((len(V), len(V)), dtype=object)
        missing = np.array(f, dtype=object)
        for group, blocks, at in zip(self.groups, self.blocks, self.columns):
            T = self.T[np.ix_(group, at)]
            w = self.g[group] + T @ V[at]
            D: Any = np.zeros((len(group), len(group)), dtype=object)
            for block in blocks:
                rows = list(block.rows)
                own = [i - group[0] for i in rows]
                found = block.proximal(w[own], lam[rows], rate, self.soft[rows], p[group[0]])
                p[rows], D[np.ix_(own, own)], moved = found.impulses, found.slope, maximum(found.moved, moved)
                if found.other is not None:
                    D[own, 0] = D[own, 0] + found.column * D[0, 0]
            missing[at] = missing[at] - T.T @ p[group]
            S[np.ix_(at, at)] = S[np.ix_(at, at)] + T.T @ (D @ T)
        return _Near(p, S, missing, moved)


def multipliers(
    carried: Carried, g: np.ndarray, blocks: Sequence[Block], lam: np.ndarray, solved: Any, least: Any, limit: int
) -> tuple[np.ndarray, Any]:
    """Impulses from those given, (m,), and the iterations; one only where the problem is `solved`. All rows are of contacts.

    `least` is the tolerance [m/s].
    """
    bodies = _Bodies(carried, g, blocks)
    m, size = len(lam), carried.T.shape[1]
    last_rate = where(tolerance(1.0, g) > 1.5, LAST_RATE_SINGLE, LAST_RATE)

    def step(x: np.ndarray) -> tuple[np.ndarray, Any]:
        lam, (base, ahead) = x[:m], x[m : m + 2 * size].reshape(2, size)
        part, merit, rate, count = x[m + 2 * size :]
        f = base + part * ahead
        V = bodies.C @ f
        found = bodies.near(V, f, lam, rate)
        wrong = bodies.C @ found.missing
        now = found.missing @ wrong  # twice the energy of what is missing
        wanted = (1.0 - 0.1 * part) * merit
        taken = ((now < wanted) | (part <= SHORTEST)) & (now < np.inf)
        error = infinity_norm(bodies.T @ wrong)
        near = (now < wanted) & (error <= maximum(NEAR * found.moved, 0.1 * least))
        more = where(near & (error + found.moved <= 0.5 * least), 0.0, 1.0)
        lam = where(near, found.p, lam)
        slower = where(taken & (now >= wanted), maximum(FALLS * rate, LEAST_RATE), rate)
        rate = where(near, minimum(GROWS * rate, last_rate), slower)
        found = bodies.near(V, f, lam, rate)
        newton = -solve_without_pivots(np.eye(size) + found.S @ bodies.C, found.missing[:, None])[:, 0]
        newton = where(one_norm(newton) < np.inf, newton, 0.0)
        merit = where(taken, found.missing @ (bodies.C @ found.missing), merit)
        after = [*where(taken, f, base), *where(taken, newton, ahead), where(taken, 1.0, 0.5 * part), merit, rate, count + 1.0]
        return np.array([*lam, *after], dtype=object), (more > 0.5) & (solved < 0.5)

    first = np.array([*lam, *(bodies.T.T @ lam), *np.zeros(size), 1.0, np.inf, FIRST_RATE, 0.0], dtype=object)
    last = loop(step, first, limit=limit)
    return last[:m], last[-1]
