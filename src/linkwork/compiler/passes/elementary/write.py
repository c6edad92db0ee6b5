"""Short names for operations in formulas over symbols."""

from __future__ import annotations

from collections.abc import Callable

from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.passes.elementary.coefficients import COEFFICIENTS, Coefficients


def _operation(op: str) -> Callable[..., Symbol]:
    """Return an operation on symbols of one builder and numbers, without the checks of `symbol.apply`."""

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
times = _operation("mul")  # unlike *, which returns 0 for a zero factor even if the other is NaN
where = _operation("select")


def polynomial(z: Symbol, coefficients: tuple[float, ...]) -> Symbol:
    """Evaluate a polynomial by Horner's rule; the constant term comes first."""
    *lower_coefficients, last = coefficients
    value: Symbol | float = last
    for c in reversed(lower_coefficients):
        value = fma(z, value, c)
    assert isinstance(value, Symbol)
    return value


def coefficients_for(x: Symbol) -> Coefficients:
    """Return the polynomials and constants for the dtype of x."""
    return COEFFICIENTS[x.builder.dtype]
