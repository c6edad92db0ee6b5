"""Weights and inertias of nodes that hold several bodies: operators, not dense matrices of 6 n rows.

A vector of such a node is the stack of its bodies' vectors. Its weight carries motions out along the bodies' own tree, forces
in, and inertias across: each body's inertia to the one below first, and what the joints take away, which is of low rank, at
the end (DESIGN: Σ XᵀIX - (XᵀU) D⁻¹ (XᵀU)ᵀ).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.lazy import cached_property
from linkwork.model.bodies import MovingBody
from linkwork.spatial import Factor, Inertia, Pose, is_zero, mirrored


def part(x: np.ndarray, seat: int) -> np.ndarray:
    """One body's share of a stacked vector, or of several as columns."""
    return x[6 * seat : 6 * seat + 6]


class At(NamedTuple):
    """An inertia of one body of a node."""

    seat: int
    inertia: Inertia


class Coupled(NamedTuple):
    """An inertia that ties several bodies of a node: symmetric, with six rows and columns for each of their seats."""

    seats: Sequence[int]
    matrix: np.ndarray


class Spin(NamedTuple):
    """A rotor as a single row: it spins about coordinate axis k of the body in `seat`, which has turned with it so far.

    Its own velocity is what its speed has more than that body's about the axis; `J` [kg m²] is its inertia there.
    """

    seat: int
    k: int
    J: float


class Blocks:
    """The inertias of a node's bodies, of the rotors on them, whose rows follow, and last of joints with rows of their own.

    `across` has, for two seats, the (6, 6) block that ties these bodies: clusters that stand on both make it.
    """

    def __init__(
        self,
        inertias: Sequence[Inertia],
        spins: Sequence[Spin] = (),
        joints: Sequence[float] = (),
        across: Mapping[tuple[int, int], np.ndarray] | None = None,
    ) -> None:
        self.inertias, self.spins, self.joints, self.across = list(inertias), spins, joints, across or {}

    def __add__(self, other: At | Coupled | Inertia) -> Blocks:
        changed, across = list(self.inertias), dict(self.across)
        if isinstance(other, Coupled):
            for i, seat in enumerate(other.seats):
                rows = part(other.matrix, i)
                changed[seat] = changed[seat] + Inertia.of(part(rows.T, i))
                for j, another in enumerate(other.seats[:i]):
                    across[seat, another] = across.get((seat, another), 0.0) + part(rows.T, j).T
        else:
            seat, inertia = other if isinstance(other, At) else (0, other)  # the only body needs no seat
            changed[seat] = changed[seat] + inertia
        return Blocks(changed, self.spins, self.joints, across)

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        forces = [inertia @ part(x, k) for k, inertia in enumerate(self.inertias)]
        for (i, j), block in self.across.items():
            forces[i], forces[j] = forces[i] + block @ part(x, j), forces[j] + block.T @ part(x, i)
        return self.spun(forces, x)

    def spun(self, forces: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        """Forces on the bodies with what their rotors add for a motion x, and the rows of rotors and joints, all stacked."""
        rows, start = [], 6 * len(self.inertias)
        for r, (seat, k, J) in enumerate(self.spins, start):
            moment = J * (x[6 * seat + k] + x[r])
            forces[seat] = plus(forces[seat], k, moment)
            rows.append(moment)
        rows += [J * x[r] for r, J in enumerate(self.joints, start + len(self.spins))]
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
        if blocks.across:
            total = Inertia.of(self._carried(inertia, [self.seat]))
            return total if self.parents == 6 else At(self.seat, total)
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

    def _carried(self, inertia: Any, seats: Sequence[int]) -> np.ndarray:
        """A M A* on some bodies of the parent, by what a motion of each makes of the node."""
        of_seats = np.eye(self.parents)[:, [6 * seat + i for seat in seats for i in range(6)]]
        X = self.scatter(of_seats)
        return mirrored(X.T @ (inertia @ X))


class FeetWeight(ClusterWeight):
    """The weight of a node that stands on several bodies of its parent: its joints answer to their motions by Γ.

    `answers` are what joints make of these motions, (6, 6 feet) for each body, and `rows` what the further rows do.
    """

    def __init__(
        self,
        bodies: Sequence[MovingBody],
        feet: Sequence[MovingBody],
        parents: int,
        answers: list[np.ndarray],
        rows: np.ndarray,
    ) -> None:
        super().__init__(bodies, len(rows), feet[0].seat, parents)
        self.seats, self.answers, self.rows = [foot.seat for foot in feet], answers, rows

    def of_feet(self, V: np.ndarray) -> np.ndarray:
        """The feet's share of what the parent has."""
        return np.concatenate([part(V, seat) for seat in self.seats])

    def scatter(self, V: np.ndarray) -> np.ndarray:
        out: list[np.ndarray] = []
        feet = self.of_feet(V)
        for body, below, answer in zip(self.bodies, self.below, self.answers):
            out.append(body.X.scatter(part(V, body.on.seat) if below is None else out[below]) + answer @ feet)
        return np.concatenate([*out, self.rows @ feet])

    def gather(self, F: np.ndarray) -> np.ndarray:
        n = len(self.bodies)
        shares: list[Any] = [part(F, k) for k in range(n)]
        answered: Any = self.rows.T @ F[6 * n :]
        total = np.zeros((self.parents, *F.shape[1:]), dtype=object)
        for k, (body, below, answer) in reversed(list(enumerate(zip(self.bodies, self.below, self.answers)))):
            answered = answered + answer.T @ shares[k]
            carried = body.X.gather(shares[k])
            if below is None:
                total = total + seated(carried, body.on.seat, self.parents)
            else:
                shares[below] = shares[below] + carried
        for i, seat in enumerate(self.seats):
            total = total + seated(part(answered, i), seat, self.parents)
        return total

    def congruence(self, inertia: Blocks | Reduced) -> Coupled:
        return Coupled(self.seats, self._carried(inertia, self.seats))
