"""Public functions of energies, momenta and the center of mass."""

from __future__ import annotations

from typing import Any

from linkwork.algorithms.tree import energy
from linkwork.errors import ModelError
from linkwork.functions.engine.model_function import model_function
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.sko.prepare.trees import tree
from linkwork.spatial import is_zero


@model_function(q="nq", v="nv", custom_trees=True)
def kinetic_energy(model: Model, q: Any, v: Any) -> Any:
    """Return the kinetic energy of all bodies and armatures, (...) [J]."""
    return energy.kinetic_energy(tree(model, q), v)


@model_function(q="nq")
def potential_energy(model: Model, q: Any) -> Any:
    """Return the potential energy of gravity and of joint springs, (...) [J].

    That of gravity is zero where all mass is at the origin of the world.
    """
    return energy.potential_energy(tree(model, q))


def require_mass(model: Model, **_: Any) -> dict[str, Any]:
    """Raise ModelError if the model has no mass and so no center of mass."""
    if is_zero(model.mass):
        raise ModelError(f"{printable(model.name)} has no mass: its center of mass is undefined")
    return {}


@model_function(q="nq", options=require_mass)
def center_of_mass(model: Model, q: Any) -> Any:
    """Return the center of all moving mass in the world, (..., 3) [m]."""
    return energy.center_of_mass(tree(model, q))


@model_function(q="nq", v="nv", options=require_mass)
def momentum(model: Model, q: Any, v: Any) -> Any:
    """Return the momentum [l, p] about the center of mass in world axes, (..., 6) [kg m²/s, kg m/s]."""
    return energy.momentum(tree(model, q), v)


@model_function(q="nq", v="nv", a="nv", options=require_mass)
def momentum_rate(model: Model, q: Any, v: Any, a: Any) -> Any:
    """Return the rate of `momentum` in a motion, (..., 6) [N m, N].

    It equals the sum of all external forces, gravity included, and their moment about the center of mass.
    """
    return energy.momentum_rate(tree(model.without_passive_forces(), q, v), a)


@model_function(q="nq", options=require_mass)
def centroidal_map(model: Model, q: Any) -> Any:
    """Return the centroidal momentum matrix, (..., 6, nv), which maps v to `momentum`."""
    return energy.centroidal_map(tree(model, q))
