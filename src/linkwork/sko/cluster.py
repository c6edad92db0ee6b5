"""Nodes of bodies coupled by loops, behind one cluster joint (Loops Sec. III).

With these nodes, `algorithms/tree/forward_dynamics.py` is the constraint-embedding articulated-body algorithm
(Loops Alg. 1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.ir.symbol import Symbol
from linkwork.lazy import cached_property
from linkwork.loops.embedding import Embedding
from linkwork.sko.bodies import RigidBody
from linkwork.sko.coaxial import coaxial_body
from linkwork.sko.contracts import GroundNode, HingeNode, NodeState, Weight
from linkwork.sko.flexible import ModalInertia
from linkwork.sko.inertias import BodiesInertia, ModalRows, RotorRow, add_to_row
from linkwork.sko.weights import ClusterWeight, SupportsWeight
from linkwork.spatial import Inertia, Pose, any_nonzero, mirrored
from linkwork.spatial.constants import product


class _ClusterNode(HingeNode):
    """Bodies coupled by loops: v = G ẏ + Γ V, v̇ = G ÿ + Γ α + g.

    `row_bodies` are the bodies with rows of their own; rotors geared to a link about the same axis are lumped
    and have none. With `rotor_rows`, other rotors coaxial with a body's hinge are single rows: their spin
    relative to that body. If the node is supported by several bodies of its parent, whose motions also move
    its joints, joints with armature are rows as well. `moved` returns the bodies whose joints are moved by
    the velocities of the node, including those of clusters supported by it.
    """

    def __init__(
        self,
        parent: HingeNode,
        embedding: Embedding[RigidBody],
        row_bodies: Sequence[RigidBody],
        dy: np.ndarray,
        rotor_rows: bool,
        moved: Callable[[], Sequence[RigidBody]],
    ) -> None:
        posture = embedding.posture
        members = list(embedding.bodies.values())
        self.name = " + ".join(body.joint.name for body in members)
        self.parent = parent
        self.dofs = embedding.dofs
        self._moved = moved
        self._embedding = embedding
        self._own = {body: posture.columns[k] for k, body in embedding.bodies.items()}
        coaxial = {body: coaxial_body(body, row_bodies) for body in row_bodies if rotor_rows and body.rotor}
        rotors = {rotor: body for rotor, body in coaxial.items() if body}
        self.bodies = [body for body in row_bodies if body not in rotors]
        self.blocks: dict[Hashable, slice] = {
            body.joint.child: slice(6 * n, 6 * n + 6) for n, body in enumerate(self.bodies)
        }
        self._by_block: dict[Hashable, RigidBody] = {body.joint.child: body for body in self.bodies}
        self.supports = max(1, len(posture.supports))
        self._many_supports = bool(posture.supports)
        armature_bodies = [body for body in members if self._many_supports and any_nonzero(body.armature)]
        self._flexible = [body for body in members if body.integrals is not None]

        def extra_rows(x: np.ndarray) -> np.ndarray:
            """Return the rows after those of bodies, of x of all joints: rotors, armatures, modes."""
            rows = [
                coaxial_to.relative_spin(rotor, lambda body: x[self._own[body]][0])
                for rotor, coaxial_to in rotors.items()
            ]
            rows += [y for body in (*armature_bodies, *self._flexible) for y in x[self._own[body]]]
            return np.array(rows, dtype=object).reshape(len(rows), *x.shape[1:])

        # rows after those of bodies: velocities N ẏ + Γ V, accelerations N ÿ + Γ α + n
        self._N = extra_rows(embedding.G)
        self._n = extra_rows(embedding.g)
        self._Gamma = extra_rows(embedding.Gamma)
        self.rows = 6 * len(self.bodies) + len(self._n)
        row = self.rows
        for body in reversed(self._flexible):
            self.blocks[body.joint.child, "modes"] = slice(row - len(body.q), row)
            row -= len(body.q)
        self._speed = self._N @ dy
        on_parent = [parent.blocks.get(body.joint.parent, slice(0, 6)) for body in self.bodies]
        self._carriers = [
            None if body.joint.parent in self.blocks else on for body, on in zip(self.bodies, on_parent)
        ]
        self._A = self._weight()
        if self._many_supports:
            self._speed = self._speed + self._Gamma @ embedding.V
        self._spins = [RotorRow(self.blocks[one.body.joint.child], one.k, one.J) for one in rotors.values()]
        self._joint_inertias = [J for body in armature_bodies for J in body.armature]
        self._with_armature = [] if self._many_supports else [body for body in members if body.joint.nv]
        self._armature = self._joint_armature()

    def _weight(self) -> ClusterWeight:
        """Return the weight between the rows of the parent and those of this node."""
        if not self._many_supports:
            block = next(carrier for carrier in self._carriers if carrier is not None)
            return ClusterWeight(self.bodies, len(self._n), block, self.parent.rows)
        embedding = self._embedding
        support_motions = [body.joint_map @ embedding.Gamma[self._own[body]] for body in self.bodies]
        blocks = [self.parent.blocks[k] for k in embedding.posture.supports]
        return SupportsWeight(
            self.bodies, blocks, self._carriers, self.parent.rows, support_motions, self._Gamma
        )

    def _joint_armature(self) -> np.ndarray:
        """Return the armature of all joints as an inertia of the cluster joint, (dofs, dofs)."""
        zero = np.zeros((self.dofs.stop - self.dofs.start,) * 2)
        terms = (product(product(body.G.T, np.diag(body.armature)), body.G) for body in self._with_armature)
        return mirrored(sum(terms, zero))

    @property
    def A(self) -> Weight:
        return self._A

    @property
    def armature(self) -> np.ndarray:
        return self._armature

    @cached_property
    def M(self) -> BodiesInertia:
        return self._inertia([body.M for body in self.bodies])

    def _inertia(self, inertias: Sequence[Inertia]) -> BodiesInertia:
        starts = [block.start for block in self.blocks.values()]
        modes = []
        all_inertias: list[Any] = list(inertias)
        for n, (start, inertia) in enumerate(zip(starts, all_inertias)):
            if isinstance(inertia, ModalInertia):
                all_inertias[n] = inertia.R
                modes.append(ModalRows(start, inertia.C, inertia.E))
        return BodiesInertia(dict(zip(starts, all_inertias)), self._spins, self._joint_inertias, modes=modes)

    @cached_property
    def H(self) -> np.ndarray:
        S: list[np.ndarray] = []  # Loops Eq. 15
        for body, below in zip(self.bodies, self._A.below):
            joint_columns = body.joint_map @ self._embedding.G[self._own[body]]
            S.append(joint_columns if below is None else body.X.scatter(S[below]) + joint_columns)
        return np.concatenate([*S, self._N]).T

    def generalised(self, F: np.ndarray, maps: bool = False) -> np.ndarray:
        """Return H F by the joints: forces are gathered along the bodies' tree, then multiplied by Gᵀ."""
        shares = self._A.parts(F)
        G = self._embedding.G
        constant = not any(isinstance(x, Symbol) for x in G.ravel())
        if maps and (constant or (isinstance(self.parent, GroundNode) and G.shape[1] < 4)):
            return self.H @ F  # a short map, or one whose gathered forces are not needed elsewhere
        total: Any = self._N.T @ F[6 * len(self.bodies) :]
        for k, (body, below) in reversed(list(enumerate(zip(self.bodies, self._A.below)))):
            total = total + G[self._own[body]].T @ (body.joint_map.T @ shares[k])
            if below is not None:
                shares[below] = shares[below] + body.X.gather(shares[k])
        return total

    @cached_property
    def passive_force(self) -> np.ndarray:
        total: Any = np.zeros(self.dofs.stop - self.dofs.start)
        for body in self._moved():
            total = total + body.passive_force(
                body.share(self.dofs), with_armature=body in self._with_armature
            )
        return total

    def _out(
        self, x: np.ndarray, dx: np.ndarray, g: Any, n: Any, move: Callable[..., np.ndarray]
    ) -> np.ndarray:
        """Return motions of all bodies, G dx + Γ x(supports) + g, and further rows + n."""
        motions: list[np.ndarray] = []
        supports = self._A.of_supports(x) if isinstance(self._A, SupportsWeight) else None
        for body, below, carrier in zip(self.bodies, self._A.below, self._carriers):
            rows = self._own[body]
            joint = self._embedding.G[rows] @ dx + g[rows]
            if supports is not None:
                joint = joint + self._embedding.Gamma[rows] @ supports
            motions.append(move(body, x[carrier] if below is None else motions[below], joint))
        extra = self._N @ dx + n
        return np.concatenate([*motions, extra if supports is None else extra + self._Gamma @ supports])

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        zero = np.zeros(len(self._embedding.g))
        none = np.zeros(len(self._n))
        return self._out(V, dtheta, zero, none, RigidBody.velocity)

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self._out(alpha, ddtheta, self._embedding.g, self._n, RigidBody.accelerate)

    def carried(self, block: Hashable, place: Pose) -> tuple[Hashable, Pose] | None:
        while block in self.blocks and not self._many_supports:
            body = self._by_block[block]
            block = body.joint.parent
            place = body.X.then(place)
        return None if self._many_supports else (block, place)

    def _with_rotors(self, M: BodiesInertia, forces: dict[int, np.ndarray], alpha: np.ndarray) -> np.ndarray:
        """Return forces on bodies and further rows with the gyroscopic moments of rotors."""
        on_modes = [force[6:] for force in forces.values() if len(force) > 6]
        forces = {at: force[:6] for at, force in forces.items()}
        w_of = {block.start: body.w for body, block in zip(self.bodies, self.blocks.values())}
        for speed, (block, k, J) in zip(self._speed, self._spins):
            at = block.start
            w = w_of[block.start]
            L = J * (w[k] + speed)
            i = (k + 1) % 3
            j = (k + 2) % 3
            forces[at] = add_to_row(add_to_row(forces[at], i, w[j] * L), j, -(w[i] * L))
        return M.with_rotors(forces, alpha, on_modes)

    def _shares(self, alpha: np.ndarray) -> list[tuple[RigidBody, int, np.ndarray]]:
        shares = []
        for body, block in zip(self.bodies, self.blocks.values()):
            modes = self.blocks.get((body.joint.child, "modes"))
            shares.append(
                (
                    body,
                    block.start,
                    alpha[block] if modes is None else np.concatenate([alpha[block], alpha[modes]]),
                )
            )
        return shares


class HingeClusterNode(_ClusterNode):
    """Bodies coupled by loops, for generalised forces only: base parameters were regrouped."""

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self._with_rotors(
            self.M,
            {at: body.hinge_force(acceleration) for body, at, acceleration in self._shares(alpha)},
            alpha,
        )

    @cached_property
    def hinge_inertia(self) -> BodiesInertia:
        return self._inertia([body.hinge_inertia for body in self.bodies])


class ClusterNode(_ClusterNode, NodeState):
    """Bodies coupled by loops, behind one cluster joint."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self._with_rotors(
            self.M, {at: body.force(acceleration) for body, at, acceleration in self._shares(alpha)}, alpha
        )

    def armature_energy(self, dtheta: np.ndarray) -> Any:
        rates = [(body, self._embedding.G[self._own[body]] @ dtheta) for body in self._with_armature]
        return sum((v @ (body.armature * v) for body, v in rates), 0.0)
