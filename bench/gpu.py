"""Figures on a GPU: states a second from and to row-major arrays, checked against the interpreter in the same run.

    make bench-gpu            # all; or: python bench/gpu.py g1 talos

Each line says the rate in float32 and float64, whether all bits are those of the interpreter on random states, and what the
kernel takes. Robots' numbers are those of the other benches.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import linkwork as lw
import robots

CHECKED = 2048  # states that are compared with the interpreter
ROWS = 1 << 20
MEMORY = 4 << 30  # bytes of arrays at most


def rate(kernel: Any, rows: int) -> dict[str, Any]:
    numbers = sum(a.size for a in kernel.inputs + kernel.outputs)
    fitting = max(1024, min(rows, MEMORY // (numbers * np.dtype(kernel.dtype).itemsize)))
    told: dict[str, Any] = kernel.resources(measured=fitting)
    return told


def same_bits(source: Any, model: Any, kernel: Any, options: dict[str, Any]) -> bool:
    program = lw.lower(source.program(model, **options), kernel.dtype)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((CHECKED, *a.shape)).astype(kernel.dtype) for a in program.inputs]
    found, wanted = kernel(*inputs), lw.interpret(program, *inputs)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    bits = f"u{np.dtype(kernel.dtype).itemsize}"
    return all(bool(((f.view(bits) == w.view(bits)) | (np.isnan(f) & np.isnan(w))).all()) for f, w in pairs)


def line(name: str, what: str, source: Any, model: Any, **options: Any) -> None:
    words = []
    for dtype in ("float32", "float64"):
        start = time.perf_counter()
        kernel = lw.compile(source, model, target="cuda", dtype=dtype, **options)
        built = time.perf_counter() - start
        told = rate(kernel, ROWS)
        same = same_bits(source, model, kernel, options)
        bits = "same bits" if same else "OTHER BITS"
        share = f"{told['measured_share']:4.0%} of roof" if "measured_share" in told else "has loops"
        words.append(
            f"{told['measured_rate'] / 1e6:9.1f} M/s {bits} {share}, {told['warps']} warps {told['registers']} regs "
            f"{told['local_bytes']} B local, {built:.1f} s"
        )
    print(f"{name:10s} {what:20s} f32 {words[0]} | f64 {words[1]}", flush=True)


STEPS = 1000


def start_states(model: lw.Model) -> list[np.ndarray]:
    found = [model.random_state(k) for k in range(64)]
    return [np.array([s[0] for s in found]), 0.05 * np.array([s[1] for s in found])]


def rollouts(name: str, model: lw.Model, cpu: np.ndarray, rows: int = 65536, steps: int = STEPS) -> None:
    import cupy

    for dtype in ("float32", "float64"):
        q, v = (cupy.asarray(np.resize(x, (rows, x.shape[1])).astype(dtype)) for x in start_states(model))
        lw.rollout(model, q, v, dt=1e-4, steps=10, every=10)
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        end = lw.rollout(model, q, v, dt=1e-4, steps=steps, every=steps)
        took = time.perf_counter() - start
        same = ""
        if dtype == "float64":
            same = "same bits as the CPU" if np.array_equal(end.q[:64].get(), cpu, equal_nan=True) else "OTHER BITS"
        print(f"{name:10s} rollout {rows} x {steps} {dtype}: {rows * steps / took / 1e6:.1f} M steps/s {same}", flush=True)


def main(names: list[str]) -> None:
    cpu = {}
    for name in ("iiwa14", "g1"):  # before anything of the GPU's is in this process
        if not names or name in names:
            model = robots.model(name)
            cpu[name] = lw.rollout(model, *start_states(model), dt=1e-4, steps=STEPS, every=STEPS).q
    for name in names or ["iiwa14", "solo12", "g1", "talos"]:
        model = robots.model(name)
        line(name, "forward dynamics", lw.forward_dynamics, model)
        line(name, "inverse dynamics", lw.inverse_dynamics, model)
        line(name, "mass matrix", lw.mass_matrix, model)
        if name in ("iiwa14", "g1"):
            line(name, "d forward dynamics", lw.forward_dynamics_derivatives, model)
            rollouts(name, model, cpu[name])
    if not names:
        line("jvrc1", "forward dynamics", lw.forward_dynamics, lw.robots.jvrc1())
        line("tello", "forward dynamics", lw.forward_dynamics, lw.robots.tello())


if __name__ == "__main__":
    main(sys.argv[1:])
