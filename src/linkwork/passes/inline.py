"""Replays a program: into another builder, or on plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from linkwork.errors import ProgramError, ShapeError
from linkwork.ir.builder import Builder
from linkwork.ir.meaning import MEANING
from linkwork.ir.program import Instruction, Loop, Program


def live(program: Program, wanted: Iterable[int]) -> list[bool]:
    """For every value, whether one of the wanted values needs it."""
    needed = [False] * len(program.code)
    for value in wanted:
        needed[value] = True
    for value in range(len(needed) - 1, -1, -1):
        if needed[value]:
            for a in program.code[value].args:
                needed[a] = True
    return needed


def replay(builder: Builder, instruction: Instruction, args: tuple[int, ...], read: Callable[[int, int], int]) -> int:
    """One instruction of a program, on values of another builder; `read` gives the value of an element of an input."""
    op, _, attr = instruction
    if op == "const":
        return builder.constant(attr)  # type: ignore[arg-type]
    if op == "input":
        return read(*attr)  # type: ignore[misc]
    if op in ("loop", "result"):  # a loop body names nothing outside of itself, so it moves as it is
        return builder.put(op, args, attr)
    return builder.apply(op, *args)


def inline(program: Program, builder: Builder, values: Sequence[Sequence[int]]) -> list[list[int]]:
    """Put a program's instructions into a builder and return the values of its outputs there.

    `values` holds, per input array, the builder's value of every element in row-major order.
    """
    if program.dtype != builder.dtype:
        raise ProgramError(f"{program.name} is {program.dtype} and cannot become part of a {builder.dtype} program")
    _check_sizes(program, [len(v) for v in values])
    alive = live(program, program.result_values())
    here = [-1] * len(program.code)
    for k, instruction in enumerate(program.code):
        if alive[k]:
            args = tuple(here[a] for a in instruction.args)
            here[k] = replay(builder, instruction, args, lambda array, element: values[array][element])
    return [[here[v] for v in wanted] for wanted in program.results]


_ON_NUMBERS: dict[str, Callable[..., np.ndarray]] = {
    **MEANING,
    "sin": np.sin,
    "cos": np.cos,
    "atan2": np.arctan2,
    "asin": np.arcsin,
    "acos": np.arccos,
    "exp": np.exp,
    "log": np.log,
}


def evaluate(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a program once on plain numbers, with NumPy's elementary functions, and return its outputs.

    Not the meaning of a program, which `interpret` is: NumPy's sine and ours may differ in the last bit.
    """
    flat = [np.asarray(a, dtype=program.dtype).reshape(-1, 1) for a in arrays]
    _check_sizes(program, [len(a) for a in flat])
    with np.errstate(all="ignore"):
        values = _run(program, flat)
    outputs = []
    for array, wanted in zip(program.outputs, program.results, strict=True):
        cells = [values[v][0] for v in wanted]
        outputs.append(np.array(cells, dtype=program.dtype).reshape(array.shape))
    return outputs


def _run(program: Program, inputs: Sequence[Sequence[np.ndarray]]) -> list:
    values: list = []  # arrays of one element; a loop gives the list of its last state
    for op, args, attr in program.code:
        if op == "const":
            values.append(np.array([attr], dtype=bool if isinstance(attr, bool) else program.dtype))
        elif op == "input":
            array, element = attr  # type: ignore[misc]
            values.append(inputs[array][element])
        elif isinstance(attr, Loop):
            values.append(_run_loop(attr, [values[a] for a in args]))
        elif op == "result":
            values.append(values[args[0]][attr])
        else:
            values.append(_ON_NUMBERS[op](*(values[a] for a in args)))
    return values


def _run_loop(loop: Loop, args: list[np.ndarray]) -> list[np.ndarray]:
    state, outer = args[: loop.states], args[loop.states :]
    after, again = loop.body.results
    for _ in range(loop.limit):
        values = _run(loop.body, [state, outer])
        state = [values[v] for v in after]
        if not values[again[0]][0]:
            break
    return state


def _check_sizes(program: Program, given: list[int]) -> None:
    wanted = [a.size for a in program.inputs]
    if given != wanted:
        raise ShapeError(f"{program.name} takes arrays of {wanted} elements, not of {given}")
