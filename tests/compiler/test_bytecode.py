"""Bytecode: LLVM's part does not grow with a program, chunks and registers. That bits are the same is in
test_same_bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.ir.program import Program
from linkwork.compiler.runtime.compiler import QUICK
from linkwork.compiler.targets.cpu import bytecode, bytecode_texts, compile_object, host, module_texts
from linkwork.compiler.targets.cpu.bytecode import WORDS_PER_RECORD, Bytecode
from linkwork.compiler.targets.cpu.machine import COMMON
from linkwork.compiler.targets.cpu.types import Types
from programs import assert_same, call, every_operation, quick_kernel, states


def chain(bodies: int) -> Program:
    return lw.lower(lw.forward_dynamics.program(lw.robots.chain(bodies)))


def llvm_lines(program: Program) -> int:
    return sum(len(text.splitlines()) for text in bytecode_texts(program, 4, host()))


def test_llvm_has_no_more_to_do_for_a_longer_program() -> None:
    short = chain(8)
    long = chain(16)
    assert len(long) > 2 * len(short)
    assert llvm_lines(long) == llvm_lines(short)


@pytest.mark.parametrize(("make", "modules"), [(bytecode_texts, 3), (module_texts, 2)])
def test_what_programs_have_in_common_is_compiled_once(make: Callable[..., list[str]], modules: int) -> None:
    """The virtual machine, the functions that write rows, and those that Python calls: two thirds of LLVM's
    work for a short program.
    """
    machine = host()
    short, long = (
        [text for text in make(chain(n), machine.lanes("float64"), machine) if text.startswith(COMMON)]
        for n in (2, 3)
    )
    assert short == long and len(short) == modules
    for text in short:
        first = compile_object(text, machine, level=QUICK)
        assert compile_object(text, machine, level=QUICK) is first


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_program_in_many_chunks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "RECORDS_PER_CHUNK", 7)
    program = every_operation(dtype)
    inputs = states(program, 50, np.random.default_rng(0))
    assert len(Bytecode(program, Types(dtype, 4), {}).chunks) >= 5
    assert_same(program, call(quick_kernel(program), inputs), lw.interpret(program, *inputs), inputs)


def test_registers_are_used_again() -> None:
    program = chain(40)
    made = Bytecode(program, Types("float64", 1), {})
    records = sum(len(chunk) for chunk in made.chunks) // (4 * WORDS_PER_RECORD)
    assert records >= len(program) and len(made.chunks) > 1
    assert made.registers < len(program) // 3


def test_states_of_a_loop_may_change_places() -> None:
    def swapped(x: np.ndarray) -> object:
        def step(s: np.ndarray) -> tuple[object, object]:
            return np.array([s[1], s[0], s[2] + 1.0, s[3]], dtype=object), s[2] < x[3]

        return lw.loop(step, np.array([x[0], x[1], 0.0 * x[2] + 1.0, x[2]], dtype=object), limit=9)

    program = lw.lower(lw.trace(swapped, {"x": 4}))
    x = np.array([[3.0, 5.0, 7.0, n] for n in range(12)])
    found = quick_kernel(program)(x)
    swaps = np.minimum(np.maximum(np.arange(12), 1), 9)  # the body runs at least once
    assert (found[:, 0] == np.where(swaps % 2, 5.0, 3.0)).all() and (
        found[:, 1] == np.where(swaps % 2, 3.0, 5.0)
    ).all()
    assert (found[:, 2] == 1.0 + swaps).all() and (found[:, 3] == 7.0).all()
