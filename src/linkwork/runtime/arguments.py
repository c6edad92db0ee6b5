"""What a user gave a kernel, looked at again after NumPy refused it: which argument is wrong, and what would be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import DtypeError, ShapeError
from linkwork.ir.program import Array

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel


def shape_text(array: Array) -> str:
    """What shape an argument must have, in words."""
    if not array.shape:
        return "(...)"
    return f"(..., {', '.join(map(str, array.shape))})"


def explain(kernel: Kernel, args: tuple[Any, ...], out: Any, error: Exception) -> Exception:
    """The error that says which argument is wrong; NumPy's own where we find nothing."""
    inputs, outputs = kernel.inputs, kernel.outputs
    found = []
    for spec, value in zip(inputs, args, strict=False):
        array, problem = _look(kernel, spec, value)
        if problem is not None:
            return problem
        found.append(array)
    batches = [a.shape[: a.ndim - len(s.shape)] for s, a in zip(inputs, found, strict=True)]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        pairs = ", ".join(f"{s.name} {b}" for s, b in zip(inputs, batches, strict=True))
        return ShapeError(f"{kernel.name}: the batch shapes do not broadcast: {pairs}")
    outs = out if isinstance(out, tuple) else (out,)
    if out is not None and len(outs) != len(outputs):
        return ShapeError(f"{kernel.name}: out must be a tuple of {len(outputs)} arrays ({', '.join(a.name for a in outputs)})")
    for spec, value in zip(outputs, outs, strict=False):
        problem = None if value is None else look_at_output(kernel, spec, value, (*batch, *spec.shape))
        if problem is not None:
            return problem
    return error


def _look(kernel: Kernel, spec: Array, value: Any) -> tuple[np.ndarray, Exception | None]:
    try:
        array = np.asarray(value)
    except Exception as error:
        return np.empty(0), ShapeError(f"{kernel.name}: {spec.name} is no array: {error}")
    weak = type(value) in (bool, int, float) and array.dtype != object  # NumPy fits plain numbers to the kernel
    if array.dtype == object or not (weak or np.can_cast(array.dtype, kernel.dtype, "safe")):
        fitting = np.can_cast(array.dtype, kernel.dtype, "same_kind") and array.dtype != object
        hint = f"convert it with .astype({kernel.dtype!r})" if fitting else "real numbers are needed"
        return array, DtypeError(f"{kernel.name}: {spec.name} has dtype {array.dtype}, the kernel {kernel.dtype}: {hint}")
    core = array.shape[max(0, array.ndim - len(spec.shape)) :]
    if array.ndim < len(spec.shape) or core != spec.shape:
        return array, ShapeError(f"{kernel.name}: {spec.name} must have shape {shape_text(spec)}, not {array.shape}")
    return array, None


def look_at_output(kernel: Kernel, spec: Array, value: Any, shape: tuple[int, ...]) -> Exception | None:
    """What is wrong with an output array, if anything."""
    if not isinstance(value, np.ndarray):
        return DtypeError(f"{kernel.name}: output {spec.name} must be a NumPy array, not {type(value).__name__}")
    if not value.flags.writeable:
        return DtypeError(f"{kernel.name}: output {spec.name} is read-only")
    if not np.can_cast(kernel.dtype, value.dtype, "same_kind"):
        return DtypeError(f"{kernel.name}: output {spec.name} has dtype {value.dtype}, which cannot hold {kernel.dtype}")
    if value.shape != shape:
        return ShapeError(f"{kernel.name}: output {spec.name} must have shape {shape}, not {value.shape}")
    return None
