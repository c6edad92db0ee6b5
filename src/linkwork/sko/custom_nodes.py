"""Nodes of custom trees in one state, and their partition into stages (Partition Sec. 2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.inertias import DenseInertia
from linkwork.sko.weights import DenseWeight
from linkwork.spatial import mirrored

EQUALITY_TOL = 1e-9  # relative gap between a node and its stages

Entry = Any
"""An array, or a function (q, v) -> array over numbers or symbols."""


class CustomNode(NodeState):
    """A node of a custom tree in one state."""

    def __init__(self, name: str, parent: HingeNode, dofs: slice, arrays: Mapping[str, np.ndarray]) -> None:
        self.name = name
        self.parent = parent
        self.dofs = dofs
        self._A = DenseWeight(arrays["A"])
        self._M = DenseInertia(mirrored(arrays["M"]))
        self._H = arrays["H"]
        self._a = arrays["a"]
        self._b = arrays["b"]
        self._armature = arrays["armature"]
        self._passive_force = arrays["passive_force"]
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
    """Some velocities of a partitioned node, as a massless node or its remainder (Partition Eq. 3).

    Entries are arrays or functions of (q, v).

    Parameters
    ----------
    velocities : sequence of int
        Consecutive indices of velocities of the node.
    A : (rows of the previous stage, rows), optional
        Weight Φ. Default: that of the node for the first stage, the identity for others.
    H : (velocities, rows), optional
        Joint map. Default: the corresponding rows of the node's H.
    a : (rows,), optional
        Coriolis term. Default: that of the node for the last stage, zero for others.
    """

    velocities: Sequence[int]
    A: Entry = None
    H: Entry = None
    a: Entry = None


def stages(
    split: Sequence[Stage] | None,
    name: str,
    parent: HingeNode,
    dofs: slice,
    node_arrays: Mapping[str, np.ndarray],
    q: np.ndarray,
    v: np.ndarray,
) -> list[CustomNode]:
    """Return a node, or the nodes that it is partitioned into: the last has its inertia."""
    if split is None:
        return [CustomNode(name, parent, dofs, node_arrays)]
    nodes: list[CustomNode] = []
    for i, stage in enumerate(split):
        last = i == len(split) - 1
        label = f"node {name!r}, stage {i}"
        columns = slice(stage.velocities[0], stage.velocities[-1] + 1)
        H = node_arrays["H"][columns] if stage.H is None else array_of(f"{label}: H", stage.H, q, v, 2)
        rows = H.shape[1]
        below = nodes[-1] if nodes else parent
        unit = node_arrays["A"] if i == 0 else np.eye(below.rows, rows).astype(object)
        A = unit if stage.A is None else array_of(f"{label}: A", stage.A, q, v, 2)
        remaining = (
            node_arrays["a"]
            if last and not any(each.a is not None for each in split)
            else np.zeros(rows, dtype=object)
        )
        a = remaining if stage.a is None else array_of(f"{label}: a", stage.a, q, v, 1)
        shapes = {
            "H": (H, (columns.stop - columns.start, rows)),
            "A": (A, (below.rows, rows)),
            "a": (a, (rows,)),
        }
        for word, (array, shape) in shapes.items():
            if array.shape != shape:
                raise ModelError(f"{label}: {word}: expected shape {shape}, got {array.shape}")
        if last and rows != len(node_arrays["M"]):
            raise ModelError(
                f"{label}: last stage: expected the node's {len(node_arrays['M'])} rows, got {rows}"
            )
        armature = node_arrays["armature"][columns, columns]
        more = (
            {"M": node_arrays["M"], "b": node_arrays["b"]}
            if last
            else {"M": np.zeros((rows, rows), dtype=object), "b": np.zeros(rows)}
        )
        entries = {
            "A": A,
            "H": H,
            "a": a,
            "armature": armature,
            "passive_force": node_arrays["passive_force"][columns],
            **more,
        }
        place = slice(dofs.start + columns.start, dofs.start + columns.stop)
        nodes.append(CustomNode(name if last else f"{name}'{i}", below, place, entries))
    return nodes


def stages_of(name: str, split: Any, m: int) -> tuple[Stage, ...]:
    """Return a split of a node with m velocities as stages."""
    try:
        stages = tuple(
            each if isinstance(each, Stage) else Stage((each,) if isinstance(each, int) else tuple(each))
            for each in split
        )
        places = sorted(i for stage in stages for i in stage.velocities)
    except TypeError:
        raise ModelError(
            f"node {name!r}: expected a sequence of Stage or of positions of velocities, got {split!r}"
        ) from None
    if places != list(range(m)):
        raise ModelError(f"node {name!r}: expected stages with each of its {m} velocities once")
    for stage in stages:
        first = stage.velocities[0] if len(stage.velocities) else 0
        if list(stage.velocities) != list(range(first, first + len(stage.velocities))) or not len(
            stage.velocities
        ):
            raise ModelError(
                f"node {name!r}: expected stages of consecutive velocities, got {tuple(stage.velocities)}"
            )
    return stages


def check_stages(nodes: Sequence[CustomNode], named: Mapping[str, CustomNode]) -> None:
    """Raise ModelError unless the stages of a node equal the node over numbers: Partition Eq. 5."""
    for k in nodes:
        chain: list[Any] = [named[k.name]]
        while (
            chain[-1].dofs != k.dofs
            and sum(j.dofs.stop - j.dofs.start for j in chain) < k.dofs.stop - k.dofs.start
        ):
            chain.append(chain[-1].parent)
        # A: from a stage to what is behind it
        A = np.eye(k.rows)
        H = np.zeros(k.H.shape)
        a = np.zeros(k.rows)
        armature = np.zeros(k.armature.shape)
        for j in chain:
            place = slice(j.dofs.start - k.dofs.start, j.dofs.stop - k.dofs.start)
            armature[place, place] = np.asarray(j.armature, dtype=float)
            H[place] = np.asarray(j.H, dtype=float) @ A
            a = a + A.T @ np.asarray(j.a, dtype=float)
            A = np.asarray(j.A.matrix, dtype=float) @ A
        equations = {
            "Φ(k+1, k) = Φ(k+1, k') Φ(k', k)": (A, k.A.matrix),
            "H(k) = [H(k''); H(k') Φ(k', k)]": (H, k.H),
            "a(k) = a(k'') + Φ*(k', k) a(k')": (a, k.a),
        }
        for equation, (value, node_value) in equations.items():
            expected = np.asarray(node_value, dtype=float)
            gap = np.abs(value - expected).max(initial=0.0)
            if not gap <= EQUALITY_TOL * max(1.0, np.abs(expected).max(initial=0.0)):
                raise ModelError(
                    f"node {k.name!r}: expected stages equivalent to the node, got a difference of "
                    f"{gap:.2g} in {equation} (Partition Eq. 5)"
                )
        if not np.array_equal(armature, numbers_of(k.armature)):
            raise ModelError(
                f"node {k.name!r} cannot be partitioned: its armature couples velocities of different stages"
            )


def check_numbers(tree: str, first: Sequence[CustomNode], again: Sequence[CustomNode]) -> None:
    """Raise ModelError if nodes evaluated twice differ, are not finite, or have an invalid inertia."""
    for k, other in zip(first, again):
        for word in ("A", "H", "M", "a", "b", "armature", "passive_force"):
            value, same = (numbers_of(getattr(node, word)) for node in (k, other))
            label = f"node {k.name!r}: {word}"
            if not np.isfinite(value).all():
                raise ModelError(
                    f"{label}: expected finite numbers in every state of {tree}, got {value.tolist()}"
                )
            if not np.array_equal(value, same):
                raise ModelError(
                    f"{label}: expected the same numbers for the same q and v, got others in the second call"
                )


def check_velocity_independence(nodes: Sequence[CustomNode], others: Sequence[CustomNode]) -> None:
    """Raise ModelError if weights, joint maps or inertias differ between states of the same q."""
    for k, other in zip(nodes, others):
        for word in ("A", "H", "M", "armature"):
            if not np.array_equal(numbers_of(getattr(k, word)), numbers_of(getattr(other, word))):
                raise ModelError(
                    f"node {k.name!r}: {word}: expected a function of q alone, got one that depends on v"
                )


def check_inertias(tree: str, nodes: Sequence[CustomNode], constant: Collection[tuple[str, str]]) -> None:
    """Raise ModelError if a constant inertia or the mass matrix is indefinite.

    `constant` are the entries that are arrays, as (node, entry). An inertia that depends on the state may be
    indefinite if the mass matrix is not, as for regrouped base parameters.
    """
    rows: dict[Any, np.ndarray] = {}
    nv = max(k.dofs.stop for k in nodes)
    mass = np.zeros((nv, nv))
    for k in nodes:
        for word in ("M", "armature"):
            if (k.name, word) in constant:
                _check_semidefinite(f"node {k.name!r}: {word}", numbers_of(getattr(k, word)))
        below = rows.get(k.parent, np.zeros((k.parent.rows, nv)))
        moved = rows[k] = numbers_of(k.A).T @ below
        moved[:, k.dofs] += numbers_of(k.H).T
        mass += moved.T @ numbers_of(k.M) @ moved
        mass[k.dofs, k.dofs] += numbers_of(k.armature)
    _check_semidefinite(f"{tree}: the mass matrix", mass)


def numbers_of(entry: Any) -> np.ndarray:
    """Return an entry of a node over numbers."""
    matrix = (
        entry.matrix
        if isinstance(entry, DenseWeight)
        else entry.dense()
        if isinstance(entry, DenseInertia)
        else entry
    )
    return np.asarray(matrix, dtype=float)


def _check_semidefinite(label: str, value: np.ndarray) -> None:
    size = np.abs(value).max(initial=0.0)
    least = float(np.linalg.eigvalsh(value)[0]) if value.size else 0.0
    if least < -EQUALITY_TOL * size:
        raise ModelError(
            f"{label}: expected a positive semidefinite matrix, got one with the eigenvalue {least:.6g}"
        )


def check_symmetric(label: str, value: np.ndarray) -> None:
    """Raise ModelError if a matrix of numbers is not symmetric; matrices with symbols are not checked."""
    if not all(isinstance(x, (int, float)) for x in value.ravel()):
        return
    numbers = value.astype(float)
    gap = np.abs(numbers - numbers.T).max(initial=0.0)
    if not np.isfinite(numbers).all() or gap > EQUALITY_TOL * np.abs(numbers).max(initial=0.0):
        raise ModelError(
            f"{label}: expected a symmetric finite matrix, got one that differs from its transpose by "
            f"{gap:.3g}"
        )


def evaluated(label: str, function: Callable[..., Any], q: np.ndarray, v: np.ndarray | None = None) -> Any:
    try:
        return function(q, q if v is None else v)
    except Exception as error:
        if type(error).__name__ == "TraceError":
            raise
        raise ModelError(f"{label}: its function of (q, v) fails: {type(error).__name__}: {error}") from error


def array_of(label: str, entry: Entry, q: np.ndarray, v: np.ndarray, ndim: int) -> np.ndarray:
    """Return an entry in one state as an object array, whose arithmetic has a defined order."""
    value = evaluated(label, entry, q, v) if callable(entry) else entry
    try:
        array = np.array(value, dtype=object)
    except (TypeError, ValueError):
        raise ModelError(f"{label}: expected an array of {ndim} dimensions, got {value!r}") from None
    if array.ndim != ndim:
        raise ModelError(f"{label}: expected {ndim} dimensions, got shape {array.shape}")
    if not callable(entry) and not all(is_finite(x) for x in array.ravel()):
        raise ModelError(f"{label}: expected finite numbers")
    return array


def is_finite(x: Any) -> bool:
    """Return whether x is a finite number or a symbol."""
    return (
        bool(np.isfinite(x))
        if isinstance(x, (int, float, np.number))
        else not isinstance(x, (str, bytes, type(None)))
    )
