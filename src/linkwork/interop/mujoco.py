"""States of a model in MuJoCo's conventions, and back.

    states = linkwork.interop.mujoco.States(model, mj_model)
    data.qpos[:], data.qvel[:] = states.q_to(q), states.v_to(q, v)
    mujoco.mj_forward(mj_model, data)
    a = states.a_from(q, v, data.qacc)

Differences in MuJoCo: the order of joints; quaternions are w x y z; the velocity of a free joint is linear
first, with the linear part in world axes, so its acceleration has another term; the coordinates of a free
joint are those of its body in the world; coordinates of hinges and slides count from `qpos0`. Maps of
velocities and forces depend on q, which is always that of linkwork.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.runtime.results import POOL
from linkwork.errors import ModelError
from linkwork.formats.mjcf_names import body_names, joint_names
from linkwork.interop.matching import PeerJoint, matched, rows, unit_quaternions
from linkwork.joints import Free, Joint, Prismatic, Revolute, Spherical
from linkwork.mechanism import Coupling
from linkwork.mechanism.names import printable
from linkwork.model import GROUND, Model, PlacedJoint
from linkwork.spatial import Pose

_KINDS: dict[str, type[Joint]] = {"free": Free, "ball": Spherical, "slide": Prismatic, "hinge": Revolute}


class States:
    """Conversion of states of a model to MuJoCo's model of the same robot (`..._to`) and back (`..._from`).

    Joints are matched by name; joints without a name have that given by `linkwork.load`, and single free
    joints match under any name. All methods accept leading batch dimensions.

    Joints that represent fixed tendons (`"tendon name"`) have no counterpart in MuJoCo: their coordinates are
    part of q, and velocities, accelerations, forces and matrices are those of the independent joints.

    Parameters
    ----------
    model : Model
        Model of linkwork.
    mj_model : mujoco.MjModel
        MuJoCo's model of the same robot.

    Raises
    ------
    ModelError
        If the joints of both models do not match.
    """

    def __init__(self, model: Model, mj_model: Any) -> None:
        try:
            bodies = body_names([mj_model.body(k).name for k in range(mj_model.nbody)])
            names = joint_names(
                [mj_model.joint(k).name for k in range(mj_model.njnt)], bodies, mj_model.jnt_bodyid
            )
            theirs = [
                PeerJoint(name, list(_KINDS)[int(kind)], int(q), int(v))
                for name, kind, q, v in zip(
                    names, mj_model.jnt_type, mj_model.jnt_qposadr, mj_model.jnt_dofadr
                )
            ]
            self.nq = int(mj_model.nq)
            self.nv = int(mj_model.nv)  # there
        except AttributeError:
            raise ModelError(f"expected a MuJoCo model, got {type(mj_model).__name__}") from None
        self._model = model
        self._tendons = _tendons(model, {joint.name for joint in theirs})
        self._pairs = matched(model, theirs, _KINDS, "MuJoCo", ignored=self._tendons)
        names = [name for joint in model.joints if joint.name not in self._tendons for name in joint.v_names]
        if self._tendons and sorted(names) == sorted(model.v_names):
            names = [*model.v_names]  # no other loops: velocities are the model's own
        self._nv = len(names)
        self._columns = {ours.name: [names.index(name) for name in ours.v_names] for ours, _ in self._pairs}
        self._zero = np.array(mj_model.qpos0, dtype=float)
        for ours, _ in self._pairs:
            if isinstance(ours.kind, Free) and ours.parent != GROUND:
                raise ModelError(
                    f"joint {ours.name!r} of {printable(model.name)} is free, but not on the world: MuJoCo "
                    "has no such joint"
                )

    def q_to(self, q: Any) -> np.ndarray:
        """Return configurations, (..., nq), with unit quaternions."""
        q = rows(q, self._model.nq, "q")
        result = POOL.empty((*q.shape[:-1], self.nq), float)
        for ours, joint in self._pairs:
            x = q[..., ours.q_slice]
            at = joint.q
            if joint.kind == "free":
                result[..., at : at + 3] = x[..., :3] @ ours.place.R.T + ours.place.p
                result[..., at + 3 : at + 7] = _turned(_quaternion(ours.place), unit_quaternions(x[..., 3:]))[
                    ..., [3, 0, 1, 2]
                ]
            elif joint.kind == "ball":
                result[..., at : at + 4] = unit_quaternions(x)[..., [3, 0, 1, 2]]
            else:
                result[..., at] = x[..., 0] + self._zero[at]
        return result

    def q_from(self, q: Any) -> np.ndarray:
        """Return configurations, (..., nq)."""
        q = rows(q, self.nq, "q")
        result = POOL.empty((*q.shape[:-1], self._model.nq), float)
        for ours, joint in self._pairs:
            at = joint.q
            start = ours.q_start
            if joint.kind == "free":
                result[..., start : start + 3] = (q[..., at : at + 3] - ours.place.p) @ ours.place.R
                turned = q[..., [at + 4, at + 5, at + 6, at + 3]]
                result[..., start + 3 : start + 7] = _turned(_quaternion(ours.place.inverse()), turned)
            elif joint.kind == "ball":
                result[..., ours.q_slice] = q[..., [at + 1, at + 2, at + 3, at]]
            else:
                result[..., start] = q[..., at] - self._zero[at]
        for at, terms in self._tendons.values():
            result[..., at] = sum(result[..., place] * factor for place, factor in terms)
        return result

    def v_to(self, q: Any, v: Any) -> np.ndarray:
        """Return velocities, (..., nv)."""
        return _times(self._map(q), rows(v, self._nv, "v"))

    def v_from(self, q: Any, v: Any) -> np.ndarray:
        """Return velocities, (..., nv)."""
        return _times(_transposed(self._map(q)), rows(v, self.nv, "v"))

    def a_to(self, q: Any, v: Any, a: Any) -> np.ndarray:
        """Return accelerations, (..., nv), at a velocity v of linkwork."""
        return _times(self._map(q), rows(a, self._nv, "a") + self._shift(v))

    def a_from(self, q: Any, v: Any, a: Any) -> np.ndarray:
        """Return accelerations, (..., nv), at a velocity v of linkwork."""
        return _times(_transposed(self._map(q)), rows(a, self.nv, "a")) - self._shift(v)

    def tau_to(self, q: Any, tau: Any) -> np.ndarray:
        """Return joint forces, (..., nv)."""
        return _times(self._map(q), rows(tau, self._nv, "tau"))

    def tau_from(self, q: Any, tau: Any) -> np.ndarray:
        """Return joint forces, (..., nv)."""
        return _times(_transposed(self._map(q)), rows(tau, self.nv, "tau"))

    def matrix_to(self, q: Any, M: Any) -> np.ndarray:
        """Return matrices such as the mass matrix or its inverse, (..., nv, nv)."""
        T = self._map(q)
        return T @ np.asarray(M) @ _transposed(T)

    def matrix_from(self, q: Any, M: Any) -> np.ndarray:
        """Return matrices such as the mass matrix or its inverse, (..., nv, nv)."""
        T = self._map(q)
        return _transposed(T) @ np.asarray(M) @ T

    def jacobian_to(self, q: Any, J: Any) -> np.ndarray:
        """Return Jacobians, (..., rows, nv); their rows stay as they are."""
        return np.asarray(J) @ _transposed(self._map(q))

    def jacobian_from(self, q: Any, J: Any) -> np.ndarray:
        """Return Jacobians, (..., rows, nv); their rows stay as they are."""
        return np.asarray(J) @ self._map(q)

    def _map(self, q: Any) -> np.ndarray:
        """Return the orthogonal map T of velocities and forces to MuJoCo, (..., nv, nv)."""
        q = rows(q, self._model.nq, "q")
        T = np.zeros((*q.shape[:-1], self.nv, self._nv))
        for ours, joint in self._pairs:
            columns = self._columns[ours.name]
            v_index = joint.v
            if joint.kind == "free":
                T[..., v_index : v_index + 3, columns[3:]] = _world_axes(ours, q[..., ours.q_slice])
                v_index += 3  # its angular part
            for k in range(3 if joint.kind == "free" else ours.nv):
                T[..., v_index + k, columns[k]] = 1.0
        return T

    def _shift(self, v: Any) -> np.ndarray:
        """Return the term ω × v by which rates of linear velocities of free joints in world axes differ."""
        v = rows(v, self._nv, "v")
        shift = np.zeros(v.shape)
        for ours, joint in self._pairs:
            if joint.kind == "free":
                columns = self._columns[ours.name]
                shift[..., columns[3:]] = np.cross(v[..., columns[:3]], v[..., columns[3:]])
        return shift


def _tendons(model: Model, theirs: set[str]) -> dict[str, tuple[int, list[tuple[int, float]]]]:
    """Return the joints that represent fixed tendons: index in q, and indices and ratios of their joints."""
    result = {}
    for coupling in model.loops:
        joint = next((joint for joint in model.joints if joint.name == coupling.name), None)
        if joint is None or joint.name in theirs or not isinstance(coupling, Coupling):
            continue
        factor_of_joint = next((factor for k, _, factor in coupling.terms if k == joint.child), 0.0)
        if factor_of_joint:
            others = [
                (model.joints[k].q_start, -factor / factor_of_joint)
                for k, _, factor in coupling.terms
                if k != joint.child
            ]
            result[joint.name] = (joint.q_start, others)
    return result


def _world_axes(joint: PlacedJoint, q: np.ndarray) -> np.ndarray:
    """Return the axes of a free joint's body in the world, (..., 3, 3)."""
    x, y, z, w = np.moveaxis(unit_quaternions(q[..., 3:]), -1, 0)
    R = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    return joint.place.R @ np.moveaxis(R, (0, 1), (-2, -1))


