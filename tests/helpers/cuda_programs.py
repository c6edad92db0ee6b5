"""For tests of the CUDA target: kernels' texts compiled by the host compiler through `cuda_shim.h`, and run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from linkwork.compiler.ir.program import Program
from linkwork.compiler.targets.cuda import DEVICES, Emitted, emit_cuda
from linkwork.compiler.targets.cuda.cost_model import ThreadBudget, configure
from waiting import PATIENCE

SHIM = Path(__file__).parent / "cuda_shim.h"
FLAGS = ["-std=c++17", "-O0", "-ffp-contract=off", "-fPIC", "-shared", "-w"]


def tight(program: Program, values: int, slots: int, threads: int = 64) -> Emitted:
    """The kernel with so few values in registers and slots in shared memory that many wait, and some in local
    memory.
    """
    device = DEVICES["sm_90"]
    return emit_cuda(
        program, device, configure(program, device, ThreadBudget(threads, 1, 255, values, slots, 2, 3))
    )


def host_compiler() -> str:
    """A C++ compiler; skips the test where there is none."""
    found = shutil.which("g++") or shutil.which("c++")
    if found is None:
        pytest.skip("no C++ compiler: g++, c++")
    return found


class HostKernels:
    """Kernels compiled into one library of this machine, each of one text or of parts; each is called with
    arrays of rows.
    """

    def __init__(self, kernels: list[tuple[Program, Emitted | list[Emitted]]], folder: Path) -> None:
        self.kernels = [(program, each if isinstance(each, list) else [each]) for program, each in kernels]
        parts = []
        for k, (program, texts) in enumerate(self.kernels):
            count = len(program.inputs) + len(program.outputs)
            arguments = "".join(f", p[{n}], s[{n}]" for n in range(count))
            for n, emitted in enumerate(texts):
                config = emitted.config
                name = f"k{k}_{n}"
                more = "" if config.part is None and config.maps is None else ", x"
                parts.append(
                    f"namespace {name} {{\n{emitted.source.replace(chr(34) + 'C' + chr(34), chr(34) + 'C++' + chr(34))}\n}}\n"
                    f'extern "C" void run{k}_{n}(int rows, {name}::real **p, long long *s, {name}::real *x) {{\n'
                    f"lw_run_grid((rows + {config.rows} - 1) / {config.rows}, {config.threads}, {config.shared_bytes},"
                    f" [=] {{ {name}::{emitted.name}(rows{arguments}{more}); }});\n}}\n"
                )
        source = folder / "kernels.cpp"
        source.write_text("".join(parts))
        library = folder / "kernels.so"
        command = [host_compiler(), *FLAGS, "-include", str(SHIM), "-o", str(library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        self.library = ctypes.CDLL(str(library))

    def run(self, k: int, inputs: list[np.ndarray], rows: int, shift: int = 0) -> list[np.ndarray]:
        """The outputs of the k-th kernel for rows of inputs; an input without rows is the same for all.

        Outputs begin so many numbers behind 16 bytes.
        """
        program, texts = self.kernels[k]
        gap = 3 if any(op == "loop" for op, _, _ in program.code) else 0  # where kernels must take one
        outputs = []
        for a in program.outputs:
            flat = np.full(rows * (a.size + gap) + 8, 7.0, program.dtype)
            start = -flat.ctypes.data % 16 // flat.itemsize + shift
            outputs.append(flat[start : start + rows * (a.size + gap)].reshape(rows, -1))
        given = [
            np.ascontiguousarray(x, program.dtype).reshape(-1, a.size)
            for x, a in zip(inputs, program.inputs, strict=True)
        ]
        arrays = given + outputs
        pointers = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
        steps = (ctypes.c_longlong * len(arrays))(*(x.shape[1] if len(x) == rows else 0 for x in arrays))
        slots = texts[0].config.slots
        scratch = np.full((rows + 31) // 32 * 32 * slots + 4, np.nan, program.dtype)
        scratch = scratch[-scratch.ctypes.data % 16 // scratch.itemsize :]
        for n in range(len(texts)):
            getattr(self.library, f"run{k}_{n}")(rows, pointers, steps, ctypes.c_void_p(scratch.ctypes.data))
        assert all((o[:, a.size :] == 7.0).all() for o, a in zip(outputs, program.outputs, strict=True))
        return [o[:, : a.size].reshape(rows, *a.shape) for o, a in zip(outputs, program.outputs, strict=True)]
