"""Sums side by side: the same instructions and bits, and shared factors are loaded once for several sums."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.spills import spill
from linkwork.compiler.passes.interleave import interleave


def product(rows: int, inner: int, columns: int, zeros: float = 0.0) -> Program:
    """A product of matrices, some of whose entries are zero by structure, and what depends on it."""
    there = np.random.default_rng(0).random((rows, inner)) >= zeros

    def f(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.where(there, a, 0.0) @ b
        return x, x.T @ x

    return lw.lower(lw.trace(f, {"a": (rows, inner), "b": (inner, columns)}), arranged=None)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("together", [2, 6])
def test_instructions_and_bits_are_the_same(zeros: float, together: int) -> None:
    program = product(5, 7, 6, zeros)
    rng = np.random.default_rng(1)
    after = check(interleave(program, together), core_only=True)
    assert Counter(i.op for i in after.code) == Counter(i.op for i in program.code)
    assert [i.op for i in after.code] != [i.op for i in program.code] or after.code != program.code
    inputs = rng.normal(size=(9, 5, 7)), rng.normal(size=(9, 7, 6))
    for new, old in zip(lw.interpret(after, *inputs), lw.interpret(program, *inputs)):
        assert np.array_equal(new, old)


def test_a_shared_factor_is_loaded_once_for_several_sums() -> None:
    program = product(12, 12, 12)

    def loads(program: Program) -> int:
        return sum(map(len, spill(program, 10, block=4).loads.values()))

    assert loads(interleave(program, 6)) < 0.9 * loads(program)


def test_sums_wait_for_their_own_factors() -> None:
    """Each of these sums takes the one before: nothing can be side by side."""

    def f(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        for _ in range(4):
            x = np.array([a @ x, *x[:-1]])
        return x

    program = lw.lower(lw.trace(f, {"a": 6, "x": 6}), arranged=None)
    after = check(interleave(program, 6), core_only=True)
    assert [i.op for i in after.code if i.op in ("mul", "fma")] == [
        i.op for i in program.code if i.op in ("mul", "fma")
    ]
