"""A target in one folder, as docs/extending.md builds it: programs become Python source, one line an
instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwork.compiler.ir.program import Program
from pseudo_target.emit import emit
from pseudo_target.helpers import helpers


def build(program: Program) -> Callable[..., Any]:
    """Something callable that runs a lowered program on arrays with any leading batch dimensions."""
    run: dict[str, Any] = {}
    exec(compile(emit(program), f"<{program.name}>", "exec"), run)

    def kernel(*arrays: Any) -> Any:
        given = [np.asarray(a, dtype=program.dtype) for a in arrays]
        leads = [a.shape[: a.ndim - len(s.shape)] for a, s in zip(given, program.inputs, strict=True)]
        batch = np.broadcast_shapes(*leads)
        rows = int(np.prod(batch, dtype=int))
        columns = [
            np.broadcast_to(a, batch + s.shape).reshape(rows, s.size).T
            for a, s in zip(given, program.inputs, strict=True)
        ]
        with np.errstate(all="ignore"):
            results = run["run"](columns, helpers(rows, program.dtype))
        outputs = [
            np.stack([*values], axis=-1).reshape(batch + s.shape)
            for values, s in zip(results, program.outputs, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return kernel
