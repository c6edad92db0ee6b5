"""Comparison of joint torques with and without approximations of geared rotors (Loops Sec. VI-C).

A geared rotor is often left out of a model, or approximated by its reflected inertia. The error in torque
depends on the robot and on the motion; `compare_approximations` computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.functions.dynamics import inverse_dynamics
from linkwork.functions.states import close_loops, independent_force, spanning_acceleration, spanning_velocity
from linkwork.lazy import cached_property
from linkwork.loops.embedding import tree_equations
from linkwork.loops.rotors import axis_of, is_rotor
from linkwork.mechanism import Coupling, ImplicitConstraint, Loop, LoopConstraint
from linkwork.mechanism.names import printable
from linkwork.model import GROUND, Model
from linkwork.sko.prepare.rotors import asymmetry

EXACT = "exact"
IGNORED = "ignored"
DIAGONAL = "diagonal"
BLOCK = "block"
APPROXIMATIONS = {
    IGNORED: "rotors ignored",
    DIAGONAL: "diagonal reflected inertia",
    BLOCK: "block-diagonal reflected inertia",
}
CLOSURE_TOL = 1e-8  # largest error of a loop in a state that counts as closed [m or rad]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Joint forces along a motion, by the exact model and by approximations of it: "ignored", "diagonal",
    "block".

    `torques` holds an array (..., nv) for "exact" and for each of these, `names` what stands behind its
    columns, `rotors` the bodies that were left out. `simplified` is the model without them, and `reflected`,
    (nv, nv), their reflected inertia in that model's velocities: its diagonal is the "diagonal"
    approximation, all of it the "block".
    """

    names: tuple[str, ...]
    rotors: tuple[str, ...]
    t: np.ndarray
    torques: dict[str, np.ndarray]
    simplified: Model
    reflected: np.ndarray

    @cached_property
    def errors(self) -> dict[str, np.ndarray]:
        """Error of each approximation: its joint forces minus the exact ones, (..., nv)."""
        return {name: tau - self.torques[EXACT] for name, tau in self.torques.items() if name != EXACT}

    @cached_property
    def rms(self) -> dict[str, np.ndarray]:
        """The root of the mean square of each error over the motion, (nv,)."""
        return {
            name: np.sqrt(np.mean(error.reshape(-1, error.shape[-1]) ** 2, axis=0))
            for name, error in self.errors.items()
        }

    @cached_property
    def worst(self) -> dict[str, np.ndarray]:
        """The largest size of each error over the motion, (nv,)."""
        return {name: _largest(error) for name, error in self.errors.items()}

    @cached_property
    def largest(self) -> np.ndarray:
        """The largest size of the exact joint forces over the motion, (nv,)."""
        return _largest(self.torques[EXACT])

    def table(self) -> str:
        """Return the errors as text: one row for each velocity; RMS, and the worst as a share of the largest
        exact joint force.
        """
        head = ["", "largest", *(f"{APPROXIMATIONS[name]}: RMS, worst" for name in self.rms)]
        rows = []
        for k, name in enumerate(self.names):
            row = [printable(name), _figure(self.largest[k])]
            for way in self.rms:
                share = self.worst[way][k] / self.largest[k] if self.largest[k] else 0.0
                row.append(f"{_figure(self.rms[way][k])}, {share:.1%}")
            rows.append(row)
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        lines = [
            "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths)))
            for r in (head, *rows)
        ]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        title = f"<linkwork comparison of {len(self.names)} joint forces without {len(self.rotors)} rotors>"
        return f"{title}\n{self.table()}"


