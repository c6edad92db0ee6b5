"""Checker of the invariants of programs, run after tracing and between passes."""

from __future__ import annotations

from typing import NoReturn

from linkwork.compiler.ir.operations import BOOL, CORE, OPERATIONS, REAL, WITH_BODY
from linkwork.compiler.ir.program import DTYPES, BoundedLoop, Program, RowMap
from linkwork.errors import ProgramError


def check(program: Program, *, core_only: bool = False, body: bool = False) -> Program:
    """Return the program unchanged, or raise `ProgramError` naming the first invalid instruction.

    `core_only` forbids elementary functions, as targets do; `body` marks the body of a loop or map.
    """
    allowed = {
        name: operation.operand_kinds for name, operation in (CORE if core_only else OPERATIONS).items()
    }
    real_operand_count = {name: len(kinds) for name, kinds in allowed.items() if set(kinds) == {REAL}}
    kinds = program.kinds
    non_real = {value for value, kind in enumerate(kinds) if kind != REAL}
    for value, (op, args, attr) in enumerate(program.code):
        plain = real_operand_count.get(op) == len(args) and attr is None and non_real.isdisjoint(args)
        if (
            plain and max(args) < value and min(args) >= 0
        ):  # fast path: most instructions are operations on reals
            continue
        for a in args:
            if not 0 <= a < value:
                _fail(program, value, f"uses %{a} before it is computed")
        operand_kinds = allowed.get(op)
        if operand_kinds is None:
            _check_structural(program, value, core_only)
        elif attr is not None or tuple([kinds[a] for a in args]) != operand_kinds:
            _fail_operands(program, value, operand_kinds)
    _check_results(program, body)
    if not body:
        _check_names(program)
    return program


def _fail(program: Program, value: int, reason: str) -> NoReturn:
    raise ProgramError(f"{program.name}: instruction %{value} {program.code[value]}: {reason}")


def _fail_operands(program: Program, value: int, operand_kinds: tuple[str, ...]) -> NoReturn:
    _, args, attr = program.code[value]
    if len(args) != len(operand_kinds) or attr is not None:
        _fail(program, value, f"expected {len(operand_kinds)} operands and no attribute")
    a, kind = next((a, kind) for a, kind in zip(args, operand_kinds, strict=True) if program.kinds[a] != kind)
    _fail(program, value, f"operand %{a}: expected {kind}, got {program.kinds[a]}")


def _check_structural(program: Program, value: int, core_only: bool) -> None:
    op, args, attr = program.code[value]
    if op == "const":
        if args or not isinstance(attr, (float, bool)):
            _fail(program, value, "a constant takes one float or bool")
    elif op == "input":
        arrays = program.inputs
        if args or not (
            isinstance(attr, tuple) and 0 <= attr[0] < len(arrays) and 0 <= attr[1] < arrays[attr[0]].size
        ):
            _fail(program, value, "an input takes the (array, element) address of an input element")
    elif op == "loop":
        _check_loop(program, value, args, attr, core_only)
    elif op == "map":
        _check_map(program, value, args, attr, core_only)
    elif op == "result":
        source = program.code[args[0]] if len(args) == 1 else None
        if (
            source is None
            or source.op not in WITH_BODY
            or not (isinstance(attr, int) and 0 <= attr < source.attr.states)
        ):
            _fail(program, value, "a result takes the state number of a loop or map")
    elif op in OPERATIONS:
        _fail(program, value, "elementary functions must be expanded before this pass")
    else:
        _fail(program, value, "unknown operation")


def _check_loop(program: Program, value: int, args: tuple[int, ...], loop: object, core_only: bool) -> None:
    if not isinstance(loop, BoundedLoop):
        raise ProgramError(f"{program.name}: %{value}: a loop takes a BoundedLoop")
    body = loop.body
    outer = len(args) - loop.states
    fits = (
        loop.limit >= 1
        and [a.size for a in body.inputs] == [loop.states, outer]
        and [len(r) for r in body.results] == [loop.states, 1]
        and body.dtype == program.dtype
        and all(program.kinds[a] == REAL for a in args)
    )
    if not fits:
        raise ProgramError(f"{program.name}: %{value}: the operands of the loop do not match its body")
    check(body, core_only=core_only, body=True)


def _check_map(program: Program, value: int, args: tuple[int, ...], record: object, core_only: bool) -> None:
    if not isinstance(record, RowMap):
        raise ProgramError(f"{program.name}: %{value}: a map takes a RowMap")
    body = record.body
    fits = (
        record.count >= 1
        and len(body.inputs) == 2
        and len(args) == record.count * record.row_size + body.inputs[1].size
        and len(body.outputs) == 1
        and body.dtype == program.dtype
        and all(program.kinds[a] == REAL for a in args)
    )
    if not fits:
        raise ProgramError(f"{program.name}: %{value}: the operands of the map do not match its body")
    check(body, core_only=core_only, body=True)


def _check_names(program: Program) -> None:
    names = [a.name for a in program.inputs + program.outputs]
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(f"{program.name}: two arrays have the name {name!r}")


def _check_results(program: Program, body: bool) -> None:
    if program.dtype not in DTYPES:
        raise ProgramError(f"{program.name}: expected a dtype of {DTYPES}, got {program.dtype!r}")
    for number, (array, values) in enumerate(zip(program.outputs, program.results, strict=True)):
        kind = (
            BOOL if body and number == 1 else REAL
        )  # the second output of a loop body is its condition `again`
        if len(values) != array.size:
            raise ProgramError(
                f"{program.name}: output {array.name!r} of shape {array.shape} has {len(values)} values"
            )
        for v in values:
            if not 0 <= v < len(program.code) or program.kinds[v] != kind:
                raise ProgramError(
                    f"{program.name}: output {array.name!r} reads %{v}, which is not a {kind} value"
                )
