"""Functions of a model in PyTorch: operators of `torch.library`, with autograd, vmap, fake tensors and torch.compile.

    f = linkwork.interop.torch.function(linkwork.forward_dynamics, model)
    a = f(q, v, tau)

Operators work on tensors in the memory of the CPU or of an NVIDIA GPU, without copying those that are contiguous; on a GPU on
PyTorch's current stream, by a CUDA kernel (extra `cuda`). Gradients are operators too, so
they can be differentiated again. They are by the entries of arrays, q's too; `function` also takes derivatives on the tangent
space, as `linkwork.jacobian`, `jvp` and `vjp` give them. Numbers are those of the tensors: float64 or float32.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from linkwork.errors import DtypeError, ShapeError, TargetError
from linkwork.functions.sources import Source, source_of
from linkwork.interop.packages import needed

torch: Any = needed("torch", extra="torch")

Tensors = Sequence[Any]


def function(fn: Any, model: Any = None, **options: Any) -> Callable[..., Any]:
    """A function of tensors: those of `fn`, then parameters that are inputs, in order or by name.

    `fn` is a function of a model, or a derivative of one, which knows its model. `options` are those of `linkwork.compile`:
    `optional=("f_ext",)` and `parameters=("mass",)` ask for more inputs, frame="tool" and the like choose what it computes.
    Leading dimensions are batches and broadcast.
    """
    source = source_of(fn, model, options)
    operator, names, single = operator_of(source), [array.name for array in source.inputs], len(source.outputs) == 1
    transformed = _transformed(source)

    def call(*tensors: Any, **named: Any) -> Any:
        if named or len(tensors) != len(names):
            given = signature.bind(*tensors, **named).arguments
            tensors = tuple(given[name] for name in names)
        operands = _operands(source, tensors)
        found = transformed(operands) if torch._C._are_functorch_transforms_active() else operator(operands)
        return found[0] if single else tuple(found)

    call.__name__ = call.__qualname__ = source.name
    call.__doc__ = f"{source.kernel()!r}, for PyTorch: ({', '.join(names)}) -> {', '.join(a.name for a in source.outputs)}."
    signature = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.operator = operator  # type: ignore[attr-defined]
    return call


def _operands(source: Source, given: Tensors) -> list[Any]:
    """The tensors of a call, each with all batch dimensions or with none."""
    tensors = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in given]
    dtype = next((x.dtype for x, raw in zip(tensors, given) if isinstance(raw, torch.Tensor)), torch.float64)
    device = next((x.device for x, raw in zip(tensors, given) if isinstance(raw, torch.Tensor)), tensors[0].device)
    if dtype not in (torch.float64, torch.float32):
        raise DtypeError(f"{source.name} takes tensors of float64 or float32, not {dtype}")
    leads = []
    for k, (spec, raw) in enumerate(zip(source.inputs, given, strict=True)):
        if tensors[k].dtype != dtype:
            if isinstance(raw, torch.Tensor):
                raise DtypeError(f"{source.name}: {spec.name} is {raw.dtype}, another tensor {dtype}: convert one of them")
            tensors[k] = tensors[k].to(dtype)
        if tensors[k].device != device:
            if isinstance(raw, torch.Tensor):
                raise TargetError(f"{source.name}: {spec.name} is on {raw.device}, another tensor on {device}: move one")
            tensors[k] = tensors[k].to(device)
        shape = tuple(tensors[k].shape)
        lead = len(shape) - len(spec.shape)
        if lead < 0 or shape[lead:] != spec.shape:
            wanted = ", ".join(["...", *map(str, spec.shape)])
            raise ShapeError(f"{source.name}: {spec.name} must have shape ({wanted}), not {shape}")
        leads.append(shape[:lead])
    batch = torch.broadcast_shapes(*leads)
    return [
        x.expand(batch + spec.shape) if lead and lead != batch else x
        for spec, x, lead in zip(source.inputs, tensors, leads, strict=True)
    ]


_operators: dict[str, tuple[Source, Any]] = {}  # PyTorch never forgets an operator


def operator_of(source: Source) -> Any:
    """The operator of a source: a list of tensors in, a list of tensors out. Its name tells its content."""
    digest = hashlib.sha256((source.identity or source.program.digest).encode()).hexdigest()[:32]
    name = f"linkwork::{source.name}_{digest}"
    if name not in _operators:
        _operators[name] = source, _registered(name, source)
    return _operators[name][1]


def _registered(name: str, source: Source) -> Any:
    def run(tensors: list[Any]) -> list[Any]:
        outs = [tensors[0].new_empty(shape) for shape in _shapes(source, tensors)]
        dtype = "float64" if tensors[0].dtype == torch.float64 else "float32"
        if tensors[0].is_cuda:
            source.cuda_kernel(dtype)(*(x.detach().contiguous() for x in tensors), out=tuple(outs))
            return outs
        kernel = source.kernel(dtype)
        places = tuple(out.numpy() for out in outs)
        kernel(*(x.detach().contiguous().numpy() for x in tensors), out=places if len(places) > 1 else places[0])
        return outs

    def fake(tensors: list[Any]) -> list[Any]:
        return [tensors[0].new_empty(shape) for shape in _shapes(source, tensors)]

    def batched(info: Any, dims: Any, tensors: list[Any]) -> tuple[Any, Any]:
        return operator(_moved(source, info.batch_size, tensors, dims[0])), [0] * len(source.outputs)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[0])
        ctx.shapes = [out.shape for out in output]

    def backward(ctx: Any, bars: Tensors) -> Any:
        weights = [ctx.saved_tensors[0].new_zeros(shape) if bar is None else bar for bar, shape in zip(bars, ctx.shapes)]
        return _gradients(source, ctx.saved_tensors, weights, ctx.needs_input_grad[0], lambda s, x: operator_of(s)(x))

    # annotations are texts here, and PyTorch reads them
    for each in (run, fake):
        each.__annotations__ = {"tensors": list[torch.Tensor], "return": list[torch.Tensor]}
    operator = torch.library.custom_op(name, run, mutates_args=(), device_types=("cpu", "cuda"))
    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=setup)
    operator.register_vmap(batched)
    return operator


def _gradients(source: Source, tensors: Tensors, bars: Tensors, wanted: Sequence[bool], call: Any) -> list[Any]:
    """The gradients of the wanted tensors, None for the others."""
    wrt = tuple(k for k, want in enumerate(wanted) if want)
    gradients: list[Any] = [None] * len(tensors)
    if wrt:
        for k, gradient in zip(wrt, call(source.vjp(wrt), [*tensors, *bars]), strict=True):
            extra = gradient.dim() - tensors[k].dim()  # one for all rows: the sum over them
            gradients[k] = gradient.sum(dim=tuple(range(extra))) if extra else gradient
    return gradients


def _transformed(source: Source) -> Callable[[Tensors], Tensors]:
    """The same call for the transformations of torch.func, which do not see through operators of torch.library."""

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(*tensors: Any) -> Any:
            return tuple(operator_of(source)(list(tensors)))

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
    """The shapes of the outputs."""
    batch = _batch(source, tensors)
    return [(*batch, *out.shape) for out in source.outputs]


def _batch(source: Source, tensors: Tensors) -> tuple[Any, ...]:
    for spec, x in zip(source.inputs, tensors, strict=True):
        if x.dim() > len(spec.shape):
            return tuple(x.shape[: x.dim() - len(spec.shape)])
    return ()


def _moved(source: Source, size: int, tensors: Tensors, dims: Sequence[int | None]) -> list[Any]:
    """The tensors with a mapped dimension in front of the batch; those that have neither stay as they are."""
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
