"""Compare studies with the plain kernel: overhead, memory, workers, and the cost of a folder.

    python bench/studies.py [--samples 1e6] [--steps 100] [--robot iiwa14] [--workers 2] [--folder DIR]
    [--device cuda] [--only rates]

The plain kernel is `linkwork.rollout` on states in memory, in batches of the size of a chunk. A study draws
mass, q and v of every sample and reduces the final kinetic energy to mean, variance, quantiles and extremes.
Plain kernel and study alternate; the best CPU time of several turns counts. Workers and folders are timed by
the wall clock. Memory does not grow with --samples.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
import robots
from linkwork import studies
from linkwork.compiler.runtime.threads import using_threads

DT = 1e-4
TURNS = 3


def make(
    model: lw.Model, samples: int, steps: int, chunk: int | None = None, device: str | None = None
) -> lw.Study:
    """Return the study that is measured."""
    body = model.bodies[-1].name
    mass = float(model.parameters()["mass"][-1])
    sampler = studies.Random(
        {
            f"mass@{body}": studies.Uniform(0.8 * mass, 1.2 * mass),
            "q": studies.Uniform(-1.0, 1.0),
            "v": studies.Uniform(-0.1, 0.1),
        }
    )
    task = studies.RolloutTask(dt=DT, steps=steps, device=device)
    outputs = {"energy": studies.Final(lw.kinetic_energy)}
    reductions = [
        kind("energy") for kind in (studies.Mean, studies.Variance, studies.Quantiles, studies.Extremes)
    ]
    return lw.Study(
        model, sampler, task, samples=samples, outputs=outputs, reductions=reductions, chunk=chunk
    )


def processor_seconds(call: Callable[[], Any]) -> float:
    """Return the processor's time of all threads, which other programs on the machine change little."""
    start = time.process_time()
    call()
    return time.process_time() - start


