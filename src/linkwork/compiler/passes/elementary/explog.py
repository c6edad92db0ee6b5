"""Exponential function and natural logarithm in core operations."""

from __future__ import annotations

import math

from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.passes.elementary.write import (
    coefficients_for,
    exponent,
    fma,
    maximum,
    minimum,
    polynomial,
    pow2,
    rint,
    where,
)

# exp is zero below the first number and infinite above the second.
EXP_RANGE = {"float64": (-746.0, 710.0), "float32": (-105.0, 89.0)}


def exp(x: Symbol) -> Symbol:
    """Return e**x = 2**k e**r with |r| at most log(2) / 2."""
    coefficients = coefficients_for(x)
    lowest, highest = EXP_RANGE[x.builder.dtype]
    x = maximum(lowest, minimum(highest, x))  # this order propagates NaN
    k = rint(x * coefficients.log2_e[0])
    r = fma(k, -coefficients.ln2[1], fma(k, -coefficients.ln2[0], x))  # the first step is exact
    power = fma(r * r, polynomial(r, coefficients.exp), r) + 1.0
    half = rint(k * 0.5)  # 2**k alone may be no normal number; only the last product can round
    return power * pow2(half) * pow2(k - half)


def log(x: Symbol) -> Symbol:
    """Return log x = e log 2 + log m with x = 2**e m and m between sqrt(1/2) and sqrt(2)."""
    coefficients = coefficients_for(x)
    tiny = x < 2.0**-100
    scaled = x * where(tiny, 2.0**60, 0.5)  # neither subnormal nor so large that 2**-e is subnormal
    e = exponent(scaled)
    m = scaled * pow2(-e)
    e = e + where(tiny, -60.0, 1.0)
    upper = math.sqrt(2.0) < m
    m = where(upper, m * 0.5, m)
    e = where(upper, e + 1.0, e)

    # With s = f / (2 + f), log m = 2 s + s z P(z) and 2 s = f - s f: f is exact and the largest part.
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    less = s * (f - z * polynomial(z, coefficients.log))
    result = fma(e, coefficients.ln2[0], f - fma(e, -coefficients.ln2[1], less))
    positive = x > 0.0
    special = where(positive, x, where(x == 0.0, -math.inf, math.nan))
    return where(positive & (x < math.inf), result, special)
