"""States of a model in Pinocchio's conventions, and back.

    pin_model = pinocchio.buildModelFromUrdf("robot.urdf", pinocchio.JointModelFreeFlyer())
    model = linkwork.load("robot.urdf", base="free")
    states = linkwork.interop.pinocchio.States(model, pin_model)
    tau = states.tau_from(pinocchio.rnea(pin_model, data, states.q_to(q), states.v_to(v), states.v_to(a)))

Differences in Pinocchio: the order of joints; spatial vectors are linear first, also the velocity of a free
joint; a continuous joint and the angle of a planar joint are a cosine and a sine, so whole turns are lost
(see `q_from`). Quaternions are x y z w in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.runtime.results import POOL
from linkwork.errors import ModelError
from linkwork.interop.matching import PeerJoint, matched, rows, unit_quaternions
from linkwork.interop.turns import Turns
from linkwork.joints import Free, Gimbal, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.mechanism.names import printable
from linkwork.model import Model, PlacedJoint

_SWAPPED = np.array([3, 4, 5, 0, 1, 2])  # the two halves of a spatial vector
_UNBOUNDED = ("JointModelRUBX", "JointModelRUBY", "JointModelRUBZ", "JointModelRevoluteUnboundedUnaligned")
_KINDS: dict[str, type[Joint]] = {
    **{f"JointModelR{axis}": Revolute for axis in ("X", "Y", "Z", "evoluteUnaligned")},
    **dict.fromkeys(_UNBOUNDED, Revolute),
    **{f"JointModelP{axis}": Prismatic for axis in ("X", "Y", "Z", "rismaticUnaligned")},
    **{f"JointModelH{axis}": Helical for axis in ("X", "Y", "Z", "elicalUnaligned")},
    "JointModelUniversal": Universal,
    "JointModelSphericalZYX": Gimbal,
    "JointModelSpherical": Spherical,
    "JointModelPlanar": Planar,
    "JointModelFreeFlyer": Free,
}

_AXES = (
    Planar,
    Universal,
    Gimbal,
)  # whose velocities are about or along axes that a peer may choose otherwise


class States:
    """Conversion of states of a model to Pinocchio's model of the robot (`..._to`) and back (`..._from`).

    Joints are matched by name; single free joints match under any name. All methods accept leading batch
    dimensions.

    Parameters
    ----------
    model : Model
        Model of linkwork.
    pin_model : pinocchio.Model
        Pinocchio's model of the same robot.

    Raises
    ------
    ModelError
        If the joints of both models do not match.
    """

    def __init__(self, model: Model, pin_model: Any) -> None:
        try:
            joints = list(zip(pin_model.names, pin_model.joints))[1:]  # the first is the universe
            theirs = [PeerJoint(name, joint.shortname(), joint.idx_q, joint.idx_v) for name, joint in joints]
        except AttributeError:
            raise ModelError(f"expected a Pinocchio model, got {type(pin_model).__name__}") from None
        self.nq = int(pin_model.nq)
        self.nv = int(pin_model.nv)  # there
        self._our_nq = model.nq
        self._our_nv = model.nv_spanning
        copied: list[tuple[int, int]] = []  # places in q: here, there
        angles: list[tuple[int, int]] = []  # here an angle, there its cosine, and its sine behind that
        order: list[tuple[int, int]] = []  # places in v: here, there
        self._quaternions: list[int] = []  # where they start there
        pairs = matched(model, theirs, _KINDS, "Pinocchio")
        for ours, peer_joint in pairs:
            turning = {"JointModelPlanar": 2, **dict.fromkeys(_UNBOUNDED, 0)}.get(peer_joint.kind)
            for k in range(ours.nq):
                (angles if k == turning else copied).append((ours.q_start + k, peer_joint.q + k))
            swapped = peer_joint.kind == "JointModelFreeFlyer"
            if isinstance(ours.kind, (Free, Spherical)):
                self._quaternions.append(peer_joint.q + ours.nq - 4)
            order += [
                (ours.v_start + k, peer_joint.v + (int(_SWAPPED[k]) if swapped else k))
                for k in range(ours.nv)
            ]
        self._copied, self._angles = (
            np.array(pairs, dtype=int).reshape(-1, 2).T for pairs in (copied, angles)
        )
        our_indices, places = np.array(order, dtype=int).reshape(-1, 2).T
        self._turns = Turns(model, self._angles[0])
        self._from = places[np.argsort(our_indices)]  # where each of our velocities is there
        self._to = np.argsort(self._from)
        self._check_axes(model, pin_model, pairs)

    def _check_axes(self, model: Model, pin_model: Any, pairs: list[tuple[PlacedJoint, PeerJoint]]) -> None:
        """Raise if axes of a joint with several velocities differ: Pinocchio ignores planar normals."""
        q = model.neutral()
        there_q = self.q_to(q)
        by_place = {joint.idx_q: joint for joint in list(pin_model.joints)[1:]}
        for ours, theirs in pairs:
            if isinstance(ours.kind, _AXES):
                joint = by_place[theirs.q]
                data = joint.createData()
                joint.calc(data, there_q)
                axis = np.asarray(ours.kind.subspace(q[ours.q_slice]), dtype=float)
                if not np.allclose(axis, np.asarray(data.S)[_SWAPPED], atol=1e-9):
                    hint = (
                        ": there the normal of a planar joint is z" if isinstance(ours.kind, Planar) else ""
                    )
                    raise ModelError(
                        f"joint {ours.name!r} of {printable(model.name)} has other axes in the Pinocchio "
                        f"model{hint}"
                    )

    def q_to(self, q: Any) -> np.ndarray:
        """Return configurations, (..., nq), with unit quaternions, which functions of Pinocchio assume."""
        q = rows(q, self._our_nq, "q")
        result = POOL.empty((*q.shape[:-1], self.nq), float)
        result[..., self._copied[1]] = q[..., self._copied[0]]
        for start in self._quaternions:
            result[..., start : start + 4] = unit_quaternions(result[..., start : start + 4])
        result[..., self._angles[1]] = np.cos(q[..., self._angles[0]])
        result[..., self._angles[1] + 1] = np.sin(q[..., self._angles[0]])
        return result

    def q_from(self, q: Any, *, near: Any = None) -> np.ndarray:
        """Return configurations of linkwork, (..., nq), from those of Pinocchio.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configurations of Pinocchio.
        near : array_like, shape (..., nq), optional
            Configurations of linkwork, such as the previous state. Angles that are a cosine and a sine in
            Pinocchio, without whole turns, are within half a turn of these. By default they are between -π
            and π, and angles in couplings and implicit constraints have the fewest turns that satisfy these,
            so that gears stay in mesh.
        """
        q = rows(q, self.nq, "q")
        result = POOL.empty((*q.shape[:-1], self._our_nq), float)
        result[..., self._copied[0]] = q[..., self._copied[1]]
        result[..., self._angles[0]] = np.arctan2(q[..., self._angles[1] + 1], q[..., self._angles[1]])
        return (
            self._turns.coupled(result)
            if near is None
            else self._turns.near(result, rows(near, self._our_nq, "near"))
        )

    def v_to(self, v: Any) -> np.ndarray:
        """Return velocities or accelerations, (..., nv)."""
        return rows(v, self._our_nv, "v")[..., self._to]

    def v_from(self, v: Any) -> np.ndarray:
        """Return velocities or accelerations, (..., nv)."""
        return rows(v, self.nv, "v")[..., self._from]

    def tau_to(self, tau: Any) -> np.ndarray:
        """Return joint forces, (..., nv)."""
        return rows(tau, self._our_nv, "tau")[..., self._to]

    def tau_from(self, tau: Any) -> np.ndarray:
        """Return joint forces, (..., nv)."""
        return rows(tau, self.nv, "tau")[..., self._from]

    def matrix_to(self, M: Any) -> np.ndarray:
        """Return matrices such as the mass matrix or its inverse, (..., nv, nv)."""
        return np.asarray(M)[..., self._to[:, None], self._to]

    def matrix_from(self, M: Any) -> np.ndarray:
        """Return matrices such as the mass matrix or its inverse, (..., nv, nv)."""
        return np.asarray(M)[..., self._from[:, None], self._from]

    def jacobian_to(self, J: Any) -> np.ndarray:
        """Return Jacobians of frames, or maps from v to a momentum, (..., 6, nv)."""
        return np.asarray(J)[..., _SWAPPED[:, None], self._to]

    def jacobian_from(self, J: Any) -> np.ndarray:
        """Return Jacobians of frames, or maps from v to a momentum, (..., 6, nv)."""
        return np.asarray(J)[..., _SWAPPED[:, None], self._from]

    @staticmethod
    def spatial(x: Any) -> np.ndarray:
        """Return spatial vectors with both halves exchanged, (..., 6), in either direction."""
        return rows(x, 6, "a spatial vector")[..., _SWAPPED]
