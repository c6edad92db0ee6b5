"""Trees of nodes in one state, and those of the bodies and clusters of a model, over numbers or symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from linkwork.joints import Joint
from linkwork.loops.cluster_equations import entry_magnitudes
from linkwork.loops.clusters import Cluster, with_constraints
from linkwork.loops.embedding import Embedding
from linkwork.loops.kinematics import BodyMotion, Ground, JointFrame, JointState, Share
from linkwork.loops.motion import ClusterPosture
from linkwork.mechanism import GROUND, Frame
from linkwork.model import Model
from linkwork.model.partition import JOINED
from linkwork.sko.bodies import BodyDescription, RigidBody
from linkwork.sko.body_loads import BodyLoads
from linkwork.sko.cluster import ClusterNode, HingeClusterNode
from linkwork.sko.contracts import GroundNode, HingeNode, NodeState
from linkwork.sko.flexible import (
    DeformedBody,
    FlexibleNode,
    HingeFlexibleNode,
    HingeModeShapeNode,
    ModeShapeNode,
)
from linkwork.sko.partition import joined, split
from linkwork.sko.pick_offs import PickOff
from linkwork.sko.rigid import HingeRigidNode, RigidNode
from linkwork.spatial import Inertia, Pose

N_co = TypeVar("N_co", bound=HingeNode, covariant=True)
BodyOrGround = Ground | BodyMotion


class TreeState(Generic[N_co]):
    """Nodes in one state, each after its parent, on the ground; `nv` velocities move them."""

    def __init__(self, name: str, nodes: Sequence[N_co], ground: GroundNode, nv: int) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.ground = ground
        self.nv = nv
        self._children: dict[Any, list[N_co]] = {ground: [], **{k: [] for k in self.nodes}}
        for k in self.nodes:
            self._children[k.parent].append(k)

    def children(self, k: HingeNode) -> Sequence[N_co]:
        """Return the children of a node."""
        return self._children[k]

    def base_to_tips(self) -> Iterator[N_co]:
        """Return the nodes, each after its parent."""
        return iter(self.nodes)

    def tips_to_base(self) -> Iterator[N_co]:
        """Return the nodes, each after its children."""
        return reversed(self.nodes)

    def path_to_ground(self, k: HingeNode) -> list[N_co]:
        """Return a node and its ancestors, without the ground."""
        path: list[Any] = []
        while k is not self.ground:
            path.append(k)
            k = k.parent
        return path

    def pick_off(self, frame: Frame) -> PickOff:
        """Return the operator from a node's motion to that of a frame."""
        raise NotImplementedError(f"{self.name} has no frames")

    def frame(self, name: str) -> Frame:
        """Return the frame with this name."""
        raise NotImplementedError(f"{self.name} has no frames by name")


class NodeKinds(NamedTuple):
    """Constructors of nodes: of rigid bodies, clusters, flexible bodies, and frames that modes move."""

    rigid: Callable[..., Any]
    cluster: Callable[..., Any]
    flexible: Callable[..., Any]
    mode_shape: Callable[..., Any]


FULL_NODES = NodeKinds(RigidNode, ClusterNode, FlexibleNode, ModeShapeNode)
HINGE_NODES = NodeKinds(HingeRigidNode, HingeClusterNode, HingeFlexibleNode, HingeModeShapeNode)


