"""Modal coordinates in which what is attached to a flexible body moves along single ones: a change of basis for short programs.

Where something hangs on a place of a flexible body, all modes move it, and its articulated inertia is felt by all of them. In
coordinates y = T η, some of which are the displacements and slopes of these places themselves, each of these moves one
component of one place, and the rest, the interior ones, move nothing: their inertia is constant. Outside, q, v and forces
are those of the model's own modes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from linkwork.joints.deformation import Deformation, ModeShape
from linkwork.model import Model, PlacedJoint
from linkwork.spatial import filled
from linkwork.spatial.constants import product, put
from linkwork.spatial.modal import ModalIntegrals
from linkwork.spatial.solve import solve

NOTHING = 1e-13  # of a sum's size: what rounding leaves where it vanishes
INDEPENDENT = 1e-3  # of a row: what must be left of it beside those before it
WORST = 300.0  # condition number of T between bases of unit modal masses, above which modes stay as they are


class Basis(NamedTuple):
    """y = T η and η = back y, both (m, m), of the deformation that is joint `joint` of a model."""

    joint: int
    T: np.ndarray
    back: np.ndarray


def bases(model: Model) -> tuple[Basis, ...]:
    """Those of a model's flexible bodies that something with mass is attached to; none where loops are embedded or held."""
    structure = model.structure
    if structure.embedded or structure.force_held:
        return ()
    key = "bases of attached modes"
    if key not in structure.memory:
        found = [(k, _basis(structure, joint)) for k, joint in enumerate(structure.joints) if joint.kind.elastic]
        structure.memory[key] = tuple(Basis(k, *both) for k, both in found if both is not None)
    made: tuple[Basis, ...] = structure.memory[key]
    return tuple(one for one in made if not filled(np.array(model.joints[one.joint].armature)))  # that is of its own modes


def _basis(model: Model, joint: PlacedJoint) -> tuple[np.ndarray, np.ndarray] | None:
    kind: Any = joint.kind
    bearing = {j.parent for j in model.joints}
    places: list[Any] = [
        j.kind for j in model.joints if j.follows == joint.child and (j.child in bearing or model.bodies[j.child].mass > 0.0)
    ]
    rows = [row for place in places for row in (*place.shape, *place.slope) if row.any()]
    T = _completed(_independent(rows, kind.size), kind.size)
    if not rows or np.count_nonzero(T) == len(T) or _condition(T, kind.integrals.mass) > WORST:
        return None
    back = np.asarray(solve(T, np.eye(len(T))), dtype=float)
    return T, np.where(np.abs(back) > NOTHING * np.abs(back).max(axis=0), back, 0.0)


def _independent(rows: list[np.ndarray], size: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """The first of some rows that do not depend on those before, each with a mode of its own."""
    found: list[tuple[np.ndarray, int]] = []
    reduced: list[np.ndarray] = []
    for row in rows:
        left = row * size
        whole = np.abs(left).max()
        for other, (_, k) in zip(reduced, found):
            left = left - other * (left[k] / other[k])
        if np.abs(left).max() > INDEPENDENT * whole:
            found.append((row, int(np.argmax(np.abs(left)))))
            reduced.append(left)
    return found


def _completed(chosen: list[tuple[np.ndarray, int]], size: np.ndarray) -> np.ndarray:
    """Rows and, for the modes that none of them has as its own, these themselves, (m, m)."""
    taken = [k for _, k in chosen]
    return np.array([*(row for row, _ in chosen), *(row for k, row in enumerate(np.eye(len(size))) if k not in taken)])


def _condition(T: np.ndarray, mass: np.ndarray) -> float:
    """Of T as it acts on coordinates with unit modal masses; the lengths of its rows do not matter."""
    unit = T @ np.linalg.inv(np.linalg.cholesky(mass)).T
    return float(np.linalg.cond(unit / np.linalg.norm(unit, axis=1)[:, None]))


def in_attached_modes(model: Model, changes: tuple[Basis, ...]) -> Model:
    """The model in other modes, without springs and dampers of these."""
    joints = list(model.joints)
    for k, _, back in changes:
        joints[k] = _deformed(joints[k], back)
        for i, joint in enumerate(joints):
            if joint.follows == joints[k].child:
                joints[i] = replace(joint, kind=_placed(joint.kind, back))
    original = None if model.original is None else in_attached_modes(model.structure, changes)
    made = replace(model, joints=tuple(joints), kernels={}, original=original)
    put(made, "clusters", model.clusters)  # they are the same, and take time to find
    return made


def _deformed(joint: PlacedJoint, back: np.ndarray) -> PlacedJoint:
    kind: Any = joint.kind
    of, none = kind.integrals, (0.0,) * joint.nv
    integrals = ModalIntegrals(
        _once(of.first, back), _once(of.mixed, back), _twice(of.second, back), _twice(of.short_first, back),
        _twice(of.short_mixed, back),
    )  # fmt: skip
    m = len(back)
    new = Deformation(kind.names, integrals, np.ones(m), np.zeros((m, m)), np.zeros((m, m)))
    return replace(joint, kind=new, damping=none, stiffness=none, rest=none)


def _placed(kind: Any, back: np.ndarray) -> ModeShape:
    return ModeShape(_unit(_once(kind.shape.T, back).T), _unit(_once(kind.slope.T, back).T), _twice(kind.short, back))


def _once(x: np.ndarray, back: np.ndarray) -> np.ndarray:
    """What belongs to each mode, (m, ...), in the new ones; zero where only rounding is left."""
    flat = x.reshape(len(x), -1)
    found, size = product(back.T, flat), product(np.abs(back).T, np.abs(flat))
    return np.where(np.abs(found) > NOTHING * size, found, 0.0).reshape(x.shape)


def _twice(x: np.ndarray, back: np.ndarray) -> np.ndarray:
    """What belongs to each pair of modes, (m, m, ...), in the new ones."""
    half = _once(x, back).swapaxes(0, 1)
    return _once(half, back).swapaxes(0, 1)


def _unit(x: np.ndarray) -> np.ndarray:
    """With ones where rounding missed them."""
    return np.where(np.abs(x - 1.0) < NOTHING, 1.0, x)


class Attached(NamedTuple):
    """A state and forces in attached modes, and how accelerations come back."""

    model: Model
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    changes: tuple[Basis, ...]

    @classmethod
    def of(cls, model: Model, q: Any, v: Any, tau: Any) -> Attached:
        """Of q (nq,), v and tau (nv,): forces of springs and dampers of modes are taken from tau."""
        changes = bases(model)
        new_q, new_v, new_tau = (np.array(x, dtype=object) for x in (q, v, tau))
        for k, T, back in changes:
            joint, kind = model.joints[k], cast(Deformation, model.joints[k].kind)
            own_q, own_v = q[joint.q_slice], v[joint.v_slice]
            taken = np.array(joint.damping) * own_v + np.array(joint.stiffness) * (own_q - np.array(joint.rest))
            taken = taken + product(kind.stiffness, own_q) + product(kind.damping, own_v)
            new_q[joint.q_slice], new_v[joint.v_slice] = product(T, own_q), product(T, own_v)
            new_tau[joint.v_slice] = product(back.T, tau[joint.v_slice] - taken)
        return cls(in_attached_modes(model, changes), new_q, new_v, new_tau, changes)

    def accelerations(self, a: np.ndarray) -> np.ndarray:
        """Those of the model's own modes, (nv,), from those in attached ones."""
        found = np.array(a, dtype=object)
        for k, _, back in self.changes:
            own = self.model.joints[k].v_slice
            found[own] = product(back, a[own])
        return found
