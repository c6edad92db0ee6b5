"""The public functions of a model's state. Each computes what its body says, from kernels compiled on first use.

All take NumPy arrays with any leading batch dimensions: q (..., nq), v, a and tau (..., nv); `out=`, `threads=` and
`dtype="float32"` as wanted. Quaternions in q are normalised inside. See docs/conventions.md for frames and units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import active_joints as active
from linkwork.algorithms import closing, energy, kinematics
from linkwork.algorithms import forward_dynamics as forward
from linkwork.algorithms import hybrid_dynamics as hybrid
from linkwork.algorithms import inverse_dynamics as inverse
from linkwork.algorithms import joint_forces as transmitted
from linkwork.algorithms import mass_matrix as composite
from linkwork.algorithms import mass_matrix_inverse as inverted
from linkwork.algorithms.closing_force_held import close_all
from linkwork.errors import ModelError
from linkwork.functions.constrained import constrained_dynamics, shallow
from linkwork.functions.model_function import as_numbers, model_function
from linkwork.model import GROUND, Frame, Model, PlacedJoint
from linkwork.parts.names import shown
from linkwork.simplify.frames import in_own_frames
from linkwork.simplify.rotors import lumped, unit_of_mass
from linkwork.simplify.trees import hinge_tree, tree
from linkwork.sko import Tree
from linkwork.sko.tree import model_tree
from linkwork.spatial import is_zero

# states


@model_function(q="nq", v="nv", by_hand=True)
def integrate(model: Model, q: Any, v: Any) -> Any:
    """The retraction of v at q: integration of a constant v for one unit of time, (..., nq); loops stay closed."""
    if isinstance(model, Tree):
        return model.integrate(q, v)
    moved = closing.integrate_tree(model, q, v)
    return close_all(model, moved, q)[0] if model.embedded or model.force_held else moved


@model_function(q0="nq", q1="nq", by_hand=True)
def difference(model: Model, q0: Any, q1: Any) -> Any:
    """The constant v that takes q0 to q1 in one unit of time, (..., nv)."""
    if isinstance(model, Tree):
        return model.integrate(q1, -q0)
    moved = [j.kind.difference(q0[j.q_slice], q1[j.q_slice]) for j in model.joints]
    chosen = [np.concatenate([moved[k] for k in c.bodies])[list(c.independent)] for c in model.clusters]
    return np.concatenate([np.zeros(0), *chosen])


@model_function(q="nq")
def close_loops(model: Model, q: Any) -> tuple[Any, Any]:
    """q with all loops closed by Newton's method, holding the independent coordinates, and the residual that is left.

    Force-held loops leave all coordinates independent: there q changes as little as it can.

    The first has shape (..., nq), the second (...): the largest violation of any loop's equations [m or rad], which tells
    whether this row could be closed.
    """
    return close_all(model, q)


@model_function(q="nq", v="nv")
def spanning_velocity(model: Model, q: Any, v: Any) -> Any:
    """The velocities of all joints of the tree, dependent ones too, (..., nv_spanning)."""
    return closing.spanning_velocity(tree(model, q, v))


@model_function(q="nq", v="nv", a="nv")
def spanning_acceleration(model: Model, q: Any, v: Any, a: Any) -> Any:
    """The accelerations of all joints of the tree, dependent ones too, (..., nv_spanning)."""
    return closing.spanning_acceleration(tree(model, q, v), a)


def _weights(weights: Any, count: int, what: str) -> tuple[float, ...]:
    """Positive numbers, one for each of what is weighed; all 1 where none are given."""
    given = np.ones(count) if weights is None else as_numbers(weights)
    if given.shape != (count,) or not np.all((given > 0) & np.isfinite(given)):
        raise ModelError(f"weights must be {count} positive numbers, one for each {what}, not {weights!r}")
    return tuple(given.tolist())


def _actuators(model: Model, actuators: Any, weights: Any) -> dict[str, Any]:
    """The places of actuated velocities among those of the spanning tree, from names of joints."""
    found: list[int] = []
    for name in [actuators] if isinstance(actuators, str) else actuators:
        where = model.joint(name).v_slice
        found += range(where.start, where.stop)
    if len(set(found)) < len(found):
        raise ModelError("actuators must be different joints")
    return {"actuators": tuple(found), "weights": _weights(weights, len(found), "actuated velocity")}


@model_function(q="nq", tau="nv", options=_actuators)
def actuator_force(model: Model, q: Any, tau: Any, *, actuators: Iterable[Any], weights: Any = None) -> Any:
    """The forces of actuators in any joints with the same generalised forces as tau, (..., actuators).

    `actuators` names the joints that are driven, dependent or not. Where a cluster has more of them than it needs, the
    forces with the least sum of `weights` (1, if not given) times squares are given; where it has fewer, it is under-actuated,
    which is an error. `spanning_hybrid_dynamics` has other choices.
    """
    return active.actuator_force(tree(model, q), tau, tuple(actuators), np.array(weights))


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def loop_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """The forces of loops and couplings on their bodies in a motion, one for each equation that is kept, (..., equations).

    They come cluster by cluster in the order of `model.clusters`, there in the order of its `rows`; [N] for equations on
    lengths, [N m] on directions and angles. Equations that follow from others are taken to carry nothing: forces that two
    could share are not determined. All joints but the independent ones are taken as passive, or `tau_spanning` says which
    forces in all joints of the tree make this motion. `f_ext` as in `inverse_dynamics`.
    """
    return active.loop_forces(tree(model, q, v), a, f_ext, tau_spanning)


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", tau_spanning="nv_spanning")
def joint_forces(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, tau_spanning: Any = None) -> Any:
    """The wrench that each tree joint transmits to its body in a motion, in the order of `model.bodies`, (..., bodies, 6).

    Moment [N m] and force [N] at the origin and in the axes of the body's frame: what bearings carry and what drives, springs,
    dampers, armature and couplings do in the joint together. Loop joints' forces act on the bodies besides; where loops share
    loads, what the joints carry is no more determined than these are: see `loop_forces`, also for `tau_spanning`.
    """
    nodes = tree(model, q, v)
    return transmitted.joint_forces(nodes, a, active.loop_forces(nodes, a, f_ext, tau_spanning), f_ext)


@model_function(q="nq", tau_spanning="nv_spanning")
def independent_force(model: Model, q: Any, tau_spanning: Any) -> Any:
    """The generalised forces Gᵀ tau_spanning of the independent velocities, (..., nv), of forces in all joints of the tree."""
    return closing.independent_force(tree(model, q), tau_spanning)


# kinematics


def _frame(model: Model, frame: Any, reference: str = "body", **_: Any) -> dict[str, Any]:
    if reference not in kinematics.REFERENCES:
        raise ModelError(f"reference must be one of {', '.join(kinematics.REFERENCES)}, not {reference!r}")
    return {"frame": model.frame(frame.name if isinstance(frame, Frame) else frame).name}


def _frame_tree(model: Model, q: Any, frame: str, v: Any = None) -> Any:
    """Nodes in which the body of a frame has rows of its own, also where it is a rotor."""
    body = model.frame(frame).body
    if isinstance(model, Tree):
        return tree(model, q, v)
    return tree(model, q, v, whole=body != GROUND and lumped(model)[body].rotor is not None)


@model_function(q="nq")
def forward_kinematics(model: Model, q: Any) -> Any:
    """The homogeneous matrices of all bodies' frames in the world, in the order of `model.bodies`, (..., bodies, 4, 4)."""
    return kinematics.body_poses(model_tree(model, in_own_frames(model), q))