def compare_approximations(
    model: Model,
    trajectory: Mapping[str, Any],
    *,
    rotors: Iterable[str] | None = None,
    keep_mass: bool = False,
) -> Comparison:
    """Compare the joint forces of a motion by the exact model and by models that ignore or approximate geared
    rotors.

    `trajectory` has "q", "v" and "a", and may have the time "t" [s], (N,). v and a are (N, nv), as for
    `inverse_dynamics`; q is (N, nq) with all loops closed, or holds the coordinates of the independent joints
    only, in the order of `model.v_names`: then loops are closed here, from the neutral state. Any more
    leading dimensions may stand in front.

    Approximations, all without the rotors as bodies: "ignored" has nothing for them, "diagonal" adds to each
    joint the rotors' reflected inertia there (armature), "block" also its coupling between the joints of a
    cluster: Gᵀ J G, with G the rotors' rates (gear ratios). Where a loop makes rates depend on q, those of
    the neutral state are taken. `rotors` names the bodies to leave out; else those are taken that carry
    nothing, are moved by a hinge that gears or functions tie to others, and turn faster than these or are
    axisymmetric. Their masses, springs and dampers are removed too; with `keep_mass` they stay as if welded
    to the bodies that carry them.

    Joint forces are those of the model's own independent velocities, also where these are the rotors'.
    """
    if model.constrained_loops:
        names = ", ".join(repr(loop.name) for loop in model.constrained_loops)
        raise ModelError(
            f"compare_approximations: {printable(model.name)} has constrained loops ({names}), whose "
            "constraint forces joint forces do not include; embed them with Model.with_loops"
        )
    rotor_indices = (
        find_rotors(model) if rotors is None else tuple(dict.fromkeys(_rotor(model, name) for name in rotors))
    )
    if not rotor_indices:
        raise ModelError(
            f"{printable(model.name)} has no geared rotors to approximate: name the bodies to leave out in "
            f"rotors="
        )
    simple = without_rotors(model, rotor_indices, keep_mass=keep_mass)
    t, q, v, a = _motion(model, trajectory)
    retained = [k for k in range(len(model.bodies)) if k not in rotor_indices]
    places = [_places(model.joints[k].v_slice) for k in retained]
    columns = np.concatenate(places)[
        _independent(simple)
    ]  # where the simplified model's velocities are among all joints' ones
    q_simple = q[..., np.concatenate([_places(model.joints[k].q_slice) for k in retained])]
    v_simple = np.ascontiguousarray(spanning_velocity(model, q, v)[..., columns])
    a_simple = np.ascontiguousarray(spanning_acceleration(model, q, v, a)[..., columns])
    reflected = _reflected(model, rotor_indices, columns)

    def back(tau: np.ndarray) -> np.ndarray:
        every = np.zeros((*tau.shape[:-1], model.nv_spanning))
        every[..., columns] = tau
        return independent_force(model, q, every)

    without = inverse_dynamics(simple, q_simple, v_simple, a_simple)
    torques = {
        EXACT: inverse_dynamics(model, q, v, a),
        IGNORED: back(without),
        DIAGONAL: back(without + np.diag(reflected) * a_simple),
        BLOCK: back(without + a_simple @ reflected),
    }
    return Comparison(
        model.v_names, tuple(model.bodies[k].name for k in rotor_indices), t, torques, simple, reflected
    )


def find_rotors(model: Model) -> tuple[int, ...]:
    """Return the bodies that count as geared rotors: see `compare_approximations`."""
    busy = {joint.parent for joint in model.joints}
    for constraint in model.embedded:
        busy |= {end.body for end in constraint.ends}
    tied = {k for constraint in model.embedded if not constraint.ends for k in constraint.bodies}
    rotor_indices: list[int] = []
    independent = _independent(model)
    for cluster in model.clusters:
        free = [k for k in cluster.bodies if k in tied - busy and model.joints[k].nv == 1]
        if free:
            K = tree_equations(model, cluster, model.neutral())[0].astype(float)[list(cluster.rows)]
            places = {k: model.joints[k].v_start for k in free}
            coupled_rotors = [k for k in free if _is_axisymmetric(model, k) or _is_fast(K, places[k])]
            if np.count_nonzero(np.any(K[:, [places[k] for k in coupled_rotors]], axis=1)) != len(
                coupled_rotors
            ):  # more than their ties
                coupled_rotors = [k for k in coupled_rotors if places[k] not in independent]
            rotor_indices += coupled_rotors
    return tuple(rotor_indices)


