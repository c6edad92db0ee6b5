"""Interpreter of programs: the reference semantics, slow and short, that every target is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.ir.program import BoundedLoop, Program, RowMap
from linkwork.compiler.ir.semantics import SEMANTICS
from linkwork.errors import ProgramError, ShapeError


def interpret(program: Program, *arguments: Any, **named: Any) -> Any:
    """Run a program of core operations on arrays with any leading batch dimensions, as a kernel would.

    Returns one array, or a tuple of arrays if the program has several outputs.
    """
    arrays = _arguments(program, arguments, named)
    lead = [a.shape[: a.ndim - len(spec.shape)] for a, spec in zip(arrays, program.inputs, strict=True)]
    batch = np.broadcast_shapes(*lead) if lead else ()
    rows = int(np.prod(batch, dtype=int))
    flat = [
        np.broadcast_to(a, batch + s.shape).reshape(rows, s.size)
        for a, s in zip(arrays, program.inputs, strict=True)
    ]
    with np.errstate(all="ignore"):
        values = _run(program, flat, rows)
    outputs = tuple(
        _stack(values, indices, rows, program.dtype).reshape(batch + spec.shape)
        for spec, indices in zip(program.outputs, program.results, strict=True)
    )
    return outputs[0] if len(outputs) == 1 else outputs


def _run(program: Program, inputs: list[np.ndarray], rows: int) -> list[Any]:
    values: list[Any] = []
    for op, args, attr in program.code:
        if op in SEMANTICS:
            values.append(SEMANTICS[op](*(values[a] for a in args)))
        elif op == "const":
            values.append(np.full(rows, attr, dtype=bool if isinstance(attr, bool) else program.dtype))
        elif op == "input":
            array, element = attr
            values.append(inputs[array][:, element])
        elif op == "loop":
            values.append(_run_loop(attr, [values[a] for a in args], rows))
        elif op == "map":
            values.append(_run_map(attr, [values[a] for a in args], rows))
        elif op == "result":
            values.append(values[args[0]][:, attr])
        else:
            raise ProgramError(
                f"{program.name}: {op} must be expanded before the program can run; see passes.lower"
            )
    return values


def _run_loop(loop: BoundedLoop, args: list[np.ndarray], rows: int) -> np.ndarray:
    body = loop.body
    state = _stack(args, range(loop.states), rows, body.dtype)
    outer = _stack(args, range(loop.states, len(args)), rows, body.dtype)
    active = np.ones(rows, dtype=bool)
    for _ in range(loop.limit):
        if not active.any():
            break
        values = _run(body, [state, outer], rows)
        after = _stack(values, body.results[0], rows, body.dtype)
        state = np.where(active[:, None], after, state)
        active = active & values[body.results[1][0]]
    return state


def _run_map(record: RowMap, args: list[np.ndarray], rows: int) -> np.ndarray:
    body = record.body
    row_results = []
    shared = _stack(record.shared(args), range(body.inputs[1].size), rows, body.dtype)
    for row in record.rows(args):
        values = _run(body, [_stack(row, range(record.row_size), rows, body.dtype), shared], rows)
        row_results.append(_stack(values, body.results[0], rows, body.dtype))
    return np.concatenate(row_results, axis=1)


def _stack(values: Any, indices: Any, rows: int, dtype: str) -> np.ndarray:
    out = np.empty((rows, len(indices)), dtype=dtype)
    for k, v in enumerate(indices):
        out[:, k] = values[v]
    return out


def _arguments(program: Program, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[np.ndarray]:
    names = [a.name for a in program.inputs]
    if len(arguments) + len(named) != len(names) or not set(named) <= set(names[len(arguments) :]):
        raise ShapeError(f"{program.name}: expected the arrays {', '.join(names)}")
    arrays = list(arguments) + [named[n] for n in names[len(arguments) :]]
    out = []
    for spec, x in zip(program.inputs, arrays, strict=True):
        a = np.asarray(x, dtype=program.dtype)
        if a.shape[a.ndim - len(spec.shape) :] != spec.shape or a.ndim < len(spec.shape):
            raise ShapeError(
                f"{spec.name}: expected shape (..., {', '.join(map(str, spec.shape))}), got {a.shape}"
            )
        out.append(a)
    return out
