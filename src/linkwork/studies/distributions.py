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

from linkwork.compiler.ir.functions import exp, log, sqrt, where
from linkwork.errors import StudyError
from linkwork.functions.compile import compile as compile_kernel

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
                shape = np.broadcast_shapes(x.shape, values[0].shape)
                target = x if shape == x.shape else None
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
    """Normal numbers, by inversion restricted to the interval from `low` to `high`."""

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


# Wichura, Algorithm AS 241 (1988), PPND16: rational functions of three ranges
_CENTRAL = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
     3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_MIDDLE = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2,
     7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
        1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5,
     2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
        7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def normal_quantile(u: Any) -> Any:
    """Return the standard normal quantile of u in (0, 1), to 1e-15 relative (Wichura, AS 241)."""
    centred = u - 0.5
    r = 0.180625 - centred * centred
    central = centred * _ratio(_CENTRAL, r)
    tail_mass = where(centred < 0.0, u, 1.0 - u)
    depth = sqrt(-log(tail_mass))
    outer = where(depth <= 5.0, _ratio(_MIDDLE, depth - 1.6), _ratio(_TAIL, depth - 5.0))
    return where(abs(centred) <= 0.425, central, where(centred < 0.0, -outer, outer))


ELEMENTARY: dict[str, Callable[[Any], Any]] = {"log": log, "exp": exp, "normal": normal_quantile}


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    numerator, denominator = (_polynomial(each, x) for each in coefficients)
    return numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    value: Any = coefficients[-1]
    for each in reversed(coefficients[:-1]):
        value = value * x + each
    return value


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
