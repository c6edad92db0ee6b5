"""Functions of a kernel on a GPU: loading, resources and measured rate."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.cuda import binding
from linkwork.compiler.runtime.cuda.binding import Gpu, call, current_gpu
from linkwork.compiler.runtime.cuda.memory import Memory

if TYPE_CHECKING:
    from linkwork.compiler.runtime.cuda.kernel import CudaKernel

FIGURES = (
    "registers",
    "slots",
    "local_slots",
    "loads",
    "stores",
    "unassigned",
    "predicted_rate",
    "predicted_share",
)
WARP = 32
PEAK_WARP_INSTRUCTIONS = 4.0  # per cycle of a multiprocessor
TIMINGS = 6  # of which the median counts
TIMED_SECONDS = 2e-3  # of launches in a timing, so that the host's share of a launch is negligible


def load_functions(header: dict[str, Any], code: bytes, gpu: Gpu) -> list[Any]:
    """Return the functions of a kernel loaded on a GPU, one for each part.

    Modules are never unloaded: launches are asynchronous and may outlive the kernel object.
    """
    attribute = binding.driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    functions = []
    offset = 0
    with gpu.current():
        for part in header.get("parts", [header | {"bytes": len(code)}]):
            module = call("cuModuleLoadData", code[offset : offset + part["bytes"]])
            offset += part["bytes"]
            function = call("cuModuleGetFunction", module, b"linkwork")
            call("cuFuncSetAttribute", function, attribute, part["shared_bytes"])
            functions.append(function)
    return functions


def kernel_resources(kernel: CudaKernel, measured: int) -> dict[str, Any]:
    """Return the resources of a kernel on the current GPU (see `CudaKernel.resources`)."""
    gpu = current_gpu()
    header, functions = kernel._loaded(gpu)
    with gpu.current():
        parts = [
            _function_resources(part, function, gpu)
            for part, function in zip(header.get("parts", [header]), functions, strict=True)
        ]
    largest = max(parts, key=lambda part: int(part["work"]))
    report = {"gpu": gpu.name} | largest | {name: header[name] for name in FIGURES if name != "registers"}
    del report["work"]
    if "parts" in header:
        report["parts"] = parts
        report["scratch_bytes"] = header["scratch_slots"] * np.dtype(kernel.dtype).itemsize
    if measured:
        rate = measure_rate(kernel, gpu, measured)
        report["measured_rate"] = rate
        if not header["loops"]:  # the number of iterations is unknown
            warp_states = WARP if "parts" in header else WARP * header["rows"] // header["threads"]
            peak = PEAK_WARP_INSTRUCTIONS * gpu.device.multiprocessors * gpu.device.clock
            report["measured_share"] = rate * header["work"] / warp_states / peak
    return report


def measure_rate(kernel: CudaKernel, gpu: Gpu, rows: int) -> float:
    """Return the measured rate of a kernel over random states [states/s]."""
    rng = np.random.default_rng(0)
    event_flags = binding.driver().CUevent_flags
    with ExitStack() as stack:
        stack.enter_context(gpu.current())
        memory = Memory(kernel, 0, stack)
        inputs = []
        for spec in kernel.inputs:
            states = rng.standard_normal((min(rows, 4096), spec.size)).astype(kernel.dtype)
            inputs.append((memory.upload(np.resize(states, (rows, spec.size))), spec.size))
        outputs = [(memory.take((rows, *spec.shape)), spec.size) for spec in kernel.outputs]
        start, end = (call("cuEventCreate", int(event_flags.CU_EVENT_DEFAULT)) for _ in range(2))

        def seconds(launches: int) -> float:
            call("cuEventRecord", start, 0)
            for _ in range(launches):
                with ExitStack() as launch_stack:  # frees memory for crossing values, as every call does
                    kernel.launch(gpu, rows, inputs, outputs, 0, Memory(kernel, 0, launch_stack))
            call("cuEventRecord", end, 0)
            call("cuEventSynchronize", end)
            return 1e-3 * float(call("cuEventElapsedTime", start, end)) / launches

        launches = max(1, min(16, int(TIMED_SECONDS / max(seconds(1), 1e-6))))
        times = [seconds(launches) for _ in range(TIMINGS)]
    return rows / sorted(times)[len(times) // 2]


def _function_resources(part: dict[str, Any], function: Any, gpu: Gpu) -> dict[str, Any]:
    """Return the resources that one function uses on a multiprocessor."""
    attributes = binding.driver().CUfunction_attribute

    def attribute(name: str) -> int:
        return int(call("cuFuncGetAttribute", getattr(attributes, f"CU_FUNC_ATTRIBUTE_{name}"), function))

    blocks = int(
        call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, part["threads"], part["shared_bytes"])
    )
    return {
        "threads": part["threads"],
        "states": part["rows"],
        "blocks": blocks,
        "warps": blocks * part["threads"] // WARP,
        "occupancy": blocks * part["threads"] / WARP / gpu.device.warps,
        "registers": attribute("NUM_REGS"),
        "shared_bytes": part["shared_bytes"],
        "local_bytes": attribute("LOCAL_SIZE_BYTES"),
        "work": part["work"],
    } | {name: part[name] for name in ("reads", "keeps") if name in part}
