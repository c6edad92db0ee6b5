"""Every public function where loops are constrained: right by dense algebra, of the open tree as documented,
or refused.
"""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest

import linkwork as lw
from constrained_table import ELSEWHERE, OPEN, ROWS, Case, run, several
from linkwork.compiler.ir import functions

MODELS = ("five_bar", "mit_humanoid_leg", "planar_leg_linkage")


@cache
def case(name: str) -> Case:
    """All loops constrained, or of the leg one of several."""
    model = getattr(lw.robots, name)()
    names = [loop.name for loop in model.loops]
    return Case(model.with_loops(constrain=names[:1] if name == "mit_humanoid_leg" else names), model)


def test_every_public_function_has_a_row() -> None:
    plain = {
        name for name in lw.__all__ if inspect.isfunction(getattr(lw, name)) and hasattr(functions, name)
    }
    public = {
        name
        for name in lw.__all__
        if (inspect.isfunction(getattr(lw, name)) or isinstance(getattr(lw, name), lw.ModelFunction))
        and name not in plain
    }
    assert public == {name for name in {*ROWS, *ELSEWHERE} if name not in plain}
    assert not set(ROWS) & set(ELSEWHERE)


def off(found: object, right: object) -> float:
    found = np.asarray(found, dtype=float)
    right = np.asarray(right, dtype=float)
    assert found.shape == right.shape
    return float(np.abs(found - right).max(initial=0.0) / max(1.0, np.abs(right).max(initial=0.0)))


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("robot", MODELS)
@pytest.mark.sweep(3)
def test_with_constrained_loops(robot: str, name: str) -> None:
    c = case(robot)
    row = ROWS[name]
    fn = getattr(lw, name)
    assert c.constrained.constrained_loops
    if row.refused:
        with pytest.raises(lw.ModelError, match=row.words):
            row.refused(c)
        return
    if row.open_loops or row.words:
        assert OPEN in " ".join(fn.__doc__.split()).replace("constrained loops are", "Constrained loops are")
    if row.open_loops:
        arrays = row.open_loops(c)
        options = row.options(c)
        found, right = (several(run(fn, model, *arrays, **options)) for model in (c.constrained, c.open))
        assert all(off(x, y) < 1e-10 for x, y in zip(found, right, strict=True))
        return
    assert row.law is not None
    errors = [off(x, y) for x, y in row.law(c)]
    assert errors and max(errors) < 1e-6, errors
