"""Builder of programs, with common subexpressions shared and exact simplifications applied.

The rules here never change a bit of a result (NaN counts as one value), so tracing and every pass share them.
Rules about structural zeros, which do (0 x = 0 drops a NaN), belong to `symbol`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from linkwork.compiler.ir.operations import BOOL, COMMUTATIVE, CORE, OPERATIONS, REAL
from linkwork.compiler.ir.program import Array, BoundedLoop, Instruction, Program, RowMap
from linkwork.compiler.ir.semantics import fold, round_to_float32

_make = tuple.__new__  # an Instruction from a tuple, faster than by its constructor
RewriteRule = Callable[["Builder", tuple[int, ...]], "int | None"]


class Builder:
    """Growing instruction list of a program, or of a loop body, whose `parent` is the enclosing builder."""

    def __init__(self, dtype: str = "float64", parent: Builder | None = None) -> None:
        self.dtype = dtype
        self.parent = parent
        self.code: list[Instruction] = []
        self.captured: dict[int, int] = {}  # value of the parent -> its input here
        self._seen: dict[tuple[Any, ...], int] = {}

    def emit(self, op: str, args: tuple[int, ...] = (), attr: object = None) -> int:
        """Return the value of an instruction, the earlier one if it exists, without simplifying it."""
        key = (op, args, attr)
        value = self._seen.get(key)
        if value is None:
            value = self._seen[key] = len(self.code)
            self.code.append(_make(Instruction, key))
        return value

    def constant(self, number: float | bool) -> int:
        """Return the value of a constant rounded to the program's dtype; -0.0 and 0.0 are distinct."""
        if isinstance(number, bool):
            key: tuple[Any, ...] = ("const", number, "bool")
        else:
            if self.dtype == "float32":
                number = round_to_float32(number)
            key = ("const", number, math.copysign(1.0, number)) if number == number else ("const", "nan")
        value = self._seen.get(key)
        if value is None:
            value = self._seen[key] = len(self.code)
            self.code.append(Instruction("const", (), number))
        return value

    def input(self, array: int, element: int) -> int:
        """Return the value of one element of one input array."""
        return self.emit("input", (), (array, element))

    def number(self, value: int) -> float | bool | None:
        """Return the constant behind a value, or None if it is not a constant."""
        op, _, attr = self.code[value]
        return attr if op == "const" else None

    def kind(self, value: int) -> str:
        """Return REAL or BOOL."""
        op, _, attr = self.code[value]
        if op in OPERATIONS:
            return OPERATIONS[op].result_kind
        return BOOL if isinstance(attr, bool) else REAL

    def apply(self, op: str, *args: int) -> int:
        """Return the value of an operation in the simplest form that has the same bits."""
        code = self.code
        for a in args:
            if code[a][0] != "const":
                break
        else:
            if op in CORE:
                return self.constant(fold(op, self.dtype, [code[a].attr for a in args]))
        rule = RULES.get(op)
        if rule is not None:
            simpler = rule(self, args)
            if simpler is not None:
                return simpler
        if op in COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        key = (op, args, None)  # as in `emit`
        value = self._seen.get(key)
        if value is None:
            value = self._seen[key] = len(code)
            code.append(_make(Instruction, key))
        return value

    def reapply(self, op: str, args: tuple[int, ...], attr: Any) -> int:
        """Return the value of another program's instruction applied to values of this one, simplified."""
        if op == "const":
            return self.constant(attr)
        # a body refers to nothing outside of itself, so a loop or map is copied unchanged
        return self.apply(op, *args) if op in OPERATIONS else self.emit(op, args, attr)

    def loop(self, loop: BoundedLoop, args: Sequence[int]) -> list[int]:
        """Return the values of a loop's last state."""
        value = self.emit("loop", tuple(args), loop)
        return [self.emit("result", (value,), k) for k in range(loop.states)]

    def map(self, record: RowMap, args: Sequence[int]) -> list[int]:
        """Return the values of all rows of a map's result, row after row."""
        value = self.emit("map", tuple(args), record)
        return [self.emit("result", (value,), k) for k in range(record.states)]

    def capture(self, value: int) -> int:
        """Return the input of this loop body that carries a value of the enclosing builder."""
        assert self.parent is not None
        outer = self.parent
        number = outer.number(value)
        if number is not None:
            return self.constant(number)
        if outer.kind(value) == BOOL:  # only reals pass into a body: a condition goes in as 1 or 0
            carried = outer.apply("select", value, outer.constant(1.0), outer.constant(0.0))
            return self.apply("lt", self.constant(0.5), self.capture(carried))
        position = self.captured.setdefault(value, len(self.captured))
        return self.input(1, position)

    def finish(
        self, name: str, inputs: Sequence[Array], outputs: Sequence[Array], results: Sequence[Sequence[int]]
    ) -> Program:
        """Return the program made of the instructions so far."""
        return Program(
            name,
            tuple(inputs),
            tuple(outputs),
            tuple(self.code),
            tuple(tuple(r) for r in results),
            self.dtype,
        )


