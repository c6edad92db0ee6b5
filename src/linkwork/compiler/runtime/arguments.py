"""Checks of kernel arguments, with errors that name the invalid argument.

A call is examined in detail only after NumPy rejected it. Masks and missing values, which NumPy accepts
silently, are rejected before.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.ir.program import Array
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import DtypeError, LinkworkError, OverlapError, ShapeError

if TYPE_CHECKING:
    from linkwork.compiler.runtime.kernel import Kernel

MAX_OVERLAP_WORK = 1_000_000  # candidates for a common byte of two arrays that are examined
_PLAIN = {np.ndarray, float, int, bool, np.float64, np.float32}  # types without masks or missing values
MAX_DIMENSIONS = 64  # of a NumPy array; for a generalised ufunc, of all outputs together plus the batch


def argument_names(kernel: Kernel) -> list[str]:
    """Return the names of a kernel's inputs, changed where Python does not allow them as parameters."""
    names: list[str] = []
    for array in kernel.inputs:
        name = array.name
        while keyword.iskeyword(name) or name in ("self", "out", "threads", *names) or name.startswith("__"):
            name = name.lstrip("_") + "_"
        names.append(name)
    return names


def shape_text(array: Array) -> str:
    """Return the required shape of an argument as text."""
    if not array.shape:
        return "(...)"
    return f"(..., {', '.join(map(str, array.shape))})"


def explain(kernel: Kernel, args: tuple[Any, ...], out: Any, error: Exception) -> Exception:
    """Return an error that names the invalid argument, or the original error if all arguments are valid."""
    if isinstance(error, LinkworkError):
        return error
    reraise_signal(error)
    try:
        check_call(kernel, args, out)
    except LinkworkError as explanation:
        reraise_signal(explanation)
        return explanation
    return error


def check_call(kernel: Kernel, args: tuple[Any, ...], out: Any) -> tuple[int, ...]:
    """Return the batch shape of a call with all its inputs; raise if an argument is invalid."""
    inputs = kernel.inputs
    outputs = kernel.outputs
    arrays = [_input(kernel, spec, value) for spec, value in zip(inputs, args, strict=True)]
    batches = [a.shape[: a.ndim - len(s.shape)] for s, a in zip(inputs, arrays, strict=True)]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError as error:
        reraise_signal(error)
        pairs = ", ".join(f"{s.name} {b}" for s, b in zip(inputs, batches, strict=True))
        raise ShapeError(f"{kernel.name}: the batch shapes do not broadcast: {pairs}") from None
    output_dimensions = sum(len(spec.shape) for spec in outputs)
    if len(batch) + output_dimensions > MAX_DIMENSIONS:
        raise ShapeError(
            f"{kernel.name}: expected at most {MAX_DIMENSIONS - output_dimensions} batch dimensions beside "
            f"the {output_dimensions} of the outputs, got {len(batch)}"
        )
    if out is None:
        return batch
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(outputs):
        names = ", ".join(a.name for a in outputs)
        raise ShapeError(f"{kernel.name}: out: expected a tuple of {len(outputs)} arrays ({names})")
    for spec, value in zip(outputs, outs, strict=True):
        if value is not None:
            check_output(kernel, spec, value, (*batch, *spec.shape))
    return batch


def _input(kernel: Kernel, spec: Array, value: Any) -> np.ndarray:
    array = numbers(kernel, spec, value)
    core = array.shape[max(0, array.ndim - len(spec.shape)) :]
    if array.ndim < len(spec.shape) or core != spec.shape:
        raise ShapeError(f"{kernel.name}: {spec.name}: expected shape {shape_text(spec)}, got {array.shape}")
    return array


def numbers(kernel: Kernel, spec: Array, value: Any) -> np.ndarray:
    """Return the value of an input as an array that the kernel accepts."""
    reject_missing(kernel, spec.name, value)
    try:
        array = np.asarray(value)
    except Exception as error:
        reraise_signal(error)
        raise ShapeError(f"{kernel.name}: {spec.name} is not an array: {error}") from None
    fitting = np.can_cast(array.dtype, kernel.dtype, "same_kind") and array.dtype != object
    # NumPy converts Python numbers to the kernel's dtype, and an empty array has no digits to lose
    weak = (type(value) in (bool, int, float) and array.dtype != object) or (spec.size == 0 and fitting)
    if array.dtype == object or not (weak or np.can_cast(array.dtype, kernel.dtype, "safe")):
        hint = f"convert it with .astype({kernel.dtype!r})" if fitting else "real numbers are needed"
        raise DtypeError(
            f"{kernel.name}: {spec.name}: expected dtype {kernel.dtype}, got {array.dtype}; {hint}"
        )
    return array


def check_output(kernel: Kernel, spec: Array, value: Any, shape: tuple[int, ...]) -> None:
    """Raise if an output array is invalid."""
    label = f"{kernel.name}: output {spec.name}"
    if not isinstance(value, np.ndarray):
        raise DtypeError(f"{label}: expected a NumPy array, got {type(value).__name__}")
    reject_missing(kernel, f"output {spec.name}", value)
    if not value.flags.writeable:
        raise DtypeError(f"{label} is read-only")
    if not np.can_cast(kernel.dtype, value.dtype, "same_kind"):
        raise DtypeError(f"{label}: expected dtype {kernel.dtype}, got {value.dtype}")
    if value.shape != shape:
        raise ShapeError(f"{label}: expected shape {shape}, got {value.shape}")


