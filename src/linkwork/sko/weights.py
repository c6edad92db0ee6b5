"""Weights of nodes as operators instead of dense matrices: scatter of motions, gather of forces, congruence.

A vector of a node with several bodies is the stack of their vectors, in named blocks. Its weight propagates
motions and forces along the tree of these bodies. Inertias are first transformed from body to body; the
low-rank downdate of the joints follows at the end: Σ XᵀIX - (XᵀU) D⁻¹ (XᵀU)ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.sko.bodies import RigidBody
from linkwork.sko.inertias import BlockInertia, BodiesInertia, CouplingInertia, DenseInertia, ReducedInertia
from linkwork.spatial import Inertia, Pose, mirrored


class DenseWeight:
    """A weight as a matrix A, (rows of the parent, rows of the node), of any shape and rank."""

    def __init__(self, A: np.ndarray) -> None:
        self.matrix = A

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return self.matrix.T @ V

    def gather(self, F: np.ndarray) -> np.ndarray:
        return self.matrix @ F

    def congruence(self, inertia: Any) -> DenseInertia:
        return DenseInertia(mirrored(self.matrix @ (inertia @ self.matrix.T)))


class BlockWeight:
    """The weight of a single body on one block of a parent node with several bodies."""

    def __init__(self, X: Pose, block: slice, rows: int) -> None:
        self.X = X
        self.block = block
        self.rows = rows

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return self.X.scatter(V[self.block])

    def gather(self, F: np.ndarray) -> np.ndarray:
        return in_block(self.X.gather(F), self.block, self.rows)

    def congruence(self, inertia: Inertia) -> BlockInertia:
        return BlockInertia(self.block, self.X.congruence(inertia), self.rows)


def in_block(F: np.ndarray, block: slice, rows: int) -> np.ndarray:
    """Return one body's vector as that of a node with `rows` rows."""
    if rows == 6:
        return F
    stack = np.zeros((rows, *F.shape[1:]), dtype=object)
    stack[block] = F
    return stack


class ClusterWeight:
    """The weight of a node with several bodies supported by one body of the parent node.

    `further` rows follow those of the bodies; the parent's motion adds nothing to them. `block` is that of
    the supporting body among the `parents` rows of the parent node.
    """

    def __init__(self, bodies: Sequence[RigidBody], further: int, block: slice, parents: int) -> None:
        self.bodies = bodies
        self.further = further
        self.block = block
        self.parents = parents
        inside: dict[Any, int] = {body: k for k, body in enumerate(bodies)}
        self.below = [inside.get(body.on) for body in bodies]

    def parts(self, x: np.ndarray) -> list[Any]:
        """Return the bodies' blocks of a stacked vector."""
        return [x[6 * k : 6 * k + 6] for k in range(len(self.bodies))]

    def scatter(self, V: np.ndarray) -> np.ndarray:
        out: list[np.ndarray] = []
        for body, below in zip(self.bodies, self.below):
            out.append(body.X.scatter(V[self.block] if below is None else out[below]))
        return np.concatenate([*out, np.zeros((self.further, *V.shape[1:]))])

    def gather(self, F: np.ndarray) -> np.ndarray:
        return in_block(self._gathered(F), self.block, self.parents)

    def _gathered(self, F: np.ndarray) -> np.ndarray:
        total: Any = 0.0
        for body, share in self._at_roots(self.parts(F), "gather"):
            total = total + body.X.gather(share)
        return total

    def _at_roots(self, shares: list[Any], carry: str) -> list[tuple[RigidBody, Any]]:
        """Return forces or inertias of the bodies, carried to those attached to the parent."""
        carried = []
        for k, (body, below) in reversed(list(enumerate(zip(self.bodies, self.below)))):
            if below is None:
                carried.append((body, shares[k]))
            else:
                shares[below] = shares[below] + getattr(body.X, carry)(shares[k])
        return carried

    def congruence(self, inertia: BodiesInertia | ReducedInertia) -> Inertia | BlockInertia | CouplingInertia:
        total = self._congruence(inertia)
        return total if self.parents == 6 else BlockInertia(self.block, total, self.parents)

    def _congruence(self, inertia: BodiesInertia | ReducedInertia) -> Inertia:
        low = inertia if isinstance(inertia, ReducedInertia) else None
        bodies = inertia if isinstance(inertia, BodiesInertia) else inertia.P
        if bodies.across:
            return Inertia.from_matrix(self._carried(inertia, [self.block]))
        roots = self._at_roots(list(bodies.with_locked_rotors().values()), "congruence")
        # with one root, the low-rank downdate comes before the last step and is not carried through it
        if low and len(roots) == 1:
            ((body, share),) = roots
            ((_, U),) = self._at_roots(self.parts(low.U), "gather")
            remainder = low.one if len(self.bodies) == 1 else share.projected(low.D.solve(U.T).T, U)
            return body.X.congruence(remainder)
        total = roots[0][0].X.congruence(roots[0][1])
        for body, share in roots[1:]:
            total = total + body.X.congruence(share)
        if low:
            U = self._gathered(low.U)
            total = total.projected(low.D.solve(U.T).T, U)
        return total

    def _carried(self, inertia: Any, blocks: Sequence[slice]) -> np.ndarray:
        """Return A M A* on some bodies of the parent, column by column, from unit motions of these bodies."""
        of_blocks = np.eye(self.parents)[:, [i for block in blocks for i in range(block.start, block.stop)]]
        X = self.scatter(of_blocks)
        return mirrored(X.T @ (inertia @ X))


