"""Compile or count the operations of functions of a model, of traced programs, or of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from linkwork.errors import LinkworkError, TargetError
from linkwork.functions.derivative import Derivative
from linkwork.functions.model_function import ModelFunction
from linkwork.ir.program import DTYPES, Program
from linkwork.ir.trace import Shape, trace
from linkwork.model import Model
from linkwork.passes import count, lower
from linkwork.runtime.build import TARGETS, build_on
from linkwork.sko import Tree

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
    check_dtype(dtype)
    if not callable(target) and target not in TARGETS:
        raise TargetError(f"target must be one of {', '.join(TARGETS)}, or a function that takes a program, not {target!r}")
    if isinstance(source, ModelFunction) and not callable(target):
        return source.kernel(model_of(source, inputs), target=target, dtype=dtype, wait=wait, **options)
    if isinstance(source, Derivative) and not callable(target):
        _refuse(inputs, options)
        return source.kernel(target=target, dtype=dtype, wait=wait)
    program = program_of(source, inputs, options)
    if callable(target):
        return target(lower(program, dtype))
    return build_on(target, None, lambda: program, dtype, wait=wait)


def count_operations(source: Source, inputs: Inputs | None = None, **options: Any) -> dict[str, int]:
    """How many operations of each kind something needs, and their `total`; arguments as of `compile`."""
    return count.count_operations(program_of(source, inputs, options))


def program_of(source: Source, inputs: Inputs | None, options: dict[str, Any]) -> Program:
    """The program of something that `compile` takes."""
    if isinstance(source, ModelFunction):
        return source.program(model_of(source, inputs), **options)
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


def model_of(source: ModelFunction, inputs: Inputs | None) -> Any:
    """The model that was given for a function of one."""
    if not isinstance(inputs, (Model, Tree)):
        raise LinkworkError(f"{source.__name__} is a function of a model: give the model as the second argument")
    return inputs


def check_dtype(dtype: str) -> None:
    """Refuse a dtype that programs do not have."""
    if dtype not in DTYPES:
        raise LinkworkError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
