"""Compilation and operation counts of functions of a model, of traced programs and of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import Shape, trace
from linkwork.compiler.passes import count, lower
from linkwork.compiler.runtime.build import TARGETS, build_on, check_dtype
from linkwork.errors import LinkworkError, TargetError
from linkwork.functions.engine.derivative import Derivative
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model
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
    """Compile a function of a model, a traced program, or a plain function of arrays.

    Parameters
    ----------
    source : ModelFunction, Derivative, Program or callable
        The function; a plain callable is traced with the shapes in `inputs`.
    inputs : Model or mapping, optional
        The model of a model function, or shapes of the inputs of a callable, such as {"q": 7, "v": 7}.
    dtype : {"float64", "float32"}, optional
        Type of all inputs and outputs.
    target : {"cpu", "cuda"} or callable, optional
        "cpu": a `Kernel`, which is a NumPy generalized ufunc. "cuda": a `CudaKernel` for arrays on an NVIDIA
        GPU. A callable receives the lowered program (docs/extending.md).
    wait : bool, optional
        Wait for optimized code. By default the kernel answers at once by bytecode and switches to optimized
        code when that is ready, with the same bits.
    **options
        Options of the model function, such as ``frame="tool"``; ``optional=("f_ext",)`` adds optional arrays
        and ``parameters=("mass", "gravity")`` parameters of the model (see `Model.parameters`) as inputs
        after the others.

    Returns
    -------
    Kernel, CudaKernel or the result of `target`

    Raises
    ------
    TargetError
        If the target is unknown.

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> kernel = lw.compile(lw.forward_dynamics, arm)
    >>> kernel(np.zeros((5, 3)), np.zeros((5, 3)), np.zeros((5, 3))).shape
    (5, 3)
    """
    check_dtype(dtype)
    if not callable(target) and not (isinstance(target, str) and target in TARGETS):
        raise TargetError(
            f"target: expected one of {', '.join(TARGETS)}, or a function of a program, got {target!r}"
        )
    if isinstance(source, ModelFunction) and not callable(target):
        return source.kernel(model_of(source, inputs), target=target, dtype=dtype, wait=wait, **options)
    if isinstance(source, Derivative) and not callable(target):
        _raise_for_arguments(inputs, options)
        return source.kernel(target=target, dtype=dtype, wait=wait)
    program = program_of(source, inputs, options)
    if callable(target):
        return target(lower(program, dtype))
    return build_on(target, None, lambda: program, dtype, wait=wait)


def count_operations(source: Source, inputs: Inputs | None = None, **options: Any) -> dict[str, int]:
    """Return the number of operations of each kind, and their `total`; arguments as in `compile`."""
    return count.count_operations(program_of(source, inputs, options))


def program_of(source: Source, inputs: Inputs | None, options: dict[str, Any]) -> Program:
    """Return the traced program of a source of `compile`."""
    if isinstance(source, ModelFunction):
        return source.program(model_of(source, inputs), **options)
    if isinstance(source, (Program, Derivative)):
        _raise_for_arguments(inputs, options)
        return source if isinstance(source, Program) else source.program()
    if options:
        _raise_for_arguments(None, options)
    if inputs is None or isinstance(inputs, (Model, Tree)):
        raise LinkworkError("inputs: expected the shapes of the function's inputs, such as {'q': 7, 'v': 7}")
    return trace(source, inputs)


def _raise_for_arguments(inputs: Inputs | None, options: dict[str, Any]) -> None:
    """Raise LinkworkError for arguments that programs and derivatives do not take."""
    if options:
        raise LinkworkError(f"{next(iter(options))}= is an option of functions of a model only")
    if inputs is not None:
        raise LinkworkError("inputs= is for functions only: a program defines its inputs")


def model_of(source: ModelFunction, inputs: Inputs | None) -> Any:
    """Return the model of a model function, given as `inputs`."""
    if not isinstance(inputs, (Model, Tree)):
        raise LinkworkError(
            f"{source.__name__} is a function of a model: give the model as the second argument"
        )
    return inputs
