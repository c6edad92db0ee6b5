"""Kernels of models that cannot move: arrays of no numbers come in, and mostly nothing has to be computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.ir.interpret import interpret
from linkwork.ir.program import Program
from linkwork.passes import lower
from linkwork.runtime.arguments import check_call
from linkwork.runtime.direct import make_guarded
from linkwork.runtime.kernel import Kernel, make_call


class ConstantKernel(Kernel):
    """A kernel without machine code, whose inputs and outputs may be empty. It takes, gives and refuses what others do."""

    def __init__(self, program: Program, dtype: str) -> None:
        program = lower(program, dtype, arranged=None)
        self.name, self.dtype, self.inputs, self.outputs = program.name, dtype, program.inputs, program.outputs
        self.size, self.lanes, self.tier = len(program), 1, 2
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
        """As NumPy's ufuncs are called, with outputs by position or name."""
        count = len(self.inputs)
        out = args[count] if len(args) > count else out
        check_call(self, args[:count], out)
        found = interpret(self._program, *(np.asarray(a, dtype=self.dtype) for a in args[:count]))
        results = [r[()] for r in (found if isinstance(found, tuple) else (found,))]
        for k, place in enumerate(() if out is None else out if isinstance(out, tuple) else (out,)):
            if place is not None:
                place[...], results[k] = results[k], place
        return results[0] if len(results) == 1 else tuple(results)
