"""Derivatives of programs and of functions of a model: `jvp`, `vjp`, `jacobian` and `hvp`.

Derivatives of functions of a model are on the tangent space and compiled on first use
(`functions/engine/derivative.py`).
"""

from __future__ import annotations

from typing import Any, overload

from linkwork.compiler.autodiff import differentiate
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.inline import call_in_trace
from linkwork.errors import DifferentiationError
from linkwork.functions.engine import tangent
from linkwork.functions.engine.derivative import Derivative
from linkwork.functions.engine.derivative_program import Wrt
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.model import Model
from linkwork.sko import Tree


def entrywise_vjp(
    function: ModelFunction,
    model: Any,
    names: list[str],
    optional: Any,
    parameters: Any,
    options: dict[str, Any],
) -> Program:
    """Return a `vjp` program with weights and gradients of q by its entries, without reverse mode."""
    derivative = Derivative("vjp", function, model, names, None, optional, parameters, options)
    program = derivative.program()
    base = derivative._base
    shapes = {array.name: array.shape for array in program.inputs}
    output_index = {
        f"bar_{of.name}": k
        for k, of in enumerate(base.outputs)
        if of.name in derivative.configuration_outputs
    }
    shapes |= {weight: base.outputs[k].shape for weight, k in output_index.items()}

    def body(*all_arrays: Any) -> dict[str, Any]:
        arrays = dict(zip(shapes, all_arrays))
        values = call_in_trace(base, *all_arrays[: len(base.inputs)]) if output_index else []
        for weight, k in output_index.items():
            arrays[weight] = tangent.rates(model, values[k]).T @ arrays[weight]
        results = {
            a.name: x for a, x in zip(program.outputs, call_in_trace(program, *arrays.values()), strict=True)
        }
        for name in derivative._configuration_inputs:
            results[f"bar_{name}"] = tangent.velocities(model, arrays[name]).T @ results[f"bar_{name}"]
        return results

    return trace(body, shapes, name=program.name)


def entrywise_jvp(
    function: ModelFunction,
    model: Any,
    names: list[str],
    optional: Any,
    parameters: Any,
    options: dict[str, Any],
) -> Program:
    """Return a `jvp` program by a function's own rule, with directions and changes of q by its entries.

    Components of directions that are not velocities are ignored.
    """
    derivative = Derivative("jvp", function, model, names, None, optional, parameters, options)
    program = derivative.program()
    tangent_shapes = {array.name: array.shape for array in program.inputs}
    shapes = {
        word: tangent_shapes[word.removeprefix("d_")]
        if word.removeprefix("d_") in derivative._configuration_inputs
        else tangent_shapes[word]
        for word in tangent_shapes
    }

    def body(*all_arrays: Any) -> dict[str, Any]:
        arrays = dict(zip(shapes, all_arrays))
        for name in derivative._configuration_inputs:
            arrays[f"d_{name}"] = tangent.velocities(model, arrays[name]) @ arrays[f"d_{name}"]
        results = {
            a.name: x for a, x in zip(program.outputs, call_in_trace(program, *arrays.values()), strict=True)
        }
        for name in derivative.configuration_outputs:
            results[f"d_{name}"] = tangent.rates(model, results[name]) @ results[f"d_{name}"]
        return results

    return trace(body, shapes, name=program.name)


@overload
def jvp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def jvp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def jvp(source: Any, *where: Any, **options: Any) -> Any:
    """Return the Jacobian-vector product of a program or of a function of a model (forward mode).

    Parameters
    ----------
    source : Program or ModelFunction
        `jvp(program, wrt)` returns a program, `jvp(lw.forward_dynamics, model, wrt=("q", "v"))` a
        `Derivative`, which can be called.
    wrt : str or sequence of str, optional
        Inputs, and parameters of the model ("mass@link3"), which become inputs. Default: all inputs of a
        program, all required arrays of a function.
    optional, parameters, **options
        As in `compile`.

    Returns
    -------
    Program or Derivative
        Takes the inputs of `source` and then a direction ``d_<input>`` for each in `wrt`; returns the outputs
        and ``d_<output>`` = J d. Configurations of functions move on the tangent space: d_q has nv numbers.
        Where such a name is taken, as in a second derivative, new names start with ``d2_`` (then ``d3_``,
        ...).

    See Also
    --------
    vjp, jacobian, hvp

    Examples
    --------
    >>> arm = lw.robots.chain(3)
    >>> q, v = arm.random_state(0)
    >>> along = lw.jvp(lw.kinetic_energy, arm, wrt="v")
    >>> energy, change = along(q, v, v)
    >>> np.allclose(change, 2 * energy)
    True
    """
    return _derivative_of("jvp", differentiate.jvp, source, where, options)


