"""CPU target: programs as machine code of this or another machine, through LLVM. See README.md in this folder."""

from linkwork.targets.cpu.machine import Machine, compile_assembly, compile_object, host
from linkwork.targets.cpu.module import EXPORTS, NDARRAY_DATA, module_texts

__all__ = ["EXPORTS", "NDARRAY_DATA", "Machine", "compile_assembly", "compile_object", "host", "module_texts"]
