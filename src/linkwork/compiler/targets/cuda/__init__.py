"""CUDA target: programs as GPU kernels with one or two threads per state (see README.md in this folder)."""

from linkwork.compiler.targets.cuda.device import DEVICES, Device
from linkwork.compiler.targets.cuda.emit import Emitted, emit_cuda
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.occupancy import candidates, choose
from linkwork.compiler.targets.cuda.parts import choose_parts, runs_in_parts

__all__ = [
    "DEVICES",
    "Device",
    "Emitted",
    "KernelConfig",
    "candidates",
    "choose",
    "choose_parts",
    "emit_cuda",
    "runs_in_parts",
]
