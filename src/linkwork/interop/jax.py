"""Functions of a model in JAX, under jit, vmap, grad, jvp, jacfwd, jacrev, scan and shard_map.

    f = linkwork.interop.jax.function(linkwork.forward_dynamics, model)
    a = jax.vmap(jax.jit(f))(q, v, tau)

On the CPU, XLA calls the compiled kernel on its own buffers, without copies and without Python, and a batch
is one call. Derivatives of any order, forward and reverse, are kernels too. They are with respect to the
entries of arrays, including those of q, as everywhere in JAX; `function` also accepts derivatives on the
tangent space, `linkwork.jacobian`, `jvp` and `vjp`. The dtype is float32 unless JAX has 64-bit mode enabled
and an argument is float64. On an NVIDIA GPU the kernel is a CUDA kernel (extra `cuda`) on XLA's stream and
buffers. Other devices are not supported.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from linkwork.compiler.runtime.xla import xla_handler
from linkwork.errors import DtypeError
from linkwork.functions.engine.sources import Source, source_of
from linkwork.interop.calls import batch_shapes, bind_arguments, broadcast_error, signature_of
from linkwork.interop.packages import needed

jax: Any = needed("jax", extra="jax")
from jax.extend.core import Primitive  # noqa: E402
from jax.interpreters import ad, batching, mlir  # noqa: E402

jnp = jax.numpy


def function(fn: Any, model: Any = None, **options: Any) -> Callable[..., Any]:
    """Return a function of a model as a function of JAX arrays.

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
        dimensions are batches and broadcast.
    """
    source = source_of(fn, model, options)
    inputs, outputs = source.arrays(str(jnp.result_type(float)))
    names = [array.name for array in inputs]

    def call(*arrays: Any, **named: Any) -> Any:
        values = bind_arguments(source.name, signature, arrays, named)
        result = call_p.bind(*_varying_alike(_operands(source, values)), source=source)
        return result[0] if len(result) == 1 else tuple(result)

    call.__name__ = call.__qualname__ = source.name
    call.__doc__ = f"{source!r}, for JAX: ({', '.join(names)}) -> {', '.join(a.name for a in outputs)}."
    signature = signature_of(names)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _operands(source: Source, values: Sequence[Any]) -> list[Any]:
    """Return the arrays of a call in one dtype, each with all batch dimensions or with none."""
    numbers = [_numbers(source.name, spec.name, x) for spec, x in zip(source.inputs, values, strict=True)]
    dtype = jnp.result_type(*numbers)
    if dtype not in (
        np.float32,
        np.float64,
    ):  # half precision is computed in single, whole numbers in JAX's own float
        dtype = np.float32 if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
    arrays = [jnp.asarray(x, dtype=dtype) for x in numbers]
    leads = batch_shapes(source, [array.shape for array in arrays])
    try:
        batch = jnp.broadcast_shapes(*leads)
    except ValueError:
        raise broadcast_error(source, leads) from None
    return [
        jnp.broadcast_to(array, batch + spec.shape) if lead else array
        for spec, array, lead in zip(source.inputs, arrays, leads, strict=True)
    ]


def _numbers(name: str, word: str, x: Any) -> Any:
    """Return an argument as an array of real numbers; a number stays weakly typed."""
    try:
        if x is None or isinstance(
            x, (str, bytes)
        ):  # JAX takes the former for a float, the latter for names of dtypes
            raise TypeError
        x = x if hasattr(x, "dtype") or isinstance(x, (int, float, complex)) else jnp.asarray(x)
        kind = jnp.result_type(x)
    except (TypeError, ValueError):
        raise DtypeError(f"{name}: {word}: expected an array of numbers, got {type(x).__name__}") from None
    if not any(jnp.issubdtype(kind, real) for real in (jnp.floating, jnp.integer, jnp.bool_)):
        raise DtypeError(f"{name}: {word}: expected real numbers, got {kind}")
    return x


def _batch(source: Source, arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the batch dimensions of operands."""
    for spec, array in zip(source.inputs, arrays, strict=True):
        if len(array.shape) > len(spec.shape):
            return tuple(array.shape[: len(array.shape) - len(spec.shape)])
    return ()


