"""The public functions of dynamics. Each computes what its body says, from kernels compiled on first use.

All take NumPy arrays with any leading batch dimensions: q (..., nq), v, a and tau (..., nv); `out=`, `threads=` and
`dtype="float32"` as wanted. Quaternions in q are normalised inside. See docs/conventions.md for frames and units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import active_joints as active
from linkwork.algorithms import forward_dynamics as forward
from linkwork.algorithms import hybrid_dynamics as hybrid
from linkwork.algorithms import inverse_dynamics as inverse
from linkwork.algorithms import joint_forces as transmitted
from linkwork.algorithms import mass_matrix as composite
from linkwork.algorithms import mass_matrix_inverse as inverted
from linkwork.algorithms.massless import check_motions
from linkwork.algorithms.spanning_dynamics import dense_work, spanning_dynamics, why_not
from linkwork.errors import ModelError
from linkwork.functions.call_arguments import as_numbers
from linkwork.functions.constrained import constrained_dynamics, shallow
from linkwork.functions.model_function import model_function
from linkwork.model import GROUND, Model, PlacedJoint
from linkwork.model.partition import may_pay
from linkwork.parts.names import shown
from linkwork.simplify.attached_modes import Attached, bases
from linkwork.simplify.rotors import unit_of_mass
from linkwork.simplify.trees import hinge_tree, tree
from linkwork.sko import Tree


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", by_hand=True)
def inverse_dynamics(model: Model, q: Any, v: Any, a: Any, f_ext: Any = None) -> Any:
    """The joint forces tau of an acceleration, (..., nv), by recursive Newton-Euler (SKO Alg. 3.1).

    `f_ext` (..., bodies, 6): moment [N m] and force [N] that act on each body from outside, at the origin and in the axes
    of its frame. Gravity, armature, damping and stiffness act.
    """
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext, partition=True), a)


SOME, MOST = 1000, 20000  # work of a dense joint map from which on others may be cheaper, and surely are


def _may_span(model: Model, least: int) -> bool:
    """Whether loops are to be eliminated on the spanning tree, by the work that a cluster's own joint map would take."""
    if isinstance(model, Tree) or model.force_held or dense_work(model) < least:
        return False
    return why_not(model.structure) is None


def _large(model: Model) -> bool:
    """Whether clusters are so large that other methods need not be tried."""
    return _may_span(model, MOST)


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    methods={
        "articulated_body": lambda model: not _large(model),
        "mass_matrix": lambda model: shallow(model) and not _large(model),
        "partitioned": lambda model: may_pay(model) and not _large(model),
        "spanning_tree": lambda model: _may_span(model, SOME),
        "attached_modes": lambda model: may_pay(model) and bool(bases(model)),
    },
    by_hand=True,
)
def forward_dynamics(model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, *, method: str = "auto") -> Any:
    """The acceleration under joint forces tau, (..., nv), by articulated bodies (SKO Alg. 6.1) or by the mass matrix.

    `f_ext` as in `inverse_dynamics`. `method` "auto" counts the operations of both for this model and takes the cheaper; where
    joints or deformations have several velocities, also those of articulated bodies with partitioned hinges ("partitioned").
    Where many bodies or velocities are in loops of one cluster, forces of embedded loops may be eliminated on the spanning
    tree ("spanning_tree"), which costs less than a dense joint map.
    Of flexible bodies it also counts them in modal coordinates that are displacements and slopes of what is attached to these
    ("attached_modes").
    Force-held loops of the model are constraints, as in `constrained_dynamics`.
    """
    if model.force_held:
        by = "ltl" if method == "mass_matrix" else "caba"
        return constrained_dynamics(model, q, v, tau, f_ext, constraints=(), method=by)[0]
    check_motions(model)
    if method == "spanning_tree" and not isinstance(model, Tree) and model.embedded:
        reason = why_not(model.structure)
        if reason:
            raise ModelError(f"forward_dynamics: method 'spanning_tree' is not possible: {reason}; take another, or \"auto\"")
        return spanning_dynamics(model, q, v, tau, f_ext)
    unit = 1.0 if isinstance(model, Tree) else unit_of_mass(model)  # accelerations do not depend on it
    if method == "attached_modes" and not isinstance(model, Tree) and not model.partition:
        given = Attached.of(model, q, v, tau)
        return given.accelerations(forward_dynamics(given.model, given.q, given.v, given.tau, f_ext, method="partitioned"))
    if method in ("partitioned", "attached_modes") and not model.partition:
        model = model.partitioned()
    nodes = hinge_tree(model, q, v, f_ext, unit=unit, partition=True)
    if unit != 1.0:
        tau = tau * (1.0 / unit)
    return forward.by_mass_matrix(nodes, tau) if method == "mass_matrix" else forward.articulated_body(nodes, tau)


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


def prescribed_velocities(model: Model, prescribed: Any) -> dict[str, Any]:
    """The option `prescribed` as a mask over v."""
    return {"prescribed": _mask(prescribed, model.v_names, "v", model.joint)}


