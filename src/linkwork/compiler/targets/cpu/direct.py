"""Calls of one state without NumPy's overhead, as LLVM text.

`direct(self, args, count)` is a C function of the Python API with the "fast call" convention. If all
arguments are plain arrays of one state it creates the output array and runs the kernel; all other calls are
passed to the ufunc. Its `self` is an ndarray of the words

    [0] the type ndarray, [1] the dtype, [2] Py_IncRef, [3] PyArray_Empty, [4] the kernel's data, [5] the
    ufunc, [6] PyObject_Vectorcall
"""

from __future__ import annotations

from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.targets.cpu.types import Types

NDARRAY_DATA = object.__basicsize__  # offset of an ndarray's data pointer: right after the object header
OBJECT_TYPE = object.__basicsize__ - 8  # offset of an object's type
NDARRAY_NDIM, NDARRAY_SHAPE, NDARRAY_DTYPE, NDARRAY_FLAGS = (NDARRAY_DATA + k for k in (8, 16, 40, 48))
PLAIN = 0x0101  # flags: contiguous in C order, and aligned


def has_direct(program_inputs: tuple[Array, ...], program_outputs: tuple[Array, ...]) -> bool:
    """Return True if `direct` handles these arrays: one output, and no scalars."""
    return len(program_outputs) == 1 and all(array.shape for array in program_inputs + program_outputs)


def direct_text(program: Program) -> str:
    """Return `direct` for the arrays of a program."""
    item = Types(program.dtype, 1).item
    arrays = program.inputs + program.outputs
    count = len(program.inputs)
    if not has_direct(program.inputs, program.outputs):
        looks = ""
        first = "other"
    else:
        looks = "".join(_look(k, array) for k, array in enumerate(program.inputs)) + _run(arrays, count)
        first = "look0"
    steps = [0] * len(arrays)
    for array in arrays:
        after = item
        core = []
        for size in reversed(array.shape):
            core.append(after)
            after *= size
        steps += reversed(core)
    return f"""
@direct.steps = private constant [{len(steps)} x i64] [{", ".join(f"i64 {step}" for step in steps)}]
define ptr @direct(ptr %self, ptr %args, i64 %count) #0 {{
entry:
%tablep = getelementptr i8, ptr %self, i64 {NDARRAY_DATA}
%table = load ptr, ptr %tablep
{_words("type dtype incref empty data ufunc vectorcall")}
%right = icmp eq i64 %count, {count}
br i1 %right, label %{first}, label %other
{looks}
other:
%passed = call ptr %vectorcall(ptr %ufunc, ptr %args, i64 %count, ptr null)
ret ptr %passed
}}
"""


def _words(names: str) -> str:
    return "\n".join(
        f"%{name}p = getelementptr ptr, ptr %table, i64 {k}\n%{name} = load ptr, ptr %{name}p"
        for k, name in enumerate(names.split())
    )


def _look(k: int, array: Array) -> str:
    """Return the test that argument k is exactly an ndarray with the layout of one state."""
    sizes = "\n".join(
        f"%d{k}.{axis}p = getelementptr i64, ptr %shape{k}, i64 {axis}\n"
        f"%d{k}.{axis} = load i64, ptr %d{k}.{axis}p\n"
        f"%ok{k}.{axis + 1} = icmp eq i64 %d{k}.{axis}, {size}\n"
        f"%all{k}.{axis + 1} = and i1 %all{k}.{axis}, %ok{k}.{axis + 1}"
        for axis, size in enumerate(array.shape)
    )
    return f"""look{k}:
%argp{k} = getelementptr ptr, ptr %args, i64 {k}
%arg{k} = load ptr, ptr %argp{k}
%typep{k} = getelementptr i8, ptr %arg{k}, i64 {OBJECT_TYPE}
%type{k} = load ptr, ptr %typep{k}
%array{k} = icmp eq ptr %type{k}, %type
br i1 %array{k}, label %kind{k}, label %other
kind{k}:
%dtypep{k} = getelementptr i8, ptr %arg{k}, i64 {NDARRAY_DTYPE}
%dtype{k} = load ptr, ptr %dtypep{k}
%same{k} = icmp eq ptr %dtype{k}, %dtype
%flagsp{k} = getelementptr i8, ptr %arg{k}, i64 {NDARRAY_FLAGS}
%flags{k} = load i32, ptr %flagsp{k}
%plain{k} = and i32 %flags{k}, {PLAIN}
%easy{k} = icmp eq i32 %plain{k}, {PLAIN}
%ndimp{k} = getelementptr i8, ptr %arg{k}, i64 {NDARRAY_NDIM}
%ndim{k} = load i32, ptr %ndimp{k}
%one{k} = icmp eq i32 %ndim{k}, {len(array.shape)}
%both{k} = and i1 %same{k}, %easy{k}
%fits{k} = and i1 %both{k}, %one{k}
br i1 %fits{k}, label %size{k}, label %other
size{k}:
%shapep{k} = getelementptr i8, ptr %arg{k}, i64 {NDARRAY_SHAPE}
%shape{k} = load ptr, ptr %shapep{k}
%all{k}.0 = icmp ne ptr %shape{k}, null
{sizes}
%datap{k} = getelementptr i8, ptr %arg{k}, i64 {NDARRAY_DATA}
%data{k} = load ptr, ptr %datap{k}
br i1 %all{k}.{len(array.shape)}, label %look{k + 1}, label %other
"""


def _run(arrays: tuple[Array, ...], count: int) -> str:
    out = arrays[count]
    shape = "\n".join(
        f"%o{axis} = getelementptr i64, ptr %oshape, i64 {axis}\nstore i64 {size}, ptr %o{axis}"
        for axis, size in enumerate(out.shape)
    )
    pointers = "\n".join(
        f"%put{k} = getelementptr ptr, ptr %pointers, i64 {k}\nstore ptr %data{k}, ptr %put{k}"
        for k in range(len(arrays))
    )
    return f"""look{count}:
%oshape = alloca [{len(out.shape)} x i64]
%pointers = alloca [{len(arrays)} x ptr]
%rows = alloca i64
{shape}
call void %incref(ptr %dtype)
%out = call ptr %empty(i32 {len(out.shape)}, ptr %oshape, ptr %dtype, i32 0)
%poor = icmp eq ptr %out, null
br i1 %poor, label %leave, label %go
go:
%outp = getelementptr i8, ptr %out, i64 {NDARRAY_DATA}
%data{count} = load ptr, ptr %outp
{pointers}
store i64 1, ptr %rows
%f = load atomic ptr, ptr %data acquire, align 8
call void %f(ptr %pointers, ptr %rows, ptr @direct.steps, ptr %data)
br label %leave
leave:
ret ptr %out
"""
