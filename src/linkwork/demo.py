"""`linkwork demo`: a chain of pendulums, from fifteen lines of NumPy to machine code, looked at from all sides.

The equations of motion below are the whole model. The same lines run on symbols (then they leave a program), on the floats
of one state, and on NumPy arrays that hold a batch.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw

LINKS = 3  # rods of 1 m, each with 1 kg at its end, hanging from one another
GRAVITY = 9.81  # m/s²
STEP = 1 / 1000  # s
ROWS = 4096  # pendulums that are released together
APART = 1e-6  # rad between the first angles of the first and the last of them
SECONDS = 12.0
FRAMES = 50  # a second, looked at


def equations(x: Any) -> Any:
    """The rate of change of x = [angles from the vertical, angular velocities]."""
    n = range(LINKS)
    (s, c), w = lw.sincos(x[:LINKS]), x[LINKS:]
    below = [[LINKS - max(i, j) for j in n] for i in n]  # the masses that hang on both joint i and joint j
    M = [[below[i][j] * (c[i] * c[j] + s[i] * s[j]) for j in n] for i in n]
    f = [sum(below[i][j] * (c[i] * s[j] - s[i] * c[j]) * w[j] ** 2 for j in n) - below[i][i] * GRAVITY * s[i] for i in n]
    for k in n:  # solve M a = f by elimination
        for i in range(k + 1, LINKS):
            r = M[i][k] / M[k][k]
            M[i] = [a - r * b for a, b in zip(M[i], M[k])]
            f[i] = f[i] - r * f[k]
    for k in reversed(n):
        f[k] = (f[k] - sum(M[k][j] * f[j] for j in range(k + 1, LINKS))) / M[k][k]
    return np.array([*w, *f])


def step(x: Any) -> Any:
    """One step of the classical Runge-Kutta method."""
    k1 = equations(x)
    k2 = equations(x + STEP / 2 * k1)
    k3 = equations(x + STEP / 2 * k2)
    k4 = equations(x + STEP * k3)
    return x + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def look(x: Any) -> dict[str, Any]:
    """Energy [J] and the place of the last mass [m]."""
    n = range(LINKS)
    (s, c), w = lw.sincos(x[:LINKS]), x[LINKS:]
    speed = [(sum(c[i] * w[i] for i in range(k + 1)), sum(s[i] * w[i] for i in range(k + 1))) for k in n]
    height = [-sum(c[: k + 1]) for k in n]
    energy = sum((u * u + v * v) / 2 + GRAVITY * h for (u, v), h in zip(speed, height))
    return {"energy": energy, "tip": np.array([sum(s), height[-1]])}


def run(folder: Path) -> int:
    """Run the demo, print what happens, and write `demo.svg` (and C, if there is a compiler) into a folder."""
    print(f"{LINKS} pendulums, one hanging from another. One Runge-Kutta step of {STEP * 1e3:g} ms, traced and compiled.\n")
    program = lw.trace(step, {"x": 2 * LINKS})
    _show_program(program)
    began = time.perf_counter()
    kernel = lw.compile(program, wait=True)
    print(f"\ncompiled     {time.perf_counter() - began:.2f} s for {kernel.lanes} lanes (or found in the cache)\n")

    same = _check_bits(program, kernel)
    tips, drift = _simulate(kernel)
    print(f"energy       changed by at most {drift:.1e} J in {SECONDS:g} s, over all {ROWS} pendulums\n")
    _show_clouds(tips)
    _time(kernel)
    same = _check_c(program, kernel, folder) and same
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "demo.svg"
    picture.write_text(_svg(tips[: 9 * FRAMES, :: ROWS // 32]), encoding="utf-8")
    print(f"\npicture      {picture}: nine seconds of 32 last masses that began {APART / 32:.0e} rad apart")
    return 0 if same else 1


def _show_program(program: lw.Program) -> None:
    counts = lw.count_operations(program)
    print("operations   " + ", ".join(f"{number} {name}" for name, number in counts.items() if number))
    lines = str(program).splitlines()
    lowered = lw.lower(program)
    print(f"instructions {len(program)} traced, {len(lowered)} when sines and cosines are written out. It begins:\n")
    for line in lines[:9]:
        print("    " + line)
    print("      ...")


def _poses() -> np.ndarray:
    x = np.zeros((ROWS, 2 * LINKS))
    x[:, :LINKS] = 2.6
    x[:, 0] += np.linspace(0.0, APART, ROWS)
    return x


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays have the same bits; NaN counts as one value."""
    a, b = np.asarray(a), np.asarray(b)
    return bool(np.all((a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))))


def _verdict(what: str, good: bool) -> bool:
    print(f"{what:<12} {'the same bits' if good else 'DIFFERENT BITS: please report this'}", end="")
    return good


def _check_bits(program: lw.Program, kernel: lw.Kernel) -> bool:
    x = np.random.default_rng(0).normal(size=(999, 2 * LINKS))
    x[3, 0], x[5, 4] = np.nan, np.inf  # bad rows must harm no other
    whole, alone = kernel(x), np.array([kernel(row) for row in x])
    good = _verdict("interpreter", _same(whole, lw.interpret(lw.lower(program), x)))
    print(" as the compiled kernel, on 999 states, two of them broken")
    good = _verdict("alone", _same(whole, alone)) and good
    print(" as in a batch: each state by itself")
    return good


