"""SKO models by hand: trees of nodes given as matrices, or as traced functions of (q, v) (SKO Sec. 2.3 and 8.1)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.parts import GROUND, WORLD, Frame
from linkwork.parts.names import did_you_mean, shown
from linkwork.sko.contracts import GroundNode, HingeNode
from linkwork.sko.hand_made_nodes import Entry, NodeByHand, Stage, array_of, check_same, evaluated, stages_of
from linkwork.sko.hand_made_nodes import stages as stages_of_node
from linkwork.sko.pick_offs import MatrixPickOff
from linkwork.sko.tree import TreeState

MANY = 1000  # coordinates to ask H with, before it is known how many there are


@dataclass(frozen=True, eq=False)
class Node:
    """A node of an SKO model: V = A* V(℘) + H* θ̇, α = A* α(℘) + H* θ̈ + a, f = Σ A f(children) + M α + b, T = H f.

    `H` is (m, rows) for m velocities, `M` (rows, rows) and symmetric, `A` (rows of the parent, rows), of any rank; `a` and `b`
    are (rows,), zero where they are not given; `armature` is (m, m) and `passive_force` (m,), what springs and dampers take.
    Each is an array, or a function of the whole tree's q, (nq,), and v, (nv,), over numbers or symbols. `parent` names another
    node; a root needs an `A` only where the tree's base accelerates. `pick_offs` are B, (n, rows), by the names of frames with
    V_frame = B V; or pairs (B, bias) with α_frame = B α + bias. `shape` is that of H, (m, rows): it need be said only where H
    is a function that asks how long q and v are.
    """

    name: str
    H: Entry
    M: Entry
    parent: str | None = None
    A: Entry = None
    a: Entry = None
    b: Entry = None
    armature: Entry = None
    passive_force: Entry = None
    pick_offs: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, int] | None = None


class HandMadeTreeState(TreeState[NodeByHand]):
    """The nodes of an SKO model made by hand in one state, and the frames that its pick-offs name."""

    def __init__(
        self,
        tree: Tree,
        nodes: Sequence[NodeByHand],
        named: Mapping[str, NodeByHand],
        ground: GroundNode,
        q: np.ndarray,
        v: np.ndarray,
    ) -> None:
        super().__init__(tree.name, nodes, ground, tree.nv)
        self._tree, self.named, self._q, self._v = tree, named, q, v

    def pick_off(self, frame: Frame) -> Any:
        given = self._tree.frames_by_name[frame.name][1]
        node = self.named[self._tree.nodes[frame.body].name]
        B, bias = given if isinstance(given, tuple) else (given, None)
        name = f"node {node.name!r}: the pick-off {frame.name!r}"
        matrix = array_of(name, B, self._q, self._v, 2)
        if matrix.shape[1] != node.rows:
            raise ModelError(f"{name} must have {node.rows} columns, one for each row of its node, not shape {matrix.shape}")
        rest = np.zeros(len(matrix)) if bias is None else array_of(f"{name}, bias", bias, self._q, self._v, 1)
        if len(rest) != len(matrix):
            raise ModelError(f"{name}: its bias must have {len(matrix)} numbers, not {len(rest)}")
        return MatrixPickOff(node, matrix, rest)

    def frame(self, name: str) -> Frame:
        """The frame with this name."""
        return self._tree.frame(name)


class Tree:
    """An SKO model made by hand: nodes, each after its parent. Functions of models take it in the place of a model.

    v has the nodes' velocities one after the other, (nv,). q has `nq` coordinates, as many as v unless said otherwise; only the
    functions that nodes are given as say what they mean. `base_acceleration`, (rows,), is that of what roots hang on: against
    gravity, for instance; roots then have an A with so many rows.
    """

    def __init__(
        self, name: str, nodes: Sequence[Node], *, nq: int | None = None, base_acceleration: Sequence[float] = ()
    ) -> None:
        self.name, self.nodes = name, tuple(nodes)
        self.base_acceleration = np.array([float(x) for x in base_acceleration], dtype=object)
        self.kernels: dict[Any, Any] = {}
        self.memory: dict[Any, Any] = {}
        self.bodies: tuple[Any, ...] = ()
        self.partition: dict[str, tuple[Stage, ...]] = {}
        places: dict[str, int] = {}
        for k, node in enumerate(self.nodes):
            if not isinstance(node, Node):
                raise ModelError(f"{name}: nodes must be linkwork.sko.Node, not {type(node).__name__}")
            if node.name in places:
                raise ModelError(f"{name} has two nodes named {node.name!r}")
            if node.parent is not None and node.parent not in places:
                later = any(other.name == node.parent for other in self.nodes)
                why = "comes after it" if later else f"is not there{did_you_mean(node.parent, places)}"
                raise ModelError(f"node {node.name!r}: its parent {node.parent!r} {why}")
            places[node.name] = k
        if not self.nodes:
            raise ModelError(f"{name} has no nodes")
        self._shapes = [_shape(node, nq or 0) for node in self.nodes]  # velocities and rows
        self.nv = sum(m for m, _ in self._shapes)
        self.nq = self.nv if nq is None else nq
        self.frames_by_name: dict[str, tuple[int, Any]] = {}
        for k, node in enumerate(self.nodes):
            if not isinstance(node.pick_offs, Mapping):
                raise ModelError(f"node {node.name!r}: pick_offs must be a mapping of frames to B, not {node.pick_offs!r}")
            for frame, given in node.pick_offs.items():
                if frame in self.frames_by_name:
                    raise ModelError(f"{name} has two frames named {frame!r}")
                self.frames_by_name[frame] = (k, given)
        state = self.state(np.full(self.nq, 0.1), np.full(self.nv, 0.1))  # shapes that do not fit are told now
        for frame in self.frames_by_name:
            state.pick_off(self.frame(frame))

    @property
    def nv_spanning(self) -> int:
        """The number of velocities: no loops are known here."""
        return self.nv

    @property
    def v_names(self) -> tuple[str, ...]:
        """The node (and component) behind each entry of v."""
        found: list[str] = []
        for node, (m, _) in zip(self.nodes, self._shapes):
            found += [node.name] if m == 1 else [f"{node.name}.{i}" for i in range(m)]
        return tuple(found)

    def __repr__(self) -> str:
        return f"<linkwork SKO model {self.name!r}: {len(self.nodes)} nodes, nq {self.nq}, nv {self.nv}>"

    force_held: tuple[Any, ...] = ()  # no loops are known here

    def frame(self, name: str) -> Frame:
        """The frame that a pick-off names; its `body` is the place of its node. Also "world"."""
        if name == WORLD:
            return Frame(WORLD, GROUND)
        if name not in self.frames_by_name:
            raise ModelError(f"{shown(self.name)} has no frame named {name!r}{did_you_mean(name, self.frames_by_name)}")
        return Frame(name, self.frames_by_name[name][0])

    def joint(self, name: str) -> Any:
        """An error: nodes made by hand have velocities, and no joints."""
        raise ModelError(
            f"{shown(self.name)} has no joint named {name!r}: name entries of v_names{did_you_mean(name, self.v_names)}"
        )

    def integrate(self, q: Any, v: Any) -> Any:
        """q + v: integration over a unit of time, where q has as many coordinates as v."""
        if self.nq != self.nv:
            raise ModelError(
                f"{shown(self.name)} has {self.nq} coordinates and {self.nv} velocities: how q changes with v is not known"
            )
        return q + v

    def state(self, q: Any, v: Any = None, f_ext: Any = None) -> HandMadeTreeState:
        """The nodes in one state: q, (nq,), and v, (nv,) or zero."""
        if f_ext is not None:
            raise ModelError(f"{self.name} is made by hand and has no bodies for f_ext: give forces from outside in b")
        q = np.asarray(q)
        v = np.zeros(self.nv) if v is None else np.asarray(v)
        ground = GroundNode(self.base_acceleration)
        made: dict[str, NodeByHand] = {}
        every: list[NodeByHand] = []
        start = 0
        for node, (m, rows) in zip(self.nodes, self._shapes):
            parent: HingeNode = ground if node.parent is None else made[node.parent]
            shapes = {"A": (parent.rows, rows), "H": (m, rows), "M": (rows, rows), "a": (rows,), "b": (rows,),
                      "armature": (m, m), "passive_force": (m,)}  # fmt: skip
            given = {}
            for word, shape in shapes.items():
                entry = getattr(node, word)
                if entry is None and word == "A" and 0 not in shape:
                    raise ModelError(f"node {node.name!r} needs A, (rows of its parent, rows): {shape}")
                what = f"node {node.name!r}: {word}"
                given[word] = np.zeros(shape, dtype=object) if entry is None else array_of(what, entry, q, v, len(shape))
                if given[word].shape != shape:
                    raise ModelError(f"{what} must have shape {shape}, not {given[word].shape}")
            M = given["M"]
            if all(isinstance(x, (int, float)) for x in M.ravel()) and not np.allclose(*(M.astype(float), M.T.astype(float))):
                raise ModelError(f"node {node.name!r}: M must be symmetric")
            stages = stages_of_node(self.partition.get(node.name), node.name, parent, slice(start, start + m), given, q, v)
            made[node.name] = stages[-1]
            every += stages
            start += m
        return HandMadeTreeState(self, every, made, ground, q, v)

    def partitioned(self, *nodes: str, splits: Mapping[str, Sequence[Any]] | None = None) -> Tree:
        """The same SKO model with nodes of several velocities as one after the other, massless ones first (Partition Sec. 2).

        `nodes` are named, or all with several velocities: each velocity then stands for itself. `splits` has choices by node: a
        sequence of `Stage`, or of places of velocities, from the parent out. That these make the same node (Partition Eq. 5) is
        checked at a few states. v and its names stay what they are.
        """
        sizes = {node.name: m for node, (m, _) in zip(self.nodes, self._shapes)}
        if splits is not None and not isinstance(splits, Mapping):
            raise ModelError(f"splits must be a mapping of nodes to their splits, not {splits!r}")
        given = dict(splits or {})
        for name in (*nodes, *given):
            if name not in sizes:
                raise ModelError(f"{shown(self.name)} has no node named {name!r}{did_you_mean(name, sizes)}")
            if sizes[name] < 2:
                raise ModelError(f"node {name!r} has one velocity: only nodes of several can be partitioned")
        wanted = {*nodes, *given} or {name for name, m in sizes.items() if m > 1}
        model = copy.copy(self)
        model.kernels, model.memory = {}, {}
        model.partition = {
            name: stages_of(name, given.get(name, [(i,) for i in range(m)]), m) for name, m in sizes.items() if name in wanted
        }
        rng = np.random.default_rng(0)
        for _ in range(3):
            q, v = rng.uniform(-1.0, 1.0, self.nq), rng.normal(size=self.nv)
            check_same(self.state(q, v).nodes, model.state(q, v).named)
        return model


def _shape(node: Node, nq: int) -> tuple[int, int]:
    """Velocities and rows of a node, from H; where that is a function, it is asked with more coordinates than there may be."""
    H = node.H
    if node.shape is not None:
        H = np.empty(node.shape)
    elif callable(H):
        try:
            H = evaluated(f"node {node.name!r}: H", H, np.full(max(nq, MANY), 0.1))
        except ModelError as error:
            raise ModelError(f"{error}; or say its shape=(velocities, rows)") from error
    found = np.shape(H)
    if len(found) != 2 or 0 in found:
        raise ModelError(f"node {node.name!r}: H must have shape (velocities, rows), not {found}")
    return found[0], found[1]
