"""Functions of a model, beyond what they compute: words, options, traces, pickles."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import linkwork as lw

ARM = lw.robots.arm()
Q, V = ARM.random_state(3)


def test_keywords_and_places_are_the_same() -> None:
    wanted = lw.inverse_dynamics(ARM, Q, V, V)
    assert np.array_equal(lw.inverse_dynamics(ARM, Q, v=V, a=V), wanted)
    assert np.array_equal(lw.inverse_dynamics(ARM, q=Q, v=V, a=V), wanted)
    out = np.empty(ARM.nv)
    assert lw.inverse_dynamics(ARM, Q, V, V, out=out) is out and np.array_equal(out, wanted)


def test_options_may_be_said_in_several_ways() -> None:
    pose = lw.frame_pose(ARM, Q, frame="tool")
    assert np.array_equal(lw.frame_pose(ARM, Q, frame=ARM.frame("tool")), pose)
    names = [ARM.joints[1].name, ARM.joints[4].name]
    mask = np.isin(ARM.v_names, names)
    ways = [names, tuple(names), set(names), mask, mask.tolist()]
    results = [lw.hybrid_dynamics(ARM, Q, V, V, V, prescribed=way) for way in ways]
    assert all(np.array_equal(a, results[0][0]) and np.array_equal(t, results[0][1]) for a, t in results)


def test_a_function_in_a_trace_is_its_body() -> None:
    @lw.model_function(q="nq", v="nv")
    def energy(model: lw.Model, q: Any, v: Any) -> Any:
        return lw.kinetic_energy(model, q, v) + lw.potential_energy(model, q)

    wanted = lw.kinetic_energy(ARM, Q, V) + lw.potential_energy(ARM, Q)
    assert np.isclose(energy(ARM, Q, V), wanted, rtol=1e-14)

    @lw.model_function(q="nq", v="nv", tau="nv")
    def forward(model: lw.Model, q: Any, v: Any, tau: Any) -> Any:
        return lw.forward_dynamics(model, q, v, tau)

    assert np.allclose(forward(ARM, Q, V, V), lw.forward_dynamics(ARM, Q, V, V), rtol=1e-11)


def test_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(lw.forward_dynamics)) is lw.forward_dynamics


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lw.hybrid_dynamics(ARM, Q, V, V, V, prescribed=None), "prescribed must be names"),
        (lambda: lw.frame_pose(ARM, Q, frame=["tool"]), "no frame named"),
        (lambda: lw.inverse_dynamics(ARM, Q, V, V, dtype="float16"), "dtype must be one of"),
        (lambda: lw.compile(lw.inverse_dynamics, ARM, optional="f_extra"), "no optional array 'f_extra'"),
        (lambda: lw.model_function(q="nqq")(lambda model, q: q), "'nqq'; known are nq, nv, nv_spanning, bodies"),
        (lambda: lw.model_function(x="nq")(lambda model, q: q), "shapes are given for"),
    ],
)
def test_mistakes_are_told(call: Any, words: str) -> None:
    with pytest.raises(lw.LinkworkError, match=words):
        call()


def test_optional_arrays_by_one_name() -> None:
    kernel = lw.compile(lw.inverse_dynamics, ARM, optional="f_ext")
    assert [a.name for a in kernel.inputs] == ["q", "v", "a", "f_ext"]


def test_springs_of_a_ball_must_be_equal() -> None:
    def build(**springs: Any) -> lw.Model:
        builder = lw.ModelBuilder().add_body("ball", mass=1.0, inertia=(1, 1, 1))
        return builder.add_joint("socket", lw.joints.Spherical(), parent="world", child="ball", **springs).build()

    assert build(stiffness=2.0).joints[0].stiffness == (2.0, 2.0, 2.0)
    for springs in ({"stiffness": (1, 2, 3)}, {"stiffness": 1.0, "rest": (0.1, 0, 0)}):
        with pytest.raises(lw.ModelError, match="must be equal and at rest"):
            build(**springs)


def test_a_report_cannot_move_the_cursor() -> None:
    builder = lw.ModelBuilder("a\x9b31mb").add_body("x\x1b[2J", mass=1.0, inertia=(1, 1, 1))
    model = builder.add_joint("j\x07", lw.joints.Revolute(), parent="world", child="x\x1b[2J").build()
    assert all(sign.isprintable() or sign == "\n" for sign in model.report())
