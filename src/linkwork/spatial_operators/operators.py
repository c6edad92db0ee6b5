"""The spatial operators of a tree of nodes in one state, in the letters of SKO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.tree.articulated import Hinge, Hinges
from linkwork.errors import LinkworkError
from linkwork.lazy import cached_property
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.tree import TreeState
from linkwork.spatial import any_nonzero, mirrored
from linkwork.spatial.constants import product
from linkwork.spatial_operators.block_inverse import BlockInverse
from linkwork.spatial_operators.identity import Identity
from linkwork.spatial_operators.operator import BlockDiagonal, Operator
from linkwork.spatial_operators.pick_offs import PickOffs
from linkwork.spatial_operators.propagation import GROUND, Kernel, Propagation
from linkwork.spatial_operators.spaces import Space, numbers


class Operators:
    """Spatial operators of nodes in one state (SKO Sec. 2 to 6), each computed on first use.

    Stacked vectors have a block for each node, parents before children. Armature is inertia that moves with
    the velocity of its joint only. SKO has no symbol for it, but a node may have any rows: a node with
    armature has an additional row for each velocity of its joint, so every identity of SKO holds.
    """

    def __init__(self, nodes: TreeState[Any]) -> None:
        self.nodes = nodes
        every: list[HingeNode] = list(nodes.base_to_tips())
        self._every = every
        number = {k: i for i, k in enumerate(every)}
        self.parents = tuple(GROUND if k.parent is nodes.ground else number[k.parent] for k in every)
        self._armature_rows = [
            len(k.armature) if any_nonzero(np.asarray(k.armature, dtype=object)) else 0 for k in every
        ]
        rows = [k.rows + more for k, more in zip(every, self._armature_rows)]
        ends = np.cumsum([0, *rows])
        segment = serial_segments(self.parents)
        names = [k.name for k in every]
        self.rows = Space(
            "stacked node vectors",
            names,
            [slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist())],
            segment,
        )
        self.velocities = Space("generalised velocities", names, [k.dofs for k in every], segment)
        self._number = number

    def __repr__(self) -> str:
        sizes = f"{len(self._every)} nodes, {self.rows.size} rows, {self.velocities.size} velocities"
        return f"<linkwork operators of {self.nodes.name!r}: {sizes}>"

    @property
    def segments(self) -> tuple[tuple[str, ...], ...]:
        """The serial-chain segments of the tree, as the names of their nodes (SKO Sec. 7.1)."""
        segments: dict[int, list[str]] = {}
        for name, segment in zip(self.rows.names, self.rows.segment):
            segments.setdefault(segment, []).append(name)
        return tuple(tuple(names) for names in segments.values())

    # operators of the model

    @cached_property
    def I(self) -> Operator:  # noqa: E743
        """The identity of stacked node vectors."""
        return Identity(self.rows)

    @cached_property
    def I_v(self) -> Operator:
        """The identity of generalised velocities."""
        return Identity(self.velocities)

    @cached_property
    def E_A(self) -> Kernel:
        """The SKO operator: the weight from each node to its parent."""
        return Kernel("E_A", self.rows, self.parents, self._gather, self._scatter)

    def _gather(self, k: int, F: Any) -> Any:
        node = self._every[k]
        return self._padded(node.A.gather(F[: node.rows]), self.parents[k])

    def _scatter(self, k: int, V: Any) -> Any:
        node = self._every[k]
        return self._padded(node.A.scatter(V[: node.parent.rows]), k)

    def _padded(self, x: Any, k: int) -> Any:
        """Return a vector of node k with zeros in the rows of its armature."""
        more = self._armature_rows[k]
        return np.concatenate([x, np.zeros((more, *x.shape[1:]))]) if more else x

    @cached_property
    def A(self) -> Propagation:
        """The SPO operator (1 - E_A)⁻¹."""
        return Propagation("A", self.E_A)

    @cached_property
    def A_tilde(self) -> Propagation:
        """Ã = A - 1."""
        return Propagation("A_tilde", self.E_A, strict=True)

    def _H(self, k: int) -> np.ndarray:
        H = np.array(self._every[k].H, dtype=object)
        more = self._armature_rows[k]
        return np.concatenate([H, np.eye(more).astype(object)], axis=1) if more else H

    @cached_property
    def H(self) -> Operator:
        """The joint map: H* takes generalised velocities to motions across the joints."""
        return BlockDiagonal("H", self.velocities, self.rows, self._H)

    def _with_armature(self, k: int, M: Any) -> np.ndarray:
        more = self._armature_rows[k]
        if not more:
            return M
        matrix = np.zeros((len(M) + more,) * 2, dtype=object)
        matrix[: len(M), : len(M)] = M
        matrix[len(M) :, len(M) :] = self._every[k].armature
        return matrix

    @cached_property
    def M(self) -> Operator:
        """The inertias of the nodes."""
        return self._inertias("M", lambda k: self._every[k].M)

    def _inertias(self, name: str, of: Any) -> Operator:
        def times(k: int, x: Any) -> Any:
            row_slice = self._every[k].rows
            first = of(k) @ x[:row_slice]
            return (
                np.concatenate(
                    [first, product(np.asarray(self._every[k].armature, dtype=object), x[row_slice:])]
                )
                if len(x) > row_slice
                else first
            )

        def block(k: int) -> np.ndarray:
            return self._with_armature(k, np.array(of(k).dense(), dtype=object))

        return BlockDiagonal(name, self.rows, self.rows, block, symmetric=True, quick=times)

    @cached_property
    def R(self) -> Operator:
        """Composite inertias: M = R - E_A R E_A* (Lemma 4, Algorithm 4.1)."""
        diagonal = (self.A @ self.M @ self.A.T).diagonal_part()
        diagonal.name = "R"
        return diagonal

    # the Riccati equation

    @cached_property
    def _hinges(self) -> list[Hinge]:
        hinges = Hinges(self.nodes)
        for k in self.nodes.tips_to_base():
            hinges[k]
        return [hinges[k] for k in self._every]

    @cached_property
    def P(self) -> Operator:
        """Articulated inertias: M = P - E_ψ P E_ψ* (Lemma 7, Eq. 33)."""
        return self._inertias("P", lambda k: self._hinges[k].P)

    @cached_property
    def D(self) -> Operator:
        """D = H P H*."""

        def block(k: int) -> np.ndarray:
            P = self._hinges[k].P
            H = np.array(self._every[k].H, dtype=object)
            return mirrored(H @ (P @ H.T)) + self._every[k].armature

        return BlockDiagonal("D", self.velocities, self.velocities, block, symmetric=True)

    def _G(self, k: int) -> np.ndarray:
        G = np.array(self._hinges[k].G, dtype=object)
        if not self._armature_rows[k]:
            return G
        return np.concatenate(
            [G, self._hinges[k].D.solve(np.asarray(self._every[k].armature, dtype=object)).T]
        )

    @cached_property
    def G(self) -> Operator:
        """G = P H* D⁻¹."""
        return BlockDiagonal("G", self.rows, self.velocities, self._G)

    @cached_property
    def tau(self) -> Operator:
        """τ = G H."""
        return BlockDiagonal(
            "tau", self.rows, self.rows, lambda k: product(self.G.entry(k, k), self.H.entry(k, k))
        )

    @cached_property
    def tau_bar(self) -> Operator:
        """τ̄ = 1 - τ."""

        def block(k: int) -> np.ndarray:
            return np.eye(self.rows.rows_of(k)) - self.tau.entry(k, k)

        return BlockDiagonal(
            "tau_bar",
            self.rows,
            self.rows,
            block,
            quick=self._times_tau_bar,
            quick_transposed=self._times_tau_bar_star,
        )

    def _times_tau_bar(self, k: int, F: Any) -> Any:
        """Return τ̄ F, the part of a force that passes a free joint."""
        return F - product(self.G.entry(k, k), product(self.H.entry(k, k), F))

    def _times_tau_bar_star(self, k: int, V: Any) -> Any:
        """Return τ̄* V, the motion of a node carried by V with its joint free."""
        return V - product(self.H.entry(k, k).T, product(self.G.entry(k, k).T, V))

    @cached_property
    def P_plus(self) -> Operator:
        """P⁺ = τ̄ P: the articulated inertia transmitted through a free joint."""

        def block(k: int) -> np.ndarray:
            if not self._armature_rows[k]:
                return np.array(self._hinges[k].P_plus.dense(), dtype=object)
            P = self.P.entry(k, k)
            H = self.H.entry(k, k)
            G = self.G.entry(k, k)
            return mirrored(P - product(G, product(H, P)))

        return BlockDiagonal("P_plus", self.rows, self.rows, block, symmetric=True)

    @cached_property
    def E_psi(self) -> Kernel:
        """E_ψ = E_A τ̄ (Eq. 34)."""

        def inward(k: int, F: Any) -> Any:
            return self._gather(k, self._times_tau_bar(k, F))

        def outward(k: int, V: Any) -> Any:
            return self._times_tau_bar_star(k, self._scatter(k, V))

        return Kernel("E_psi", self.rows, self.parents, inward, outward)

    @cached_property
    def psi(self) -> Propagation:
        """The SPO operator ψ = (1 - E_ψ)⁻¹ (Eq. 35)."""
        return Propagation("psi", self.E_psi)

    @cached_property
    def psi_tilde(self) -> Propagation:
        """ψ - 1."""
        return Propagation("psi_tilde", self.E_psi, strict=True)

    @cached_property
    def K(self) -> Operator:
        """K = E_A G (Eq. 37)."""
        product: Operator = self.E_A @ self.G
        product.name = "K"
        return product

    @cached_property
    def Omega(self) -> Operator:
        """The extended operational-space compliance Ω = ψ* H* D⁻¹ H ψ (Eq. 60)."""
        product: Operator = self.psi.T @ self.H.T @ self.D.inverse @ self.H @ self.psi
        product.name = "Omega"
        return product

    @cached_property
    def Upsilon(self) -> Operator:
        """Υ: the diagonal blocks of Ω, by the backward Lyapunov recursion (Lemma 5; Partition Eq. 22)."""
        diagonal = self.Omega.diagonal_part()
        diagonal.name = "Upsilon"
        return diagonal

    # the mass matrix and operational space

    @cached_property
    def mass_matrix(self) -> Operator:
        """H A M A* H*: the Newton-Euler factorisation (Eq. 3)."""
        return self.H @ self.A @ self.M @ self.A.T @ self.H.T

    @cached_property
    def innovations_factor(self) -> Operator:
        """1 + H A K: the mass matrix is its product with D and its transpose (Eq. 49)."""
        return self.I_v + self.H @ self.A @ self.K

    @cached_property
    def innovations_inverse(self) -> Operator:
        """1 - H ψ K: the inverse of `innovations_factor` (Eq. 50)."""
        return self.I_v - self.H @ self.psi @ self.K

    @cached_property
    def mass_matrix_inverse(self) -> Operator:
        """(1 - H ψ K)* D⁻¹ (1 - H ψ K) (Eq. 51)."""
        return self.innovations_inverse.T @ self.D.inverse @ self.innovations_inverse

    def B(self, *frames: Any) -> Operator:
        """Return the pick-off operator B of frames: forces on frames to forces on nodes (Sec. 6.2).

        B* V are the motions of the frames.
        """
        if not frames:
            raise LinkworkError("frames: expected at least one, got none")
        return PickOffs(self.nodes, frames, self.rows, self._number)

    def compliance(self, *frames: Any) -> Operator:
        """Return B* Ω B, the operational-space compliance J M⁻¹ J* of frames, without J and M (Eq. 60)."""
        B = self.B(*frames)
        return B.T @ self.Omega @ B

    def operational_inertia(self, *frames: Any) -> Operator:
        """Return the inverse of `compliance`, for frames that can move in all directions."""
        return BlockInverse(self.compliance(*frames))

    # vectors that depend on velocities

    @cached_property
    def a(self) -> np.ndarray:
        """Stacked Coriolis terms of all nodes: α = A* (H* θ̈ + a). Nodes on the ground include gravity."""
        parts = []
        for i, k in enumerate(self._every):
            below = self.nodes.ground.alpha if self.parents[i] == GROUND else np.zeros(k.parent.rows)
            parts.append(self._padded(k.accelerate(np.array(below, dtype=object), np.zeros(len(k.H))), i))
        return self.rows.stacked(parts)

    @cached_property
    def b(self) -> np.ndarray:
        """The gyroscopic term of all nodes, stacked: f = A (M α + b)."""
        if not all(isinstance(k, NodeState) for k in self._every):
            raise LinkworkError("nodes with regrouped base parameters have no b: use those of lw.nodes")
        biases = [self._padded(k.b, i) for i, k in enumerate(self._every)]  # type: ignore[attr-defined]
        return self.rows.stacked(biases)

    @cached_property
    def passive_force(self) -> np.ndarray:
        """Forces of springs and dampers in the joints, (nv,): T = H f + passive_force."""
        forces = np.zeros(self.velocities.size, dtype=object)
        for k in self._every:
            forces[k.dofs] = k.passive_force
        return numbers(forces)


def serial_segments(parents: Sequence[int]) -> list[int]:
    """Return the number of the serial-chain segment of each node.

    A node continues the segment of its parent if it is the only child.
    """
    children = [0] * len(parents)
    for parent in parents:
        if parent != GROUND:
            children[parent] += 1
    segments: list[int] = []
    count = 0
    for parent in parents:
        if parent != GROUND and children[parent] == 1:
            segments.append(segments[parent])
        else:
            segments.append(count)
            count += 1
    return segments
