"""Arrays of NumPy, PyTorch, JAX and CuPy, on the CPU or a GPU: the few things that an environment asks of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.interop.packages import needed
from linkwork.simulation import PD, Controls


class ArrayLibrary:
    """NumPy. `native` arrays are what rollouts step, float64 on the CPU; `shown` ones are what users see."""

    name = "numpy"

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        self.device = device
        self.dtype = dtype

    # made here

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """An array of zeros."""
        return self._made(np.zeros(shape), self.dtype)

    def flags(self, mask: np.ndarray) -> Any:
        """An array of bool."""
        return self._made(mask, "bool")

    def native(self, x: np.ndarray) -> Any:
        """An array as rollouts step it."""
        return np.array(x, "float64" if self.device == "cpu" else self.dtype)

    def shown(self, x: Any) -> Any:
        """A native array as users see it; they may write on it."""
        return np.array(x)

    def given(self, x: Any) -> Any:
        """What a user gave, as an array of this library."""
        return np.asarray(x, self.dtype)

    def constant(self, x: np.ndarray, like: Any) -> Any:
        """Numbers as an array beside another, in its dtype."""
        return np.asarray(x, like.dtype)

    def _made(self, x: np.ndarray, dtype: str) -> Any:
        return np.array(x, dtype)

    # between host and device

    def host(self, x: Any) -> np.ndarray:
        """An array on the host."""
        return np.asarray(x)

    def to_native(self, driven: Any) -> Any:
        """Forces, PD control or controls of actuators, as rollouts take them."""
        if isinstance(driven, PD):
            return replace(
                driven,
                **{word: self._native(getattr(driven, word)) for word in ("kp", "kd", "q", "v", "tau")},
            )
        if isinstance(driven, Controls):
            return replace(driven, values=self._native(driven.values))
        return self._native(driven)

    def _native(self, x: Any) -> Any:
        return x

    # new arrays of old ones

    def put(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        """An array with other numbers in some rows."""
        result = np.array(x)
        result[rows] = new
        return result

    def kept(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        """Native arrays: old rows where the mask is set, new ones elsewhere."""
        return np.where(mask[:, None], old, new)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return np.where(mask, a, b)

    def clipped(self, x: Any) -> Any:
        """Numbers from -1 to 1."""
        return np.clip(x, -1.0, 1.0)

    def joined(self, arrays: Sequence[Any]) -> Any:
        """What is observed: arrays side by side, in the environment's dtype."""
        return np.concatenate([np.asarray(x, self.dtype) for x in arrays], axis=-1)

    def checked(self, x: Any, shape: tuple[int, ...], whose: str) -> Any:
        """The array, whose shape must be this one."""
        if tuple(np.shape(x)) != shape:
            raise ShapeError(f"VectorEnv: {whose}: expected shape {shape}, got {tuple(np.shape(x))}")
        return x


