"""Option `wrt`: the arrays and parameters with respect to which functions return derivatives.

A name in `wrt` is that of an array of the function, or of a parameter of the model ("mass", "mass@link3"). A
parameter has the value that `parameters=` gives it, else the model's own. Derivatives with respect to q, v
and a or tau are analytic; `changes_by` differentiates with respect to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.compiler.autodiff.in_trace import jacobian_of, jvp_of
from linkwork.errors import DifferentiationError
from linkwork.functions.engine import parameter_names
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.model import Model
from linkwork.sko import Tree

Options = Callable[..., dict[str, Any]]  # (model, **options) -> normalized options
Changed = Callable[[Callable[..., Any]], np.ndarray]  # fn(model, **arrays) -> a derivative of fn


def wrt_names(model: Model | Tree, wrt: Any, arrays: Collection[str], function: str) -> tuple[str, ...]:
    """Return the names in `wrt`; raise if one is neither among `arrays` nor a parameter."""
    kinds = parameter_names.names(model)
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt) if isinstance(wrt, Iterable) else ()
    if not names:
        raise DifferentiationError(f"{function}: wrt: expected a name or several, got {wrt!r}")
    for name in names:
        kind = name.partition("@")[0] if isinstance(name, str) else name
        if isinstance(model, Tree) and isinstance(name, str) and name not in (*arrays, *kinds):
            raise DifferentiationError(
                f"{function}: {printable(model.name)} is a custom tree and has no parameter {name!r}"
            )
        if not isinstance(name, str) or (name not in arrays and kind not in kinds):
            raise DifferentiationError(
                f"{function}: wrt: no array or parameter "
                f"{name!r}{did_you_mean(kind, [*arrays, *kinds])}; arrays are {', '.join(arrays)}, "
                f"parameters are {', '.join(kinds) or 'none'}"
            )
    return names


def normalize_wrt(model: Model, wrt: Any, arrays: Sequence[str], function: str) -> dict[str, Any]:
    """Return the option `wrt` as a tuple of different names, of arrays and of parameters of the model."""
    names = wrt_names(model, wrt, arrays, function)
    if len(set(names)) < len(names):
        raise DifferentiationError(f"{function}: wrt: expected different names, got {wrt!r}")
    for name in names:
        if name not in arrays:
            parameter_names.known(model, [name])
    return {"wrt": names}


def wrt_option(function: str, *arrays: str, others: Options | None = None) -> Options:
    """Return a function that checks options: `wrt`, which may name these arrays, and others."""

    def normal(model: Model, wrt: Any, **options: Any) -> dict[str, Any]:
        normalized = {} if others is None else others(model, **options)
        return {**normalized, **normalize_wrt(model, wrt, arrays, function)}

    return normal


def changes_by(model: Model, name: str, arrays: Mapping[str, Any]) -> Changed:
    """Return a function for Jacobians of fn(model, **arrays) with respect to a parameter or an array.

    Jacobians have the shape of fn's result followed by that of the parameter or array.
    """

    def by(fn: Callable[..., Any]) -> np.ndarray:
        if name in arrays:
            return jacobian_of(lambda x: fn(model, **{**arrays, name: x}), arrays[name])[1]
        return jacobian_of(
            lambda x: fn(model.traced_with({name: x}), **arrays), parameter_names.value_of(model, name)
        )[1]

    return by


def changes_along(model: Model, directions: Mapping[str, Any], arrays: Mapping[str, Any]) -> Changed:
    """Return a function for the change of fn(model, **arrays) along directions of arrays and parameters."""
    starts = {
        name: arrays[name] if name in arrays else parameter_names.value_of(model, name) for name in directions
    }
    x, d = (
        np.concatenate([np.ravel(np.asarray(a, dtype=object)) for a in group.values()])
        for group in (starts, directions)
    )

    def moved(fn: Callable[..., Any], x: np.ndarray) -> Any:
        values = {}
        first = 0
        for name, start in starts.items():
            shape = np.shape(start)
            size = np.size(start)
            values[name] = x[first : first + size].reshape(shape)[()]
            first += size
        parameters = {name: value for name, value in values.items() if name not in arrays}
        return fn(
            model.traced_with(parameters) if parameters else model,
            **{**arrays, **{n: a for n, a in values.items() if n in arrays}},
        )

    def along(fn: Callable[..., Any]) -> np.ndarray:
        change: np.ndarray = jvp_of(lambda x: moved(fn, x), x, d)[1]
        return change

    return along


def by_columns(solve: Callable[[np.ndarray], np.ndarray], change: np.ndarray) -> np.ndarray:
    """Return `solve`, which takes columns, applied to a Jacobian of shape (rows, *shape)."""
    solution = solve(change.reshape(len(change), -1))
    return solution.reshape(len(solution), *change.shape[1:])


def unwrap_single(results: Sequence[Any]) -> Any:
    """Return one result by itself, several as a tuple, as kernels do."""
    return results[0] if len(results) == 1 else tuple(results)


def by_names(
    model: Model,
    names: Iterable[str],
    arrays: dict[str, Any],
    analytic: Callable[[], Sequence[Any]],
    other: Callable[[Changed], Any],
) -> Any:
    """Return derivatives by name: `analytic` for the first three arrays, `other` for the rest."""
    analytic_names = list(arrays)[:3]
    derivatives = dict(zip(analytic_names, analytic())) if set(analytic_names) & set(names) else {}
    if "f_ext" in names and arrays["f_ext"] is None:
        arrays = arrays | {"f_ext": np.zeros((len(model.bodies), 6))}
    return unwrap_single(
        [
            derivatives[name] if name in derivatives else other(changes_by(model, name, arrays))
            for name in names
        ]
    )
