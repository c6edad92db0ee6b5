"""CPU target: programs as machine code of this or another machine, through LLVM. See README.md in this folder."""

from linkwork.passes.arrangement import Arrangement
from linkwork.passes.cut import Cutting
from linkwork.passes.schedule import Scheduling
from linkwork.targets.cpu.machine import Machine, compile_assembly, compile_object, host
from linkwork.targets.cpu.module import EXPORTS, NDARRAY_DATA, bytecode_texts, module_texts

__all__ = [
    "EXPORTS", "NDARRAY_DATA", "Machine", "arrangement", "bytecode_texts", "compile_assembly", "compile_object", "host",
    "module_texts",
]  # fmt: skip


def arrangement(machine: Machine) -> Arrangement:
    """How optimised code is arranged: the critical path counts only while its values fit into registers."""
    short = 2500 if machine.registers > 16 else 800
    return Arrangement(Scheduling(short, window=240, together=6), Cutting(whole=6000, part=1000, bodies=True), maps=True)
