"""Parameters of custom trees: named numbers that node entries depend on, in addition to q and v."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism.names import did_you_mean, printable


class Values(Mapping[str, Any]):
    """Parameter values passed as p: numbers or arrays by name. `read` holds the names requested."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.read = set[str]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(f"no parameter {name!r}{did_you_mean(name, self._values)}")
        self.read.add(name)
        value = self._values[name]
        return value[()] if np.ndim(value) == 0 else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class TreeParameters:
    """The parameters of a custom tree: nominal `numbers`, and the values that replace them while tracing."""

    def __init__(self, tree: str, values: Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> None:
        if not isinstance(values, Mapping) or not all(
            isinstance(name, str) and name.isidentifier() for name in values
        ):
            raise ModelError(
                f"{tree}: parameters: expected numbers by names that are identifiers, got {values!r}"
            )
        for taken in ("q", "v", "a", "tau", "f_ext", "targets", "given"):
            if taken in values:
                raise ModelError(
                    f"{tree}: parameters: expected names other than those of arrays of functions, got "
                    f"{taken!r}"
                )
        self._tree = tree
        self.numbers = {name: _finite(f"{tree}: parameter {name!r}", value) for name, value in values.items()}
        self.values = Values({**self.numbers, **(inputs or {})})

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return parameter names after checking that each is known and none is repeated."""
        requested = (names,) if isinstance(names, str) else tuple(names)
        for name in requested:
            if name not in self.numbers:
                message = (
                    f"parameter {name!r}{did_you_mean(name, self.numbers)}; it has {', '.join(self.numbers)}"
                )
                none = (
                    "parameters: name them in Tree(parameters=...), for entries that are functions of (q, "
                    "v, p)"
                )
                raise ModelError(
                    f"{printable(self._tree)} is a custom tree and has no {message if self.numbers else none}"
                )
            if requested.count(name) > 1:
                raise ModelError(f"parameter {name!r} is given twice")
        return requested

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return checked parameter names in the order of the tree."""
        requested = self.known(names)
        return tuple(name for name in self.numbers if name in requested)

    def replaced(self, values: Mapping[str, Any]) -> TreeParameters:
        """Return a copy with other nominal numbers."""
        if not isinstance(values, Mapping):
            raise ModelError(
                f"parameters: expected a mapping such as {{'mass': ...}}, got {type(values).__name__}"
            )
        numbers = dict(self.numbers)
        for name in self.known(values):
            numbers[name] = _finite(f"parameter {name!r}", values[name])
            if numbers[name].shape != self.numbers[name].shape:
                raise ShapeError(
                    f"parameter {name!r}: expected shape {self.numbers[name].shape}, got "
                    f"{numbers[name].shape}"
                )
        return TreeParameters(self._tree, numbers)

    def traced_with(self, inputs: Mapping[str, Any]) -> TreeParameters:
        """Return a copy with symbols for some numbers."""
        shaped = {
            name: np.asarray(x, dtype=object).reshape(self.numbers[name].shape) for name, x in inputs.items()
        }
        return TreeParameters(self._tree, self.numbers, {**self.values._values, **shaped})

    def bound(self, entry: Any) -> Any:
        """Return an entry as a function of (q, v), with these values bound if it takes p."""
        if isinstance(entry, tuple):
            return tuple(self.bound(each) for each in entry)
        return (
            partial(_with_values, entry, self.values)
            if callable(entry) and takes_parameters(entry)
            else entry
        )


def _with_values(entry: Callable[..., Any], values: Values, q: Any, v: Any) -> Any:
    return entry(q, v, values)


def takes_parameters(function: Callable[..., Any]) -> bool:
    """Return whether a function requires a third argument."""
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return (
        sum(
            x.default is x.empty and x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) for x in arguments
        )
        == 3
    )


def _finite(label: str, value: Any) -> np.ndarray:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{label}: expected numbers, got {value!r}") from None
    if not np.isfinite(array).all():
        raise ModelError(f"{label}: expected finite numbers")
    return array
