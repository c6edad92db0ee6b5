"""Conjugate gradients where proximal iterations converge slowly, as near singular states.

The Delassus matrix Λ⁻¹ = J M⁻¹ Jᵀ is small in some direction of the constraint forces near dead points and
for stretched limbs. There each proximal iteration leaves R / (R + s) of the residual r, with s the entry of
Λ⁻¹. Conjugate gradients for the least rᵀ R⁻¹ r, with the preconditioner M + Jᵀ R⁻¹ J (Björck 1996, Alg.
7.4.4), need about one iteration for each of these few directions, since all others look alike. Parts of r
that contradictory rows leave have no gradient Jᵀ R⁻¹ r.

Every iteration evaluates the residual anew from the accelerations, and J and Jᵀ are applied in turn, so
errors grow with the inverse of the conditioning of J and not with its square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows
from linkwork.algorithms.constrained.proximal import QUICK_ITERATIONS, Iterated, Settings
from linkwork.algorithms.tree.inverse_dynamics import accelerations
from linkwork.compiler.ir.functions import absolute, loop, maximum, sqrt, where
from linkwork.compiler.ir.precision import by_precision
from linkwork.sko.contracts import HingeNode

MAX_ITERATIONS = 50
MAX_WORSE = 6  # iterations without progress, after which rounding errors prevail

# All in double and in single precision. Residuals of rows divided by the root of their mobility, relative to
# all accelerations in the metric of the inertia: at which iterations end, and up to which they count as
# converged; the latter larger where contradictory rows add rounding errors.
ROUNDING_TOLS = (2.0**-51, 2.0**-22)
CONVERGED_TOLS = (2.0**-42, 2.0**-17)
REDUNDANT_TOLS = (2.0**-30, 2.0**-12)
# Relative errors of accelerations: up to which iterations count as converged, and up to which a quick
# solution of contradictory rows is kept as it is.
ACCURACIES = (2.0**-16, 2.0**-6)
QUICK_ACCURACIES = (2.0**-26, 2.0**-8)
# Square of a gradient, relative to that of the rows' residuals, up to which it consists of rounding errors.
STILL_TOLS = (2.0**-98, 2.0**-40)

# r -> z = (Λ⁻¹ + R)⁻¹ r, (m,), and the accelerations -M⁻¹ Jᵀ z that it causes, (nv,)
Respond = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Step = Callable[[np.ndarray], tuple[np.ndarray, Any]]


def refine(
    rows: ConstraintRows, settings: Settings, ddtheta: np.ndarray, iterated: Iterated, respond: Respond
) -> tuple[np.ndarray, Iterated]:
    """Return θ̈, (nv,), and λ after iterations of conjugate gradients, where proximal ones were slow."""
    if not settings.refines:
        return ddtheta, iterated
    lam, _, converged, count, contradictory = iterated
    quick = count <= QUICK_ITERATIONS
    kept_error = where(contradictory & quick, by_precision(ddtheta[0], *QUICK_ACCURACIES), 0.0)
    step, parts = _step(rows, settings, respond, kept_error)
    enter = where(converged & quick, 0.0, 1.0) + where(contradictory, 1.0, 0.0) > 0.0
    at_rest = np.zeros(rows.nodes.nv)
    scalars = [0.0, 0.0, 0.0, 0.0, np.inf, np.inf, np.inf, 0.0, count]
    state: list[Any] = [ddtheta, ddtheta, at_rest, at_rest, lam, lam, np.zeros(rows.m), scalars]
    x = loop(step, np.concatenate(state), limit=MAX_ITERATIONS, enter=enter)
    _, ddtheta, _, _, _, lam, _, (*_, relative, error, _, count) = np.split(x, parts)
    tolerances = CONVERGED_TOLS if settings.independent else REDUNDANT_TOLS
    accepted = relative <= by_precision(ddtheta[0], *tolerances)
    accepted = accepted & (error <= by_precision(ddtheta[0], *ACCURACIES))
    converged = where(enter, where(accepted, 1.0, 0.0), 1.0) > 0.0
    return ddtheta, iterated._replace(lam=lam, converged=converged, count=count)


def _step(rows: ConstraintRows, settings: Settings, respond: Respond, kept_error: Any) -> tuple[Step, Any]:
    """Return one iteration, and where to split its state.

    The state consists of the accelerations, the best ones so far, the direction of the step and the last
    response (nv each), λ, the best λ and the direction (m each), and scalars.
    """
    nv = rows.nodes.nv
    parts = np.cumsum([nv, nv, nv, nv, rows.m, rows.m, rows.m])

    def step(x: np.ndarray) -> tuple[np.ndarray, Any]:
        a, best_a, moved, last_dz, lam, best_lam, p, scalars = np.split(x, parts)
        slope, square, sum_p, sum_lam, smallest, relative, error, worse, count = scalars
        enough = by_precision(a[0], *ROUNDING_TOLS)
        still = by_precision(a[0], *STILL_TOLS)
        r, size = missed(rows, settings, a, lam)
        scaled = r / settings.R
        z, dz = respond(r)
        gradient = rows.joint_forces(scaled)
        new_slope = -(gradient @ dz)
        turned = maximum(-(gradient @ (dz - last_dz)), 0.0)  # Polak and Ribière: a new start by rounding
        beta = where(slope > 0.0, turned / where(slope > 0.0, slope, 1.0), 0.0)
        p = z + beta * p
        moved = dz + beta * moved
        square = maximum(new_slope, 0.0) + beta * beta * square  # of `moved`, in the metric M + Jᵀ R⁻¹ J
        sum_p = 1.0 + beta * sum_p  # contradictory rows' parts of p and λ, in r / R
        rate = rows.moved(moved)
        curvature = rate @ (rate / settings.R)
        curved = curvature > 0.0
        length = where(curved, -(gradient @ moved) / where(curved, curvature, 1.0), 0.0)

        moving = new_slope > still * (scaled @ (settings.typical_mobility * scaled))
        step_size = where(moving, settings.size(length * rate), 0.0)
        missing = settings.size(r) if settings.independent else step_size
        better = missing < 0.5 * smallest
        size = where(size > 0.0, size, 1.0)
        smallest = where(better, missing, smallest)
        relative = where(better, missing / size, relative)
        error = where(better, where(moving, absolute(length) * sqrt(square) / size, 0.0), error)
        worse = where(better, 0.0, worse + 1.0)
        best_a = _where(better, a, best_a)
        best_lam = _where(better, lam if settings.independent else lam - sum_lam * scaled, best_lam)

        again = (relative > enough) & (error > kept_error) & (worse < MAX_WORSE)
        again = again & curved & moving & (new_slope < np.inf)
        sum_lam = sum_lam + length * sum_p
        vectors = [a + length * moved, best_a, moved, dz, lam + length * p, best_lam, p]
        sums = [new_slope, square, sum_p, sum_lam, smallest, relative, error, worse, count + 1.0]
        return np.concatenate([*vectors, np.array(sums, dtype=object)]), again

    return step, parts


def missed(
    rows: ConstraintRows, settings: Settings, a: np.ndarray, lam: np.ndarray
) -> tuple[np.ndarray, Any]:
    """Return the residual J a - k, (m,), and the size of all accelerations in the metric of the inertia.

    Rounding errors of the residual are relative to that size, which includes the accelerations by forces λ
    and, of an impact, the velocities.
    """
    r: Any = -rows.k
    alpha = accelerations(rows.nodes, a)
    for k in rows.nodes.base_to_tips():
        if k in rows.K:
            r = r + rows.K[k] @ alpha[k]
        if k in rows.c:
            r = r + rows.c[k] @ a[k.dofs]
    joint_forces = rows.joint_forces(lam)
    square = _square(rows, alpha, a) + joint_forces @ (settings.typical_joint_mobility * joint_forces)
    if rows.velocities is not None:
        after = rows.velocities + a
        square = square + _square(rows, accelerations(rows.nodes, after), after)
    return r, sqrt(maximum(square, 0.0))


def _square(rows: ConstraintRows, alpha: dict[HingeNode, np.ndarray], a: np.ndarray) -> Any:
    """Return the square of accelerations α of nodes and a of joints, (nv,), in the metric of the inertia."""
    square: Any = 0.0
    for k in rows.nodes.base_to_tips():
        square = square + alpha[k] @ (k.M @ alpha[k]) + a[k.dofs] @ (k.armature @ a[k.dofs])
    return square


def _where(condition: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x or y, entry by entry."""
    return np.array([where(condition, a, b) for a, b in zip(x, y)], dtype=object)
