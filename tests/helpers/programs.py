"""Random programs, states for them and kernels of them, shared by the tests of bits, passes and targets.

There is one generator, `random_program`. It asks a function for every choice it makes, so that hypothesis can
drive it (and shrink what it finds) as well as NumPy's random numbers (for programs of thousands of
instructions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.check import check
from linkwork.compiler.ir.operations import BOOL, CORE, REAL
from linkwork.compiler.ir.program import Array, BoundedLoop, Program
from linkwork.compiler.passes.cut import Cutting, cut
from linkwork.compiler.runtime.compiler import OPTIMISED, QUICK, compile_objects
from linkwork.compiler.runtime.kernel import Kernel
from linkwork.compiler.targets.cpu import Machine, host

Choose = Callable[[int], int]  # a whole number from 0 to n - 1
Arrays = Sequence[np.ndarray]

DTYPES = ("float64", "float32")
INPUTS = (Array("s", ()), Array("v", (3,)), Array("m", (2, 2)))
CONSTANTS = (0.5, 1.0, -1.0, 0.0, -0.0, 3.0, -0.3, 2.0, 1e-40, 5e-324, 1e30, 1.7e308, np.inf, -np.inf, np.nan)

_POSITIVE = [
    0.0,
    1.0,
    0.5,
    1.5,
    2.5,
    3.0,
    0.49999999999999994,
    1e-3,
    7.25,
    126.0,
    127.0,
    128.0,
    1022.5,
    1023.0,
    1e30,
]
_POSITIVE += [2.0**23 - 0.5, 2.0**22 + 0.5, 2.0**52 - 0.5, 2.0**51 + 0.5, 2.0**23 + 1, 2.0**52 + 1]
_POSITIVE += [1.2e-38, 1e-45, 2e-308, 5e-324, 3e38, 1.7e308]
SPECIAL = [s * x for x in _POSITIVE for s in (1, -1)] + [np.inf, -np.inf, np.nan]
_COMMON = [*SPECIAL, *[0.0, -0.0, np.inf, -np.inf, np.nan, np.nan] * 3]


# programs


def every_operation(dtype: str = "float64") -> Program:
    """Each operation of the core on three scalars, conditions as 1 and 0."""
    b = Builder(dtype)
    reals = [b.input(k, 0) for k in range(3)]
    conditions = [b.emit("lt", (reals[0], reals[1])), b.emit("le", (reals[1], reals[2]))]
    one = b.constant(1.0)
    zero = b.constant(0.0)
    results = []
    for op in CORE.values():
        pools = {REAL: iter(reals), BOOL: iter(conditions)}
        value = b.emit(op.name, tuple(next(pools[kind]) for kind in op.operand_kinds))
        results.append(b.emit("select", (value, one, zero)) if op.result_kind == BOOL else value)
    inputs = [Array(n, ()) for n in "abc"]
    outputs = [Array("out", (len(results),))]
    return check(b.finish("ops", inputs, outputs, [results]), core_only=True)


_ALL = tuple(CORE.values())
_TAME = tuple(op for op in _ALL if op.name not in ("pow2", "exponent"))


class _Growing:
    """Instructions under way, of a program or of a loop body, and the values to choose from."""

    def __init__(self, choose: Choose, dtype: str, inputs: Sequence[Array], depth: int, tame: bool) -> None:
        self.choose = choose
        self.depth = depth
        self.tame = tame
        self.b = Builder(dtype)
        self.reals = [self.b.input(k, e) for k, array in enumerate(inputs) for e in range(array.size)]
        self.fresh = len(self.reals)
        self.bools: list[int] = []

    def pick(self, kind: str) -> int:
        """A value: mostly a near one, sometimes one far back, a constant, or in a tame program an input."""
        if kind == BOOL and not self.bools:
            self.bools.append(self.b.emit("lt", (self.pick(REAL), self.pick(REAL))))
        pool = self.bools if kind == BOOL else self.reals
        how = self.choose(16)
        if how > 12 and self.tame and kind == REAL:
            return pool[self.choose(min(len(pool), self.fresh))]
        if how == 15:
            return self.b.constant(
                bool(self.choose(2)) if kind == BOOL else CONSTANTS[self.choose(len(CONSTANTS))]
            )
        far = len(pool) if how > 11 else min(len(pool), 6)
        return pool[-1 - self.choose(far)]

    def step(self) -> None:
        """One more operation or loop; as it is, or in the builder's simplest form."""
        if self.depth and not self.choose(40 if self.tame else 9):
            self.loop()
            return
        ops = _TAME if self.tame else _ALL
        op = ops[self.choose(len(ops))]
        args = [self.pick(kind) for kind in op.operand_kinds]
        if self.tame and op.name in ("mul", "fma"):  # numbers of a long program must not run away
            half = self.b.constant(0.5)
            args[0] = self.b.emit("max", (self.b.emit("min", (args[0], half)), self.b.emit("neg", (half,))))
        if self.tame and op.name in ("div", "sqrt"):
            args[-1] = self.b.emit("max", (self.b.emit("abs", (args[-1],)), self.b.constant(0.25)))
        value = self.b.emit(op.name, tuple(args)) if self.choose(2) else self.b.apply(op.name, *args)
        (self.bools if op.result_kind == BOOL else self.reals).append(value)

    def loop(self) -> None:
        states = 1 + self.choose(2)
        outer = self.choose(3)
        inputs = [Array("state", (states,)), Array("outer", (outer,))]
        body = _Growing(self.choose, self.b.dtype, inputs, self.depth - 1, self.tame)
        for _ in range(2 + self.choose(5)):
            body.step()
        after = [body.pick(REAL) for _ in range(states)]
        again = body.pick(BOOL)
        if self.choose(4):  # count down from a state to a number from anywhere
            after[0] = body.b.apply("sub", 0, body.b.constant(0.5))
            if not self.choose(3):  # or flicker: a row that has stopped would go on if it were asked again
                after[0] = body.b.apply("neg", after[0])
            again = body.b.emit("lt", (body.pick(REAL) if self.choose(2) else body.b.constant(0.0), after[0]))
        step = body.b.finish(
            "step", inputs, [Array("state", (states,)), Array("again", ())], [after, [again]]
        )
        record = BoundedLoop(step, states, limit=1 + self.choose(7))
        self.reals += self.b.loop(record, [self.pick(REAL) for _ in range(states + outer)])