class ModelTree(TreeState[N_co]):
    """The nodes of a model at q, (nq,), v, (nv,) or zero, and forces [m, f] on bodies, (bodies, 6).

    A body in no loop is a node of six rows; bodies in loops are one of 6 n rows (Loops Sec. III). Forces are
    in the body frames. `descriptions` describe the bodies (see `sko.prepare`). `all_bodies`: every body has
    six rows in its node, also rotors; otherwise rotors in clusters may be single rows, or none. `unit` [kg]:
    the unit of mass of all results, forces included, but not of `f_ext`. `partition` has splits of hinges by
    body, as `Model.partition`.
    """

    def __init__(
        self,
        model: Model,
        descriptions: Sequence[BodyDescription],
        q: np.ndarray,
        v: np.ndarray | None = None,
        f_ext: np.ndarray | None = None,
        *,
        all_bodies: bool = False,
        unit: float = 1.0,
        partition: Mapping[int, Any] | None = None,
        kinds: NodeKinds,
    ) -> None:
        self.model = model
        self.q = q
        self._kinds = kinds
        self._descriptions = (
            descriptions if unit == 1.0 else [each.times(1.0 / unit) for each in descriptions]
        )
        self._joints = model.joints if unit == 1.0 else [joint.times(1.0 / unit) for joint in model.joints]
        self._f_ext = f_ext if f_ext is None or unit == 1.0 else f_ext * (1.0 / unit)
        self._all_bodies = all_bodies
        self._unit = unit
        self.has_loads = f_ext is not None or model.has_body_loads
        self._rotor_rows = not self.has_loads and not all_bodies
        v = np.zeros(model.nv) if v is None else v
        self._rotors: dict[int, list[int]] = {}  # on each body
        for k, each in enumerate(self._descriptions):
            if each.rotor:
                self._rotors.setdefault(model.joints[k].parent, []).append(k)
        # bodies of a cluster and of the clusters that it supports
        self._moved: dict[tuple[int, ...], list[int]] = {c.bodies: [] for c in model.clusters}
        for cluster in model.clusters:
            below: Cluster | None = cluster
            while below:
                self._moved[below.bodies] += cluster.bodies
                below = below.below
        self.below = Ground()
        self.bodies: dict[int, RigidBody] = {}
        self.loads = BodyLoads(model, self.bodies, self.below) if model.has_body_loads else None
        self._node_of: dict[Any, Any] = {}
        self._embeddings: dict[tuple[int, ...], Embedding[RigidBody]] = {}
        self._partition = partition or {}
        self._stages = dict[int, list[Any]]()  # nodes before the last of a partitioned hinge, by body
        self._joined = list[Any]()  # massless nodes that were joined with their children
        ground = GroundNode(np.array([0.0, 0.0, 0.0, *(-g for g in model.gravity)], dtype=object))
        self._node_of[GROUND] = ground
        nodes: list[N_co] = []
        start = 0
        for cluster in model.clusters:
            dofs = slice(start, start + len(cluster.independent))
            start = dofs.stop
            node = self._node(cluster, dofs, v[dofs])
            nodes += [*self._stages.get(cluster.bodies[0], ()), node]
        nodes = [node for node in nodes if node not in self._joined]
        super().__init__(model.name, nodes, ground, model.nv)

    def _state(self, k: int) -> JointState:
        joint = self._joints[k]
        each = self._descriptions[k]
        return JointState(
            joint, each.frame, self.q[joint.pose_slice], spins=each.rotor is not None, precise=each.point_like
        )

    def _body(
        self,
        k: int,
        on: BodyOrGround,
        state: JointState,
        v: np.ndarray,
        share: Callable[[], Share],
        dy: np.ndarray | None,
    ) -> RigidBody:
        load = partial(self._load, k) if self.has_loads else None
        kind = RigidBody if self._descriptions[k].deformation is None else DeformedBody
        body = kind(
            on, state, v, share, dy, self._descriptions[k], load, partial(self._of, self._rotors.get(k, ()))
        )
        self.bodies[k] = body
        return body

    def _load(self, k: int) -> np.ndarray | None:
        """Return the force [m, f] on a body in its own frame, (6,), or None."""
        load: Any = None if self.loads is None else self.loads.force_on(k)
        if load is not None and self._unit != 1.0:
            load = load * (1.0 / self._unit)
        if self._f_ext is None:
            return load
        return self._f_ext[k] if load is None else self._f_ext[k] + load

    def _of(self, bodies: Sequence[int]) -> list[RigidBody]:
        return [self.bodies[k] for k in bodies]

    def _node(self, cluster: Cluster, dofs: slice, dy: np.ndarray) -> N_co:
        inside = set(cluster.bodies)
        states = {k: self._state(k) for k in cluster.bodies}
        carrier = next(state.joint.parent for state in states.values() if state.joint.parent not in inside)
        parent = self._node_of[carrier]
        base = self[carrier]
        if not cluster.constraints:
            ((k, state),) = states.items()
            parent, base, state, dofs, dy = self._behind_stages(k, state, parent, base, dofs, dy)
            node = self._split(k, self._alone(k, state, parent, base, dofs, dy))
        else:
            below = self._embeddings[cluster.below.bodies] if cluster.below else None
            seen_from = below.posture.base if below else base
            posture = ClusterPosture(states, seen_from, below.posture if below else None, cluster.supports)
            embedding = Embedding(
                posture, cluster, dofs, dy, below, self._body, equation_sizes(self.model, cluster)
            )
            self._embeddings[cluster.bodies] = embedding
            members = embedding.bodies.values()
            with_rows = [
                body for body in members if self._all_bodies or not (body.rotor and body.rotor.geared)
            ]
            moved = partial(self._of, self._moved[cluster.bodies])
            node = self._kinds.cluster(parent, embedding, with_rows, dy, self._rotor_rows, moved)
        for k in cluster.bodies:
            self._node_of[k] = node
        return node

    def _alone(
        self, k: int, state: JointState, parent: Any, base: BodyOrGround, dofs: slice, dy: np.ndarray
    ) -> N_co:
        """Return the node of a body in no loop."""
        if state.joint.follows is not None:
            flexible = self.bodies[state.joint.follows]
            return self._kinds.mode_shape(
                parent, self._body(k, base, state, flexible.v, lambda: flexible.shared, None), dofs
            )
        body = self._body(k, base, state, dy, partial(Share.own, dofs), None)
        return (self._kinds.rigid if body.integrals is None else self._kinds.flexible)(parent, body)

    def _behind_stages(
        self, k: int, state: JointState, parent: Any, base: BodyOrGround, dofs: slice, dy: np.ndarray
    ) -> tuple[Any, BodyOrGround, JointState, slice, np.ndarray]:
        """Return massless nodes for the joints of a partitioned one, and the carrier of the last."""
        parts = self._partition.get(k, ())
        if not parts or not isinstance(parts[0], Joint):
            return parent, base, state, dofs, dy
        each = self._descriptions[k]
        kind, place, phase, C = each.frame
        if tuple(parts) == state.joint.kind.partition():
            parts = kind.partition()  # along the axes of the description
        at_q = at_v = 0
        for i, part in enumerate(parts):
            last = i == len(parts) - 1
            name = state.joint.name if last else f"{state.joint.name}'{i}"
            joint = state.joint.part(part, name, at_q, at_v)
            own_place, own_phase = (Pose.identity(), 0.0) if i else (place, phase)
            frame = JointFrame(part, own_place, own_phase, C if last else Pose.identity())
            joint_state = JointState(joint, frame, self.q[joint.q_slice], precise=each.point_like)
            own_dofs = slice(dofs.start + at_v, dofs.start + at_v + part.nv)
            own_dy = dy[at_v : at_v + part.nv]
            at_q = at_q + part.nq
            at_v = at_v + part.nv
            if last:
                break
            massless = BodyDescription(frame, Inertia.massless(np.zeros((3, 3))))
            base = RigidBody(
                base, joint_state, own_dy, partial(Share.own, own_dofs), None, massless, None, lambda: ()
            )
            parent = self._kinds.rigid(parent, base)
            parent.blocks = {}  # its rows are those of no body
            self._stages.setdefault(k, []).append(parent)
        return parent, base, joint_state, own_dofs, own_dy

    def _split(self, k: int, node: Any) -> Any:
        """Return the last of the nodes for groups of a node's velocities, if its hinge is partitioned so."""
        groups = self._partition.get(k, ())
        if not groups or isinstance(groups[0], Joint):
            return node
        if groups == JOINED:
            if self.has_loads:  # a force on the massless body has no row in the joined node
                return node
            self._joined.append(node.parent)
            return joined(node.parent, node)
        *before, node = split(node, [slice(group[0], group[-1] + 1) for group in groups])
        self._stages.setdefault(k, []).extend(before)
        return node

    def __getitem__(self, body: int) -> BodyOrGround:
        """Return a body by its index."""
        return self.below if body == GROUND else self.bodies[body]

    @property
    def moving(self) -> list[RigidBody]:
        """The bodies whose joints have velocities of their own: not those that follow a flexible body."""
        return [body for body in self.bodies.values() if body.joint.nv]

    def node_of(self, body: int) -> N_co:
        """Return the node that contains a body, by the body's index."""
        return self._node_of[body]

    def frame(self, name: str) -> Frame:
        return self.model.frame(name)

    def pick_off(self, frame: Frame) -> PickOff:
        carrier = self[frame.body]
        return PickOff(self.node_of(frame.body), frame.body, carrier.C.inverse().then(frame.place), carrier)


