"""Bound calls: a kernel on arrays fixed in advance, for control loops in which every tenth of a microsecond counts."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from linkwork.errors import DtypeError, LinkworkError, OverlapError, ShapeError
from linkwork.ir.program import Array
from linkwork.runtime.arguments import check_output, numbers, refuse_missing, shape_text
from linkwork.runtime.direct import Table
from linkwork.runtime.native import address_of, make_builtin

if TYPE_CHECKING:
    from linkwork.runtime.kernel import Kernel


class Bound:
    """A call of no arguments. It reads `inputs`, writes `outputs`, and returns the output (a tuple if there are several).

    Both are dicts of arrays by name: change the inputs in place, call, and read the outputs. `call.inputs["q"] = q` copies q
    into the array that is there. The arrays may have one leading batch dimension. The call holds the interpreter lock.

    `copy.copy` gives a call on the same arrays, `copy.deepcopy` one on copies of them.
    """

    __slots__ = ("__weakref__",)  # all else lies in the class that each bound call has for itself, and so cannot be changed

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    _kernel: Kernel

    def __call__(self) -> Any:
        raise NotImplementedError  # every bound call has its own built-in here

    def __repr__(self) -> str:
        names = ", ".join([*self.inputs, *self.outputs])
        return f"<bound linkwork kernel on {names}>"

    def __copy__(self) -> Bound:
        return _bind(self._kernel, dict(self.inputs), dict(self.outputs))

    def __deepcopy__(self, memo: dict[int, Any]) -> Bound:
        parts = ({name: copy.deepcopy(a, memo) for name, a in arrays.items()} for arrays in (self.inputs, self.outputs))
        return _bind(self._kernel, *parts)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a bound call of {self._kernel.name} is machine code of this process: bind again where it is needed")


class _Fixed(dict[str, np.ndarray]):
    """The arrays of a bound call by name. They are fixed: none comes, goes or is replaced."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self._kernel = kernel

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise LinkworkError(f"{self._kernel.name}: the arrays of a bound call are fixed: change what is in them")

    __delitem__ = pop = popitem = clear = setdefault = _refuse  # type: ignore[assignment]

    def update(self, *args: Any, **named: Any) -> None:
        for name, value in dict(*args, **named).items():
            self[name] = value

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _Inputs(_Fixed):
    """The inputs: what is assigned to one is copied into it."""

    def __setitem__(self, name: str, value: Any) -> None:
        kernel = self._kernel
        spec = next((s for s in kernel.inputs if s.name == name), None)
        if spec is None:
            raise LinkworkError(f"{kernel.name}: input {name!r} is unknown; the inputs are {', '.join(self)}")
        place = self[name]
        if value is place:  # as after call.inputs["q"] += 1.0
            return
        array = numbers(kernel, spec, value)
        if array.shape not in (place.shape, spec.shape):
            raise ShapeError(f"{kernel.name}: {name} must have shape {place.shape}, not {array.shape}")
        if not place.flags.writeable:
            raise DtypeError(f"{kernel.name}: {name} is read-only: it was bound so")
        place[...] = array


class _Outputs(_Fixed):
    """The outputs."""

    def __setitem__(self, name: str, value: Any) -> None:
        if value is not self.get(name):
            raise LinkworkError(f"{self._kernel.name}: outputs are written by the call: bind with out= to choose their arrays")


