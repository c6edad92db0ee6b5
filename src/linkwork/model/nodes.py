"""A model in one state as the nodes of an SKO model (SKO Sec. 2), over numbers or symbols.

Node k has a parent ℘(k), a weight A(℘(k), k), a joint map H(k), an inertia M(k), a Coriolis term a(k) and a gyroscopic term
b(k). All tree algorithms are written on these:

    V = A* V(℘) + H* θ̇,    α = A* α(℘) + H* θ̈ + a,    f = Σ A f(children) + M α + b,    T = H f.

A body in no loop is a node of six rows; bodies that loops hold together are one of 6 n rows (Loops Sec. III).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linkwork.lazy import cached_property
from linkwork.model.bodies import Ground, MovingBody
from linkwork.model.clusters import Cluster
from linkwork.model.described import Described
from linkwork.model.embedding import Embedding, Motion
from linkwork.model.model import Model
from linkwork.model.parts import GROUND
from linkwork.model.rotors import host_of
from linkwork.model.weights import Blocks, ClusterWeight, FeetWeight, Seat, Spin, part, plus
from linkwork.spatial import Inertia, mirrored
from linkwork.spatial.constants import product


class Node:
    """What algorithms know of a node. Everything that can be described by (A, H, M, a, b) may be one.

    `H` is (m, rows), `dofs` the places of its m velocities in v, `feet` how many of its parent's bodies it stands on.
    `armature` [kg m² or kg], (m, m), is inertia that moves with the joints' own velocities; `resistance` [N m or N], (m,),
    what springs and dampers in the joints take.
    """

    name: str
    parent: Node
    children: list[Node]
    rows = 6
    feet = 1
    dofs: slice
    A: Any
    H: np.ndarray
    M: Any
    armature: np.ndarray
    resistance: np.ndarray

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        """α = A* α(℘) + H* θ̈ + a, from the parent's α."""
        raise NotImplementedError

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """M α + b."""
        raise NotImplementedError

    @property
    def a(self) -> np.ndarray:
        """The part of α that velocities cause across the joint."""
        return self.accelerate(np.zeros(self.parent.rows), np.zeros(len(self.H)))

    @property
    def b(self) -> np.ndarray:
        """The force that velocities take, less the one from outside."""
        return self.force(np.zeros(self.rows))


class GroundNode(Node):
    """The node that all others hang on. It accelerates against gravity."""

    def __init__(self, gravity: tuple[float, ...]) -> None:
        self.children = []
        self.alpha = np.array([0.0, 0.0, 0.0, *(-g for g in gravity)], dtype=object)


class OneBody(Node):
    """A rigid body behind a joint."""

    def __init__(self, parent: Node, body: MovingBody) -> None:
        self.name, self.parent, self.children = body.joint.name, parent, []
        self.body, self.dofs = body, body.dofs
        self.A = body.X if parent.rows == 6 else Seat(body.X, body.on.seat, parent.rows)
        self.H = body.S.T
        self.armature = np.diag(body.armature)

    @property
    def M(self) -> Inertia:  # type: ignore[override]
        return self.body.M

    @property
    def resistance(self) -> np.ndarray:  # type: ignore[override]
        return self.body.resists(self.body.G)

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self.body.accelerate(part(alpha, self.body.on.seat), ddtheta)

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self.body.force(alpha)


