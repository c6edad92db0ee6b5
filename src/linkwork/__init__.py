"""linkwork: the dynamics of mechanisms. Plain NumPy code in, exact and fast kernels out."""

from linkwork.api import compile, count_operations, export_c
from linkwork.errors import (
    CacheError,
    DifferentiationError,
    DtypeError,
    LinkworkError,
    OverlapError,
    ProgramError,
    ShapeError,
    TargetError,
    TraceError,
)
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
from linkwork.ir.interpret import interpret
from linkwork.ir.program import Program
from linkwork.ir.trace import trace
from linkwork.passes import lower
from linkwork.passes.differentiate import jacobian, jacobian_of, jvp, jvp_of, vjp
from linkwork.runtime.kernel import Kernel
from linkwork.version import __version__

__all__ = [
    "CacheError",
    "DifferentiationError",
    "DtypeError",
    "Kernel",
    "LinkworkError",
    "OverlapError",
    "Program",
    "ProgramError",
    "ShapeError",
    "TargetError",
    "TraceError",
    "__version__",
    "absolute",
    "acos",
    "asin",
    "atan2",
    "compile",
    "cos",
    "count_operations",
    "exp",
    "export_c",
    "fma",
    "interpret",
    "jacobian",
    "jacobian_of",
    "jvp",
    "jvp_of",
    "log",
    "loop",
    "lower",
    "maximum",
    "minimum",
    "rint",
    "sin",
    "sincos",
    "sqrt",
    "trace",
    "vjp",
    "where",
]
