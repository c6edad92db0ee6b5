"""Calls of kernels: one state in plain arrays without NumPy's overhead; others go to the ufunc.

Arguments with masks are rejected on that path, errors name the argument, and large results are written to
recycled memory.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.arguments import argument_names, explain, reject_masks, reject_overlap
from linkwork.compiler.runtime.native import FAST_CALL, address_of, make_builtin, numpy_function
from linkwork.compiler.runtime.results import MIN_BYTES, POOL
from linkwork.compiler.runtime.threads import checked_threads, using_threads
from linkwork.compiler.targets.cpu import direct as layout

if TYPE_CHECKING:
    from linkwork.compiler.runtime.kernel import Kernel

_EMPTY = 184  # slot of PyArray_Empty in NumPy's array API table
_SCALARS = (float, int, bool, np.float64, np.float32)


class Table(np.ndarray):
    """Words that compiled code reads, with references to the objects that must outlive them."""

    keep: Any


def make_direct(kernel: Kernel, address: int) -> Any:
    """Return the fastest call of a kernel with arguments."""
    call = make_guarded(kernel)
    if not (layout.has_direct(kernel.inputs, kernel.outputs) and arrays_lie_as_expected()):
        return call
    dtype = np.dtype(kernel.dtype)
    words = [
        id(np.ndarray), id(dtype), address_of(ctypes.pythonapi.Py_IncRef),
        numpy_function("_ARRAY_API", _EMPTY),
        kernel.data_address, id(call), address_of(ctypes.pythonapi.PyObject_Vectorcall),
    ]  # fmt: skip
    table = np.array(words, dtype=np.int64).view(Table)
    direct = make_builtin(address, table, kernel.name, f"{kernel.name}{kernel.signature}", FAST_CALL)
    table.keep = (kernel, dtype, call)
    return direct


def make_guarded(kernel: Kernel) -> Any:
    """Return a call of a kernel's ufunc that rejects masks, recycles memory and explains errors of NumPy."""
    names = argument_names(kernel)
    parameters = ", ".join(names)
    text = f"""
def call({parameters}, /):
    if {plain_text(names)}:
        __large = {large_text(kernel, names)}
    else:
        __reject_masks(__kernel, ({parameters},))
        __large = True
    try:
        if __large:
            return __ufunc({parameters}, out=__results(({parameters},)))
        return __ufunc({parameters})
    except (__TypeError, __ValueError) as __error:
        raise __explain(__kernel, ({parameters},), None, __error) from None
"""
    scope: dict[str, Any] = {  # no input name starts with two underscores
        "__kernel": kernel, "__ufunc": kernel.ufunc, "__results": make_results(kernel),
        "__reject_masks": reject_masks, "__explain": explain,
        "__ndarray": np.ndarray, "__TypeError": TypeError, "__ValueError": ValueError,
    }  # fmt: skip
    exec(text, scope)
    scope["call"].__qualname__ = kernel.name
    return scope["call"]


def make_call(kernel: Kernel) -> Any:
    """Return the function behind `kernel(...)`, generated for its arguments to avoid packing them."""
    names = argument_names(kernel)
    parameters = ", ".join(names)
    # one output is passed by position, which is faster in NumPy than by name
    out_argument = (
        "out[0] if out.__class__ is ().__class__ and out.__len__() == 1 else out"
        if len(kernel.outputs) == 1
        else "out=out"
    )
    text = f"""
def __call__(self, {parameters}, *, out=None, threads=None):
    try:
        if threads is None and out is None:
            return __direct({parameters})
        if not ({plain_text([*names, "out"])}):
            __reject_masks(self, ({parameters},), out)
        if out is not None:
            __reject_overlap(self, out)
        if threads is None:
            return __ufunc({parameters}, {out_argument})
        with __using_threads(__checked_threads(threads)):
            return __guarded({parameters}) if out is None else __ufunc({parameters}, {out_argument})
    except (__TypeError, __ValueError) as __error:
        raise __explain(self, ({parameters},), out, __error) from None
"""
    scope: dict[str, Any] = {  # no input name starts with two underscores
        "__ufunc": kernel.ufunc, "__direct": kernel.direct, "__guarded": make_guarded(kernel),
        "__explain": explain,
        "__reject_masks": reject_masks, "__reject_overlap": reject_overlap,
        "__using_threads": using_threads, "__checked_threads": checked_threads,
        "__ndarray": np.ndarray, "__TypeError": TypeError, "__ValueError": ValueError,
    }  # fmt: skip
    exec(text, scope)
    call = scope["__call__"]
    call.__qualname__ = kernel.name  # shown by Python when an argument is missing
    call.__doc__ = (
        f"{kernel.name}{kernel.signature} on arrays with any leading batch dimensions. "
        "Options: `out`, `threads`."
    )
    return call


