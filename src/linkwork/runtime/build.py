"""Kernels by the name of their target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linkwork.ir.program import Program
from linkwork.runtime.cuda_start import start_driver
from linkwork.runtime.kernel import build_kernel, build_named_kernel

TARGETS = ("cpu", "cuda")


def build_on(target: str, identity: str | None, make: Callable[[], Program], dtype: str, *, wait: bool = False) -> Any:
    """The kernel on a target of the program that `make` gives; by its `identity`, where there is one, without tracing."""
    if target == "cuda":
        start_driver()
        from linkwork.runtime.cuda import build_cuda_kernel, build_named_cuda_kernel

        return build_cuda_kernel(make(), dtype) if identity is None else build_named_cuda_kernel(identity, make, dtype)
    kernel = build_kernel(make(), dtype) if identity is None else build_named_kernel(identity, make, dtype)
    return kernel.wait() if wait else kernel
