"""Functions for JAX, PyTorch, CasADi and SymPy, and conversion of states of Pinocchio and MuJoCo.

Each module is imported on first use (`linkwork.interop.jax`) and needs its package only then.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("casadi", "gymnasium", "jax", "mujoco", "pinocchio", "sympy", "torch")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_MODULES)}")


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
