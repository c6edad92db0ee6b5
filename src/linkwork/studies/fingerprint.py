"""A text that says what a study is, for its digest: values by content, functions by their code."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model


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
        return f"function({value.body.__module__}.{value.__qualname__})"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{describe(k)}:{describe(x)}" for k, x in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(describe, value)) + "]"
    if isinstance(value, FunctionType):
        return _describe_function(value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = ",".join(f"{f.name}={describe(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({inside})"
    return _describe_object(value)


def _describe_function(function: FunctionType) -> str:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    content = (_code(function.__code__), function.__defaults__, function.__kwdefaults__, cells)
    code = hashlib.sha256(describe(content).encode()).hexdigest()
    return f"function({function.__qualname__},{code})"


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