class SupportsWeight(ClusterWeight):
    """The weight of a node that hangs on several bodies of its parent: Γ maps their motions to its joints.

    `supports` are these bodies' blocks, `carriers` the block that each of its bodies hangs on, where that is
    the parent's. `support_motions` are the joints' contributions S Γ to each body's motion, (6, 6 supports),
    and `rows` those to further rows.
    """

    def __init__(
        self,
        bodies: Sequence[RigidBody],
        supports: Sequence[slice],
        carriers: Sequence[slice | None],
        parents: int,
        support_motions: list[np.ndarray],
        rows: np.ndarray,
    ) -> None:
        super().__init__(bodies, len(rows), supports[0], parents)
        self.supports = supports
        self.carriers = carriers
        self.support_motions = support_motions
        self.rows = rows

    def of_supports(self, V: np.ndarray) -> np.ndarray:
        """Return the supports' blocks of a motion of the parent."""
        return np.concatenate([V[block] for block in self.supports])

    def scatter(self, V: np.ndarray) -> np.ndarray:
        out: list[np.ndarray] = []
        supports = self.of_supports(V)
        for body, below, carrier, motion in zip(self.bodies, self.below, self.carriers, self.support_motions):
            out.append(body.X.scatter(V[carrier] if below is None else out[below]) + motion @ supports)
        return np.concatenate([*out, self.rows @ supports])

    def gather(self, F: np.ndarray) -> np.ndarray:
        shares = self.parts(F)
        on_supports: Any = self.rows.T @ F[6 * len(self.bodies) :]
        total = np.zeros((self.parents, *F.shape[1:]), dtype=object)
        members = list(enumerate(zip(self.bodies, self.below, self.carriers, self.support_motions)))
        for k, (body, below, carrier, motion) in reversed(members):
            on_supports = on_supports + motion.T @ shares[k]
            carried = body.X.gather(shares[k])
            if below is None:
                assert carrier is not None
                total = total + in_block(carried, carrier, self.parents)
            else:
                shares[below] = shares[below] + carried
        for i, block in enumerate(self.supports):
            total = total + in_block(on_supports[6 * i : 6 * i + 6], block, self.parents)
        return total

    def congruence(self, inertia: BodiesInertia | ReducedInertia) -> CouplingInertia:
        return CouplingInertia(self.supports, self._carried(inertia, self.supports), self.parents)
