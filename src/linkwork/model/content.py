"""Canonical content of models for hashes, and whether it consists of built-in types only."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from linkwork.compiler.ir.trace import trace
from linkwork.errors import ModelError
from linkwork.mechanism import ImplicitConstraint
from linkwork.spatial import Inertia, Pose

_PACKAGE = __name__.partition(".")[0] + "."
_PLAIN = {
    str,
    bytes,
    bool,
    int,
    float,
    complex,
    type(None),
    np.float64,
    Pose,
    Inertia,
}  # that cannot refer to anything


def canonical(value: Any, sizes: Sequence[int] = ()) -> str:
    """Return a text that is equal for equal content, in every process and Python version.

    Fields with the metadata "later" were added to a class in use: their defaults are left out, so that texts
    and hashes of older content stay.

    `sizes` are the numbers of coordinates of the joints. Given these, functions of implicit constraints are
    represented by their traced programs.
    """

    def text(value: Any) -> str:
        if isinstance(value, float):
            return (float(value) + 0.0).hex()
        if isinstance(value, str):
            return ascii(str(value))  # `repr` asks Python's own table which signs can be printed
        if isinstance(value, (int, type(None))):
            return repr(value)
        if isinstance(value, np.ndarray):
            return f"{value.shape}{text(value.astype(float).ravel().tolist())}"
        if isinstance(value, (tuple, list)):
            return f"({','.join(map(text, value))})"
        if isinstance(value, Pose):
            return text((value.R, value.p))
        if isinstance(value, Inertia):
            return text((value.mass, value.A, value.B, value.D))
        if isinstance(value, ImplicitConstraint):
            program = trace(value.phi, {"q": sum(sizes[j] for j in value.joints)}, name="closure")
            return f"closure{text((value.name, value.joints, program.digest))}"
        if is_dataclass(value) and not isinstance(value, type):
            kind = type(value)
            compared = [f for f in fields(value) if f.compare]
            values = [getattr(value, f.name) for f in compared if not f.metadata.get("later")]
            later = [f for f in compared if f.metadata.get("later") and getattr(value, f.name) != f.default]
            contents = text([*values, *((f.name, getattr(value, f.name)) for f in later)])
            return f"{kind.__module__}.{kind.__qualname__}{contents}"
        if isinstance(value, np.generic):
            return text(value.item())
        raise ModelError(f"a model cannot hold a {type(value).__name__}: {value!r}")

    return text(value)


def is_builtin(*values: Any) -> bool:
    """Return whether values contain only plain data, and classes and functions of this package.

    The sources of the package define their meaning, unlike that of user-defined classes and functions.
    """
    seen: set[int] = set()
    waiting: list[Any] = list(values)
    while waiting:
        value = waiting.pop()
        if type(value) in _PLAIN or id(value) in seen:
            continue
        if not all(map(_known, _modules(value))):
            return False
        seen.add(id(value))
        waiting += () if isinstance(value, (type, ModuleType)) else _parts(value)
    return True


def _modules(value: Any) -> list[Any]:
    """Return the names of the modules that define a value."""
    if isinstance(value, ModuleType):
        return [value.__name__]
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return [value.__module__]
    return [type(value).__module__]


def _known(module: Any) -> bool:
    return module in ("builtins", "math", "numpy", "functools") or (
        isinstance(module, str) and module.startswith(_PACKAGE)
    )


def _parts(value: Any) -> Iterator[Any]:
    """Yield all objects that a value refers to."""
    if isinstance(value, np.ndarray):
        yield from value.ravel() if value.dtype.hasobject else ()
    elif isinstance(value, Mapping):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    elif isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or ())
        yield from (value.__defaults__, value.__kwdefaults__)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    yield from getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (
            getattr(value, name)
            for name in ((slots,) if isinstance(slots, str) else slots)
            if hasattr(value, name)
        )
