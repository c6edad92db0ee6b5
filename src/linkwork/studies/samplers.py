"""Samplers, which give every sample of a study its values, as a function of seed and sample number alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.distributions import RELATIVE, Distribution
from linkwork.studies.low_discrepancy import permutation, sobol_points
from linkwork.studies.philox import random_words, uniforms
from linkwork.studies.quantities import Quantity

Values = dict[str, np.ndarray]


class Space(NamedTuple):
    """Sampling problem: the study's seed and size, and the quantities of every model of the family."""

    seed: int
    samples: int
    described: tuple[Mapping[str, Quantity], ...]

    def draws(self, name: str, distribution: Distribution) -> int:
        """Return how many numbers one sample of a quantity takes."""
        if distribution.shared:
            return 1
        return max((math.prod(each[name].shape) for each in self.described), default=1)


class Sampler:
    """Values of named quantities for every sample."""

    group = 1
    """How many consecutive samples belong together."""

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities that vary."""
        raise NotImplementedError

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape that a quantity is given in, where its name does not determine it."""
        return None

    def count(self, samples: int | None) -> int:
        """Return the number of samples of a study that asks for `samples`."""
        if samples is None:
            raise StudyError(
                f"study: samples: expected a number of samples with {type(self).__name__}, got none"
            )
        return samples

    def prepare(self, space: Space) -> None:
        """Raise StudyError if the sampler cannot serve the space."""

    def draw(self, space: Space, first: int, rows: int) -> Values:
        """Return what samples `first` to `first + rows - 1` are made of,
        an array of rows for each quantity.
        """
        raise NotImplementedError

    def assign(self, space: Space, model: int, drawn: Values) -> Values:
        """Return the values of rows that belong to the model of this number."""
        return drawn


