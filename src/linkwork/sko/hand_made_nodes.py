"""Nodes of SKO models made by hand in one state, and the stages that one of them is partitioned into (Partition Sec. 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.inertias import DenseInertia
from linkwork.sko.weights import DenseWeight
from linkwork.spatial import mirrored

SAME = 1e-9  # relative gap between a node and its stages

Entry = Any
"""An array, or a function (q, v) -> array over numbers or symbols."""


class NodeByHand(NodeState):
    """A node made by hand in one state."""

    def __init__(self, name: str, parent: HingeNode, dofs: slice, given: Mapping[str, np.ndarray]) -> None:
        self.name, self.parent, self.dofs = name, parent, dofs
        self._A, self._M, self._H = DenseWeight(given["A"]), DenseInertia(mirrored(given["M"])), given["H"]
        self._a, self._b = given["a"], given["b"]
        self._armature, self._passive_force = given["armature"], given["passive_force"]
        self.rows = self._H.shape[1]
        self.blocks = {name: slice(0, self.rows)}

    @property
    def A(self) -> DenseWeight:
        return self._A

    @property
    def H(self) -> np.ndarray:
        return self._H

    @property
    def M(self) -> DenseInertia:
        return self._M

    @property
    def armature(self) -> np.ndarray:
        return self._armature

    @property
    def passive_force(self) -> np.ndarray:
        return self._passive_force

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return self._A.scatter(V) + self._H.T @ dtheta

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self._A.scatter(alpha) + self._H.T @ ddtheta + self._a

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self._M @ alpha + self._b


@dataclass(frozen=True, eq=False)
class Stage:
    """Some velocities of a node that is partitioned, as a massless node before it, or as what is left of it (Partition Eq. 3).

    `velocities` are places among those of the node, one after the other. `A`, (rows of the stage before, rows), is Φ: if not
    given, that of the node for the first stage, and 1 for others. `H`, (velocities, rows), and `a`, (rows,), are those of the
    stage: if not given, the node's own rows of H, and zero, but for the last stage, which then has the node's a. Each is an
    array, or a function of (q, v).
    """

    velocities: Sequence[int]
    A: Entry = None
    H: Entry = None
    a: Entry = None


def stages(
    chosen: Sequence[Stage] | None,
    name: str,
    parent: HingeNode,
    dofs: slice,
    given: Mapping[str, np.ndarray],
    q: np.ndarray,
    v: np.ndarray,
) -> list[NodeByHand]:
    """A node, or the nodes that stand for it where it is partitioned: the last has its inertia."""
    if chosen is None:
        return [NodeByHand(name, parent, dofs, given)]
    made: list[NodeByHand] = []
    for i, stage in enumerate(chosen):
        last, what = i == len(chosen) - 1, f"node {name!r}, stage {i}"
        own = slice(stage.velocities[0], stage.velocities[-1] + 1)
        H = given["H"][own] if stage.H is None else array_of(f"{what}: H", stage.H, q, v, 2)
        rows, below = H.shape[1], made[-1] if made else parent
        unit = given["A"] if i == 0 else np.eye(below.rows, rows).astype(object)
        A = unit if stage.A is None else array_of(f"{what}: A", stage.A, q, v, 2)
        rest = given["a"] if last and not any(each.a is not None for each in chosen) else np.zeros(rows, dtype=object)
        a = rest if stage.a is None else array_of(f"{what}: a", stage.a, q, v, 1)
        shapes = {"H": (H, (own.stop - own.start, rows)), "A": (A, (below.rows, rows)), "a": (a, (rows,))}
        for word, (array, shape) in shapes.items():
            if array.shape != shape:
                raise ModelError(f"{what}: {word} must have shape {shape}, not {array.shape}")
        if last and rows != len(given["M"]):
            raise ModelError(f"{what}: the last stage has the node's {len(given['M'])} rows, not {rows}")
        armature = given["armature"][own, own]
        more = {"M": given["M"], "b": given["b"]} if last else {"M": np.zeros((rows, rows), dtype=object), "b": np.zeros(rows)}
        entries = {"A": A, "H": H, "a": a, "armature": armature, "passive_force": given["passive_force"][own], **more}
        place = slice(dofs.start + own.start, dofs.start + own.stop)
        made.append(NodeByHand(name if last else f"{name}'{i}", below, place, entries))
    return made


def stages_of(name: str, split: Any, m: int) -> tuple[Stage, ...]:
    """A split of a node with m velocities as stages."""
    try:
        stages = tuple(
            each if isinstance(each, Stage) else Stage((each,) if isinstance(each, int) else tuple(each)) for each in split
        )
        places = sorted(i for stage in stages for i in stage.velocities)
    except TypeError:
        raise ModelError(f"node {name!r}: a split is a sequence of Stage, or of places of velocities, not {split!r}") from None
    if places != list(range(m)):
        raise ModelError(f"node {name!r}: its stages must have each of its {m} velocities once")
    for stage in stages:
        first = stage.velocities[0] if len(stage.velocities) else 0
        if list(stage.velocities) != list(range(first, first + len(stage.velocities))) or not len(stage.velocities):
            raise ModelError(f"node {name!r}: velocities of a stage must follow one another, unlike {tuple(stage.velocities)}")
    return stages


def check_same(nodes: Sequence[NodeByHand], named: Mapping[str, NodeByHand]) -> None:
    """An error where the stages of a node are not the node: Partition Eq. 5, over numbers."""
    for k in nodes:
        chain: list[Any] = [named[k.name]]
        while chain[-1].dofs != k.dofs and sum(j.dofs.stop - j.dofs.start for j in chain) < k.dofs.stop - k.dofs.start:
            chain.append(chain[-1].parent)
        A, H, a = np.eye(k.rows), np.zeros(k.H.shape), np.zeros(k.rows)  # A: from a stage to what is behind it
        for j in chain:
            place = slice(j.dofs.start - k.dofs.start, j.dofs.stop - k.dofs.start)
            H[place], a = np.asarray(j.H, dtype=float) @ A, a + A.T @ np.asarray(j.a, dtype=float)
            A = np.asarray(j.A.matrix, dtype=float) @ A
        equations = {
            "Φ(k+1, k) = Φ(k+1, k') Φ(k', k)": (A, k.A.matrix),
            "H(k) = [H(k''); H(k') Φ(k', k)]": (H, k.H),
            "a(k) = a(k'') + Φ*(k', k) a(k')": (a, k.a),
        }
        for equation, (found, own) in equations.items():
            expected = np.asarray(own, dtype=float)
            gap = np.abs(found - expected).max(initial=0.0)
            if not gap <= SAME * max(1.0, np.abs(expected).max(initial=0.0)):
                raise ModelError(
                    f"node {k.name!r}: its stages are not the node: {equation} (Partition Eq. 5) is missed by {gap:.2g}"
                )


def evaluated(what: str, function: Callable[..., Any], q: np.ndarray, v: np.ndarray | None = None) -> Any:
    try:
        return function(q, q if v is None else v)
    except Exception as error:
        if type(error).__name__ == "TraceError":
            raise
        raise ModelError(f"{what}: its function of (q, v) fails: {type(error).__name__}: {error}") from error


def array_of(what: str, entry: Entry, q: np.ndarray, v: np.ndarray, ndim: int) -> np.ndarray:
    """An entry in one state, as an array of objects: its arithmetic is then our own, in a defined order."""
    value = evaluated(what, entry, q, v) if callable(entry) else entry
    try:
        array = np.array(value, dtype=object)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be an array of {ndim} dimensions, not {value!r}") from None
    if array.ndim != ndim:
        raise ModelError(f"{what} must have {ndim} dimensions, not shape {array.shape}")
    if not callable(entry) and not all(is_finite(x) for x in array.ravel()):
        raise ModelError(f"{what} must be finite numbers")
    return array


def is_finite(x: Any) -> bool:
    """Whether it is a finite number, or a symbol of some trace."""
    return bool(np.isfinite(x)) if isinstance(x, (int, float, np.number)) else not isinstance(x, (str, bytes, type(None)))
