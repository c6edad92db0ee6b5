"""The interpreter: it is the meaning of a program. Slow, short, and what every target is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.errors import ProgramError, ShapeError
from linkwork.ir.meaning import MEANING
from linkwork.ir.program import BoundedLoop, Program, RowMap


def interpret(program: Program, *arguments: Any, **named: Any) -> Any:
    """Run a program without elementary functions on arrays with any leading batch dimensions, as a kernel would.

    Returns one array, or a tuple of arrays where the program has several outputs.
    """
    arrays = _arguments(program, arguments, named)
    lead = [a.shape[: a.ndim - len(spec.shape)] for a, spec in zip(arrays, program.inputs, strict=True)]
    batch = np.broadcast_shapes(*lead) if lead else ()
    rows = int(np.prod(batch, dtype=int))
    flat = [np.broadcast_to(a, batch + s.shape).reshape(rows, s.size) for a, s in zip(arrays, program.inputs, strict=True)]
    with np.errstate(all="ignore"):
        values = _run(program, flat, rows)
    outputs = tuple(
        _stack(values, wanted, rows, program.dtype).reshape(batch + spec.shape)
        for spec, wanted in zip(program.outputs, program.results, strict=True)
    )
    return outputs[0] if len(outputs) == 1 else outputs


def _run(program: Program, inputs: list[np.ndarray], rows: int) -> list[Any]:
    values: list[Any] = []
    for op, args, attr in program.code:
        if op in MEANING:
            values.append(MEANING[op](*(values[a] for a in args)))
        elif op == "const":
            values.append(np.full(rows, attr, dtype=bool if isinstance(attr, bool) else program.dtype))
        elif op == "input":
            array, element = attr  # type: ignore[misc]
            values.append(inputs[array][:, element])
        elif op == "loop":
            values.append(_run_loop(attr, [values[a] for a in args], rows))  # type: ignore[arg-type]
        elif op == "map":
            values.append(_run_map(attr, [values[a] for a in args], rows))  # type: ignore[arg-type]
        elif op == "result":
            values.append(values[args[0]][:, attr])
        else:
            raise ProgramError(f"{program.name}: {op} must be expanded before the program can run (passes.lower)")
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


def _run_map(each: RowMap, args: list[np.ndarray], rows: int) -> np.ndarray:
    body, found = each.body, []
    shared = _stack(each.shared(args), range(body.inputs[1].size), rows, body.dtype)
    for row in each.rows(args):
        values = _run(body, [_stack(row, range(each.takes), rows, body.dtype), shared], rows)
        found.append(_stack(values, body.results[0], rows, body.dtype))
    return np.concatenate(found, axis=1)


def _stack(values: Any, wanted: Any, rows: int, dtype: str) -> np.ndarray:
    out = np.empty((rows, len(wanted)), dtype=dtype)
    for k, v in enumerate(wanted):
        out[:, k] = values[v]
    return out


def _arguments(program: Program, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[np.ndarray]:
    names = [a.name for a in program.inputs]
    if len(arguments) + len(named) != len(names) or not set(named) <= set(names[len(arguments) :]):
        raise ShapeError(f"{program.name} takes the arrays {', '.join(names)}")
    given = list(arguments) + [named[n] for n in names[len(arguments) :]]
    out = []
    for spec, x in zip(program.inputs, given, strict=True):
        a = np.asarray(x, dtype=program.dtype)
        if a.shape[a.ndim - len(spec.shape) :] != spec.shape or a.ndim < len(spec.shape):
            raise ShapeError(f"{spec.name}: expected shape (..., {', '.join(map(str, spec.shape))}), got {a.shape}")
        out.append(a)
    return out