@dataclass(frozen=True, eq=False)
class _ByDistribution(Sampler):
    """Base of samplers that give every quantity a distribution."""

    distributions: Mapping[str, Distribution]

    def __post_init__(self) -> None:
        if not isinstance(self.distributions, Mapping):
            raise StudyError(f"{type(self).__name__}: expected a dict of distributions by name")
        for name, each in self.distributions.items():
            if not isinstance(name, str) or not isinstance(each, Distribution):
                raise StudyError(
                    f"{type(self).__name__}: {name}: expected a distribution of lw.studies, got {each!r}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.distributions)

    def shape(self, name: str) -> tuple[int, ...] | None:
        return self.distributions[name].parameter_shape()

    def prepare(self, space: Space) -> None:
        for described in space.described:
            for name, each in self.distributions.items():
                if isinstance(each, RELATIVE) and described[name].nominal is None:
                    kind = type(each).__name__
                    raise StudyError(
                        f"study: quantity {name!r} has no nominal value; {kind} does not apply to it"
                    )
                try:
                    fits = (
                        np.broadcast_shapes(each.parameter_shape(), described[name].shape)
                        == described[name].shape
                    )
                except ValueError:
                    fits = False
                if not fits:
                    shapes = (
                        f"{each.parameter_shape()}, expected one that broadcasts to {described[name].shape}"
                    )
                    raise StudyError(
                        f"study: quantity {name!r}: the distribution's parameters have shape {shapes}"
                    )

    def assign(self, space: Space, model: int, drawn: Values) -> Values:
        values = {}
        for name, each in self.distributions.items():
            shape = space.described[model][name].shape
            nominal = space.described[model][name].nominal
            u = drawn[name]
            if each.shared:
                u = u.reshape(len(u), *([1] * len(shape)))
            else:
                u = np.ascontiguousarray(u[:, : math.prod(shape)]).reshape(len(u), *shape)
            drawn_values = each.quantile(u, nominal)
            full = (len(u), *shape)
            values[name] = drawn_values if drawn_values.shape == full else np.broadcast_to(drawn_values, full)
        return values

    def components(self, space: Space) -> list[tuple[str, int]]:
        """Return the name and the number of every scalar that is drawn."""
        return [
            (name, k) for name, each in self.distributions.items() for k in range(space.draws(name, each))
        ]


@final
@dataclass(frozen=True, eq=False)
class Random(_ByDistribution):
    """Independent draws from named distributions, by counter-based Philox.

    Parameters
    ----------
    distributions : dict of str to Distribution
        What varies, and how. A quantity's numbers do not depend on which other quantities vary.

    Examples
    --------
    >>> sampler = lw.studies.Random({"mass@hand": lw.studies.Uniform(0.5, 3.0)})
    """

    def draw(self, space: Space, first: int, rows: int) -> Values:
        return {
            name: uniforms(space.seed, name, first, rows, space.draws(name, each))
            for name, each in self.distributions.items()
        }


@final
@dataclass(frozen=True, eq=False)
class LatinHypercube(_ByDistribution):
    """One sample in each of `samples` equally probable slices of every scalar.

    Slices are permuted by a keyed bijection of the sample's index, so no sample needs the others.
    """

    def draw(self, space: Space, first: int, rows: int) -> Values:
        index = np.arange(first, first + rows, dtype=np.uint64)
        result: Values = {}
        for name, each in self.distributions.items():
            size = space.draws(name, each)
            u = uniforms(space.seed, name, first, rows, size)
            for k in range(size):
                u[:, k] += permutation(space.seed, f"{name}[{k}]", index, space.samples)
            u /= space.samples
            result[name] = np.minimum(u, 1.0 - 2.0**-53)
        return result


@final
@dataclass(frozen=True, eq=False)
class Sobol(_ByDistribution):
    """Points of Sobol's low-discrepancy sequence with a random digital shift; needs SciPy.

    Numbers of samples that are powers of two are balanced best.
    """

    def prepare(self, space: Space) -> None:
        super().prepare(space)
        sobol_points(len(self.components(space)), 0, 1)

    def draw(self, space: Space, first: int, rows: int) -> Values:
        return _split(self, space, _shifted_sobol(space, len(self.components(space)), "sobol", first, rows))


@final
@dataclass(frozen=True, eq=False)
class Saltelli(_ByDistribution):
    """Groups of d + 2 samples for `SobolIndices`, d being the number of quantities.

    Sample 0 of a group has the values A, sample 1 the values B, and sample 2 + k those of A with the k-th
    quantity of B (Saltelli et al. 2010). A quantity with several components is one factor.

    Parameters
    ----------
    distributions : dict of str to Distribution
        The factors.
    base : str
        "sobol" (needs SciPy) or "random": where A and B come from.
    """

    base: str = "sobol"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in ("sobol", "random"):
            raise StudyError(f"Saltelli: base: expected 'sobol' or 'random', got {self.base!r}")

    @property
    def group(self) -> int:  # type: ignore[override]
        """The number of samples of one group."""
        return len(self.distributions) + 2

    def count(self, samples: int | None) -> int:
        total = super().count(samples)
        return -(-total // self.group) * self.group

    def draw(self, space: Space, first: int, rows: int) -> Values:
        start = first // self.group
        stop = (first + rows - 1) // self.group + 1
        size = len(self.components(space))
        if self.base == "sobol":
            both = _shifted_sobol(space, 2 * size, "saltelli", start, stop - start)
        else:
            both = uniforms(space.seed, "saltelli", start, stop - start, 2 * size)
        a, b = (_split(self, space, part) for part in (both[:, :size], both[:, size:]))
        index = np.arange(first, first + rows)
        group = index // self.group - start
        role = index % self.group
        result: Values = {}
        for k, name in enumerate(self.distributions):
            from_b = (role == 1) | (role == 2 + k)
            result[name] = np.where(from_b[:, None], b[name][group], a[name][group])
        return result


def _shifted_sobol(space: Space, dimensions: int, stream: str, first: int, rows: int) -> np.ndarray:
    shift = random_words(space.seed, stream, 0, 1, dimensions)
    return sobol_points(dimensions, first, rows, shift)


def _split(sampler: _ByDistribution, space: Space, points: np.ndarray) -> Values:
    """Return points, (rows, all scalars), as arrays of the quantities."""
    result = {}
    column = 0
    for name, each in sampler.distributions.items():
        size = space.draws(name, each)
        result[name] = points[:, column : column + size]
        column += size
    return result


@final
@dataclass(frozen=True, eq=False)
class Grid(Sampler):
    """All combinations of given values; the last quantity varies fastest.

    Parameters
    ----------
    values : dict of str to sequence
        The values of each quantity, ``(k, *shape)``.
    """

    values: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise StudyError("Grid: expected a dict of values by name")
        for name, each in self.values.items():
            if np.ndim(each) < 1 or not len(each):
                raise StudyError(f"Grid: {name}: expected a list of values, got {each!r}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def shape(self, name: str) -> tuple[int, ...] | None:
        return np.shape(self.values[name])[1:]

    def count(self, samples: int | None) -> int:
        total = math.prod(len(each) for each in self.values.values())
        if samples is not None and samples != total:
            raise StudyError(f"study: samples: the grid has {total} points, got samples={samples}")
        return total

    def draw(self, space: Space, first: int, rows: int) -> Values:
        index = np.arange(first, first + rows)
        result: Values = {}
        for name in reversed(self.names):
            values = np.asarray(self.values[name], dtype=float)
            result[name] = values[index % len(values)]
            index = index // len(values)
        return {name: result[name] for name in self.names}


@final
@dataclass(frozen=True, eq=False)
class FromFunction(Sampler):
    """Values by a function of the sample's index and the study's seed.

    Parameters
    ----------
    quantities : sequence of str
        The quantities that the function gives.
    function : callable
        ``function(index, seed)`` returns a dict of values by name. It must depend on its arguments alone.
    vectorized : bool
        Whether ``index`` is an array, (rows,), and values have the rows first.
    shapes : dict of str to tuple, optional
        Shapes of quantities whose name does not determine them ("input@name").
    """

    quantities: Sequence[str]
    function: Callable[[Any, int], Mapping[str, Any]]
    vectorized: bool = False
    shapes: Mapping[str, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise StudyError(
                f"FromFunction: function: expected a function (index, seed), got {self.function!r}"
            )
        if isinstance(self.quantities, str) or not all(isinstance(name, str) for name in self.quantities):
            raise StudyError(f"FromFunction: quantities: expected a list of names, got {self.quantities!r}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.quantities)

    def shape(self, name: str) -> tuple[int, ...] | None:
        return (self.shapes or {}).get(name)

    def draw(self, space: Space, first: int, rows: int) -> Values:
        index = np.arange(first, first + rows)
        if self.vectorized:
            return self._values(index, space.seed, f"samples {first} to {first + rows - 1}")
        each = [self._values(int(i), space.seed, f"sample {i}") for i in index]
        try:
            return {name: np.array([values[name] for values in each], dtype=float) for name in each[0]}
        except (KeyError, TypeError, ValueError) as error:
            raise StudyError(f"sampler: values of samples differ in names or shapes: {error}") from None

    def _values(self, index: Any, seed: int, label: str) -> Values:
        try:
            values = self.function(index, seed)
        except Exception as error:
            raise StudyError(
                f"sampler: the function raised {type(error).__name__} in {label}: {error}"
            ) from error
        if not isinstance(values, Mapping):
            raise StudyError(
                f"sampler: expected a dict of values by name, got {type(values).__name__} in {label}"
            )
        return dict(values)
