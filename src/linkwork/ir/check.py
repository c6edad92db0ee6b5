"""The checker: what must hold for every program, tested after tracing and between passes."""

from __future__ import annotations

from linkwork.errors import ProgramError
from linkwork.ir.operations import BOOL, CORE, OPERATIONS, REAL
from linkwork.ir.program import DTYPES, Loop, Program


def check(program: Program, *, core_only: bool = False, body: bool = False) -> Program:
    """Return the program unchanged, or raise `ProgramError` naming the first instruction that breaks a rule.

    `core_only` forbids elementary functions, as targets do; `body` says that the program is the body of a loop.
    """
    allowed = CORE if core_only else OPERATIONS
    kinds = program.kinds
    sizes = [a.size for a in program.inputs]

    def fail(value: int, why: str) -> None:
        raise ProgramError(f"{program.name}: instruction %{value} {program.code[value]}: {why}")

    for value, (op, args, attr) in enumerate(program.code):
        for a in args:
            if not 0 <= a < value:
                fail(value, f"takes %{a}, which is not computed before it")
        if op in allowed:
            takes = OPERATIONS[op].takes
            if len(args) != len(takes):
                fail(value, f"takes {len(takes)} values")
            for a, kind in zip(args, takes, strict=True):
                if kinds[a] != kind:
                    fail(value, f"wants %{a} to be {kind}, it is {kinds[a]}")
        elif op == "const":
            if args or not isinstance(attr, (float, bool)):
                fail(value, "a constant carries one float or bool")
        elif op == "input":
            ok = isinstance(attr, tuple) and 0 <= attr[0] < len(sizes) and 0 <= attr[1] < sizes[attr[0]]
            if args or not ok:
                fail(value, "an input carries the address of an element of an input array")
        elif op == "loop":
            _check_loop(program, value, args, attr, core_only)
        elif op == "result":
            source = program.code[args[0]]
            if source.op != "loop" or not 0 <= attr < source.attr.states:  # type: ignore[union-attr,operator]
                fail(value, "a result reads one state of a loop")
        elif op in OPERATIONS:
            fail(value, "elementary functions must be expanded here")
        else:
            fail(value, "unknown operation")
    _check_results(program)
    if not body:
        _check_names(program)
    return program


def _check_loop(program: Program, value: int, args: tuple[int, ...], loop: object, core_only: bool) -> None:
    if not isinstance(loop, Loop):
        raise ProgramError(f"{program.name}: %{value}: a loop carries a Loop")
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
        raise ProgramError(f"{program.name}: %{value}: the loop's values do not fit its body")
    check(body, core_only=core_only, body=True)
    if body.kinds[body.results[1][0]] != BOOL:
        raise ProgramError(f"{program.name}: %{value}: `again` must be a condition")


def _check_names(program: Program) -> None:
    names = [a.name for a in program.inputs + program.outputs]
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(f"{program.name}: two arrays are called {name!r}")


def _check_results(program: Program) -> None:
    if program.dtype not in DTYPES:
        raise ProgramError(f"{program.name}: dtype {program.dtype!r} is not one of {DTYPES}")
    for array, values in zip(program.outputs, program.results, strict=True):
        if len(values) != array.size:
            raise ProgramError(f"{program.name}: output {array.name!r} of shape {array.shape} has {len(values)} values")
        for v in values:
            if not 0 <= v < len(program.code) or (program.kinds[v] != REAL and array.name != "again"):
                raise ProgramError(f"{program.name}: output {array.name!r} reads %{v}, which is no real value")
