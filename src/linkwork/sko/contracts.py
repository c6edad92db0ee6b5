"""Protocols of nodes, weights and inertias (SKO Sec. 2).

Node k has a parent ℘(k), a weight A(℘(k), k), a joint map H(k), an inertia M(k), a Coriolis term a(k) and a
gyroscopic term b(k). All tree algorithms are based on these:

    V = A* V(℘) + H* θ̇,    α = A* α(℘) + H* θ̈ + a,    f = Σ A f(children) + M α + b,    T = H f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class NodeInertia(Protocol):
    """A symmetric operator that takes motions of a node to forces."""

    def __matmul__(self, X: np.ndarray, /) -> np.ndarray:
        """Return the force (or momentum) of a motion, (rows,), or of several as columns."""

    def __add__(self, other: Any, /) -> Any:
        """Return the sum with another inertia of the node, or with the result of a weight's `congruence`."""

    def projected(self, G: np.ndarray, U: np.ndarray, D: Any, zero_rows: Sequence[int] = ()) -> Any:
        """Return P - G Uᵀ with G = U D⁻¹, the articulated inertia behind a free hinge.

        Rows `zero_rows` are known to vanish.
        """

    def dense(self) -> np.ndarray:
        """Return the matrix, (rows, rows)."""


class Weight(Protocol):
    """A(℘(k), k) as an operator: the weight from a node to its parent; A* is its transpose."""

    def scatter(self, V: np.ndarray, /) -> np.ndarray:
        """Return A* V, a motion of the parent as one of the node."""

    def gather(self, F: np.ndarray, /) -> np.ndarray:
        """Return A F, a force on the node as one on the parent."""

    def congruence(self, inertia: Any, /) -> Any:
        """Return A M A*, an inertia of the node in a form that can be added to one of the parent."""


class HingeNode(ABC):
    """A node for inverse dynamics, mass matrices and articulated bodies.

    `H` is (m, rows), `dofs` the slice of its m velocities in v. `armature` [kg m² or kg], (m, m), is inertia
    that moves with the joint velocities; `passive_force` [N m or N], (m,), the force of springs and dampers
    in the joints. `blocks` names parts of its rows, such as those of a body by its index. `supports` is the
    number of its parent's blocks it is attached to.
    """

    name: str
    parent: HingeNode
    rows: int
    supports: int = 1
    dofs: slice
    blocks: Mapping[Hashable, slice]

    @property
    @abstractmethod
    def A(self) -> Weight:
        """The weight that leads to its parent."""

    @property
    @abstractmethod
    def H(self) -> np.ndarray:
        """The joint map, (m, rows)."""

    @property
    @abstractmethod
    def M(self) -> NodeInertia:
        """The inertia."""

    @property
    @abstractmethod
    def armature(self) -> np.ndarray:
        """(m, m) [kg m² or kg]"""

    @property
    @abstractmethod
    def passive_force(self) -> np.ndarray:
        """(m,) [N m or N]"""

    @abstractmethod
    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        """Return V = A* V(℘) + H* θ̇ from the parent's V."""

    @abstractmethod
    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        """Return α = A* α(℘) + H* θ̈ + a from the parent's α."""

    def generalised(self, F: np.ndarray, maps: bool = False) -> np.ndarray:
        """Return H F, the generalised forces of forces on its rows, (m,).

        A node may compute these without its joint map, unless that is formed anyway (`maps`).
        """
        return self.H @ F

    def carried(self, block: Hashable, place: Any) -> tuple[Hashable, Any] | None:
        """Return a frame on one of its blocks as a block and pose of its parent, with the hinge frozen.

        None if it is not a pose on one block.
        """
        return None

    @abstractmethod
    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        """Return a force M α + b with the same generalised forces at this and all hinges below."""

    @property
    def hinge_inertia(self) -> NodeInertia:
        """An inertia with the same mass matrix."""
        return self.M

    @property
    def a(self) -> np.ndarray:
        """The Coriolis term: the part of α that velocities cause across the joint."""
        return self.accelerate(np.zeros(self.parent.rows), np.zeros(len(self.H)))


class NodeState(HingeNode):
    """A node in one state with its complete force f = M α + b, not only its generalised forces."""

    def armature_energy(self, dtheta: np.ndarray) -> Any:
        """Return θ̇* (armature) θ̇, twice the kinetic energy of armatures [J]."""
        return dtheta @ (self.armature @ dtheta)

    @abstractmethod
    def force(self, alpha: np.ndarray) -> np.ndarray:
        """Return M α + b."""

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self.force(alpha)

    @property
    def b(self) -> np.ndarray:
        """The gyroscopic term: the velocity-dependent force, less the external one."""
        return self.force(np.zeros(self.rows))


class GroundNode(HingeNode):
    """The root of the tree. It has no hinge, and its acceleration `alpha` is minus gravity."""

    def __init__(self, alpha: np.ndarray) -> None:
        self.name = "ground"
        self.alpha = alpha
        self.rows = len(alpha)
        self.blocks: Mapping[Hashable, slice] = {}
        self.dofs = slice(0, 0)

    def _absent(self) -> Any:
        raise TypeError("the ground has no hinge, no weight and no inertia")

    A = H = M = armature = passive_force = property(_absent)

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return np.zeros(self.rows)

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        return self.alpha

    def hinge_force(self, alpha: np.ndarray) -> np.ndarray:
        return self._absent()
