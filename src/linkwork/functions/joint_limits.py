"""Joint laws that act in time steps: limits and dry friction, unless switched off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.algorithms.contact.joint_rows import limited, with_friction
from linkwork.contact import Contacts, JointLaws
from linkwork.errors import ModelError
from linkwork.functions.constrained import is_mass_matrix_candidate
from linkwork.model import Model, cached_on_model
from linkwork.sko import Tree


def check_switches(who: str, limits: Any, friction: Any) -> None:
    """Raise if `limits` or `friction` is not a truth value."""
    for name, value in (("limits", limits), ("friction", friction)):
        if not isinstance(value, (bool, np.bool_)):
            raise ModelError(f"{who}: {name}=: expected True or False, got {value!r}")


def joint_laws(model: Model | Tree, limits: bool = True, friction: bool = True) -> JointLaws | None:
    """Return the laws that act in joints without contacts; None if no limit or dry friction can act."""
    if isinstance(model, Tree):
        return None
    has_limits, has_friction = _acting(model.nominal)
    laws = JointLaws(bool(limits) and has_limits, bool(friction) and has_friction)
    return laws if laws.limits or laws.joint_friction else None


@cached_on_model
def _acting(model: Model) -> tuple[bool, bool]:
    """Return whether a model has limits, and dry friction."""
    return bool(limited(model)), bool(with_friction(model))


def switched(contacts: Contacts, limits: bool, friction: bool) -> Contacts:
    """Return contacts without limits or dry friction where these are switched off."""
    if (limits or not contacts.limits) and (friction or not contacts.joint_friction):
        return contacts
    return replace(
        contacts,
        limits=contacts.limits and bool(limits),
        joint_friction=contacts.joint_friction and bool(friction),
    )


def impulse_method(model: Model) -> str:
    """Return how responses to joint impulses are computed: "mass_matrix", or "sweeps" in deep trees."""
    return "mass_matrix" if is_mass_matrix_candidate(model.nominal) else "sweeps"