# Exact rewrite rules. Each looks at the arguments of one operation and returns a simpler value or None.


_SPECIAL = frozenset({"const", "neg"})  # operands that the rules of sums and products can simplify


def _arg_of(b: Builder, op: str, value: int) -> int | None:
    instruction = b.code[value]
    return instruction.args[0] if instruction.op == op else None


def _add(b: Builder, args: tuple[int, ...]) -> int | None:
    x, y = args
    if b.code[x][0] not in _SPECIAL and b.code[y][0] not in _SPECIAL:
        return None
    if (n := _arg_of(b, "neg", y)) is not None:
        return b.apply("sub", x, n)
    if (n := _arg_of(b, "neg", x)) is not None:
        return b.apply("sub", y, n)
    for one, other in ((x, y), (y, x)):
        number = b.number(one)
        if number == 0 and math.copysign(1.0, number) < 0:  # x + -0 is x; x + 0 is not, for x = -0
            return other
    return None


def _sub(b: Builder, args: tuple[int, ...]) -> int | None:
    x, y = args
    if b.code[y][0] not in _SPECIAL:
        return None
    if (n := _arg_of(b, "neg", y)) is not None:
        return b.apply("add", x, n)
    number = b.number(y)
    if number == 0 and math.copysign(1.0, number) > 0:
        return x
    return None


def _mul(b: Builder, args: tuple[int, ...]) -> int | None:
    x, y = args
    if b.code[x][0] not in _SPECIAL and b.code[y][0] not in _SPECIAL:
        return None
    for one, other in ((x, y), (y, x)):
        number = b.number(one)
        if number == 1:
            return other
        if number == -1:
            return b.apply("neg", other)
    nx = _arg_of(b, "neg", x)
    ny = _arg_of(b, "neg", y)
    if nx is not None and ny is not None:
        return b.apply("mul", nx, ny)
    if nx is not None:
        return b.apply("neg", b.apply("mul", nx, y))
    if ny is not None:
        return b.apply("neg", b.apply("mul", x, ny))
    return None


def _div(b: Builder, args: tuple[int, ...]) -> int | None:
    x, y = args
    number = b.number(y)
    if number is None or number == 0 or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(number)
    if abs(mantissa) == 0.5 and abs(exponent) < 100:  # a power of two: the reciprocal is exact
        return b.apply("mul", x, b.constant(1.0 / number))
    return None


def _neg(b: Builder, args: tuple[int, ...]) -> int | None:
    return _arg_of(b, "neg", args[0])


def _abs(b: Builder, args: tuple[int, ...]) -> int | None:
    if b.code[args[0]].op == "abs":
        return args[0]
    n = _arg_of(b, "neg", args[0])
    return None if n is None else b.apply("abs", n)


def _fma(b: Builder, args: tuple[int, ...]) -> int | None:
    x, y, z = args
    if b.code[x][0] not in _SPECIAL and b.code[y][0] not in _SPECIAL:
        return b.emit("fma", (y, x, z)) if x > y else None
    for one, other in ((x, y), (y, x)):
        number = b.number(one)
        if number == 1:
            return b.apply("add", other, z)
        if number == -1:
            return b.apply("sub", z, other)
    nx = _arg_of(b, "neg", x)
    ny = _arg_of(b, "neg", y)
    if nx is not None and ny is not None:
        return b.apply("fma", nx, ny, z)
    if x > y:
        return b.apply("fma", y, x, z)
    return None


def _select(b: Builder, args: tuple[int, ...]) -> int | None:
    condition, x, y = args
    constant_condition = b.number(condition)
    if constant_condition is not None:
        return x if constant_condition else y
    if x == y:
        return x
    n = _arg_of(b, "not", condition)
    return None if n is None else b.apply("select", n, y, x)


def _same(b: Builder, args: tuple[int, ...]) -> int | None:
    return args[0] if args[0] == args[1] else None


def _and(b: Builder, args: tuple[int, ...]) -> int | None:
    for one, other in (args, args[::-1]):
        number = b.number(one)
        if number is not None:
            return other if number else one
    return _same(b, args)


def _or(b: Builder, args: tuple[int, ...]) -> int | None:
    for one, other in (args, args[::-1]):
        number = b.number(one)
        if number is not None:
            return one if number else other
    return _same(b, args)


def _not(b: Builder, args: tuple[int, ...]) -> int | None:
    return _arg_of(b, "not", args[0])


RULES: dict[str, RewriteRule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "abs": _abs,
    "fma": _fma,
    "select": _select,
    "min": _same,
    "max": _same,
    "and": _and,
    "or": _or,
    "not": _not,
}
