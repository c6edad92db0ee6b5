"""The product of public functions and features of models, against dense algebra that shares nothing with the
library.

A function without a row fails, so every new function must say what it computes on every feature, or that it
is refused.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linkwork as lw
import product_rows_loops  # noqa: F401  (registers its rows)
from dense_mechanics import Dense
from linkwork.errors import LinkworkError
from product_models import CASES, case, states
from product_rows import REFUSED, ROWS, Given

FUNCTIONS = sorted(name for name in lw.__all__ if isinstance(getattr(lw, name), lw.ModelFunction))
TOLERANCE = 1e-6  # of rows with differences of iterated solutions; most agree to 1e-10
TOLERANCE_32 = 5e-3


def given(name: str, dtype: str = "float64", count: int = 2) -> Given:
    """Return a case in random closed states, with functions called in a dtype."""
    made = case(name)
    model = made.model
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    q, v = states(model, rng, count)
    a, tau = rng.normal(size=(2, *v.shape))
    f_ext = rng.normal(size=(count, len(model.bodies), 6))

    def call(function: Any, *arrays: Any, **options: Any) -> Any:
        result = function(model, *(np.asarray(x, dtype=dtype) for x in arrays), dtype=dtype, **options)
        return result if isinstance(result, tuple) else np.asarray(result)

    return Given(made, q, v, a, tau, f_ext, Dense(model, q, v, made.clouds), call)


def close(tolerance: float, found: Any, expected: Any, size: float | None = None) -> None:
    """Assert that arrays agree, relative to a size or to the largest entry."""
    found = np.asarray(found, dtype=float)
    expected = np.asarray(expected, dtype=float)
    size = max(1e-9, float(np.abs(expected).max(initial=0.0))) if size is None else size
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=0.0, atol=tolerance * size)


def refusal(function: str, name: str) -> str | None:
    """Return a key word of the error by which a function refuses a feature, or None."""
    return REFUSED.get((function, name), REFUSED.get((function, "")))


def test_every_function_has_a_row() -> None:
    assert set(FUNCTIONS) == set(ROWS) | {function for function, name in REFUSED if not name}


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_on_every_feature(function: str, name: str) -> None:
    check(function, given(name), refusal(function, name), TOLERANCE)


@pytest.mark.sweep(16)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_float32(function: str, name: str) -> None:
    """Relative to the largest entry; what the mechanism's own condition takes away is not counted against it."""
    check(function, given(name, "float32"), refusal(function, name), TOLERANCE_32)


def check(function: str, here: Given, word: str | None, tolerance: float) -> None:
    """Assert that a function gives what its row says, or is refused where it shall be."""
    if word is None:
        for pair in ROWS[function](here):
            close(tolerance, *pair)
        return
    with pytest.raises(LinkworkError, match=word):
        list(ROWS[function](here)) if function in ROWS else here.call(getattr(lw, function), here.q)


def changed(model: lw.Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return other numbers for all parameters of a model, by which loops can still be closed."""
    values = {word: x.copy() for word, x in model.parameters().items() if x.size}
    for word in ("mass", "inertia", "armature", "damping", "friction"):
        values[word] = values[word] * rng.uniform(0.8, 1.25)
    values["damping"] = values["damping"] + rng.uniform(0.05, 0.1, values["damping"].shape)
    values["gravity"] = values["gravity"] + rng.normal(size=3)
    for word in ("placement", "frame_placement", "center"):
        values[word][..., :3] += 0.01 * rng.normal(size=values[word][..., :3].shape)
    if "ratio" in values:
        values["ratio"] = values["ratio"] * rng.uniform(0.9, 1.1, values["ratio"].shape)
    if "loop_placement" in values:
        values["loop_placement"][..., :3] += 0.005 * rng.normal(size=values["loop_placement"][..., :3].shape)
    return values


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("redundant")])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_parameters_as_inputs_do_what_another_model_does(function: str, name: str) -> None:
    """Rows are evaluated for a model with other numbers; calls take these numbers as inputs of the first
    model's kernels.
    """
    word = refusal(function, name)
    if word is not None:
        return
    nominal = case(name)
    rng = np.random.default_rng(zlib.crc32(f"{function} {name}".encode()))
    values = changed(nominal.model, rng)
    if nominal.clouds:  # the rigid part of a flexible body is not a parameter by itself
        values = {word: x for word, x in values.items() if word in ("gravity", "damping", "frame_placement")}
    if function == "newton_euler_factors":  # an armature that is an input has rows of its own in the factors
        values.pop("armature", None)
    made = replace(nominal, model=nominal.model.with_parameters(values))
    q, v = states(made.model, rng, 2)
    a, tau = rng.normal(size=(2, *v.shape))
    f_ext = rng.normal(size=(2, len(made.model.bodies), 6))

    def call(function: Any, *arrays: Any, **options: Any) -> Any:
        return function(nominal.model, *arrays, parameters=values, **options)

    check(
        function,
        Given(made, q, v, a, tau, f_ext, Dense(made.model, q, v, made.clouds), call),
        None,
        TOLERANCE,
    )
