"""What the arguments of a call say: the shapes of arrays in words, where it runs, and whether it is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms import contact_rows
from linkwork.constraints import given_constraints, total
from linkwork.errors import LinkworkError
from linkwork.ir.program import DTYPES
from linkwork.ir.symbol import Symbol
from linkwork.model import Model
from linkwork.runtime.arguments import on_gpu
from linkwork.runtime.build import TARGETS

SIZES: dict[str, Callable[[Model, Mapping[str, Any]], int]] = {  # of a model and a function's options
    "nq": lambda model, _: model.nq,
    "nv": lambda model, _: model.nv,
    "nv_spanning": lambda model, _: model.nv_spanning,
    "bodies": lambda model, _: len(model.bodies),
    "rows": lambda model, options: total(model, options["constraints"]),
    "impulses": lambda model, options: contact_rows.count(model, options["contacts"]) if options["contacts"] else 0,
    "constraints": lambda model, options: len(given_constraints(model, options["constraints"])),
    "candidates": lambda model, options: len(options["contacts"].candidates(model)) if options["contacts"] else 0,
}


def shape_of(text: str, model: Model, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape that words such as "nv" or "bodies 6" mean for a model and a function's options."""
    return tuple(SIZES[word](model, options) if word in SIZES else int(word) for word in text.split())


def place_of(name: str, named: dict[str, Any], values: Iterable[Any]) -> tuple[str, str]:
    """Where a call runs, and in which dtype; takes `with_device` and `dtype` out of its named arguments.

    Arrays on a GPU are computed there, in their own dtype.
    """
    there = [x for x in values if on_gpu(x)]
    device = named.pop("with_device", None)
    if device is None:
        device = "cuda" if there else "cpu"
    if device not in TARGETS:
        raise LinkworkError(f"{name}: with_device must be one of {', '.join(TARGETS)}, not {device!r}")
    own = str(getattr(there[0], "dtype", "float64")).removeprefix("torch.") if there else "float64"
    return device, named.pop("dtype", own if own in DTYPES else "float64")


def as_numbers(value: Any) -> np.ndarray:
    """An option that must be numbers; where it is something else, NaN, which every check of it refuses."""
    try:
        given = np.asarray(value)
        return np.array(np.nan) if given.dtype.kind == "c" else given.astype(float)  # real parts alone are not what was meant
    except (TypeError, ValueError):
        return np.array(np.nan)


def has_symbols(value: Any) -> bool:
    try:
        array = np.asarray(value)  # no copy of an array of numbers, however large
    except Exception:
        return False  # no array: the kernel says which argument it is
    if array.dtype != object:
        return False
    return not array.size or any(isinstance(x, Symbol) for x in array.ravel())  # states that have no entry are traced too
