"""Elementary functions in core operations, so that every target computes the same bits.

Each is a formula over symbols, in the dtype of the program. Largest measured error, in units in the last
place of the true result (measured with `python bench/elementary.py`):

    function    float64  float32  range
    sin, cos    1.70     1.67     |x| <= 2**45 (float32: 2**16); NaN from 1.6 times that on
    atan2       1.44     1.45     all numbers and infinities; a zero counts as +0
    asin, acos  1.18     1.15     [-1, 1]; NaN outside
    exp         1.02     1.00     all numbers; inf on overflow, subnormal results are correct
    log         0.90     0.88     all numbers; subnormals are correct, log 0 = -inf, NaN below 0

NaN is propagated. The sign of a zero result may be lost.
"""

from __future__ import annotations

from collections.abc import Callable

from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.passes.elementary.explog import exp, log
from linkwork.compiler.passes.elementary.trig import acos, asin, atan2, cos, sin

EXPANSIONS: dict[str, Callable[..., Symbol]] = {
    "sin": sin,
    "cos": cos,
    "atan2": atan2,
    "asin": asin,
    "acos": acos,
    "exp": exp,
    "log": log,
}

__all__ = ["EXPANSIONS"]
