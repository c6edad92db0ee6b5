"""Coordinates of single parameters, such as "mass@link3" or "center@link3.x"."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.errors import ModelError
from linkwork.identification import coordinates as maps
from linkwork.identification.coordinates import Coordinates
from linkwork.identification.sizes import POSES, Scales, natural_sizes
from linkwork.model import Model
from linkwork.model.parameters import KINDS, value_of

POSE = ("x", "y", "z", "rx", "ry", "rz")


def block_of(model: Model, name: str, entries: str | list[str], scales: Scales) -> Coordinates:
    """Return the coordinates of one parameter."""
    kind, _, who = name.partition("@")
    if kind == "delay":
        size = np.full(1, scales.time)
        return maps.plain(name, (name,), np.zeros(1), np.zeros(1, dtype=int), 0.0, size)
    sizes = natural_sizes(model, name, scales)
    nominal = value_of(model, name).astype(float).ravel()
    if kind == "mass":
        if not nominal[0] > 0.0:
            raise ModelError(f"{name}: expected a positive mass in the model, got {nominal[0]:g}")
        return maps.logarithm(name, nominal, sizes)
    if kind == "inertia":
        if entries != "all":
            raise ModelError(f"{name}: the six moments vary together; name {name!r}, not one entry")
        try:
            return maps.moment_of_inertia(name, nominal, sizes)
        except ModelError as error:
            raise ModelError(
                f"{name}: the model's moment of inertia is not that of a solid body: {error}"
            ) from None
    labels = _labels(model, kind, who, name)
    selected_labels = list(labels) if entries == "all" else [f"{name}.{entry}" for entry in entries]
    for label in selected_labels:
        if label not in labels:
            raise ModelError(
                f"{name} has no entry {label[len(name) + 1 :]!r}; expected one of {', '.join(labels)}"
            )
    places = np.array([labels.index(label) for label in selected_labels], dtype=int)
    if kind in POSES:
        return maps.placement(name, tuple(selected_labels), nominal, places, sizes[places])
    if kind == "friction" and not (nominal[places] > 0.0).all():
        raise ModelError(
            f"{name}: the model has no dry friction there, so that steps have no row for it; "
            "start from model.with_parameters({...}) with a friction above 0"
        )
    largest_step = _radius(model, who) if kind == "center" else np.inf
    least = KINDS[kind].minimum
    return maps.plain(name, tuple(selected_labels), nominal, places, least, sizes[places], largest_step)


def _radius(model: Model, body: str) -> float:
    """Return the radius of gyration of a body about its centre of mass,
    or infinity where the model has none.
    """
    mass, moments = (value_of(model, f"{name}@{body}").astype(float) for name in ("mass", "inertia"))
    radius = float(np.sqrt(moments.ravel()[:3].sum() / 2.0 / mass)) if mass > 0.0 else 0.0
    return radius or np.inf


def _labels(model: Model, kind: str, who: str, name: str) -> list[str]:
    """Return labels of all entries of a parameter."""
    of = KINDS[kind].owner_kind
    if kind == "loop_placement":
        return [f"{name}.{end}.{axis}" for end in ("predecessor", "successor") for axis in POSE]
    if kind in POSES:
        return [f"{name}.{axis}" for axis in POSE]
    if of == "velocity":
        joint = model.joint(who)
        return [name] if joint.nv == 1 else [f"{name}.{k}" for k in range(joint.nv)]
    if of == "term":
        loop: Any = next(loop for loop in model.loops if loop.name == who)
        return [f"{name}.{model.joints[term[0]].name}" for term in loop.terms]
    return [f"{name}.{axis}" for axis in maps.AXES]
