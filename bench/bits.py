"""Compare results of interpreter, SIMD lanes, gcc, clang and GPU bit by bit.

    python bench/bits.py [--states 100000] [case ...]

States are random, in float64 and float32; NaN counts as one value. Missing compilers and GPUs are named in the
output. Rollouts of 1000 steps are compared between lanes, C and GPU; tests compare lanes with the interpreter.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import constraint_sets
import linkwork as lw
import robots

STEPS = 1000
DT = 1e-4
CHUNK = 2000  # rows that the interpreter takes at once


class Case(NamedTuple):
    """A function with its model and options."""

    function: Any
    model: Callable[[], lw.Model]
    options: dict[str, Any]


CASES = {
    "forward dynamics, G1": Case(lw.forward_dynamics, lambda: robots.model("g1"), {}),
    "inverse dynamics, Talos": Case(lw.inverse_dynamics, lambda: robots.model("talos"), {}),
    "mass matrix, solo12": Case(lw.mass_matrix, lambda: robots.model("solo12"), {}),
    "forward dynamics, Tello, loops and rotors": Case(lw.forward_dynamics, lw.robots.tello, {}),
    "constrained dynamics, Talos on two feet": Case(
        lw.constrained_dynamics,
        lambda: constraint_sets.TABLE["talos F6x2"].model(),
        {"constraints": (lw.Weld("held0"), lw.Weld("held1")), "iterations": 3},
    ),
    "derivatives of forward dynamics, solo12": Case(
        lw.forward_dynamics_derivatives, lambda: robots.model("solo12"), {}
    ),
    "forward dynamics, flexible arm": Case(lw.forward_dynamics, lw.robots.flexible_arm, {}),
}


def same(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    """Return whether all bits are equal, where NaN counts as one value."""
    for f, w in zip(found, wanted, strict=True):
        bits = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (f, w)]
        if not ((bits[0] == bits[1]) | (np.isnan(f) & np.isnan(w))).all():
            return False
    return True


def several(x: Any) -> tuple[np.ndarray, ...]:
    return tuple(x) if isinstance(x, tuple) else (x,)


def random_rows(program: lw.Program, states: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((states, *a.shape)).astype(program.dtype) for a in program.inputs]


def interpreted(program: lw.Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the interpreter's results, computed in chunks of rows that fit into the caches."""
    parts = [
        several(lw.interpret(program, *(x[k : k + CHUNK] for x in inputs)))
        for k in range(0, len(inputs[0]), CHUNK)
    ]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def compiled_c(compiler: str, case: Case, program: lw.Program, folder: Path) -> ctypes.CDLL:
    """Return the exported function, and a function that calls it for each row."""
    made = lw.export_c(
        case.function, case.model(), folder, name="exported", dtype=program.dtype, **case.options
    )
    real = "double" if program.dtype == "float64" else "float"
    arrays = [(f"const {real} *", a.size) for a in program.inputs] + [
        (f"{real} *", a.size) for a in program.outputs
    ]
    given = ", ".join(f"{kind}a{k}" for k, (kind, _) in enumerate(arrays))
    moved = ", ".join(f"a{k} + i * {size}" for k, (_, size) in enumerate(arrays))
    rows = folder / "rows.c"
    each = f"for (long i = 0; i < n; i++) exported({moved});"
    rows.write_text(f'#include "{made.header.name}"\nvoid rows(long n, {given}) {{ {each} }}\n')
    library = folder / f"{compiler}.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", made.source, rows, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def in_c(compiler: str, case: Case, program: lw.Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of the exported C code."""
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_c(compiler, case, program, Path(folder))
        found = [np.zeros((len(inputs[0]), *a.shape), program.dtype) for a in program.outputs]
        library.rows(
            ctypes.c_long(len(inputs[0])), *(ctypes.c_void_p(a.ctypes.data) for a in [*inputs, *found])
        )
        return found


def has_gpu() -> bool:
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


def compare(case: Case, dtype: str, states: int) -> str:
    """Return one word for each way to run the program."""
    model = case.model()
    program = lw.lower(case.function.program(model, **case.options), dtype)
    inputs = random_rows(program, states)
    wanted = interpreted(program, inputs)
    compiled = {"dtype": dtype, **case.options}
    ways: dict[str, Callable[[], Sequence[np.ndarray]] | None] = {
        "lanes": lambda: several(lw.compile(case.function, model, wait=True, **compiled)(*inputs)),
        "gcc": (lambda: in_c("gcc", case, program, inputs)) if shutil.which("gcc") else None,
        "clang": (lambda: in_c("clang", case, program, inputs)) if shutil.which("clang") else None,
        "GPU": None,
    }
    if has_gpu():
        ways["GPU"] = lambda: several(lw.compile(case.function, model, target="cuda", **compiled)(*inputs))
    return ", ".join(f"{name} {told(way, wanted)}" for name, way in ways.items())


def told(way: Callable[[], Sequence[np.ndarray]] | None, wanted: Sequence[np.ndarray]) -> str:
    if way is None:
        return "not here"
    return "same" if same(way(), wanted) else "OTHER BITS"


def rollouts(dtype: str, states: int) -> str:
    """Compare rollouts of 1000 steps: lanes against C (some rows) and GPU."""
    model = robots.model("solo12")
    found = [model.random_state(k) for k in range(512)]
    q, v = (
        np.resize(np.array([s[k] for s in found]), (states, n)).astype(dtype)
        for k, n in enumerate((model.nq, model.nv))
    )
    v *= np.linspace(0.01, 0.1, states, dtype=dtype)[:, None]
    how: dict[str, Any] = {"dt": DT, "steps": STEPS, "record_every": STEPS, "dtype": dtype}
    ours = lw.rollout(model, q, v, **how)
    wanted = (ours.q[:, -1], ours.v[:, -1])
    words = []
    for compiler in ("gcc", "clang"):
        way = (lambda c=compiler: rolled_in_c(c, model, q[:512], v[:512])) if shutil.which(compiler) else None
        words.append(f"{compiler} {told(way, [x[:512] for x in wanted])}")
    if has_gpu():
        theirs = lw.rollout(model, q, v, **how, device="cuda")
        words.append(f"GPU {told(lambda: (theirs.q[:, -1], theirs.v[:, -1]), wanted)}")
    else:
        words.append("GPU not here")
    return (
        ", ".join(words)
        + f" as lanes (C: 512 rows); {np.isfinite(wanted[0]).all(axis=1).mean():.0%} of rows finite"
    )


def rolled_in_c(compiler: str, model: lw.Model, q: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Return final states of rollouts by exported C, without forces."""
    with tempfile.TemporaryDirectory() as folder:
        made = lw.export_c(lw.rollout, model, folder, dtype=q.dtype.name)
        library = Path(folder) / "rollout.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", made.source, "-o", library, "-lm"], check=True)
        function = getattr(ctypes.CDLL(str(library)), made.name)
        numbers = [np.array([x], q.dtype) for x in (DT, STEPS, 0)] + [np.zeros(model.nv, q.dtype)]
        ends = [np.zeros_like(q), np.zeros_like(v)]
        taken = np.zeros(1, q.dtype)
        for k in range(len(q)):
            function(
                *(
                    ctypes.c_void_p(a.ctypes.data)
                    for a in (q[k], v[k], *numbers, ends[0][k], ends[1][k], taken)
                )
            )
        return ends


def main() -> None:
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("cases", nargs="*", help=", ".join([*CASES, "rollouts"]))
    read.add_argument("--states", type=int, default=100_000)
    given = read.parse_args()
    for name in given.cases or [*CASES, "rollouts"]:
        for dtype in ("float64", "float32"):
            start = time.perf_counter()
            words = (
                rollouts(dtype, given.states)
                if name == "rollouts"
                else compare(CASES[name], dtype, given.states)
            )
            print(
                f"{name:44s} {dtype} {given.states} states: {words} ({time.perf_counter() - start:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
