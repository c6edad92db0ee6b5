"""Modal coordinates in which attachments move along single modes: a change of basis for short programs.

All modes move a place on a flexible body, so that articulated inertias of what is attached there affect all
of them. In coordinates y = T η, some of which are the displacements and slopes of these places, each of these
moves one component of one place, and the remaining, interior ones move nothing: their inertia is constant.
Outside, q, v and forces are those of the model's own modes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from linkwork.joints.deformation import Deformation, ModeShape
from linkwork.model import Model, PlacedJoint
from linkwork.spatial import any_nonzero
from linkwork.spatial.constants import product, set_frozen
from linkwork.spatial.modal import ModalIntegrals
from linkwork.spatial.solve import solve

VANISHING_TOL = 1e-13  # of a sum's size: what rounding leaves where it vanishes
INDEPENDENT_PART = 1e-3  # of a row: what must be left of it beside those before it
# Condition number of T for unit modal masses, above which the modes are not transformed.
MAX_CONDITION_NUMBER = 300.0


class Basis(NamedTuple):
    """y = T η and η = back y, both (m, m), of the deformation that is joint `joint` of a model."""

    joint: int
    T: np.ndarray
    back: np.ndarray


def bases(model: Model) -> tuple[Basis, ...]:
    """Return the bases of flexible bodies that carry mass; none for models with loops."""
    structure = model.nominal
    if structure.embedded or structure.constrained_loops:
        return ()
    key = "bases of attached modes"
    if key not in structure.cache:
        all_bases = [
            (k, _basis(structure, joint)) for k, joint in enumerate(structure.joints) if joint.kind.elastic
        ]
        structure.cache[key] = tuple(Basis(k, *both) for k, both in all_bases if both is not None)
    made: tuple[Basis, ...] = structure.cache[key]
    return tuple(
        one for one in made if not any_nonzero(np.array(model.joints[one.joint].armature))
    )  # that is of its own modes


def _basis(model: Model, joint: PlacedJoint) -> tuple[np.ndarray, np.ndarray] | None:
    kind: Any = joint.kind
    bearing = {j.parent for j in model.joints}
    places: list[Any] = [
        j.kind
        for j in model.joints
        if j.follows == joint.child and (j.child in bearing or model.bodies[j.child].mass > 0.0)
    ]
    rows = [row for place in places for row in (*place.shape, *place.slope) if row.any()]
    T = _completed(_independent(rows, kind.size), kind.size)
    if not rows or np.count_nonzero(T) == len(T) or _condition(T, kind.integrals.mass) > MAX_CONDITION_NUMBER:
        return None
    back = np.asarray(solve(T, np.eye(len(T))), dtype=float)
    return T, np.where(np.abs(back) > VANISHING_TOL * np.abs(back).max(axis=0), back, 0.0)


def _independent(rows: list[np.ndarray], size: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Return the first linearly independent rows, each with a mode of its own."""
    selected: list[tuple[np.ndarray, int]] = []
    reduced: list[np.ndarray] = []
    for row in rows:
        remainder = row * size
        norm = np.abs(remainder).max()
        for other, (_, k) in zip(reduced, selected):
            remainder = remainder - other * (remainder[k] / other[k])
        if np.abs(remainder).max() > INDEPENDENT_PART * norm:
            selected.append((row, int(np.argmax(np.abs(remainder)))))
            reduced.append(remainder)
    return selected


def _completed(selected: list[tuple[np.ndarray, int]], size: np.ndarray) -> np.ndarray:
    """Return the rows completed by unit rows for the other modes, (m, m)."""
    taken = [k for _, k in selected]
    return np.array(
        [*(row for row, _ in selected), *(row for k, row in enumerate(np.eye(len(size))) if k not in taken)]
    )


def _condition(T: np.ndarray, mass: np.ndarray) -> float:
    """Return the condition number of T for unit modal masses, independent of the lengths of its rows."""
    unit = T @ np.linalg.inv(np.linalg.cholesky(mass)).T
    return float(np.linalg.cond(unit / np.linalg.norm(unit, axis=1)[:, None]))


