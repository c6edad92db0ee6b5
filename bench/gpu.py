"""Measure rates on a GPU, from and to row-major arrays, and compare results with the interpreter.

    make bench-gpu     # all; or some parts: python bench/gpu.py dynamics loops derivatives rollouts contact
    mjx matrices cache

Each line has the rate in float32 and float64, whether all bits are those of the interpreter on random states,
and the resources of the kernel. Robots are those of the other benchmarks. "mjx" runs forward dynamics of MJX in
the same run if JAX and mujoco-mjx are installed: contacts, constraints and actuation disabled, float32, 65 536
states. "contact" has the scenes of contact.py.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import constraint_sets
import linkwork as lw
import robots

CHECKED = 2048  # states that are compared with the interpreter
ROWS = 1 << 20
MEMORY = 16 << 30  # bytes of arrays at most


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


def rollouts(name: str, model: lw.Model, rows: int = 65536, steps: int = STEPS) -> None:
    import cupy

    cpu = lw.rollout(
        model, *start_states(model), dt=1e-4, steps=STEPS, record_every=STEPS, limits=False, friction=False
    ).q
    for dtype in ("float32", "float64"):
        q, v = (cupy.asarray(np.resize(x, (rows, x.shape[1])).astype(dtype)) for x in start_states(model))
        lw.rollout(model, q, v, dt=1e-4, steps=10, record_every=10, limits=False, friction=False)
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        end = lw.rollout(model, q, v, dt=1e-4, steps=steps, record_every=steps, limits=False, friction=False)
        took = time.perf_counter() - start
        same = ""
        if dtype == "float64":
            same = (
                "same bits as the CPU"
                if np.array_equal(end.q[:64].get(), cpu, equal_nan=True)
                else "OTHER BITS"
            )
        print(
            f"{name:10s} rollout {rows} x {steps} {dtype}: {rows * steps / took / 1e6:.1f} M steps/s {same}",
            flush=True,
        )


def dynamics() -> None:
    """Print rates of trees."""
    for name in ("iiwa14", "solo12", "g1", "talos"):
        line(name, "forward dynamics", lw.forward_dynamics, robots.model(name))
    for name in ("iiwa14", "solo12", "g1"):
        line(name, "inverse dynamics", lw.inverse_dynamics, robots.model(name))


def loops() -> None:
    """Print rates of robots with loops and rotors, and of one with welded feet."""
    line("jvrc1", "forward dynamics", lw.forward_dynamics, lw.robots.jvrc1())
    line("tello", "forward dynamics", lw.forward_dynamics, lw.robots.tello())
    feet = constraint_sets.TABLE["talos F6x2"]
    held = tuple(lw.Weld(f"held{k}") for k in range(2))
    line("talos", "two feet, 3 steps", lw.constrained_dynamics, feet.model(), constraints=held, iterations=3)


def derivatives() -> None:
    """Print rates of derivatives of forward dynamics."""
    for name in ("iiwa14", "g1"):
        line(name, "d forward dynamics", lw.forward_dynamics_derivatives, robots.model(name))


def matrices() -> None:
    """Print rates of full mass matrices."""
    for name in ("iiwa14", "solo12", "g1"):
        line(name, "mass matrix", lw.mass_matrix, robots.model(name))


def smooth_rollouts() -> None:
    """Print rates of rollouts without contact."""
    for name in ("iiwa14", "g1"):
        rollouts(name, robots.model(name))


def contact_rollouts(steps: int = 200) -> None:
    """Print rates of steps with contact in float32, of robots on the ground."""
    import cupy

    import contact

    for name, rows in (("quadruped", 1 << 17), ("humanoid", 1 << 16)):
        scene = contact.SCENES[name]()
        model = scene.model
        gains = np.concatenate([np.zeros((6, 2)), scene.gains]).T
        held = lw.PD(
            *(cupy.asarray(x.astype("float32")) for x in (*gains, scene.stance())),
            *[cupy.zeros(model.nv, "float32")] * 2,
        )
        contacts = dataclasses.replace(scene.contacts, tolerance=1e-4)
        q, v = (
            cupy.asarray(np.resize(x, (rows, x.shape[1])).astype("float32"))
            for x in contact.states(scene, 512)
        )
        start = time.perf_counter()
        told = lw.rollout(
            model, q, v, held, dt=contact.DT, steps=steps, record_every=steps, contacts=contacts
        )
        cupy.cuda.runtime.deviceSynchronize()
        built = time.perf_counter() - start
        start = time.perf_counter()
        q, v = (cupy.ascontiguousarray(x[:, -1]) for x in (told.q, told.v))
        warm = cupy.ascontiguousarray(told.impulses)
        told = lw.rollout(
            model,
            q,
            v,
            held,
            dt=contact.DT,
            steps=steps,
            record_every=steps,
            contacts=contacts,
            warm_start=warm,
        )
        cupy.cuda.runtime.deviceSynchronize()
        took = time.perf_counter() - start
        counts = cupy.bincount(told.status.astype(int)).get().tolist()
        worst = float(cupy.nanmax(told.residual))
        sweeps = float(cupy.nanmean(told.iterations))
        print(
            f"{name:10s} contact {rows} x {steps} float32: {rows * steps / took / 1e6:.1f} M steps/s, "
            f"residual {worst:.1e} m/s, {sweeps:.1f} sweeps at the end, status {counts}, first call {built:.0f} s",
            flush=True,
        )


def beside_mjx() -> None:
    """Print rates of forward dynamics and steps with contact of MJX in the same run."""
    import mjx_rates

    for name in ("iiwa14", "solo12", "g1", "talos"):
        theirs = mjx_rates.forward_dynamics(name)
        kernel = lw.compile(lw.forward_dynamics, robots.model(name), target="cuda", dtype="float32")
        ours = kernel.resources(measured=ROWS)["measured_rate"]
        words = f"{ours / 1e6:.1f} M/s, MJX {theirs / 1e6:.2f} M/s, {ours / theirs:.0f} times"
        print(f"{name:10s} forward dynamics float32: {words}", flush=True)
    for name in ("quadruped", "humanoid"):
        print(
            f"{name:10s} contact, MJX float32: {mjx_rates.steps_with_contact(name) / 1e6:.3f} M steps/s",
            flush=True,
        )


PROBE = """
import sys, time
import numpy as np
import linkwork as lw
from linkwork.compiler.runtime import cuda_start
how = sys.argv[1]
if how == "driver":  # its start alone, which nobody can do without
    start = time.perf_counter()
    cuda_start.start()
    print(time.perf_counter() - start, 0.0)
    sys.exit()