def random_program(
    choose: Choose,
    dtype: str = "float64",
    size: int = 25,
    *,
    keep: int = 12,
    depth: int = 2,
    tame: bool = False,
    name: str = "random",
) -> Program:
    """A program of about `size` instructions on `INPUTS`, loops up to `depth` deep inside one another, and
    three outputs.

    A tame one keeps its numbers moderate, so that not everything is NaN after a while.
    """
    grown = _Growing(choose, dtype, INPUTS, depth, tame)
    while len(grown.b.code) < size:
        grown.step()
    stride = -(-len(grown.reals) // keep)
    kept = grown.reals[choose(stride) :: stride]
    results = [kept, [grown.pick(REAL) for _ in range(4)], [grown.pick(REAL)]]
    outputs = [Array("out", (len(kept),)), Array("square", (2, 2)), Array("one", ())]
    return check(grown.b.finish(name, INPUTS, outputs, results), core_only=True)


@st.composite
def core_programs(draw: st.DrawFn, dtype: str = "float64", size: int = 30) -> Program:
    """Random programs of the core."""
    numbers = cache(lambda n: st.integers(0, n - 1))

    def choose(n: int) -> int:
        return draw(numbers(n)) if n > 1 else 0

    return random_program(choose, dtype, 9 + choose(size), tame=bool(choose(2)))


def seeded_program(seed: int, dtype: str = "float64", size: int = 25, **options: Any) -> Program:
    """A random program without hypothesis."""
    rng = np.random.default_rng(seed)
    return random_program(lambda n: int(rng.integers(n)), dtype, size, **options)


def cut_into(program: Program, part: int) -> Program:
    """The program cut into functions of about so many instructions, however short it is."""
    return cut(program, Cutting(max_uncut=0, part_size=part))


def allowed_cuts(program: Program) -> tuple[int, ...]:
    """The positions that neither a condition nor a loop crosses."""
    last = {a: v for v, (_, args, _) in enumerate(program.code) for a in args}
    closed = [
        range(v + 1, end + 1)
        for v, end in last.items()
        if program.kinds[v] != REAL and program.code[v].op != "const"
    ]
    return tuple(p for p in range(1, len(program)) if not any(p in r for r in closed))


# states


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    return rng.integers(0, 256, (*shape, kind.itemsize), dtype=np.uint8).view(kind)[..., 0]


def states(program: Program, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of inputs: ordinary ones, and between them such that hold special values or any bits at all."""
    ordinary = rng.random(rows) < 0.5
    out = []
    for array in program.inputs:
        shape = (rows, *array.shape)
        with np.errstate(over="ignore"):
            moderate = (rng.standard_normal(shape) * rng.choice([1.0, 4.0, 100.0], shape)).astype(
                program.dtype
            )
            special = rng.choice(_COMMON, shape).astype(program.dtype)
        kind = rng.integers(0, 3, shape)
        kind[ordinary] = 0
        out.append(np.choose(kind, [moderate, special, random_bits(rng, shape, program.dtype)]))
    return out


# bits


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one dtype have equal bits, or both NaN."""
    assert a.dtype == b.dtype
    bits = f"u{a.dtype.itemsize}"
    return (np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)) | (
        np.isnan(a) & np.isnan(b)
    )


def as_tuple(outputs: Any) -> tuple[np.ndarray, ...]:
    """The outputs of a program, also where it has only one."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


def assert_same(program: Program, got: Any, wanted: Any, inputs: Arrays = (), what: object = "") -> None:
    """All outputs have the same bits; else the first difference is told."""
    for spec, g, w in zip(program.outputs, as_tuple(got), as_tuple(wanted), strict=True):
        g = np.asarray(g)
        w = np.asarray(w)
        assert g.shape == w.shape, f"{spec.name}: {g.shape} is not {w.shape} {what}"
        bad = np.argwhere(~same_bits(g, w))
        if len(bad):
            at = tuple(bad[0])
            row = [a[at[0]] if a.ndim and at else a for a in inputs]
            raise AssertionError(
                f"{what} {spec.name}: {len(bad)} differ, first at {at}: {g[at]!r}, want {w[at]!r} for {row}\n{program}"
            )


# kernels


def kernel_of(
    program: Program,
    level: int = OPTIMISED,
    lanes: int | None = None,
    machine: Machine | None = None,
    *,
    bytecode: bool = False,
) -> Kernel:
    """The kernel of a core program as it stands, on one level of the compiler, any number of lanes, any
    machine.
    """
    machine = machine or host()
    lanes = lanes or machine.lanes(program.dtype)
    kernel = Kernel(program.name, program.dtype, program.inputs, program.outputs, len(program))
    objects = compile_objects(program, machine, level=level, lanes=lanes, bytecode=bytecode)
    assert objects is not None
    kernel._install(objects, tier=2, lanes=lanes)
    return share_from(kernel, 1 << 60)  # no sharing unless a test asks for it


def quick_kernel(program: Program) -> Kernel:
    """The first of the two kernels that a program has on this machine; `kernel_of(program)` is the second."""
    return kernel_of(program, QUICK, bytecode=True)


def call(kernel: Kernel, inputs: Arrays, **options: Any) -> Any:
    """The kernel's outputs, without NumPy's warnings about NaN and infinity."""
    with np.errstate(all="ignore"):
        return kernel(*inputs, **options)


def share_from(kernel: Kernel, rows: int) -> Kernel:
    """The same kernel, which shares batches of so many rows among threads."""
    kernel._data[2] = rows
    return kernel
