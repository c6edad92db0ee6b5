"""Writing of output rows by the last kernel of a long program."""

from __future__ import annotations

from linkwork.compiler.targets.cuda.map_kernel import MapKernel
from linkwork.compiler.targets.cuda.maps import Phase
from linkwork.compiler.targets.cuda.prelude import REALS, WARP


def flush_lines(kernel: MapKernel) -> list[str]:
    """Return the lines that write the rows of all states: in one piece if they are contiguous, otherwise row
    by row in lines of memory.
    """
    program = kernel.plan.program
    outputs = program.outputs
    real_size = REALS[program.dtype].size
    states = kernel.states
    warps = kernel.warps
    row, piece = (
        ("s = warp", "0") if warps <= states else (f"s = warp % {states}", f"warp / {states} * {WARP}")
    )
    step = WARP * max(1, warps // states)
    lines = []
    for k, phase in enumerate(kernel.plan.phases):
        size = outputs[phase.array].size
        to = f"out{phase.array} + (long long)first * {size}"
        wide = 16 // real_size
        bulk = f"LW_BULK && ((size_t)({to}) & 15) == 0" if _is_one_piece(kernel, phase) else "false"
        share = -(-states * size // warps // wide) * wide  # of a warp
        count = f"{states * size} - warp * {share} < {share} ? {states * size} - warp * {share} : {share}"
        write = f"LW_WRITE({to} + warp * {share}, shared + warp * {share}, ({count}) * {real_size});"
        lines += [
            f"    if (phase == {k} && {bulk}) {{",
            f"        if (lane == 0 && warp * {share} < {states * size}) {{",
            f"            {write}",
            "        }",
            f"    }} else if (phase == {k}) {{",
            f"        for (int {row}; s < {states}; s += {min(warps, states)}) {{",
            f"            real *to = {to} + s * {size};",
            f"            const real *from = shared + s * {kernel.pitch(phase)};",
            f"            const int skip = (int)((size_t)to / sizeof(real)) & {WARP - 1};",
            "#pragma unroll 4",
            f"            for (int e = lane - skip + {piece}; e < {size}; e += {step}) {{",
            "                if (e >= 0) {",
            "                    to[e] = from[e];",
            "                }",
            "            }",
            "        }",
            "    }",
        ]
    return lines


def _is_one_piece(kernel: MapKernel, phase: Phase) -> bool:
    """Return whether the rows of a block are one piece of memory, of a multiple of 16 bytes."""
    program = kernel.plan.program
    size = program.outputs[phase.array].size
    return kernel.pitch(phase) == size and kernel.states * size * REALS[program.dtype].size % 16 == 0
