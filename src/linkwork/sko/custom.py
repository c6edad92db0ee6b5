"""Custom trees: SKO models of nodes given as matrices or traced functions (SKO Sec. 2.3 and 8.1)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.mechanism import GROUND, WORLD, Frame
from linkwork.mechanism.checks import check_name
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.sko.contracts import GroundNode, HingeNode
from linkwork.sko.custom_nodes import (
    CustomNode,
    Stage,
    array_of,
    check_inertias,
    check_numbers,
    check_stages,
    check_symmetric,
    check_velocity_independence,
    is_finite,
    stages_of,
)
from linkwork.sko.custom_nodes import stages as stages_of_node
from linkwork.sko.node import Node, node_shape
from linkwork.sko.pick_offs import MatrixPickOff
from linkwork.sko.tree import TreeState
from linkwork.sko.tree_parameters import TreeParameters


class CustomTreeState(TreeState[CustomNode]):
    """The nodes of a custom tree in one state, and the frames of its pick-offs."""

    def __init__(
        self,
        tree: Tree,
        nodes: Sequence[CustomNode],
        named: Mapping[str, CustomNode],
        ground: GroundNode,
        q: np.ndarray,
        v: np.ndarray,
    ) -> None:
        super().__init__(tree.name, nodes, ground, tree.nv)
        self._tree = tree
        self.named = named
        self._q = q
        self._v = v

    def pick_off(self, frame: Frame) -> Any:
        pick = self._tree.own_parameters.bound(self._tree.frames_by_name[frame.name][1])
        node = self.named[self._tree.nodes[frame.body].name]
        B, bias = pick if isinstance(pick, tuple) else (pick, None)
        name = f"node {node.name!r}: the pick-off {frame.name!r}"
        matrix = array_of(name, B, self._q, self._v, 2)
        if matrix.shape[1] != node.rows:
            raise ModelError(
                f"{name}: expected {node.rows} columns, one for each row of its node, got shape "
                f"{matrix.shape}"
            )
        frame_bias = (
            np.zeros(len(matrix)) if bias is None else array_of(f"{name}, bias", bias, self._q, self._v, 1)
        )
        if len(frame_bias) != len(matrix):
            raise ModelError(f"{name}: its bias: expected {len(matrix)} numbers, got {len(frame_bias)}")
        return MatrixPickOff(node, matrix, frame_bias)

    def frame(self, name: str) -> Frame:
        """Return the frame with this name."""
        return self._tree.frame(name)


class Tree:
    """A custom tree: nodes, each after its parent. Functions of models accept it in place of a model.

    v has the nodes' velocities one after the other, (nv,); q has `nq` coordinates, by default as many as v,
    whose meaning only the node functions define.

    Parameters
    ----------
    name : str
        Name of the tree.
    nodes : sequence of Node
        Nodes, each after its parent.
    nq : int, optional
        Number of coordinates in q. Default: that of the velocities.
    base_acceleration : (rows,), optional
        Acceleration of the base of all roots, minus gravity for instance; roots then have an A with `rows`
        rows.
    parameters : mapping, optional
        Numbers and arrays by name for entries that are functions of (q, v, p). Functions take other values as
        ``parameters={"stiffness": ...}``, and derivatives are with respect to them.
    """

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        *,
        nq: int | None = None,
        base_acceleration: Sequence[float] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        if nq is not None and (isinstance(nq, bool) or not isinstance(nq, (int, np.integer)) or nq < 0):
            raise ModelError(f"{name}: nq: expected an integer of at least 0, got {nq!r}")
        self.base_acceleration = np.array([float(x) for x in base_acceleration], dtype=object)
        if not all(map(is_finite, self.base_acceleration)):
            raise ModelError(
                f"{name}: base_acceleration: expected finite numbers, got {self.base_acceleration.tolist()}"
            )
        self.own_parameters = TreeParameters(name, {} if parameters is None else parameters)
        self.kernels: dict[Any, Any] = {}
        self.cache: dict[Any, Any] = {}
        self.bodies: tuple[Any, ...] = ()
        self.partition: dict[str, tuple[Stage, ...]] = {}
        places: dict[str, int] = {}
        for k, node in enumerate(self.nodes):
            if not isinstance(node, Node):
                raise ModelError(f"{name}: nodes: expected linkwork.sko.Node, got {type(node).__name__}")
            check_name("node", node.name)
            if node.name in places:
                raise ModelError(f"{name} has two nodes named {node.name!r}")
            if node.parent is not None and node.parent not in places:
                later = any(other.name == node.parent for other in self.nodes)
                hint = ", which comes after it" if later else did_you_mean(node.parent, places)
                raise ModelError(
                    f"node {node.name!r}: parent: expected the name of an earlier node, got "
                    f"{node.parent!r}{hint}"
                )
            places[node.name] = k
        if not self.nodes:
            raise ModelError(f"{name} has no nodes")
        self._shapes = [
            node_shape(node, self.own_parameters.bound(node.H), nq or 0) for node in self.nodes
        ]  # velocities and rows
        self.nv = sum(m for m, _ in self._shapes)
        self.nq = self.nv if nq is None else nq
        self.frames_by_name: dict[str, tuple[int, Any]] = {}
        for k, node in enumerate(self.nodes):
            if not isinstance(node.pick_offs, Mapping):
                raise ModelError(
                    f"node {node.name!r}: pick_offs: expected a mapping of frames to B, got "
                    f"{node.pick_offs!r}"
                )
            for frame, pick_off in node.pick_offs.items():
                if frame in self.frames_by_name:
                    raise ModelError(f"{name} has two frames named {frame!r}")
                self.frames_by_name[frame] = (k, pick_off)
        self._check_states()

    def _check_states(self) -> None:
        """Raise ModelError if entries have wrong shapes or violate the SKO contracts at a few states."""
        rng = np.random.default_rng(0)
        constant = {
            (node.name, word)
            for node in self.nodes
            for word in ("M", "armature")
            if not callable(getattr(node, word))
        }
        states = [(np.full(self.nq, 0.1), np.full(self.nv, 0.1))]
        states += [(rng.uniform(-1.0, 1.0, self.nq), rng.normal(size=self.nv)) for _ in range(2)]
        values = self.own_parameters.values
        for q, v in states:
            state = self.state(q, v)
            again = self.state(q, v)
            check_numbers(self.name, list(state.base_to_tips()), list(again.base_to_tips()))
            check_inertias(self.name, list(state.base_to_tips()), constant)
            check_velocity_independence(
                list(state.base_to_tips()), list(self.state(q, 0.5 - v).base_to_tips())
            )
            for frame in self.frames_by_name:
                picks = [each.pick_off(self.frame(frame)) for each in (state, again)]
                for word in ("matrix", "bias"):
                    first, second = (np.asarray(getattr(pick, word), dtype=float) for pick in picks)
                    if not (np.isfinite(first).all() and np.array_equal(first, second)):
                        raise ModelError(
                            f"node {picks[0].node.name!r}: the pick-off {frame!r}: expected finite numbers, "
                            f"the same for the same q and v, got {first.tolist()} and {second.tolist()}"
                        )

        if unread := [name for name in values if name not in values.read]:
            raise ModelError(
                f"{printable(self.name)}: no entry of its nodes depends on the parameter {unread[0]!r}"
            )

    @property
    def nv_spanning(self) -> int:
        """The number of velocities: no loops are known here."""
        return self.nv

    @property
    def v_names(self) -> tuple[str, ...]:
        """The node (and component) behind each entry of v."""
        names: list[str] = []
        for node, (m, _) in zip(self.nodes, self._shapes):
            names += [node.name] if m == 1 else [f"{node.name}.{i}" for i in range(m)]
        return tuple(names)

    def __repr__(self) -> str:
        return f"<linkwork SKO model {self.name!r}: {len(self.nodes)} nodes, nq {self.nq}, nv {self.nv}>"

    _nominal: Tree | None = None
    loops: tuple[Any, ...] = ()  # none are known here
    embedded: tuple[Any, ...] = ()
    constrained_loops: tuple[Any, ...] = ()
    joints: tuple[Any, ...] = ()  # nodes have velocities

    def frame(self, name: str) -> Frame:
        """Return the frame of a pick-off, with its node's index as `body`; also "world"."""
        if name == WORLD:
            return Frame(WORLD, GROUND)
        if name not in self.frames_by_name:
            raise ModelError(
                f"{printable(self.name)} has no frame named {name!r}{did_you_mean(name, self.frames_by_name)}"
            )
        return Frame(name, self.frames_by_name[name][0])

    def joint(self, name: str) -> Any:
        """Raise ModelError: custom trees have velocities, but no joints."""
        raise ModelError(
            f"{printable(self.name)} has no joint named {name!r}: name entries of "
            f"v_names{did_you_mean(name, self.v_names)}"
        )

    def integrate(self, q: Any, v: Any) -> Any:
        """Return q + v, the coordinates after unit time, for trees with nq = nv."""
        if self.nq != self.nv:
            raise ModelError(
                f"{printable(self.name)} has {self.nq} coordinates and {self.nv} velocities: "
                "the relation of q to v is unknown"
            )
        return q + v

    def state(self, q: Any, v: Any = None, f_ext: Any = None) -> CustomTreeState:
        """Return the nodes in one state: q, (nq,), and v, (nv,) or zero."""
        if f_ext is not None:
            raise ModelError(
                f"{self.name} is a custom tree without bodies for f_ext: pass external forces in b"
            )
        q = np.asarray(q)
        v = np.zeros(self.nv) if v is None else np.asarray(v)
        ground = GroundNode(self.base_acceleration)
        nodes_by_name: dict[str, CustomNode] = {}
        nodes: list[CustomNode] = []
        start = 0
        for node, (m, rows) in zip(self.nodes, self._shapes):
            parent: HingeNode = ground if node.parent is None else nodes_by_name[node.parent]
            shapes = {"A": (parent.rows, rows), "H": (m, rows), "M": (rows, rows), "a": (rows,), "b": (rows,),
                      "armature": (m, m), "passive_force": (m,)}  # fmt: skip
            entries = {}
            for word, shape in shapes.items():
                entry = self.own_parameters.bound(getattr(node, word))
                if entry is None and word == "A" and 0 not in shape:
                    raise ModelError(f"node {node.name!r} needs A, (rows of its parent, rows): {shape}")
                label = f"node {node.name!r}: {word}"
                entries[word] = (
                    np.zeros(shape, dtype=object)
                    if entry is None
                    else array_of(label, entry, q, v, len(shape))
                )
                if entries[word].shape != shape:
                    raise ModelError(f"{label}: expected shape {shape}, got {entries[word].shape}")
            for word in ("M", "armature"):
                check_symmetric(f"node {node.name!r}: {word}", entries[word])
            split = self.partition.get(node.name)
            split = None if split is None else tuple(self._bound_stage(stage) for stage in split)
            stages = stages_of_node(split, node.name, parent, slice(start, start + m), entries, q, v)
            nodes_by_name[node.name] = stages[-1]
            nodes += stages
            start += m
        return CustomTreeState(self, nodes, nodes_by_name, ground, q, v)

    def _bound_stage(self, stage: Stage) -> Stage:
        bound = self.own_parameters.bound
        return Stage(stage.velocities, bound(stage.A), bound(stage.H), bound(stage.a))

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters of the tree as arrays by name, as in `parameters={...}` of functions."""
        return {name: value.copy() for name, value in self.own_parameters.numbers.items()}

    def with_parameters(self, values: Mapping[str, Any]) -> Tree:
        """Return a copy with other values of some parameters."""
        tree = self._with(self.own_parameters.replaced(values))
        tree._check_states()
        return tree

    def traced_with(self, values: Mapping[str, Any]) -> Tree:
        """Return a copy with symbols for some parameters, used while functions are traced."""
        tree = self._with(self.own_parameters.traced_with(values))
        tree._nominal = self.nominal
        return tree

    @property
    def nominal(self) -> Tree:
        """The tree without symbols: with its own numbers for all parameters."""
        return self._nominal or self

    def _with(self, parameters: TreeParameters) -> Tree:
        tree = copy.copy(self)
        tree.kernels = {}
        tree.cache = {}
        tree.own_parameters = parameters
        tree._nominal = None
        return tree

    def partitioned(self, *nodes: str, splits: Mapping[str, Sequence[Any]] | None = None) -> Tree:
        """Return a copy with multi-DoF nodes partitioned, massless nodes first (Partition Sec. 2).

        v and its names stay the same.

        Parameters
        ----------
        *nodes : str
            Nodes to partition into single velocities; by default all with several velocities.
        splits : mapping, optional
            Custom splits by node: a sequence of `Stage`, or of groups of velocities, from the parent
            outwards. Their equivalence to the node (Partition Eq. 5) is checked at a few states.
        """
        sizes = {node.name: m for node, (m, _) in zip(self.nodes, self._shapes)}
        if splits is not None and not isinstance(splits, Mapping):
            raise ModelError(f"splits: expected a mapping of nodes to their splits, got {splits!r}")
        custom_splits = dict(splits or {})
        for name in (*nodes, *custom_splits):
            if name not in sizes:
                raise ModelError(
                    f"{printable(self.name)} has no node named {name!r}{did_you_mean(name, sizes)}"
                )
            if sizes[name] < 2:
                raise ModelError(f"node {name!r} has one velocity: only nodes of several can be partitioned")
        selected = {*nodes, *custom_splits} or {name for name, m in sizes.items() if m > 1}
        model = copy.copy(self)
        model.kernels = {}
        model.cache = {}
        model.partition = {
            name: stages_of(name, custom_splits.get(name, [(i,) for i in range(m)]), m)
            for name, m in sizes.items()
            if name in selected
        }
        rng = np.random.default_rng(0)
        for _ in range(3):
            q = rng.uniform(-1.0, 1.0, self.nq)
            v = rng.normal(size=self.nv)
            check_stages(self.state(q, v).nodes, model.state(q, v).named)
        return model
