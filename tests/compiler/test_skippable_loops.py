"""Loops that rows enter on a condition: same results as masks, same bits on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from c_target_programs import skippable
from linkwork.compiler.ir.functions import loop
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes import Arrangement, lower
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.runtime.kernel import Kernel
from programs import DTYPES, assert_same, call, kernel_of, quick_kernel, states

SHARES = (0.0, 0.1, 1.0)  # of rows that enter: in the first batch, all lanes skip the loop


@pytest.mark.parametrize("whole", [None, 0, 60])
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_whether_rows_enter_or_not(dtype: str, whole: int | None) -> None:
    """Loops in variables, and in memory where their bodies are cut."""
    traced = trace(skippable, {"x": 3})
    cutting = (
        None if whole is None else Arrangement(None, Cutting(max_uncut=whole, part_size=8, cut_bodies=True))
    )
    program = lower(traced, dtype, arranged=cutting) if cutting else lower(traced, dtype)
    kernels: list[Kernel] = [quick_kernel(program), kernel_of(program)]
    for seed, share in enumerate(SHARES):
        inputs = states(program, 37, np.random.default_rng(seed))
        enters = np.random.default_rng(seed).uniform(size=37) < share
        inputs[0][:, 2] = np.where(enters, 1.0, -1.0)
        wanted = interpret(program, *inputs)
        for kernel in kernels:
            assert_same(program, call(kernel, inputs), wanted, inputs, f"{share} of rows")


def test_rows_that_do_not_enter_keep_their_state() -> None:
    """The loop is that of plain numbers: entered or not."""

    def halved(x: Any) -> dict[str, Any]:
        last = loop(
            lambda s: (np.array([0.5 * s[0], s[1] + 1.0], dtype=object), s[0] > 1.0),
            np.array([x[0], 0.0], dtype=object),
            limit=20,
            enter=x[1] > 0.0,
        )
        return {"y": last}

    program = trace(halved, {"x": 2})
    rows = np.array([[8.0, 1.0], [8.0, -1.0], [0.5, 1.0], [0.5, 0.0]])
    wanted = [[0.5, 4.0], [8.0, 0.0], [0.25, 1.0], [0.5, 0.0]]
    np.testing.assert_array_equal(interpret(program, rows), wanted)
    np.testing.assert_array_equal([halved(x)["y"].astype(float) for x in rows], wanted)
