"""Functions of a model in PyTorch: operators with autograd, vmap, fake tensors and torch.compile.

    f = linkwork.interop.torch.function(linkwork.forward_dynamics, model)
    a = f(q, v, tau)

Operators of `torch.library` accept tensors on the CPU or an NVIDIA GPU (extra `cuda`, on PyTorch's current
stream) and do not copy contiguous ones. Gradients are operators too, so they can be differentiated again.
They are with respect to the entries of arrays, including those of q; `function` also accepts derivatives on
the tangent space, `linkwork.jacobian`, `jvp` and `vjp`. The dtype is that of the tensors, float64 or float32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from linkwork.compiler.runtime.results import POOL
from linkwork.errors import DtypeError, TargetError
from linkwork.functions.engine.sources import Source, source_of
from linkwork.interop.calls import batch_shapes, bind_arguments, broadcast_error, signature_of
from linkwork.interop.packages import needed

torch: Any = needed("torch", extra="torch")
from torch.autograd import forward_ad  # noqa: E402

Tensors = Sequence[Any]


def function(fn: Any, model: Any = None, **options: Any) -> Callable[..., Any]:
    """Return a function of a model as a function of tensors.

    Parameters
    ----------
    fn : ModelFunction or Derivative
        Function of a model, or a derivative, which contains its model.
    model : Model, optional
        The model; omitted for derivatives.
    **options
        Options of `linkwork.compile`: `optional=("f_ext",)` and `parameters=("mass",)` add inputs; others,
        such as ``frame="tool"``, are options of `fn`.

    Returns
    -------
    callable
        Function of the arrays of `fn`, then of parameters that are inputs, by position or name. Leading
        dimensions are batches and broadcast. Its attribute `operator` is the operator of `torch.library`.
    """
    source = source_of(fn, model, options)
    operator = operator_of(source)
    names = [array.name for array in source.inputs]
    transformed = _transformed(source)

    def call(*tensors: Any, **named: Any) -> Any:
        values = (
            bind_arguments(source.name, signature, tensors, named)
            if named or len(tensors) != len(names)
            else tensors
        )
        operands = _operands(source, values)
        result = transformed(operands) if _sees_only_functions() else _tuple(operator(*operands))
        return result[0] if len(result) == 1 else tuple(result)

    call.__name__ = call.__qualname__ = source.name
    outputs = ", ".join(array.name for array in source.outputs)
    call.__doc__ = f"{source.kernel()!r}, for PyTorch: ({', '.join(names)}) -> {outputs}."
    signature = signature_of(names)
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.operator = operator  # type: ignore[attr-defined]
    return call


def _sees_only_functions() -> bool:
    """Return whether a transformation of torch.func or forward mode is active, which needs `_transformed`."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _tuple(results: Any) -> tuple[Any, ...]:
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def _operands(source: Source, values: Tensors) -> list[Any]:
    """Return the tensors of a call, each with all batch dimensions or with none."""
    tensors = [_tensor(source.name, spec.name, x) for spec, x in zip(source.inputs, values, strict=True)]
    first = next((x for x in values if isinstance(x, torch.Tensor)), None)
    dtype, device = (torch.float64, tensors[0].device) if first is None else (first.dtype, first.device)
    if dtype not in (torch.float64, torch.float32):
        raise DtypeError(f"{source.name}: expected tensors of float64 or float32, got {dtype}")
    if device.type not in ("cpu", "cuda", "meta"):
        raise TargetError(
            f"{source.name} supports the CPU and NVIDIA GPUs, not {device}; move tensors by .cpu()"
        )
    for k, (spec, raw) in enumerate(zip(source.inputs, values, strict=True)):
        if tensors[k].dtype != dtype:
            if isinstance(raw, torch.Tensor):
                raise DtypeError(
                    f"{source.name}: {spec.name} is {raw.dtype}, another tensor {dtype}: convert one of them"
                )
            tensors[k] = tensors[k].to(dtype)
        if tensors[k].device != device:
            if isinstance(raw, torch.Tensor):
                raise TargetError(
                    f"{source.name}: {spec.name} is on {raw.device}, another tensor on {device}: move one"
                )
            tensors[k] = tensors[k].to(device)
    leads = batch_shapes(source, [tuple(x.shape) for x in tensors])
    batch = max(leads, key=len)
    if any(lead not in ((), batch) for lead in leads):  # what follows imports SymPy
        try:
            batch = torch.broadcast_shapes(*leads)
        except RuntimeError:
            raise broadcast_error(source, leads) from None
    return [
        x.expand(batch + spec.shape) if lead and lead != batch else x
        for spec, x, lead in zip(source.inputs, tensors, leads, strict=True)
    ]


def _tensor(name: str, word: str, x: Any) -> Any:
    """Return an argument as a dense tensor of real numbers."""
    if not isinstance(x, torch.Tensor):
        try:
            x = torch.as_tensor(x)
        except (RuntimeError, TypeError, ValueError):
            raise DtypeError(
                f"{name}: {word}: expected a tensor or numbers, got {type(x).__name__}"
            ) from None
        if x.is_complex():
            raise DtypeError(f"{name}: {word}: expected real numbers, got {x.dtype}")
    if x.layout != torch.strided:
        raise DtypeError(
            f"{name}: {word}: expected a dense tensor, got layout {x.layout}; convert it by .to_dense()"
        )
    return x


