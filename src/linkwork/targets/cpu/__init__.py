"""CPU target: programs as machine code of this or another machine, through LLVM. See README.md in this folder."""

from linkwork.passes.arrangement import Arrangement
from linkwork.passes.cut import Cutting
from linkwork.passes.schedule import Scheduling
from linkwork.targets.cpu.machine import Machine, compile_assembly, compile_object, host
from linkwork.targets.cpu.module import EXPORTS, NDARRAY_DATA, module_texts

__all__ = [
    "ARRANGEMENT", "EXPORTS", "NDARRAY_DATA", "QUICK_ARRANGEMENT", "Machine", "compile_assembly", "compile_object", "host",
    "module_texts",
]  # fmt: skip

ARRANGEMENT = Arrangement(Scheduling(short=2500, window=240), Cutting(whole=6000, part=1000, bodies=True))
# For code without optimisation: no order pays, and longer functions are compiled sooner than cut ones.
QUICK_ARRANGEMENT = Arrangement(scheduling=None, cutting=Cutting(whole=20_000, part=1000, bodies=True))