def in_attached_modes(model: Model, changes: tuple[Basis, ...]) -> Model:
    """Return the model in other modes, without their springs and dampers."""
    joints = list(model.joints)
    for k, _, back in changes:
        joints[k] = _deformed(joints[k], back)
        for i, joint in enumerate(joints):
            if joint.follows == joints[k].child:
                joints[i] = replace(joint, kind=_placed(joint.kind, back))
    nominal_model = None if model.nominal_model is None else in_attached_modes(model.nominal, changes)
    made = replace(model, joints=tuple(joints), kernels={}, nominal_model=nominal_model)
    set_frozen(made, "clusters", model.clusters)  # they are the same, and take time to find
    return made


def _deformed(joint: PlacedJoint, back: np.ndarray) -> PlacedJoint:
    kind: Any = joint.kind
    of = kind.integrals
    none = (0.0,) * joint.nv
    integrals = ModalIntegrals(
        _once(of.first, back), _once(of.mixed, back), _twice(of.second, back), _twice(of.short_first, back),
        _twice(of.short_mixed, back),
    )  # fmt: skip
    m = len(back)
    new = Deformation(kind.names, integrals, np.ones(m), np.zeros((m, m)), np.zeros((m, m)))
    return replace(joint, kind=new, damping=none, stiffness=none, rest=none)


def _placed(kind: Any, back: np.ndarray) -> ModeShape:
    return ModeShape(
        _unit(_once(kind.shape.T, back).T), _unit(_once(kind.slope.T, back).T), _twice(kind.short, back)
    )


def _once(x: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Return data per mode, (m, ...), in the new modes; zero where only rounding remains."""
    flat = x.reshape(len(x), -1)
    transformed = product(back.T, flat)
    size = product(np.abs(back).T, np.abs(flat))
    return np.where(np.abs(transformed) > VANISHING_TOL * size, transformed, 0.0).reshape(x.shape)


def _twice(x: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Return data per pair of modes, (m, m, ...), in the new modes."""
    half = _once(x, back).swapaxes(0, 1)
    return _once(half, back).swapaxes(0, 1)


def _unit(x: np.ndarray) -> np.ndarray:
    """Return x with exact ones where rounding missed them."""
    return np.where(np.abs(x - 1.0) < VANISHING_TOL, 1.0, x)


class Attached(NamedTuple):
    """A state and forces in attached modes, and how accelerations come back."""

    model: Model
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    changes: tuple[Basis, ...]

    @classmethod
    def of(cls, model: Model, q: Any, v: Any, tau: Any) -> Attached:
        """Return the attached state of q, v and tau; passive modal forces are subtracted from tau."""
        changes = bases(model)
        new_q, new_v, new_tau = (np.array(x, dtype=object) for x in (q, v, tau))
        for k, T, back in changes:
            joint = model.joints[k]
            kind = cast(Deformation, model.joints[k].kind)
            own_q = q[joint.q_slice]
            own_v = v[joint.v_slice]
            taken = np.array(joint.damping) * own_v + np.array(joint.stiffness) * (
                own_q - np.array(joint.rest)
            )
            taken = taken + product(kind.stiffness, own_q) + product(kind.damping, own_v)
            new_q[joint.q_slice] = product(T, own_q)
            new_v[joint.v_slice] = product(T, own_v)
            new_tau[joint.v_slice] = product(back.T, tau[joint.v_slice] - taken)
        return cls(in_attached_modes(model, changes), new_q, new_v, new_tau, changes)

    def accelerations(self, a: np.ndarray) -> np.ndarray:
        """Return accelerations of the model's own modes, (nv,), from attached ones."""
        converted = np.array(a, dtype=object)
        for k, _, back in self.changes:
            columns = self.model.joints[k].v_slice
            converted[columns] = product(back, a[columns])
        return converted
