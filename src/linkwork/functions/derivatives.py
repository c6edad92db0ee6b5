"""Public functions of derivatives of dynamics on the tangent space, and linearization.

A derivative with respect to q is one with respect to δ in `integrate(q, δ)` at δ = 0, in the model's
independent velocities: a square matrix with one column for each entry of v, for any joint coordinates.
Derivatives of trees are analytic. Loop equations are differentiated as they are solved; all else is that of
the spanning tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained import constrained_dynamics_derivatives as held
from linkwork.algorithms.constrained import solution_derivatives as solution
from linkwork.algorithms.constrained.massless import check_motions
from linkwork.algorithms.constrained.row_mobility import row_mobilities
from linkwork.algorithms.constrained.truncation import redundant_families
from linkwork.algorithms.loops import embedded_derivatives as embedded
from linkwork.algorithms.loops.closing import spanning_velocity
from linkwork.algorithms.tree import retraction_derivatives as retraction
from linkwork.compiler.autodiff.in_trace import jacobian_along, jacobian_of, jvp_of
from linkwork.constraints import loop_constraints
from linkwork.errors import ModelError
from linkwork.functions.dynamics import inverse_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.wrt import Changed, by_columns, by_names, wrt_option
from linkwork.functions.kinematics import Frames, frame_jacobian, normalize_frame
from linkwork.joints import Joint
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko import Tree
from linkwork.sko.prepare.trees import tree


@model_function(
    q="nq",
    v="nv",
    a="nv",
    f_ext="bodies 6",
    options=wrt_option("inverse_dynamics_derivatives", "q", "v", "a", "f_ext"),
    custom_trees=True,
)
def inverse_dynamics_derivatives(
    model: Model, q: Any, v: Any, a: Any, f_ext: Any = None, *, wrt: str | Iterable[str] = ("q", "v", "a")
) -> Any:
    """Return ∂/∂q, ∂/∂v and ∂/∂a of `inverse_dynamics`, each (..., nv, nv); the last is the mass matrix.

    Parameters
    ----------
    q, v, a, f_ext
        As in `inverse_dynamics`; `f_ext` is fixed in the bodies' frames.
    wrt : str or sequence of str, optional
        Names among "q", "v", "a", "f_ext" and parameters of the model ("mass", "mass@link3", see
        `Model.parameters`), whose values are those in `parameters=` or the model's own.

    Returns
    -------
    tuple of ndarray
        One for each name in `wrt`, of shape (..., nv, nv), or (..., nv) followed by the shape of the
        parameter, at fixed q, v and a. ∂/∂q is on the tangent space: with respect to δ in `integrate(q, δ)`.

    Notes
    -----
    Spatial recursions of Singh, Russell and Wensing (2022). Constrained loops are open.
    """
    return by_names(
        model,
        wrt,
        {"q": q, "v": v, "a": a, "f_ext": f_ext},
        lambda: embedded.of_inverse_dynamics(model, q, v, a, f_ext, jacobian_of, jacobian_along),
        lambda differentiate: differentiate(inverse_dynamics.body),
    )


@model_function(
    q="nq",
    v="nv",
    tau="nv",
    f_ext="bodies 6",
    options=wrt_option("forward_dynamics_derivatives", "q", "v", "tau", "f_ext"),
    custom_trees=True,
)
def forward_dynamics_derivatives(
    model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None, *, wrt: str | Iterable[str] = ("q", "v", "tau")
) -> Any:
    """Return ∂/∂q, ∂/∂v and ∂/∂tau of `forward_dynamics`, each (..., nv, nv); the last is M⁻¹.

    Parameters
    ----------
    q, v, tau, f_ext
        As in `forward_dynamics`; `f_ext` is fixed in the bodies' frames.
    wrt : str or sequence of str, optional
        Names among "q", "v", "tau", "f_ext" and parameters, as in `inverse_dynamics_derivatives`.

    Returns
    -------
    tuple of ndarray
        One for each name in `wrt`, as in `inverse_dynamics_derivatives`.

    Notes
    -----
    From the derivatives of inverse dynamics at the solution and the sparse factor of the mass matrix
    (Carpentier and Mansard 2018). Constrained loops act as in `constrained_dynamics_derivatives`: positions
    change joint by joint, also where that opens the loops.
    """
    loops = loop_constraints(model)
    check_motions(model, loops)
    # only the units of redundant rows matter here, not how these share forces
    weights = row_mobilities(model, loops) if loops and redundant_families(model.nominal) else None

    def analytic() -> Sequence[Any]:
        if loops:
            return held.constrained_dynamics_derivatives(
                model, loops, q, v, tau, f_ext, None, jacobian_of, jacobian_along, weights=weights
            )[:3]
        return embedded.of_forward_dynamics(model, q, v, tau, f_ext, jacobian_of, jacobian_along)

    def by_residual(differentiate: Changed) -> Any:
        if loops:
            constrained = solution.ConstrainedSolution(model, loops, q, v, tau, f_ext, None, weights=weights)
            return by_columns(constrained.change, differentiate(constrained.residual))[: model.nv]
        solved = solution.forward_solution(model, q, v, tau, f_ext)
        change = differentiate(lambda m, q, v, tau, f_ext: inverse_dynamics.body(m, q, v, solved.a, f_ext))
        return by_columns(lambda columns: -solved.M.solve(columns), change)

    return by_names(model, wrt, {"q": q, "v": v, "tau": tau, "f_ext": f_ext}, analytic, by_residual)


@model_function(q="nq", v="nv")
def integrate_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, ...]:
    """Return ∂/∂q and ∂/∂v of `integrate`, each (..., nv, nv).

    They map the tangent space at q to that at the end of the motion. Constrained loops are open: positions
    change joint by joint, and loops are not closed again at the end.
    """
    _check_joints(model, "integrate_derivatives")
    spanning = spanning_velocity(tree(model, q, v)) if model.embedded else v
    blocks = retraction.in_blocks(
        model.joints,
        lambda joint: retraction.of_integrate(
            joint.kind, q[joint.q_slice], spanning[joint.v_slice], jacobian_of
        ),
        2,
    )
    return tuple(_independent(model, x) for x in blocks)


@model_function(q0="nq", q1="nq")
def difference_derivatives(model: Model, q0: Any, q1: Any) -> tuple[Any, ...]:
    """Return ∂/∂q0 and ∂/∂q1 of `difference`, each (..., nv, nv), on the tangent spaces at q0 and q1.

    Constrained loops are open: positions change joint by joint.
    """
    _check_joints(model, "difference_derivatives")
    blocks = retraction.in_blocks(
        model.joints,
        lambda joint: retraction.of_difference(joint.kind, q0[joint.q_slice], q1[joint.q_slice], jacobian_of),
        2,
    )
    return tuple(_independent(model, x) for x in blocks)


def _independent(model: Model, x: np.ndarray) -> np.ndarray:
    """Return rows and columns of independent velocities of a matrix for all joints."""
    indices = _independent_indices(model)
    return x[np.ix_(indices, indices)]


def _independent_indices(model: Model) -> np.ndarray:
    """Return indices of the independent velocities among those of all joints."""
    names = [name for joint in model.joints for name in joint.v_names]
    return np.array([names.index(name) for name in model.v_names], dtype=int)


def _check_joints(model: Model, function: str) -> None:
    """Raise ModelError for a partly independent joint whose velocities are not coordinate rates."""
    independent = set(_independent_indices(model).tolist())
    for joint in model.joints:
        is_independent = [index in independent for index in range(joint.v_slice.start, joint.v_slice.stop)]
        if any(is_independent) and not all(is_independent) and type(joint.kind).rate is not Joint.rate:
            raise ModelError(
                f"{function}: a loop determines some velocities of joint {joint.name!r} of "
                f"{printable(model.name)} and not others; choose other independent velocities "
                "(with_independent)"
            )


@model_function(q="nq", v="nv", custom_trees=True)
def coriolis_matrix(model: Model, q: Any, v: Any) -> Any:
    """Return C, (..., nv, nv), with C v = `bias_force` without gravity, springs and dampers, and Ṁ = C + Cᵀ.

    So Ṁ - 2 C is skew-symmetric. Constrained loops are open, as in `mass_matrix`. For a custom tree
    (`linkwork.sko.Tree`), C v is the part of the bias force that is quadratic in v; Ṁ - 2 C is skew-symmetric
    if a and b are the velocity-dependent terms of A, H and M, which is checked in a few states.
    """
    if isinstance(model, Tree):
        embedded.check_conservative(model)
    return embedded.of_motion(model, q, v, jacobian_of, jacobian_along)


@model_function(q="nq", v="nv", options=normalize_frame)
def frame_jacobian_rate(model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body") -> Any:
    """Return J̇, the time derivative of `frame_jacobian` along a motion.

    J v̇ + J̇ v is the rate of `frame_velocity`.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : {"body", "world_aligned", "world"}
        Point and axes, as in `frame_jacobian`.

    Returns
    -------
    ndarray, shape (..., 6, nv)
        Angular rows, then linear rows; (..., frames, 6, nv) for a sequence of frames.
    """
    dq = embedded.position_rates(model, q) @ spanning_velocity(tree(model, q, v))
    return jvp_of(lambda x: frame_jacobian.body(model, x, frame=frame, reference=reference), q, dq)[1]


@model_function(q="nq", v="nv", tau="nv", f_ext="bodies 6", custom_trees=True)
def linearize(model: Model, q: Any, v: Any, tau: Any, f_ext: Any = None) -> tuple[Any, Any]:
    """Return A, (..., 2 nv, 2 nv), and B, (..., 2 nv, nv), of d/dt (δ, δv) = A (δ, δv) + B δtau at a state.

    Parameters
    ----------
    q, v, tau, f_ext
        As in `forward_dynamics`.

    Returns
    -------
    A : ndarray, shape (..., 2 nv, 2 nv)
        State matrix.
    B : ndarray, shape (..., 2 nv, nv)
        Input matrix.

    Notes
    -----
    δ is a perturbation on the tangent space at q(t): `integrate(q(t), δ(t))` moves with v + δv. At rest, and
    for joints whose velocities are coordinate rates, δ̇ = δv. Constrained loops act as in
    `forward_dynamics_derivatives`: only perturbations that keep them closed belong to a motion.
    """
    by_q, by_v, by_tau = forward_dynamics_derivatives.body(model, q, v, tau, f_ext)
    nv = model.nv
    position_block = np.zeros((model.nv, model.nv))
    if not isinstance(model, Tree):  # q of a custom tree changes by v
        _check_joints(model, "linearize")
        spanning = spanning_velocity(tree(model, q, v))
        (joint_blocks,) = retraction.in_blocks(
            model.joints,
            lambda joint: (
                retraction.of_motion(joint.kind, q[joint.q_slice], spanning[joint.v_slice], jacobian_of),
            ),
            1,
        )
        position_block = _independent(model, joint_blocks)
    A = np.block([[position_block, np.eye(nv)], [by_q, by_v]])
    return A, np.concatenate([np.zeros((nv, nv)), by_tau])
