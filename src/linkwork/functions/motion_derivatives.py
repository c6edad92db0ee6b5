"""The public functions of derivatives of frames, energies, momentum and the centre of mass, on the tangent space.

There are few outputs and many inputs, so most are made in reverse mode: `jacobian_of` takes the mode with fewer operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms import energy
from linkwork.functions.energy import (
    centroidal_map,
    kinetic_energy,
    momentum,
    momentum_rate,
    potential_energy,
    with_mass,
)
from linkwork.functions.kinematics import Frames, chosen_frame, frame_acceleration, frame_jacobian, frame_velocity
from linkwork.functions.model_function import model_function
from linkwork.functions.tangent import rates
from linkwork.model import Model
from linkwork.passes.differentiate import jacobian_of
from linkwork.simplify.trees import tree


def _by_q(model: Model, fn: Callable[[Any], Any], q: Any) -> np.ndarray:
    """∂fn/∂q on the tangent space, of shape fn(q).shape + (nv,)."""
    found = np.asarray(jacobian_of(fn, q)[1], dtype=object)
    return (found.reshape(-1, model.nq) @ rates(model, q)).reshape(*found.shape[:-1], model.nv)


@model_function(q="nq", v="nv", options=chosen_frame)
def frame_velocity_derivatives(model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body") -> tuple[Any, Any]:
    """∂/∂q and ∂/∂v, the Jacobian, of `frame_velocity`, each (..., 6, nv), or of several frames, (..., frames, 6, nv)."""
    how = {"frame": frame, "reference": reference}
    return _by_q(model, lambda x: frame_velocity.body(model, x, v, **how), q), frame_jacobian.body(model, q, **how)


@model_function(q="nq", v="nv", a="nv", options=chosen_frame)
def frame_acceleration_derivatives(
    model: Model, q: Any, v: Any, a: Any, *, frame: Frames, reference: str = "body", classical: bool = False
) -> tuple[Any, Any, Any]:
    """∂/∂q, ∂/∂v and ∂/∂a of `frame_acceleration`, each (..., 6, nv), or of several frames, (..., frames, 6, nv).

    The last is the Jacobian. `reference` and `classical` as there.
    """
    how: dict[str, Any] = {"frame": frame, "reference": reference}
    acceleration = frame_acceleration.body
    by_q = _by_q(model, lambda x: acceleration(model, x, v, a, **how, classical=classical), q)
    by_v = jacobian_of(lambda x: acceleration(model, q, x, a, **how, classical=classical), v)[1]
    return by_q, by_v, frame_jacobian.body(model, q, **how)


@model_function(q="nq", v="nv")
def kinetic_energy_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """∂/∂q [J/rad or J/m] and ∂/∂v of `kinetic_energy`, each (..., nv); the last is M v, the generalised momentum."""
    by_v = jacobian_of(lambda x: kinetic_energy.body(model, q, x), v)[1]
    return _by_q(model, lambda x: kinetic_energy.body(model, x, v), q), by_v


@model_function(q="nq")
def potential_energy_derivatives(model: Model, q: Any) -> Any:
    """∂/∂q of `potential_energy` [J/rad or J/m], (..., nv): `gravity_force` and the forces of springs."""
    return _by_q(model, lambda x: potential_energy.body(model, x), q)


@model_function(q="nq", options=with_mass)
def center_of_mass_jacobian(model: Model, q: Any) -> Any:
    """∂/∂q of `center_of_mass`, (..., 3, nv): its velocity [m/s] is this times v."""
    return energy.centroidal_map(tree(model, q))[3:] / model.mass


@model_function(q="nq", v="nv", options=with_mass)
def momentum_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """∂/∂q and ∂/∂v of `momentum`, each (..., 6, nv); the last is `centroidal_map`."""
    return _by_q(model, lambda x: momentum.body(model, x, v), q), centroidal_map.body(model, q)


@model_function(q="nq", v="nv", a="nv", options=with_mass)
def momentum_rate_derivatives(model: Model, q: Any, v: Any, a: Any) -> tuple[Any, Any, Any]:
    """∂/∂q, ∂/∂v and ∂/∂a of `momentum_rate`, each (..., 6, nv): the centroidal dynamics; the last is `centroidal_map`."""
    by_q = _by_q(model, lambda x: momentum_rate.body(model, x, v, a), q)
    by_v = jacobian_of(lambda x: momentum_rate.body(model, q, x, a), v)[1]
    return by_q, by_v, centroidal_map.body(model, q)
