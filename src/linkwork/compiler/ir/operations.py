"""Closed set of operations that a program may contain.

Values have one of two kinds, `REAL` (float64 or float32, one choice per program) and `BOOL`. Every target
implements the operations of `CORE`; `ELEMENTARY` ones occur only in traced programs and are expanded into
`CORE` by `passes.expand`.
"""

from __future__ import annotations

from typing import NamedTuple

REAL = "real"
BOOL = "bool"


class Operation(NamedTuple):
    """Name, kinds of the operands, kind of the result, and definition in words."""

    name: str
    operand_kinds: tuple[str, ...]
    result_kind: str
    definition: str


def _table(*rows: Operation) -> dict[str, Operation]:
    return {row.name: row for row in rows}


_R = REAL
_B = BOOL

CORE = _table(
    Operation("add", (_R, _R), _R, "a + b"),
    Operation("sub", (_R, _R), _R, "a - b"),
    Operation("mul", (_R, _R), _R, "a * b"),
    Operation("div", (_R, _R), _R, "a / b"),
    Operation("neg", (_R,), _R, "-a, the sign bit flipped"),
    Operation("fma", (_R, _R, _R), _R, "a * b + c, rounded once"),
    Operation("sqrt", (_R,), _R, "square root, correctly rounded; NaN below zero"),
    Operation("abs", (_R,), _R, "|a|, the sign bit cleared"),
    Operation("min", (_R, _R), _R, "a if a < b else b: b where either is NaN"),
    Operation("max", (_R, _R), _R, "a if a > b else b: b where either is NaN"),
    Operation("rint", (_R,), _R, "nearest integer, ties to even, sign kept"),
    Operation(
        "pow2",
        (_R,),
        _R,
        "2**a for an integral a, clamped to the exponents of normal numbers; NaN counts as the lowest",
    ),
    Operation(
        "exponent",
        (_R,),
        _R,
        "the unbiased binary exponent field: 1 for 2.5, -1023 (-127) for 0, 1024 (128) for inf, NaN",
    ),
    Operation("lt", (_R, _R), _B, "a < b, false where either is NaN"),
    Operation("le", (_R, _R), _B, "a <= b, false where either is NaN"),
    Operation("eq", (_R, _R), _B, "a == b, false where either is NaN"),
    Operation("and", (_B, _B), _B, "a and b"),
    Operation("or", (_B, _B), _B, "a or b"),
    Operation("not", (_B,), _B, "not a"),
    Operation("select", (_B, _R, _R), _R, "b where a holds, else c"),
)

ELEMENTARY = _table(
    Operation("sin", (_R,), _R, "sine of an angle in radians"),
    Operation("cos", (_R,), _R, "cosine of an angle in radians"),
    Operation("atan2", (_R, _R), _R, "angle of the point (b, a) in radians"),
    Operation("asin", (_R,), _R, "arc sine in radians"),
    Operation("acos", (_R,), _R, "arc cosine in radians"),
    Operation("exp", (_R,), _R, "e to the power a"),
    Operation("log", (_R,), _R, "natural logarithm"),
)

# Instructions that are not operations on values. The attribute of `const` is its number, of `input` its
# (array, element) address, of `loop` its BoundedLoop record, of `map` its RowMap record, and of `result` the
# number of the loop or map state that it reads.
STRUCTURAL = ("const", "input", "loop", "map", "result")
WITH_BODY = ("loop", "map")

OPERATIONS = {**CORE, **ELEMENTARY}
COMMUTATIVE = frozenset({"add", "mul", "eq", "and", "or"})
