"""Bound calls: a kernel on fixed arrays, with the lowest overhead, for control loops."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from linkwork.compiler.ir.program import Array
from linkwork.compiler.runtime.arguments import (
    check_output,
    numbers,
    reject_missing,
    reject_overlap,
    shape_text,
    share_memory,
)
from linkwork.compiler.runtime.direct import Table
from linkwork.compiler.runtime.native import address_of, make_builtin
from linkwork.errors import DtypeError, LinkworkError, OverlapError, ShapeError

if TYPE_CHECKING:
    from linkwork.compiler.runtime.kernel import Kernel


class Bound:
    """Callable without arguments that reads `inputs`, writes `outputs` and returns the output or outputs.

    Both are dicts of arrays by name: change the inputs in place, call, and read the outputs.
    `call.inputs["q"] = q` copies q into the bound array. The arrays may have one leading batch dimension. The
    call holds the interpreter lock.

    `copy.copy` returns a call on the same arrays, `copy.deepcopy` one on copies of them.
    """

    # every bound call has a class of its own with all other attributes, which therefore cannot be changed
    __slots__ = ("__weakref__",)

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    _kernel: Kernel

    def __call__(self) -> Any:
        raise NotImplementedError  # replaced by a built-in function in each bound call

    def __repr__(self) -> str:
        names = ", ".join([*self.inputs, *self.outputs])
        return f"<bound linkwork kernel on {names}>"

    def __copy__(self) -> Bound:
        return _bind(self._kernel, dict(self.inputs), dict(self.outputs))

    def __deepcopy__(self, memo: dict[int, Any]) -> Bound:
        parts = (
            {name: copy.deepcopy(a, memo) for name, a in arrays.items()}
            for arrays in (self.inputs, self.outputs)
        )
        return _bind(self._kernel, *parts)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"cannot pickle a bound call of {self._kernel.name}: it is machine code of this process; bind "
            "again instead"
        )


class _FixedArrays(dict[str, np.ndarray]):
    """Arrays of a bound call by name; none can be added, removed or replaced."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self._kernel = kernel

    def _reject(self, *_: Any, **__: Any) -> NoReturn:
        raise LinkworkError(
            f"{self._kernel.name}: the arrays of a bound call are fixed; change their entries instead"
        )

    __delitem__ = pop = popitem = clear = setdefault = _reject

    def update(self, *args: Any, **named: Any) -> None:
        for name, value in dict(*args, **named).items():
            self[name] = value

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _Inputs(_FixedArrays):
    """Inputs of a bound call: assigned values are copied into the bound array."""

    def __setitem__(self, name: str, value: Any) -> None:
        kernel = self._kernel
        spec = next((s for s in kernel.inputs if s.name == name), None)
        if spec is None:
            raise LinkworkError(f"{kernel.name}: unknown input {name!r}; the inputs are {', '.join(self)}")
        bound = self[name]
        if value is bound:  # as after call.inputs["q"] += 1.0
            return
        array = numbers(kernel, spec, value)
        if array.shape not in (bound.shape, spec.shape):
            raise ShapeError(f"{kernel.name}: {name}: expected shape {bound.shape}, got {array.shape}")
        if not bound.flags.writeable:
            raise DtypeError(f"{kernel.name}: {name} is read-only, as the array it was bound to")
        bound[...] = array


class _Outputs(_FixedArrays):
    """Outputs of a bound call."""

    def __setitem__(self, name: str, value: Any) -> None:
        if value is not self.get(name):
            raise LinkworkError(
                f"{self._kernel.name}: outputs are written by the call; bind with out= to select their arrays"
            )


def bind_arrays(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Bound:
    """Return a bound call of a kernel; missing arrays are allocated."""
    rows, inputs = _inputs(kernel, args, named)
    outputs = _outputs(kernel, rows, out)
    _reject_overlap(kernel, inputs, outputs)
    return _bind(kernel, inputs, outputs)


def _bind(kernel: Kernel, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Bound:
    """Return a bound call on arrays with valid shapes and dtypes."""
    result: Any = next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())
    call = kernel.bound_call([*inputs.values()], [*outputs.values()], result)
    attributes = {
        "__call__": call,
        "__slots__": (),
        "_kernel": kernel,
        "inputs": _Inputs(kernel, inputs),
        "outputs": _Outputs(kernel, outputs),
    }
    return type("Bound", (Bound,), attributes)()


def machine_call(kernel: Kernel, arrays: list[np.ndarray], result: Any) -> Any:
    """Return the built-in function that runs machine code on arrays and returns `result`."""
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


def _inputs(
    kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[int | None, dict[str, np.ndarray]]:
    names = [a.name for a in kernel.inputs]
    if len(args) > len(names):
        raise LinkworkError(
            f"{kernel.name}: expected at most {len(names)} input arrays ({', '.join(names)}), got {len(args)}"
        )
    arrays = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name in arrays:
            raise LinkworkError(f"{kernel.name}: input {name!r} is given twice")
        if name not in names:
            raise LinkworkError(f"{kernel.name}: unknown input {name!r}; the inputs are {', '.join(names)}")
        arrays[name] = value
    rows: int | None = None
    for spec in kernel.inputs:
        if spec.name in arrays:
            array = arrays[spec.name]
            _check_exact(kernel, spec, array)
            if array.ndim > len(spec.shape):
                if rows not in (None, array.shape[0]):
                    raise ShapeError(
                        f"{kernel.name}: {spec.name}: expected {rows} rows as in other inputs, got "
                        f"{array.shape[0]}"
                    )
                rows = array.shape[0]
    allocated = _zeros(kernel, rows, (s for s in kernel.inputs if s.name not in arrays))
    return rows, {name: arrays[name] if name in arrays else allocated[name] for name in names}


def _check_exact(kernel: Kernel, spec: Array, array: Any) -> None:
    """Raise if an array cannot be bound: it is used in place, so it must have the kernel's layout."""
    if not isinstance(array, np.ndarray):
        raise DtypeError(
            f"{kernel.name}: {spec.name}: expected a NumPy array to bind, got {type(array).__name__}"
        )
    reject_missing(kernel, spec.name, array)
    if array.dtype != kernel.dtype or not array.dtype.isnative or not array.flags.aligned:
        raise DtypeError(
            f"{kernel.name}: {spec.name}: expected an aligned {kernel.dtype} array to bind, got {array.dtype}"
        )
    if (
        array.ndim not in (len(spec.shape), len(spec.shape) + 1)
        or array.shape[array.ndim - len(spec.shape) :] != spec.shape
    ):
        raise ShapeError(
            f"{kernel.name}: {spec.name}: expected shape {shape_text(spec)} with at most one batch "
            f"dimension, got {array.shape}"
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
        raise ShapeError(f"{kernel.name}: out: expected a tuple of {len(kernel.outputs)} arrays ({names})")
    for spec, array in zip(kernel.outputs, outs, strict=True):
        check_output(kernel, spec, array, _shape(rows, spec))
        _check_exact(kernel, spec, array)
    return {s.name: a for s, a in zip(kernel.outputs, outs, strict=True)}


def _reject_overlap(kernel: Kernel, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    reject_overlap(kernel, tuple(outputs.values()))
    for name, array in outputs.items():
        for other, memory in inputs.items():
            if share_memory(array, memory):
                raise OverlapError(
                    f"{kernel.name}: output {name} shares memory with {other}; bind separate arrays"
                )
