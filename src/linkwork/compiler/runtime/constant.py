"""Kernels of models without degrees of freedom: empty arrays, mostly with constant results."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime.arguments import check_call
from linkwork.compiler.runtime.direct import make_call, make_guarded
from linkwork.compiler.runtime.kernel import Kernel


class ConstantKernel(Kernel):
    """Kernel without machine code, with inputs and outputs that may be empty.

    It accepts, returns and rejects the same arguments as other kernels.
    """

    def __init__(self, program: Program, dtype: str) -> None:
        program = lower(program, dtype, arranged=None)
        self.name = program.name
        self.dtype = dtype
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.size = len(program)
        self.lanes = 1
        self.tier = 2
        self._program = program
        self._failure = None
        self._ready = True
        self.ufunc = self._compute  # type: ignore[assignment]
        self.direct = make_guarded(self)
        self.__class__ = type("Kernel", (ConstantKernel,), {"__call__": make_call(self)})

    def bound_call(self, inputs: list[np.ndarray], outputs: list[np.ndarray], result: Any) -> Any:
        def call(_: Any) -> Any:
            self._compute(*inputs, out=tuple(outputs))
            return result

        return call

    def _compute(self, *args: Any, out: Any = None) -> Any:
        """Compute as NumPy's ufuncs do, with outputs by position or name."""
        count = len(self.inputs)
        out = args[count] if len(args) > count else out
        check_call(self, args[:count], out)
        returned = interpret(self._program, *(np.asarray(a, dtype=self.dtype) for a in args[:count]))
        results = [r[()] for r in (returned if isinstance(returned, tuple) else (returned,))]
        for k, target in enumerate(() if out is None else out if isinstance(out, tuple) else (out,)):
            if target is not None:
                target[...], results[k] = results[k], target
        return results[0] if len(results) == 1 else tuple(results)
