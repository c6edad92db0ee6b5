"""Kernels as custom calls of XLA: machine code that XLA calls itself, on its own buffers, without Python."""

from __future__ import annotations

import ctypes
import sys

from linkwork.errors import TargetError
from linkwork.runtime.compiler import QUICK, compile_text
from linkwork.runtime.kernel import Kernel
from linkwork.runtime.native import Code
from linkwork.targets.cpu.xla import xla_text

_made: dict[int, tuple[Kernel, Code]] = {}  # XLA never forgets a custom call, so neither may its kernel go


def xla_handler(kernel: Kernel) -> int:
    """The address of a handler of XLA's foreign function interface that runs a kernel, with the best code that there is."""
    if id(kernel) not in _made:
        if not kernel._codes:
            raise TargetError(f"{kernel.name} has no machine code for XLA to call")
        loop, data = kernel._codes[0].address["loop"], kernel.data_address
        text = xla_text(kernel.inputs, kernel.outputs, kernel.dtype, loop, data, _madvise())
        _made[id(kernel)] = kernel, compile_text(text, ("xla",), level=QUICK)
    return _made[id(kernel)][1].address["xla"]


def _madvise() -> int:
    """The address of madvise, by which Linux is asked for huge pages; 0 elsewhere."""
    if sys.platform != "linux":
        return 0
    try:
        return ctypes.cast(ctypes.CDLL(None).madvise, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0
