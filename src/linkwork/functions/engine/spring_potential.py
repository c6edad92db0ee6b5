"""Check of stiffness as an input of functions: springs of some joints have no potential."""

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


def raise_if_no_potential(caller: str, model: Model | Tree, values: Mapping[str, Any]) -> None:
    """Raise ModelError where parameters give joints a stiffness that no model may have: any to free joints,
    different numbers to spherical joints. Arrays on a GPU and symbols are not checked.
    """
    if isinstance(model, Tree):  # only the functions of its nodes give its parameters a meaning
        return
    for name, value in values.items():
        if isinstance(name, str) and name.startswith("stiffness"):
            entries = _restricted_entries(model, name)
            if entries.joints and not is_on_gpu(value) and not has_symbols(value):
                _check(caller, name, entries, as_numbers(on_host(value)))


class _Entries(NamedTuple):
    """Joints whose stiffness is restricted, and their places among the `size` entries of a parameter."""

    size: int
    joints: list[tuple[PlacedJoint, slice]]


def _restricted_entries(model: Model, name: str) -> _Entries:
    """Return the entries of joints with such springs; found once for each model and name."""
    key = ("entries of springs without potential", name)
    if key not in model.cache:
        nominal = model.nominal
        known(nominal, [name])
        where = range(nominal.nv_spanning)[entries_of(nominal, name)]
        first = where.start
        joints = [
            (joint, slice(joint.v_start - first, joint.v_start - first + joint.nv))
            for joint in nominal.joints
            if joint.kind.springs != "each" and joint.nv and joint.v_start in where
        ]
        model.cache[key] = _Entries(len(where), joints if parse(name)[0] == "stiffness" else [])
    entries: _Entries = model.cache[key]
    return entries


def _check(caller: str, name: str, entries: _Entries, numbers: np.ndarray) -> None:
    if numbers.shape[-1:] != (entries.size,):  # the kernel raises
        return
    for joint, places in entries.joints:
        stiffness = numbers[..., places]
        if not stiffness.any():
            continue
        equal = joint.kind.springs == "equal" and not any(joint.rest)
        first = stiffness[..., :1]  # rows with NaN fail alone
        wrong = ((stiffness < first) | (stiffness > first) if equal else stiffness != 0.0).any(axis=-1)
        if wrong.any():
            raise ModelError(
                f"{caller}: parameter {name!r}: expected {'equal numbers' if equal else '0'} at joint "
                f"{printable(joint.name)!r}, got {stiffness[wrong][0].tolist()}: other springs of a "
                f"{type(joint.kind).__name__} joint have no potential"
            )
