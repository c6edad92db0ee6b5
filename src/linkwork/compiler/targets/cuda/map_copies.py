"""CUDA text that copies elements of outputs from where they wait in shared memory (see `maps`)."""

from __future__ import annotations

from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.prelude import WARP


def copies(kernel: MapKernel, phase: str) -> list[str]:
    """Start copying elements of an output from where they wait."""
    if not kernel.plan.copy_bounds(False):
        return []
    return _loop(
        kernel,
        phase,
        "",
        "        LW_COPY(lw_o + ((unsigned)(c >> 32) & 0xffff), lw_x + (unsigned)c);",
        "        LW_COPY(lw_o + (unsigned)(c >> 48), lw_x + (unsigned)c);",
    )


def negated_copies(kernel: MapKernel) -> list[str]:
    """Copy negated elements."""
    if not kernel.plan.copy_bounds(True):
        return []
    return _loop(
        kernel,
        "phase",
        "2",
        "        const real value = -lw_x[(unsigned)c];",
        "        lw_o[(unsigned)(c >> 32) & 0xffff] = value;",
        "        lw_o[(unsigned)(c >> 48)] = value;",
    )


def _loop(kernel: MapKernel, phase: str, table: str, *statements: str) -> list[str]:
    states = kernel.states
    step = kernel.warps * WARP // states
    bound = f"lw_bound{table}[{phase}"
    return [
        "#pragma unroll 8",
        f"    for (int i = {bound}] + threadIdx.x / {states}; i < {bound} + 1]; i += {step}) {{",
        f"        const unsigned long long c = lw_copied{table}[i];",
        *statements,
        "    }",
    ]
