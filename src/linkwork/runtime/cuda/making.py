"""From a program to a kernel on this machine's GPU: ways are compiled and measured, the fastest is kept and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from linkwork.errors import ProgramError
from linkwork.ir.program import Array, Program
from linkwork.passes import lower
from linkwork.passes.unroll import unroll
from linkwork.runtime.cache import Cache, make_key
from linkwork.runtime.compiler import default_cache, source_digest
from linkwork.runtime.cuda.binding import Gpu, compile_text, current_gpu, toolkit_version
from linkwork.runtime.cuda.kernel import FIGURES, LAUNCH, WARP, CudaKernel
from linkwork.targets.cuda import Choice, candidates, choose_parts, emit_cuda, runs_in_parts

COMPILER = ("ir", "passes", "targets/cuda")  # the rooms that decide what code a program becomes
MEASURED = 1500  # instructions from which several ways are compiled and measured
TRIED = 4  # so many
ROUNDS = 5  # of measurements, of which the best counts: others may use the GPU too
ROWS, BYTES = 1 << 20, 1 << 30  # of a measurement, at most: with few states their launch is measured
THREADS = 16  # that compile

Made = tuple[dict[str, Any], bytes]


_kernels: WeakValueDictionary[tuple[str, str], CudaKernel] = WeakValueDictionary()
_making = threading.Lock()


def build_cuda_kernel(program: Program, dtype: str = "float64", *, cache: Cache | None = None) -> CudaKernel:
    """The CUDA kernel of a traced program, compiled for this machine's GPU."""
    program = program.with_dtype(dtype)
    return _build(program.digest, source_digest(COMPILER), lambda: program, dtype, cache)


def build_named_cuda_kernel(
    identity: str, make: Callable[[], Program], dtype: str, *, cache: Cache | None = None
) -> CudaKernel:
    """The CUDA kernel of the program that `make` traces, by an `identity` that decides it, given this package's source."""
    return _build(identity, source_digest((".",)), lambda: make().with_dtype(dtype), dtype, cache)


def _build(content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache | None) -> CudaKernel:
    with _making:
        kernel = _kernels.get((content, dtype))
        if kernel is None or cache is not None:
            kernel = _make(content, source, program_of, dtype, cache or default_cache())
            _kernels[content, dtype] = kernel
    return kernel


def _make(content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache) -> CudaKernel:
    def make(here: Gpu) -> Made:
        device = here.device
        key = None if source is None else make_key("cuda", source, content, dtype, repr(device), toolkit_version())
        stored = cache.load(key) if key is not None else None
        if stored is not None and stored.blob.startswith(b"\x7fELF") and set(LAUNCH) <= stored.header.keys():
            return stored.header, stored.blob
        program = _fit(program_of())
        header, cubin = fastest(program, lower(program, dtype, arranged=None), here)
        if key is not None and not cache.read_only:
            cache.store(key, header, cubin)
        return header, cubin

    here = current_gpu()
    header, cubin = make(here)
    kernel = _kernel_of(header, cubin, here)
    kernel._make = make
    return kernel


def _kernel_of(header: dict[str, Any], cubin: bytes, here: Gpu) -> CudaKernel:
    inputs, outputs = (tuple(Array(name, tuple(shape)) for name, *shape in header[part]) for part in ("inputs", "outputs"))
    kernel = CudaKernel(header["name"], header["dtype"], inputs, outputs)
    kernel._code[here.device.arch] = header, cubin
    return kernel


def fastest(program: Program, lowered: Program, here: Gpu) -> Made:
    """Of the ways that are good by the model, the one that is the fastest on this GPU; short programs are not measured."""
    with_maps, lowered = lowered, unroll(lowered)
    if runs_in_parts(lowered):
        return in_parts(program, lowered, choose_parts(with_maps, here.device), here)
    choices = candidates(lowered, here.device)
    choices = choices[: TRIED if choices[0].work >= MEASURED else 1]
    made = [
        (_header(program, choice, here), cubin)
        for choice, cubin in zip(choices, _compiled(choices, lowered, here), strict=True)
    ]
    if len(made) == 1:
        return made[0]
    numbers = sum(a.size for a in program.inputs + program.outputs)
    rows = max(WARP, min(ROWS, BYTES // (numbers * np.dtype(lowered.dtype).itemsize)))
    kernels = [_kernel_of(header, cubin, here) for header, cubin in made]
    rates = [max(each) for each in zip(*([k._measure(here, rows) for k in kernels] for _ in range(ROUNDS)), strict=True)]
    return made[rates.index(max(rates))]


def _compiled(choices: Sequence[Choice], lowered: Program, here: Gpu) -> list[bytes]:
    """The machine code of each choice."""

    def compiled(choice: Choice) -> bytes:
        source = emit_cuda(choice.program if choice.slots else lowered, here.device, choice).source
        return compile_text(source, here.device.arch)

    with ThreadPoolExecutor(min(THREADS, len(choices))) as pool:  # NVRTC works without the interpreter lock
        return list(pool.map(compiled, choices))


def in_parts(program: Program, lowered: Program, choices: Sequence[Choice], here: Gpu) -> Made:
    """A program that several kernels run one after the other: their machine code in one piece."""
    cubins = _compiled(choices, lowered, here)
    headers = [_header(program, choice, here) for choice in choices]
    parts = [
        {word: header[word] for word in (*LAUNCH, *FIGURES, "work", "size")}
        | {"bytes": len(cubin), "reads": choice.crossing[0], "keeps": choice.crossing[1]}
        for header, cubin, choice in zip(headers, cubins, choices, strict=True)
    ]
    largest = max(headers, key=lambda header: header["work"])
    sums = {word: sum(part[word] for part in parts) for word in ("loads", "stores", "left", "work", "size")}
    rate = 1.0 / sum(1.0 / part["predicted_rate"] for part in parts)
    share = rate * sums["work"] / WARP / (4.0 * here.device.multiprocessors * here.device.clock)
    more = {"parts": parts, "scratch_slots": choices[0].slots, "predicted_rate": rate, "predicted_share": share}
    return largest | sums | more, b"".join(cubins)


def _header(program: Program, choice: Choice, here: Gpu) -> dict[str, Any]:
    return {
        "name": program.name,
        "dtype": choice.program.dtype,
        "cpu": here.device.arch,
        "inputs": [[a.name, *a.shape] for a in program.inputs],
        "outputs": [[a.name, *a.shape] for a in program.outputs],
        "size": len(choice.program),
        "threads": choice.threads,
        "rows": choice.rows,
        "gaps": choice.gaps,
        "blocks": choice.blocks,
        "shared_bytes": choice.shared_bytes,
        "registers": choice.registers,
        "slots": choice.shared,
        "local_slots": choice.local,
        "loads": choice.plan.loads,
        "stores": choice.plan.stores,
        "left": choice.plan.left,
        "predicted_rate": choice.rate,
        "predicted_share": choice.share,
        "work": choice.work,
        "loops": any(op == "loop" for op, _, _ in choice.program.code),
    }


def _fit(program: Program) -> Program:
    for array in program.inputs + program.outputs:
        if array.size == 0:
            raise ProgramError(f"{program.name}: array {array.name!r} of shape {array.shape} is empty: leave it out")
    if not program.inputs:
        raise ProgramError(f"{program.name} has no inputs: it is a constant, and needs no kernel")
    return program