def _quaternion(pose: Pose) -> np.ndarray:
    """Return the quaternion x y z w of a constant pose, by the best conditioned of four formulas."""
    R = np.asarray(pose.R, dtype=float)
    K = np.array([
        [1 + R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[2, 1] - R[1, 2]],
        [R[0, 1] + R[1, 0], 1 - R[0, 0] + R[1, 1] - R[2, 2], R[1, 2] + R[2, 1], R[0, 2] - R[2, 0]],
        [R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], 1 - R[0, 0] - R[1, 1] + R[2, 2], R[1, 0] - R[0, 1]],
        [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1 + R[0, 0] + R[1, 1] + R[2, 2]],
    ])  # fmt: skip
    best = K[int(np.argmax(np.diag(K)))]
    return best / np.linalg.norm(best)


def _turned(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the quaternion product p q, for q of shape (..., 4)."""
    xyz = p[3] * q[..., :3] + q[..., 3:] * p[:3] + np.cross(p[:3], q[..., :3])
    return np.concatenate([xyz, p[3] * q[..., 3:] - (q[..., :3] @ p[:3])[..., None]], axis=-1)


def _times(T: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (T @ x[..., None])[..., 0]


def _transposed(T: np.ndarray) -> np.ndarray:
    return np.swapaxes(T, -1, -2)
