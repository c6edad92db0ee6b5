"""For tests of the C target: programs, rows of inputs for them, and how exported code is compiled and
compared.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkwork.compiler.ir import functions as lw
from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.targets.c import Export, export_c
from programs import SPECIAL, as_tuple, random_bits, same_bits, seeded_program

CLEAN = ["-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Wconversion", "-Werror"]
STRICT = ["-std=c99", *CLEAN]


def products(q: Any, v: Any, k: Any) -> dict[str, Any]:
    """Sums of products, whose rounding differs where one is fused with a sum."""
    return {
        "out": q * v + k * q[::-1] - v * 0.3,
        "dot": q @ v,
        "norm": lw.sqrt(abs(q @ q - v @ v)),
        "keep": v[::-1],
    }


def loops(x: Any, n: Any) -> dict[str, Any]:
    """Loops that end by their condition, by their limit, at once, inside one another; two share one body."""

    def newton(y: Any) -> Any:
        z = 0.5 * (y + abs(x[0]) / y)
        return z, abs(z - y) > 1e-6 * z

    def swap(s: Any) -> Any:  # needs the whole old state; ends by its limit or its count
        return np.array([s[1], s[0], s[2] + 1.0], dtype=object), s[2] < n

    def outer(s: Any) -> Any:
        inner = lw.loop(lambda t: (t * 0.5 + x[1], t < n), s[0], limit=4)
        return np.array([inner, s[1] + inner], dtype=object), s[1] < 3.0

    return {
        "root": lw.loop(newton, 1.0 + abs(x[1]), limit=30),
        "swap": lw.loop(swap, np.array([x[0], x[1], 0.0], dtype=object), limit=5),
        "again": lw.loop(swap, np.array([x[1], x[0], 1.0], dtype=object), limit=5),  # the same body
        "nested": lw.loop(outer, np.array([x[0], x[1]], dtype=object), limit=6),
        "once": lw.loop(lambda s: (s + 1.0, False), x[0], limit=9),
        "limit": lw.loop(lambda s: (s * 1.5, True), x[0], limit=3),
    }


def skippable(x: Any) -> dict[str, Any]:
    """Loops that some rows enter, one within the other; few rows enter the last one."""

    def inner(s: Any) -> Any:
        a, b = s
        for k in range(5):
            a, b = 0.75 * a - 0.5 * b, b + 0.125 * a - 0.01 * k
        return np.array([a, b], dtype=object), (abs(a) > 0.05) & (abs(b) < 40.0)

    def outer(s: Any) -> Any:
        once = lw.loop(inner, s[:2], limit=7, enter=s[0] > s[1])
        twice = lw.loop(inner, once, limit=3, enter=s[2] < 2.5)
        return np.array([0.5 * twice[1], twice[0], s[2] + 1.0, x[2]], dtype=object), s[2] < 4.0

    start = np.array([x[0], x[1], 0.0, x[2]], dtype=object)
    many = lw.loop(outer, start, limit=6, enter=x[2] > 0.0)
    few = lw.loop(inner, many[:2], limit=9, enter=x[0] > 1e3)
    return {"y": np.array([*many, *few], dtype=object)}


def constants() -> Program:
    """Constants of every sort, alone and in arithmetic, an unread input, empty arrays, an input returned."""
    b = Builder()
    numbers = [0.0, -0.0, 1.0, -2.5, 0.1, 5e-324, 1e-40, -1.7976931348623157e308, np.inf, -np.inf, np.nan]
    values = [b.constant(float(x)) for x in numbers]
    x = b.input(0, 1)
    sums = [b.emit("add", (x, v)) for v in values] + [b.emit("neg", (values[3],)), b.emit("eq", (x, x))]
    unfolded = b.emit("and", (b.constant(True), b.emit("lt", (values[2], values[3]))))
    sums[-1] = b.emit("select", (b.emit("or", (unfolded, sums[-1])), x, values[-1]))
    inputs = [Array("x", (2,)), Array("unread", (3,)), Array("empty", (0,))]
    outputs = [
        Array("pure", (len(values),)),
        Array("mixed", (len(sums),)),
        Array("same", ()),
        Array("none", (2, 0)),
    ]
    return b.finish("constants", inputs, outputs, [values, sums, [x], []])


def exact_zeros() -> Program:
    """A fused sum that is an exact zero, with its sign flipped in all ways: GCC likes to flip the operands
    instead.
    """
    b = Builder()
    x, y = (b.emit("rint", (b.input(0, k),)) for k in range(2))
    results = []
    for k, op in enumerate(
        ("neg", "mul", "div", "sub")
    ):  # each from its own sum: GCC looks at sums with one reader
        whole = b.emit("add", (x, b.constant(float(k))))
        zero = b.emit("fma", (whole, y, b.emit("neg", (b.emit("mul", (whole, y)),))))
        minus_one = b.constant(-1.0)
        minus_zero = b.constant(-0.0)
        args = {"neg": (zero,), "sub": (minus_zero, zero)}.get(op, (zero, minus_one))
        results.append(b.emit(op, args))
    return b.finish("zeros", [Array("q", (2,))], [Array("out", (len(results),))], [results])


def nothing_in() -> Program:
    """No inputs at all, and a keyword for a name."""
    b = Builder()
    return b.finish("double", [], [Array("int", (2,))], [[b.constant(1.5), b.constant(float("nan"))]])


def awkward_names() -> Program:
    """A library function's name, and arrays called as keywords, macros and what generated code uses itself."""
    names = [
        "int",
        "int_",
        "main",
        "class",
        "t3",
        "s",
        "NAN",
        "_x",
        "sqrt",
        "f_part0",
        "M_PI",
        "unix",
        "state0",
    ]
    shapes = dict.fromkeys([*names, "lw_abs"], ())
    return trace(lambda *xs: {"register": lw.sqrt(abs(sum(xs))), "I": xs[0] * 2.0}, shapes, name="sin")


