"""Nodes of flexible bodies: six rows of the body frame and one per mode, and frames that modes move.

The hinge before a flexible body is a node of its own, of a massless body (Partition Sec. 2 and 3), so that
hinge and deformation are eliminated one after the other. Deformation is small: r = x + φ_j η_j + ½ g_jk η_j
η_k. The equations are those of Lagrange for the kinetic energy of this field, with foreshortening g to first
order in η. So they conserve energy exactly, and need no linear velocity of the body frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.lazy import cached_property
from linkwork.sko.bodies import RigidBody
from linkwork.sko.contracts import HingeNode, NodeInertia, NodeState, Weight
from linkwork.sko.inertias import BlockInertia, CouplingInertia, ModalBlock
from linkwork.sko.rigid import BodyNode
from linkwork.sko.weights import in_block
from linkwork.spatial import Inertia, Pose, any_nonzero, cross, is_zero, mirrored, skew
from linkwork.spatial.constants import product
from linkwork.spatial.modal import axial_moment


class ModalInertia:
    """An inertia [[R, C], [Cᵀ, E]]: `R`, (6, 6), of the frame, `E`, (m, m), of modes, coupled by `C`."""

    def __init__(self, R: Inertia, C: np.ndarray, E: np.ndarray) -> None:
        self.R = R
        self.C = C
        self.E = E

    @property
    def mass(self) -> Any:
        """[kg]"""
        return self.R.mass

    @property
    def h(self) -> np.ndarray:
        """mass * centre in the deformed state [kg m], (3,)."""
        return self.R.h

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        return np.concatenate([self.R @ X[:6] + self.C @ X[6:], self.C.T @ X[:6] + self.E @ X[6:]])

    def __add__(self, other: Any) -> ModalInertia:
        if isinstance(other, ModalInertia):
            return ModalInertia(self.R + other.R, self.C + other.C, self.E + other.E)
        if isinstance(other, BlockInertia):
            assert other.block == slice(0, 6)
            return ModalInertia(self.R + other.inertia, self.C, self.E)
        assert isinstance(other, CouplingInertia)
        M = other.dense()
        return ModalInertia(self.R + Inertia.from_matrix(M[:6, :6]), self.C + M[:6, 6:], self.E + M[6:, 6:])

    def projected(
        self, G: np.ndarray, U: np.ndarray, D: Any = None, zero_rows: Sequence[int] = ()
    ) -> ModalInertia:
        C = np.array(self.C - G[:6] @ U[6:].T, dtype=object)
        E = np.array(mirrored(self.E - G[6:] @ U[6:].T), dtype=object)
        modes = [i - 6 for i in zero_rows if i >= 6]
        C[:, modes] = 0.0
        E[modes] = 0.0
        E[:, modes] = 0.0
        return ModalInertia(self.R.projected(G[:6], U[:6], D, [i for i in zero_rows if i < 6]), C, E)

    def dense(self) -> np.ndarray:
        return np.block([[self.R.dense(), self.C], [self.C.T, self.E]])


class DeformedBody(RigidBody):
    """A flexible body in motion: its deformed inertia, and the forces on its frame and modes.

    Its joint is its deformation: q are the modal coordinates η and v their rates.
    """

    @cached_property
    def deformation(self) -> Any:
        """Z_j = ∫ r (∂r/∂η_j)ᵀ dm, (m, 3, 3), and ∂h/∂η_j, (m, 3), at η."""
        integrals = self.integrals
        eta = self.q
        Z = np.array(integrals.mixed, dtype=object)
        h = np.array(integrals.first, dtype=object)
        rate = integrals.second.transpose(1, 0, 2, 3) + integrals.short_mixed  # ∂Z_j/∂η_k
        for j in range(len(eta)):
            for k in range(len(eta)):
                Z[j] = Z[j] + rate[j, k] * eta[k]
                h[j] = h[j] + integrals.short_first[j, k] * eta[k]
        return Z, h

    def _deformed(self, rigid: Inertia) -> Inertia:
        """Return the inertia of the frame's rows of the deformed body."""
        integrals = self.integrals
        Z, rates = self.deformation
        h = np.array(rigid.h, dtype=object)
        J = np.array(rigid.second_moments(), dtype=object)
        for j, x in enumerate(self.q):
            h = h + 0.5 * (integrals.first[j] + rates[j]) * x
            half = 0.5 * (integrals.mixed[j] + Z[j]) * x
            J = J + half + half.T
        return Inertia.from_moments(rigid.mass, h, mirrored(J))

    def _modal(self, rigid: Inertia) -> ModalInertia:
        Z, rates = self.deformation
        C = np.concatenate([np.array([axial_moment(z) for z in Z]), rates], axis=1).T
        return ModalInertia(self._deformed(rigid), C, self.integrals.mass.astype(object))

    @cached_property
    def M(self) -> Any:
        return self._modal(self.rigid)

    @cached_property
    def hinge_inertia(self) -> Any:
        return self._modal(self._reduced)

    def _force(self, inertia: Inertia, alpha: np.ndarray) -> np.ndarray:
        integrals = self.integrals
        deta = self.v
        ddeta = alpha[6:]
        Z, rates = self.deformation
        W = skew(alpha[:3]) + self.spin  # [ω̇] + [ω][ω]: a point at r accelerates by a + W r
        a = alpha[3:6]
        w = self.w
        rigid = self._deformed(inertia).point_force(a, W)
        # ∫ ṙ dm and ∫ r ṙᵀ dm
        dh = deta @ rates
        dZ = np.tensordot(deta, Z, 1)
        moment = 2.0 * (w * (dZ[0, 0] + dZ[1, 1] + dZ[2, 2]) - dZ.T @ w)  # 2 ∫ r × (w × ṙ) dm
        push = 2.0 * cross(w, dh)
        for j, x in enumerate(ddeta):
            moment = moment + axial_moment(Z[j]) * x
            push = push + rates[j] * x
        for j, x in enumerate(deta):
            for k, y in enumerate(deta):
                moment = moment + axial_moment(integrals.short_mixed[j, k]) * (x * y)
                push = push + integrals.short_first[j, k] * (x * y)
        on_modes = np.array([product(rates[j], a) + _trace(W, Z[j]) for j in range(len(deta))], dtype=object)
        on_modes = on_modes + integrals.mass @ ddeta
        for j in range(len(deta)):
            for k, y in enumerate(deta):
                # 2 ∫ φ_j · (ω × φ_k) dm η̇_k
                on_modes[j] = on_modes[j] + product(2.0 * axial_moment(integrals.second[k, j]), w) * y
        f = np.concatenate([rigid[:3] + moment, rigid[3:] + push])
        f = f if self.load is None else f - self.load
        return np.concatenate([f, on_modes])

    def passive_force(self, share: np.ndarray, *, with_armature: bool = True) -> np.ndarray:
        kind: Any = self.joint.kind
        coupling_force = (
            product(kind.stiffness, self.q) + product(kind.damping, self.v)
            if self._couples
            else np.zeros(len(self.q))
        )
        return super().passive_force(share, with_armature=with_armature) + product(share.T, coupling_force)

    @property
    def _couples(self) -> bool:
        kind: Any = self.joint.kind
        return any_nonzero(kind.stiffness) or any_nonzero(kind.damping)

    @property
    def spring_energy(self) -> Any:
        kind: Any = self.joint.kind
        return super().spring_energy + 0.5 * product(self.q, product(kind.stiffness, self.q))


