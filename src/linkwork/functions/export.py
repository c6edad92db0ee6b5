"""Write functions of a model, traced programs, plain functions and rollouts as C."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.compiler.ir.program import Program
from linkwork.compiler.passes import lower
from linkwork.compiler.runtime.build import check_dtype
from linkwork.compiler.targets import c as c_target
from linkwork.errors import LinkworkError
from linkwork.functions.compile import Source, model_of, program_of
from linkwork.functions.engine.derivative import Derivative
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.lazy import resolve

Sources = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Exported:
    """Exported function: a program, notes on its arrays (see `c_target.Notes`),
    and arrays for recorded calls.
    """

    program: Program
    notes: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = field(default_factory=dict)
    samples: Mapping[str, np.ndarray] = field(default_factory=dict)


# Functions that are not a single kernel: what makes an `Exported` of them, from the model and options.
# Imported on first use.
EXPORTERS = {"linkwork.simulation.rollout.rollout": "linkwork.simulation.export_c:exported_rollout"}


def export_c(
    source: Source | Sources,
    *where: Any,
    dtype: str = "float64",
    name: str | None = None,
    freestanding: bool = False,
    **options: Any,
) -> c_target.Export:
    """Export functions or programs as C99 with header, test and CMake file.

    The forms are `export_c(program, folder)`, `export_c(lw.forward_dynamics, model, folder)`,
    `export_c(fn, {"q": 7}, folder)` and `export_c(functions, folder, name=...)`.

    Parameters
    ----------
    source : Program, callable, mapping or sequence
        A program, a function of a model, a function to trace, or several of them for one library: a mapping
        from C names to tuples (function, model or inputs, options), or a sequence of such tuples, where equal
        names get numbers. Shared code is written once.
    *where : Model or mapping, and path
        Model of a function of a model, or shapes of the inputs of a function to trace; then the folder.
    dtype : {"float64", "float32"}
        Type of all numbers; options of a single function of a library take precedence.
    name : str, optional
        Name of the C function and of the files; required for a library.
    freestanding : bool
        Use no C library, only the headers float.h and stdint.h.
    **options
        Options of `compile`, such as `parameters` and options of the function.

    Returns
    -------
    Export
        Paths of the files, names of the functions, and a bound on the stack in bytes.

    Notes
    -----
    `export_c(lw.rollout, model, folder)` exports time steps: q, v, dt, the number of steps, the number of
    steps already taken (for the time) and tau to the final state and the number of steps taken, with the bits
    of `rollout`, also with `contacts=` (see `docs/how_to/microcontroller.md`).
    """
    check_dtype(dtype)
    if isinstance(source, (Mapping, Sequence)) and not isinstance(source, str):
        if len(where) != 1 or options:
            raise LinkworkError(
                "export_c: several functions: expected {'name': (function, model, options)} and a folder; "
                "options stand with each"
            )
        folder = _folder(where[0])
        functions = _functions(source, dtype)
        return _written(functions, folder, _library(name), freestanding)
    if len(where) != (1 if isinstance(source, (Program, Derivative)) else 2):
        raise LinkworkError(
            "export_c: expected a program and a folder, or a function, its model or inputs, and a folder"
        )
    folder = _folder(where[-1])
    function = _function(source, where[0] if len(where) == 2 else None, {"dtype": dtype, **options}, name)
    return _written([function], folder, name or function.program.name, freestanding)


def _written(
    functions: list[c_target.Function], folder: Path, name: str, freestanding: bool
) -> c_target.Export:
    try:
        return c_target.export_library(functions, folder, name=name, freestanding=freestanding)
    except OSError as error:
        raise LinkworkError(f"export_c: cannot write to {str(folder)!r}: {error.strerror or error}") from None


def _folder(where: Any) -> Path:
    """Return the folder to write into, which need not be there yet; an error where it cannot be one."""
    try:
        folder = Path(where)
    except TypeError:
        raise LinkworkError(f"export_c: folder: expected a path, got {type(where).__name__}") from None
    try:
        if "\0" in str(folder):
            raise ValueError("embedded null byte")
        file = next(
            (place for place in (folder, *folder.parents) if place.exists() and not place.is_dir()), None
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LinkworkError(f"export_c: invalid folder name {str(folder)[:80]!r}: {reason}") from None
    if file is not None:
        raise LinkworkError(f"export_c: expected a folder for several files; {str(file)!r} is a file")
    return folder


def _library(name: str | None) -> str:
    if name is None:
        raise LinkworkError(
            "export_c: a library of several functions needs a name: name='robot' gives robot.h and robot.c"
        )
    return name


def _functions(sources: Sources, dtype: str) -> list[c_target.Function]:
    """Return the C functions of several sources."""
    named = list(sources.items()) if isinstance(sources, Mapping) else [(None, each) for each in sources]
    if not named:
        raise LinkworkError("export_c: expected at least one function, got none")
    functions = []
    for k, (name, each) in enumerate(named):
        label = f"function {k}" if name is None else repr(name)
        parts = each if isinstance(each, tuple) else (each,)
        if not 1 <= len(parts) <= 3 or (len(parts) == 3 and not isinstance(parts[2], Mapping)):
            raise LinkworkError(
                f"export_c: {label}: expected (function, model or inputs, dictionary of options), got "
                f"{_shown(parts)}"
            )
        source, inputs, options = (*parts, None, None)[:3]
        if not callable(source) and not isinstance(source, Program):
            raise LinkworkError(
                f"export_c: {label}: expected a function, or a program, got {type(source).__name__}"
            )
        settings = {"dtype": dtype, **(options or {})}
        try:
            check_dtype(settings["dtype"])
            functions.append(_function(source, inputs, settings, name))
        except LinkworkError as error:
            raise type(error)(f"export_c: {label}: {error}") from error
    return functions


def _shown(parts: tuple[Any, ...]) -> str:
    return f"({', '.join(type(x).__name__ for x in parts)})"


def _function(source: Any, inputs: Any, options: dict[str, Any], name: str | None) -> c_target.Function:
    """Return one function of a C file: its lowered program, and what the header says of its arrays."""
    dtype = options.pop("dtype")
    made = _exported(source, inputs, options)
    program = lower(made.program, dtype, arranged=c_target.ARRANGEMENT)
    return c_target.Function(program, name, made.notes, made.samples)


def _exported(source: Any, inputs: Any, options: dict[str, Any]) -> Exported:
    exporter = EXPORTERS.get(f"{getattr(source, '__module__', '')}.{getattr(source, '__qualname__', '')}")
    made = resolve(exporter) if exporter else None
    if made is not None:
        known = [name for name, x in inspect.signature(made).parameters.items() if x.kind is x.KEYWORD_ONLY]
        if unknown := [name for name in options if name not in known]:
            raise TypeError(f"{source.__name__} has no option {unknown[0]!r} in C; it has {', '.join(known)}")
        return made(inputs, **options)
    program = program_of(source, inputs, options)
    if isinstance(source, Derivative):
        return Exported(program, {word: (x.name, x.axes) for word, x in source.array_labels(program).items()})
    if not isinstance(source, ModelFunction):
        return Exported(program)
    others = {word: value for word, value in options.items() if word not in ("optional", "parameters")}
    entries = source.array_labels(model_of(source, inputs), program, others, options.get("parameters", ()))
    return Exported(program, {word: (x.name, x.axes) for word, x in entries.items()})