class ClusterNode(Node):
    """Bodies that loops hold together, behind one cluster joint (Loops Sec. III): v = G ẏ + Γ V, v̇ = G ÿ + Γ α + g.

    Rotors that gears tie to a link of the same axis are lumped and not among those `felt`. Others that spin about the axis of a
    body's own hinge are single rows on that body: what they turn more than it does. Where the node stands on several bodies of
    its parent, which move its joints too, joints with armature are rows as well.
    """

    def __init__(self, parent: Node, embedding: Embedding, felt: Sequence[MovingBody], dy: np.ndarray, hosting: bool) -> None:
        motion = embedding.motion
        members = list(motion.bodies.values())
        self.name = " + ".join(body.joint.name for body in members)
        self.parent, self.children, self.dofs = parent, [], embedding.dofs
        self._embedding, self._own = embedding, {body: motion.columns[k] for k, body in motion.bodies.items()}
        hosts = {body: host_of(body, felt) for body in felt if hosting and body.rotor}
        rotors = {body: host for body, host in hosts.items() if host}
        self.bodies = [body for body in felt if body not in rotors]
        for seat, body in enumerate(self.bodies):
            body.seat = seat
        feet = [embedding.below.motion.bodies[k] for k in motion.feet] if embedding.below else []
        self._stands, self.feet = bool(feet), max(1, len(feet))
        turning = [body for body in members if feet and any(body.armature)]

        def further(x: np.ndarray) -> np.ndarray:
            """The rows behind those of bodies, of something that all joints have."""
            rows = [host.excess(rotor, lambda body: x[self._own[body]][0]) for rotor, host in rotors.items()]
            rows += [y for body in turning for y in x[self._own[body]]]
            return np.array(rows, dtype=object).reshape(len(rows), *x.shape[1:])

        self._N, self._n, self._Gamma = further(embedding.G), further(embedding.g), further(embedding.Gamma)
        self.rows = 6 * len(self.bodies) + len(self._n)
        self._speed = self._N @ dy
        if feet:
            answers = [body.joint_map @ embedding.Gamma[self._own[body]] for body in self.bodies]
            self.A: Any = FeetWeight(self.bodies, feet, parent.rows, answers, self._Gamma)
            self._speed = self._speed + self._Gamma @ motion.feet_motion()
        else:
            foot = next(body.on for body in self.bodies if body.on not in self.bodies)
            self.A = ClusterWeight(self.bodies, len(self._n), foot.seat, parent.rows)
        self._spins = [Spin(host.body.seat, host.k, host.J) for host in rotors.values()]
        self._turning = [J for body in turning for J in body.armature]
        self._armed = [] if feet else members
        zero = np.zeros((self.dofs.stop - self.dofs.start,) * 2)
        self.armature = mirrored(
            sum((product(product(body.G.T, np.diag(body.armature)), body.G) for body in self._armed), zero)
        )
        self._moved: list[MovingBody] = []  # whose joints its velocities move
        below: Embedding | None = embedding
        node: Any = self
        while below:
            node._moved += members
            node, below = node.parent, below.below

    @cached_property
    def M(self) -> Blocks:  # type: ignore[override]
        return Blocks([body.M for body in self.bodies], self._spins, self._turning)

    @cached_property
    def H(self) -> np.ndarray:  # type: ignore[override]
        S: list[np.ndarray] = []  # Loops Eq. 15
        for body, below in zip(self.bodies, self.A.below):
            own = body.joint_map @ self._embedding.G[self._own[body]]
            S.append(own if below is None else body.X.scatter(S[below]) + own)
        return np.concatenate([*S, self._N]).T

    def _twisted(self, forces: list[np.ndarray]) -> list[np.ndarray]:
        """Forces on the bodies, with what turns their rotors' axes: w × the rotor's momentum."""
        for speed, (seat, k, J) in zip(self._speed, self._spins):
            w = self.bodies[seat].w
            L = J * (w[k] + speed)
            i, j = (k + 1) % 3, (k + 2) % 3
            forces[seat] = plus(plus(forces[seat], i, w[j] * L), j, -(w[i] * L))
        return forces

    @cached_property
    def resistance(self) -> np.ndarray:  # type: ignore[override]
        total: Any = np.zeros(self.dofs.stop - self.dofs.start)
        for body in self._moved:
            total = total + body.resists(body.share(self.dofs), armed=body in self._armed)
        return total

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        found: list[np.ndarray] = []
        for body, below in zip(self.bodies, self.A.below):
            start, own = part(alpha, body.on.seat) if below is None else found[below], self._own[body]
            ddq = self._embedding.G[own] @ ddtheta + self._embedding.g[own]
            if self._stands:
                ddq = ddq + self._embedding.Gamma[own] @ self.A.of_feet(alpha)
            found.append(body.accelerate(start, ddq))
        further = self._N @ ddtheta + self._n
        return np.concatenate([*found, further + self._Gamma @ self.A.of_feet(alpha) if self._stands else further])

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self.M.spun(self._twisted([body.force(part(alpha, k)) for k, body in enumerate(self.bodies)]), alpha)


