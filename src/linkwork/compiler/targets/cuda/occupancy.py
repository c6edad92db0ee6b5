"""Choice of the occupancy: how many warps share a multiprocessor, and thus the registers and slots of each.

More warps hide more of the latency of operations, and leave fewer registers and less shared memory to each
thread. A plan for each number of warps gives its loads and stores, and `cost_model` predicts the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from linkwork.compiler.ir.liveness import Liveness
from linkwork.compiler.ir.program import BoundedLoop, Program
from linkwork.compiler.passes.cut import Cutting, cut
from linkwork.compiler.passes.schedule import Scheduling, schedule
from linkwork.compiler.targets.cuda.actions import CHUNK, Plan
from linkwork.compiler.targets.cuda.cost_model import (
    CACHED_SPILL,
    ThreadBudget,
    configure,
    configure_pairs,
    operation_count,
    thread_budget,
    writes_late,
)
from linkwork.compiler.targets.cuda.device import Device
from linkwork.compiler.targets.cuda.kernel_config import KernelConfig
from linkwork.compiler.targets.cuda.packed import pack
from linkwork.compiler.targets.cuda.pair_plan import pair_plan
from linkwork.compiler.targets.cuda.plan import plan
from linkwork.compiler.targets.cuda.prelude import LINE, REALS, TABLED, WARP
from linkwork.errors import TargetError

CUTTING = Cutting(max_uncut=12_000, part_size=3000)
SCHEDULING = Scheduling(short=0, window=240)  # always for low register pressure: other warps hide latency
WARPS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 40, 48)  # candidates, on a multiprocessor
PAIR_WARPS = {"float32": (8, 12, 16), "float64": (5, 6, 7, 8)}  # candidates with two threads per state
NESTED_LOOP_WARPS = 8  # for nested loops whose values do not fit
MAX_BLOCK_THREADS = 1024
# instructions up to which a program surely fits the instruction cache, and from which it surely does not
INSTRUCTION_CACHE = (6600, 8200)
L1_STEP = 32 * 1024  # bytes of shared memory that are alternatively left to the L1 cache
MAX_WHOLE_ROW = 48  # elements of an output up to which whole rows may be written at once
FEW_OUTPUTS = 25  # operations per output element from which writing is a small part of the work


def candidates(program: Program, device: Device, *, warps: int | None = None) -> list[KernelConfig]:
    """Return configurations of a lowered program, the predicted fastest first; `warps` fixes the number of
    warps on a multiprocessor.
    """
    configs = [*_one_thread_configs(program, device, warps), *_two_thread_configs(program, device, warps)]
    if not configs:
        raise TargetError(f"{warps} warps leave too few registers or too little shared memory to a thread")
    configs.sort(key=lambda config: -config.rate)
    configs[1:1] = _whole_row_configs(configs[0], device)
    return [variant for config in configs for variant in _barrier_variants(config)]


def choose(program: Program, device: Device, *, warps: int | None = None) -> KernelConfig:
    """Return the predicted fastest configuration."""
    return candidates(program, device, warps=warps)[0]


def _whole_row_configs(config: KernelConfig, device: Device) -> list[KernelConfig]:
    """Return the configuration with whole output rows written at once if these are short: less traffic, fewer
    slots.
    """
    row = max(a.size for a in config.program.outputs)
    if not config.write < row <= MAX_WHOLE_ROW or config.gaps or config.places:
        return []
    warps = config.threads * config.blocks // WARP
    late = writes_late(config.program)
    budgets = (
        thread_budget(config.program, device, warps, late=late, shared=shared, write=row)
        for shared in (device.shared, device.shared - L1_STEP)
    )
    configs = [configure(config.program, device, budget) for budget in budgets if budget.fits]
    return [max(configs, key=lambda config: config.rate)] if configs else []


def _one_thread_configs(program: Program, device: Device, warps: int | None) -> list[KernelConfig]:
    """Return configurations with one thread per state."""
    order, late = _best_order(program, device)
    live = _max_live(order)
    write = _write_length(order)
    configs: list[KernelConfig] = []
    if warps is None and _is_nested(order):
        budget = thread_budget(order, device, min(WARPS), late=late, shared=device.shared)
        if budget.values + budget.slots < live:  # most values are in local memory anyway
            budget = thread_budget(order, device, NESTED_LOOP_WARPS, late=late, shared=device.shared)
            return _barrier_variants(configure(order, device, budget))
    for shared in (device.shared, device.shared - L1_STEP):
        budgets = {
            w: thread_budget(order, device, w, late=late, shared=shared, write=write)
            for w in ([warps] if warps else WARPS)
            if w <= device.warps
        }
        for count in _promising_warps({w: budget for w, budget in budgets.items() if budget.fits}, live):
            budget = budgets[count]
            is_known = any(
                c.threads * c.blocks == count * WARP and c.plan.slots <= budget.slots for c in configs
            )
            if not is_known:
                configs.append(configure(order, device, budget))
    return configs


def _two_thread_configs(program: Program, device: Device, warps: int | None) -> list[KernelConfig]:
    """Return configurations with two threads per state, if the program has limbs for which this pays."""
    if len(program) > CUTTING.max_uncut or (packed := pack(program)) is None:
        return []
    orders = []
    for order in (replace(packed, program=schedule(packed.program, SCHEDULING)), packed):
        late = pair_plan(order, 1 << 30, 0).writes_late
        typical = 12 if program.dtype == "float32" else 6
        budget = thread_budget(program, device, typical, late=late, shared=device.shared)
        orders.append((pair_plan(order, budget.values, budget.slots), order, late))
    _, packed, late = min(orders, key=_waiting_cost)
    budgets = (
        thread_budget(program, device, w, late=late, shared=device.shared)
        for w in ([warps] if warps else PAIR_WARPS[program.dtype])
    )
    return [configure_pairs(packed, device, budget) for budget in budgets if budget.fits]


def _write_length(program: Program) -> int:
    """Return the elements of outputs that are written together: 128 bytes if writing is much of the work."""
    outputs = [a.size for a in program.outputs]
    if sum(outputs) * FEW_OUTPUTS < operation_count(program):
        return CHUNK
    return min(LINE // REALS[program.dtype].size, max(CHUNK, 1 << (max(outputs) - 1).bit_length()))


def _barrier_variants(config: KernelConfig) -> list[KernelConfig]:
    """Return the configuration without barriers between warps, with them, or both where it is unclear whether
    the code fits the instruction cache.
    """
    code = config.program.code
    is_long = _instruction_count(config.program) >= INSTRUCTION_CACHE[0]
    if _is_nested(config.program) and is_long and config.threads * config.blocks <= MAX_BLOCK_THREADS:
        return [replace(config, lockstep=True, threads=config.threads * config.blocks, blocks=1)]
    if any(op == "loop" for op, _, _ in code):  # warps may have left a loop: no barrier can wait for them
        return [config]
    size = operation_count(config.program) + config.plan.loads + config.plan.stores
    size += 2 * config.plan.unassigned
    if config.program.dtype in TABLED:
        size += sum(code[a].op == "const" for _, args, _ in code for a in args)
    lockstep = replace(config, lockstep=True)
    if size < INSTRUCTION_CACHE[0]:
        return [config]
    return [config, lockstep] if size < INSTRUCTION_CACHE[1] else [lockstep]


def _is_nested(program: Program) -> bool:
    """Return whether a loop contains loops: warps then drift apart, and each fetches instructions itself."""
    bodies = [attr.body for _, _, attr in program.code if isinstance(attr, BoundedLoop)]
    return any(op == "loop" for body in bodies for op, _, _ in body.code)


def _instruction_count(program: Program) -> int:
    """Return the instructions of a program and of the bodies of its loops."""
    return sum(
        1 + _instruction_count(attr.body) if isinstance(attr, BoundedLoop) else 1
        for _, _, attr in program.code
    )


def _cut_long(program: Program) -> Program:
    """Return the program, and the bodies of its loops, cut where they are long."""
    return cut(program.map_bodies(_cut_long), CUTTING)


def _max_live(program: Program) -> int:
    """Return the most values that are live at once; a loop's body counts with the loop's arguments."""
    bodies = ((len(args), attr.body) for _, args, attr in program.code if isinstance(attr, BoundedLoop))
    return max([Liveness.of(program).max_pressure, *(count + _max_live(body) for count, body in bodies)])


def _best_order(program: Program, device: Device) -> tuple[Program, bool]:
    """Return the cut program in the better of two orders, and whether it writes late.

    The orders are the traced one and one of low register pressure; the better one has fewer waiting values.
    """
    orders = []
    for order in (_cut_long(each) for each in (schedule(program, SCHEDULING), program)):
        late = writes_late(order)
        typical = 8 if program.dtype == "float32" else 4
        budget = thread_budget(order, device, typical, late=late, shared=device.shared)
        orders.append((plan(order, budget.values, budget.slots), order, late))
    return min(orders, key=_waiting_cost)[1:]


def _waiting_cost(order: tuple[Plan, Any, bool]) -> float:
    """Return the cost of waiting values [loads and stores]."""
    kernel_plan = order[0]
    return kernel_plan.loads + kernel_plan.stores + CACHED_SPILL * kernel_plan.unassigned


def _promising_warps(budgets: Mapping[int, ThreadBudget], live: int) -> list[int]:
    """Return the numbers of warps that may be best: the largest with which nothing waits, the largest with
    which nothing is in local memory, and their neighbours.
    """
    counts = list(budgets)
    promising: set[int] = set()
    for with_slots in (False, True):
        capacities = [budgets[w].values + with_slots * budgets[w].slots for w in counts]
        k = max((n for n, capacity in enumerate(capacities) if capacity >= live), default=0)
        promising |= set(counts[max(0, k - 1) : k + 3])
    return sorted(promising)
