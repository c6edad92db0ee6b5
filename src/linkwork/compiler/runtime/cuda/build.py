"""Build of kernels for this machine's GPU: candidates are compiled and measured, the fastest is cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from linkwork.compiler.ir.program import Array, Program
from linkwork.compiler.passes import lower
from linkwork.compiler.passes.unroll import unroll
from linkwork.compiler.runtime.cache import Cache, make_key
from linkwork.compiler.runtime.compiler import default_cache, source_digest
from linkwork.compiler.runtime.cuda.binding import Gpu, compile_text, current_gpu, toolkit_version
from linkwork.compiler.runtime.cuda.kernel import LAUNCH, CudaKernel
from linkwork.compiler.runtime.cuda.resources import FIGURES, WARP, measure_rate
from linkwork.compiler.targets.cuda import KernelConfig, candidates, choose_parts, emit_cuda, runs_in_parts
from linkwork.errors import ProgramError

COMPILER = ("compiler/ir", "compiler/passes", "compiler/targets/cuda")  # packages that determine emitted code
MIN_MEASURED_SIZE = 1500  # operations; for smaller programs one candidate is compiled and not measured
MAX_CANDIDATES = 4
MEASUREMENT_ROUNDS = 5  # the best counts, since other processes may use the GPU
# limits of a measurement, large enough that launches take a negligible part
MAX_MEASURED_ROWS = 1 << 20
MAX_MEASURED_BYTES = 1 << 30
COMPILER_THREADS = 16

CompiledKernel = tuple[dict[str, Any], bytes]


_kernels: WeakValueDictionary[tuple[str, str], CudaKernel] = WeakValueDictionary()
_build_lock = threading.Lock()


def build_cuda_kernel(program: Program, dtype: str = "float64", *, cache: Cache | None = None) -> CudaKernel:
    """Return the CUDA kernel of a traced program, compiled for this machine's GPU."""
    program = program.with_dtype(dtype)
    return _build(program.digest, source_digest(COMPILER), lambda: program, dtype, cache)


def build_named_cuda_kernel(
    identity: str, make: Callable[[], Program], dtype: str, *, cache: Cache | None = None
) -> CudaKernel:
    """Return the CUDA kernel of the program that `make` traces, found by its `identity`.

    The identity and this package's source together determine the program.
    """
    return _build(identity, source_digest((".",)), lambda: make().with_dtype(dtype), dtype, cache)


def _build(
    content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache | None
) -> CudaKernel:
    with _build_lock:
        kernel = _kernels.get((content, dtype))
        if kernel is None or cache is not None:
            kernel = _load_or_compile(content, source, program_of, dtype, cache or default_cache())
            _kernels[content, dtype] = kernel
    return kernel


def _load_or_compile(
    content: str, source: str | None, program_of: Callable[[], Program], dtype: str, cache: Cache
) -> CudaKernel:
    def make(gpu: Gpu) -> CompiledKernel:
        device = gpu.device
        key = (
            None
            if source is None
            else make_key("cuda", source, content, dtype, repr(device), toolkit_version())
        )
        stored = cache.load(key) if key is not None else None
        if stored is not None and stored.blob.startswith(b"\x7fELF") and set(LAUNCH) <= stored.header.keys():
            return stored.header, stored.blob
        program = _check_arrays(program_of())
        header, cubin = fastest(program, lower(program, dtype, arranged=None), gpu)
        if key is not None and not cache.read_only:
            cache.store(key, header, cubin)
        return header, cubin

    gpu = current_gpu()
    header, cubin = make(gpu)
    kernel = _kernel_of(header, cubin, gpu)
    kernel._make = make
    return kernel


def _kernel_of(header: dict[str, Any], cubin: bytes, gpu: Gpu) -> CudaKernel:
    inputs, outputs = (
        tuple(Array(name, tuple(shape)) for name, *shape in header[part]) for part in ("inputs", "outputs")
    )
    kernel = CudaKernel(header["name"], header["dtype"], inputs, outputs)
    kernel._code[gpu.device.arch] = header, cubin
    return kernel


