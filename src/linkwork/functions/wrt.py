"""By what derivatives are taken: the option `wrt` of functions that give Jacobians, and changes by what is not q, v, a or tau.

A name is that of an array of the function, or of a parameter of the model ("mass", "mass@link3"). A parameter has the value
that `parameters=` gives it, else the model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import DifferentiationError
from linkwork.model import Model, parameters
from linkwork.parts.names import did_you_mean, shown
from linkwork.passes.differentiate import jacobian_of, jvp_of
from linkwork.sko import Tree

Options = Callable[..., dict[str, Any]]  # of a model and a function's options: these in their normal form
Changed = Callable[[Callable[..., Any]], np.ndarray]  # of fn(model, **arrays): its Jacobian by something


def wrt_names(wrt: Any, arrays: Collection[str], function: str) -> tuple[str, ...]:
    """What `wrt` names, one or several: some of these arrays, and kinds of parameters."""
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt) if isinstance(wrt, Iterable) else ()
    if not names:
        raise DifferentiationError(f"{function}: wrt must be a name or several, not {wrt!r}")
    for name in names:
        kind = name.partition("@")[0] if isinstance(name, str) else name
        if not isinstance(name, str) or (name not in arrays and kind not in parameters.KINDS):
            raise DifferentiationError(
                f"{function}: there is no array or parameter {name!r}{did_you_mean(kind, [*arrays, *parameters.KINDS])}; "
                f"arrays are {', '.join(arrays)}, parameters are {', '.join(parameters.KINDS)}"
            )
    return names


def chosen_wrt(model: Model, wrt: Any, arrays: Sequence[str], function: str) -> dict[str, Any]:
    """The option `wrt` as a tuple of names: of some of these arrays, and of parameters of the model."""
    names = wrt_names(wrt, arrays, function)
    if len(set(names)) < len(names):
        raise DifferentiationError(f"{function}: wrt must name nothing twice, not {wrt!r}")
    for name in names:
        if name in arrays:
            continue
        if isinstance(model, Tree):
            raise DifferentiationError(f"{function}: {shown(model.name)} is made by hand and has no parameter {name!r}")
        parameters.known(model, [name])
    return {"wrt": names}


def wrt_option(function: str, *arrays: str, others: Options | None = None) -> Options:
    """What checks the options of a function: its `wrt`, which may name these arrays, and its other options."""

    def normal(model: Model, wrt: Any, **rest: Any) -> dict[str, Any]:
        found = {} if others is None else others(model, **rest)
        return {**found, **chosen_wrt(model, wrt, arrays, function)}

    return normal


def changes_by(model: Model, name: str, arrays: Mapping[str, Any]) -> Changed:
    """What gives Jacobians of fn(model, **arrays) by a parameter or an array, of shape fn(...).shape + its shape."""

    def by(fn: Callable[..., Any]) -> np.ndarray:
        if name in arrays:
            return jacobian_of(lambda x: fn(model, **{**arrays, name: x}), arrays[name])[1]
        return jacobian_of(lambda x: fn(model.traced_with({name: x}), **arrays), parameters.value_of(model, name))[1]

    return by


def changes_along(model: Model, directions: Mapping[str, Any], arrays: Mapping[str, Any]) -> Changed:
    """What gives the change of fn(model, **arrays) along directions of some arrays and parameters, by name, all at once."""
    starts = {name: arrays[name] if name in arrays else parameters.value_of(model, name) for name in directions}
    x, d = (np.concatenate([np.ravel(np.asarray(a, dtype=object)) for a in many.values()]) for many in (starts, directions))

    def moved(fn: Callable[..., Any], x: np.ndarray) -> Any:
        given, first = {}, 0
        for name, start in starts.items():
            shape, size = np.shape(start), np.size(start)
            given[name] = x[first : first + size].reshape(shape)[()]
            first += size
        own = {name: value for name, value in given.items() if name not in arrays}
        return fn(model.traced_with(own) if own else model, **{**arrays, **{n: a for n, a in given.items() if n in arrays}})

    def along(fn: Callable[..., Any]) -> np.ndarray:
        found: np.ndarray = jvp_of(lambda x: moved(fn, x), x, d)[1]
        return found

    return along


def by_columns(solve: Callable[[np.ndarray], np.ndarray], change: np.ndarray) -> np.ndarray:
    """What `solve`, which takes columns, makes of a Jacobian by an array of any shape, (rows, *shape)."""
    found = solve(change.reshape(len(change), -1))
    return found.reshape(len(found), *change.shape[1:])


def alone_or_all(found: Sequence[Any]) -> Any:
    """One result as it is, several as a tuple: as kernels give them."""
    return found[0] if len(found) == 1 else tuple(found)
