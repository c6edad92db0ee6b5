"""Operations and times of functions of a model."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.passes.count import count_operations
from linkwork.compiler.runtime.compiler import OPTIMISED, compile_objects
from linkwork.compiler.runtime.kernel import Kernel
from linkwork.compiler.runtime.threads import using_threads
from linkwork.compiler.targets.cpu import host
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model
from linkwork.version import __version__

ROWS = 4096  # of a batch
SINGLE_STATES = 256  # states computed one by one in a timed call
# operations of a timed call, in lanes: longer calls are more likely to be interrupted
CALL_OPERATIONS = 4_000_000


class Cost(NamedTuple):
    """Operations, and times [ns] for a single state and per state of a batch; None if not timed."""

    operations: int
    one: float | None = None
    batch: float | None = None


def cost(function: ModelFunction, model: Model, *, turns: int, max_operations: int, **options: Any) -> Cost:
    """Return the cost of a function of a model: the best time of `turns`.

    It is not timed if it has more than `max_operations` operations.
    """
    return costs({function.__name__: (function, options)}, model, turns=turns, max_operations=max_operations)[
        function.__name__
    ]


def costs(
    functions: Mapping[str, tuple[ModelFunction, dict[str, Any]]],
    model: Model,
    *,
    turns: int,
    max_operations: int,
    always: Collection[str] = (),
    between: Callable[[], Any] = lambda: None,
) -> dict[str, Cost]:
    """Return the costs of functions of a model, each with its options, by name.

    The functions and `between` are called in turns. Functions with more than `max_operations` operations are
    not timed, except those in `always`.
    """
    programs = {name: function.program(model, **options) for name, (function, options) in functions.items()}
    counted = {name: count_operations(program)["total"] for name, program in programs.items()}
    calls: dict[tuple[str, int, int], Callable[[], Any]] = {}
    for name in (name for name in functions if turns and (counted[name] <= max_operations or name in always)):
        calls |= {
            (name, way, rows): call for way, (rows, call) in enumerate(_calls(lower(programs[name]), model))
        }
    times: dict[str, list[float]] = {name: [] for name in functions}
    for (name, _, rows), seconds in best_times(calls, turns, between).items():
        times[name].append(1e9 * seconds / rows)
    return {name: Cost(n, *times[name]) for name, n in counted.items()}


def operations(function: ModelFunction, model: Model, **options: Any) -> int:
    """Return the number of operations of a function of a model."""
    return count_operations(function.program(model, **options))["total"]


def _calls(lowered: Program, model: Model) -> list[tuple[int, Callable[[], Any]]]:
    """Return the calls to time, each with its number of states, without Python overhead.

    The first computes states one by one without SIMD lanes, the second a batch in lanes.
    """
    lanes = host().lanes("float64")
    few, many = states_in_a_call(len(lowered), lanes)
    return [
        (few, _call(kernel_of(lowered, 1), model, few)),
        (many, _call(kernel_of(lowered, lanes), model, many)),
    ]


def states_in_a_call(operations: int, lanes: int) -> tuple[int, int]:
    """Return the numbers of states in a timed call: one by one, and in a batch.

    A call takes about a millisecond, or a few tiles.
    """
    each = CALL_OPERATIONS // operations
    return min(SINGLE_STATES, max(16, each // 4 * 4)), min(ROWS, max(64 * lanes, each // 4 * 4 * lanes))


def kernel_of(program: Program, lanes: int) -> Kernel:
    """Return the optimized kernel of a lowered program for a number of lanes."""
    kernel = Kernel(program.name, program.dtype, program.inputs, program.outputs, len(program))
    objects = compile_objects(program, host(), level=OPTIMISED, lanes=lanes)
    assert objects is not None
    kernel._install(objects, tier=2, lanes=lanes)
    return kernel


def best_times(
    calls: Mapping[Any, Callable[[], Any]], turns: int, between: Callable[[], Any] = lambda: None
) -> dict[Any, float]:
    """Return the best time of each call [s] on one thread; the calls and `between` take turns.

    In a turn each is called three times after a warm-up.
    """
    best = dict.fromkeys(calls, float("inf"))
    with using_threads(1):
        for _ in range(turns):
            between()
            for key, call in calls.items():
                call()
                for _ in range(3):
                    start = time.perf_counter()
                    call()
                    best[key] = min(best[key], time.perf_counter() - start)
    return best


def _call(kernel: Kernel, model: Model, rows: int) -> Callable[[], Any]:
    subset = states(model)
    values = {name: np.tile(x, (rows // len(x), 1)) for name, x in subset.items()}
    rng = np.random.default_rng(0)
    inputs = [
        values[a.name]
        if a.name in values and values[a.name].shape[1:] == a.shape
        else rng.normal(size=(rows, *a.shape))
        for a in kernel.inputs  # velocities and forces of all joints are not among the states
    ]
    outputs = tuple(np.zeros((rows, *a.shape)) for a in kernel.outputs)
    return lambda: kernel.ufunc(*inputs, out=outputs)


@lru_cache(maxsize=4)
def states(model: Model, count: int = 4) -> dict[str, np.ndarray]:
    """Return a few random states with closed loops: q, v and tau, one in each row."""
    rng = np.random.default_rng(1)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(count))))
    return {"q": q, "v": v, "tau": rng.normal(size=v.shape)}


def machine() -> str:
    """Return the version, machine and date of a measurement."""
    return (
        f"linkwork {__version__}, Python {platform.python_version()}, {platform.system()} on {host().cpu}, "
        f"{host().lanes('float64')} lanes of float64, one thread, {datetime.date.today().isoformat()}"
    )