def _simulate(kernel: lw.Kernel) -> tuple[np.ndarray, float]:
    """The places of all tips, frame by frame, and the largest change of energy."""
    observe = lw.compile(look, {"x": 2 * LINKS})
    x, spare = _poses(), np.empty((ROWS, 2 * LINKS))
    first, tip = observe(x)
    tips, drift = [tip], 0.0
    every = round(1 / FRAMES / STEP)
    steps = round(SECONDS / STEP)
    began = time.perf_counter()
    for k in range(1, steps + 1):
        x, spare = kernel(x, out=spare), x
        if k % every == 0:
            energy, tip = observe(x)
            tips.append(tip)
            drift = max(drift, float(np.abs(energy - first).max()))
    seconds = time.perf_counter() - began
    print(f"simulated    {ROWS} pendulums for {SECONDS:g} s ({ROWS * steps / 1e6:.1f} million steps) in {seconds:.1f} s")
    return np.array(tips), drift


def _show_clouds(tips: np.ndarray) -> None:
    """Print where all the tips are at a few times."""
    width, height = 24, 12
    moments = [0, 7 * FRAMES, 8 * FRAMES, len(tips) - 1]
    panels = []
    for k in moments:
        cells = np.zeros((height, width), dtype=int)
        columns = ((tips[k, :, 0] / LINKS + 1) / 2 * width).astype(int).clip(0, width - 1)
        rows = ((1 - tips[k, :, 1] / LINKS) / 2 * height).astype(int).clip(0, height - 1)
        np.add.at(cells, (rows, columns), 1)
        shades = np.ceil(np.log(cells + 1) / np.log(ROWS + 1) * 6).astype(int)
        panels.append(["".join(" .:+*#@"[shade] for shade in row) for row in shades])
    print(f"where the last masses are; the pendulums began within {APART:.0e} rad:\n")
    print(("    " + "   ".join(f"{f't = {k / FRAMES:g} s':<{width}}" for k in moments)).rstrip())
    for lines in zip(*panels):
        print("   |" + "| |".join(lines) + "|")
    print()


def _best(call: Callable[[], Any], seconds: float = 0.3) -> float:
    """The shortest time of a call, in seconds, over several rounds."""
    rounds: list[float] = []
    count = 1
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(rounds) < 3:
        began = time.perf_counter()
        for _ in range(count):
            call()
        rounds.append((time.perf_counter() - began) / count)
        if rounds[-1] * count < seconds / 100:
            count *= 2
    return min(rounds)


def _time(kernel: lw.Kernel) -> None:
    x = _poses()
    columns, many = np.ascontiguousarray(x.T), np.tile(x, (16, 1))
    out = np.empty_like(many)
    bound = kernel.bind(x[0].copy())
    measured = {
        "NumPy, one state": _best(lambda: step(x[0])),
        f"NumPy, {ROWS} states as arrays": _best(lambda: step(columns)) / ROWS,
        "kernel, one state": _best(lambda: kernel(x[0])),
        "kernel, one state, bound": _best(bound),
        f"kernel, {len(many)} states, one thread": _best(lambda: kernel(many, out=out, threads=1)) / len(many),
        f"kernel, {len(many)} states, all threads": _best(lambda: kernel(many, out=out)) / len(many),
    }
    print("one step of one state takes, as measured here and now:\n")
    for what, seconds in measured.items():
        print(f"    {what:<36}{seconds * 1e6:10.3f} µs")
    print()


def _check_c(program: lw.Program, kernel: lw.Kernel, folder: Path) -> bool:
    """Export the step as C, compile it where there is a compiler, and compare."""
    export = lw.export_c(program, folder / "c", name="pendulum_step")
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        print(f"exported C   {export.source}: not compiled, there is no C compiler here")
        return True
    library = export.source.with_suffix(".so").resolve()
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", str(export.source), "-o", str(library), "-lm"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"exported C   {export.source}: {compiler} failed: {made.stderr.strip()[:200]}")
        return False
    function = ctypes.CDLL(str(library))[export.name]
    x = np.random.default_rng(1).normal(size=(999, 2 * LINKS))
    out = np.empty_like(x)
    for row, result in zip(x, out):
        function(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(result.ctypes.data))
    good = _verdict("exported C", _same(out, kernel(x)))
    print(f" as the kernel, on 999 states ({export.source}, compiled by {compiler})")
    return good


def _svg(tips: np.ndarray) -> str:
    """Paths of some tips, in colours from the first to the last."""
    count = tips.shape[1]

    def path(points: Iterable[np.ndarray]) -> str:
        return "M" + " ".join(f"{100 * p[0]:.1f} {-100 * p[1]:.1f}" for p in points)

    lines = [f'<path d="{path(tips[:, k])}" stroke="hsl({200 + 160 * k // count} 70% 50%)"/>' for k in range(count)]
    reach = 100 * LINKS + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-reach} {-reach} {2 * reach} {2 * reach}" width="800">\n'
        f'<rect x="{-reach}" y="{-reach}" width="100%" height="100%" fill="white"/>\n'
        '<g fill="none" stroke-width="0.6" stroke-opacity="0.5" stroke-linejoin="round">\n' + "\n".join(lines) + "\n</g>\n"
        '<circle r="4"/>\n</svg>\n'
    )
