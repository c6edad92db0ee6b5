"""Pick-off operators: the motion of a frame from the rows of the node that it is on (SKO Sec. 6.2).

B maps motions here, V_f = B V. SKO's ℬ maps forces and is its transpose, as is the operator in
`spatial_operators/pick_offs.py`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from linkwork.lazy import cached_property
from linkwork.loops.kinematics import BodyMotion, Ground
from linkwork.sko.contracts import HingeNode
from linkwork.sko.weights import in_block
from linkwork.spatial import Pose
from linkwork.spatial.constants import product


class PickOff:
    """A frame on a node: V_f = B V(k), α_f = B α(k) + `bias`, at a constant `place` on a block of node k.

    In the axes of the frame. `bias` is the velocity-dependent part of the acceleration of the frame's origin,
    as an observer at rest sees it.
    """

    def __init__(self, node: HingeNode, block: Hashable, place: Pose, carrier: Ground | BodyMotion) -> None:
        self.node = node
        self.key = block
        self.place = place
        self.carrier = carrier
        self.block = node.blocks.get(block, slice(0, 6))

    def motion(self, X: np.ndarray) -> np.ndarray:
        """Return B X, (6,), for a motion of the node, (rows,), or several as columns."""
        return self.place.scatter(X[self.block])

    def force(self, F: np.ndarray) -> np.ndarray:
        """Return B* F, (rows,), for a force on the frame, (6,), or several as columns."""
        return in_block(self.place.gather(F), self.block, self.node.rows)

    def force_of(self, F: np.ndarray) -> np.ndarray:
        """Return a force on the node in the frame's block as one on the frame, (6,), or several."""
        return self.place.inverse().gather(F[self.block])

    @cached_property
    def bias(self) -> np.ndarray:
        spin: Any = self.carrier.spin  # a point at r accelerates by α_v + ([α_w] + [w][w]) r
        return np.concatenate([np.zeros(3), product(self.place.R.T, product(spin, self.place.p))])

    def through(self) -> PickOff | MatrixPickOff:
        """Return B A*: the frame seen from the node's parent with this node's hinge frozen."""
        passed = self.node.carried(self.key, self.place)
        if passed is None:
            return MatrixPickOff(self.node.parent, self.node.A.gather(self.force(np.eye(6))).T)
        return PickOff(self.node.parent, *passed, Ground())


class MatrixPickOff:
    """V_f = B V(k) and α_f = B α(k) + `bias`, with B a matrix, (n, rows)."""

    def __init__(self, node: HingeNode, matrix: np.ndarray, bias: np.ndarray | None = None) -> None:
        self.node = node
        self.matrix = matrix
        self.bias = np.zeros(len(matrix)) if bias is None else bias

    def motion(self, X: np.ndarray) -> np.ndarray:
        return self.matrix @ X

    def force(self, F: np.ndarray) -> np.ndarray:
        return self.matrix.T @ F

    def through(self) -> MatrixPickOff:
        return MatrixPickOff(self.node.parent, self.node.A.gather(self.matrix.T).T)