def tangle(count: int) -> Program:
    """A long random program with far references, conditions and now and then a loop; its numbers stay
    moderate.
    """
    return seeded_program(1, size=count, keep=80, depth=1, tame=True, name="tangle")


def rows_for(program: Program, count: int) -> list[np.ndarray]:
    """`count` rows each of moderate numbers, of special values (all pairs for three scalars) and of random
    bits.
    """
    rng = np.random.default_rng(5)
    scalars = [a.shape for a in program.inputs] == [(), (), ()]
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    triples = np.column_stack([pairs, rng.permutation(pairs[:, 0])])
    out = []
    for k, a in enumerate(program.inputs):
        shape = (count, *a.shape)
        special = triples[:, k] if scalars else rng.choice(SPECIAL, shape)
        with np.errstate(over="ignore"):
            moderate = rng.standard_normal(shape).astype(program.dtype)
            special = special.astype(program.dtype)
        out.append(np.concatenate([moderate, special, random_bits(rng, shape, program.dtype)]))
    return out


# exported code


def compiler(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def run(*command: object, ok: bool = True) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    assert (done.returncode == 0) == ok, f"{command}\n{text}"
    return text


@dataclass
class Case:
    """An exported program with rows of inputs and what the interpreter makes of them."""

    program: Program
    export: Export
    inputs: list[np.ndarray]
    wanted: list[np.ndarray]

    def compare(self, library: ctypes.CDLL) -> None:
        function = getattr(library, self.export.name)
        rows = len(self.inputs[0]) if self.inputs else 1
        got = [np.full((rows, *a.shape), 77, self.program.dtype) for a in self.program.outputs]
        arrays = [np.ascontiguousarray(a) for a in self.inputs] + got
        steps = [(a.ctypes.data, a.nbytes // rows) for a in arrays]
        for row in range(rows):
            function(*[ctypes.c_void_p(start + row * step) for start, step in steps])
        for spec, g, w in zip(self.program.outputs, got, self.wanted, strict=True):
            bad = np.argwhere(~same_bits(g, np.broadcast_to(w, g.shape)))
            assert not len(bad), (
                f"{self.export.name}.{spec.name}: {len(bad)} differ, first at {bad[0]}: C {g[tuple(bad[0])]!r}, "
                f"want {w[tuple(bad[0])]!r} for {[a[bad[0][0]] for a in self.inputs]}"
            )


def make_case(program: Program, folder: Path, name: str | None = None, rows: int = 200) -> Case:
    inputs = rows_for(program, rows)
    wanted = list(as_tuple(interpret(program, *inputs)))
    return Case(program, export_c(program, folder, name=name), inputs, wanted)


def build(cc: str, flags: Iterable[str], cases: Iterable[Case], library: Path) -> ctypes.CDLL:
    run(cc, *flags, "-shared", "-fPIC", *[c.export.source for c in cases], "-o", library, "-lm")
    return ctypes.CDLL(str(library))