@model_function(q="nq", options=_frame)
def frame_pose(model: Model, q: Any, *, frame: str) -> Any:
    """The homogeneous matrix of a frame in the world, (..., 4, 4)."""
    return kinematics.frame_pose(_frame_tree(model, q, frame), model.frame(frame)).matrix()


@model_function(q="nq", v="nv", options=_frame, by_hand=True)
def frame_velocity(model: Model, q: Any, v: Any, *, frame: str, reference: str = "body") -> Any:
    """[w, v] of a frame, (..., 6).

    `reference` "body": of the frame's origin, in its own axes; "world_aligned": of its origin, in the world's axes; "world":
    of the point that is now at the world's origin, in the world's axes.
    """
    return kinematics.frame_velocity(_frame_tree(model, q, frame, v), v, model.frame(frame), reference)


@model_function(q="nq", v="nv", a="nv", options=_frame, by_hand=True)
def frame_acceleration(
    model: Model, q: Any, v: Any, a: Any, *, frame: str, reference: str = "body", classical: bool = False
) -> Any:
    """The spatial acceleration of a frame, (..., 6): the rate of its velocity's components in the frame's own axes.

    `classical`: with the acceleration of the frame's origin as seen from outside. Gravity plays no part. `reference` as in
    `frame_velocity`.
    """
    return kinematics.frame_acceleration(
        _frame_tree(model, q, frame, v), v, a, model.frame(frame), reference, classical=classical
    )


@model_function(q="nq", options=_frame, by_hand=True)
def frame_jacobian(model: Model, q: Any, *, frame: str, reference: str = "body") -> Any:
    """J with J v = `frame_velocity`, (..., 6, nv)."""
    return kinematics.frame_jacobian(_frame_tree(model, q, frame), model.frame(frame), reference)


