"""A node kind made by the recipe of docs/extending.md: a link in a plane that stretches, of rows [w, vx, vy,
stretching].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import linkwork as lw
from linkwork.mechanism import Frame
from linkwork.sko.contracts import GroundNode, NodeState
from linkwork.sko.inertias import DenseInertia
from linkwork.sko.pick_offs import MatrixPickOff
from linkwork.sko.tree import TreeState
from linkwork.sko.weights import DenseWeight
from linkwork.spatial import mirrored

ROWS = 4


class Link(NamedTuple):
    """The numbers of a link: a rod behind a hinge, and a point mass at its end, on a spring along the rod."""

    length: float  # [m]
    mass: float  # of the rod [kg]
    moment: float  # of the rod about its centre, which is half way [kg m²]
    end_mass: float  # [kg]
    stiffness: float  # [N/m]
    damping: float  # [N s/m]


class ElasticLink(NodeState):
    """A link in one state: q and v are the angle and the stretch, and their rates. It hangs on the end of the
    link `below`.
    """

    rows = ROWS

    def __init__(
        self, link: Link, place: int, below: ElasticLink | None, ground: GroundNode, q: Any, v: Any
    ) -> None:
        self.name = f"link{place}"
        self.parent = ground if below is None else below
        self.dofs, self.blocks = slice(2 * place, 2 * place + 2), {self.name: slice(0, ROWS)}
        self.link = link
        self.q = q
        self.v = v
        self.below = below
        self.w = v[0] if below is None else below.w + v[0]  # base to tips, and never changed
        self.reach = link.length + q[1]
        # how the hinge of the next link moves: [w, vx, vy] = end V, with α = end α + end_bias
        self.end = np.array(
            [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0], [self.reach, 0.0, 1.0, 0.0]], dtype=object
        )
        self.end_bias = np.array([0.0, -self.w * self.w * self.reach, 2.0 * self.w * v[1]], dtype=object)

    @property
    def turn(self) -> np.ndarray:
        """From [w, vx, vy] in the axes of the link below to this link's four rows, (4, 3)."""
        s, c = lw.sincos(self.q[0])
        return np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c], [0.0, 0.0, 0.0]], dtype=object)

    @property
    def A(self) -> DenseWeight:
        fixed = np.eye(3, ROWS)  # of the ground's rows
        return DenseWeight((self.turn @ (fixed if self.below is None else self.below.end)).T)

    @property
    def H(self) -> np.ndarray:
        return np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], dtype=object)

    @property
    def M(self) -> DenseInertia:
        (_, m, moment, end_mass, _, _), point = self.link, self.end[1:]
        M = np.diag(np.array([moment, 0.0, 0.0, 0.0], dtype=object))
        return DenseInertia(mirrored(M + m * (self._center.T @ self._center) + end_mass * (point.T @ point)))

    @property
    def _center(self) -> np.ndarray:
        """How the rod's centre moves, (2, 4)."""
        return np.array([[0.0, 1.0, 0.0, 0.0], [0.5 * self.link.length, 0.0, 1.0, 0.0]], dtype=object)

    @property
    def armature(self) -> np.ndarray:
        return np.zeros((2, 2))

    @property
    def passive_force(self) -> np.ndarray:
        return np.array([0.0, self.link.stiffness * self.q[1] + self.link.damping * self.v[1]], dtype=object)

    def velocity(self, V: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        return self.A.scatter(V) + self.H.T @ dtheta

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        carried = alpha[:3] if self.below is None else self.below.end @ alpha + self.below.end_bias
        return self.turn @ carried + self.H.T @ ddtheta

    def force(self, alpha: np.ndarray) -> np.ndarray:
        link = self.link
        center = self._center
        of_rod = center @ alpha - np.array([0.5 * link.length * self.w * self.w, 0.0])
        of_end = (self.end @ alpha + self.end_bias)[1:]
        f = link.mass * (center.T @ of_rod) + link.end_mass * (self.end[1:].T @ of_end)
        return f + np.array([link.moment * alpha[0], 0.0, 0.0, 0.0])


class ElasticArm(TreeState[ElasticLink]):
    """Links one on the end of the other, in a vertical plane, in one state; the frame "tip" is at the end of
    the last.
    """

    def __init__(self, links: list[Link], q: Any, v: Any, gravity: float = 9.81) -> None:
        ground = GroundNode(
            np.array([0.0, 0.0, gravity, 0.0], dtype=object)
        )  # it accelerates against gravity
        nodes: list[ElasticLink] = []
        for k, link in enumerate(links):
            own = slice(2 * k, 2 * k + 2)
            nodes.append(ElasticLink(link, k, nodes[-1] if nodes else None, ground, q[own], v[own]))
        super().__init__("elastic arm", nodes, ground, 2 * len(links))

    def pick_off(self, frame: Frame) -> Any:
        last = self.nodes[-1]
        return MatrixPickOff(last, last.end, last.end_bias)
