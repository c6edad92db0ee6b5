"""The parameters of a fit by name, and how a vector of coordinates becomes arrays of the model and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, ModelError
from linkwork.identification.blocks import block_of
from linkwork.identification.coordinates import Coordinates
from linkwork.identification.sizes import scales_of
from linkwork.mechanism.names import did_you_mean
from linkwork.model import Model
from linkwork.model.parameters import KINDS, known, parse, shape_of, value_of

BODY = ("mass", "center", "inertia")


class Parameters:
    """Parameters that a fit varies: blocks of coordinates in one vector x.

    `names` are the arrays that kernels take; their flattened numbers are `arrays(x)`, of which `rate(x)` is
    the derivative. `labels` name the entries of reports.
    """

    def __init__(self, model: Model, names: str | Iterable[str], duration: float = 1.0) -> None:
        self.model = model
        self.scales = scales_of(model, duration)
        chosen = _chosen(model, names).items()
        self.blocks = [block_of(model, name, entries, self.scales) for name, entries in chosen]
        self.delays = _delayed_joints(model, self.blocks)
        self.labels = [label for block in self.blocks for label in block.labels]
        self.start = np.concatenate([block.start for block in self.blocks])
        self.lower = np.concatenate([block.lower for block in self.blocks])
        self.upper = np.concatenate([block.upper for block in self.blocks])
        self.largest_step = np.concatenate(
            [np.broadcast_to(block.largest_step, len(block.start)) for block in self.blocks]
        )
        ends = np.cumsum([0, *(len(block.start) for block in self.blocks)])
        self.parts = [slice(a, b) for a, b in pairwise(ends.tolist())]
        self.names = self._array_names()
        self.shapes = {name: shape_of(model, name) for name in self.names}
        self._places = self._value_places()
        nominal = [value_of(model, name).astype(float).ravel() for name in self.names]
        self._own = np.concatenate([*nominal, np.zeros(len(self.delays))])

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.start)

    def _kinds(self) -> dict[str, list[str]]:
        names_by_kind: dict[str, list[str]] = {}
        for block in self.blocks:
            if not block.name.startswith("delay"):
                names_by_kind.setdefault(parse(block.name)[0], []).append(block.name)
        return names_by_kind

    def _array_names(self) -> tuple[str, ...]:
        """Return names of whole kinds if all parts of the model vary, since kernels are then smaller; else
        parts by name.
        """
        names: list[str] = []
        for kind, kind_names in self._kinds().items():
            names += (
                [kind]
                if kind_names == [kind] or set(kind_names) == set(_parts(self.model, kind))
                else kind_names
            )
        return known(self.model, names)

    def _value_places(self) -> list[slice]:
        """Return the places of the numbers of each block among the flattened arrays; delays of forces come
        last.
        """
        first = 0
        places = {}
        for name in self.names:
            size = int(np.prod(self.shapes[name], dtype=int))
            kind, who = parse(name)
            parts = [name] if who is not None else _parts(self.model, kind)
            for part in parts:
                part_size = int(np.prod(shape_of(self.model, part), dtype=int))
                places[part] = slice(first, first + part_size)
                first += part_size
            assert who is not None or places[parts[-1]].stop - places[parts[0]].start == size
        for block in self.blocks:
            if block.name.startswith("delay"):
                places[block.name] = slice(first, first + 1)
                first += 1
        self.numbers = first
        return [places[block.name] for block in self.blocks]

    def flat(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers of all arrays, then the delays, (numbers,)."""
        numbers = self._own.copy()
        for block, part, place in zip(self.blocks, self.parts, self._places):
            numbers[place] = block.values(x[part])
        return numbers

    def arrays(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of the model by name."""
        numbers = self.flat(x)
        first = 0
        arrays = {}
        for name in self.names:
            size = int(np.prod(self.shapes[name], dtype=int))
            arrays[name] = numbers[first : first + size].reshape(self.shapes[name])
            first += size
        return arrays

    def delay(self, x: np.ndarray) -> np.ndarray:
        """Return the delay of each independent joint force [s], (nv,)."""
        delays = np.zeros(self.model.nv)
        numbers = self.flat(x)
        for k, joints in enumerate(self.delays):
            delays[joints] = numbers[self.numbers - len(self.delays) + k]
        return delays

    def rate(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative of all numbers by x, (numbers, size)."""
        rate = np.zeros((self.numbers, self.size))
        for block, part, place in zip(self.blocks, self.parts, self._places):
            rate[place, part] = block.values_rate(x[part])
        return rate

    def entries(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers of reports, one for each label."""
        return np.concatenate([block.entries(x[part]) for block, part in zip(self.blocks, self.parts)])

    def entries_rate(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative of entries by x, (size, size)."""
        rate = np.zeros((self.size, self.size))
        for block, part in zip(self.blocks, self.parts):
            rate[part, part] = block.entries_rate(x[part])
        return rate

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Return typical sizes of entries: natural sizes, times the largest entry of a parameter, or else of
        its kind, in natural sizes.
        """
        entries = np.abs(self.entries(x))
        parts = list(zip(self.blocks, self.parts))
        relative = [float((entries[part] / block.sizes).max()) for block, part in parts]
        by_kind = dict[str, float]()
        for block, largest in zip(self.blocks, relative):
            kind = block.name.partition("@")[0]
            by_kind[kind] = max(by_kind.get(kind, 0.0), largest)
        sizes = np.empty(self.size)
        for (block, part), largest in zip(parts, relative):
            sizes[part] = (largest or by_kind[block.name.partition("@")[0]] or 1.0) * block.sizes
        return sizes

    def coordinate_sizes(self) -> np.ndarray:
        """Return typical sizes of coordinates: 1 for logarithms, radii of gyration for centres of mass, and
        the model's size or a radian for placements.
        """
        sizes = self.sizes(self.start)
        for block, part in zip(self.blocks, self.parts):
            if block.coordinate_sizes is not None:
                sizes[part] = block.coordinate_sizes
        return sizes

    def values(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of parameters as they were asked for, and delays."""
        result = {}
        for block, part in zip(self.blocks, self.parts):
            values = block.values(x[part])
            delay = block.name.startswith("delay")
            result[block.name] = values[0] if delay else values.reshape(shape_of(self.model, block.name))
        return result

    def places(self, name: str, where: str) -> list[int]:
        """Return the places of a parameter's entries, or one entry, in x.

        Raise if the fit does not vary it.
        """
        parameters = [block.name for block in self.blocks for _ in block.labels]
        kind, at, who = str(name).partition("@")
        matching_names = {name}
        if kind == "body":
            matching_names |= {f"{part}@{who}" if at else part for part in BODY}
        places = [
            k
            for k, (label, parameter) in enumerate(zip(self.labels, parameters))
            if label in matching_names
            or parameter in matching_names
            or parameter.partition("@")[0] in matching_names
        ]
        if not places:
            hint = did_you_mean(str(name), [*self.labels, *parameters])
            raise LinkworkError(f"{where}: {name!r} is not among the fitted parameters{hint}")
        return places

    def set_bounds(self, bounds: Mapping[str, Any]) -> None:
        """Restrict entries to intervals that are given by name."""
        convert = [block.to_coordinate for block in self.blocks for _ in block.labels]
        for name, interval in bounds.items():
            try:
                low, high = (float(x) for x in interval)
            except (TypeError, ValueError):
                raise LinkworkError(f"bounds: {name!r}: expected (lower, upper), got {interval!r}") from None
            if not low < high:
                raise LinkworkError(f"bounds: {name!r}: expected lower < upper, got {interval!r}")
            for k in self.places(name, "bounds"):
                to_coordinate = convert[k]
                if to_coordinate is None:
                    raise LinkworkError(f"bounds: {name!r}: moments of inertia have no bounds; use priors=")
                self.lower[k] = max(self.lower[k], to_coordinate(low))
                self.upper[k] = min(self.upper[k], to_coordinate(high))
        if not (self.lower <= self.upper).all():
            k = int(np.argmax(self.lower > self.upper))
            raise LinkworkError(f"bounds: {self.labels[k]!r} has no admissible value")
        self.start = np.clip(self.start, self.lower, self.upper)

    def at_bounds(self, x: np.ndarray) -> list[str]:
        """Return the entries that are at a bound, and moments of inertia close to impossible ones."""
        names = []
        for block, part in zip(self.blocks, self.parts):
            at = (x[part] <= self.lower[part]) | (x[part] >= self.upper[part])
            if block.to_coordinate is None:
                names += [block.name] if at.any() else []
            else:
                names += [label for label, stops in zip(block.labels, at) if stops]
        return names

    def priors(self, priors: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of entries, infinite without a prior."""
        mean = self.entries(self.start).copy()
        deviation = np.full(self.size, np.inf)
        for name, prior in priors.items():
            places = self.places(name, "priors")
            try:
                pair = prior if isinstance(prior, tuple) else (mean[places], prior)
                center, spread = (np.broadcast_to(np.asarray(x, dtype=float), (len(places),)) for x in pair)
            except (TypeError, ValueError):
                raise LinkworkError(
                    f"priors: {name!r}: expected a standard deviation or (mean, standard deviation), "
                    f"got {prior!r}"
                ) from None
            if not ((spread > 0.0).all() and np.isfinite(center).all()):
                raise LinkworkError(
                    f"priors: {name!r}: expected finite means and positive deviations, got {prior!r}"
                )
            mean[places] = center
            deviation[places] = spread
        return mean, deviation


def _parts(model: Model, kind: str) -> list[str]:
    """Return the names of a kind's parameters, one for each part of the model that has some."""
    of = KINDS[kind].owner_kind
    if of == "model":
        return [kind]
    if of == "velocity":
        return [f"{kind}@{joint.name}" for joint in model.joints if joint.nv]
    parts: Any = {"body": model.bodies, "joint": model.joints, "frame": model.frames}.get(of)
    if parts is None:
        parts = [loop for loop in model.loops if hasattr(loop, "terms") == (of == "term")]
    return [f"{kind}@{part.name}" for part in parts]


def _chosen(model: Model, names: str | Iterable[str]) -> dict[str, str | list[str]]:
    """Return parameters, each with the entries that vary: "all", or some."""
    asked = [names] if isinstance(names, str) else list(names)
    if not asked:
        raise LinkworkError("fit_parameters: parameters: expected at least one name")
    entries_by_parameter: dict[str, Any] = {}
    for name in asked:
        for part, entry in _expanded(model, name):
            if part in entries_by_parameter and (
                entry is None or entries_by_parameter[part] == "all" or entry in entries_by_parameter[part]
            ):
                raise ModelError(f"parameter {name!r} is given twice")
            if entry is None:
                entries_by_parameter[part] = "all"
            else:
                entries_by_parameter.setdefault(part, []).append(entry)
    return entries_by_parameter


def _expanded(model: Model, name: Any) -> list[tuple[str, str | None]]:
    """Return a name as it is given: parameters of one part of the model each, with one entry or None."""
    if not isinstance(name, str):
        raise ModelError(f"parameters: expected names such as 'mass@link3', got {name!r}")
    kind, at, who = name.partition("@")
    if kind == "delay":
        return [(name, None)]
    if kind == "body":
        bodies = [who] if at else [body.name for body in model.bodies]
        return [(f"{part}@{body}", None) for body in bodies for part in BODY]
    try:
        shape_of(model, name)
    except ModelError:
        parameter, dot, entry = name.rpartition(".")
        while dot:
            try:
                shape_of(model, parameter)
            except ModelError:
                parameter, dot, more = parameter.rpartition(".")
                entry = f"{more}.{entry}"
                continue
            return [(parameter, entry)]
        if kind not in KINDS:
            words = [*KINDS, "body", "delay"]
            hint = did_you_mean(kind, words)
            raise ModelError(
                f"unknown parameter {kind!r}{hint}; expected one of {', '.join(words)}"
            ) from None
        raise
    if at:
        return [(name, None)]
    parts = _parts(model, kind)
    if not parts:
        raise ModelError(f"parameter {name!r}: {model.name} has none")
    return [(part, None) for part in parts]


def _delayed_joints(model: Model, blocks: list[Coordinates]) -> list[list[int]]:
    """Return, for each delay, the independent velocities whose forces it delays."""
    delayed: list[list[int]] = []
    for block in blocks:
        kind, at, who = block.name.partition("@")
        if kind != "delay":
            continue
        if not at:
            delayed.append(list(range(model.nv)))
            continue
        names = model.joint(who).v_names
        places = [k for k, name in enumerate(model.v_names) if name in names]
        if not places:
            raise ModelError(f"{block.name}: joint {who!r} is not independent, and no joint force acts there")
        delayed.append(places)
    if len({k for places in delayed for k in places}) < sum(map(len, delayed)):
        raise ModelError("parameters: a joint's delay is given twice")
    return delayed
