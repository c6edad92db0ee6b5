"""Processor that code is generated for, and code generation by LLVM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from linkwork.errors import TargetError


@dataclass(frozen=True)
class Machine:
    """Processor as LLVM describes it: target triple, CPU name and feature string."""

    triple: str
    cpu: str
    features: str

    @property
    def vector_bits(self) -> int:
        """Width of the widest useful vector registers [bits]."""
        on = set(self.features.split(","))
        if "+avx512f" in on and "+avx512vl" in on:
            return 512
        return 256 if "+avx2" in on else 128

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 16 if self.triple.startswith("x86_64") and self.vector_bits < 512 else 32

    def lanes(self, dtype: str) -> int:
        """Return the number of states of a dtype in one vector register."""
        return self.vector_bits // (64 if dtype == "float64" else 32)

    def key(self) -> list[str]:
        """Return everything beside the program that determines compiled code."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return [self.triple, self.cpu, self.features, f"LLVM {version}", f"llvmlite {llvmlite.__version__}"]


@cache
def host() -> Machine:
    """Return the machine of this process."""
    return Machine(
        llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    )


@cache
def _initialize(native: bool) -> None:
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@cache
def target_machine(machine: Machine, level: int) -> Any:
    """Return LLVM's code generator for a machine, at an optimisation level from 0 to 3."""
    _initialize(machine == host())
    try:
        target = llvm.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise TargetError(f"LLVM does not support {machine.triple}: {error}") from None
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="small", jit=False
    )


COMMON = "; common to all programs\n"  # first line of modules that are parts of many kernels


def compile_object(text: str, machine: Machine, *, level: int) -> bytes:
    """Return the object code of an LLVM module; only code generation runs, without LLVM's other passes.

    Modules that begin with `COMMON` are compiled once.
    """
    return (_common_object if text.startswith(COMMON) else _object)(text, machine, level)


def _object(text: str, machine: Machine, level: int) -> bytes:
    return target_machine(machine, level).emit_object(_parse(text, machine))


_common_object = lru_cache(maxsize=32)(_object)  # a few per dtype and level


def compile_assembly(text: str, machine: Machine, *, level: int) -> str:
    """Return the assembly text of an LLVM module, for inspection."""
    return target_machine(machine, level).emit_assembly(_parse(text, machine))


def _parse(text: str, machine: Machine) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    return module