def without_rotors(model: Model, rotors: Iterable[int], *, keep_mass: bool = False) -> Model:
    """Return the model without some bodies that carry nothing, and without their couplings.

    With `keep_mass` these bodies remain as if welded.
    """
    gone = set(rotors)
    retained = [k for k in range(len(model.bodies)) if k not in gone]
    index = {GROUND: GROUND, **{old: new for new, old in enumerate(retained)}}
    inertias = [body.inertia for body in model.bodies]
    for k in sorted(gone):
        joint = model.joints[k]
        if keep_mass and joint.parent != GROUND:
            inertias[joint.parent] = (inertias[joint.parent] + joint.place.congruence(inertias[k])).constant()
    joints = []
    nq = 0
    nv = 0
    for k in retained:
        joint = model.joints[k]
        joints.append(replace(joint, parent=index[joint.parent], child=index[k], q_start=nq, v_start=nv))
        nq = nq + joint.nq
        nv = nv + joint.nv
    made = replace(
        model,
        name=f"{model.name} without rotors",
        bodies=tuple(replace(model.bodies[k], index=index[k], inertia=inertias[k]) for k in retained),
        joints=tuple(joints),
        frames=tuple(
            replace(frame, body=index[frame.body]) for frame in model.frames if frame.body not in gone
        ),
        embedded=tuple(_moved(c, index) for c in model.embedded if not gone & set(c.bodies)),
        kernels={},
    )
    if made.nv != model.nv:
        names = ", ".join(repr(model.bodies[k].name) for k in sorted(gone))
        raise ModelError(
            f"without {names}, {printable(model.name)} has {made.nv} degrees of freedom instead of "
            f"{model.nv}; name others in rotors="
        )
    return made


def independent_coordinates(model: Model) -> np.ndarray:
    """Return the places in q of the coordinates that loops leave independent, in the order of
    `model.v_names`.
    """
    places: list[int] = []
    for cluster in model.clusters:
        columns = [(k, c) for k in cluster.bodies for c in range(model.joints[k].nv)]
        independent = [columns[c] for c in cluster.independent]
        for k in dict.fromkeys(k for k, _ in independent):
            joint = model.joints[k]
            mine = [c for j, c in independent if j == k]
            if joint.nq == joint.nv:
                places += [joint.q_start + c for c in mine]
            elif len(mine) == joint.nv:
                places += _places(joint.q_slice).tolist()
            else:
                raise ModelError(f"joint {joint.name!r} is independent in part: give q of all joints")
    return np.array(places, dtype=int)


def _rotor(model: Model, name: str) -> int:
    k = model.body(name).index
    if model.joints[k].nv != 1:
        raise ModelError(
            f"body {name!r} is moved by a joint of {model.joints[k].nv} velocities: a rotor has one"
        )
    if any(joint.parent == k for joint in model.joints):
        raise ModelError(f"body {name!r} carries others: it is not a rotor and cannot be omitted")
    return k


