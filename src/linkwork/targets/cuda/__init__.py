"""CUDA target: programs as kernels of a GPU, one thread a state. See README.md in this folder."""

from linkwork.targets.cuda.choice import DEVICES, Choice, Device, candidates, choose
from linkwork.targets.cuda.emit import Emitted, emit_cuda
from linkwork.targets.cuda.parts import choose_parts, runs_in_parts

__all__ = ["DEVICES", "Choice", "Device", "Emitted", "candidates", "choose", "choose_parts", "emit_cuda", "runs_in_parts"]
