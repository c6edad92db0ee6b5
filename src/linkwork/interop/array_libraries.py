"""Array operations of environments in NumPy, PyTorch, JAX and CuPy, on the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linkwork.errors import DtypeError, ModelError, ShapeError
from linkwork.interop.packages import needed
from linkwork.simulation import PD, Controls


class ArrayLibrary:
    """Operations on NumPy arrays, and the interface of other libraries.

    Native arrays are those of rollouts, float64 on the CPU; `to_user` converts them to arrays for users.
    """

    name = "numpy"

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        self.device = device
        self.dtype = dtype

    # new arrays

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Return an array of zeros."""
        return self._made(np.zeros(shape), self.dtype)

    def flags(self, mask: np.ndarray) -> Any:
        """Return an array of bool."""
        return self._made(mask, "bool")

    def native(self, x: np.ndarray) -> Any:
        """Return a native array."""
        return np.array(x, "float64" if self.device == "cpu" else self.dtype)

    def to_user(self, x: Any) -> Any:
        """Return a native array as a writable array for users."""
        return np.array(x)

    def from_user(self, x: Any) -> Any:
        """Return an argument as an array of this library."""
        return np.asarray(x, self.dtype)

    def constant(self, x: np.ndarray, like: Any) -> Any:
        """Return numbers as an array with the dtype and device of another."""
        return np.asarray(x, like.dtype)

    def _made(self, x: np.ndarray, dtype: str) -> Any:
        return np.array(x, dtype)

    # between host and device

    def host(self, x: Any) -> np.ndarray:
        """Return an array on the host."""
        return np.asarray(x)

    def to_native(self, drive: Any) -> Any:
        """Return forces, PD control or actuator controls with native arrays."""
        if isinstance(drive, PD):
            return replace(
                drive,
                **{word: self._native(getattr(drive, word)) for word in ("kp", "kd", "q", "v", "tau")},
            )
        if isinstance(drive, Controls):
            return replace(drive, values=self._native(drive.values))
        return self._native(drive)

    def _native(self, x: Any) -> Any:
        return x

    # changed arrays

    def with_rows(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        """Return an array with rows replaced."""
        result = np.array(x)
        result[rows] = new
        return result

    def select_rows(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        """Return a native array: old rows where the mask is set, new ones elsewhere."""
        return np.where(mask[:, None], old, new)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return np.where(mask, a, b)

    def clipped(self, x: Any) -> Any:
        """Return an array clipped to -1 to 1."""
        return np.clip(x, -1.0, 1.0)

    def joined(self, arrays: Sequence[Any]) -> Any:
        """Return arrays concatenated along the last axis, in the environment's dtype."""
        return np.concatenate([np.asarray(x, self.dtype) for x in arrays], axis=-1)

    def checked(self, x: Any, shape: tuple[int, ...], whose: str) -> Any:
        """Return the array; raise if its shape differs."""
        if tuple(np.shape(x)) != shape:
            raise ShapeError(f"VectorEnv: {whose}: expected shape {shape}, got {tuple(np.shape(x))}")
        return x

    def checked_flags(self, x: Any, shape: tuple[int, ...], whose: str) -> Any:
        """Return the array; raise if its shape differs or its entries are not truth values."""
        flags = self.checked(x, shape, whose)
        dtype = str(flags.dtype if hasattr(flags, "dtype") else np.asarray(flags).dtype)
        if not dtype.endswith("bool"):
            raise DtypeError(f"VectorEnv: {whose}: expected an array of bool, got {dtype}")
        return flags


class _Torch(ArrayLibrary):
    name = "torch"

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        super().__init__(device, dtype)
        self._torch = needed("torch", extra="torch")

    def native(self, x: np.ndarray) -> Any:
        return np.array(x, "float64") if self.device == "cpu" else self._made(x, self.dtype)

    def to_user(self, x: Any) -> Any:
        return self._torch.from_numpy(np.array(x)) if self.device == "cpu" else x.clone()

    def from_user(self, x: Any) -> Any:
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

    def with_rows(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        if not isinstance(x, self._torch.Tensor):
            return super().with_rows(x, rows, new)
        result = x.clone()
        result[self._torch.as_tensor(rows, device=x.device)] = self._torch.as_tensor(
            new, dtype=x.dtype, device=x.device
        )
        return result

    def select_rows(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        if not isinstance(new, self._torch.Tensor):
            return super().select_rows(mask, old, new)
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

    def to_user(self, x: Any) -> Any:
        return self._made(x, str(np.asarray(x).dtype)) if self.device == "cpu" else x

    def from_user(self, x: Any) -> Any:
        return self._put(self._jnp.asarray(x, self.dtype))

    def constant(self, x: np.ndarray, like: Any) -> Any:
        return self._jax.device_put(np.asarray(x, like.dtype), next(iter(like.devices())))

    def _made(self, x: Any, dtype: str) -> Any:
        return self._put(np.array(x, dtype))

    def _native(self, x: Any) -> Any:
        return np.asarray(x, "float64") if self.device == "cpu" and np.ndim(x) else x

    def with_rows(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        if isinstance(x, np.ndarray):
            return super().with_rows(x, rows, new)
        return x.at[rows].set(new.astype(x.dtype))

    def select_rows(self, mask: np.ndarray, old: Any, new: Any) -> Any:
        return (
            super().select_rows(mask, old, new)
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
    """Operations on CuPy arrays, which are on a GPU."""

    name = "cupy"

    def __init__(self, device: str = "cuda", dtype: str = "float32") -> None:
        super().__init__(device, dtype)
        self._cupy = needed("cupy", extra="cuda")

    def native(self, x: np.ndarray) -> Any:
        return self._made(x, self.dtype)

    def to_user(self, x: Any) -> Any:
        return x.copy()

    def from_user(self, x: Any) -> Any:
        return self._cupy.asarray(x, self.dtype)

    def constant(self, x: np.ndarray, like: Any) -> Any:
        with like.device:
            return self._cupy.asarray(np.asarray(x, like.dtype))

    def _made(self, x: np.ndarray, dtype: str) -> Any:
        return self._cupy.asarray(np.array(x, dtype))

    def host(self, x: Any) -> np.ndarray:
        return np.asarray(self._cupy.asnumpy(x))

    def with_rows(self, x: Any, rows: np.ndarray, new: np.ndarray) -> Any:
        result = x.copy()
        result[self._cupy.asarray(rows)] = self._cupy.asarray(new, x.dtype)
        return result

    def select_rows(self, mask: np.ndarray, old: Any, new: Any) -> Any:
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
    """Return a library by its name, or the library of an array."""
    named = of if isinstance(of, str) else None
    if named is None:
        root = type(of).__module__.partition(".")[0]
        of = root if root in LIBRARIES else "jax" if root == "jaxlib" else "numpy"
    if of not in LIBRARIES:
        raise ModelError(f"VectorEnv: arrays: expected one of {', '.join(LIBRARIES)}, got {of!r}")
    if named == "cupy" and device != "cuda":
        raise ModelError('VectorEnv: arrays="cupy" needs device="cuda"')
    return LIBRARIES[of](device, dtype)
