"""Sine, cosine and their inverses in core operations."""

from __future__ import annotations

import math
from typing import NamedTuple

from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.passes.elementary.write import (
    absolute,
    coefficients_for,
    exponent,
    fma,
    maximum,
    minimum,
    polynomial,
    pow2,
    rint,
    sqrt,
    times,
    where,
)

# x (2 / pi) times this overflows from |x| = 2**45 pi / 2 (2**16 pi / 2) on.
TURNS_SCALE = {"float64": 2.0**979, "float32": 2.0**112}


class ReducedAngle(NamedTuple):
    """Angle x = r + k pi / 2: sine and cosine of r, and those of k pi / 2, which are -1, 0 or 1."""

    s: Symbol
    c: Symbol
    sk: Symbol
    ck: Symbol


def reduce_angle(x: Symbol) -> ReducedAngle:
    """Return the terms that sin x and cos x share.

    This runs for every joint of every robot: every instruction counts.
    """
    coefficients = coefficients_for(x)
    two_over_pi = coefficients.two_over_pi[0]
    scale = TURNS_SCALE[x.builder.dtype]
    k = rint(x * two_over_pi)
    # pi / 2 in three parts. The first step is exact, so r is accurate even if x is almost a multiple of
    # pi / 2.
    r = x
    for part in coefficients.half_pi:
        r = fma(k, -part, r)
    z = r * r
    s = fma(r * z, polynomial(z, coefficients.sin), r)
    c = fma(z, polynomial(z, coefficients.cos), 1.0)
    # k modulo 4, from -2 to 2. An angle beyond the range of the steps above overflows here and makes sk NaN:
    # one multiplication is the whole check of the range.
    j = fma(rint(x * (two_over_pi * scale) * (0.25 / scale)), -4.0, k)
    ck = 1.0 - absolute(j)
    return ReducedAngle(s, c, fma(j, ck, j), ck)


def sin(x: Symbol) -> Symbol:
    """Return the sine; one of the two products is zero, so this does not round."""
    at = reduce_angle(x)
    return fma(at.c, at.sk, at.s * at.ck)


def cos(x: Symbol) -> Symbol:
    """Return the cosine; one of the two products is zero, so this does not round."""
    at = reduce_angle(x)
    return fma(at.c, at.ck, -(at.s * at.sk))


def atan2(y: Symbol, x: Symbol) -> Symbol:
    """Return the angle of the point (x, y), from the slope to the nearest of 0, atan 1/2 and pi / 4."""
    coefficients = coefficients_for(x)
    half_pi, half_pi_low, _ = coefficients.half_pi
    across = absolute(x)
    up = absolute(y)
    steep = across < up
    # this order propagates NaN into at least one of them
    small = minimum(across, up)
    large = maximum(up, across)
    infinite = large == math.inf
    small = where(infinite, where(small == math.inf, 1.0, times(small, 0.0)), small)
    large = where(infinite, 1.0, large)
    scale = pow2(-exponent(large))  # keeps sums from overflow and halves of subnormals exact
    small = small * scale
    large = maximum(2.0**-60, large * scale)  # not zero, even for the point (0, 0)

    middle = large * 0.375 < small
    high = large * 0.72 < small
    slope = where(high, 1.0, where(middle, 0.5, 0.0))
    t = fma(-slope, large, small) / fma(slope, small, large)  # the numerator is exact
    angle = where(high, half_pi / 2, where(middle, coefficients.atan_half[0], 0.0))
    angle_low = where(high, half_pi_low / 2, where(middle, coefficients.atan_half[1], 0.0))

    backward = x < 0.0
    base = where(steep, half_pi, where(backward, 2 * half_pi, 0.0))
    sign = where(steep, -1.0, 1.0) * where(backward, -1.0, 1.0)
    low = fma(sign * base, half_pi_low / half_pi, angle_low)  # the low parts of `base` and `angle`
    z = t * t
    turn = angle + (t + fma(t * z, polynomial(z, coefficients.atan), low))
    result = fma(sign, turn, base)
    return where(y < 0.0, -result, result)


class ArcSine(NamedTuple):
    """Terms s and correction of asin s, where s is x if |x| <= 1/2; else asin x = pi / 2 - 2 asin s."""

    far: Symbol
    s: Symbol
    correction: Symbol


def arc_sine(x: Symbol) -> ArcSine:
    """Return the terms that asin and acos share."""
    size = absolute(x)
    far = size > 0.5
    z = where(far, fma(size, -0.5, 0.5), x * x)
    s = where(far, sqrt(z), x)  # NaN where |x| > 1
    return ArcSine(far, s, s * z * polynomial(z, coefficients_for(x).asin))


def asin(x: Symbol) -> Symbol:
    """Return the arc sine."""
    half_pi, half_pi_low, _ = coefficients_for(x).half_pi
    at = arc_sine(x)
    rounded = fma(at.s, -2.0, half_pi)
    rounding_error = fma(at.s, -2.0, half_pi - rounded)  # exact
    far = rounded + (rounding_error + fma(at.correction, -2.0, half_pi_low))
    return where(at.far, where(x < 0.0, -far, far), at.s + at.correction)


def acos(x: Symbol) -> Symbol:
    """Return the arc cosine."""
    half_pi, half_pi_low, _ = coefficients_for(x).half_pi
    at = arc_sine(x)
    near = half_pi - (at.s + (at.correction - half_pi_low))  # and pi - 2 asin s is twice this
    return where(at.far, where(x < 0.0, near, at.s + at.correction) * 2.0, near)