def equation_sizes(model: Model, cluster: Cluster) -> np.ndarray | None:
    """Return the sizes of entries of a cluster's loop equations; None if all equations are linear."""
    if all(constraint.linear for constraint in cluster.constraints):
        return None
    structure = model.nominal
    key = entry_magnitudes, cluster.bodies, cluster.independent, cluster.used
    if key not in structure.cache:
        # the same cluster over numbers instead of symbols
        numeric = next((one for one in structure.clusters if one.bodies == cluster.bodies), None)
        if numeric is None:  # merged from several clusters for an algorithm
            (numeric,) = with_constraints((cluster,), structure.embedded)
        choice: dict[str, Any] = {"independent": cluster.independent, "rows": cluster.rows}
        choice["overdetermined"] = cluster.overdetermined
        structure.cache[key] = entry_magnitudes(structure, replace(numeric, **choice))
    sizes: np.ndarray = structure.cache[key]
    return sizes


def model_tree(
    model: Model,
    descriptions: Sequence[BodyDescription],
    q: np.ndarray,
    v: np.ndarray | None = None,
    f_ext: np.ndarray | None = None,
    *,
    all_bodies: bool = False,
    partition: Mapping[int, Any] | None = None,
) -> ModelTree[NodeState]:
    """Return the nodes of a model in one state, with f = M α + b of every node."""
    return ModelTree(
        model, descriptions, q, v, f_ext, all_bodies=all_bodies, partition=partition, kinds=FULL_NODES
    )


def hinge_tree(
    model: Model,
    descriptions: Sequence[BodyDescription],
    q: np.ndarray,
    v: np.ndarray | None = None,
    f_ext: np.ndarray | None = None,
    *,
    all_bodies: bool = False,
    unit: float = 1.0,
    partition: Mapping[int, Any] | None = None,
) -> ModelTree[HingeNode]:
    """Return the nodes of a model for generalised forces; `descriptions` may have base parameters."""
    return ModelTree(
        model,
        descriptions,
        q,
        v,
        f_ext,
        all_bodies=all_bodies,
        unit=unit,
        partition=partition,
        kinds=HINGE_NODES,
    )
