"""Functions of a model in CasADi: expressions of its scalar graph SX, made from the program.

    f = linkwork.interop.casadi.function(linkwork.forward_dynamics, model)
    a = f(q, v, tau)  # q, v, tau: casadi.SX, MX or DM

The function is CasADi's own, so it is differentiated, mapped and compiled to C by CasADi. Derivatives are by the entries of
arrays, q's too. Arrays of more than two dimensions have all but the last in their rows: forward_kinematics is (4 bodies) x 4.
"""

from __future__ import annotations

import math
from typing import Any

from linkwork.functions.sources import source_of
from linkwork.interop.expressions import UNSCALED, evaluate
from linkwork.interop.packages import needed
from linkwork.ir.program import Array

casadi: Any = needed("casadi", extra="casadi")

_OPERATIONS = {
    **UNSCALED,
    "const": lambda x: casadi.SX(x),
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "neg": lambda x: -x, "fma": lambda x, y, z: x * y + z, "sqrt": casadi.sqrt, "abs": casadi.fabs,
    "min": casadi.fmin, "max": casadi.fmax, "rint": lambda x: casadi.floor(x + 0.5),
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y,
    "and": casadi.logic_and, "or": casadi.logic_or, "not": casadi.logic_not, "select": casadi.if_else,
    "sin": casadi.sin, "cos": casadi.cos, "atan2": casadi.atan2, "asin": casadi.asin, "acos": casadi.acos,
    "exp": casadi.exp, "log": casadi.log,
}  # fmt: skip


def function(fn: Any, model: Any = None, **options: Any) -> Any:
    """A `casadi.Function` of the arrays of `fn`, then parameters that are inputs, with their names.

    `fn` is a function of a model, or a derivative of one, which knows its model; `options` are those of `linkwork.compile`.
    TargetError where it iterates, as `integrate` and `close_loops` do where a model has loops.
    """
    source = source_of(fn, model, options)
    program = source.program
    inputs = [casadi.SX.sym(array.name, *_shape(array)) for array in program.inputs]
    elements = [[x[k // _width(a), k % _width(a)] for k in range(a.size)] for x, a in zip(inputs, program.inputs)]
    outputs = []
    for array, cells in zip(program.outputs, evaluate(source, _OPERATIONS, elements, "CasADi's SX"), strict=True):
        out = casadi.SX(*_shape(array))
        for k, cell in enumerate(cells):
            out[k // _width(array), k % _width(array)] = cell
        outputs.append(out)
    return casadi.Function(source.name, inputs, outputs, [a.name for a in program.inputs], [a.name for a in program.outputs])


def _width(array: Array) -> int:
    return array.shape[-1] if len(array.shape) > 1 else 1


def _shape(array: Array) -> tuple[int, int]:
    return (math.prod(array.shape[:-1]), array.shape[-1]) if len(array.shape) > 1 else (array.size, 1)
