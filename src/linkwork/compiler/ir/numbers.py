"""Elementary functions of constants with the same bits on every machine, mathematical library and NumPy.

Numbers are plain Python integers with 128 fraction bits; results are rounded once, at the end. Only the
constants of a program are computed so. Other numbers use the formulas of `passes/elementary`.
"""

from __future__ import annotations

import math
from functools import lru_cache

FRACTION_BITS = 128  # of the fixed-point numbers
ONE = 1 << FRACTION_BITS
TWO_TERM_LIMIT = 2.0**-27  # below it, series of two terms are exact to the last bit but one


def _fixed(x: float, bits: int = FRACTION_BITS) -> int:
    numerator, denominator = x.as_integer_ratio()
    return (numerator << bits) // denominator


def _rounded(x: int, shift: int = 0) -> float:
    """Return x 2**shift / ONE as a float; integer division rounds correctly."""
    try:
        return (x << max(shift, 0)) / (1 << (FRACTION_BITS + max(-shift, 0)))
    except OverflowError:
        return math.copysign(math.inf, x)


def _inverse_series(n: int, bits: int, sign: int) -> int:
    """Return 1/n + sign/(3 n³) + 1/(5 n⁵) + ...: atan 1/n for sign -1, atanh 1/n for sign 1."""
    term = (1 << bits) // n
    total = term
    k = 1
    while term:
        term = sign * term // (n * n)
        k += 2
        total += term // k
    return total


@lru_cache(maxsize=8)
def _half_pi(bits: int = FRACTION_BITS) -> int:
    working_bits = bits + 16
    return (8 * _inverse_series(5, working_bits, -1) - 2 * _inverse_series(239, working_bits, -1)) >> 16


@lru_cache(maxsize=1)
def _ln2() -> int:
    return 2 * _inverse_series(3, FRACTION_BITS + 16, 1) >> 16


@lru_cache(maxsize=4096)
def sincos(x: float) -> tuple[float, float]:
    """Return the sine and cosine of x in radians."""
    if not math.isfinite(x):
        return math.nan, math.nan
    if abs(x) < TWO_TERM_LIMIT:
        return x - x * x * x / 6.0, 1.0 - 0.5 * x * x
    bits = FRACTION_BITS + max(0, math.frexp(x)[1])  # large angles need as many more digits of π
    fixed = _fixed(x, bits)
    quarter = _half_pi(bits)
    turns = (2 * fixed + quarter) // (2 * quarter)
    r = (fixed - turns * quarter) >> (bits - FRACTION_BITS)
    square = r * r >> FRACTION_BITS
    term = r
    s = r
    k = 1
    while term not in (0, -1):
        k += 2
        term = -(term * square >> FRACTION_BITS) // (k * (k - 1))
        s += term
    c = math.isqrt(ONE * ONE - s * s)
    s, c = ((s, c), (c, -s), (-s, -c), (-c, s))[turns % 4]
    return _rounded(s), _rounded(c)


def sin(x: float) -> float:
    """Return the sine of x in radians."""
    return sincos(x)[0] if x else x


def cos(x: float) -> float:
    """Return the cosine of x in radians."""
    return sincos(x)[1]


def _angle(y: int, x: int) -> int:
    """Return the angle, from 0 to π, of a point with y >= 0 that is not the origin."""
    across = abs(x)
    small = min(y, across)
    large = max(y, across)
    t = (small << FRACTION_BITS) // large
    for _ in range(3):  # half the angle, three times
        t = (t << FRACTION_BITS) // (ONE + math.isqrt(ONE * ONE + t * t))
    square = t * t >> FRACTION_BITS
    power = t
    angle = t
    k = 1
    while power not in (0, -1):
        k += 2
        power = -(power * square >> FRACTION_BITS)
        angle += power // k
    angle *= 8
    angle = _half_pi() - angle if y > across else angle
    return 2 * _half_pi() - angle if x < 0 else angle


def atan2(y: float, x: float) -> float:
    """Return the angle in radians of the point (x, y)."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if math.isinf(x) or math.isinf(y):
        x, y = (math.copysign(float(math.isinf(v)), v) for v in (x, y))
    if y == 0.0:
        return y if math.copysign(1.0, x) > 0.0 else math.copysign(math.pi, y)
    if x > 0.0 and abs(y) < TWO_TERM_LIMIT * x:
        return y / x
    (a, b), (c, d) = y.as_integer_ratio(), x.as_integer_ratio()
    return math.copysign(_rounded(_angle(abs(a) * d, c * b)), y)


def asin(x: float) -> float:
    """Return the arc sine in radians; NaN outside of [-1, 1]."""
    if not abs(x) <= 1.0:
        return math.nan
    if abs(x) < TWO_TERM_LIMIT:
        return x
    fixed = _fixed(x)
    return math.copysign(_rounded(_angle(abs(fixed), math.isqrt(ONE * ONE - fixed * fixed))), x)


def acos(x: float) -> float:
    """Return the arc cosine in radians; NaN outside of [-1, 1]."""
    if not abs(x) <= 1.0:
        return math.nan
    fixed = _fixed(x)
    return _rounded(_angle(math.isqrt(ONE * ONE - fixed * fixed), fixed))


def exp(x: float) -> float:
    """Return e to the power x."""
    if math.isnan(x) or abs(x) > 800.0:
        return x if math.isnan(x) else math.inf if x > 0.0 else 0.0
    fixed = _fixed(x)
    ln2 = _ln2()
    power = (2 * fixed + ln2) // (2 * ln2)
    r = fixed - power * ln2
    term = ONE
    total = ONE
    k = 0
    while term not in (0, -1):
        k += 1
        term = (term * r >> FRACTION_BITS) // k
        total += term
    return _rounded(total, power)


def log(x: float) -> float:
    """Return the natural logarithm; NaN for negative numbers."""
    if math.isnan(x) or x < 0.0 or x in (0.0, math.inf):
        return -math.inf if x == 0.0 else math.inf if x > 0.0 else math.nan
    mantissa, power = math.frexp(x)
    if mantissa < 0.7071:
        mantissa = 2.0 * mantissa
        power = power - 1
    m = _fixed(mantissa)
    z = ((m - ONE) << FRACTION_BITS) // (m + ONE)  # log m = 2 atanh z
    square = z * z >> FRACTION_BITS
    term = z
    total = z
    k = 1
    while term not in (0, -1):
        k += 2
        term = term * square >> FRACTION_BITS
        total += term // k
    return _rounded(power * _ln2() + 2 * total)
