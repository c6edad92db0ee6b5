"""Arguments of a call: shapes of arrays, device and dtype, and whether they are traced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from linkwork.algorithms.contact import rows as contact_rows
from linkwork.compiler.ir.program import DTYPES
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.compiler.runtime.build import TARGETS
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.constraints import total, user_constraints
from linkwork.errors import LinkworkError
from linkwork.model import Model

# word of a shape -> its size, from a model and the options of a function
SIZES: dict[str, Callable[[Model, Mapping[str, Any]], int]] = {
    "nq": lambda model, _: model.nq,
    "nv": lambda model, _: model.nv,
    "nv_spanning": lambda model, _: model.nv_spanning,
    "bodies": lambda model, _: len(model.bodies),
    "rows": lambda model, options: total(model, options["constraints"]),
    "impulses": lambda model, options: (
        contact_rows.count(model, options["contacts"]) if options["contacts"] else 0
    ),
    "motors": lambda _, options: len(options["actuators"]),
    "constraints": lambda model, options: len(user_constraints(model, options["constraints"])),
    "candidates": lambda model, options: (
        len(options["contacts"].candidates(model)) if options["contacts"] else 0
    ),
}


def shape_of(text: str, model: Model, options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape denoted by a text such as "nv" or "bodies 6", for a model and options."""
    return tuple(SIZES[word](model, options) if word in SIZES else int(word) for word in text.split())


def resolve_device(name: str, named: dict[str, Any], values: Iterable[Any]) -> tuple[str, str]:
    """Return the device and dtype of a call; remove both from its named arguments.

    By default, arrays on a GPU select that GPU and their own dtype, and others the CPU and float64.
    """
    device_arrays = [x for x in values if is_on_gpu(x)]
    device = named.pop("device", None)
    if device is None:
        device = "cuda" if device_arrays else "cpu"
    if not isinstance(device, str) or device not in TARGETS:
        raise LinkworkError(f"{name}: device: expected one of {', '.join(TARGETS)}, got {device!r}")
    dtype = (
        str(getattr(device_arrays[0], "dtype", "float64")).removeprefix("torch.")
        if device_arrays
        else "float64"
    )
    return device, named.pop("dtype", dtype if dtype in DTYPES else "float64")


def as_numbers(value: Any) -> np.ndarray:
    """Return an option as a float array; NaN, which every check rejects, if it is not numeric."""
    try:
        array = np.asarray(value)
        # astype would drop imaginary parts
        return np.array(np.nan) if array.dtype.kind == "c" else array.astype(float)
    except (TypeError, ValueError) as error:
        reraise_signal(error)
        return np.array(np.nan)


def on_host(value: Any) -> Any:
    """Return an array of another library as one that NumPy can read."""
    if type(value).__module__.startswith(("cupy", "linkwork")):
        return value.get() if is_on_gpu(value) else value
    return value.detach().cpu() if hasattr(value, "detach") else value


def has_symbols(value: Any) -> bool:
    """Return True if an argument must be traced: it contains symbols, or is an empty object array."""
    try:
        array = np.asarray(value)  # no copy of an array of numbers, however large
    except Exception as error:
        reraise_signal(error)
        return False  # not an array: the kernel raises and names the argument
    if array.dtype != object:
        return False
    return not array.size or any(isinstance(x, Symbol) for x in array.ravel())