@overload
def vjp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def vjp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def vjp(source: Any, *where: Any, **options: Any) -> Any:
    """Return the vector-Jacobian product of a program or of a function of a model (reverse mode).

    The result takes the inputs and then a weight ``bar_<output>`` for each output, and returns the outputs
    and ``bar_<input>`` = Jᵀ bar for each in `wrt`. Arguments and names as in `jvp`. For a program it raises
    `DifferentiationError` where an output depends on `wrt` through a loop that is not Newton's method (see
    `lw.loop`). For a function its own rule is used there, or Jacobians in forward mode, which cost more.
    """
    return _derivative_of("vjp", differentiate.vjp, source, where, options)


@overload
def jacobian(source: Program, output: str, wrt: str) -> Program: ...
@overload
def jacobian(
    source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, output: str | None = None, **options: Any
) -> Derivative: ...
def jacobian(source: Any, *where: Any, **options: Any) -> Any:
    """Return Jacobians of a program or of a function of a model.

    `jacobian(program, "out", "q")` adds ``d_out_d_q`` to a program's outputs, of shape output.shape +
    input.shape.

    `jacobian(lw.forward_dynamics, model, wrt=("q", "v", "mass@link3"))` is a `Derivative` that returns
    Jacobians alone, in the order of `wrt`, those of each output together (`output="out0"`: of one output
    only), on the tangent space as in `jvp`. Forward or reverse mode is used, whichever needs fewer
    operations, or the function's own rule.
    """
    return _derivative_of("jacobian", differentiate.jacobian, source, where, options)


@overload
def hvp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def hvp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def hvp(source: Any, *where: Any, **options: Any) -> Any:
    """Return Hessian-vector products of a program or of a function of a model (forward over reverse mode).

    The result takes the inputs, a weight ``bar_<output>`` for each output and a direction ``d_<input>`` for
    each input in `wrt`, and returns ``d_bar_<input>`` = Σ bar ∂²output d for each in `wrt`, for a few times
    the cost of the source. Arguments as in `jvp`; loops as in `vjp`. For a function it is on the tangent
    space: the change of bar_q, which has nv numbers, along `integrate(q, t d_q)`.
    `inverse_dynamics_second_derivatives` returns dense arrays.
    """
    return _derivative_of("hvp", _hvp_of_program, source, where, options)


def _hvp_of_program(program: Program, wrt: Wrt = None) -> Program:
    gradient = differentiate.vjp(program, wrt)
    gradient_names = [array.name for array in gradient.outputs[len(program.outputs) :]]
    names = (
        [array.name for array in program.inputs]
        if wrt is None
        else [wrt]
        if isinstance(wrt, str)
        else list(wrt)
    )
    second = differentiate.jvp(gradient, names)
    index = {array.name: k for k, array in enumerate(second.outputs)}
    shapes = {array.name: array.shape for array in second.inputs}
    changes = dict(
        zip(gradient_names, second.outputs[len(gradient.outputs) + len(program.outputs) :], strict=True)
    )

    def body(*arrays: Any) -> dict[str, Any]:
        results = call_in_trace(second, *arrays)
        return {array.name: results[index[array.name]] for array in changes.values()}

    return trace(body, shapes, name=f"{program.name}_hvp")


def _derivative_of(
    kind: str, of_program: Any, source: Any, where: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    if isinstance(source, Program):
        return of_program(source, *where, **options)
    model = options.pop("model", None) if not where else where[0]
    if len(where) > 1 or model is None:
        raise DifferentiationError(
            f"{kind}: expected a function and its model; other arguments by name: wrt=(...)"
        )
    optional = options.pop("optional", ())
    names = options.pop("parameters", ())
    wrt = options.pop("wrt", None)
    output = options.pop("output", None) if kind == "jacobian" else None
    return Derivative(kind, source, model, wrt, output, optional, names, options)
