"""The edge to machine code and to the C interfaces of Python and NumPy, all through ctypes."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from linkwork.errors import TargetError

# A kernel's `run` (targets.cpu.module) takes (args, dims, steps, data). Called from Python, it releases the interpreter lock.
LoopFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


_SYMBOL_TABLE = 2  # the type of such a section in ELF
# What our code asks for by whole addresses, from a table that LLVM makes room for; what LLVM adds by itself it calls otherwise.
_BY_ADDRESS = (b"_GLOBAL_OFFSET_TABLE_", b"malloc", b"free")


class Code:
    """Machine code in memory. It stays there as long as this object lives; then `retire` gets LLVM's engine, to close it."""

    def __init__(self, objects: Sequence[bytes], names: Sequence[str], retire: Callable[[Any], None]) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        empty = llvm.parse_assembly("")
        engine = llvm.create_mcjit_compiler(empty, _host_machine(), use_lmm=_fits_one_piece(objects))
        for data in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
        self.address: Mapping[str, int] = {name: engine.get_function_address(name) for name in names}
        missing = [name for name, address in self.address.items() if not address]
        if missing:
            raise TargetError(f"compiled code lacks {', '.join(missing)}")
        # In a cycle of garbage, others may still call this code when they are finalised. So it goes with an object that the
        # garbage collector does not know, which dies after all finalisers have run; and never while Python exits.
        self._lease = np.empty(0)
        weakref.finalize(self._lease, retire, engine).atexit = False


def _fits_one_piece(objects: Sequence[bytes]) -> bool:
    """Whether llvmlite's own memory takes these objects: one piece for all sections of one.

    LLVM's memory has a piece for each section, and LLVM ends the process where they lie more than 2 GB apart, as beside a GPU's
    driver, which leaves few gaps of address space. But llvmlite's has no room for calls of libraries, such as `fma` where the
    processor has none, and ends the process too.
    """
    symbols = [_symbols(data) for data in objects]
    defined = {name for known, _ in symbols for name in known}
    return bool(defined) and all(name in defined or name in _BY_ADDRESS for _, asked in symbols for name in asked)


def _symbols(data: bytes) -> tuple[set[bytes], set[bytes]]:
    """The names that an ELF object defines, and those that it asks others for; none of other formats."""
    known: set[bytes] = set()
    asked: set[bytes] = set()
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return known, asked
    table, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + k * size) for k in range(count)]
    for _, kind, _, _, start, length, link, _, _, each in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for at in range(start, start + length, each):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if name:
                (known if section else asked).add(data[names + name : data.index(b"\0", names + name)])
    return known, asked


@cache
def _host_target() -> Any:
    return llvm.Target.from_default_triple()


def _host_machine() -> Any:
    return _host_target().create_target_machine()  # the engine takes it over: one each


@cache
def numpy_function(table: str, slot: int) -> int:
    """Where a function of NumPy's C interface lies: "_UFUNC_API" or "_ARRAY_API", and its place there, fixed for good."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(getattr(_multiarray_umath, table), None), ctypes.POINTER(ctypes.c_void_p))[slot]


_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31  # of the ufunc table
_TYPE_NUMBER = {"float64": 12, "float32": 11}
_NO_IDENTITY = -1


def make_gufunc(
    loop: int, data: int, n_in: int, n_out: int, dtype: str, signature: str, name: str, doc: str
) -> tuple[np.ufunc, object]:
    """A generalised ufunc around a compiled inner loop, and what must be kept alive as long as it."""
    count = n_in + n_out
    functions = (ctypes.c_void_p * 1)(loop)
    datas = (ctypes.c_void_p * 1)(data)
    types = (ctypes.c_char * count)(*[bytes([_TYPE_NUMBER[dtype]])] * count)
    texts = (name.encode(), doc.encode())
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
    )(numpy_function("_UFUNC_API", _FROM_FUNC_AND_DATA_AND_SIGNATURE))  # fmt: skip
    ufunc = make(
        ctypes.addressof(functions), ctypes.addressof(datas), ctypes.addressof(types),
        1, n_in, n_out, _NO_IDENTITY, *texts, 0, signature.encode(),
    )  # fmt: skip
    return ufunc, (functions, datas, types, texts)


_UFUNC_OBJECT = object.__basicsize__ + 72  # where a ufunc keeps an object alive: for frompyfunc, the Python function
_kept_for_good: list[object] = []


def keep_with(ufunc: np.ufunc, owner: object) -> None:
    """Keep an object alive as long as a ufunc that runs its code; for good where this NumPy's ufuncs have no place for it.

    The garbage collector does not look into such a ufunc: `owner` must not lead back to it.
    """
    place = ctypes.c_void_p.from_address(id(ufunc) + _UFUNC_OBJECT)
    if not _ufuncs_keep_objects() or place.value is not None:
        _kept_for_good.append(owner)
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    place.value = id(owner)


@cache
def _ufuncs_keep_objects() -> bool:
    """Whether the place of a ufunc's object is where it is looked for."""

    def probe(x: Any) -> Any:
        return x

    ufunc = np.frompyfunc(probe, 1, 1)
    inside = np.ufunc.__basicsize__ >= _UFUNC_OBJECT + 8 and ctypes.sizeof(ctypes.c_void_p) == 8
    return inside and ctypes.c_uint64.from_address(id(ufunc) + _UFUNC_OBJECT).value == id(probe)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


NO_ARGUMENTS, FAST_CALL = 0x0004, 0x0080  # how Python hands over arguments: METH_NOARGS, METH_FASTCALL


def make_builtin(function: int, owner: Any, name: str, doc: str, how: int = NO_ARGUMENTS) -> Any:
    """A built-in around compiled code that gets `owner` as self; so `owner` must keep the code alive."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(_method(name, function, how, doc), owner, None)


@cache
def _method(name: str, function: int, how: int, doc: str) -> int:
    """The address of a built-in's definition, which is never freed.

    A built-in reads it when it dies. Where it dies in a cycle of garbage, nothing that it owns need be there any more.
    """
    method = _MethodDef(name.encode(), function, how, doc.encode())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return ctypes.addressof(method)


def address_of(c_function: Any) -> int:
    """Where a C function of the running Python lies."""
    address = ctypes.cast(c_function, ctypes.c_void_p).value
    assert address is not None
    return address
