"""Named distributions: maps of uniform numbers to values, with the same bits on every machine.

Logarithms and exponentials are linkwork kernels, since those of NumPy differ between processors in the last
bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.compiler.ir.functions import exp, log
from linkwork.errors import StudyError
from linkwork.functions.compile import compile as compile_kernel
from linkwork.studies.normal_quantile import normal_quantile

MAX_DEVIATIONS = 37.0  # of a truncated normal distribution: the normal distribution function is 6e-300 there


class Stage(NamedTuple):
    """One operation of a quantile function on an array of numbers.

    `kind` is "multiply" or "add" (by `values[0]`), "clip" (to `values[0]` and `values[1]`), or the name of an
    elementary function: "exp", "log", "normal".
    """

    kind: str
    values: tuple[np.ndarray, ...] = ()


class Distribution:
    """A distribution of every component of a quantity, given by its quantile function.

    Subclasses are frozen dataclasses; parameters are numbers, or arrays that broadcast to the quantity's
    shape. They implement `stages`, which also runs on a GPU, or `quantile`.
    """

    shared = False
    """Whether all components of a quantity take one draw."""

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...] | None:
        """Return the operations that turn uniform numbers into values; None if `quantile` is overridden."""
        return None

    def quantile(self, u: np.ndarray, nominal: np.ndarray | None) -> np.ndarray:
        """Return values of uniform numbers u, (rows, *shape), which may be overwritten; `nominal` is the
        model's own value, where it has one.
        """
        stages = self.stages(nominal)
        if stages is None:
            raise NotImplementedError
        x = u
        for kind, values in stages:
            if kind in ELEMENTARY:
                x = _kernel(kind)(x)
            elif kind == "clip":
                low, high = values
                x = np.where(x < low, low, np.where(x > high, high, x))
            else:
                scalar = values[0].ndim == 0
                target = x if scalar or np.broadcast_shapes(x.shape, values[0].shape) == x.shape else None
                x = (np.multiply if kind == "multiply" else np.add)(x, values[0], out=target)
        return x

    def parameter_shape(self) -> tuple[int, ...]:
        """Return the common shape of the parameters."""
        return ()


def _multiply(value: Any) -> Stage:
    return Stage("multiply", (np.asarray(value, dtype=float),))


def _add(value: Any) -> Stage:
    return Stage("add", (np.asarray(value, dtype=float),))


def _number(owner: object, name: str, value: Any) -> np.ndarray:
    """Return a parameter as an array, or raise."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise StudyError(f"{type(owner).__name__}: {name}: expected numbers, got {value!r}") from None
    if not np.isfinite(array).all():
        raise StudyError(f"{type(owner).__name__}: {name}: expected finite numbers, got {value!r}")
    return array


def _ordered(owner: object, low: Any, high: Any) -> None:
    if (_number(owner, "low", low) > _number(owner, "high", high)).any():
        raise StudyError(f"{type(owner).__name__}: expected low <= high, got {low!r} and {high!r}")


def _positive(owner: object, name: str, value: Any) -> None:
    if (_number(owner, name, value) <= 0.0).any():
        raise StudyError(f"{type(owner).__name__}: {name}: expected positive numbers, got {value!r}")


@final
@dataclass(frozen=True, eq=False)
class Uniform(Distribution):
    """Uniform numbers between `low` and `high`."""

    low: Any = 0.0
    high: Any = 1.0

    def __post_init__(self) -> None:
        _ordered(self, self.low, self.high)

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(self.low), np.shape(self.high))

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        low = np.asarray(self.low, dtype=float)
        return _multiply(np.asarray(self.high, dtype=float) - low), _add(low)


@final
@dataclass(frozen=True, eq=False)
class LogUniform(Distribution):
    """Numbers whose logarithm is uniform between those of `low` and `high`, which are positive."""

    low: Any
    high: Any

    def __post_init__(self) -> None:
        _positive(self, "low", self.low)
        _ordered(self, self.low, self.high)

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(self.low), np.shape(self.high))

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        low, high = (_kernel("log")(np.asarray(x, dtype=float)) for x in (self.low, self.high))
        return _multiply(high - low), _add(low), Stage("exp")


@final
@dataclass(frozen=True, eq=False)
class Normal(Distribution):
    """Normal numbers with a `mean` and a standard deviation."""

    mean: Any = 0.0
    std: Any = 1.0

    def __post_init__(self) -> None:
        _number(self, "mean", self.mean)
        if (_number(self, "std", self.std) < 0.0).any():
            raise StudyError(f"Normal: std: expected a standard deviation >= 0, got {self.std!r}")

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(self.mean), np.shape(self.std))

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        return Stage("normal"), _multiply(self.std), _add(self.mean)