# dynamics


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", by_hand=True)
def inverse_dynamics(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None) -> Any:
    """The joint forces tau of an acceleration, (..., nv), by recursive Newton-Euler (SKO Alg. 3.1).

    `f_ext` (..., bodies, 6): moment [N m] and force [N] that act on each body from outside, at the origin and in the axes
    of its frame. Gravity, armature, damping and stiffness act.
    """
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext), a)


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    methods={"articulated_body": lambda _: True, "mass_matrix": shallow},
    by_hand=True,
)
def forward_dynamics(model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, *, method: str = "auto") -> Any:
    """The acceleration under joint forces tau, (..., nv), by articulated bodies (SKO Alg. 6.1) or by the mass matrix.

    `f_ext` as in `inverse_dynamics`. `method` "auto" counts the operations of both for this model and takes the cheaper.
    Force-held loops of the model are constraints, as in `constrained_dynamics`.
    """
    if model.force_held:
        by = "caba" if method == "articulated_body" else "ltl"
        return constrained_dynamics(model, q, v, tau, f_ext, constraints=(), method=by)[0]
    unit = 1.0 if isinstance(model, Tree) else unit_of_mass(model)  # accelerations do not depend on it
    nodes = hinge_tree(model, q, v, f_ext, unit=unit)
    if unit != 1.0:
        tau = tau * (1.0 / unit)
    return forward.articulated_body(nodes, tau) if method == "articulated_body" else forward.by_mass_matrix(nodes, tau)


def _mask(prescribed: Any, names: Sequence[str], what: str, joint: Callable[[str], PlacedJoint]) -> tuple[bool, ...]:
    """A True for each velocity that is prescribed, from a mask, or from names of joints or of velocities."""
    if not isinstance(prescribed, Iterable):
        raise ModelError(f"prescribed must be names of joints or of entries of {what}, or booleans, not {prescribed!r}")
    if not isinstance(prescribed, (str, np.ndarray)):
        prescribed = list(prescribed)
    if isinstance(prescribed, np.ndarray) or (prescribed and all(isinstance(x, (bool, np.bool_)) for x in prescribed)):
        mask = np.asarray(prescribed)
        if mask.shape != (len(names),) or mask.dtype != bool:
            raise ModelError(
                f"prescribed must be names, or a boolean array of shape ({len(names)},), not {mask.dtype} {mask.shape}"
            )
        return tuple(mask.tolist())
    chosen = np.zeros(len(names), dtype=bool)
    for name in [prescribed] if isinstance(prescribed, str) else prescribed:
        if name in names:
            chosen[names.index(name)] = True
        else:
            places = [k for k, entry in enumerate(names) if entry in joint(name).v_names]
            if len(places) < joint(name).nv:
                raise ModelError(f"joint {name!r} is not independent: a loop determines its motion; prescribe another")
            chosen[places] = True
    return tuple(chosen.tolist())


def _prescribed(model: Model, prescribed: Any) -> dict[str, Any]:
    return {"prescribed": _mask(prescribed, model.v_names, "v", model.joint)}


@model_function(q="nq", v="nv", a="nv", tau="nv", f_ext="bodies 6", options=_prescribed, by_hand=True)
def hybrid_dynamics(
    model: Model, q: Any, v: Any, a: Any, tau: Any, f_ext: Any = None, *, prescribed: Iterable[Any]
) -> tuple[Any, Any]:
    """All accelerations and all joint forces, each (..., nv), where some of both are given (Lie Table 4).

    `prescribed` names the joints (or entries of `model.v_names`; or is a boolean array (nv,)) whose acceleration is taken
    from `a`; the forces of all others are taken from `tau`. What stands in `a` and `tau` elsewhere does not matter.
    """
    return hybrid.hybrid_dynamics(hinge_tree(model, q, v, f_ext), a, tau, np.array(prescribed, dtype=bool))


def _active(model: Model, prescribed: Any, least: Any, weights: Any) -> dict[str, Any]:
    names = [name for joint in model.joints for name in joint.v_names]
    mask = _mask(prescribed, names, "the spanning velocity", model.joint)
    equations = sum(len(cluster.rows) for cluster in model.clusters)
    counts = {"torque": (sum(mask), "prescribed velocity"), "constraint_force": (equations, "equation of loops that is kept")}
    if least not in counts:
        raise ModelError(f"least must be one of {', '.join(counts)}, not {least!r}")
    return {"prescribed": mask, "weights": _weights(weights, *counts[least])}


