"""CPU target: programs as machine code of this or another machine, through LLVM. See README.md in this folder."""

from linkwork.passes.arrangement import Arrangement
from linkwork.passes.cut import Cutting
from linkwork.passes.schedule import Scheduling
from linkwork.targets.cpu.machine import Machine, compile_assembly, compile_object, host
from linkwork.targets.cpu.module import EXPORTS, NDARRAY_DATA, bytecode_texts, module_texts

__all__ = [
    "ARRANGEMENT", "EXPORTS", "NDARRAY_DATA", "Machine", "bytecode_texts", "compile_assembly", "compile_object", "host",
    "module_texts",
]  # fmt: skip

ARRANGEMENT = Arrangement(Scheduling(short=2500, window=240), Cutting(whole=6000, part=1000, bodies=True))
