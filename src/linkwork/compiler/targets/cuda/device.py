"""Resources of the GPUs that kernels are planned for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Resources of one GPU model; registers and memory are those of one multiprocessor.

    Attributes
    ----------
    arch
        Architecture
    multiprocessors
        Their number
    registers
        Registers of 32 bits
    shared
        Shared memory [bytes]
    block
        Shared memory that one block may have [bytes]
    warps
        Resident warps
    clock
        Clock rate [Hz]
    l1
        Shared memory and L1 cache together [bytes]
    """

    arch: str = "sm_90"
    multiprocessors: int = 132
    registers: int = 65536
    shared: int = 228 * 1024
    block: int = 227 * 1024
    warps: int = 64
    clock: float = 1.98e9
    l1: int = 256 * 1024


DEVICES = {
    "sm_80": Device("sm_80", 108, shared=164 * 1024, block=163 * 1024, clock=1.41e9, l1=192 * 1024),
    "sm_90": Device(),
}
