"""Check of stiffness as an input of functions: joints whose springs have no potential ignore it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.errors import ModelError
from linkwork.functions.engine.call_arguments import as_numbers, has_symbols, on_host
from linkwork.mechanism import PlacedJoint
from linkwork.mechanism.names import printable
from linkwork.model import Model
from linkwork.model.parameters import entries_of, known, parse
from linkwork.sko import Tree


def raise_if_ignored(caller: str, model: Model | Tree, values: Mapping[str, Any]) -> None:
    """Raise ModelError where parameters give stiffness to joints that can have no springs, such as free
    joints. Arrays on a GPU and symbols are not checked.
    """
    if isinstance(model, Tree):  # its parameters have no meaning but that of its nodes
        return
    for name, value in values.items():
        if isinstance(name, str) and name.startswith("stiffness"):
            entries = _springless_entries(model, name)
            if len(entries.joints) and not is_on_gpu(value) and not has_symbols(value):
                _check(caller, name, entries, as_numbers(on_host(value)))


class _Entries(NamedTuple):
    """Entries of a stiffness that joints ignore: `size` of all, where those are, and their joints."""

    size: int
    places: list[int]
    joints: list[PlacedJoint]


def _springless_entries(model: Model, name: str) -> _Entries:
    """Return the entries of joints that can have no springs; found once for each model and name."""
    key = ("springless entries", name)
    if key not in model.cache:
        nominal = model.nominal
        known(nominal, [name])
        joint_of_velocity = [joint for joint in nominal.joints for _ in range(joint.nv)]
        joints = joint_of_velocity[entries_of(nominal, name)] if parse(name)[0] == "stiffness" else []
        places = [k for k, joint in enumerate(joints) if joint.kind.springs == "none"]
        model.cache[key] = _Entries(len(joints), places, [joints[k] for k in places])
    entries: _Entries = model.cache[key]
    return entries


def _check(caller: str, name: str, entries: _Entries, numbers: np.ndarray) -> None:
    if numbers.shape[-1:] != (entries.size,):  # the kernel says so
        return
    given = numbers[..., entries.places]
    if given.any():
        *_, k = np.argwhere(given)[0]
        joint = entries.joints[k]
        raise ModelError(
            f"{caller}: parameter {name!r}: expected 0 at joint {printable(joint.name)!r}, got "
            f"{given[given != 0.0].flat[0]:g}: springs of a {type(joint.kind).__name__} joint have no "
            "potential"
        )
