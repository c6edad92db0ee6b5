"""Weights and inertias of nodes that hold several bodies: operators, never dense matrices of 6 n rows.

A vector of such a node is the stack of its bodies' vectors. Its weight carries motions out along the bodies' own tree, forces
in, and inertias across: each body's inertia to the one below first, and what the joints take away, which is of low rank, at
the end (DESIGN: Σ XᵀIX - (XᵀU) D⁻¹ (XᵀU)ᵀ).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from linkwork.model.bodies import MovingBody
from linkwork.spatial import Factor, Inertia, Pose, is_zero


def part(x: np.ndarray, seat: int) -> np.ndarray:
    """One body's share of a stacked vector, or of several as columns."""
    return x[6 * seat : 6 * seat + 6]


class At(NamedTuple):
    """An inertia of one body of a node."""

    seat: int
    inertia: Inertia


class Spin(NamedTuple):
    """A rotor as a single row: it spins about coordinate axis k of the body in `seat`, which has turned with it so far.

    Its own velocity is what its speed has more than that body's about the axis; `J` [kg m²] is its inertia there.
    """

    seat: int
    k: int
    J: float


class Blocks:
    """The inertias of a node's bodies, and of the rotors on them, whose rows follow."""

    def __init__(self, inertias: Sequence[Inertia], spins: Sequence[Spin] = ()) -> None:
        self.inertias, self.spins = list(inertias), spins

    def __add__(self, other: At | Inertia) -> Blocks:
        changed = list(self.inertias)
        seat, inertia = other if isinstance(other, At) else (0, other)  # the only body needs no seat
        changed[seat] = changed[seat] + inertia
        return Blocks(changed, self.spins)

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        return self.spun([inertia @ part(x, k) for k, inertia in enumerate(self.inertias)], x)

    def spun(self, forces: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        """Forces on the bodies with what their rotors add for a motion x, and the rotors' own rows, all stacked."""
        rows = []
        for r, (seat, k, J) in enumerate(self.spins):
            moment = J * (x[6 * seat + k] + x[6 * len(self.inertias) + r])
            forces[seat] = plus(forces[seat], k, moment)
            rows.append(moment)
        return np.concatenate([*forces, np.reshape(np.array(rows, dtype=object), (len(rows), *x.shape[1:]))])

    def whole(self) -> list[Inertia]:
        """The inertias of the bodies with their rotors turning along."""
        inertias = list(self.inertias)
        for seat, k, J in self.spins:
            A = np.array(inertias[seat].A, dtype=object)
            A[k, k] = A[k, k] + J
            inertias[seat] = Inertia(A, inertias[seat].B, inertias[seat].D, inertias[seat].mass)
        return inertias

    def without(self, G: np.ndarray, U: np.ndarray, D: Factor, gone: Sequence[int] = ()) -> Reduced:
        return Reduced(self, G, U, D)


class Reduced:
    """P - G Uᵀ of a node's bodies, with G = U D⁻¹."""

    def __init__(self, P: Blocks, G: np.ndarray, U: np.ndarray, D: Factor) -> None:
        self.P, self.G, self.U, self.D = P, G, U, D

    @cached_property
    def one(self) -> Inertia:
        """The part of a node's only body."""
        (whole,) = self.P.whole()
        return whole.without(self.G[:6], self.U[:6])

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        if len(self.P.inertias) == 1 and all(is_zero(y) for y in x[6:].ravel()):
            return np.concatenate([self.one @ x[:6], (self.P @ x - self.G @ (self.U.T @ x))[6:]])
        return self.P @ x - self.G @ (self.U.T @ x)


def plus(x: np.ndarray, k: int, y: Any) -> np.ndarray:
    """x with y added to its row k."""
    changed = np.array(x, dtype=object)
    changed[k] = changed[k] + y
    return changed


class Seat:
    """The weight of a single body that hangs on one of several bodies of its parent node, which has so many rows."""

    def __init__(self, X: Pose, seat: int, rows: int) -> None:
        self.X, self.seat, self.rows = X, seat, rows

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return self.X.scatter(part(V, self.seat))

    def gather(self, F: np.ndarray) -> np.ndarray:
        return seated(self.X.gather(F), self.seat, self.rows)

    def congruence(self, inertia: Inertia) -> At:
        return At(self.seat, self.X.congruence(inertia))


def seated(F: np.ndarray, seat: int, rows: int) -> np.ndarray:
    """One body's vector as that of a node with so many rows."""
    if rows == 6:
        return F
    stack = np.zeros((rows, *F.shape[1:]), dtype=object)
    stack[6 * seat : 6 * seat + 6] = F
    return stack


class ClusterWeight:
    """The weight of a node with several bodies, all of which stand in the end on one body of the parent node.

    `spins` rotors have a row each behind those of the bodies, to which the parent's motion adds nothing. The parent node has
    `parents` rows.
    """

    def __init__(self, bodies: Sequence[MovingBody], spins: int, seat: int, parents: int) -> None:
        self.bodies, self.spins = bodies, spins
        self.seat, self.parents = seat, parents
        inside = {body: k for k, body in enumerate(bodies)}
        self.below = [inside.get(body.on) for body in bodies]  # type: ignore[arg-type]

    def scatter(self, V: np.ndarray) -> np.ndarray:
        out: list[np.ndarray] = []
        for body, below in zip(self.bodies, self.below):
            out.append(body.X.scatter(part(V, self.seat) if below is None else out[below]))
        return np.concatenate([*out, np.zeros((self.spins, *V.shape[1:]))])

    def gather(self, F: np.ndarray) -> np.ndarray:
        return seated(self._gathered(F), self.seat, self.parents)

    def _gathered(self, F: np.ndarray) -> np.ndarray:
        total: Any = 0.0
        for body, share in self._at_feet([part(F, k) for k in range(len(self.bodies))], "gather"):
            total = total + body.X.gather(share)
        return total

    def _at_feet(self, shares: list[Any], carry: str) -> list[tuple[MovingBody, Any]]:
        """What the bodies have, carried to those that hang on the parent."""
        found = []
        for k, (body, below) in reversed(list(enumerate(zip(self.bodies, self.below)))):
            if below is None:
                found.append((body, shares[k]))
            else:
                shares[below] = shares[below] + getattr(body.X, carry)(shares[k])
        return found

    def congruence(self, inertia: Blocks | Reduced) -> Any:
        low = inertia if isinstance(inertia, Reduced) else None
        blocks = inertia if isinstance(inertia, Blocks) else inertia.P
        feet = self._at_feet(blocks.whole(), "congruence")
        if low and len(feet) == 1:  # what joints take away is taken before the last step: it need not be carried itself
            ((body, share),) = feet
            ((_, U),) = self._at_feet([part(low.U, k) for k in range(len(self.bodies))], "gather")
            left = low.one if len(self.bodies) == 1 else share.without(low.D.solve(U.T).T, U)
            total = body.X.congruence(left)
        else:
            total = feet[0][0].X.congruence(feet[0][1])
            for body, share in feet[1:]:
                total = total + body.X.congruence(share)
            if low:
                U = self._gathered(low.U)
                total = total.without(low.D.solve(U.T).T, U)
        return total if self.parents == 6 else At(self.seat, total)
