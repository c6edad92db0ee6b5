"""A model in one state as the nodes of an SKO model (SKO Sec. 2), over numbers or symbols.

Node k has a parent ℘(k), a weight A(℘(k), k), a joint map H(k), an inertia M(k), a Coriolis term a(k) and a gyroscopic term
b(k). All tree algorithms are written on these:

    V = A* V(℘) + H* θ̇,    α = A* α(℘) + H* θ̈ + a,    f = Σ A f(children) + M α + b,    T = H f.

Accelerations are those of body points as seen from outside, not the rates of V's components: a body's points at r accelerate
by α_v + W r with W = [α_w] + [w][w]. With these, a and b need no linear velocities, and programs are shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from linkwork.model.model import Model
from linkwork.model.parts import GROUND, PlacedJoint
from linkwork.spatial import Inertia, Pose, cross, skew


class Node:
    """What algorithms know of a node. Everything that can be described by (A, H, M, a, b) may be one.

    `H` is (m, rows), `dofs` the places of its m velocities in v. `armature` [kg m² or kg], (m,), is inertia that moves with
    the joint's own velocity; `resistance` [N m or N], (m,), what springs and dampers in the joint take, and `spring_energy`
    [J] what its springs hold.
    """

    name: str
    parent: Node
    children: list[Node]
    dofs: slice
    A: Any
    H: np.ndarray
    M: Any
    a: np.ndarray
    b: np.ndarray
    armature: np.ndarray
    resistance: np.ndarray
    spring_energy: Any

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        """α = A* α(℘) + H* θ̈ + a, from the parent's α."""
        return self.A.scatter(alpha) + self.H.T @ ddtheta + self.a

    def force(self, alpha: np.ndarray) -> np.ndarray:
        """M α + b."""
        return self.M @ alpha + self.b


class Ground(Node):
    """The node that all others hang on. It does not move, and it accelerates against gravity."""

    w: np.ndarray
    spin: np.ndarray

    def __init__(self, gravity: tuple[float, ...]) -> None:
        self.children = []
        self.w = np.zeros(3)
        self.spin = np.zeros((3, 3))
        self.C = Pose.identity()
        self.alpha = np.array([0.0, 0.0, 0.0, *(-g for g in gravity)])


class RigidBody(Node):
    """A rigid body behind a joint, in a frame of its own that may be turned against the body's (`C`: its pose there).

    A is the pose of this frame in the parent's; H the joint's motion subspace, transposed.
    """

    w: np.ndarray

    def __init__(
        self,
        parent: Node,
        joint: PlacedJoint,
        inertia: Inertia,
        q: np.ndarray,
        v: np.ndarray,
        f_ext: np.ndarray | None,
    ) -> None:
        assert isinstance(parent, (Ground, RigidBody))
        self.name = joint.name
        self.parent: Ground | RigidBody = parent
        self.children = []
        self.dofs = joint.v_slice
        kind, self.C = joint.kind.straightened()
        out = self.C.inverse()
        S = kind.subspace(q)
        self.A = parent.C.inverse().then(joint.place).then(self.C).then(kind.transform(q))
        self.H = S.T
        self.M = out.congruence(inertia)
        self.armature = np.array(joint.armature)
        self._f_ext = None if f_ext is None else out.gather(f_ext)
        # velocities: w of the body, its own joint's (wJ, vJ), and what these do to the acceleration across the joint
        J = S @ v
        self._came = self.A.R.T @ parent.w
        self._wJ, self._vJ, self._rate = J[:3], J[3:], kind.bias(q, v)
        self.w = self._came + self._wJ
        self._joint, self._q, self._v = joint, q, v

    @cached_property
    def spin(self) -> np.ndarray:
        """[w][w]; made when it is needed, since what is made early waits in memory."""
        return skew(self.w) @ skew(self.w)

    @cached_property
    def _c(self) -> np.ndarray:
        """What the joint's velocity adds to the acceleration, seen from outside."""
        turning, moving = cross(self._came, self._wJ), cross(2.0 * self._came + self._wJ, self._vJ)
        return np.concatenate([turning, moving]) + self._rate

    @cached_property
    def a(self) -> np.ndarray:  # type: ignore[override]
        carried = self.A.R.T @ (self.parent.spin @ self.A.p)
        return np.concatenate([self._c[:3], carried + self._c[3:]])

    @cached_property
    def b(self) -> np.ndarray:  # type: ignore[override]
        return self._with_ext(self.M.point_force(np.zeros(3), self.spin))

    def accelerate(self, alpha: np.ndarray, ddtheta: np.ndarray) -> np.ndarray:
        W = skew(alpha[:3]) + self.parent.spin
        carried = np.concatenate([self.A.R.T @ alpha[:3], self.A.R.T @ (alpha[3:] + W @ self.A.p)])
        return carried + self._c + self.H.T @ ddtheta

    def force(self, alpha: np.ndarray) -> np.ndarray:
        return self._with_ext(self.M.point_force(alpha[3:], skew(alpha[:3]) + self.spin))

    @cached_property
    def resistance(self) -> np.ndarray:  # type: ignore[override]
        return np.array(self._joint.damping) * self._v + np.array(self._joint.stiffness) * self._stretch

    @property
    def spring_energy(self) -> Any:  # type: ignore[override]
        return 0.5 * (self._stretch @ (np.array(self._joint.stiffness) * self._stretch))

    @cached_property
    def _stretch(self) -> np.ndarray:
        """How far the joint's springs are from rest, (m,)."""
        if not any(self._joint.stiffness):
            return np.zeros(self._joint.nv)
        kind = self._joint.kind
        return kind.difference(kind.neutral(), self._q) - np.array(self._joint.rest)

    def _with_ext(self, f: np.ndarray) -> np.ndarray:
        return f if self._f_ext is None else f - self._f_ext


class Nodes:
    """The nodes of a model in one state: q (nq,), v (nv,) or zero, and forces [m, f] on bodies in their frames (bodies, 6)."""

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray | None = None, f_ext: np.ndarray | None = None) -> None:
        self.model = model
        self.nv = model.nv
        self.ground = Ground(model.gravity)
        v = np.zeros(model.nv) if v is None else v
        self._nodes: list[RigidBody] = []
        for body, joint in zip(model.bodies, model.joints):
            parent = self.ground if joint.parent == GROUND else self._nodes[joint.parent]
            pushed = None if f_ext is None else f_ext[body.index]
            node = RigidBody(parent, joint, body.inertia, q[joint.q_slice], v[joint.v_slice], pushed)
            parent.children.append(node)
            self._nodes.append(node)

    def __getitem__(self, body: int) -> Ground | RigidBody:
        """The node of a body, by its index."""
        return self.ground if body == GROUND else self._nodes[body]

    def base_to_tips(self) -> Iterator[RigidBody]:
        """Every node after its parent."""
        return iter(self._nodes)

    def tips_to_base(self) -> Iterator[RigidBody]:
        """Every node after its children."""
        return reversed(self._nodes)
