"""Canonical descriptions of studies for their digests: values by content, functions by their code."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model

# of globals that functions use: others may be changed by running
_CONSTANTS = (
    bool, int, float, str, bytes, tuple, list, dict, np.ndarray, np.generic, Enum, FunctionType, Model,
    ModelFunction,
)  # fmt: skip
_described = threading.local()  # functions that are being described: they may use each other
_PACKAGES = ("linkwork", "builtins", "numpy", "scipy", "functools")


def describe(value: Any) -> str:
    """Return a text that is equal for equal values, in every process."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, np.integer):
        return repr(int(value))
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array({value.dtype.str},{value.shape},{content})"
    if isinstance(value, Model):
        return f"model({value.digest})"
    if isinstance(value, ModelFunction):
        return describe(value.body)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{describe(k)}:{describe(x)}" for k, x in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(describe, value)) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(describe, value))) + "}"
    if isinstance(value, FunctionType):
        return _describe_function(value)
    if isinstance(value, MethodType):
        return f"method({describe(value.__func__)},{describe(value.__self__)})"
    if isinstance(value, partial):
        return f"partial({describe(value.func)},{describe(value.args)},{describe(value.keywords)})"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ",".join(f"{f.name}={describe(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({inside}){_methods(type(value))}"
    return _describe_object(value) + _methods(type(value))


def _methods(kind: type) -> str:
    """Return the code of a class's own functions, "" for classes of packages that a study's version fixes."""
    if kind.__module__.partition(".")[0] in _PACKAGES:
        return ""
    own = {name: x for name, x in sorted(vars(kind).items()) if isinstance(x, FunctionType)}
    return hashlib.sha256(describe(own).encode()).hexdigest() if own else ""


def _describe_function(function: FunctionType) -> str:
    """Return a function's name and code, with the constants and functions of its module that it uses."""
    described: set[int] = _described.__dict__.setdefault("functions", set())
    if id(function) in described:
        return f"function({function.__qualname__})"
    if str(function.__module__).partition(".")[0] in _PACKAGES:
        return f"function({function.__module__}.{function.__qualname__})"
    described.add(id(function))
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        content = (_code(function.__code__), function.__defaults__, function.__kwdefaults__, cells)
        used = sorted(_names(function.__code__) & set(function.__globals__))
        values = {name: function.__globals__[name] for name in used}
        constants = {name: x for name, x in values.items() if _is_constant(x)}
        code = hashlib.sha256(describe([content, constants]).encode()).hexdigest()
    finally:
        described.remove(id(function))
    return f"function({function.__qualname__},{code})"


def _is_constant(value: Any) -> bool:
    return isinstance(value, _CONSTANTS) or (is_dataclass(value) and not isinstance(value, type))


def _names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in a function and in the functions inside it."""
    inner = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def _code(code: CodeType) -> list[Any]:
    constants = [_code(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return [code.co_code, constants, list(code.co_names), list(code.co_varnames), list(code.co_freevars)]


def _constant(value: Any) -> Any:
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _describe_object(value: Any) -> str:
    """Return the type and the content of other objects, the type alone where the content cannot be
    serialised.
    """
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        content = hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:
        return f"{name}({getattr(value, '__qualname__', '')})"
    return f"{name}({content})"


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's description."""
    return hashlib.sha256(describe(value).encode()).hexdigest()
