"""The public function of inverse dynamics with constraint forces and chosen actuators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linkwork.algorithms import constrained_inverse_dynamics as inverse
from linkwork.constraints import Constraint, total
from linkwork.errors import ModelError
from linkwork.functions.constrained import chosen_constraints
from linkwork.functions.dynamics import actuated_places, weights_of_least
from linkwork.functions.model_function import model_function
from linkwork.joints import Free
from linkwork.model import GROUND, Model


def _chosen(model: Model, constraints: Any, actuators: Any, least: Any, weights: Any) -> dict[str, Any]:
    """The constraints, the places of actuated velocities, and a weight for each of what shall be least."""
    held = chosen_constraints(model, constraints)
    places = actuated_places(model, all_but_a_free_base(model) if actuators is None else actuators)
    if not places:
        raise ModelError("actuators names no joint: with none there is nothing to find but forces")
    m = total(model, held["constraints"])
    counts = {"torque": (len(places), "actuated velocity"), "constraint_force": (m, "row of the constraints")}
    return held | {"actuators": places, "weights": weights_of_least(least, weights, counts)}


def all_but_a_free_base(model: Model) -> list[str]:
    """The independent velocities of all joints but those on which bodies float."""
    free = {name for j in model.joints if isinstance(j.kind, Free) and j.parent == GROUND for name in j.v_names}
    return [name for name in model.v_names if name not in free]


@model_function(q="nq", v="nv", a="nv", f_ext="bodies 6", options=_chosen)
def constrained_inverse_dynamics(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    f_ext: Any = None,
    *,
    constraints: Sequence[Constraint],
    actuators: Iterable[Any] | None = None,
    least: str = "torque",
    weights: Any = None,
) -> tuple[Any, ...]:
    """The forces of actuators, (..., actuators), those of constraints, (..., m), and what neither supplies, (..., nv).

    Inverse dynamics with contact forces (Lie Sec. 3.1), of a motion that the constraints allow: J a + `constraint_bias` = 0.
    `actuators` names the joints (or their velocities) that are driven, in loops or not; all others are passive, a free base
    too. By default all of `model.v_names` but a free base are driven. Constraint forces are as in `constrained_dynamics`:
    `inverse_dynamics` is what actuators do, plus Jᵀ forces, plus the third result [N m or N].

    Where forces are not unique (more contacts or motors than needed), `least` says what shall be as small as can be: the
    "torque" of actuators, or the "constraint_force"; as a sum of squares times `weights`, one for each, 1 if not given.

    The third result is zero, up to rounding, where the motion can be had. Where it cannot, there are too few actuators and
    constraints for it: forces are then those that leave as little as can be, so that passive velocities accelerate as nearly
    as prescribed as they can (in the metric of kinetic energy) while the driven ones follow.
    """
    found = inverse.constrained_inverse_dynamics(
        model, constraints, tuple(actuators or ()), q, v, a, f_ext, least, np.array(weights)
    )
    return tuple(found)
