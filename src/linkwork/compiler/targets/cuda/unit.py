"""State of a CUDA text under construction, shared by the statements of a program and of its loops."""

from __future__ import annotations

from collections.abc import Iterable

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.packed import lane_values
from linkwork.compiler.targets.cuda.prelude import REALS, WARP, Constants, expressions


class TranslationUnit:
    """One CUDA text under construction: names of arrays, constants, and functions that are not inlined."""

    def __init__(self, program: Program, config: KernelConfig) -> None:
        self.program = program
        self.config = config
        self.real = REALS[program.dtype]
        self.expressions = expressions(self.real)
        self.functions: list[str] = []
        self.constants = Constants(self.real)
        self.bodies = 0
        self.differs = lane_values(program) if config.places else []
        full = config.part or program
        self.inputs = full.inputs
        self.outputs = full.outputs
        arrays = [f"in{k}" for k in range(len(self.inputs))] + [f"out{k}" for k in range(len(self.outputs))]
        self.context = [
            *(f"{'const ' if n.startswith('in') else ''}real *{n}, long long {n}_step" for n in arrays),
            "int rows",
            "int lane",
            "lw_slot lw_s",
            "real *lw_b",
            *(["real *lw_l"] if config.local else []),
            *(["bool lw_on"] if config.lockstep_loops else []),
        ]
        self.arguments = [
            *(f"{n}, {n}_step" for n in arrays), "rows", "lane", "lw_s", "lw_b",
            *(["lw_l"] if config.local else []),
            *(["lw_on"] if config.lockstep_loops else []),
        ]  # fmt: skip
        self.arrays = arrays

    def function(self, name: str, kind: str, lines: Iterable[str]) -> None:
        """Add a function that is not inlined; its parameters are all that a part of the program may need."""
        self.functions.append(
            "\n".join([f"LW_PART {kind} {name}({', '.join(self.context)}) {{", *lines, "}", ""])
        )

    def call(self, name: str) -> str:
        """Return a call of such a function."""
        return f"{name}({', '.join(self.arguments)})"

    def slot(self, slot: int, v: int) -> str | None:
        """Return the base address and byte offset of a slot in shared memory; None for local memory."""
        size = self.real.size
        step = self.config.threads * self.real.size
        if not self.config.places:
            return f"lw_s, {slot * step}" if slot < self.config.shared else None
        if slot < 0:
            return f"lw_t, {(-1 - slot) * 2 * size}"
        if self.differs[v]:
            return f"lw_s, {slot // 2 * step}"
        return f"lw_h, {slot // 2 * step + slot % 2 * (WARP // 2) * size}"