@model_function(q="nq", v="nv", a_spanning="nv_spanning", tau_spanning="nv_spanning", f_ext="bodies 6", options=_active)
def spanning_hybrid_dynamics(
    model: Model,
    q: Any,
    v: Any,
    a_spanning: Any,
    tau_spanning: Any,
    f_ext: Any = None,
    *,
    prescribed: Iterable[Any],
    least: str = "torque",
    weights: Any = None,
) -> tuple[Any, Any]:
    """Accelerations and forces of all joints of the tree, each (..., nv_spanning), with active and passive ones (Lie Sec. 3).

    `prescribed` names the active joints, in loops or not (or is a boolean array (nv_spanning,)): their accelerations are
    taken from `a_spanning`, and what forces they need is found. Those of all others are taken from `tau_spanning`, zero where
    a joint is passive. With as many active joints as freedoms this is inverse dynamics; with fewer, the passive ones move as
    they must; with none it is forward dynamics.

    With more than freedoms, their accelerations must go together (where they do not, the nearest that do are taken), and
    forces are not unique. `least` says what shall be as small as can be: the "torque" of active joints, or the
    "constraint_force" of the loops; as a sum of squares times `weights`, one for each, 1 if not given.
    """
    mask = np.array(prescribed, dtype=bool)
    return active.spanning_hybrid_dynamics(tree(model, q, v), a_spanning, tau_spanning, f_ext, mask, least, np.array(weights))


@model_function(q="nq", by_hand=True)
def mass_matrix(model: Model, q: Any, *, packed: bool = False) -> Any:
    """The mass matrix, (..., nv, nv), by composite inertias (SKO Alg. 4.2).

    `packed`: only the entries of its upper triangle that a tree can fill, row by row, as `mass_matrix_pattern` lists them.
    """
    M = composite.mass_matrix(hinge_tree(model, q))
    return M[mass_matrix_pattern(model)] if packed else M


def mass_matrix_pattern(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries in the mass matrix's upper triangle that the tree can fill, row by row."""
    if not isinstance(model, Model):
        raise ModelError(f"mass_matrix_pattern takes a model, not {type(model).__name__}")
    filled = np.zeros((model.nv, model.nv), dtype=bool)
    own: dict[int, tuple[slice, int]] = {}  # body -> velocities of its cluster, and the body that the cluster hangs on
    start = 0
    for cluster in model.clusters:
        place = slice(start, start + len(cluster.independent))
        start = place.stop
        below = model.joints[cluster.bodies[0]].parent
        own |= dict.fromkeys(cluster.bodies, (place, below))
        filled[place, place] = True
        while below != GROUND:
            up, below = own[below]
            filled[up, place] = True
    rows, columns = np.nonzero(np.triu(filled))
    return rows, columns


@model_function(q="nq", methods={"sweeps": lambda _: True, "factorisation": shallow}, by_hand=True)
def mass_matrix_inverse(model: Model, q: Any, *, method: str = "auto") -> Any:
    """The inverse of the mass matrix, (..., nv, nv), by sweeps (SKO Eq. 57) or by factorisation, whichever is cheaper."""
    nodes = tree(model, q)
    return inverted.by_sweeps(nodes) if method == "sweeps" else inverted.by_factorisation(nodes)


@model_function(q="nq", v="nv", f_ext="bodies 6", by_hand=True)
def bias_force(model: Model, q: Any, v: Any, f_ext: Any = None) -> Any:
    """The joint forces at zero acceleration, (..., nv): M a + bias_force = tau."""
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext), np.zeros(model.nv))


@model_function(q="nq")
def gravity_force(model: Model, q: Any) -> Any:
    """The joint forces that hold the mechanism still against gravity alone, (..., nv)."""
    return inverse.inverse_dynamics(hinge_tree(model, q), np.zeros(model.nv), passive=False)


# energy and momentum


@model_function(q="nq", v="nv", by_hand=True)
def kinetic_energy(model: Model, q: Any, v: Any) -> Any:
    """The kinetic energy of all bodies, and of armatures [J], (...)."""
    return energy.kinetic_energy(tree(model, q), v)


@model_function(q="nq")
def potential_energy(model: Model, q: Any) -> Any:
    """The potential energy of gravity, zero where all mass is at the world's origin, and of joint springs [J], (...)."""
    return energy.potential_energy(tree(model, q))


def _with_mass(model: Model, **_: Any) -> dict[str, Any]:
    if is_zero(model.mass):
        raise ModelError(f"{shown(model.name)} has no mass, and so no centre of mass")
    return {}


@model_function(q="nq", options=_with_mass)
def center_of_mass(model: Model, q: Any) -> Any:
    """The centre of all moving mass in the world [m], (..., 3)."""
    return energy.center_of_mass(tree(model, q))


@model_function(q="nq", v="nv", options=_with_mass)
def momentum(model: Model, q: Any, v: Any) -> Any:
    """[l, p] about the centre of mass, in the world's axes [kg m²/s, kg m/s], (..., 6)."""
    return energy.momentum(tree(model, q), v)


@model_function(q="nq", options=_with_mass)
def centroidal_map(model: Model, q: Any) -> Any:
    """The centroidal momentum matrix, which takes v to `momentum`, (..., 6, nv)."""
    return energy.centroidal_map(tree(model, q))