def reject_masks(kernel: Kernel, args: tuple[Any, ...], out: Any = None) -> None:
    """Raise if an argument or output of a call is masked or has missing values."""
    for spec, value in zip(kernel.inputs, args, strict=True):
        reject_missing(kernel, spec.name, value)
    for spec, value in zip(kernel.outputs, out if isinstance(out, tuple) else (out,), strict=False):
        reject_missing(kernel, f"output {spec.name}", value)


def reject_overlap(kernel: Kernel, out: Any) -> None:
    """Raise if outputs share memory with each other, or the entries of one output do.

    NumPy copies an input that shares memory with an output, but does not check outputs: the last one written
    would overwrite the others.
    """
    if isinstance(out, np.ndarray):
        if not out.flags.forc:
            _reject_repeated(kernel, kernel.outputs[0].name, out)
        return
    if not isinstance(out, tuple) or (all(map(_owns_memory, out)) and len(set(map(id, out))) == len(out)):
        return
    outputs = [
        (spec.name, x) for spec, x in zip(kernel.outputs, out, strict=False) if isinstance(x, np.ndarray)
    ]
    for k, (name, array) in enumerate(outputs):
        _reject_repeated(kernel, name, array)
        for other, before in outputs[:k]:
            if share_memory(array, before):
                raise OverlapError(
                    f"{kernel.name}: output {name} shares memory with {other}; pass separate arrays"
                )


def _owns_memory(array: Any) -> bool:
    """Return True for a contiguous array with its own memory, which only its views can share."""
    return isinstance(array, np.ndarray) and array.flags.owndata and array.flags.forc


def share_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two arrays have a byte in common, or if that is too expensive to decide."""
    if not np.may_share_memory(a, b):
        return False
    try:
        # the stub of NumPy allows no other bounds
        return np.shares_memory(a, b, max_work=MAX_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _reject_repeated(kernel: Kernel, name: str, array: np.ndarray) -> None:
    if repeats_memory(array):
        raise OverlapError(
            f"{kernel.name}: several entries of output {name} have the same memory (shape {array.shape}, "
            f"strides {array.strides}); pass an array with its own memory, such as its .copy()"
        )


def repeats_memory(array: np.ndarray) -> bool:
    """Return True if several entries of an array have a byte in common."""
    if array.flags.forc or array.size < 2:
        return False
    axes = sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape) if size > 1)
    reach = array.itemsize  # bytes from the first of those on the axes so far to the end of the last
    for stride, size in axes:
        if stride < reach:
            return axes[0][0] < array.itemsize or _entries_meet(axes, array.itemsize)
        reach += stride * (size - 1)
    return False


def _entries_meet(axes: list[tuple[int, int]], itemsize: int) -> bool:
    """Return True if entries are closer together than their size, by the strides and sizes of all axes."""
    offsets = np.zeros(1, dtype=np.int64)
    for stride, size in axes:
        offsets = np.add.outer(offsets, stride * np.arange(size)).ravel()
    return bool((np.diff(np.sort(offsets)) < itemsize).any())


def is_on_gpu(value: Any) -> bool:
    """Return True for an array on a GPU."""
    if type(value) in _PLAIN:
        return False
    try:
        return hasattr(value, "__cuda_array_interface__")
    except Exception as error:  # a property of a foreign class may raise anything
        reraise_signal(error)
        return True


def reject_missing(kernel: Kernel, name: str, value: Any) -> None:
    """Raise if a value is masked, has missing values, or lies on a GPU."""
    if is_on_gpu(value):
        raise DtypeError(
            f"{kernel.name}: {name} is on a GPU and this kernel on the CPU; compile it with target='cuda'"
        )
    problem = missing(value)
    if problem is not None:
        raise DtypeError(f"{kernel.name}: {name} {problem} (np.nan in a row gives NaN in that row only)")


def missing(value: Any, depth: int = MAX_DIMENSIONS) -> str | None:
    """Return a description of the mask or the missing values of an argument, or None if it has neither."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, (list, tuple)):
        if depth == 0 or set(map(type, value)) <= _PLAIN:
            return None
        return next(
            (p.replace("is a", "holds a", 1) for p in (missing(v, depth - 1) for v in value) if p), None
        )
    if isinstance(value, np.ndarray):  # masked arrays of NumPy and similar classes
        masked = hasattr(value, "mask") and hasattr(value, "filled")
        return "is a masked array; pass numbers, such as .filled(np.nan)" if masked else None
    if type(value).__name__ == "NAType" or (callable(getattr(value, "isna", None)) and _has_na(value)):
        return "has missing values; pass numbers, such as .to_numpy(float, na_value=np.nan)"
    return None


def _has_na(value: Any) -> bool:
    """Return True for a pandas object with missing values in a dtype that is not NumPy's.

    In NumPy's dtypes they are NaN already.
    """
    dtypes = [value.dtype] if hasattr(value, "dtype") else list(getattr(value, "dtypes", [None]))
    return not all(isinstance(d, np.dtype) for d in dtypes) and bool(np.any(np.asarray(value.isna())))
