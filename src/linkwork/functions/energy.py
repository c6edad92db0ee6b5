"""The public functions of energies, momenta and the centre of mass."""

from __future__ import annotations

from typing import Any

from linkwork.algorithms import energy
from linkwork.errors import ModelError
from linkwork.functions.model_function import model_function
from linkwork.model import Model
from linkwork.parts.names import shown
from linkwork.simplify.trees import tree
from linkwork.spatial import is_zero


@model_function(q="nq", v="nv", by_hand=True)
def kinetic_energy(model: Model, q: Any, v: Any) -> Any:
    """The kinetic energy of all bodies, and of armatures [J], (...)."""
    return energy.kinetic_energy(tree(model, q), v)


@model_function(q="nq")
def potential_energy(model: Model, q: Any) -> Any:
    """The potential energy of gravity, zero where all mass is at the world's origin, and of joint springs [J], (...)."""
    return energy.potential_energy(tree(model, q))


def with_mass(model: Model, **_: Any) -> dict[str, Any]:
    """An error where there is no mass, and so no centre of it."""
    if is_zero(model.mass):
        raise ModelError(f"{shown(model.name)} has no mass, and so no centre of mass")
    return {}


@model_function(q="nq", options=with_mass)
def center_of_mass(model: Model, q: Any) -> Any:
    """The centre of all moving mass in the world [m], (..., 3)."""
    return energy.center_of_mass(tree(model, q))


@model_function(q="nq", v="nv", options=with_mass)
def momentum(model: Model, q: Any, v: Any) -> Any:
    """[l, p] about the centre of mass, in the world's axes [kg m²/s, kg m/s], (..., 6)."""
    return energy.momentum(tree(model, q), v)


@model_function(q="nq", v="nv", a="nv", options=with_mass)
def momentum_rate(model: Model, q: Any, v: Any, a: Any) -> Any:
    """The rate of `momentum` in a motion [N m, N], (..., 6): all forces from outside, gravity included, and their moment."""
    return energy.momentum_rate(tree(model.weightless(), q, v), a)


@model_function(q="nq", options=with_mass)
def centroidal_map(model: Model, q: Any) -> Any:
    """The centroidal momentum matrix, which takes v to `momentum`, (..., 6, nv)."""
    return energy.centroidal_map(tree(model, q))
