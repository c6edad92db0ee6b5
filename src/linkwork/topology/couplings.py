"""Couplings in explicit form, such as mimic joints: solved by substitution, in a time that is linear in the terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkwork.parts import Coupling, LoopConstraint, PlacedJoint

FILL = 20  # most fill-in of the substitution, relative to the couplings' terms: beyond it dense matrices are used
LEADERS = 100  # independent joints that one group may have: the closest coordinates are found by a dense matrix


class ExplicitCouplings:
    """Dependent joints (followers) as affine functions of independent ones (leaders): q[k] = Σ coefficient * q[j] + offset."""

    def __init__(self, couplings: Sequence[Coupling], terms: dict[int, dict[int, float]], offsets: dict[int, float]) -> None:
        self.couplings, self.terms, self.offsets = couplings, terms, offsets

    def nearest(self, q: np.ndarray, joints: Sequence[PlacedJoint]) -> np.ndarray:
        """The closest coordinates to q, (nq,), that satisfy all couplings."""
        q = np.array(q, dtype=float)
        for leaders, followers in self.families():
            own = [joints[k].q_start for k in (*leaders, *followers)]
            column = {k: c for c, k in enumerate(leaders)}
            G, g = np.zeros((len(own), len(leaders))), np.zeros(len(own))
            G[: len(leaders)] = np.eye(len(leaders))
            for row, k in enumerate(followers, len(leaders)):
                g[row] = self.offsets[k]
                for j, coefficient in self.terms[k].items():
                    G[row, column[j]] = coefficient
            if np.abs(q[own] - g - G @ q[own][: len(leaders)]).max() > 0.0:  # what follows already stays as it is
                q[own] = G @ np.linalg.lstsq(G, q[own] - g, rcond=None)[0] + g
        return q

    def residual(self, q: np.ndarray, joints: Sequence[PlacedJoint]) -> float:
        """The largest residual of the couplings at coordinates q, (nq,)."""
        total = 0.0
        for c in self.couplings:
            total = max(total, abs(sum(x * q[joints[k].q_start] for k, _, x in c.terms) - c.offset))
        return float(total)

    def families(self) -> list[tuple[list[int], list[int]]]:
        """Leaders and followers, in connected groups."""
        of: dict[int, int] = {}  # leader -> one of its family

        def top(k: int) -> int:
            while of.setdefault(k, k) != k:
                of[k] = k = of[of[k]]
            return k

        for first, *others in self.terms.values():
            family = top(first)
            for k in others:
                of[top(k)] = family
        found: dict[int, tuple[list[int], list[int]]] = {}
        for k in list(of):
            found.setdefault(top(k), ([], []))[0].append(k)
        for k, terms in self.terms.items():
            found[top(next(iter(terms)))][1].append(k)
        return list(found.values())


def explicit_couplings(
    bodies: Sequence[int], constraints: Sequence[LoopConstraint], joints: Sequence[PlacedJoint]
) -> ExplicitCouplings | None:
    """Couplings solved for the joints chosen as dependent, if substitution alone does it; None if not."""
    couplings = [c for c in constraints if isinstance(c, Coupling)]
    undecided = {k for k in bodies if joints[k].independent is False}
    if any(joints[k].nv > 1 and False in joints[k].choices for k in bodies):
        return None
    if len(couplings) < len(constraints) or len(undecided) != len(couplings):
        return None
    left = [{k for k, _, _ in c.terms if k in undecided} for c in couplings]
    naming: dict[int, list[int]] = {}
    for n, unknowns in enumerate(left):
        for k in unknowns:
            naming.setdefault(k, []).append(n)
    ready = [n for n, unknowns in enumerate(left) if len(unknowns) == 1]
    terms: dict[int, dict[int, float]] = {}
    offsets: dict[int, float] = {}
    room = FILL * sum(len(c.terms) for c in couplings)
    while ready:
        n = ready.pop()
        if not left[n]:  # another coupling has decided the same joint
            return None
        (k,) = left[n]
        terms[k], offsets[k] = _solved(couplings[n], k, terms, offsets)
        room -= len(terms[k])
        if not terms[k] or room < 0 or not np.isfinite([*terms[k].values(), offsets[k]]).all():
            return None
        for other in naming[k]:
            left[other].discard(k)
            if len(left[other]) == 1:
                ready.append(other)
    if len(terms) < len(couplings):
        return None
    found = ExplicitCouplings(couplings, terms, offsets)
    return found if all(len(leaders) <= LEADERS for leaders, _ in found.families()) else None


def _solved(
    coupling: Coupling, k: int, terms: dict[int, dict[int, float]], offsets: dict[int, float]
) -> tuple[dict[int, float], float]:
    """A coupling solved for joint k, with what is known of the others put in."""
    own = next(c for j, _, c in coupling.terms if j == k)
    total: dict[int, float] = {}
    offset = coupling.offset / own
    for j, _, c in coupling.terms:
        if j == k:
            continue
        offset -= c / own * offsets.get(j, 0.0)
        for leader, coefficient in terms.get(j, {j: 1.0}).items():
            total[leader] = total.get(leader, 0.0) - c / own * coefficient
    return total, offset
