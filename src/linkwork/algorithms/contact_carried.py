"""The contact problem where many contacts are on few bodies: w = T V + g, with V = C Tᵀ λ the motion of these bodies.

Eight points on a foot have rows of rank six: what they do to each other goes through the foot's own motion. Sweeps then carry V
along instead of multiplying with all of G = T C Tᵀ, and a Newton step solves for V (the matrix inversion lemma).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact_laws import Block, Linear
from linkwork.ir.functions import absolute, maximum
from linkwork.spatial import is_zero, mirrored
from linkwork.spatial.solve import solve_without_pivots


class Carried(NamedTuple):
    """T, (m, D), leads from the motions of bodies and joints to rows, and C, (D, D), is what impulses on these do to them.

    `soft`, (m,), is the compliance of rows; `groups` are the rows of contacts, which Newton's steps solve for, by columns of T.
    """

    T: np.ndarray
    C: np.ndarray
    soft: np.ndarray
    groups: list[list[int]]

    def delassus_blocks(self) -> np.ndarray:
        """G where rows of one contact, or one joint, meet, (m, m); zero elsewhere."""
        m = len(self.T)
        G: Any = np.zeros((m, m), dtype=object)
        alone = [[i] for i in range(m) if not any(i in group for group in self.groups)]
        for rows in [*self.groups, *alone]:
            columns = self.columns(rows)
            T = self.T[np.ix_(rows, columns)]
            own = mirrored(T @ self.C[np.ix_(columns, columns)] @ T.T)
            G[np.ix_(rows, rows)] = own + np.diag(self.soft[rows])
        return G

    def columns(self, rows: Sequence[int]) -> list[int]:
        """The columns in which T is not zero for some rows."""
        return [j for j in range(self.T.shape[1]) if not all(is_zero(x) for x in self.T[list(rows), j])]

    def motion(self, lam: np.ndarray) -> np.ndarray:
        """V, (D,), of all impulses."""
        return self.C @ (self.T.T @ lam)


def sweep(
    carried: Carried, G: np.ndarray, g: np.ndarray, blocks: Sequence[Block], lam: np.ndarray
) -> tuple[np.ndarray, Any, list[Any], np.ndarray]:
    """As `contact_solver` sweeps: impulses, the largest change, branches by block; and V.

    Rows in joints come first: what contacts do to them later is found from V of the next sweep.
    """
    lam, change, V = np.array(lam, dtype=object), 0.0, carried.motion(lam)
    branches: dict[int, Any] = {}
    contacts = {i for group in carried.groups for i in group}
    for k in sorted(range(len(blocks)), key=lambda k: blocks[k].rows[0] in contacts):
        rows = list(blocks[k].rows)
        columns = carried.columns(rows)
        T = carried.T[np.ix_(rows, columns)]
        own = lam[rows]
        pure = G[np.ix_(rows, rows)] - np.diag(carried.soft[rows])
        new, branches[k] = blocks[k].update(g[rows] + T @ V[columns] - pure @ own, own, lam)
        for i, x in zip(rows, new):
            change = maximum(change, G[i, i] * absolute(x - lam[i]))
        V = V + carried.C[:, columns] @ (T.T @ (new - own))
        lam[rows] = new
    return lam, change, [branches[k] for k in range(len(blocks))], V


def newton(
    carried: Carried, g: np.ndarray, lam: np.ndarray, V: np.ndarray, lines: Sequence[tuple[Block, Linear]]
) -> np.ndarray:
    """Impulses after a Newton step of the contacts' laws, while those in joints stay.

    For a contact P (w + δw) + N (λ + δλ) = r with δw = T δV, so that δλ = c - B T δV, and δV = C Tᵀ δλ.
    """
    used = carried.columns([i for group in carried.groups for i in group])
    place = {j: k for k, j in enumerate(used)}
    S: Any = np.zeros((len(used), len(used)), dtype=object)
    f: Any = np.zeros(len(used), dtype=object)
    found: list[tuple[list[int], list[int], np.ndarray, np.ndarray, np.ndarray]] = []
    for group in carried.groups:
        P, N, r = _together(group, lines)
        columns = carried.columns(group)
        at, T = [place[j] for j in columns], carried.T[np.ix_(group, columns)]
        w = g[group] + T @ V[columns] + carried.soft[group] * lam[group]
        N = N + P * carried.soft[group]
        left = r - N @ lam[group] - P @ (w - carried.soft[group] * lam[group])
        solved = solve_without_pivots(N, np.concatenate([P, left[:, None]], axis=1))
        B, c = solved[:, :-1], solved[:, -1]
        S[np.ix_(at, at)] = S[np.ix_(at, at)] + T.T @ (B @ T)
        f[at] = f[at] + T.T @ c
        found.append((group, at, T, B, c))
    C = carried.C[np.ix_(used, used)]
    change = solve_without_pivots(np.eye(len(used)) + C @ S, (C @ f)[:, None])[:, 0]
    after = np.array(lam, dtype=object)
    for group, at, T, B, c in found:
        after[group] = after[group] + c - B @ (T @ change[at])
    return after


def _together(group: Sequence[int], lines: Sequence[tuple[Block, Linear]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, N and r of all laws of one contact."""
    size, place = len(group), {i: k for k, i in enumerate(group)}
    P: Any = np.zeros((size, size), dtype=object)
    N: Any = np.zeros((size, size), dtype=object)
    r: Any = np.zeros(size, dtype=object)
    for block, line in lines:
        if block.rows[0] not in place:
            continue
        own = [place[i] for i in block.rows]
        P[np.ix_(own, own)], N[np.ix_(own, own)], r[own] = line.P, line.N, line.r
        if line.other is not None:
            N[own, place[line.other]] = N[own, place[line.other]] + line.column
    return P, N, r