def seconds(call: Callable[[], Any]) -> float:
    """Return the time by the clock."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_memory() -> float:
    """Return the largest memory that this process has had [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_gpu(x: np.ndarray) -> Any:
    """Return an array in the memory of the GPU, of CuPy or PyTorch, whichever is there."""
    try:
        import cupy

        return cupy.asarray(x)
    except ModuleNotFoundError:
        import torch

        return torch.as_tensor(x, device="cuda")


def plain_call(study: lw.Study, samples: int, threads: int = 1) -> Callable[[], Any]:
    """Return rollouts of as many samples, of the same states and masses again and again, on some threads."""
    model = study.models[0]
    task = study.task
    rows = study.evaluate(0, study.chunk)
    mass = next(name for name in rows.values if name.startswith("mass"))
    q = rows.values["q"]
    v = rows.values["v"]
    numbers = rows.values[mass]
    if task.device == "cuda":
        q, v, numbers = (on_gpu(x) for x in (q, v, numbers))
    given = {"parameters": {mass: numbers}, "dt": DT, "steps": task.steps, "record_every": task.steps}

    def one(_: int) -> None:
        with using_threads(1):
            lw.rollout(model, q, v, **given)

    def call() -> None:
        with ThreadPoolExecutor(threads) as pool:
            deque(pool.map(one, range(samples // study.chunk)), maxlen=0)

    return call


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=float, default=1e6)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument(
        "--workers", type=int, default=2, help="threads or processes; threads that feed a GPU"
    )
    parser.add_argument(
        "--folder", type=Path, help="a folder for the run with files; by default a temporary one"
    )
    parser.add_argument("--device", choices=("cuda",))
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--only", choices=("rates",), help="leave out small chunks, executors and folders")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = robots.model(options.robot)
    samples = int(options.samples)
    study = make(model, samples, options.steps, options.chunk, options.device)
    first = make(model, 4 * study.chunk, options.steps, options.chunk, options.device)
    first.run(progress=False)  # compiles
    print(f"{model.name}, {options.steps} steps, chunks of {study.chunk}", flush=True)
    if options.device is not None:
        some = 1 << 15
        host = make(model, some, options.steps, 1 << 13).run(progress=False)
        same = (
            host.state_bytes()
            == make(model, some, options.steps, device="cuda").run(progress=False).state_bytes()
        )
        print(f"bits of the CPU              {'same' if same else 'OTHER BITS':>12}", flush=True)
    time.sleep(8.0)  # and optimised in the background
    feeding = 1 if options.device is None and options.only is None else options.workers
    began = rates(study, feeding)
    if options.device is None and options.only is None:
        small_chunks(model)
        executors(study, options.workers, began)
        folder_and_parts(study, options.folder)


def rates(study: lw.Study, workers: int) -> float:
    """Print the rate of the plain kernel, that of the study, and its memory; return the study's seconds."""
    model = study.models[0]
    device = study.task.device
    clock = processor_seconds if device is None else seconds
    chunks = min(20 * workers, max(1, study.samples // study.chunk))
    few = make(model, chunks * study.chunk, study.task.steps, study.chunk, device)
    # a GPU waits for one thread between rollouts: the plain kernel is called by several, too
    threads = 1 if device is None else workers
    plain = plain_call(study, few.samples, threads)
    times: dict[str, list[float]] = {"plain": [], "study": []}
    for _ in range(TURNS):
        times["plain"].append(clock(plain))
        times["study"].append(clock(lambda: few.run(workers=workers, progress=False)))
    one = min(times["plain"])
    alone = min(times["study"])
    steps = few.samples * study.task.steps / one
    print(
        f"plain kernel, {threads:2d} threads     {few.samples / one:12,.0f} samples/s  {steps:14,.0f} steps/s"
    )
    share = f"{one / alone:8.1%} of the plain kernel"
    print(
        f"study, {workers:2d} workers            {few.samples / alone:12,.0f} samples/s  {share}", flush=True
    )
    before = peak_memory()
    began = seconds(lambda: study.run(workers=workers, progress=False))
    share = f"{study.samples / began * one / few.samples:8.1%} of the plain kernel"
    print(
        f"all {study.samples:.0e} samples           {study.samples / began:12,.0f} samples/s  {share}, {began:.1f} s"
    )
    print(
        f"peak memory                  {peak_memory():12,.0f} MB, {peak_memory() - before:+,.0f} MB in the last run",
        flush=True,
    )
    return began


def small_chunks(model: lw.Model) -> None:
    """Print what a small chunk takes beside the kernel."""
    tiny = make(model, 256 * 1024, 1, 1024)
    tiny.run(workers=1, progress=False)
    call = partial(tiny.run, workers=1, progress=False)
    plain = plain_call(tiny, 256 * 1024)
    for word, clock in (("processor", processor_seconds), ("clock", seconds)):
        per_chunk, own = (1e3 * min(clock(x) for _ in range(TURNS)) / 256 for x in (call, plain))
        message = f"{per_chunk:12.3f} ms by the {word}, of which a rollout's {own:.3f} ms"
        print(f"a chunk of 1024 of one step  {message}", flush=True)


def executors(study: lw.Study, workers: int, began: float) -> None:
    """Print the rates of several threads and processes against those of one, which took `began` seconds, and
    how long they take to start: until each has computed a block.
    """
    block = make(study.models[0], workers * study.block, study.task.steps, study.block)
    for executor in ("threads", "processes"):
        how = {"executor": executor, "workers": workers, "progress": False}
        start = seconds(partial(block.run, **how))
        took = seconds(partial(study.run, **how))
        message = f"{study.samples / took:12,.0f} samples/s, {began / took:.2f} times one worker's"
        after = f"start {start:.2f} s, {began / max(took - start, 1e-9):.2f} times after it"
        print(f"{workers} {executor:<26} {message}; {after}", flush=True)


def folder_and_parts(study: lw.Study, folder: Path | None) -> None:
    """Print the rate with a folder, and what the parts of a chunk cost."""
    chunks = min(20, max(1, study.samples // study.chunk))
    few = make(study.models[0], chunks * study.chunk, study.task.steps, study.chunk)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        began = seconds(lambda: few.run(Path(place) / "study", workers=1, progress=False))
        size = sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
        message = f"{few.samples / began:12,.0f} samples/s, {size / few.samples:.0f} bytes a sample"
        print(f"with a folder                {message}", flush=True)
    parts(few)


def parts(study: lw.Study) -> None:
    """Print what the parts of a chunk cost."""
    from linkwork.studies import chunk_files, outputs
    from linkwork.studies import rows as study_rows
    from linkwork.studies.encoding import encode_nodes
    from linkwork.studies.quantities import arguments_of

    model = study.models[0]
    space = study.space
    rows = study.chunk
    index = np.arange(rows)
    with using_threads(1):
        drawn = study.sampler.draw(space, 0, rows)
        values = study.sampler.assign(space, 0, drawn)
        arguments = arguments_of(model, values, study.starts[0], rows)
        batch = study_rows.compute_batch(study, 0, index, drawn)
        found = study.evaluate(0, rows)
        nodes = study_rows.summarize(study, found)
        calls: dict[str, Callable[[], Any]] = {
            "draw": lambda: study.sampler.assign(space, 0, study.sampler.draw(space, 0, rows)),
            "rollout": lambda: study.task.run(model, arguments, rows),
            "outputs": lambda: outputs.evaluate_outputs(study.outputs, batch),
            "summaries": lambda: study_rows.summarize(study, found),
            "file": lambda: chunk_files.chunk_bytes(study, found, nodes),
        }
        for name, call in calls.items():
            took = min(processor_seconds(call) for _ in range(10))
            print(f"  {name:<10} {1e9 * took / rows:8.1f} ns a sample, {1e3 * took:8.3f} ms a chunk")
    print(f"  summaries of a chunk: {len(encode_nodes(nodes))} bytes")


if __name__ == "__main__":
    main()
