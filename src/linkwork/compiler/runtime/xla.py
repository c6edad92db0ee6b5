"""Kernels as XLA custom calls: machine code that XLA calls on its own buffers, without Python."""

from __future__ import annotations

import ctypes
import sys

from linkwork.compiler.runtime.compiler import QUICK, compile_text
from linkwork.compiler.runtime.kernel import Kernel
from linkwork.compiler.runtime.native import Code
from linkwork.compiler.targets.cpu.xla import xla_text
from linkwork.errors import TargetError

_handlers: dict[int, tuple[Kernel, Code]] = {}  # XLA never drops a custom call, so its kernel must stay alive


def xla_handler(kernel: Kernel) -> int:
    """Return the address of an XLA FFI handler that runs a kernel with the best available code."""
    if id(kernel) not in _handlers:
        if not kernel._codes:
            raise TargetError(f"{kernel.name}: no machine code that XLA could call")
        loop = kernel._codes[0].address["loop"]
        data = kernel.data_address
        text = xla_text(kernel.inputs, kernel.outputs, kernel.dtype, loop, data, _madvise())
        _handlers[id(kernel)] = kernel, compile_text(text, ("xla",), level=QUICK)
    return _handlers[id(kernel)][1].address["xla"]


def _madvise() -> int:
    """Return the address of madvise, which requests huge pages on Linux; 0 elsewhere."""
    if sys.platform != "linux":
        return 0
    try:
        return ctypes.cast(ctypes.CDLL(None).madvise, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0