class Nodes:
    """The nodes of a model in one state: q (nq,), v (nv,) or zero, and forces [m, f] on bodies in their frames (bodies, 6).

    `whole`: every body has six rows in its node, rotors too; otherwise rotors in clusters may be single rows, or none.
    `unit` [kg]: what masses are counted in, here and in all that nodes tell of; forces too, but for `f_ext`.
    `bodies`: how they are described: `model.described`, if nothing is said.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray,
        v: np.ndarray | None = None,
        f_ext: np.ndarray | None = None,
        *,
        whole: bool = False,
        unit: float = 1.0,
        bodies: Sequence[Described] | None = None,
    ) -> None:
        self.model, self.q, self._whole = model, q, whole
        self.nv = model.nv
        self.below = Ground()
        self.ground = GroundNode(model.gravity)
        v = np.zeros(model.nv) if v is None else v
        self.bodies: dict[int, MovingBody] = {}
        self._nodes: list[Node] = []
        self._holder: dict[Any, Node] = {self.below: self.ground}
        self._embeddings: dict[tuple[int, ...], Embedding] = {}  # by the bodies of a cluster
        start = 0
        for cluster in model.clusters:
            members = []
            for k in cluster.bodies:
                joint, described = model.joints[k], model.described[k] if bodies is None else bodies[k]
                on = self[joint.parent]
                pushed = None if f_ext is None else f_ext[k]
                if unit != 1.0:
                    joint, described = joint.times(1.0 / unit), described.times(1.0 / unit)
                    pushed = None if pushed is None else pushed * (1.0 / unit)
                self.bodies[k] = MovingBody(on, joint, described, q[joint.q_slice], pushed)
                members.append(self.bodies[k])
            dofs = slice(start, start + len(cluster.independent))
            start = dofs.stop
            node = self._node(cluster, members, dofs, v[dofs], f_ext is None and not whole)
            for body in members:
                self._holder[body] = node
            node.parent.children.append(node)
            self._nodes.append(node)

    def _node(self, cluster: Cluster, members: list[MovingBody], dofs: slice, dy: np.ndarray, hosting: bool) -> Node:
        parent = self._holder[next(body.on for body in members if body.on not in members)]
        if not cluster.constraints:
            (body,) = members
            body.belong(lambda: (dofs, np.eye(body.joint.nv).astype(object), np.zeros(body.joint.nv)))
            body.move(dy)
            return OneBody(parent, body)
        below = self._embeddings[cluster.below.bodies] if cluster.below else None
        motion = Motion(dict(zip(cluster.bodies, members)), below.motion if below else None, cluster.feet)
        embedding = self._embeddings[cluster.bodies] = Embedding(motion, cluster, dofs, dy, below)
        felt = [body for body in members if self._whole or not (body.rotor and body.rotor.geared)]
        return ClusterNode(parent, embedding, felt, dy, hosting)

    def __getitem__(self, body: int) -> Ground | MovingBody:
        """A body, by its index."""
        return self.below if body == GROUND else self.bodies[body]

    def holder(self, body: Ground | MovingBody) -> Node:
        """The node that a body is in."""
        return self._holder[body]

    def way(self, body: int) -> list[Node]:
        """The nodes that move a body, base to tip."""
        return self.down(self._holder[self[body]])[::-1]

    def down(self, k: Node) -> list[Node]:
        """A node and those below it, without the ground."""
        found = []
        while k is not self.ground:
            found.append(k)
            k = k.parent
        return found

    def base_to_tips(self) -> Iterator[Node]:
        """Every node after its parent."""
        return iter(self._nodes)

    def tips_to_base(self) -> Iterator[Node]:
        """Every node after its children."""
        return reversed(self._nodes)
