"""Rollouts by one kernel with the loop over steps: on the CPU, or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.compiler.runtime.build import build_on
from linkwork.compiler.runtime.results import POOL
from linkwork.model import Model
from linkwork.simulation.control import Control
from linkwork.simulation.traced import MAX_STEPS, Integrator, Laws, rollout_program

CHUNK_ROWS = 4096  # rows stepped together on a CPU, whose states stay in its caches


def kernel_for(
    model: Model,
    control: Control,
    integrator: Integrator,
    parameters: tuple[str, ...],
    *,
    target: str,
    dtype: str,
    contacts: Laws | None = None,
) -> Any:
    """Return the kernel of `rollout_program`.

    Forces of each step are one call for each step of the same kernel: what does not change between steps is
    computed before its loop, and a program of one step alone would fuse and order its sums otherwise.
    """
    key = (
        "rollout",
        control.key,
        tuple(control.inputs.items()),
        integrator,
        parameters,
        target,
        dtype,
        contacts,
    )
    known = model.cache.get(key)
    if known is None:
        program = rollout_program(
            model, control, integrator, parameters, contacts=contacts, early=target == "cpu"
        )
        known = model.cache[key] = build_on(target, None, lambda: program, dtype)
    return known


def segments(steps: int, record_every: int, single: bool) -> Iterator[tuple[int, int, int | None]]:
    """Yield (previous steps, steps to take, index in the trajectory or None) for each call."""
    over = 0
    while over < steps:
        count = 1 if single else min(record_every - over % record_every, steps - over, MAX_STEPS)
        over += count
        yield over - count, count, over // record_every if over % record_every == 0 else None


@dataclass(frozen=True)
class KernelRun:
    """Trajectories of rows, with n recorded states each."""

    q: np.ndarray  # (rows, n, nq)
    v: np.ndarray  # (rows, n, nv)
    taken: np.ndarray  # steps that rows took, (rows,)
    carried: np.ndarray | None  # what rows pass from step to step besides their state, at the end
    last: tuple[np.ndarray, np.ndarray]  # q and v of rows that stopped, after the steps that they took
    end: tuple[np.ndarray, np.ndarray]  # q and v after all steps, recorded or not


@np.errstate(
    over="ignore", invalid="ignore"
)  # a status tells of what is not finite, also where it was rounded
def roll_out(
    kernel: Any,
    states: tuple[np.ndarray, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    each: np.ndarray | None,
    *,
    dt: float,
    steps: int,
    record_every: int,
    carried: np.ndarray | None = None,
) -> KernelRun:
    """Take steps by a kernel, from states of rows and what they have `carried` before.

    `inputs` are arrays of rows, in the order of the kernel's inputs; `each` are forces for each step, (rows,
    steps, nv).
    """
    rows = len(states[0])
    n = steps // record_every + 1
    dtype = np.dtype(kernel.dtype)
    states = (states[0].astype(dtype, copy=False), states[1].astype(dtype, copy=False))
    inputs = {name: x.astype(dtype, copy=False) for name, x in inputs.items()}
    q, v = POOL.arrays([(rows, n, x.shape[1]) for x in states], dtype)
    q[:, 0], v[:, 0] = states
    done = np.zeros(rows)
    last = states  # copied where a row stops
    end = (np.array(states[0]), np.array(states[1]))
    ends = None if carried is None else np.array(carried, dtype)
    for start in range(0, rows, CHUNK_ROWS):
        part = slice(start, min(rows, start + CHUNK_ROWS))
        part_inputs = {name: x[part] for name, x in inputs.items()}
        forces = None if each is None else each[part].astype(dtype, copy=False)
        more = () if ends is None else (ends[part],)
        size = part.stop - part.start
        now, spare = [
            (*(np.array(x[part]) for x in states), np.zeros(size, dtype), *map(np.array, more))
            for _ in range(2)
        ]
        for over, count, place in segments(steps, record_every, each is not None):
            if forces is not None:
                part_inputs["tau"] = forces[:, over]
            kernel(*now, np.array([dt, count, 0.0, over], dtype), *part_inputs.values(), out=spare)
            now, spare = spare, now
            stopped = np.flatnonzero((now[2] != over + count) & (spare[2] == over))
            if len(stopped):
                if last is states:
                    last = (np.array(states[0]), np.array(states[1]))
                result = last_states(kernel, spare, now[2] - over, stopped, part_inputs, dt, over)
                last[0][start + stopped], last[1][start + stopped] = result
            if place is not None:
                q[part, place] = now[0]
                v[part, place] = now[1]
        done[part] = now[2]
        end[0][part], end[1][part] = now[:2]
        if ends is not None:
            ends[part] = now[3]
    return KernelRun(q, v, done.astype(int), ends, last, end)


def last_states(
    kernel: Any,
    before: tuple[np.ndarray, ...],
    taken: np.ndarray,
    stopped: np.ndarray,
    inputs_of_rows: Mapping[str, np.ndarray],
    dt: float,
    over: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return q and v of rows that `stopped` in a call of the kernel, after the steps that they had `taken` in
    it.

    The same steps are taken again, with the same bits.
    """
    q = before[0][stopped]
    v = before[1][stopped]
    subset = taken[stopped] > 0.0
    if subset.any():
        rows = stopped[subset]
        how = np.column_stack(
            [np.full(len(rows), dt), taken[rows], np.zeros(len(rows)), np.full(len(rows), over)]
        )
        how = how.astype(kernel.dtype)
        q[subset], v[subset] = kernel(
            *(x[rows] for x in before), how, *(x[rows] for x in inputs_of_rows.values())
        )[:2]
    return q, v
