"""The public functions of derivatives of dynamics, on the tangent space, and what control makes of them.

A derivative by q is one by δ in `integrate(q, δ)` at δ = 0, in the model's independent velocities: a square matrix with one
column for each entry of v, whatever coordinates joints have. Derivatives of trees are analytic. Loops and couplings that are
embedded move as their equations say: those are differentiated as they are solved, all else is that of the spanning tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import constrained_dynamics_derivatives as held
from linkwork.algorithms import embedded_derivatives as embedded
from linkwork.algorithms import forward_dynamics_derivatives as solved
from linkwork.algorithms import hybrid_dynamics as hybrid
from linkwork.algorithms import retraction_derivatives as retraction
from linkwork.algorithms import solution_derivatives as solution
from linkwork.algorithms.closing import spanning_velocity
from linkwork.algorithms.massless import check_motions
from linkwork.constraints import force_held_loops
from linkwork.errors import ModelError
from linkwork.functions.dynamics import inverse_dynamics, prescribed_velocities
from linkwork.functions.kinematics import Frames, chosen_frame, frame_jacobian
from linkwork.functions.model_function import model_function
from linkwork.functions.wrt import Changed, alone_or_all, by_columns, changes_by, wrt_option
from linkwork.joints import Joint
from linkwork.model import Model
from linkwork.parts.names import shown
from linkwork.passes.differentiate import jacobian_along, jacobian_of, jvp_of
from linkwork.simplify.trees import hinge_tree, tree
from linkwork.sko import Tree


@model_function(
    q="nq",
    v="nv",
    a="nv",
    f_ext="bodies 6",
    options=wrt_option("inverse_dynamics_derivatives", "q", "v", "a", "f_ext"),
    by_hand=True,
)
def inverse_dynamics_derivatives(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, *, wrt: str | Iterable[str] = ("q", "v", "a")
) -> Any:
    """∂/∂q, ∂/∂v and ∂/∂a of `inverse_dynamics`, each (..., nv, nv); the last is the mass matrix.

    By spatial recursions (Singh, Russell and Wensing 2022). ∂/∂q is on the tangent space: by δ in `integrate(q, δ)`. `f_ext` as
    in `inverse_dynamics`; it is held fast in the bodies' frames.

    `wrt` names what derivatives are by, in their order: "q", "v", "a", "f_ext", and parameters of the model ("mass",
    "mass@link3", see `Model.parameters`), by which they are (..., nv) and the shape of the parameter, at fixed q, v and a. A
    parameter has the value that `parameters=` gives it, else the model's own.
    """
    return _by_names(
        model,
        wrt,
        {"q": q, "v": v, "a": a, "f_ext": f_ext},
        lambda: embedded.of_inverse_dynamics(model, q, v, a, f_ext, jacobian_of, jacobian_along),
        lambda by: by(inverse_dynamics.body),
    )


def _by_names(
    model: Model,
    names: Iterable[str],
    arrays: dict[str, Any],
    analytic: Callable[[], Sequence[Any]],
    other: Callable[[Changed], Any],
) -> Any:
    """Derivatives by what is named: the first three of the arrays have `analytic` ones, all else those that `other` makes."""
    own = list(arrays)[:3]
    found = dict(zip(own, analytic())) if set(own) & set(names) else {}
    if "f_ext" in names and arrays["f_ext"] is None:
        arrays = arrays | {"f_ext": np.zeros((len(model.bodies), 6))}
    return alone_or_all([found[name] if name in found else other(changes_by(model, name, arrays)) for name in names])


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    options=wrt_option("forward_dynamics_derivatives", "q", "v", "tau", "f_ext"),
    by_hand=True,
)
def forward_dynamics_derivatives(
    model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, *, wrt: str | Iterable[str] = ("q", "v", "tau")
) -> Any:
    """∂/∂q, ∂/∂v and ∂/∂tau of `forward_dynamics`, each (..., nv, nv); the last is the inverse of the mass matrix.

    From those of inverse dynamics at the solution, by the sparse factor of the mass matrix (Carpentier and Mansard 2018). ∂/∂q
    is on the tangent space, `f_ext` held fast in the bodies' frames. Loops that are held by forces are constraints, as in
    `constrained_dynamics_derivatives`: positions change joint by joint, also where that opens them. `wrt` as in
    `inverse_dynamics_derivatives`: "q", "v", "tau", "f_ext" and parameters.
    """
    loops = force_held_loops(model)
    check_motions(model, loops)

    def analytic() -> Sequence[Any]:
        if loops:
            return held.constrained_dynamics_derivatives(model, loops, q, v, tau, f_ext, None, jacobian_of, jacobian_along)[:3]
        return embedded.of_forward_dynamics(model, q, v, tau, f_ext, jacobian_of, jacobian_along)

    def other(by: Changed) -> Any:
        if loops:
            of_both = solution.ConstrainedSolution(model, loops, q, v, tau, f_ext, None)
            return by_columns(of_both.change, by(of_both.residual))[: model.nv]
        at = solution.forward_solution(model, q, v, tau, f_ext)
        change = by(lambda m, q, v, tau, f_ext: inverse_dynamics.body(m, q, v, at.a, f_ext))
        return by_columns(lambda columns: -at.M.solve(columns), change)

    return _by_names(model, wrt, {"q": q, "v": v, "tau": tau, "f_ext": f_ext}, analytic, other)


@model_function(
    q="nq",
    v="nv",
    a="nv",
    tau="nv",
    f_ext="bodies 6",
    options=wrt_option("hybrid_dynamics_derivatives", "q", "v", "given", "f_ext", others=prescribed_velocities),
    by_hand=True,
)
def hybrid_dynamics_derivatives(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    tau: Any,
    f_ext: Any = None,
    *,
    prescribed: Iterable[Any],
    wrt: str | Iterable[str] = ("q", "v", "given"),
) -> Any:
    """∂/∂q, ∂/∂v and ∂/∂given of what `hybrid_dynamics` finds, each (..., nv, nv).

    Rows are what is found: the force where a velocity is `prescribed`, the acceleration elsewhere. Columns of the last are what
    is given: the acceleration where a velocity is prescribed, the force elsewhere. ∂/∂q is on the tangent space. `wrt` as in
    `inverse_dynamics_derivatives`: "q", "v", "given", "f_ext" and parameters.
    """
    mask = np.array(prescribed, dtype=bool)
    found, _ = hybrid.hybrid_dynamics(hinge_tree(model, q, v, f_ext), a, tau, mask)

    def analytic() -> Sequence[Any]:
        at = embedded.of_inverse_dynamics(model, q, v, found, f_ext, jacobian_of, jacobian_along)
        return solved.hybrid_dynamics_derivatives(at, mask)

    def other(by: Changed) -> Any:
        change = by(lambda m, q, v, given, f_ext: inverse_dynamics.body(m, q, v, found, f_ext))
        return by_columns(lambda columns: solution.hybrid_change(model, q, mask, columns), change)

    return _by_names(model, wrt, {"q": q, "v": v, "given": None, "f_ext": f_ext}, analytic, other)


@model_function(q="nq", v="nv")
def integrate_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, ...]:
    """∂/∂q and ∂/∂v of `integrate`, each (..., nv, nv): from the tangent space at q to the one where the motion ends.

    Loops that forces hold are not closed in it.
    """
    _check_joints(model, "integrate_derivatives")
    spanning = spanning_velocity(tree(model, q, v)) if model.embedded else v
    found = retraction.in_blocks(
        model.joints,
        lambda joint: retraction.of_integrate(joint.kind, q[joint.q_slice], spanning[joint.v_slice], jacobian_of),
        2,
    )
    return tuple(_independent(model, x) for x in found)


@model_function(q0="nq", q1="nq")
def difference_derivatives(model: Model, q0: Any, q1: Any) -> tuple[Any, ...]:
    """∂/∂q0 and ∂/∂q1 of `difference`, each (..., nv, nv), on the tangent spaces at q0 and q1."""
    _check_joints(model, "difference_derivatives")
    found = retraction.in_blocks(
        model.joints,
        lambda joint: retraction.of_difference(joint.kind, q0[joint.q_slice], q1[joint.q_slice], jacobian_of),
        2,
    )
    return tuple(_independent(model, x) for x in found)


def _independent(model: Model, x: np.ndarray) -> np.ndarray:
    """Of a matrix for all joints, rows and columns of independent velocities."""
    chosen = _places(model)
    return x[np.ix_(chosen, chosen)]


def _places(model: Model) -> np.ndarray:
    """Where the independent velocities are among those of all joints."""
    names = [name for joint in model.joints for name in joint.v_names]
    return np.array([names.index(name) for name in model.v_names], dtype=int)


def _check_joints(model: Model, what: str) -> None:
    """That every joint is independent or not as a whole, or has velocities that are rates of coordinates."""
    chosen = set(_places(model).tolist())
    for joint in model.joints:
        own = [place in chosen for place in range(joint.v_slice.start, joint.v_slice.stop)]
        if any(own) and not all(own) and type(joint.kind).rate is not Joint.rate:
            raise ModelError(
                f"{what}: a loop determines some velocities of joint {joint.name!r} of {shown(model.name)} and not others; "
                "choose other independent velocities (with_independent)"
            )


@model_function(q="nq", v="nv")
def coriolis_matrix(model: Model, q: Any, v: Any) -> Any:
    """C with C v = `bias_force` without gravity, springs and dampers, and Ṁ = C + Cᵀ: Ṁ - 2 C is skew; (..., nv, nv)."""
    return embedded.of_motion(model, q, v, jacobian_of, jacobian_along)


@model_function(q="nq", v="nv", options=chosen_frame)
def frame_jacobian_rate(model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body") -> Any:
    """J̇, the rate of `frame_jacobian` in a motion, (..., 6, nv), or of several: J v̇ + J̇ v is the rate of `frame_velocity`."""
    dq = embedded.position_rates(model, q) @ spanning_velocity(tree(model, q, v))
    return jvp_of(lambda x: frame_jacobian.body(model, x, frame=frame, reference=reference), q, dq)[1]


@model_function(q="nq", v="nv", tau="nv", f_ext="bodies 6", by_hand=True)
def linearize(model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None) -> tuple[Any, Any]:
    """A, (..., 2 nv, 2 nv), and B, (..., 2 nv, nv), of the motion from a state: d/dt (δ, δv) = A (δ, δv) + B δtau.

    δ is a perturbation on the tangent space that is carried along: `integrate(q(t), δ(t))` moves with v + δv. At rest, and for
    joints whose velocities are rates of their coordinates, δ̇ = δv.
    """
    by_q, by_v, by_tau = forward_dynamics_derivatives.body(model, q, v, tau, f_ext)
    nv, turned = model.nv, np.zeros((model.nv, model.nv))
    if not isinstance(model, Tree):  # whose q changes by v
        _check_joints(model, "linearize")
        spanning = spanning_velocity(tree(model, q, v))
        (of_joints,) = retraction.in_blocks(
            model.joints,
            lambda joint: (retraction.of_motion(joint.kind, q[joint.q_slice], spanning[joint.v_slice], jacobian_of),),
            1,
        )
        turned = _independent(model, of_joints)
    A = np.block([[turned, np.eye(nv)], [by_q, by_v]])
    return A, np.concatenate([np.zeros((nv, nv)), by_tau])