def _trace(W: np.ndarray, Z: np.ndarray) -> Any:
    """Return tr(W Z) = ∫ ∂r/∂η_j · W r dm."""
    return sum((W[b, a] * Z[a, b] for a in range(3) for b in range(3) if not is_zero(Z[a, b])), 0.0)


class DeformationWeight:
    """The weight of a flexible body at a constant pose `X` on a block of its parent.

    Motions of the parent do not move its modes.
    """

    def __init__(self, X: Pose, block: slice, parents: int, modes: int) -> None:
        self.X = X
        self.block = block
        self.parents = parents
        self.modes = modes

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return np.concatenate([self.X.scatter(V[self.block]), np.zeros((self.modes, *V.shape[1:]))])

    def gather(self, F: np.ndarray) -> np.ndarray:
        return in_block(self.X.gather(F[:6]), self.block, self.parents)

    def congruence(self, inertia: ModalInertia) -> Inertia | BlockInertia:
        carried = self.X.congruence(inertia.R)
        return carried if self.parents == 6 else BlockInertia(self.block, carried, self.parents)


class ModeShapeWeight:
    """The weight of a frame that modes move: pose `X` in the flexible body, mode shape S, (6, m)."""

    def __init__(self, X: Pose, S: np.ndarray, block: slice, modes: slice, rows: int) -> None:
        """Prepare the weight; `block` and `modes` are rows among the parent's `rows`."""
        self.X = X
        self.S = S
        self.block = block
        self.modes = modes
        self.rows = rows

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return self.X.scatter(V[self.block]) + self.S @ V[self.modes]

    def gather(self, F: np.ndarray) -> np.ndarray:
        return in_block(self.X.gather(F), self.block, self.rows) + in_block(
            self.S.T @ F, self.modes, self.rows
        )

    def congruence(self, inertia: Inertia) -> ModalInertia | ModalBlock:
        U = inertia @ self.S
        modal_inertia = ModalInertia(self.X.congruence(inertia), self.X.gather(U), mirrored(self.S.T @ U))
        alone = self.rows == 6 + len(modal_inertia.E)
        return (
            modal_inertia
            if alone
            else ModalBlock(
                self.block, self.modes, modal_inertia.R, modal_inertia.C, modal_inertia.E, self.rows
            )
        )


