"""Public functions of derivatives of frames, energies, momentum and the center of mass on the tangent space.

There are few outputs and many inputs, so most are differentiated in reverse mode: `jacobian_of` selects the
mode with fewer operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.algorithms.tree import energy
from linkwork.compiler.autodiff.in_trace import jacobian_of
from linkwork.functions.energy import (
    centroidal_map,
    kinetic_energy,
    momentum,
    momentum_rate,
    potential_energy,
    require_mass,
)
from linkwork.functions.engine.model_function import model_function
from linkwork.functions.engine.tangent import rates
from linkwork.functions.kinematics import (
    Frames,
    frame_acceleration,
    frame_jacobian,
    frame_velocity,
    normalize_frame,
)
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree


def _by_q(model: Model, fn: Callable[[Any], Any], q: Any) -> np.ndarray:
    """Return ∂fn/∂q on the tangent space, of shape fn(q).shape + (nv,)."""
    jacobian = np.asarray(jacobian_of(fn, q)[1], dtype=object)
    return (jacobian.reshape(-1, model.nq) @ rates(model, q)).reshape(*jacobian.shape[:-1], model.nv)


@model_function(q="nq", v="nv", options=normalize_frame)
def frame_velocity_derivatives(
    model: Model, q: Any, v: Any, *, frame: Frames, reference: str = "body"
) -> tuple[Any, Any]:
    """Return the derivatives of `frame_velocity` with respect to q and v.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : {"body", "world_aligned", "world"}
        Point and axes, as in `frame_velocity`.

    Returns
    -------
    by_q, by_v : ndarray, shape (..., 6, nv)
        Derivatives; by_q is on the tangent space, by_v is `frame_jacobian`. (..., frames, 6, nv) for a
        sequence of frames.

    Notes
    -----
    Constrained loops are not enforced: positions change joint by joint.
    """
    options = {"frame": frame, "reference": reference}
    return _by_q(model, lambda x: frame_velocity.body(model, x, v, **options), q), frame_jacobian.body(
        model, q, **options
    )


@model_function(q="nq", v="nv", a="nv", options=normalize_frame)
def frame_acceleration_derivatives(
    model: Model, q: Any, v: Any, a: Any, *, frame: Frames, reference: str = "body", classical: bool = False
) -> tuple[Any, Any, Any]:
    """Return the derivatives of `frame_acceleration` with respect to q, v and a.

    Parameters
    ----------
    q : array_like, shape (..., nq)
        Configurations.
    v : array_like, shape (..., nv)
        Velocities of the independent joints [rad/s, m/s].
    a : array_like, shape (..., nv)
        Accelerations of the independent joints [rad/s², m/s²].
    frame : str or sequence of str
        Name of a frame, link or joint, or "world".
    reference : {"body", "world_aligned", "world"}
        Point and axes, as in `frame_velocity`.
    classical : bool, optional
        Differentiate the acceleration of a point seen by an observer at rest, as in `frame_acceleration`.

    Returns
    -------
    by_q, by_v, by_a : ndarray, shape (..., 6, nv)
        Derivatives; by_q is on the tangent space, by_a is `frame_jacobian`. (..., frames, 6, nv) for a
        sequence of frames.

    Notes
    -----
    Constrained loops are not enforced: positions change joint by joint.
    """
    options: dict[str, Any] = {"frame": frame, "reference": reference}
    acceleration = frame_acceleration.body
    by_q = _by_q(model, lambda x: acceleration(model, x, v, a, **options, classical=classical), q)
    by_v = jacobian_of(lambda x: acceleration(model, q, x, a, **options, classical=classical), v)[1]
    return by_q, by_v, frame_jacobian.body(model, q, **options)


@model_function(q="nq", v="nv")
def kinetic_energy_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """Return ∂/∂q [J/rad, J/m] and ∂/∂v of `kinetic_energy`, each (..., nv); the last is M v.

    Constrained loops are open: positions change joint by joint.
    """
    by_v = jacobian_of(lambda x: kinetic_energy.body(model, q, x), v)[1]
    return _by_q(model, lambda x: kinetic_energy.body(model, x, v), q), by_v


@model_function(q="nq")
def potential_energy_derivatives(model: Model, q: Any) -> Any:
    """Return ∂/∂q of `potential_energy`, (..., nv) [J/rad, J/m]: `gravity_force` and the forces of springs.

    Constrained loops are open: positions change joint by joint.
    """
    return _by_q(model, lambda x: potential_energy.body(model, x), q)


@model_function(q="nq", options=require_mass)
def center_of_mass_jacobian(model: Model, q: Any) -> Any:
    """Return ∂/∂q of `center_of_mass`, (..., 3, nv), which maps v to its velocity [m/s]."""
    return energy.centroidal_map(tree(model, q))[3:] / model.mass


@model_function(q="nq", v="nv", options=require_mass)
def momentum_derivatives(model: Model, q: Any, v: Any) -> tuple[Any, Any]:
    """Return ∂/∂q and ∂/∂v of `momentum`, each (..., 6, nv); the last is `centroidal_map`.

    Constrained loops are open: positions change joint by joint.
    """
    return _by_q(model, lambda x: momentum.body(model, x, v), q), centroidal_map.body(model, q)


@model_function(q="nq", v="nv", a="nv", options=require_mass)
def momentum_rate_derivatives(model: Model, q: Any, v: Any, a: Any) -> tuple[Any, Any, Any]:
    """Return ∂/∂q, ∂/∂v and ∂/∂a of `momentum_rate`, each (..., 6, nv); the last is `centroidal_map`.

    These are the derivatives of the centroidal dynamics. Constrained loops are open: positions change joint
    by joint.
    """
    by_q = _by_q(model, lambda x: momentum_rate.body(model, x, v, a), q)
    by_v = jacobian_of(lambda x: momentum_rate.body(model, q, x, a), v)[1]
    return by_q, by_v, centroidal_map.body(model, q)