def _motion(model: Model, trajectory: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    if not isinstance(trajectory, Mapping):
        raise ModelError(
            f"trajectory: expected a mapping with 'q', 'v' and 'a', got {type(trajectory).__name__}"
        )
    missing = [word for word in ("q", "v", "a") if word not in trajectory]
    if missing:
        raise ModelError(f"the trajectory has no {missing[0]!r}: it needs 'q', 'v' and 'a', and may have 't'")
    q, v, a = (np.asarray(trajectory[word], dtype=float) for word in "qva")
    for word, x in (("v", v), ("a", a)):
        if x.shape[-1:] != (model.nv,):
            raise ModelError(f"trajectory: {word!r}: expected shape (..., {model.nv}), got {x.shape}")
    coordinates = independent_coordinates(model) if q.shape[-1:] != (model.nq,) else np.arange(model.nq)
    if q.shape[-1:] != (len(coordinates),):
        expected = f"(..., {model.nq}), or (..., {len(coordinates)}) for the independent coordinates only"
        raise ModelError(f"trajectory: 'q': expected shape {expected}, got {q.shape}")
    start = np.tile(model.neutral(), (*q.shape[:-1], 1)) if len(coordinates) < model.nq else q.copy()
    start[..., coordinates] = q
    closed, residual = close_loops(model, start)
    open_ = (
        np.asarray(residual)
        if len(coordinates) < model.nq
        else np.abs(closed - start).max(axis=-1, initial=0.0)
    )
    if not np.all(open_ < CLOSURE_TOL) and model.embedded:
        row = int(np.argmax(np.where(np.isfinite(open_), open_, np.inf)))
        state_of = "cannot be closed" if len(coordinates) < model.nq else "are not closed"
        raise ModelError(
            f"the loops of {printable(model.name)} {state_of} in state {row} of the trajectory (off by "
            f"{np.ravel(open_)[row]:.2g})"
        )
    q = closed if len(coordinates) < model.nq else q
    t = np.asarray(trajectory.get("t", np.arange(q.shape[-2] if q.ndim > 1 else 1)), dtype=float)
    return t, q, v, a


def _reflected(model: Model, rotors: Iterable[int], columns: np.ndarray) -> np.ndarray:
    """Return the reflected inertia Gᵀ J G in the velocities at these places among all joints', at the neutral
    state, (nv, nv).
    """
    rates = np.array(
        [spanning_velocity(model, model.neutral(), v) for v in np.eye(model.nv)]
    ).T  # of all joints
    spins = [model.joints[k].v_start for k in rotors]
    G = np.linalg.solve(rates[columns].T, rates[spins].T).T
    J = [_spin(model, k) for k in rotors]
    return G.T @ np.diag(J) @ G


def _spin(model: Model, k: int) -> float:
    """Return the inertia of a body about its own joint's axis [kg m² or kg]."""
    joint = model.joints[k]
    inertia = model.bodies[k].inertia
    S = np.asarray(joint.kind.subspace(joint.kind.neutral()), dtype=float)
    return float((S.T @ np.asarray(inertia @ S, dtype=float)).squeeze()) + joint.armature[0]


def _is_axisymmetric(model: Model, k: int) -> bool:
    joint = model.joints[k]
    inertia = model.bodies[k].inertia
    return is_rotor(replace(joint, parent=0), inertia) and not np.any(asymmetry(axis_of(joint), inertia.A))


def _is_fast(K: np.ndarray, column: int) -> bool:
    """Return whether a joint is faster than each of those coupled to it by K v = 0."""
    rows = K[K[:, column] != 0.0]
    others = np.abs(np.delete(rows, column, axis=1)).max(axis=1, initial=0.0)
    return bool(len(rows) and np.all(others > 1.0001 * np.abs(rows[:, column])))


def _moved(constraint: LoopConstraint, index: Mapping[int, int]) -> LoopConstraint:
    """Return the constraint with other body indices."""
    if isinstance(constraint, Loop):
        P, S = (replace(end, body=index[end.body]) for end in (constraint.predecessor, constraint.successor))
        return replace(constraint, predecessor=P, successor=S)
    if isinstance(constraint, ImplicitConstraint):
        return replace(constraint, joints=tuple(index[k] for k in constraint.joints))
    assert isinstance(constraint, Coupling)
    return replace(constraint, terms=tuple((index[k], c, x) for k, c, x in constraint.terms))


def _independent(model: Model) -> np.ndarray:
    """Return indices of the independent velocities among those of all joints."""
    places: list[int] = []
    for cluster in model.clusters:
        columns = np.concatenate([_places(model.joints[k].v_slice) for k in cluster.bodies])
        places += columns[list(cluster.independent)].tolist()
    return np.array(places, dtype=int)


def _places(where: slice) -> np.ndarray:
    return np.arange(where.start, where.stop)


def _largest(x: np.ndarray) -> np.ndarray:
    return np.abs(x.reshape(-1, x.shape[-1])).max(axis=0, initial=0.0)


def _figure(x: float) -> str:
    return f"{x:.3f}" if x >= 0.1 or x == 0.0 else f"{x:.2g}"
