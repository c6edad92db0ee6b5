"""Public function of inverse dynamics with constraint forces and selected actuators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms.constrained import constrained_inverse_dynamics as inverse
from linkwork.constraints import Constraint, total
from linkwork.errors import ModelError
from linkwork.functions.actuator_forces import actuated_indices, cost_weights
from linkwork.functions.constraint_options import normalize_constraints
from linkwork.functions.engine.model_function import model_function
from linkwork.joints import Free
from linkwork.model import GROUND, Model


def _options(model: Model, constraints: Any, actuators: Any, minimize: Any, weights: Any) -> dict[str, Any]:
    """Return constraints, indices of actuated velocities and cost weights."""
    settings = normalize_constraints(model, constraints)
    indices = actuated_indices(model, all_but_free_base(model) if actuators is None else actuators)
    if not indices:
        raise ModelError("actuators: expected at least one joint, got none")
    m = total(model, settings["constraints"])
    counts = {
        "torque": (len(indices), "actuated velocity"),
        "constraint_force": (m, "row of the constraints"),
    }
    return settings | {"actuators": indices, "weights": cost_weights(minimize, weights, counts)}


def all_but_free_base(model: Model) -> list[str]:
    """Return the independent velocities of all joints except free joints to the world."""
    free = {
        name for j in model.joints if isinstance(j.kind, Free) and j.parent == GROUND for name in j.v_names
    }
    return [name for name in model.v_names if name not in free]


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", options=_options)
def constrained_inverse_dynamics(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    f_ext: Any = None,
    *,
    constraints: Sequence[Constraint],
    actuators: Iterable[Any] | None = None,
    minimize: str = "torque",
    weights: Any = None,
) -> tuple[Any, ...]:
    """Return forces of actuators and of constraints in a motion that the constraints allow (Lie Sec. 3.1).

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²], with J a + `constraint_bias` = 0.
    f_ext : array_like, shape (..., bodies, 6), optional
        External wrench on each body, as in `inverse_dynamics`.
    constraints : Constraint or sequence
        As in `constrained_dynamics`.
    actuators : names, optional
        Driven joints or velocities, in loops or not; all others are passive. Default: all of `model.v_names`
        except a free base.
    minimize : {"torque", "constraint_force"}, optional
        Where forces are not unique (more contacts or actuators than needed), the forces whose weighted sum of
        squares is smallest. Constraint forces that no actuator feels then have the smallest sum of R forces²,
        with R the compliances of `constrained_dynamics`.
    weights : array_like, optional
        One for each actuated velocity or constraint row. Default: ones.

    Returns
    -------
    tau : ndarray, shape (..., actuators)
        Actuator forces [N m, N].
    forces : ndarray, shape (..., m)
        Constraint forces, as in `constrained_dynamics`.
    residual : ndarray, shape (..., nv)
        Joint forces that neither supplies [N m, N]: `inverse_dynamics` = actuator forces + Jᵀ forces +
        residual. Zero up to rounding where the motion is possible. Where there are too few actuators and
        constraints, forces make the residual minimal, so that passive velocities accelerate as closely as
        possible to `a` in the kinetic-energy metric while driven ones follow it.

    See Also
    --------
    spanning_hybrid_dynamics : Active and passive joints of embedded loops.
    """
    results = inverse.constrained_inverse_dynamics(
        model, constraints, tuple(actuators or ()), q, v, a, f_ext, minimize, np.array(weights)
    )
    return tuple(results)
