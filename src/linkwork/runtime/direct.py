"""Direct calls: one state in plain arrays, without NumPy's machinery around it; everything else goes on to the ufunc.

On that way, what hides something behind a mask is refused, and errors name the argument.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.runtime.arguments import argument_names, explain, refuse_masks
from linkwork.runtime.native import FAST_CALL, address_of, make_builtin, numpy_function
from linkwork.targets.cpu import direct as layout

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel

_EMPTY = 184  # PyArray_Empty's place in NumPy's array table


class Table(np.ndarray):
    """The words that compiled code reads, and whatever must live as long as they do."""

    keep: Any


def make_direct(kernel: Kernel, address: int) -> Any:
    """The quickest call of a kernel with its arguments."""
    call = make_guarded(kernel)
    if not (layout.has_direct(kernel.inputs, kernel.outputs) and arrays_lie_as_expected()):
        return call
    dtype = np.dtype(kernel.dtype)
    words = [
        id(np.ndarray), id(dtype), address_of(ctypes.pythonapi.Py_IncRef), numpy_function("_ARRAY_API", _EMPTY),
        kernel.data_address, id(call), address_of(ctypes.pythonapi.PyObject_Vectorcall),
    ]  # fmt: skip
    table = np.array(words, dtype=np.int64).view(Table)
    direct = make_builtin(address, table, kernel.name, f"{kernel.name}{kernel.signature}", FAST_CALL)
    table.keep = (kernel, dtype, call)
    return direct


def make_guarded(kernel: Kernel) -> Any:
    """A call of a kernel's ufunc on its inputs that refuses masks and explains what NumPy refuses."""
    names = argument_names(kernel)
    given = ", ".join(names)
    text = f"""
def call({given}, /):
    if not ({plain_text(names)}):
        __refuse_masks(__kernel, ({given},))
    try:
        return __ufunc({given})
    except (__TypeError, __ValueError) as __error:
        raise __explain(__kernel, ({given},), None, __error) from None
"""
    scope: dict[str, Any] = {  # no input has such a name
        "__kernel": kernel, "__ufunc": kernel.ufunc, "__refuse_masks": refuse_masks, "__explain": explain,
        "__ndarray": np.ndarray, "__TypeError": TypeError, "__ValueError": ValueError,
    }  # fmt: skip
    exec(text, scope)
    scope["call"].__qualname__ = kernel.name
    return scope["call"]


def plain_text(names: list[str]) -> str:
    """Python code that asks whether all of some variables are plain arrays."""
    return " and ".join(f"{name}.__class__ is __ndarray" for name in names)


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