_operators: dict[str, tuple[Source, Any]] = {}  # PyTorch never forgets an operator
# not by torch.library.custom_op, which imports the machinery of torch.compile: that takes seconds
_library = torch.library.Library("linkwork", "FRAGMENT")


def operator_of(source: Source) -> Any:
    """Return the operator of a source, whose name is a digest of its content."""
    digest = hashlib.sha256((source.identity or source.program.digest).encode()).hexdigest()[:32]
    name = f"{source.name}_{digest}"
    if name not in _operators:
        _operators[name] = source, _registered(name, source)
    return _operators[name][1]


def _registered(name: str, source: Source) -> Any:
    # no lists of tensors: PyTorch can take those apart row by row where it has no rule, as in
    # is_grads_batched
    outputs = ["Tensor"] * len(source.outputs)
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    schema = f"({', '.join(f'Tensor x{k}' for k in range(len(source.inputs)))}) -> {returned}"

    def one_or_all(results: list[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    def run(*tensors: Any) -> Any:
        dtype = "float64" if tensors[0].dtype == torch.float64 else "float32"
        if tensors[0].is_cuda:
            outs = [tensors[0].new_empty(shape) for shape in _shapes(source, tensors)]
            source.cuda_kernel(dtype)(*(x.detach().contiguous() for x in tensors), out=tuple(outs))
            return one_or_all(outs)
        places = POOL.arrays(_shapes(source, tensors), dtype)
        source.kernel(dtype)(
            *(x.detach().contiguous().numpy() for x in tensors), out=one_or_all(list(places))
        )
        return one_or_all([torch.from_numpy(place) for place in places])

    def fake(*tensors: Any) -> Any:
        return one_or_all([tensors[0].new_empty(shape) for shape in _shapes(source, tensors)])

    def batched(info: Any, dims: Any, *tensors: Any) -> tuple[Any, Any]:
        results = operator(*_moved(source, info.batch_size, tensors, dims))
        return results, one_or_all([0] * len(source.outputs))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, *bars: Any) -> Any:
        def call(other: Source, values: Tensors) -> Tensors:
            return _tuple(operator_of(other)(*values))

        return tuple(_gradients(source, ctx.saved_tensors, bars, ctx.needs_input_grad, call))

    _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    operator_name = f"{_library.ns}::{name}"
    torch.library.register_fake(operator_name, fake, lib=_library)
    torch.library.register_autograd(operator_name, backward, setup_context=setup, lib=_library)
    torch.library.register_vmap(operator_name, batched, lib=_library)
    operator = getattr(torch.ops.linkwork, name).default
    return operator


def _gradients(
    source: Source, tensors: Tensors, bars: Tensors, needed_inputs: Sequence[bool], call: Any
) -> list[Any]:
    """Return the gradients of the needed tensors, None for the others."""
    wrt = tuple(k for k, is_needed in enumerate(needed_inputs) if is_needed)
    gradients: list[Any] = [None] * len(tensors)
    if wrt:
        for k, gradient in zip(wrt, call(source.vjp(wrt), [*tensors, *bars]), strict=True):
            extra = gradient.dim() - tensors[k].dim()  # one for all rows: the sum over them
            gradients[k] = gradient.sum(dim=tuple(range(extra))) if extra else gradient
    return gradients


def _transformed(source: Source) -> Callable[[Tensors], Tensors]:
    """Return the call for transformations of torch.func, which do not support operators of torch.library."""

    class Call(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(*tensors: Any) -> Any:
            return _tuple(operator_of(source)(*tensors))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            call = lambda s, x: _transformed(s)(x)  # noqa: E731
            return tuple(_gradients(source, ctx.saved_tensors, bars, ctx.needs_input_grad, call))

        @staticmethod
        def jvp(ctx: Any, *directions: Any) -> Any:
            wrt = tuple(k for k, d in enumerate(directions) if d is not None)
            moved = [directions[k] for k in wrt]
            return tuple(_transformed(source.jvp(wrt))([*ctx.saved_tensors, *moved]))

        @staticmethod
        def vmap(info: Any, dims: Any, *tensors: Any) -> Any:
            return Call.apply(*_moved(source, info.batch_size, tensors, dims)), (0,) * len(source.outputs)

    return lambda tensors: Call.apply(*tensors)


def _shapes(source: Source, tensors: Tensors) -> list[tuple[Any, ...]]:
    """Return the shapes of the outputs."""
    batch = _batch(source, tensors)
    return [(*batch, *out.shape) for out in source.outputs]


def _batch(source: Source, tensors: Tensors) -> tuple[Any, ...]:
    for spec, x in zip(source.inputs, tensors, strict=True):
        if x.dim() > len(spec.shape):
            return tuple(x.shape[: x.dim() - len(spec.shape)])
    return ()


def _moved(source: Source, size: int, tensors: Tensors, dims: Sequence[int | None]) -> list[Any]:
    """Return tensors with the mapped dimension first; those without mapped and batch dimensions stay."""
    inner = [x if d is None else x.select(d, 0) for x, d in zip(tensors, dims)]
    before = _batch(source, inner)
    moved = []
    for spec, x, d in zip(source.inputs, tensors, dims, strict=True):
        if d is None and x.dim() == len(spec.shape):
            moved.append(x)
            continue
        x = x[None] if d is None else x.movedim(d, 0)
        if x.dim() == 1 + len(spec.shape):
            x = x.reshape(x.shape[0], *(1 for _ in before), *spec.shape)
        moved.append(x.expand(size, *before, *spec.shape))
    return moved
