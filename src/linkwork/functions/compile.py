"""Compile, export or count the operations of functions of a model, of traced programs, or of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from linkwork.errors import LinkworkError, TargetError
from linkwork.functions.differentiation import Derivative
from linkwork.functions.model_function import ModelFunction
from linkwork.ir.program import DTYPES, Program
from linkwork.ir.trace import Shape, trace
from linkwork.model import Model
from linkwork.passes import count, lower
from linkwork.runtime.build import TARGETS, build_on
from linkwork.sko import Tree
from linkwork.targets import c as c_target

Source = Program | ModelFunction | Derivative | Callable[..., Any]
Inputs = Mapping[str, Shape] | Model | Tree
Target = str | Callable[[Program], Any]


def compile(
    source: Source,
    inputs: Inputs | None = None,
    *,
    dtype: str = "float64",
    target: Target = "cpu",
    wait: bool = False,
    **options: Any,
) -> Any:
    """A kernel of a function of a model, of a traced program, or of a function and the shapes of its inputs (see `trace`).

    `compile(lw.forward_dynamics, model)`; `options` are those of the function, such as frame="tool".
    `optional=("f_ext",)` asks for inputs that may be left out, `parameters=("mass", "gravity")` for numbers of the model as
    inputs (see `Model.parameters`), behind the others. On the "cpu" the kernel is a NumPy generalised ufunc (see
    `Kernel`): it answers at once, and its optimised code takes over when it is ready, with the same bits. `wait=True` waits
    for that. On "cuda" it takes and gives arrays on an NVIDIA GPU (see `CudaKernel`). A target may also be any function from a
    lowered program to something callable (docs/extending.md).
    """
    _check_dtype(dtype)
    if not callable(target) and target not in TARGETS:
        raise TargetError(f"target must be one of {', '.join(TARGETS)}, or a function that takes a program, not {target!r}")
    if isinstance(source, ModelFunction) and not callable(target):
        return source.kernel(_model(source, inputs), target=target, dtype=dtype, wait=wait, **options)
    if isinstance(source, Derivative) and not callable(target):
        _refuse(inputs, options)
        return source.kernel(target=target, dtype=dtype, wait=wait)
    program = _program(source, inputs, options)
    if callable(target):
        return target(lower(program, dtype))
    return build_on(target, None, lambda: program, dtype, wait=wait)


def export_c(source: Source, *where: Any, dtype: str = "float64", name: str | None = None, **options: Any) -> c_target.Export:
    """Write something as C99 with header, test and CMake file into a folder.

    `export_c(program, folder)`, `export_c(lw.forward_dynamics, model, folder)`, `export_c(fn, {"q": 7}, folder)`. The
    options are those of `compile`.
    """
    _check_dtype(dtype)
    if len(where) != (1 if isinstance(source, (Program, Derivative)) else 2):
        raise LinkworkError("export_c takes a program and a folder, or a function, its model or inputs, and a folder")
    inputs = where[0] if len(where) == 2 else None
    program = _program(source, inputs, options)
    notes: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {}
    if isinstance(source, ModelFunction):
        others = {word: value for word, value in options.items() if word not in ("optional", "parameters")}
        notes = {word: (x.name, x.axes) for word, x in source.entries(_model(source, inputs), program, others).items()}
    return c_target.export_c(lower(program, dtype, arranged=c_target.ARRANGEMENT), where[-1], name=name, notes=notes)


def count_operations(source: Source, inputs: Inputs | None = None, **options: Any) -> dict[str, int]:
    """How many operations of each kind something needs, and their `total`; arguments as of `compile`."""
    return count.count_operations(_program(source, inputs, options))


def _program(source: Source, inputs: Inputs | None, options: dict[str, Any]) -> Program:
    if isinstance(source, ModelFunction):
        return source.program(_model(source, inputs), **options)
    if isinstance(source, (Program, Derivative)):
        _refuse(inputs, options)
        return source if isinstance(source, Program) else source.program()
    if options:
        _refuse(None, options)
    if inputs is None or isinstance(inputs, (Model, Tree)):
        raise LinkworkError("give the shapes of the function's inputs, for example inputs={'q': 7, 'v': 7}")
    return trace(source, inputs)


def _refuse(inputs: Inputs | None, options: dict[str, Any]) -> None:
    """Nothing more can be said of a program, or of a derivative, which is one of a function with options."""
    if options:
        raise LinkworkError(f"{next(iter(options))}= is an option of functions of a model only")
    if inputs is not None:
        raise LinkworkError("a program knows its inputs: give inputs= only with a function")


def _model(source: ModelFunction, inputs: Inputs | None) -> Any:
    if not isinstance(inputs, (Model, Tree)):
        raise LinkworkError(f"{source.__name__} is a function of a model: give the model as the second argument")
    return inputs


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise LinkworkError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
