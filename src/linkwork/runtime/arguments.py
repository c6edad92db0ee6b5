"""What a user gave a kernel: which argument is wrong, and what would be right.

A call is looked at again only after NumPy refused it. What NumPy would not refuse is looked for before: masks, behind which
lie numbers that nobody meant.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import DtypeError, LinkworkError, ShapeError
from linkwork.ir.program import Array

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel

_PLAIN = {np.ndarray, float, int, bool, np.float64, np.float32}  # types that hide nothing
MOST_DIMENSIONS = 64  # of a NumPy array; of all outputs of a generalised ufunc together, with those of the batch


def argument_names(kernel: Kernel) -> list[str]:
    """The names of a kernel's inputs as Python takes them for parameters."""
    names: list[str] = []
    for array in kernel.inputs:
        name = array.name
        while keyword.iskeyword(name) or name in ("self", "out", "threads", *names) or name.startswith("__"):
            name = name.lstrip("_") + "_"
        names.append(name)
    return names


def shape_text(array: Array) -> str:
    """What shape an argument must have, in words."""
    if not array.shape:
        return "(...)"
    return f"(..., {', '.join(map(str, array.shape))})"


def explain(kernel: Kernel, args: tuple[Any, ...], out: Any, error: Exception) -> Exception:
    """The error that says which argument is wrong; the given one where we find nothing."""
    if isinstance(error, LinkworkError):
        return error
    try:
        check_call(kernel, args, out)
    except LinkworkError as found:
        return found
    return error


def check_call(kernel: Kernel, args: tuple[Any, ...], out: Any) -> tuple[int, ...]:
    """The batch dimensions of a call with as many arguments as there are inputs; an error where something is wrong with it."""
    inputs, outputs = kernel.inputs, kernel.outputs
    found = [_input(kernel, spec, value) for spec, value in zip(inputs, args, strict=True)]
    batches = [a.shape[: a.ndim - len(s.shape)] for s, a in zip(inputs, found, strict=True)]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        pairs = ", ".join(f"{s.name} {b}" for s, b in zip(inputs, batches, strict=True))
        raise ShapeError(f"{kernel.name}: the batch shapes do not broadcast: {pairs}") from None
    own = sum(len(spec.shape) for spec in outputs)
    if len(batch) + own > MOST_DIMENSIONS:
        raise ShapeError(
            f"{kernel.name}: its outputs have {own} dimensions in all, so a batch can have {MOST_DIMENSIONS - own}, "
            f"not {len(batch)}"
        )
    if out is None:
        return batch
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(outputs):
        names = ", ".join(a.name for a in outputs)
        raise ShapeError(f"{kernel.name}: out must be a tuple of {len(outputs)} arrays ({names})")
    for spec, value in zip(outputs, outs, strict=True):
        if value is not None:
            check_output(kernel, spec, value, (*batch, *spec.shape))
    return batch


def _input(kernel: Kernel, spec: Array, value: Any) -> np.ndarray:
    array = numbers(kernel, spec, value)
    core = array.shape[max(0, array.ndim - len(spec.shape)) :]
    if array.ndim < len(spec.shape) or core != spec.shape:
        raise ShapeError(f"{kernel.name}: {spec.name} must have shape {shape_text(spec)}, not {array.shape}")
    return array


def numbers(kernel: Kernel, spec: Array, value: Any) -> np.ndarray:
    """What was given for an input, as an array whose numbers the kernel can take."""
    refuse_missing(kernel, spec.name, value)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ShapeError(f"{kernel.name}: {spec.name} is no array: {error}") from None
    fitting = np.can_cast(array.dtype, kernel.dtype, "same_kind") and array.dtype != object
    # NumPy fits plain numbers to the kernel, and where there are no numbers, none can lose digits
    weak = (type(value) in (bool, int, float) and array.dtype != object) or (spec.size == 0 and fitting)
    if array.dtype == object or not (weak or np.can_cast(array.dtype, kernel.dtype, "safe")):
        hint = f"convert it with .astype({kernel.dtype!r})" if fitting else "real numbers are needed"
        raise DtypeError(f"{kernel.name}: {spec.name} has dtype {array.dtype}, the kernel {kernel.dtype}: {hint}")
    return array


def check_output(kernel: Kernel, spec: Array, value: Any, shape: tuple[int, ...]) -> None:
    """Raise what is wrong with an output array, if anything."""
    what = f"{kernel.name}: output {spec.name}"
    if not isinstance(value, np.ndarray):
        raise DtypeError(f"{what} must be a NumPy array, not {type(value).__name__}")
    refuse_missing(kernel, f"output {spec.name}", value)
    if not value.flags.writeable:
        raise DtypeError(f"{what} is read-only")
    if not np.can_cast(kernel.dtype, value.dtype, "same_kind"):
        raise DtypeError(f"{what} has dtype {value.dtype}, which cannot hold {kernel.dtype}")
    if value.shape != shape:
        raise ShapeError(f"{what} must have shape {shape}, not {value.shape}")


def refuse_masks(kernel: Kernel, args: tuple[Any, ...], out: Any = None) -> None:
    """An error where an argument or output of a call hides something."""
    for spec, value in zip(kernel.inputs, args, strict=True):
        refuse_missing(kernel, spec.name, value)
    for spec, value in zip(kernel.outputs, out if isinstance(out, tuple) else (out,), strict=False):
        refuse_missing(kernel, f"output {spec.name}", value)


def on_gpu(value: Any) -> bool:
    """Whether something is an array on a GPU."""
    try:
        return type(value) not in _PLAIN and hasattr(value, "__cuda_array_interface__")
    except Exception:  # a property of someone else's may raise anything
        return True


def refuse_missing(kernel: Kernel, name: str, value: Any) -> None:
    """An error where a value has a mask, numbers that are missing, or lies on a GPU: rows cannot be computed from that."""
    if on_gpu(value):
        raise DtypeError(f"{kernel.name}: {name} is on a GPU, and this kernel on the CPU: compile it with target='cuda'")
    problem = missing(value)
    if problem is not None:
        raise DtypeError(f"{kernel.name}: {name} {problem} (np.nan in a row gives NaN in that row only)")


def missing(value: Any, depth: int = MOST_DIMENSIONS) -> str | None:
    """What is wrong with a value that has a mask, or numbers that are missing; None where it has neither."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, (list, tuple)):
        if depth == 0 or set(map(type, value)) <= _PLAIN:
            return None
        return next((p.replace("is a", "holds a", 1) for p in (missing(v, depth - 1) for v in value) if p), None)
    if isinstance(value, np.ndarray):  # np.ma's and those that are made like them
        masked = hasattr(value, "mask") and hasattr(value, "filled")
        return "is a masked array: give numbers, such as .filled(np.nan)" if masked else None
    if type(value).__name__ == "NAType" or (callable(getattr(value, "isna", None)) and _has_na(value)):
        return "has missing values: give numbers, such as .to_numpy(float, na_value=np.nan)"
    return None


def _has_na(value: Any) -> bool:
    """Whether something of pandas has missing values in a dtype that is not NumPy's; in NumPy's they are NaN already."""
    dtypes = [value.dtype] if hasattr(value, "dtype") else list(getattr(value, "dtypes", [None]))
    return not all(isinstance(d, np.dtype) for d in dtypes) and bool(np.any(np.asarray(value.isna())))