import robots
model = robots.model("g1")
x = [np.zeros((1024, n), "float32") for n in (model.nq, model.nv, model.nv)]
if how != "fresh":
    library = __import__(how)
    library.zeros(3, device="cuda") if how == "torch" else library.zeros(3)
start = time.perf_counter()
kernel = lw.compile(lw.forward_dynamics, model, target="cuda", dtype="float32")
there = time.perf_counter() - start
kernel(*x)
print(there, time.perf_counter() - start)
"""


def from_cache(rounds: int = 7) -> None:
    """Print times of a cached kernel in new processes [s]: until it is ready, and until the first result
    from NumPy.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "LINKWORK_CACHE": folder}

        def told(how: str) -> list[float]:
            done = subprocess.run(
                [sys.executable, "-c", PROBE, how], env=env, check=True, capture_output=True, text=True
            )
            return [float(word) for word in done.stdout.split()]

        there, _ = told("fresh")
        print(f"g1         forward dynamics float32: compiled in {there:.1f} s", flush=True)
        for how in ("driver", "fresh", "cupy", "torch"):
            try:
                found = np.median([told(how) for _ in range(rounds)], axis=0)
            except subprocess.CalledProcessError:
                continue  # that library is not here
            what = {"driver": "CUDA's own start", "fresh": "new process"}.get(how, f"CUDA started by {how}")
            print(
                f"g1         from the cache, {what}: {found[0]:.3f} s, first answer {found[1]:.3f} s",
                flush=True,
            )


PARTS = {
    "dynamics": dynamics, "loops": loops, "derivatives": derivatives, "rollouts": smooth_rollouts, "contact": contact_rollouts,
    "mjx": beside_mjx, "matrices": matrices, "cache": from_cache,
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or PARTS:
        try:
            PARTS[name]()
        except ImportError as error:
            print(f"{name}: left out, {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
