"""Pick-off operators: the motion of a frame from the rows of the node that it is on (SKO Sec. 8.1)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from linkwork.lazy import cached_property
from linkwork.sko.contracts import HingeNode
from linkwork.sko.weights import in_block
from linkwork.spatial import Pose
from linkwork.spatial.constants import product
from linkwork.topology.kinematics import BodyMotion, Ground


class PickOff:
    """V_f = B V(k) and α_f = B α(k) + `bias` of a frame at a constant `place` on a block of node k, in the frame's axes.

    `bias` is the velocity-dependent part of the acceleration of the frame's origin, as an observer at rest sees it.
    """

    def __init__(self, node: HingeNode, block: Hashable, place: Pose, carrier: Ground | BodyMotion) -> None:
        self.node, self.key, self.place, self.carrier = node, block, place, carrier
        self.block = node.blocks.get(block, slice(0, 6))

    def motion(self, X: np.ndarray) -> np.ndarray:
        """B X, (6,), for a motion of the node, (rows,), or several as columns."""
        return self.place.scatter(X[self.block])

    def force(self, F: np.ndarray) -> np.ndarray:
        """B* F, (rows,), for a force on the frame, (6,), or several as columns."""
        return in_block(self.place.gather(F), self.block, self.node.rows)

    def force_of(self, F: np.ndarray) -> np.ndarray:
        """A force on the node, in the frame's block, as one on the frame, (6,), or several as columns."""
        return self.place.inverse().gather(F[self.block])

    @cached_property
    def bias(self) -> np.ndarray:
        spin: Any = self.carrier.spin  # a point at r accelerates by α_v + ([α_w] + [w][w]) r
        return np.concatenate([np.zeros(3), product(self.place.R.T, product(spin, self.place.p))])

    def through(self) -> PickOff | MatrixPickOff:
        """B A*: the same frame from the rows of the node's parent, as if this node's hinge were frozen."""
        passed = self.node.carried(self.key, self.place)
        if passed is None:
            return MatrixPickOff(self.node.parent, self.node.A.gather(self.force(np.eye(6))).T)
        return PickOff(self.node.parent, *passed, Ground())


class MatrixPickOff:
    """V_f = B V(k) and α_f = B α(k) + `bias`, with B a matrix, (n, rows)."""

    def __init__(self, node: HingeNode, matrix: np.ndarray, bias: np.ndarray | None = None) -> None:
        self.node, self.matrix = node, matrix
        self.bias = np.zeros(len(matrix)) if bias is None else bias

    def motion(self, X: np.ndarray) -> np.ndarray:
        return self.matrix @ X

    def force(self, F: np.ndarray) -> np.ndarray:
        return self.matrix.T @ F

    def through(self) -> MatrixPickOff:
        return MatrixPickOff(self.node.parent, self.node.A.gather(self.matrix.T).T)
