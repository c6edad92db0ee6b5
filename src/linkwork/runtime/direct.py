"""Direct calls: one state in plain arrays, without NumPy's machinery around it; everything else goes on to the ufunc."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.runtime.native import FAST_CALL, address_of, make_builtin, numpy_function
from linkwork.targets.cpu import direct as layout

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel

_EMPTY = 184  # PyArray_Empty's place in NumPy's array table


class Table(np.ndarray):
    """The words that compiled code reads, and whatever must live as long as they do."""

    keep: Any


def make_direct(kernel: Kernel, address: int) -> Any:
    """The quickest call of a kernel with its arguments; its ufunc itself where there is no quicker one."""
    if not (layout.has_direct(kernel.inputs, kernel.outputs) and arrays_lie_as_expected()):
        return kernel.ufunc
    dtype = np.dtype(kernel.dtype)
    words = [
        id(np.ndarray), id(dtype), address_of(ctypes.pythonapi.Py_IncRef), numpy_function("_ARRAY_API", _EMPTY),
        kernel.data_address, id(kernel.ufunc), address_of(ctypes.pythonapi.PyObject_Vectorcall),
    ]  # fmt: skip
    table = np.array(words, dtype=np.int64).view(Table)
    call = make_builtin(address, table, kernel.name, f"{kernel.name}{kernel.signature}", FAST_CALL)
    table.keep = (kernel, dtype)
    return call


@cache
def arrays_lie_as_expected() -> bool:
    """Whether arrays of this Python and NumPy have their parts where compiled code looks for them."""
    a = np.zeros((3, 5))
    places = {
        layout.OBJECT_TYPE: id(np.ndarray),
        layout.NDARRAY_DATA: a.ctypes.data,
        layout.NDARRAY_DTYPE: id(a.dtype),
    }
    whole = range(0, np.ndarray.__basicsize__ - 7)
    if ctypes.sizeof(ctypes.c_void_p) != 8 or not all(at in whole for at in (*places, layout.NDARRAY_FLAGS)):
        return False
    there = all(ctypes.c_uint64.from_address(id(a) + at).value == value for at, value in places.items())
    ndim = ctypes.c_int32.from_address(id(a) + layout.NDARRAY_NDIM).value
    if not (there and ndim == 2):
        return False
    shape = ctypes.c_uint64.from_address(id(a) + layout.NDARRAY_SHAPE).value
    sizes = [ctypes.c_int64.from_address(shape + 8 * k).value for k in range(2)] if shape else []
    flags = [ctypes.c_int32.from_address(id(x) + layout.NDARRAY_FLAGS).value for x in (a, a[:, ::2])]
    return sizes == [3, 5] and flags[0] & layout.PLAIN == layout.PLAIN and not flags[1] & 1
