"""Explicit couplings, such as mimic joints, solved by substitution in linear time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.mechanism import Coupling, LoopConstraint, PlacedJoint

# most fill-in of the substitution, relative to the couplings' terms: beyond it dense matrices are used
MAX_FILL = 20
# independent joints that one group may have: the closest coordinates are found by a dense matrix
LEADERS = 100


class ExplicitCouplings:
    """Dependent joints as affine functions of independent ones: q[k] = Σ coefficient · q[j] + offset."""

    def __init__(
        self, couplings: Sequence[Coupling], terms: dict[int, dict[int, float]], offsets: dict[int, float]
    ) -> None:
        self.couplings = couplings
        self.terms = terms
        self.offsets = offsets

    def nearest(self, q: np.ndarray, joints: Sequence[PlacedJoint]) -> np.ndarray:
        """Return the coordinates closest to q, (nq,), that satisfy all couplings."""
        q = np.array(q, dtype=float)
        for leaders, followers in self.families():
            columns = [joints[k].q_start for k in (*leaders, *followers)]
            column = {k: c for c, k in enumerate(leaders)}
            G = np.zeros((len(columns), len(leaders)))
            g = np.zeros(len(columns))
            G[: len(leaders)] = np.eye(len(leaders))
            for row, k in enumerate(followers, len(leaders)):
                g[row] = self.offsets[k]
                for j, coefficient in self.terms[k].items():
                    G[row, column[j]] = coefficient
            if (
                np.abs(q[columns] - g - G @ q[columns][: len(leaders)]).max() > 0.0
            ):  # what follows already stays as it is
                q[columns] = G @ np.linalg.lstsq(G, q[columns] - g, rcond=None)[0] + g
        return q

    def residual(self, q: np.ndarray, joints: Sequence[PlacedJoint]) -> float:
        """Return the largest residual of the couplings at q, (nq,)."""
        total = 0.0
        for c in self.couplings:
            total = max(total, abs(sum(x * q[joints[k].q_start] for k, _, x in c.terms) - c.offset))
        return float(total)

    def families(self) -> list[tuple[list[int], list[int]]]:
        """Return independent and dependent joints in connected groups."""
        of: dict[int, int] = {}  # leader -> one of its family

        def top(k: int) -> int:
            while of.setdefault(k, k) != k:
                of[k] = k = of[of[k]]
            return k

        for first, *others in self.terms.values():
            family = top(first)
            for k in others:
                of[top(k)] = family
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for k in list(of):
            groups.setdefault(top(k), ([], []))[0].append(k)
        for k, terms in self.terms.items():
            groups[top(next(iter(terms)))][1].append(k)
        return list(groups.values())


def explicit_couplings(
    bodies: Sequence[int], constraints: Sequence[LoopConstraint], joints: Sequence[PlacedJoint]
) -> ExplicitCouplings | None:
    """Return couplings solved for their dependent joints, or None if substitution does not suffice."""
    couplings = [c for c in constraints if isinstance(c, Coupling)]
    undecided = {k for k in bodies if joints[k].independent is False}
    if any(joints[k].nv > 1 and False in joints[k].choices for k in bodies):
        return None
    if len(couplings) < len(constraints) or len(undecided) != len(couplings):
        return None
    unsolved = [{k for k, _, _ in c.terms if k in undecided} for c in couplings]
    naming: dict[int, list[int]] = {}
    for n, unknowns in enumerate(unsolved):
        for k in unknowns:
            naming.setdefault(k, []).append(n)
    ready = [n for n, unknowns in enumerate(unsolved) if len(unknowns) == 1]
    terms: dict[int, dict[int, float]] = {}
    offsets: dict[int, float] = {}
    room = MAX_FILL * sum(len(c.terms) for c in couplings)
    while ready:
        n = ready.pop()
        if not unsolved[n]:  # another coupling has decided the same joint
            return None
        (k,) = unsolved[n]
        terms[k], offsets[k] = _solved(couplings[n], k, terms, offsets)
        room -= len(terms[k])
        if not terms[k] or room < 0 or not np.isfinite([*terms[k].values(), offsets[k]]).all():
            return None
        for other in naming[k]:
            unsolved[other].discard(k)
            if len(unsolved[other]) == 1:
                ready.append(other)
    if len(terms) < len(couplings):
        return None
    explicit = ExplicitCouplings(couplings, terms, offsets)
    return explicit if all(len(leaders) <= LEADERS for leaders, _ in explicit.families()) else None


def _solved(
    coupling: Coupling, k: int, terms: dict[int, dict[int, float]], offsets: dict[int, float]
) -> tuple[dict[int, float], float]:
    """Return a coupling solved for joint k, with known dependent joints substituted."""
    pivot = next(c for j, _, c in coupling.terms if j == k)
    total: dict[int, float] = {}
    offset = coupling.offset / pivot
    for j, _, c in coupling.terms:
        if j == k:
            continue
        offset -= c / pivot * offsets.get(j, 0.0)
        for leader, coefficient in terms.get(j, {j: 1.0}).items():
            total[leader] = total.get(leader, 0.0) - c / pivot * coefficient
    return total, offset
