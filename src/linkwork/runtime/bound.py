"""Bound calls: a kernel on arrays fixed in advance, for control loops in which every tenth of a microsecond counts."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.errors import DtypeError, LinkworkError, OverlapError, ShapeError
from linkwork.ir.program import Array
from linkwork.runtime.arguments import look_at_output, shape_text
from linkwork.runtime.direct import Table
from linkwork.runtime.native import address_of, make_builtin

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel


class Bound:
    """A call of no arguments. It reads `inputs`, writes `outputs`, and returns the output (a tuple if there are several).

    Both are dicts of arrays by name: change the inputs in place, call, and read the outputs. The arrays may have one
    leading batch dimension. The call holds the interpreter lock.
    """

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]

    def __call__(self) -> Any:
        raise NotImplementedError  # every bound call has its own built-in here

    def __repr__(self) -> str:
        names = ", ".join([*self.inputs, *self.outputs])
        return f"<bound linkwork kernel on {names}>"


def bind_arrays(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Bound:
    """A bound call of a kernel; arrays that are missing are allocated."""
    rows, inputs = _inputs(kernel, args, named)
    outputs = _outputs(kernel, rows, out)
    _refuse_overlap(kernel, inputs, outputs)

    arrays = [*inputs.values(), *outputs.values()]
    specs = kernel.inputs + kernel.outputs
    core = [a.strides[a.ndim - len(s.shape) :] for a, s in zip(arrays, specs, strict=True)]
    batch = [a.strides[0] if a.ndim > len(s.shape) else 0 for a, s in zip(arrays, specs, strict=True)]
    pointers = np.array([a.ctypes.data for a in arrays], dtype=np.int64)
    dims = np.array([1 if rows is None else rows], dtype=np.int64)
    steps = np.array([*batch, *(s for strides in core for s in strides)], dtype=np.int64)
    result: Any = next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())

    table = np.array(
        [
            id(result), address_of(ctypes.pythonapi.Py_IncRef), pointers.ctypes.data, dims.ctypes.data,
            steps.ctypes.data, kernel.data_address,
        ],
        dtype=np.int64,
    ).view(Table)  # fmt: skip
    call = make_builtin(kernel.bound_address, table, kernel.name, f"{kernel.name} on bound arrays.")
    table.keep = (kernel, arrays, pointers, dims, steps, result)
    bound = type("Bound", (Bound,), {"__call__": call, "__slots__": ("inputs", "outputs")})()
    bound.inputs, bound.outputs = inputs, outputs
    return bound


def _inputs(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int | None, dict[str, np.ndarray]]:
    names = [a.name for a in kernel.inputs]
    if len(args) > len(names):
        raise LinkworkError(f"{kernel.name} takes {len(names)} input arrays ({', '.join(names)}), {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names or name in given:
            why = "given twice" if name in given else f"unknown; the inputs are {', '.join(names)}"
            raise LinkworkError(f"{kernel.name}: input {name!r} is {why}")
        given[name] = value
    rows: int | None = None
    for spec in kernel.inputs:
        if spec.name in given:
            array = given[spec.name]
            _check_exact(kernel, spec, array)
            if array.ndim > len(spec.shape):
                if rows not in (None, array.shape[0]):
                    raise ShapeError(f"{kernel.name}: {spec.name} has {array.shape[0]} rows, other inputs {rows}")
                rows = array.shape[0]
    fresh = {s.name: np.zeros(_shape(rows, s), kernel.dtype) for s in kernel.inputs if s.name not in given}
    return rows, {name: given[name] if name in given else fresh[name] for name in names}


def _check_exact(kernel: Kernel, spec: Array, array: Any) -> None:
    """A bound array is used where it lies: it must already be what the kernel reads."""
    if not isinstance(array, np.ndarray):
        raise DtypeError(f"{kernel.name}: {spec.name} must be a NumPy array to be bound, not {type(array).__name__}")
    if array.dtype != kernel.dtype or not array.dtype.isnative or not array.flags.aligned:
        raise DtypeError(f"{kernel.name}: {spec.name} must be an aligned {kernel.dtype} array to be bound, not {array.dtype}")
    if array.ndim not in (len(spec.shape), len(spec.shape) + 1) or array.shape[array.ndim - len(spec.shape) :] != spec.shape:
        raise ShapeError(
            f"{kernel.name}: {spec.name} must have shape {shape_text(spec)} with at most one batch dimension, not {array.shape}"
        )


def _shape(rows: int | None, spec: Array) -> tuple[int, ...]:
    return spec.shape if rows is None else (rows, *spec.shape)


def _outputs(kernel: Kernel, rows: int | None, out: Any) -> dict[str, np.ndarray]:
    if out is None:
        return {s.name: np.zeros(_shape(rows, s), kernel.dtype) for s in kernel.outputs}
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(kernel.outputs):
        names = ", ".join(a.name for a in kernel.outputs)
        raise ShapeError(f"{kernel.name}: out must be a tuple of {len(kernel.outputs)} arrays ({names})")
    for spec, array in zip(kernel.outputs, outs, strict=True):
        problem = look_at_output(kernel, spec, array, _shape(rows, spec))
        if problem is not None:
            raise problem
        _check_exact(kernel, spec, array)
    return {s.name: a for s, a in zip(kernel.outputs, outs, strict=True)}


def _refuse_overlap(kernel: Kernel, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    others = dict(inputs)
    for name, array in outputs.items():
        for other, memory in others.items():
            if np.shares_memory(array, memory):
                raise OverlapError(f"{kernel.name}: output {name} shares memory with {other}; bound arrays must be apart")
        others[name] = array