@model_function(q="nq", v="nv", a="nv", tau="nv", f_ext="bodies 6", options=prescribed_velocities, by_hand=True)
def hybrid_dynamics(
    model: Model, q: Any, v: Any, a: Any, tau: Any, f_ext: Any = None, *, prescribed: Iterable[Any]
) -> tuple[Any, Any]:
    """All accelerations and all joint forces, each (..., nv), where some of both are given (Lie Table 4).

    `prescribed` names the joints (or entries of `model.v_names`; or is a boolean array (nv,)) whose acceleration is taken
    from `a`; the forces of all others are taken from `tau`. What stands in `a` and `tau` elsewhere does not matter.
    """
    nodes = hinge_tree(model, q, v, f_ext, partition=True)
    return hybrid.hybrid_dynamics(nodes, a, tau, np.array(prescribed, dtype=bool))


def _active(model: Model, prescribed: Any, least: Any, weights: Any) -> dict[str, Any]:
    names = [name for joint in model.joints for name in joint.v_names]
    mask = _mask(prescribed, names, "the spanning velocity", model.joint)
    equations = sum(len(cluster.rows) for cluster in model.clusters)
    counts = {"torque": (sum(mask), "prescribed velocity"), "constraint_force": (equations, "equation of loops that is kept")}
    return {"prescribed": mask, "weights": weights_of_least(least, weights, counts)}


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
    M = composite.mass_matrix(hinge_tree(model, q, partition=True))
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


@model_function(
    q="nq", methods={"sweeps": lambda _: True, "factorisation": lambda model: shallow(model, most=120)}, by_hand=True
)
def mass_matrix_inverse(model: Model, q: Any, *, method: str = "auto") -> Any:
    """The inverse of the mass matrix, (..., nv, nv), by sweeps (SKO Eq. 57) or by factorisation, whichever is cheaper."""
    nodes = tree(model, q, partition=True)
    return inverted.by_sweeps(nodes) if method == "sweeps" else inverted.by_factorisation(nodes)


@model_function(q="nq", v="nv", f_ext="bodies 6", by_hand=True)
def bias_force(model: Model, q: Any, v: Any, f_ext: Any = None) -> Any:
    """The joint forces at zero acceleration, (..., nv): M a + bias_force = tau."""
    return inverse.inverse_dynamics(hinge_tree(model, q, v, f_ext, partition=True), np.zeros(model.nv))


@model_function(q="nq")
def gravity_force(model: Model, q: Any) -> Any:
    """The joint forces that hold the mechanism still against gravity alone, (..., nv)."""
    return inverse.inverse_dynamics(hinge_tree(model, q, partition=True), np.zeros(model.nv), passive=False)


def weights_of(weights: Any, count: int, what: str) -> tuple[float, ...]:
    """Positive numbers, one for each of what is weighed; all 1 where none are given."""
    given = np.ones(count) if weights is None else as_numbers(weights)
    if given.shape != (count,) or not np.all((given > 0) & np.isfinite(given)):
        raise ModelError(f"weights must be {count} positive numbers, one for each {what}, not {weights!r}")
    return tuple(given.tolist())


def weights_of_least(least: Any, weights: Any, counts: Mapping[str, tuple[int, str]]) -> tuple[float, ...]:
    """The weights of what is to be least, one of `counts`: how many of what are weighed."""
    if least not in [*counts]:  # it may be anything, also what cannot be hashed
        raise ModelError(f"least must be one of {', '.join(counts)}, not {least!r}")
    return weights_of(weights, *counts[least])


def actuated_places(model: Model, actuators: Any, what: str = "actuators") -> tuple[int, ...]:
    """The places of some velocities among those of the spanning tree, from names of joints or of velocities."""
    names = [name for joint in model.joints for name in joint.v_names]
    found: list[int] = []
    if not isinstance(actuators, Iterable):
        raise ModelError(f"{what} must be names of joints or of their velocities, not {actuators!r}")
    for name in [actuators] if isinstance(actuators, str) else actuators:
        if name in names:
            found.append(names.index(name))
        else:
            where = model.joint(name).v_slice
            found += range(where.start, where.stop)
    if len(set(found)) < len(found):
        raise ModelError(f"{what} must be different joints")
    return tuple(found)


def _actuators(model: Model, actuators: Any, weights: Any) -> dict[str, Any]:
    found = actuated_places(model, actuators)
    return {"actuators": found, "weights": weights_of(weights, len(found), "actuated velocity")}


@model_function(q="nq", tau="nv", options=_actuators)
def actuator_force(model: Model, q: Any, tau: Any, *, actuators: Iterable[Any], weights: Any = None) -> Any:
    """The forces of actuators in any joints with the same generalised forces as tau, (..., actuators).

    `actuators` names the joints that are driven, dependent or not. Where a cluster has more of them than it needs, the
    forces with the least sum of `weights` (1, if not given) times squares are given; where it has fewer, it is under-actuated,
    which is an error. A free base needs none: what tau has there (zero, if contacts are among its forces) is passed over.
    `spanning_hybrid_dynamics` has other choices.
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
    if not model.embedded:
        raise ModelError(
            f"loop_forces: {shown(model.name)} has no embedded loops or couplings; forces that hold loops are those of "
            "constrained_dynamics"
        )
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
