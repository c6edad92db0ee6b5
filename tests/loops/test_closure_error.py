"""The gaps of loops: those of an independent evaluation of all equations, embedded or constrained, in both
dtypes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw
import planar_mechanisms as planar
import spatial_mechanisms as spatial
from linkages import LOOP_KINDS, closed_by, phi, poses
from linkwork.model import Model
from mechanisms import make


def gap_of(model: Model, q: np.ndarray) -> np.ndarray:
    """Distance and angle of each loop from poses of the spanning tree, by a matrix logarithm of its own."""
    T = poses(model, q)
    found = []
    for loop in model.loops:
        (P, F) = (T[end.body].then(end.place) for end in loop.ends)
        R = P.R.T @ F.R
        p = P.R.T @ (F.p - P.p)
        rows = loop.closure_rows
        slides = [np.array(row.along) @ p for row in rows if row.across is None and row.length is None]
        slides += [np.linalg.norm(p) - row.length for row in rows if row.length is not None]
        axes = {row.along for row in rows if row.oriented}
        if len(axes) == 3:
            angles = [np.arccos(np.clip((np.trace(R) - 1.0) / 2.0, -1.0, 1.0))]
        else:
            angles = [np.arccos(np.clip(np.array(a) @ R @ np.array(a), -1.0, 1.0)) for a in axes]
        crossed = [(row.across, row.along) for row in rows if row.across is not None and not row.oriented]
        angles += [np.pi / 2 - np.arccos(np.array(across) @ R @ np.array(along)) for across, along in crossed]
        found.append([np.linalg.norm(slides), np.linalg.norm(angles)])
    return np.array(found)


@pytest.mark.parametrize("kind", [kind for kind in LOOP_KINDS if kind != "free"])
def test_gaps_of_all_kinds_of_loop_joints(kind: str) -> None:
    rng = np.random.default_rng(3)
    tree = make(rng, [-1, 0, 1, 1, 3, 4], ["skew revolute"] * 6)
    q = tree.tree_random(rng)
    made = closed_by(tree, LOOP_KINDS[kind](rng), 5, 2, q, rng)
    model = replace(tree, name=kind, embedded=(made,), kernels={})
    assert lw.closure_error.body(model, q).astype(float).max() < 1e-14
    for size in (1e-3, 0.3, 2.0):
        away = q + size * rng.normal(size=q.shape)
        found = lw.closure_error.body(model, away).astype(float)
        assert found.shape == (1, 2) and np.allclose(found, gap_of(model, away), rtol=1e-9, atol=1e-9)


def test_redundant_equations_count() -> None:
    """All 15 equations of three hinges: those out of the plane too, which dynamics leave out."""
    model = planar.four_bar(0.3, 0.8, 0.6, 0.9).builder.build()
    held = model.with_loops(constrain=[loop.name for loop in model.loops])
    q = model.neutral()
    assert lw.closure_error(model, q).max() < 1e-14
    rounded = planar.four_bar(
        0.3123456, 0.8234567, 0.6345678, 0.9456789, digits=4, turned=True
    ).builder.build()
    gaps = lw.closure_error(rounded, rounded.neutral())
    assert gaps.max() > 1e-6 and (gaps <= rounded.closure_tolerance).all()
    open_ = np.stack([q, q + 0.1])
    for one in (model, held):
        found = lw.closure_error(one, open_)
        assert (
            found.shape == (2, 1, 2)
            and found[0].max() < 1e-14
            and np.allclose(found[1], gap_of(one, open_[1]))
        )
        single = lw.closure_error(one, open_.astype(np.float32), dtype="float32")
        assert single.dtype == np.float32 and np.abs(single - found).max() < 1e-6


def test_gaps_of_couplings_and_with_parameters() -> None:
    builder = lw.ModelBuilder("gears")
    for name, kind in (
        ("a", lw.joints.Revolute()),
        ("b", lw.joints.Revolute()),
        ("c", lw.joints.Prismatic()),
    ):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(name, kind, parent="world", child=name)
    builder.add_coupling("gear", {"a": 2.0, "b": -1.0}, offset=0.5)
    builder.add_coupling("rack", {"b": 1.0, "c": 3.0})
    model = builder.build()
    q = np.array([0.3, 0.7, 0.2])
    assert np.allclose(lw.closure_error(model, q), [[0.0, 0.6], [0.0, 1.3]])
    other = lw.closure_error(model, q, parameters={"ratio": np.array([1.0, -1.0, 1.0, 3.0])})
    assert np.allclose(other, [[0.0, 0.9], [0.0, 1.3]])
    with pytest.raises(lw.ModelError, match="has no loops"):
        lw.closure_error(lw.robots.arm(), lw.robots.arm().neutral())


def test_gaps_that_are_not_finite_are_not_closed() -> None:
    """Sines of huge angles are NaN; one of several residuals suffices."""
    model = lw.robots.tello()
    q, v = model.random_state(0)
    q[-1] = 1e14
    assert not np.isfinite(lw.closure_error(model, q)).all()
    assert lw.rollout(model, q, v, dt=1e-3, steps=2).status == lw.Status.NOT_CLOSED


def test_the_tolerance_of_exact_and_of_rounded_mechanisms() -> None:
    exact, rounded = (spatial.bennett(digits=digits).builder.build() for digits in (None, 5))
    length = 1.0 * np.sin(1.1) / np.sin(0.6)
    assert np.allclose(exact.closure_tolerance, [[1e-6 * length, 1e-6]])
    assert 1e-5 < rounded.closure_tolerance.max() < 1e-2
    held = rounded.with_loops(constrain=[loop.name for loop in rounded.loops])
    assert np.array_equal(held.closure_tolerance, rounded.closure_tolerance)
    assert phi(exact, exact.neutral()).max() < 1e-12


def test_the_conditioning_of_constrained_loops_is_that_of_the_mechanism() -> None:
    """One number for each family of loops with constrained ones: embedded or not, it is the same mechanism."""
    for draw in (lambda: planar.four_bar(0.3, 0.8, 0.6, 0.9), spatial.bennett):
        model = draw().builder.build()
        held = model.with_loops(constrain=[loop.name for loop in model.loops])
        q = np.stack([model.random_state(k)[0] for k in range(4)])
        found = [lw.loop_conditioning(held, q, of=of) for of in ("coordinates", "mechanism")]
        assert found[0].shape == (4, 1) and np.array_equal(*found)
        assert np.allclose(found[1], lw.loop_conditioning(model, q, of="mechanism"), rtol=1e-9)
