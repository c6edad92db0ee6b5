"""Short names for the operations that formulas over symbols need."""

from __future__ import annotations

from collections.abc import Callable

from linkwork.ir.symbol import Symbol
from linkwork.passes.elementary.coefficients import COEFFICIENTS, Coefficients


def _operation(op: str) -> Callable[..., Symbol]:
    """The operation on symbols of one builder and numbers: `symbol.apply` without the checks that users need."""

    def write(*args: Symbol | float) -> Symbol:
        builder = next(a.builder for a in args if type(a) is Symbol)
        values = [a.value if isinstance(a, Symbol) else builder.constant(a) for a in args]
        return Symbol(builder, builder.apply(op, *values))

    return write


absolute = _operation("abs")
exponent = _operation("exponent")
fma = _operation("fma")
maximum = _operation("max")
minimum = _operation("min")
pow2 = _operation("pow2")
rint = _operation("rint")
sqrt = _operation("sqrt")
times = _operation("mul")  # for a factor of zero, which * takes to mean zero whatever the other is
where = _operation("select")


def polynomial(z: Symbol, coefficients: tuple[float, ...]) -> Symbol:
    """Horner's rule; the constant term comes first."""
    *rest, last = coefficients
    value: Symbol | float = last
    for c in reversed(rest):
        value = fma(z, value, c)
    assert isinstance(value, Symbol)
    return value


def coefficients_for(x: Symbol) -> Coefficients:
    """The polynomials and constants of the dtype of x."""
    return COEFFICIENTS[x.builder.dtype]
