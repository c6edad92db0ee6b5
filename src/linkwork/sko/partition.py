"""Partitioned hinges: one node as several, of which all but the last are massless (Partition Sec. 2).

A hinge of several velocities can be split into hinges of fewer velocities with massless bodies between them.
If, from the parent outwards, k' has the weight Φ(k+1, k') and k the weight Φ(k', k), the model is unchanged
if (Partition Eq. 5)

    Φ(k+1, k) = Φ(k+1, k') Φ(k', k),   H(k) = [H(k''); H(k') Φ(k', k)],   a(k) = a(k'') + Φ*(k', k) a(k'),
    M(k') = 0,   b(k') = 0,

where Φ(k+1, k), H(k) and a(k) are those of the unpartitioned node (underlined in the paper) and a(k'') is the
last node's own. Velocities are ordered from the parent outwards here, so the rows of k' come first.

Here Φ(k', k) = 1: any split of the rows of H satisfies these conditions. Articulated inertias are reduced by
one hinge after the other, and the full D is never factorized. Rows freed by a hinge vanish from P⁺, which
makes inner hinges cheaper.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.sko.contracts import HingeNode, NodeInertia, NodeState, Weight
from linkwork.spatial import any_nonzero


class UnitWeight:
    """Φ = 1."""

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return V

    def gather(self, F: np.ndarray) -> np.ndarray:
        return F

    def congruence(self, inertia: Any) -> Any:
        return inertia


class ZeroInertia:
    """The inertia of a massless body."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        return np.zeros((self.rows, *X.shape[1:]), dtype=object)

    def __add__(self, other: Any) -> Any:
        return other

    def projected(self, G: np.ndarray, U: np.ndarray, D: Any, zero_rows: Sequence[int] = ()) -> Any:
        return self

    def dense(self) -> np.ndarray:
        return np.zeros((self.rows, self.rows), dtype=object)


class HingeStage(HingeNode):
    """Some velocities of a node as a node: `first` from the parent, `last` with the node's inertia."""

    def __init__(
        self, node: Any, name: str, parent: HingeNode, group: slice, *, first: bool, last: bool
    ) -> None:
        self.name = name
        self.parent = parent
        self.rows = node.rows
        self.blocks = node.blocks
        self.supports = node.supports if first else 1
        self.dofs = slice(node.dofs.start + group.start, node.dofs.start + group.stop)
        self._node = node
        self._group = group
        self._first = first
        self._last = last

    @property
    def A(self) -> Weight:
        return self._node.A if self._first else UnitWeight()

    @property
    def H(self) -> np.ndarray:
        return self._node.H[self._group]

    @property
    def M(self) -> NodeInertia:
        return self._node.M if self._last else ZeroInertia(self.rows)

    @property
    def armature(self) -> np.ndarray:
        return self._node.armature[self._group, self._group]

    @property
    def passive_force(self) -> np.ndarray:
        return self._node.passive_force[self._group]

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        carried = self._node.velocity(V, np.zeros(len(self._node.H))) if self._first else V
        return carried + self.H.T @ dtheta

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        carried = self._node.accelerate(alpha, np.zeros(len(self._node.H))) if self._first else alpha
        return carried + self.H.T @ ddtheta

    def carried(self, block: Hashable, place: Any) -> tuple[Hashable, Any] | None:
        return self._node.carried(block, place) if self._first else (block, place)

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self._node.hinge_force(alpha) if self._last else np.zeros(self.rows)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self._node.hinge_inertia if self._last else ZeroInertia(self.rows)


class Stage(HingeStage, NodeState):
    """A `HingeStage` of a node with f = M α + b."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self._node.force(alpha) if self._last else np.zeros(self.rows)

    def armature_energy(self, dtheta: np.ndarray) -> Any:
        return dtheta @ (self.armature @ dtheta)


def split(node: Any, groups: Sequence[slice]) -> list[Any]:
    """Return a node as several, one per group of velocities from the parent outwards."""
    armature = np.array(node.armature, dtype=object)
    for group in groups:
        armature[group, group] = 0.0
    if any_nonzero(armature):
        raise ModelError(
            f"{node.name!r} cannot be partitioned: its armature couples velocities of different groups"
        )
    kind = Stage if isinstance(node, NodeState) else HingeStage
    stages: list[Any] = []
    for i, group in enumerate(groups):
        last = i == len(groups) - 1
        parent = stages[-1] if stages else node.parent
        stages.append(
            kind(node, node.name if last else f"{node.name}'{i}", parent, group, first=not stages, last=last)
        )
    return stages


class JoinedWeight:
    """Φ(k+1, k') Φ(k', k): two weights as one."""

    def __init__(self, inner: Weight, outer: Weight) -> None:
        self.inner = inner
        self.outer = outer

    def scatter(self, V: np.ndarray) -> np.ndarray:
        return self.outer.scatter(self.inner.scatter(V))

    def gather(self, F: np.ndarray) -> np.ndarray:
        return self.inner.gather(self.outer.gather(F))

    def congruence(self, inertia: Any) -> Any:
        return self.inner.congruence(self.outer.congruence(inertia))


class HingeJoined(HingeNode):
    """A massless node and its only child as one node: the reverse of a partition (Partition Eq. 5)."""

    def __init__(self, inner: Any, outer: Any) -> None:
        self._inner = inner
        self._outer = outer
        self._m = len(inner.H)
        self.name = outer.name
        self.parent = inner.parent
        self.rows = outer.rows
        self.blocks = outer.blocks
        self.supports = inner.supports
        self.dofs = slice(inner.dofs.start, outer.dofs.stop)

    @property
    def A(self) -> Weight:
        return JoinedWeight(self._inner.A, self._outer.A)

    @property
    def H(self) -> np.ndarray:
        return np.concatenate([self._outer.A.scatter(self._inner.H.T).T, self._outer.H])

    @property
    def M(self) -> NodeInertia:
        return self._outer.M

    @property
    def armature(self) -> np.ndarray:
        matrix = np.zeros((self.dofs.stop - self.dofs.start,) * 2, dtype=object)
        matrix[: self._m, : self._m] = self._inner.armature
        matrix[self._m :, self._m :] = self._outer.armature
        return matrix

    @property
    def passive_force(self) -> np.ndarray:
        return np.concatenate([self._inner.passive_force, self._outer.passive_force])

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return self._outer.velocity(self._inner.velocity(V, dtheta[: self._m]), dtheta[self._m :])

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self._outer.accelerate(self._inner.accelerate(alpha, ddtheta[: self._m]), ddtheta[self._m :])

    def carried(self, block: Hashable, place: Any) -> tuple[Hashable, Any] | None:
        passed = self._outer.carried(block, place)
        return None if passed is None else self._inner.carried(*passed)

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self._outer.hinge_force(alpha)

    @property
    def hinge_inertia(self) -> NodeInertia:
        return self._outer.hinge_inertia


class Joined(HingeJoined, NodeState):
    """A `HingeJoined` of nodes with f = M α + b."""

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self._outer.force(alpha)


def joined(inner: Any, outer: Any) -> Any:
    """Return a massless node and its only child as one node."""
    return (Joined if isinstance(outer, NodeState) else HingeJoined)(inner, outer)