# Two primitives: a call, and the derivative of one, which is linear in its directions and so can be
# transposed.


call_p = Primitive("linkwork_call")
along_p = Primitive("linkwork_jvp")  # of `source`: its inputs, then directions for those at `wrt`
call_p.multiple_results = along_p.multiple_results = True


def _called(source: Source, wrt: tuple[int, ...] | None = None) -> Source:
    return source if wrt is None else source.jvp(wrt)


def _abstract(*avals: Any, source: Source, wrt: tuple[int, ...] | None = None) -> list[Any]:
    called = _called(source, wrt)
    called.arrays(str(avals[0].dtype))
    batch = _batch(called, avals)
    return [
        _like(max(avals, key=lambda aval: len(_varying(aval))), batch + out.shape) for out in called.outputs
    ]


def _varying(aval: Any) -> frozenset[Any]:
    """Return the axes of a mesh over which a value varies, inside of shard_map."""
    result = aval.mat.varying if hasattr(aval, "mat") else getattr(aval, "vma", frozenset())
    return frozenset(result)


def _like(aval: Any, shape: tuple[int, ...]) -> Any:
    """Return an abstract array of another shape that varies over the same axes."""
    if not _varying(aval):
        return jax.core.ShapedArray(shape, aval.dtype)
    return aval.update(shape=shape, sharding=aval.sharding.update(spec=[None] * len(shape)), weak_type=False)


def _varying_alike(arrays: list[Any]) -> list[Any]:
    """Return arrays that all vary over the same axes: gradients of the others are then summed over them."""
    every = frozenset[Any]().union(*(_varying(jax.typeof(x)) for x in arrays))
    missing = [tuple(every - _varying(jax.typeof(x))) for x in arrays]
    return [
        jax.lax.pcast(x, axes, to="varying") if axes else x for x, axes in zip(arrays, missing, strict=True)
    ]


@lru_cache(maxsize=256)
def _jitted(primitive: Any, **parameters: Any) -> Any:
    return jax.jit(partial(primitive.bind, **parameters))


def _batched(primitive: Any, size: Any, arrays: Any, dims: Any, **parameters: Any) -> tuple[Any, Any]:
    called = _called(**parameters)
    inner = [x if d is None else _without(x, d) for x, d in zip(arrays, dims)]
    before = _batch(called, inner)
    moved = []
    for spec, x, d in zip(called.inputs, arrays, dims, strict=True):
        batched = d is not None
        if not batched and len(x.shape) == len(spec.shape):
            moved.append(x)  # every row reads the same
            continue
        x = jnp.moveaxis(x, d, 0) if batched else x[None]
        if len(x.shape) == 1 + len(spec.shape):
            x = x.reshape(x.shape[:1] + (1,) * len(before) + spec.shape)
        moved.append(jnp.broadcast_to(x, (size, *before, *spec.shape)))
    return primitive.bind(*moved, **parameters), [0] * len(called.outputs)


def _without(x: Any, d: int) -> Any:
    return jax.ShapeDtypeStruct(x.shape[:d] + x.shape[d + 1 :], x.dtype)


def _lowered(platform: str, ctx: Any, *arrays: Any, **parameters: Any) -> Any:
    called = _called(**parameters)
    dtype = str(ctx.avals_in[0].dtype)
    return jax.ffi.ffi_lowering(_target(called, dtype, platform))(ctx, *arrays)


_targets: dict[tuple[int, str, str], tuple[Source, str]] = {}


def _handler(source: Source, dtype: str, platform: str) -> int:
    if platform == "cpu":
        return xla_handler(source.kernel(dtype))
    from linkwork.compiler.runtime.cuda.xla import xla_cuda_handler

    return xla_cuda_handler(source.cuda_kernel(dtype))


