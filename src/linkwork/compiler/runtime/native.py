"""Interface to machine code and to the C APIs of Python and NumPy, through ctypes."""

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

# A kernel's `run` (targets.cpu.module) takes (args, dims, steps, data). Called from Python, it releases the
# interpreter lock.
LoopFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


_SYMBOL_TABLE = 2  # type of a symbol table section in ELF
# Symbols that our code loads by 64-bit addresses from a table that LLVM allocates; calls added by LLVM itself
# use other relocations.
_BY_ADDRESS = (b"_GLOBAL_OFFSET_TABLE_", b"malloc", b"free")


class Code:
    """Machine code in memory, freed with this object: then `retire` is called with LLVM's engine."""

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
            raise TargetError(f"compiled code: missing functions {', '.join(missing)}")
        # In a garbage cycle, finalisers of other objects may still call this code. So it is freed with an
        # object that the garbage collector does not track, after all finalisers have run; and never while
        # Python exits.
        self._lease = np.empty(0)
        weakref.finalize(self._lease, retire, engine).atexit = False


def _fits_one_piece(objects: Sequence[bytes]) -> bool:
    """Return True if llvmlite's own memory manager can load these objects, each in one piece.

    LLVM's default memory manager allocates each section separately, and LLVM aborts the process if they are
    more than 2 GB apart, as happens beside a GPU driver that leaves few gaps of address space. The memory
    manager of llvmlite aborts at calls of library functions, such as `fma` on processors without it.
    """
    symbols = [_symbols(data) for data in objects]
    defined = {name for names, _ in symbols for name in names}
    return bool(defined) and all(
        name in defined or name in _BY_ADDRESS for _, references in symbols for name in references
    )


def _symbols(data: bytes) -> tuple[set[bytes], set[bytes]]:
    """Return the symbols that an ELF object defines and those that it references; none for other formats."""
    defined: set[bytes] = set()
    referenced: set[bytes] = set()
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return defined, referenced
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + k * size) for k in range(count)]
    for _, kind, _, _, start, length, link, _, _, entry_size in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for at in range(start, start + length, entry_size):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if name:
                (defined if section else referenced).add(data[names + name : data.index(b"\0", names + name)])
    return defined, referenced


@cache
def _host_target() -> Any:
    return llvm.Target.from_default_triple()


def _host_machine() -> Any:
    return _host_target().create_target_machine()  # each engine takes ownership of one


@cache
def numpy_function(table: str, slot: int) -> int:
    """Return the address of a function of NumPy's C API.

    `table` is "_UFUNC_API" or "_ARRAY_API"; slots never change.
    """
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(getattr(_multiarray_umath, table), None), ctypes.POINTER(ctypes.c_void_p))[
        slot
    ]


_FROM_FUNC_AND_DATA_AND_SIGNATURE = 31  # slot in the ufunc API table
_TYPE_NUMBER = {"float64": 12, "float32": 11}
_NO_IDENTITY = -1


def make_gufunc(
    loop: int, data: int, n_in: int, n_out: int, dtype: str, signature: str, name: str, doc: str
) -> tuple[np.ufunc, object]:
    """Return a generalised ufunc around a compiled inner loop, and the objects that must outlive it."""
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


_UFUNC_OBJECT = object.__basicsize__ + 72  # offset of a ufunc's owned object: for frompyfunc, the function
_immortal: list[object] = []


def keep_with(ufunc: np.ufunc, owner: object) -> None:
    """Keep an object alive as long as a ufunc that runs its code, or forever if NumPy has no slot for it.

    The garbage collector does not look into such a ufunc: `owner` must not refer back to it.
    """
    owned = ctypes.c_void_p.from_address(id(ufunc) + _UFUNC_OBJECT)
    if not _ufuncs_keep_objects() or owned.value is not None:
        _immortal.append(owner)
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    owned.value = id(owner)


@cache
def _ufuncs_keep_objects() -> bool:
    """Return True if the owned object of a ufunc is at the expected offset."""

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


# calling conventions of Python: METH_NOARGS, METH_FASTCALL
NO_ARGUMENTS = 0x0004
FAST_CALL = 0x0080


def make_builtin(function: int, owner: Any, name: str, doc: str, convention: int = NO_ARGUMENTS) -> Any:
    """Return a built-in around compiled code that gets `owner` as self, which must keep the code alive."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(_method(name, function, convention, doc), owner, None)


@cache
def _method(name: str, function: int, convention: int, doc: str) -> int:
    """Return the address of a built-in's definition, which is never freed.

    A built-in reads its definition when it is freed. In a garbage cycle everything that it owns may be freed
    before.
    """
    method = _MethodDef(name.encode(), function, convention, doc.encode())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return ctypes.addressof(method)


def address_of(c_function: Any) -> int:
    """Return the address of a C function of the running Python."""
    address = ctypes.cast(c_function, ctypes.c_void_p).value
    assert address is not None
    return address