def bind_arrays(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Bound:
    """A bound call of a kernel; arrays that are missing are allocated."""
    rows, inputs = _inputs(kernel, args, named)
    outputs = _outputs(kernel, rows, out)
    _refuse_overlap(kernel, inputs, outputs)
    return _bind(kernel, inputs, outputs)


def _bind(kernel: Kernel, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Bound:
    """A bound call on arrays that fit."""
    result: Any = next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())
    call = kernel.bound_call([*inputs.values()], [*outputs.values()], result)
    own = {"__call__": call, "__slots__": (), "_kernel": kernel}
    return type("Bound", (Bound,), {**own, "inputs": _Inputs(kernel, inputs), "outputs": _Outputs(kernel, outputs)})()


def machine_call(kernel: Kernel, arrays: list[np.ndarray], result: Any) -> Any:
    """The built-in that runs a kernel's machine code on arrays and returns the result."""
    specs = kernel.inputs + kernel.outputs
    core = [a.strides[a.ndim - len(s.shape) :] for a, s in zip(arrays, specs, strict=True)]
    batches = [a.shape[: a.ndim - len(s.shape)] for a, s in zip(arrays, specs, strict=True)]
    batch = [a.strides[0] if b else 0 for a, b in zip(arrays, batches, strict=True)]
    pointers = np.array([a.ctypes.data for a in arrays], dtype=np.int64)
    dims = np.array([batches[-1][0] if batches[-1] else 1], dtype=np.int64)  # an output has all rows
    steps = np.array([*batch, *(s for strides in core for s in strides)], dtype=np.int64)
    table = np.array(
        [
            id(result), address_of(ctypes.pythonapi.Py_IncRef), pointers.ctypes.data, dims.ctypes.data,
            steps.ctypes.data, kernel.data_address,
        ],
        dtype=np.int64,
    ).view(Table)  # fmt: skip
    call = make_builtin(kernel.bound_address, table, kernel.name, f"{kernel.name} on bound arrays.")
    table.keep = (kernel, arrays, pointers, dims, steps, result)
    return call


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
    fresh = _zeros(kernel, rows, (s for s in kernel.inputs if s.name not in given))
    return rows, {name: given[name] if name in given else fresh[name] for name in names}


def _check_exact(kernel: Kernel, spec: Array, array: Any) -> None:
    """A bound array is used where it lies: it must already be what the kernel reads."""
    if not isinstance(array, np.ndarray):
        raise DtypeError(f"{kernel.name}: {spec.name} must be a NumPy array to be bound, not {type(array).__name__}")
    refuse_missing(kernel, spec.name, array)
    if array.dtype != kernel.dtype or not array.dtype.isnative or not array.flags.aligned:
        raise DtypeError(f"{kernel.name}: {spec.name} must be an aligned {kernel.dtype} array to be bound, not {array.dtype}")
    if array.ndim not in (len(spec.shape), len(spec.shape) + 1) or array.shape[array.ndim - len(spec.shape) :] != spec.shape:
        raise ShapeError(
            f"{kernel.name}: {spec.name} must have shape {shape_text(spec)} with at most one batch dimension, not {array.shape}"
        )


def _shape(rows: int | None, spec: Array) -> tuple[int, ...]:
    return spec.shape if rows is None else (rows, *spec.shape)


def _zeros(kernel: Kernel, rows: int | None, specs: Iterable[Array]) -> dict[str, np.ndarray]:
    return {s.name: np.zeros(_shape(rows, s), kernel.dtype) for s in specs}


def _outputs(kernel: Kernel, rows: int | None, out: Any) -> dict[str, np.ndarray]:
    if out is None:
        return _zeros(kernel, rows, kernel.outputs)
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(kernel.outputs):
        names = ", ".join(a.name for a in kernel.outputs)
        raise ShapeError(f"{kernel.name}: out must be a tuple of {len(kernel.outputs)} arrays ({names})")
    for spec, array in zip(kernel.outputs, outs, strict=True):
        check_output(kernel, spec, array, _shape(rows, spec))
        _check_exact(kernel, spec, array)
    return {s.name: a for s, a in zip(kernel.outputs, outs, strict=True)}


def _refuse_overlap(kernel: Kernel, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    others = dict(inputs)
    for name, array in outputs.items():
        for other, memory in others.items():
            if np.shares_memory(array, memory):
                raise OverlapError(f"{kernel.name}: output {name} shares memory with {other}; bound arrays must be apart")
        others[name] = array
