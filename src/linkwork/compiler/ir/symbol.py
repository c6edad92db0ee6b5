"""Symbols: scalars that stand for numbers while a function is traced.

They live in NumPy object arrays beside plain floats, so `S.T @ I @ S` works on both. The rules for structural
zeros act here, because only here a zero is known to come from the structure of the model and not from its
numbers: 0 x = 0, x + 0 = x, x - x = 0, -(x - y) = y - x. They follow real arithmetic and never round; they
give up the NaN of 0 times infinity and the sign of zero.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType
from typing import Any, NoReturn

import numpy as np

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.operations import BOOL, OPERATIONS, REAL
from linkwork.errors import TraceError

_INTERNAL_PACKAGES = ("linkwork", "numpy")  # never the place of a user's error
_LIBRARY = tuple(f"{Path(sysconfig.get_path(part))}{os.sep}" for part in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")  # inside of the standard library, but users' code
_NUMBERS = (float, int, np.floating, np.integer)


def user_line(traceback: TracebackType | None = None) -> str:
    """Return `file:line` of the innermost frame outside linkwork, NumPy and the standard library.

    It is taken from the running code, or from a traceback.
    """
    if traceback is not None:
        frames = list(walk_tb(traceback))[::-1]
    else:
        frames = list(walk_stack(sys._getframe(1)))
    for frame, line in frames:
        if not _is_library_frame(frame):
            return f"{frame.f_code.co_filename}:{line}"
    return "unknown location"


def _is_library_frame(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    if str(frame.f_globals.get("__name__")).partition(".")[0] in _INTERNAL_PACKAGES or path.startswith(
        "<frozen "
    ):
        return True
    return path.startswith(_LIBRARY) and not any(name in Path(path).parts for name in _INSTALLED)


def _fail(reason: str) -> NoReturn:
    raise TraceError(f"{user_line()}: {reason}")


class Symbol:
    """Scalar whose number is not known yet; arithmetic on it is recorded, not computed."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: int) -> None:
        self.builder = builder
        self.value = value

    # arithmetic; two symbols, the most frequent case, take a fast path

    def __add__(self, other: Any) -> Any:
        return _pair("add", self, other) if type(other) is Symbol else add(self, other)

    def __radd__(self, other: Any) -> Any:
        return add(other, self)

    def __sub__(self, other: Any) -> Any:
        return sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return _pair("mul", self, other) if type(other) is Symbol else mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return div(other, self)

    def __neg__(self) -> Any:
        return neg(self)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Any:
        return apply("abs", self)

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, (int, np.integer)) or power < 0:
            _fail("power of a symbol: expected an integer >= 0; use exp(p * log(x)) or sqrt(x)")
        result: Any = 1.0
        for bit in bin(int(power))[2:]:
            result = result * result * (self if bit == "1" else 1.0)
        return result

    # comparisons and conditions

    def __lt__(self, other: Any) -> Any:
        return apply("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return apply("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return apply("lt", other, self)

    def __ge__(self, other: Any) -> Any:
        return apply("le", other, self)

    def __eq__(self, other: object) -> Any:
        return apply("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return apply("not", apply("eq", self, other))

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Any:
        return apply("and", self, other)

    def __or__(self, other: Any) -> Any:
        return apply("or", self, other)

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Any:
        return apply("not", self)

    # methods that NumPy calls on the elements of an object array for np.sqrt, np.sin etc.

    def sqrt(self) -> Any:
        return apply("sqrt", self)

    def sin(self) -> Any:
        return apply("sin", self)

    def cos(self) -> Any:
        return apply("cos", self)

    def arcsin(self) -> Any:
        return apply("asin", self)

    def arccos(self) -> Any:
        return apply("acos", self)

    def arctan2(self, x: Any) -> Any:
        return apply("atan2", self, x)

    def exp(self) -> Any:
        return apply("exp", self)

    def log(self) -> Any:
        return apply("log", self)

    def rint(self) -> Any:
        return apply("rint", self)

    def conjugate(self) -> Symbol:
        return self

    # conversions that need a number

    def __bool__(self) -> bool:
        _fail(
            "the truth value of a symbol is not known while tracing: "
            "use linkwork.where, minimum, maximum or loop instead of if, while, and, or, min, max on values "
            "(and np.less(x, y, dtype=object) instead of x < y on arrays)"
        )

    def __float__(self) -> float:
        _fail(
            "a symbol has no number while tracing: it cannot be converted to a float "
            "(or enter a float array, math.* or np.linalg)"
        )

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self) -> NoReturn:
        _fail("a symbol is one scalar and cannot be iterated over")

    def __repr__(self) -> str:
        op, args, attr = self.builder.code[self.value]
        inner = attr if attr is not None else ", ".join(f"%{a}" for a in args)
        return f"<symbol %{self.value} = {op}({inner})>"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a NumPy function to a bare symbol as to an object array; comparisons give conditions."""
        if ufunc in _COMPARISONS and method == "__call__":
            kwargs.setdefault("dtype", object)  # NumPy would convert each result to bool
        boxed = [box(x) if isinstance(x, Symbol) else x for x in inputs]
        return getattr(ufunc, method)(*boxed, **kwargs)


_COMPARISONS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal})


def box(symbol: Symbol) -> np.ndarray:
    """Return a 0-d object array that holds the symbol."""
    out = np.empty((), dtype=object)
    out[()] = symbol
    return out


def is_number(x: Any) -> bool:
    """Return True if x is a plain real number."""
    return isinstance(x, _NUMBERS)


def shared_builder(symbols: list[Symbol]) -> Builder:
    """Return the innermost of the symbols' builders, which must be nested in one another."""
    innermost = symbols[0].builder
    for s in symbols[1:]:
        if s.builder is not innermost and not _inside(innermost, s.builder):
            if not _inside(s.builder, innermost):
                _fail(
                    "symbols of two different traces were mixed, or a loop body's symbol was used outside "
                    "of it"
                )
            innermost = s.builder
    return innermost


def _inside(inner: Builder, outer: Builder) -> bool:
    b: Builder | None = inner
    while b is not None:
        if b is outer:
            return True
        b = b.parent
    return False


def value_in(builder: Builder, x: Any) -> int:
    """Return the value of a symbol or number in a builder, captured by loop bodies as needed."""
    if isinstance(x, Symbol):
        if x.builder is builder:
            return x.value
        if builder.parent is None:
            _fail("a symbol of another trace, or of a loop body that has ended, was used")
        return builder.capture(value_in(builder.parent, x))
    if isinstance(x, (bool, np.bool_)):
        return builder.constant(bool(x))
    if is_number(x):
        return builder.constant(float(x))
    _fail(f"operand in a traced function: expected a real number or symbol, got {type(x).__name__}")


def apply(op: str, *args: Any) -> Any:
    """Apply an operation to symbols and numbers, at least one of them a symbol."""
    symbols = [a for a in args if isinstance(a, Symbol)]
    if not symbols:
        return NotImplemented
    if any(isinstance(a, np.ndarray) for a in args):
        return NotImplemented
    builder = shared_builder(symbols)
    values = [value_in(builder, a) for a in args]
    for kind, value in zip(OPERATIONS[op].operand_kinds, values, strict=True):
        if builder.kind(value) != kind:
            _fail(f"`{op}`: expected a {_KIND_WORDS[kind]}, got a {_KIND_WORDS[builder.kind(value)]}")
    return Symbol(builder, builder.apply(op, *values))


_KIND_WORDS = {REAL: "number", BOOL: "condition"}


_REAL_OPERATIONS = frozenset(
    {"input", "result", *(name for name, operation in OPERATIONS.items() if operation.result_kind == REAL)}
)


def _pair(op: str, x: Any, y: Any) -> Any:
    """Apply a binary operation; fast path for two symbols of one trace and for a symbol and a float."""
    if type(x) is Symbol:
        b = x.builder
        i = x.value
        if b.code[i][0] in _REAL_OPERATIONS:
            if type(y) is Symbol:
                j = y.value
                if y.builder is b and b.code[j][0] in _REAL_OPERATIONS:
                    return Symbol(b, b.apply(op, i, j))
            elif type(y) is float:
                return Symbol(b, b.apply(op, i, b.constant(y)))
    elif type(x) is float and type(y) is Symbol:
        b = y.builder
        j = y.value
        if b.code[j][0] in _REAL_OPERATIONS:
            return Symbol(b, b.apply(op, b.constant(x), j))
    return apply(op, x, y)


def add(x: Any, y: Any) -> Any:
    if is_number(x) and x == 0:
        return y
    if is_number(y) and y == 0:
        return x
    return _pair("add", x, y)


def sub(x: Any, y: Any) -> Any:
    if is_number(y) and y == 0:
        return x
    if is_number(x) and x == 0:
        return neg(y)
    if type(x) is Symbol and type(y) is Symbol and x.builder is y.builder and x.value == y.value:
        return 0.0
    return _pair("sub", x, y)


def mul(x: Any, y: Any) -> Any:
    if (is_number(x) and x == 0) or (is_number(y) and y == 0):
        return 0.0
    return _pair("mul", x, y)


def div(x: Any, y: Any) -> Any:
    if is_number(x) and x == 0:
        return 0.0
    if is_number(y) and y == 0:
        _fail("division of a symbol by a structural zero")
    return _pair("div", x, y)


def neg(x: Any) -> Any:
    if type(x) is Symbol:
        op, args, _ = x.builder.code[x.value]
        if op == "sub":
            return Symbol(x.builder, x.builder.apply("sub", args[1], args[0]))
    return apply("neg", x)
