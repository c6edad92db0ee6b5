"""linkwork: the dynamics of mechanisms. Plain NumPy code in, exact and fast kernels out."""

from linkwork.ir.functions import (
    absolute,
    acos,
    asin,
    atan2,
    cos,
    exp,
    fma,
    log,
    loop,
    maximum,
    minimum,
    rint,
    sin,
    sincos,
    sqrt,
    where,
)
from linkwork.ir.program import Program
from linkwork.ir.trace import trace
