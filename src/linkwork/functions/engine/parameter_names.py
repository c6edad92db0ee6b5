"""Names, shapes and values of parameters, of models and of custom trees alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from linkwork.model import Model, parameters
from linkwork.sko import Tree


def names(model: Model | Tree) -> Collection[str]:
    """Return the kinds of parameters of a model ("mass", not "mass@link1"), or the names of a custom tree."""
    return model.own_parameters.numbers if isinstance(model, Tree) else parameters.KINDS


def known(model: Model | Tree, names: Iterable[str]) -> tuple[str, ...]:
    """Return names of parameters after checking that each is known and given once."""
    return model.own_parameters.known(names) if isinstance(model, Tree) else parameters.known(model, names)


def ordered(model: Model | Tree, names: Iterable[str]) -> tuple[str, ...]:
    """Return names of parameters in a fixed order."""
    return (
        model.own_parameters.ordered(names) if isinstance(model, Tree) else parameters.ordered(model, names)
    )


def shape_of(model: Model | Tree, name: str) -> tuple[int, ...]:
    """Return the shape of a parameter, without any batch."""
    return (
        model.own_parameters.numbers[name].shape
        if isinstance(model, Tree)
        else parameters.shape_of(model, name)
    )


def value_of(model: Model | Tree, name: str) -> Any:
    """Return the value of a parameter: symbols if it is an input of the trace, else the model's numbers."""
    if not isinstance(model, Tree):
        return parameters.value_of(model, name)
    return np.asarray(model.own_parameters.values[name], dtype=object)