class _FlexibleNode(BodyNode):
    """A flexible body: rows of its frame, then of its modes, whose rates are its velocities.

    Its hinge is a node before it.
    """

    body: DeformedBody

    def __init__(self, parent: HingeNode, body: DeformedBody) -> None:
        self.name = body.joint.name
        self.parent = parent
        self.body = body
        self.dofs = body.dofs
        modes = len(body.q)
        self.rows = 6 + modes
        self.blocks = {body.joint.child: slice(0, 6), (body.joint.child, "modes"): slice(6, self.rows)}
        self._on = slice(0, 6) if parent.rows == 6 else parent.blocks[body.joint.parent]
        self._A = DeformationWeight(body.X, self._on, parent.rows, modes)
        self._H = np.hstack([np.zeros((modes, 6)), np.eye(modes)]).astype(object)
        self._armature = np.diag(body.armature)

    def generalised(self, F: np.ndarray, maps: bool = False) -> np.ndarray:
        return F[6:]

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return np.concatenate([self.body.X.scatter(V[self._on]), dtheta])

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return np.concatenate([self.body.accelerate(alpha[self._on], ddtheta), ddtheta])


class HingeFlexibleNode(_FlexibleNode):
    """A flexible body, for generalised forces only: base parameters were regrouped."""

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.hinge_force(alpha)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self.body.hinge_inertia


class FlexibleNode(_FlexibleNode, NodeState):
    """A flexible body behind a hinge that is a node of its own."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.force(alpha)


class _ModeShapeNode(HingeNode):
    """A frame moved by the modes of a flexible body, with the bodies fixed to it. It has no velocities."""

    # attached to the rows of the body's frame and to those of its modes
    rows = 6
    supports = 2

    def __init__(self, parent: HingeNode, body: RigidBody, dofs: slice) -> None:
        self.name = body.joint.name
        self.parent = parent
        self.body = body
        self.dofs = dofs
        self.blocks = {body.joint.child: slice(0, 6)}
        flexible = body.joint.parent
        self._on = parent.blocks[flexible]
        self._modes = parent.blocks[flexible, "modes"]
        self._A = ModeShapeWeight(body.X, body.joint_map, self._on, self._modes, parent.rows)

    @property
    def A(self) -> Weight:
        return self._A

    @property
    def H(self) -> np.ndarray:
        return np.zeros((0, 6), dtype=object)

    @property
    def M(self) -> Inertia:
        return self.body.M

    @property
    def armature(self) -> np.ndarray:
        return np.zeros((0, 0))

    @property
    def passive_force(self) -> np.ndarray:
        return np.zeros(0)

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return self.body.velocity(V[self._on], V[self._modes])

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self.body.accelerate(alpha[self._on], alpha[self._modes])


class HingeModeShapeNode(_ModeShapeNode):
    """A frame that modes move, for generalised forces only: base parameters were regrouped."""

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.hinge_force(alpha)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self.body.hinge_inertia


class ModeShapeNode(_ModeShapeNode, NodeState):
    """A frame moved by the modes of a flexible body, with the bodies fixed to it."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.force(alpha)
