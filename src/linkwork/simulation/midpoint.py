"""The implicit midpoint rule on configuration manifolds, as a variational integrator: symplectic, and of
order 2.

A step of length h goes from q₀ by a move ξ to q₁, along a curve (`_ahead`) with q_m and v_m in its middle.
Its action is h L(q_m, v_m), L being the Lagrangian, and the action's derivatives by both ends are the momenta
there (Marsden and West 2001, with forces by d'Alembert's principle). With g, the derivative of L by q_m and
all other forces, p_m = M v_m and s = (∂h v_m/∂ξ)ᵀ p_m + h/2 (∂q_m/∂(ξ/2))ᵀ g,

    p₀ = -(∂ξ/∂q₀)ᵀ s - h (∂q_m/∂q₀)ᵀ g,        p₁ = (∂ξ/∂q₁)ᵀ s.

Where velocities are rates of coordinates these are p_m ∓ h/2 g, the midpoint rule in q and p. p₀ = M(q₀) v₀
is solved for ξ / h by Broyden's method, which begins with the mass matrix as the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.closing_constrained import close_all
from linkwork.algorithms.loops import closing
from linkwork.algorithms.newton import infinity_norm, tolerance
from linkwork.algorithms.tree.forward_dynamics import factorised
from linkwork.algorithms.tree.inverse_dynamics_derivatives import rates as joint_rates
from linkwork.algorithms.tree.retraction_derivatives import of_motion
from linkwork.compiler.autodiff.in_trace import jacobian_of
from linkwork.compiler.ir.functions import absolute, loop, where
from linkwork.errors import ModelError
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.energy import kinetic_energy, potential_energy
from linkwork.functions.engine.tangent import embedding, rates
from linkwork.joints import Joint
from linkwork.joints.deformation import Deformation
from linkwork.model import Model
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.spatial import is_zero
from linkwork.spatial.constants import product

MAX_ITERATIONS = 60
BROYDEN_MEMORY = 8  # steps stored by Broyden's method
MIN_STEP_FRACTION = 0.1  # smallest fraction of a Newton step
# changes of v_m relative to its size: that end iterations, and that may be left when rounding does
CONVERGED_TOL = 1e-13
ACCEPTED_TOL = 1e-9

Force = Callable[[Any, Any, Any], Any]  # of q, v and the part of the step that has passed


class Midpoint(NamedTuple):
    """State at the end and in the middle of a step."""

    q: Any
    v: Any
    q_middle: Any
    v_middle: Any


def check_midpoint(model: Model) -> None:
    """Raise for models that the rule cannot integrate."""
    if model.constrained_loops:
        names = ", ".join(repr(loop.name) for loop in model.constrained_loops)
        raise ModelError(
            f"rollout: implicit_midpoint requires embedded loops; constraint forces close {names} of "
            f"{model.name}"
        )


def midpoint(model: Model, q: Any, v: Any, dt: Any, force: Force) -> Midpoint:
    """Return one step from q and v of `dt` [s]; NaN if iterations do not converge."""
    nv = model.nv
    curves = _Curves(model)
    p = _momentum(model, q, v)
    stiffened = _mass_solver(_stiffened(model, dt), q)
    close = tolerance(CONVERGED_TOL, q)
    enough = tolerance(ACCEPTED_TOL, q)

    def again(x: Any) -> tuple[Any, Any]:
        tried = x[:nv]
        steps = x[3 * nv : -1].reshape(BROYDEN_MEMORY, nv)
        last = x[-1]
        p0, p1 = _momenta(curves, q, tried, dt, force)
        step = _broyden(stiffened(p - p0), steps)
        size = infinity_norm(step) / (infinity_norm(tried) + dt)
        rounding = (size < enough) & (size > 0.5 * last)
        state = [*(tried + step), *tried, *p1, *steps[1:].ravel(), *step, size]
        return np.array(state, dtype=object), (size > close) & ~rounding

    result = loop(
        again,
        np.array([*v, *v, *p, *np.zeros(BROYDEN_MEMORY * nv), np.inf], dtype=object),
        limit=MAX_ITERATIONS,
    )
    xi = dt * np.array([where(result[-1] < enough, x, np.nan) for x in result[nv : 2 * nv]], dtype=object)
    q_end = curves.end(q, xi)
    v_end = _mass_solver(model, q_end)(result[2 * nv : 3 * nv])
    return Midpoint(q_end, v_end, curves.end(q, 0.5 * xi), curves.middle_velocity(xi) / dt)


def _broyden(step: Any, before: Any) -> Any:
    """Return the next step of Broyden's method, (nv,), from what the mass matrix makes of the residual, and
    the steps before it.

    Of these, (BROYDEN_MEMORY, nv), the last is the latest, and those that were not made are zero (Kelley
    1995, Sec. 7.3).
    """
    parts = [s * where(s @ s > 0.0, 1.0 / where(s @ s > 0.0, s @ s, 1.0), 0.0) for s in before]
    for part, following in zip(parts[:-1], before[1:]):
        step = step + following * (part @ step)
    factor = 1.0 - parts[-1] @ step
    return step * (
        1.0
        / where(
            absolute(factor) > MIN_STEP_FRACTION,
            factor,
            where(factor < 0.0, -MIN_STEP_FRACTION, MIN_STEP_FRACTION),
        )
    )


def _momenta(curves: _Curves, q: Any, speed: Any, dt: Any, force: Force) -> tuple[Any, Any]:
    """Return p₀ and p₁ of the step by ξ = dt `speed`."""
    model = curves.model
    xi = dt * speed
    q_middle = curves.end(q, 0.5 * xi)
    v_middle = curves.middle_velocity(xi) * (1.0 / dt)
    by_q, p = _lagrangian_derivatives(model, q_middle, v_middle)
    g = by_q + force(q_middle, v_middle, 0.5) - _not_of_lagrangian(model, q_middle, v_middle)
    if curves.plain:
        return p - (0.5 * dt) * g, p + (0.5 * dt) * g
    v_by_xi, middle_by_q0, middle_by_xi, xi_by_q0, xi_by_q1 = curves.derivatives(q, xi)
    s = v_by_xi.T @ p + (0.5 * dt) * (middle_by_xi.T @ g)
    return -(xi_by_q0.T @ s) - dt * (middle_by_q0.T @ g), xi_by_q1.T @ s


class _Curves:
    """Curves of the joints of a model, and of closed loops with their independent joints."""

    def __init__(self, model: Model) -> None:
        self.model = model
        names = [name for joint in model.joints for name in joint.v_names]
        self._places = [names.index(name) for name in model.v_names]
        independent = set(self._places)
        moved = [j for j in model.joints if independent & set(range(j.v_slice.start, j.v_slice.stop))]
        self.plain = all(type(j.kind).rate is Joint.rate for j in moved)
        for joint in moved:
            if (
                type(joint.kind).rate is not Joint.rate
                and not set(range(joint.v_slice.start, joint.v_slice.stop)) <= independent
            ):
                raise ModelError(
                    f"rollout: implicit_midpoint: a loop determines some velocities of joint {joint.name!r} "
                    f"of {model.name} and not others; choose other independent velocities (with_independent)"
                )

    def end(self, q: Any, xi: Any) -> Any:
        """Return the ends of the curves from q by a move, (nq,); NaN where loops cannot be closed there."""
        model = self.model
        motion = closing.tree_motion(model, q, xi)
        moved = np.concatenate([_ahead(j.kind, q[j.q_slice], motion[j.v_slice]) for j in model.joints])
        if not model.embedded:
            return moved
        closed = close_all(model, moved, q, motion)
        return np.array([where(closed.openness < tolerance(1.0, q), x, np.nan) for x in closed.q])

    def middle_velocity(self, xi: Any) -> Any:
        """Return v in the middle of the curves, of one unit of time, (nv,)."""
        if self.plain:
            return xi
        w = self._spread(xi)
        return np.concatenate(
            [j.kind.in_moved_axes(0.5 * w[j.v_slice], w[j.v_slice]) for j in self.model.joints]
        )[self._places]

    def derivatives(self, q: Any, xi: Any) -> list[np.ndarray]:
        """Return ∂v_m/∂ξ, ∂q_m/∂q₀, ∂q_m/∂(ξ/2), ∂ξ/∂q₀ and ∂ξ/∂q₁ on the tangent spaces, each (nv, nv)."""
        w = self._spread(xi)
        out = [np.eye(self.model.nv_spanning).astype(object) for _ in range(5)]
        out[3] = -out[3]
        for joint in self.model.joints:
            kind = joint.kind
            columns = joint.v_slice
            if type(kind).rate is Joint.rate:
                continue
            for full, part in zip(out, _of_joint(kind, q[joint.q_slice], w[columns])):
                full[columns, columns] = part
        return [x[np.ix_(self._places, self._places)] for x in out]

    def _spread(self, xi: Any) -> Any:
        """Return independent velocities among those of all joints; zero for others, (nv_spanning,)."""
        w: Any = np.zeros(self.model.nv_spanning, dtype=object)
        w[self._places] = xi
        return w


def _ahead(kind: Joint, q: Any, move: Any) -> Any:
    """Return q moved along a line that does not bend with the axes of the child, (nq,)."""
    return kind.integrate(q, kind.chord_to_velocity(move))


def _of_joint(kind: Joint, q: Any, xi: Any) -> tuple[Any, ...]:
    """Return `_Curves.derivatives` of one joint."""
    by = jacobian_of
    half = 0.5 * xi
    E = joint_rates(kind, q)
    q_middle = _ahead(kind, q, half)
    q_end = _ahead(kind, q, xi)
    middle_by_q0 = by(lambda x: kind.difference(q_middle, _ahead(kind, x, half)), q)[1] @ E
    middle_by_xi = by(lambda x: kind.difference(q_middle, _ahead(kind, q, x)), half)[1]
    xi_by_q0 = by(lambda x: kind.chord(x, q_end), q)[1] @ E
    xi_by_q1 = by(lambda x: kind.chord(q, x), q_end)[1] @ joint_rates(kind, q_end)
    return by(lambda x: kind.in_moved_axes(0.5 * x, x), xi)[1], middle_by_q0, middle_by_xi, xi_by_q0, xi_by_q1


def _lagrangian_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """Return the derivatives of kinetic minus potential energy with respect to q on the tangent space and to
    v, each (nv,).
    """
    by_q = jacobian_of(lambda x: kinetic_energy.body(model, x, v) - potential_energy.body(model, x), q)[1]
    by_v = jacobian_of(lambda x: kinetic_energy.body(model, q, x), v)[1]
    return by_q @ rates(model, q), by_v


def _not_of_lagrangian(model: Model, q: Any, v: Any) -> Any:
    """Return the forces that are taken by dampers, and by what armature A is no inertia, (nv,).

    Where velocities are no rates of coordinates, dynamics have A v̇ alone, and those of ½ vᵀ A v have Kᵀ A v
    besides, K being how perturbations of the motion go on.
    """
    G = embedding(model, q)
    w: Any = v if G is None else G @ v
    taken: Any = np.zeros(model.nv_spanning, dtype=object)
    for joint in model.joints:
        taken[joint.v_slice] = np.array(joint.damping) * w[joint.v_slice]
        if type(joint.kind).rate is not Joint.rate and any(not is_zero(x) for x in joint.armature):
            K = of_motion(joint.kind, q[joint.q_slice], w[joint.v_slice], jacobian_of)
            taken[joint.v_slice] = taken[joint.v_slice] - K.T @ (np.array(joint.armature) * w[joint.v_slice])
        if isinstance(joint.kind, Deformation):
            taken[joint.v_slice] = taken[joint.v_slice] + product(joint.kind.damping, w[joint.v_slice])
    return taken if G is None else G.T @ taken


def _momentum(model: Model, q: Any, v: Any) -> Any:
    """Return M v, (nv,)."""
    return jacobian_of(lambda x: kinetic_energy.body(model, q, x), v)[1]


def _stiffened(model: Model, dt: Any) -> Model:
    """Return the model with armatures for what dampers and springs of joints do in a step."""
    if all(is_zero(x) for joint in model.joints for x in (*joint.damping, *joint.stiffness)):
        return model
    more = [
        a + 0.5 * dt * (d + 0.5 * dt * k)
        for joint in model.joints
        for a, d, k in zip(joint.armature, joint.damping, joint.stiffness)
    ]
    return model.traced_with({"armature": np.array(more, dtype=object)})


def _mass_solver(model: Model, q: Any) -> Callable[[Any], Any]:
    """Return a function for M⁻¹ p, (nv,), at q.

    It uses the factor of the mass matrix, or articulated bodies where that is cheaper.
    """
    if (
        forward_dynamics.with_method(model, (), forward_dynamics.normalize_options(model, {}))["method"]
        == "mass_matrix"
    ):
        return factorised(hinge_tree(model, q)).solve
    free = model.without_passive_forces()
    still = np.zeros(model.nv)
    return lambda p: forward_dynamics.body(free, q, still, p, method="articulated_body")