@final
@dataclass(frozen=True, eq=False)
class TruncatedNormal(Distribution):
    """Normal distribution restricted to an interval, sampled by inversion.

    Parameters
    ----------
    mean, std : float or array_like
        Mean and standard deviation before truncation.
    low, high : float or array_like
        Bounds of the interval.
    """

    mean: Any
    std: Any
    low: Any
    high: Any

    def __post_init__(self) -> None:
        _number(self, "mean", self.mean)
        _positive(self, "std", self.std)
        _ordered(self, self.low, self.high)
        mean, std, low, high = (
            np.asarray(x, dtype=float) for x in (self.mean, self.std, self.low, self.high)
        )
        distance = np.maximum(low - mean, mean - high) / std
        if ((distance > MAX_DEVIATIONS) & (low < high)).any():
            raise StudyError(
                f"TruncatedNormal: expected an interval that begins within {MAX_DEVIATIONS:g} standard "
                f"deviations of the mean, got {distance.max():g}: its probability is not a number of float64"
            )

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(x) for x in (self.mean, self.std, self.low, self.high)))

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        mean, std, low, high = (
            np.asarray(x, dtype=float) for x in (self.mean, self.std, self.low, self.high)
        )
        # the upper tail is mirrored: its probabilities are close to 1, where few numbers of float64 lie
        mirrored = low > mean
        start = _normal_cdf(np.where(mirrored, mean - low, low - mean) / std)
        end = _normal_cdf(np.where(mirrored, mean - high, high - mean) / std)
        limits = np.array(2.0**-1000), np.array(1.0 - 2.0**-53)
        return (
            _multiply(end - start), _add(start), Stage("clip", limits), Stage("normal"),
            _multiply(np.where(mirrored, -std, std)), _add(mean), Stage("clip", (low, high)),
        )  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class LogNormal(Distribution):
    """Numbers whose logarithm is normal: median `median`, and standard deviation `sigma` of the logarithm."""

    median: Any = 1.0
    sigma: Any = 1.0

    def __post_init__(self) -> None:
        _positive(self, "median", self.median)
        if (_number(self, "sigma", self.sigma) < 0.0).any():
            raise StudyError(f"LogNormal: sigma: expected a number >= 0, got {self.sigma!r}")

    def parameter_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(self.median), np.shape(self.sigma))

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        return Stage("normal"), _multiply(self.sigma), Stage("exp"), _multiply(self.median)


@final
@dataclass(frozen=True, eq=False)
class Exponential(Distribution):
    """Exponentially distributed numbers with a `mean`."""

    mean: Any = 1.0

    def __post_init__(self) -> None:
        _positive(self, "mean", self.mean)

    def parameter_shape(self) -> tuple[int, ...]:
        return np.shape(self.mean)

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...]:
        return _multiply(-1.0), _add(1.0), Stage("log"), _multiply(-np.asarray(self.mean, dtype=float))


@final
@dataclass(frozen=True, eq=False)
class Choice(Distribution):
    """One of several numbers, equally probable."""

    values: Any

    def __post_init__(self) -> None:
        array = _number(self, "values", self.values)
        if array.ndim != 1 or not array.size:
            raise StudyError(f"Choice: values: expected a list of numbers, got shape {array.shape}")

    def quantile(self, u: np.ndarray, nominal: np.ndarray | None) -> np.ndarray:
        values = np.asarray(self.values, dtype=float)
        return values[np.minimum((u * len(values)).astype(np.int64), len(values) - 1)]


@final
@dataclass(frozen=True, eq=False)
class Constant(Distribution):
    """Constant: one value in all samples."""

    value: Any

    def __post_init__(self) -> None:
        _number(self, "value", self.value)

    def parameter_shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def quantile(self, u: np.ndarray, nominal: np.ndarray | None) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.value, dtype=float), u.shape).copy()


class _Relative(Distribution):
    """A draw that changes the model's own value."""

    draw: Distribution

    def __init__(self) -> None:
        raise NotImplementedError

    def _checked(self) -> None:
        if not isinstance(self.draw, Distribution):
            raise StudyError(f"{type(self).__name__}: expected a distribution, got {self.draw!r}")

    def parameter_shape(self) -> tuple[int, ...]:
        return self.draw.parameter_shape()


@final
@dataclass(frozen=True, eq=False)
class Scale(_Relative):
    """The model's own value times a draw; `shared`: one draw for all components."""

    draw: Distribution
    shared: bool = False

    def __post_init__(self) -> None:
        self._checked()

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...] | None:
        assert nominal is not None
        inner = self.draw.stages(None)
        return None if inner is None else (*inner, _multiply(nominal))

    def quantile(self, u: np.ndarray, nominal: np.ndarray | None) -> np.ndarray:
        assert nominal is not None
        return nominal * self.draw.quantile(u, None)


@final
@dataclass(frozen=True, eq=False)
class Offset(_Relative):
    """The model's own value plus a draw; `shared`: one draw for all components."""

    draw: Distribution
    shared: bool = False

    def __post_init__(self) -> None:
        self._checked()

    def stages(self, nominal: np.ndarray | None) -> tuple[Stage, ...] | None:
        assert nominal is not None
        inner = self.draw.stages(None)
        return None if inner is None else (*inner, _add(nominal))

    def quantile(self, u: np.ndarray, nominal: np.ndarray | None) -> np.ndarray:
        assert nominal is not None
        return nominal + self.draw.quantile(u, None)


RELATIVE = (Scale, Offset)


@cache
def _kernel(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the kernel of an elementary function, of numbers of any shape."""
    kernel: Callable[[np.ndarray], np.ndarray] = compile_kernel(ELEMENTARY[name], {"u": ()})
    return kernel


ELEMENTARY: dict[str, Callable[[Any], Any]] = {"log": log, "exp": exp, "normal": normal_quantile}


def _normal_cdf(x: np.ndarray) -> np.ndarray:
    """Return the standard normal distribution function of a few numbers."""
    return np.array([_cdf_of(float(each)) for each in np.ravel(x)]).reshape(np.shape(x))


@cache
def _cdf_of(x: float) -> float:
    """Return u with normal_quantile(u) = x by bisection, so that bits do not depend on a mathematical
    library.
    """
    if x > 0.0:
        return 1.0 - _cdf_of(-x)
    low = 0.0
    high = 0.5
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if _kernel("normal")(np.array([middle]))[0] < x else (low, middle)
    return high
