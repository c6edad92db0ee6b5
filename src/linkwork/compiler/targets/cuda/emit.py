"""CUDA text of a kernel from a lowered program."""

from __future__ import annotations

from dataclasses import dataclass

from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda.device import Device
from linkwork.compiler.targets.cuda.emit_maps import NAME, map_text
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.occupancy import choose
from linkwork.compiler.targets.cuda.pair_plan import constants
from linkwork.compiler.targets.cuda.prelude import ROW, WARP, prelude
from linkwork.compiler.targets.cuda.split import Part
from linkwork.compiler.targets.cuda.statements import Statements
from linkwork.compiler.targets.cuda.unit import TranslationUnit


@dataclass(frozen=True)
class Emitted:
    """Text of a kernel, and the configuration with which it is launched.

    The kernel takes the number of states (int), and for each input, then each output, a pointer and the row
    stride in numbers (long long; 0 repeats one row of an input). At least 32 states are required.
    """

    source: str
    config: KernelConfig
    name: str = NAME


def emit_cuda(program: Program, device: Device, config: KernelConfig | None = None) -> Emitted:
    """Return the CUDA text of a program of core operations for a device."""
    check(program, core_only=True)
    config = config or choose(program, device)
    if config.maps is not None:
        return Emitted(map_text(config.maps, config.blocks), config)
    return Emitted(_kernel_text(TranslationUnit(config.program, config)), config)


def _kernel_text(unit: TranslationUnit) -> str:
    """Return the text of a kernel with its tables and functions."""
    config = unit.config
    real = unit.real
    plan = config.plan
    main = Statements(unit, unit.program, plan, "x", {})
    lines = main.write()
    arrays = [
        f"{'const ' if n.startswith('in') else ''}real *__restrict__ {n}, long long {n}_step"
        for n in unit.arrays
    ]
    shift = [f"    {n} += (long long)row * {n}_step;" for n in unit.arrays]
    local = [f"    real lw_l[{config.local}];"] if config.local else []
    on = config.lockstep_loops
    states = config.rows * WARP // config.threads
    if config.part is not None:
        arrays.append("real *__restrict__ scratch")
    head = [
        f'extern "C" __global__ void __launch_bounds__({config.threads}, {config.blocks})',
        f"{NAME}(int rows, {', '.join(arrays)}) {{",
        "    LW_SHARED(shared);",
        f"    const int lane = threadIdx.x & {WARP - 1}, warp = threadIdx.x / {WARP};",
        f"    int row = (int)blockIdx.x * {config.rows} + warp * {states};",
        *([] if config.lockstep else ["    if (row >= rows) {", "        return;", "    }"]),
        *(_part_head(config.part) if config.part is not None else []),
        f"    if (row > rows - {states}) {{ /* the last warps compute some rows again rather than none */",
        f"        row = rows - {states};",
        "    }",
        *shift,
        "    const lw_slot lw_s = LW_ADDRESS(shared + threadIdx.x);",
        f"    real *lw_b = shared + {config.shared * config.threads} + warp * {config.buffers * WARP * ROW};",
        *local,
        *(
            [
                "    bool lw_on = true; /* in a loop that threads go through together: whether this one "
                "goes on */"
            ]
            if on
            else []
        ),
        *(_pair_head(unit) if config.places else []),
    ]
    kernel = "\n".join([*head, *lines, "}", ""])
    table = unit.constants.lines()
    if config.table:
        numbers = ", ".join(real.literal(c) for each in constants(unit.program) for c in each)
        table.append(f"LW_DATA real lw_c2[] = {{{numbers}}};")
    return "\n".join([prelude(real), *table, *unit.functions, kernel])


def _part_head(part: Part) -> list[str]:
    """Return the pointer to a thread's crossing values; those of a warp are contiguous, slot by slot."""
    group = f"((row < rows ? row : rows - 1) / {WARP})"
    return [f"    real *lw_x = scratch + (long long){group} * {part.slots * WARP} + lane;"]


def _pair_head(unit: TranslationUnit) -> list[str]:
    """Return the pointers to the values and constants of two threads that run one state."""
    config = unit.config
    real = unit.real
    sign = f"({real.integer})1 << {8 * real.size - 1}"
    place = config.shared * config.threads + config.threads // WARP * config.buffers * WARP * ROW
    head = [
        "    const int second = lane & 1;",
        "    const lw_slot lw_e = LW_ADDRESS(shared + (threadIdx.x & ~1));",
        f"    const lw_slot lw_h = LW_ADDRESS(shared + warp * {WARP} + lane / 2);",
        f"    const {real.integer} lw_sign0 = second ? 0 : {sign}, lw_sign1 = second ? {sign} : 0;",
    ]
    if config.table:
        head += [
            f"    real *lw_table = shared + {place};",
            f"    for (int i = lane; i < {2 * config.table}; i += {WARP}) {{ /* every warp of the block "
            "writes the same */",
            "        lw_table[i] = lw_c2[i];",
            "    }",
            "    __syncwarp();",
            "    const lw_slot lw_t = LW_ADDRESS(lw_table + second);",
        ]
    return head