def fastest(program: Program, lowered: Program, gpu: Gpu) -> CompiledKernel:
    """Return the fastest of the predicted best candidates on this GPU; short programs are not measured."""
    with_maps = lowered
    lowered = unroll(lowered)
    if runs_in_parts(lowered):
        return in_parts(program, lowered, choose_parts(with_maps, gpu.device), gpu)
    configs = candidates(lowered, gpu.device)
    configs = configs[: MAX_CANDIDATES if configs[0].work >= MIN_MEASURED_SIZE else 1]
    compiled = [
        (_header(program, config, gpu), cubin)
        for config, cubin in zip(configs, _compile_all(configs, lowered, gpu), strict=True)
    ]
    if len(compiled) == 1:
        return compiled[0]
    numbers = sum(a.size for a in program.inputs + program.outputs)
    rows = max(
        WARP, min(MAX_MEASURED_ROWS, MAX_MEASURED_BYTES // (numbers * np.dtype(lowered.dtype).itemsize))
    )
    kernels = [_kernel_of(header, cubin, gpu) for header, cubin in compiled]
    rates = [
        max(kernel_rates)
        for kernel_rates in zip(
            *([measure_rate(k, gpu, rows) for k in kernels] for _ in range(MEASUREMENT_ROUNDS)), strict=True
        )
    ]
    return compiled[rates.index(max(rates))]


def _compile_all(configs: Sequence[KernelConfig], lowered: Program, gpu: Gpu) -> list[bytes]:
    """Return the machine code of each candidate."""

    def compile_config(config: KernelConfig) -> bytes:
        source = emit_cuda(config.program if config.slots else lowered, gpu.device, config).source
        return compile_text(source, gpu.device.arch)

    with ThreadPoolExecutor(
        min(COMPILER_THREADS, len(configs))
    ) as pool:  # NVRTC works without the interpreter lock
        return list(pool.map(compile_config, configs))


def in_parts(program: Program, lowered: Program, configs: Sequence[KernelConfig], gpu: Gpu) -> CompiledKernel:
    """Return a program run by several kernels in sequence, their machine code concatenated."""
    cubins = _compile_all(configs, lowered, gpu)
    headers = [_header(program, config, gpu) for config in configs]
    parts = [
        {word: header[word] for word in (*LAUNCH, *FIGURES, "work", "size")}
        | {"bytes": len(cubin), "reads": config.crossing[0], "keeps": config.crossing[1]}
        for header, cubin, config in zip(headers, cubins, configs, strict=True)
    ]
    largest = max(headers, key=lambda header: header["work"])
    sums = {
        word: sum(part[word] for part in parts) for word in ("loads", "stores", "unassigned", "work", "size")
    }
    rate = 1.0 / sum(1.0 / part["predicted_rate"] for part in parts)
    share = rate * sums["work"] / WARP / (4.0 * gpu.device.multiprocessors * gpu.device.clock)
    parts_header = {
        "parts": parts,
        "scratch_slots": configs[0].slots,
        "predicted_rate": rate,
        "predicted_share": share,
    }
    return largest | sums | parts_header, b"".join(cubins)


def _header(program: Program, config: KernelConfig, gpu: Gpu) -> dict[str, Any]:
    return {
        "name": program.name,
        "dtype": config.program.dtype,
        "cpu": gpu.device.arch,
        "inputs": [[a.name, *a.shape] for a in program.inputs],
        "outputs": [[a.name, *a.shape] for a in program.outputs],
        "size": len(config.program),
        "threads": config.threads,
        "rows": config.rows,
        "gaps": config.gaps,
        "blocks": config.blocks,
        "shared_bytes": config.shared_bytes,
        "registers": config.registers,
        "slots": config.shared,
        "local_slots": config.local,
        "loads": config.plan.loads,
        "stores": config.plan.stores,
        "unassigned": config.plan.unassigned,
        "predicted_rate": config.rate,
        "predicted_share": config.share,
        "work": config.work,
        "loops": any(op == "loop" for op, _, _ in config.program.code),
    }


def _check_arrays(program: Program) -> Program:
    """Return the program; raise if it has no inputs or an empty array."""
    for array in program.inputs + program.outputs:
        if array.size == 0:
            raise ProgramError(
                f"{program.name}: array {array.name!r} of shape {array.shape} is empty; leave it out"
            )
    if not program.inputs:
        raise ProgramError(f"{program.name} has no inputs: it is a constant and needs no kernel")
    return program
