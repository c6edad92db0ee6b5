"""CPU target: machine code for this or another machine, through LLVM (see README.md in this folder)."""

from linkwork.compiler.passes.arrangement import Arrangement
from linkwork.compiler.passes.cut import Cutting
from linkwork.compiler.passes.schedule import Scheduling
from linkwork.compiler.targets.cpu.direct import NDARRAY_DATA
from linkwork.compiler.targets.cpu.machine import Machine, compile_assembly, compile_object, host
from linkwork.compiler.targets.cpu.module import EXPORTS, bytecode_texts, module_texts

__all__ = [
    "EXPORTS", "NDARRAY_DATA", "Machine", "arrangement", "bytecode_texts", "compile_assembly",
    "compile_object", "host",
    "module_texts",
]  # fmt: skip


def arrangement(machine: Machine) -> Arrangement:
    """Return the arrangement of optimised code; long programs favour low register pressure."""
    short = 2500 if machine.registers > 16 else 800
    return Arrangement(
        Scheduling(short, window=240, interleaved_sums=6),
        Cutting(max_uncut=6000, part_size=1000, cut_bodies=True),
        maps=True,
    )
