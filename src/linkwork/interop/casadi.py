"""Functions of a model in CasADi: expressions of its scalar graph SX, made from the program.

    f = linkwork.interop.casadi.function(linkwork.forward_dynamics, model)
    a = f(q, v, tau)  # q, v, tau: casadi.SX, MX or DM

The result is a `casadi.Function`, so CasADi differentiates it, maps it and generates C code. Derivatives are
with respect to the entries of arrays, including those of q. Arrays of more than two dimensions become
matrices with all leading dimensions in the rows: forward_kinematics is (4 bodies) x 4.

SX has no loops. A function that iterates, as some of models with loops do, is a `casadi.Callback` that calls
the linkwork kernel, with its derivatives of any order; it works in MX and DM but not in generated C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linkwork.compiler.ir.program import Array
from linkwork.functions.engine.sources import Source, source_of
from linkwork.interop.expressions import UNSCALED, evaluate, iterates
from linkwork.interop.packages import needed

casadi: Any = needed("casadi", extra="casadi")

_OPERATIONS = {
    **UNSCALED,
    "const": lambda x: casadi.SX(x),
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x,
    y: x / y,
    "neg": lambda x: -x, "fma": lambda x, y, z: x * y + z, "sqrt": casadi.sqrt, "abs": casadi.fabs,
    "min": casadi.fmin, "max": casadi.fmax, "rint": lambda x: casadi.floor(x + 0.5),
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y,
    "and": casadi.logic_and, "or": casadi.logic_or, "not": casadi.logic_not, "select": casadi.if_else,
    "sin": casadi.sin, "cos": casadi.cos, "atan2": casadi.atan2, "asin": casadi.asin, "acos": casadi.acos,
    "exp": casadi.exp, "log": casadi.log,
}  # fmt: skip


def function(fn: Any, model: Any = None, **options: Any) -> Any:
    """Return a function of a model as a `casadi.Function`.

    Parameters
    ----------
    fn : ModelFunction or Derivative
        Function of a model, or a derivative, which contains its model.
    model : Model, optional
        The model; omitted for derivatives.
    **options
        Options of `linkwork.compile`.

    Returns
    -------
    casadi.Function
        Function of the arrays of `fn`, then of parameters that are inputs, with their names. It is a callback
        if `fn` iterates, as `integrate` and `close_loops` do for models with loops.
    """
    source = source_of(fn, model, options)
    program = source.program
    if iterates(program):
        return _call_of(source)
    inputs = [casadi.SX.sym(array.name, *_shape(array)) for array in program.inputs]
    elements = [
        [x[k // _width(a), k % _width(a)] for k in range(a.size)] for x, a in zip(inputs, program.inputs)
    ]
    outputs = []
    for array, cells in zip(
        program.outputs, evaluate(source, _OPERATIONS, elements, "CasADi's SX"), strict=True
    ):
        out = casadi.SX(*_shape(array))
        for k, cell in enumerate(cells):
            out[k // _width(array), k % _width(array)] = cell
        outputs.append(out)
    return casadi.Function(
        source.name, inputs, outputs, [a.name for a in program.inputs], [a.name for a in program.outputs]
    )


_calls: dict[Source, Any] = {}  # CasADi does not keep callbacks that its expressions call


def _call_of(source: Source) -> Any:
    """Return the callback of a source."""
    if source not in _calls:
        _calls[source] = _KernelCall(source)
    return _calls[source]


class _KernelCall(casadi.Callback):  # type: ignore[misc]
    """A kernel as CasADi's callback."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.construct(source.name, {})

    def get_n_in(self) -> int:
        return len(self.source.inputs)

    def get_n_out(self) -> int:
        return len(self.source.outputs)

    def get_name_in(self, k: int) -> str:
        return self.source.inputs[k].name

    def get_name_out(self, k: int) -> str:
        return self.source.outputs[k].name

    def get_sparsity_in(self, k: int) -> Any:
        return casadi.Sparsity.dense(*_shape(self.source.inputs[k]))

    def get_sparsity_out(self, k: int) -> Any:
        return casadi.Sparsity.dense(*_shape(self.source.outputs[k]))

    def eval(self, values: Sequence[Any]) -> list[Any]:
        arrays = [
            np.array(x, dtype=float).reshape(spec.shape)
            for x, spec in zip(values, self.source.inputs, strict=True)
        ]
        result = self.source.kernel()(*arrays)
        result = result if isinstance(result, tuple) else (result,)
        return [
            casadi.DM(np.reshape(x, _shape(spec)))
            for x, spec in zip(result, self.source.outputs, strict=True)
        ]

    def has_forward(self, directions: int) -> bool:
        return True

    def has_reverse(self, weights: int) -> bool:
        return True

    def get_forward(
        self, directions: int, name: str, inputs: list[str], outputs: list[str], options: Any
    ) -> Any:
        return self._by(self.source.jvp, self.source.inputs, directions, name, inputs, outputs)

    def get_reverse(
        self, weights: int, name: str, inputs: list[str], outputs: list[str], options: Any
    ) -> Any:
        return self._by(self.source.vjp, self.source.outputs, weights, name, inputs, outputs)

    def _by(
        self,
        derive: Any,
        seeded: Sequence[Array],
        count: int,
        name: str,
        inputs: list[str],
        outputs: list[str],
    ) -> Any:
        """Return the function that CasADi calls for `count` seeds, which follow all inputs and outputs."""
        call = _call_of(derive(range(len(self.source.inputs))))
        arrays = [*self.source.inputs, *self.source.outputs]
        symbols = [casadi.MX.sym(word, *_shape(array)) for word, array in zip(inputs, arrays)]
        widths = [_shape(array)[1] for array in seeded]
        seeds = [
            casadi.MX.sym(word, _shape(array)[0], count * width)
            for word, array, width in zip(inputs[len(arrays) :], seeded, widths, strict=True)
        ]
        input_symbols = symbols[: len(self.source.inputs)]
        result = [
            call.call([*input_symbols, *(s[:, k * w : (k + 1) * w] for s, w in zip(seeds, widths))])
            for k in range(count)
        ]
        return casadi.Function(
            name, symbols + seeds, [casadi.horzcat(*each) for each in zip(*result)], inputs, outputs
        )


def _width(array: Array) -> int:
    return array.shape[-1] if len(array.shape) > 1 else 1


def _shape(array: Array) -> tuple[int, int]:
    return (math.prod(array.shape[:-1]), array.shape[-1]) if len(array.shape) > 1 else (array.size, 1)