def plain_text(names: list[str]) -> str:
    """Return a Python expression that is true if all of some variables are plain arrays."""
    return " and ".join(f"{name}.__class__ is __ndarray" for name in names)


def large_text(kernel: Kernel, names: list[str]) -> str:
    """Return a Python expression that is true if plain arguments have enough rows for a large result."""
    row_bytes = max(spec.size for spec in kernel.outputs) * np.dtype(kernel.dtype).itemsize
    if row_bytes == 0:
        return "False"
    min_rows = -(-MIN_BYTES // row_bytes)
    tests = [
        f"{name}.size >= {min_rows * spec.size}" for name, spec in zip(names, kernel.inputs) if spec.size
    ]
    return " or ".join(tests) or "False"


def make_results(kernel: Kernel) -> Callable[[tuple[Any, ...]], tuple[np.ndarray | None, ...]]:
    """Return a function of the arguments of a call that returns arrays of the pool for its results.

    It returns None for each if they are small or the call is invalid.
    """
    dimensions = [len(spec.shape) for spec in kernel.inputs]
    row_shapes = [spec.shape for spec in kernel.outputs]
    dtype = np.dtype(kernel.dtype)
    row_bytes = max(spec.size for spec in kernel.outputs) * dtype.itemsize
    none = (None,) * len(row_shapes)

    def results(args: tuple[Any, ...]) -> tuple[np.ndarray | None, ...]:
        batch: tuple[int, ...] = ()
        for value, count in zip(args, dimensions):
            leading = _leading(value, count)
            if leading != batch:
                merged = _broadcast(batch, leading)
                if merged is None:  # the ufunc converts the argument or raises the error
                    return none
                batch = merged
        if math.prod(batch) * row_bytes < MIN_BYTES:
            return none
        return POOL.arrays([batch + shape for shape in row_shapes], dtype)

    return results


def _leading(value: Any, dimensions: int) -> tuple[int, ...] | None:
    """Return the batch shape of an argument, or None unless it is a plain array or a number."""
    if type(value) is np.ndarray and value.ndim >= dimensions:
        return value.shape[: value.ndim - dimensions]
    if type(value) in _SCALARS and dimensions == 0:
        return ()
    return None


def _broadcast(a: tuple[int, ...], b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the common shape of two shapes, or None if there is none.

    `numpy.broadcast_shapes` raises ValueError, which an exception of a signal handler may also be.
    """
    if b is None or a == b or not a:
        return b
    if len(a) < len(b):
        a, b = b, a
    start = len(a) - len(b)
    merged = [n if m == 1 else m for m, n in zip(a[start:], b)]
    if any(n not in (1, m) for m, n in zip(merged, b)):
        return None
    return (*a[:start], *merged)


@cache
def arrays_lie_as_expected() -> bool:
    """Return True if this Python and NumPy lay out arrays as compiled code expects."""
    a = np.zeros((3, 5))
    expected = {
        layout.OBJECT_TYPE: id(np.ndarray),
        layout.NDARRAY_DATA: a.ctypes.data,
        layout.NDARRAY_DTYPE: id(a.dtype),
    }
    offsets = range(0, np.ndarray.__basicsize__ - 7)
    if ctypes.sizeof(ctypes.c_void_p) != 8 or not all(
        offset in offsets for offset in (*expected, layout.NDARRAY_FLAGS)
    ):
        return False
    matches = all(
        ctypes.c_uint64.from_address(id(a) + offset).value == value for offset, value in expected.items()
    )
    ndim = ctypes.c_int32.from_address(id(a) + layout.NDARRAY_NDIM).value
    if not (matches and ndim == 2):
        return False
    shape = ctypes.c_uint64.from_address(id(a) + layout.NDARRAY_SHAPE).value
    sizes = [ctypes.c_int64.from_address(shape + 8 * k).value for k in range(2)] if shape else []
    flags = [ctypes.c_int32.from_address(id(x) + layout.NDARRAY_FLAGS).value for x in (a, a[:, ::2])]
    return sizes == [3, 5] and flags[0] & layout.PLAIN == layout.PLAIN and not flags[1] & 1
