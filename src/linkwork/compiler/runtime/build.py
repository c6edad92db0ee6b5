"""Selection of the target that a kernel is built for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linkwork.compiler.ir.program import DTYPES, Program
from linkwork.compiler.runtime.cuda_start import start_driver
from linkwork.compiler.runtime.kernel import build_kernel, build_named_kernel
from linkwork.errors import LinkworkError, TargetError

TARGETS = ("cpu", "cuda")


def check_target(target: object) -> None:
    """Raise if `target` is not the name of a target."""
    if not isinstance(target, str) or target not in TARGETS:
        raise TargetError(f"target: expected one of {', '.join(TARGETS)}, got {target!r}")


def check_dtype(dtype: object) -> None:
    """Raise if programs do not have this dtype."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise LinkworkError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")


def check_wait(wait: object) -> None:
    """Raise if `wait` is not True or False: a text such as "no" would count as true."""
    if not isinstance(wait, bool):
        raise LinkworkError(f"wait: expected True or False, got {wait!r}")


def build_on(
    target: str, identity: str | None, make: Callable[[], Program], dtype: str, *, wait: bool = False
) -> Any:
    """Return the kernel on a target of the program that `make` returns.

    With an `identity`, a kernel in memory or in the cache is found without tracing.
    """
    check_target(target)
    check_wait(wait)
    if target == "cuda":
        start_driver()
        from linkwork.compiler.runtime.cuda import build_cuda_kernel, build_named_cuda_kernel

        if identity is None:
            return build_cuda_kernel(make(), dtype)
        return build_named_cuda_kernel(identity, make, dtype)
    kernel = build_kernel(make(), dtype) if identity is None else build_named_kernel(identity, make, dtype)
    return kernel.wait() if wait else kernel