class _Torch(ArrayLibrary):
    name = "torch"

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        super().__init__(device, dtype)
        self._torch = needed("torch", extra="torch")

    def native(self, x: np.ndarray) -> Any:
        return np.array(x, "float64") if self.device == "cpu" else self._made(x, self.dtype)

    def shown(self, x: Any) -> Any:
        return self._torch.from_numpy(np.array(x)) if self.device == "cpu" else x.clone()

    def given(self, x: Any) -> Any:
        return self._torch.as_tensor(x, dtype=getattr(self._torch, self.dtype), device=self.device).detach()

    def constant(self, x: np.ndarray, like: Any) -> Any:
        return self._torch.as_tensor(x, dtype=like.dtype, device=like.device)

    def _made(self, x: np.ndarray, dtype: str) -> Any:
        return self._torch.as_tensor(np.array(x), dtype=getattr(self._torch, dtype), device=self.device)

    def host(self, x: Any) -> np.ndarray:
        return x.detach().cpu().numpy() if isinstance(x, self._torch.Tensor) else np.asarray(x)

    def _native(self, x: Any) -> Any:
        if not isinstance(x, self._torch.Tensor):
            return x
        return x.detach().numpy() if self.device == "cpu" else x.detach()

    def put(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        if not isinstance(x, self._torch.Tensor):
            return super().put(x, rows, new)
        result = x.clone()
        result[self._torch.as_tensor(rows, device=x.device)] = self._torch.as_tensor(
            new, dtype=x.dtype, device=x.device
        )
        return result

    def kept(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        if not isinstance(new, self._torch.Tensor):
            return super().kept(mask, old, new)
        return self._torch.where(self._torch.as_tensor(mask, device=new.device)[:, None], old, new)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return self._torch.where(mask, a, b)

    def clipped(self, x: Any) -> Any:
        return x.clamp(-1.0, 1.0)

    def joined(self, arrays: Sequence[Any]) -> Any:
        return self._torch.cat([x.to(getattr(self._torch, self.dtype)) for x in arrays], dim=-1)

    def checked(self, x: Any, shape: tuple[int, ...], whose: str) -> Any:
        if tuple(x.shape) != shape:
            raise ShapeError(f"VectorEnv: {whose}: expected shape {shape}, got {tuple(x.shape)}")
        return x


class _Jax(ArrayLibrary):
    name = "jax"

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        super().__init__(device, dtype)
        jax = needed("jax", extra="jax")
        self._jax = jax
        self._jnp = jax.numpy
        kind = "gpu" if device == "cuda" else "cpu"
        self._put: Callable[[Any], Any] = lambda x: jax.device_put(x, jax.devices(kind)[0])

    def native(self, x: np.ndarray) -> Any:
        return np.array(x, "float64") if self.device == "cpu" else self._made(x, self.dtype)

    def shown(self, x: Any) -> Any:
        return self._made(x, str(np.asarray(x).dtype)) if self.device == "cpu" else x

    def given(self, x: Any) -> Any:
        return self._put(self._jnp.asarray(x, self.dtype))

    def constant(self, x: np.ndarray, like: Any) -> Any:
        return self._jax.device_put(np.asarray(x, like.dtype), next(iter(like.devices())))

    def _made(self, x: Any, dtype: str) -> Any:
        return self._put(np.array(x, dtype))

    def _native(self, x: Any) -> Any:
        return np.asarray(x, "float64") if self.device == "cpu" and np.ndim(x) else x

    def put(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        if isinstance(x, np.ndarray):
            return super().put(x, rows, new)
        return x.at[rows].set(new.astype(x.dtype))

    def kept(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        return (
            super().kept(mask, old, new)
            if isinstance(new, np.ndarray)
            else self._jnp.where(mask[:, None], old, new)
        )

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return self._jnp.where(mask, a, b)

    def clipped(self, x: Any) -> Any:
        return self._jnp.clip(x, -1.0, 1.0)

    def joined(self, arrays: Sequence[Any]) -> Any:
        return self._jnp.concatenate([self._jnp.asarray(x, self.dtype) for x in arrays], axis=-1)


class _Cupy(ArrayLibrary):
    """On a GPU only."""

    name = "cupy"

    def __init__(self, device: str = "cuda", dtype: str = "float32") -> None:
        super().__init__(device, dtype)
        self._cupy = needed("cupy", extra="cuda")

    def native(self, x: np.ndarray) -> Any:
        return self._made(x, self.dtype)

    def shown(self, x: Any) -> Any:
        return x.copy()

    def given(self, x: Any) -> Any:
        return self._cupy.asarray(x, self.dtype)

    def constant(self, x: np.ndarray, like: Any) -> Any:
        with like.device:
            return self._cupy.asarray(np.asarray(x, like.dtype))

    def _made(self, x: np.ndarray, dtype: str) -> Any:
        return self._cupy.asarray(np.array(x, dtype))

    def host(self, x: Any) -> np.ndarray:
        return np.asarray(self._cupy.asnumpy(x))

    def put(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        result = x.copy()
        result[self._cupy.asarray(rows)] = self._cupy.asarray(new, x.dtype)
        return result

    def kept(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        return self._cupy.where(self._cupy.asarray(mask)[:, None], old, new)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return self._cupy.where(mask, a, b)

    def clipped(self, x: Any) -> Any:
        return self._cupy.clip(x, -1.0, 1.0)

    def joined(self, arrays: Sequence[Any]) -> Any:
        return self._cupy.concatenate([self._cupy.asarray(x, self.dtype) for x in arrays], axis=-1)


LIBRARIES: dict[str, type[ArrayLibrary]] = {
    "numpy": ArrayLibrary,
    "torch": _Torch,
    "jax": _Jax,
    "cupy": _Cupy,
}


def array_library(of: Any, *, device: str = "cpu", dtype: str = "float32") -> ArrayLibrary:
    """The library by its name, or that of an array."""
    named = of if isinstance(of, str) else None
    if named is None:
        root = type(of).__module__.partition(".")[0]
        of = root if root in LIBRARIES else "jax" if root == "jaxlib" else "numpy"
    if of not in LIBRARIES:
        raise ModelError(f"VectorEnv: arrays: expected one of {', '.join(LIBRARIES)}, got {of!r}")
    if named == "cupy" and device != "cuda":
        raise ModelError('VectorEnv: arrays="cupy" are on a GPU: give device="cuda" too')
    return LIBRARIES[of](device, dtype)