def _target(source: Source, dtype: str, platform: str) -> str:
    """Return the name under which a kernel is registered with XLA, a digest of its content."""
    key = (id(source), dtype, platform)
    if key not in _targets:
        content = source.identity or source.program.digest
        digest = hashlib.sha256(repr((content, dtype, platform)).encode()).hexdigest()[:32]
        name = f"linkwork_{source.name}_{digest}"
        if name not in {known for _, known in _targets.values()}:
            capsule = ctypes.pythonapi.PyCapsule_New
            capsule.restype = ctypes.py_object
            capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            handler = capsule(_handler(source, dtype, platform), None, None)
            jax.ffi.register_ffi_target(name, handler, platform="CUDA" if platform == "cuda" else platform)
        _targets[key] = source, name
    return _targets[key][1]


def _call_jvp(primals: Any, tangents: Any, *, source: Source) -> tuple[Any, Any]:
    return call_p.bind(*primals, source=source), _changes(source, primals, tangents)


def _changes(source: Source, primals: Any, tangents: Any) -> list[Any]:
    """Return the changes of a call's outputs from those of its inputs, which may be zeros."""
    wrt = tuple(k for k, t in enumerate(tangents) if type(t) is not ad.Zero)
    if not wrt:
        avals = _abstract(*(jax.typeof(x) for x in primals), source=source)
        return [ad.Zero(aval) for aval in avals]
    return along_p.bind(*primals, *(ad.instantiate_zeros(tangents[k]) for k in wrt), source=source, wrt=wrt)


def _along_jvp(primals: Any, tangents: Any, *, source: Source, wrt: tuple[int, ...]) -> tuple[Any, Any]:
    """Differentiate J(x) d with respect to x and to d, in which it is linear."""
    out = along_p.bind(*primals, source=source, wrt=wrt)
    count = len(source.inputs)
    points = primals[:count]
    changes = tangents[count:]
    still = [ad.Zero(jax.typeof(d)) for d in primals[count:]]
    result = _changes(source.jvp(wrt), primals, [*tangents[:count], *still])
    if any(type(d) is not ad.Zero for d in changes):
        directions = [ad.instantiate_zeros(d) for d in changes]
        more = along_p.bind(*points, *directions, source=source, wrt=wrt)
        result = [ad.add_tangents(a, b) for a, b in zip(result, more)]
    return out, result


def _along_transpose(bars: Any, *arrays: Any, source: Source, wrt: tuple[int, ...]) -> list[Any]:
    """Return Jᵀ bar for the directions, summed over the batch where a direction is one for all rows."""
    count = len(source.inputs)
    points = arrays[:count]
    weights = [ad.instantiate_zeros(bar) for bar in bars]
    result = call_p.bind(*points, *weights, source=source.vjp(wrt))
    gradients = []
    for gradient, direction in zip(result, arrays[count:], strict=True):
        extra = gradient.ndim - len(direction.aval.shape)
        gradients.append(gradient.sum(axis=tuple(range(extra))) if extra else gradient)
    return [None] * count + gradients


for _primitive, _jvp in ((call_p, _call_jvp), (along_p, _along_jvp)):
    _primitive.def_abstract_eval(_abstract)
    _primitive.def_impl(lambda *arrays, _p=_primitive, **parameters: _jitted(_p, **parameters)(*arrays))
    ad.primitive_jvps[_primitive] = _jvp
    for _platform in ("cpu", "cuda"):
        mlir.register_lowering(_primitive, partial(_lowered, _platform), platform=_platform)
    batching.primitive_batchers[_primitive] = lambda arrays, dims, _p=_primitive, **parameters: _batched(
        _p, next(x.shape[d] for x, d in zip(arrays, dims) if d is not None), arrays, dims, **parameters
    )
ad.primitive_transposes[along_p] = _along_transpose
