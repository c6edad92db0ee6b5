"""Matching of joints by name between models of different software, and arrays of states."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.joints import Free, Joint
from linkwork.mechanism.names import printable
from linkwork.model import Model, PlacedJoint


class PeerJoint(NamedTuple):
    """A joint of a model of other software: its name and kind there, and its first entries in q and v."""

    name: str
    kind: str
    q: int
    v: int


def matched(
    model: Model,
    theirs: Sequence[PeerJoint],
    kinds: Mapping[str, type[Joint]],
    peer: str,
    ignored: Container[str] = (),
) -> list[tuple[PlacedJoint, PeerJoint]]:
    """Return the pairs of joints of both models with the same name; raise ModelError if any is unmatched.

    Free joints often have no name: if each model has one free joint, these two match.

    Parameters
    ----------
    model : Model
        Model of linkwork.
    theirs : sequence of PeerJoint
        Joints of the other model.
    kinds : mapping of str to type
        Joint class of linkwork for each kind of the other software.
    peer : str
        Name of the other software, for messages.
    ignored : container of str
        Joints of linkwork without a counterpart.
    """
    names = {ours.name for ours in model.joints}
    free_here = [ours for ours in model.joints if isinstance(ours.kind, Free)]
    free_there = [joint for joint in theirs if kinds.get(joint.kind) is Free]
    by_name = {joint.name: joint for joint in theirs}
    if len(free_here) == len(free_there) == 1 and free_there[0].name not in names:
        by_name[free_here[0].name] = by_name.pop(free_there[0].name)
    pairs = []
    for ours in model.joints:
        if ours.name in ignored:
            continue
        result = by_name.pop(ours.name, None)
        if result is None:
            raise ModelError(f"joint {ours.name!r} of {printable(model.name)} is not in the {peer} model")
        if kinds.get(result.kind) is not type(ours.kind):
            kind_name = type(ours.kind).__name__
            raise ModelError(
                f"joint {ours.name!r} is {kind_name} in {printable(model.name)}, but {result.kind} in the "
                f"{peer} model"
            )
        pairs.append((ours, result))
    for name in by_name:
        raise ModelError(f"joint {name!r} of the {peer} model is not in {printable(model.name)}")
    return pairs


def rows(x: Any, n: int, label: str) -> np.ndarray:
    """Return an array of numbers with shape (..., n)."""
    array = np.asarray(x, dtype=float)
    if array.ndim == 0 or array.shape[-1] != n:
        raise ShapeError(f"{label}: expected shape (..., {n}), got {array.shape}")
    return array


def unit_quaternions(q: np.ndarray) -> np.ndarray:
    """Return quaternions of any non-zero length scaled to unit length, (..., 4); NaN for others."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, exponents = np.frexp(np.abs(q).max(axis=-1, keepdims=True))
        scaled = np.ldexp(q, -exponents)  # so that no square overflows or underflows
        x, y, z, w = np.moveaxis(scaled, -1, 0)  # summed in one order, for one state and for many
        unit: np.ndarray = scaled / np.sqrt(x * x + y * y + z * z + w * w)[..., None]
    return unit
