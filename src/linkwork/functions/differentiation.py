"""Derivatives of programs and of functions of a model: `jvp`, `vjp`, `jacobian` and `hvp`.

Of a function they are on the tangent space, and compiled on first use (`functions/derivative.py`).
"""

from __future__ import annotations

from typing import Any, overload

from linkwork.errors import DifferentiationError
from linkwork.functions import tangent
from linkwork.functions.derivative import Derivative, Wrt
from linkwork.functions.model_function import ModelFunction
from linkwork.ir.program import Program
from linkwork.ir.trace import trace
from linkwork.model import Model
from linkwork.passes import differentiate
from linkwork.passes.inline import call_in_trace
from linkwork.sko import Tree


def entrywise_vjp(
    function: ModelFunction, model: Any, names: list[str], optional: Any, parameters: Any, options: dict[str, Any]
) -> Program:
    """`vjp` without reverse mode, with weights and gradients of q by its entries: those of changes that are velocities."""
    made = Derivative("vjp", function, model, names, None, optional, parameters, options)
    program, base = made.program(), made._base
    shapes = {array.name: array.shape for array in program.inputs}
    told = {f"bar_{of.name}": k for k, of in enumerate(base.outputs) if of.name in made._told}
    shapes |= {bar: base.outputs[k].shape for bar, k in told.items()}

    def body(*all_arrays: Any) -> dict[str, Any]:
        arrays = dict(zip(shapes, all_arrays))
        own = call_in_trace(base, *all_arrays[: len(base.inputs)]) if told else []
        for bar, k in told.items():
            arrays[bar] = tangent.rates(model, own[k]).T @ arrays[bar]
        found = {a.name: x for a, x in zip(program.outputs, call_in_trace(program, *arrays.values()), strict=True)}
        for name in made._charts:
            found[f"bar_{name}"] = tangent.velocities(model, arrays[name]).T @ found[f"bar_{name}"]
        return found

    return trace(body, shapes, name=program.name)


def entrywise_jvp(
    function: ModelFunction, model: Any, names: list[str], optional: Any, parameters: Any, options: dict[str, Any]
) -> Program:
    """`jvp` of a function whose rule says how, with directions and changes of q by its entries; those off its velocities count
    for nothing."""
    made = Derivative("jvp", function, model, names, None, optional, parameters, options)
    program = made.program()
    own = {array.name: array.shape for array in program.inputs}
    shapes = {word: own[word.removeprefix("d_")] if word.removeprefix("d_") in made._charts else own[word] for word in own}

    def body(*all_arrays: Any) -> dict[str, Any]:
        arrays = dict(zip(shapes, all_arrays))
        for name in made._charts:
            arrays[f"d_{name}"] = tangent.velocities(model, arrays[name]) @ arrays[f"d_{name}"]
        found = {a.name: x for a, x in zip(program.outputs, call_in_trace(program, *arrays.values()), strict=True)}
        for name in made._told:
            found[f"d_{name}"] = tangent.rates(model, found[name]) @ found[f"d_{name}"]
        return found

    return trace(body, shapes, name=program.name)


@overload
def jvp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def jvp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def jvp(source: Any, *where: Any, **options: Any) -> Any:
    """Forward mode. `jvp(program, wrt)` gives a program, `jvp(lw.forward_dynamics, model, wrt=("q", "v"))` something to call.

    Takes the source's inputs and a direction `d_<input>` for each in `wrt` (by default all, of a function its required arrays),
    gives its outputs and `d_<output>` = J d. `wrt` may name parameters of the model ("mass@link3"), which are inputs then. Of
    a function, configurations move on the tangent space: d_q has nv numbers. `optional`, `parameters` and options as for
    `compile`.

    Of a program the new inputs come after the old ones, the new outputs after the old ones. Where such a name is taken, as in a
    second derivative, all new names start with `d2_` (then `d3_`, ...) instead.
    """
    return _derived("jvp", differentiate.jvp, source, where, options)


@overload
def vjp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def vjp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def vjp(source: Any, *where: Any, **options: Any) -> Any:
    """Reverse mode: takes a weight `bar_<output>` for each output, gives the outputs and `bar_<input>` = Jᵀ bar.

    Arguments and names as for `jvp`. Of a program it raises `DifferentiationError` where an output depends on `wrt` through a
    loop that is not Newton's method (see `lw.loop`). Of a function the function's own rule is taken there, or Jacobians in
    forward mode, which cost more.
    """
    return _derived("vjp", differentiate.vjp, source, where, options)


@overload
def jacobian(source: Program, output: str, wrt: str) -> Program: ...
@overload
def jacobian(
    source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, output: str | None = None, **options: Any
) -> Derivative: ...
def jacobian(source: Any, *where: Any, **options: Any) -> Any:
    """Jacobians. `jacobian(program, "out", "q")` adds `d_out_d_q` to a program's outputs, of shape output.shape + input.shape.

    `jacobian(lw.forward_dynamics, model, wrt=("q", "v", "mass@link3"))` is something to call that gives the Jacobians alone, in
    the order of `wrt`, those of each output together (`output="out0"`: of one only); on the tangent space, as for `jvp`.
    They are made in forward or in reverse mode, whichever needs fewer operations, or by the function's own rule.
    """
    return _derived("jacobian", differentiate.jacobian, source, where, options)


@overload
def hvp(source: Program, wrt: Wrt = None) -> Program: ...
@overload
def hvp(source: ModelFunction, model: Model | Tree, *, wrt: Wrt = None, **options: Any) -> Derivative: ...
def hvp(source: Any, *where: Any, **options: Any) -> Any:
    """Hessian-vector products, forward over reverse mode: how the gradient of Σ bar · output changes along a direction.

    Takes the source's inputs, a weight `bar_<output>` for each output and a direction `d_<input>` for each input in `wrt`, and
    gives `d_bar_<input>` = Σ bar ∂²output d for each in `wrt`, for a few times the cost of the source. Arguments as for `jvp`;
    through loops, as for `vjp`. Of a function it is on the tangent space: the change of bar_q, which has nv numbers, along
    `integrate(q, t d_q)`. `inverse_dynamics_second_derivatives` gives whole arrays.
    """
    return _derived("hvp", _hvp_of_program, source, where, options)


def _hvp_of_program(program: Program, wrt: Wrt = None) -> Program:
    back = differentiate.vjp(program, wrt)
    kept = [array.name for array in back.outputs[len(program.outputs) :]]
    words = [array.name for array in program.inputs] if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    made = differentiate.jvp(back, words)
    places = {array.name: k for k, array in enumerate(made.outputs)}
    shapes = {array.name: array.shape for array in made.inputs}
    new = dict(zip(kept, made.outputs[len(back.outputs) + len(program.outputs) :], strict=True))

    def body(*arrays: Any) -> dict[str, Any]:
        found = call_in_trace(made, *arrays)
        return {array.name: found[places[array.name]] for array in new.values()}

    return trace(body, shapes, name=f"{program.name}_hvp")


def _derived(kind: str, of_program: Any, source: Any, where: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if isinstance(source, Program):
        return of_program(source, *where, **options)
    model = options.pop("model", None) if not where else where[0]
    if len(where) > 1 or model is None:
        raise DifferentiationError(f"{kind} takes a function, its model, and the rest by name: wrt=(...)")
    optional, names = options.pop("optional", ()), options.pop("parameters", ())
    wrt, output = options.pop("wrt", None), options.pop("output", None) if kind == "jacobian" else None
    return Derivative(kind, source, model, wrt, output, optional, names, options)
