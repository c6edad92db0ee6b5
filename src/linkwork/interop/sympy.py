"""Equations of small mechanisms in SymPy, as expressions and LaTeX.

    print(linkwork.interop.sympy.equations(linkwork.inverse_dynamics, model).latex())

Numbers of the model become fractions of their decimal form (0.1, not 0.1000000000000000055) with 14 digits;
printed, long ones have six. Branches become cases (Piecewise), except those that only mark undefined values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import LimitError, ShapeError
from linkwork.functions.engine.sources import Source, source_of
from linkwork.interop.calls import bind_arguments, signature_of
from linkwork.interop.expressions import UNSCALED, evaluate, size
from linkwork.interop.packages import needed

sympy: Any = needed("sympy", extra="sympy")


def _number(x: Any) -> Any:
    """Return a number as a fraction of its decimal form with at most 14 digits."""
    if isinstance(x, bool):
        return sympy.true if x else sympy.false
    if not np.isfinite(x):
        return sympy.nan if np.isnan(x) else sympy.oo if x > 0 else -sympy.oo
    return sympy.Rational(f"{x:.14g}")


def _select(condition: Any, x: Any, y: Any) -> Any:
    """Return a case distinction, or one case if the other is NaN, which only marks undefined values."""
    if x is sympy.nan or y is sympy.nan:
        return y if x is sympy.nan else x
    return sympy.Piecewise((x, condition), (y, True))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **UNSCALED,
    "exponent": lambda x: sympy.Integer(0), "pow2": lambda k: sympy.Integer(2) ** k,
    "const": _number,
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x,
    y: x / y,
    "neg": lambda x: -x, "fma": lambda x, y, z: x * y + z, "sqrt": sympy.sqrt, "abs": sympy.Abs,
    "min": sympy.Min, "max": sympy.Max, "rint": lambda x: sympy.floor(x + sympy.Rational(1, 2)),
    "lt": sympy.Lt, "le": sympy.Le, "eq": sympy.Eq, "and": sympy.And, "or": sympy.Or, "not": sympy.Not,
    "select": lambda c, x, y: _select(c, x, y),
    "sin": sympy.sin, "cos": sympy.cos, "atan2": sympy.atan2, "asin": sympy.asin, "acos": sympy.acos,
    "exp": sympy.exp, "log": sympy.log,
}  # fmt: skip
_MAX_OPERATIONS = 500  # operations up to which equations are readable
# Operations of an expanded expression up to which SymPy simplifies it within seconds.
_MAX_SIMPLIFIED_OPERATIONS = 500


@dataclass(frozen=True)
class Equations:
    """Equations of a function, with `inputs` and `outputs` by name.

    Inputs are SymPy symbols; outputs are expressions, matrices or arrays.
    """

    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]

    def latex(self) -> str:
        """Return the equations as LaTeX, one output a line."""
        names = [f"\\mathrm{{{name}}}".replace("_", "\\_") for name in self.outputs]
        return " \\\\\n".join(
            f"{name} = {sympy.latex(_rounded(out))}" for name, out in zip(names, self.outputs.values())
        )

    def __str__(self) -> str:
        return "\n".join(f"{name} = {_rounded(out)}" for name, out in self.outputs.items())


def _rounded(value: Any) -> Any:
    """Return an expression with six digits in place of long fractions, for printing."""
    if hasattr(value, "applyfunc"):
        return value.applyfunc(_rounded)
    long = [x for x in value.atoms(sympy.Rational) if x.q > 1000]
    return value.xreplace({x: sympy.Float(x, 6) for x in long})


def function(fn: Any, model: Any = None, **options: Any) -> Callable[..., Any]:
    """Return a function of a model as a function of arrays of SymPy expressions; see `equations`."""
    source = source_of(fn, model, options)

    def call(*arrays: Any, **named: Any) -> Any:
        values = bind_arguments(source.name, signature, arrays, named)
        result = _evaluate(source, [np.array(x, dtype=object) for x in values])
        return result[0] if len(result) == 1 else tuple(result)

    call.__name__ = call.__qualname__ = source.name
    signature = signature_of([array.name for array in source.program.inputs])
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def equations(fn: Any, model: Any = None, *, simplify: bool = True, **options: Any) -> Equations:
    """Return the equations of a function of a model in symbols q1, q2, ..., v1, ...

    Parameters
    ----------
    fn : ModelFunction or Derivative
        Function of a model, or a derivative, which contains its model.
    model : Model, optional
        The model; omitted for derivatives.
    simplify : bool, optional
        Let SymPy simplify entries of up to 500 operations, which takes some seconds.
    **options
        Options of `linkwork.compile`; with ``parameters=("mass",)`` masses are symbols too.

    Returns
    -------
    Equations
        Symbols of the inputs and expressions of the outputs.

    Raises
    ------
    LimitError
        If the program has more than 500 operations.
    """
    source = source_of(fn, model, options)
    if size(source.program) > _MAX_OPERATIONS:
        raise LimitError(
            f"{source.name} has {size(source.program)} operations for this model: too many to be readable "
            f"(limit {_MAX_OPERATIONS})"
        )
    arrays = [_symbols(array.name, array.shape) for array in source.program.inputs]
    outputs = _evaluate(source, arrays)
    if simplify:
        outputs = [out.applyfunc(_shorter) if hasattr(out, "applyfunc") else _shorter(out) for out in outputs]
    names = [array.name for array in source.program.outputs]
    inputs = {array.name: _shaped(x) for array, x in zip(source.program.inputs, arrays)}
    return Equations(source.name, inputs, dict(zip(names, outputs, strict=True)))


def _shorter(formula: Any) -> Any:
    return sympy.simplify(formula) if sympy.count_ops(formula) <= _MAX_SIMPLIFIED_OPERATIONS else formula


def _evaluate(source: Source, arrays: list[np.ndarray]) -> list[Any]:
    for spec, array in zip(source.program.inputs, arrays, strict=True):
        if array.size != spec.size:
            raise ShapeError(f"{source.name}: {spec.name}: expected shape {spec.shape}, got {array.shape}")
    cells = [[sympy.sympify(x) for x in array.ravel()] for array in arrays]
    result = evaluate(source, _OPERATIONS, cells, "a printed equation")
    outputs = []
    for spec, elements in zip(source.program.outputs, result, strict=True):
        out = np.empty(spec.size, dtype=object)
        out[:] = elements
        outputs.append(_shaped(out.reshape(spec.shape)))
    return outputs


def _symbols(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of symbols: q1, q2, ... of a vector, R1_2 of a matrix."""
    symbols = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        symbols[place] = sympy.Symbol(name + "_".join(str(k + 1) for k in place))
    return symbols


def _shaped(array: np.ndarray) -> Any:
    """Return an array as a SymPy expression, matrix, or array of more dimensions."""
    if array.ndim == 0:
        return array[()]
    return sympy.Matrix(array) if array.ndim <= 2 else sympy.ImmutableDenseNDimArray(array)
