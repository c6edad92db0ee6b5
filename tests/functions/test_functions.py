"""Functions of a model, beyond what they compute: words, options, traces, pickles."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime.build import build_on

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
        (lambda: lw.hybrid_dynamics(ARM, Q, V, V, V, prescribed=None), "prescribed: expected names"),
        (lambda: lw.frame_pose(ARM, Q, frame=[["tool"]]), "no frame named"),
        (lambda: lw.inverse_dynamics(ARM, Q, V, V, dtype="float16"), "dtype: expected one of"),
        (lambda: lw.compile(lw.inverse_dynamics, ARM, optional="f_extra"), "no optional array 'f_extra'"),
        (
            lambda: lw.model_function(q="nqq")(lambda model, q: q),
            "'nqq'; known are nq, nv, nv_spanning, bodies",
        ),
        (lambda: lw.model_function(x="nq")(lambda model, q: q), "shapes are given for"),
    ],
)
def test_mistakes_are_told(call: Any, words: str) -> None:
    with pytest.raises(lw.LinkworkError, match=words):
        call()


@pytest.mark.parametrize("first", [True, False])
def test_arguments_that_are_no_arrays_are_named(first: bool) -> None:
    """Also by the very first call, and by options."""
    model = lw.robots.arm()
    if not first:
        lw.inverse_dynamics(model, Q, V, V)
    with pytest.raises(lw.ShapeError, match="inverse_dynamics: v is not an array"):
        lw.inverse_dynamics(model, Q, [1.0, [2.0, 3.0]], V)
    with pytest.raises(lw.ShapeError, match="inverse_dynamics: a is not an array"):
        lw.inverse_dynamics(model, Q, V, a=[V, V[:3]])
    with pytest.raises(lw.DtypeError, match="inverse_dynamics: q is a masked array"):
        lw.inverse_dynamics(model, np.ma.array(Q, mask=Q > 0), V, V)
    with pytest.raises(lw.DtypeError, match="inverse_dynamics: a is a masked array"):
        lw.inverse_dynamics(model, [Q, Q], V, np.ma.array([V, V]))
    with pytest.raises(TypeError):
        lw.inverse_dynamics(model, Q, V, V, None, np.zeros(ARM.nv))


def test_options_that_are_no_numbers_are_named() -> None:
    def least(weights: Any) -> Any:
        return lw.actuator_force(ARM, Q, V, actuators=[j.name for j in ARM.joints], weights=weights)

    hold = [lw.Weld("tool")]
    cases: list[tuple[str, Any]] = [
        ("weights", lambda: least([1.0, [2.0]])),
        ("weights", lambda: least("heavy")),
        ("compliance", lambda: lw.delassus(ARM, Q, constraints=hold) is lw.damped_delassus_inverse(
            ARM, Q, constraints=hold, compliance=[1.0, [2.0]])),
        ("compliance", lambda: lw.damped_delassus_inverse(ARM, Q, constraints=hold, compliance="soft")),
        ("restitution", lambda: lw.impact(ARM, Q, V, constraints=hold, restitution=[[1.0], 2.0, None])),
    ]  # fmt: skip
    for name, call in cases:
        with pytest.raises(lw.ModelError, match=f"{name}: expected"):
            call()


def test_options_that_are_not_true_or_false_are_named() -> None:
    """A word would count as true: packed="no" as packed."""
    hold = [lw.Weld("tool")]
    cases: list[tuple[str, Any]] = [
        ("mass_matrix: packed", lambda: lw.mass_matrix(ARM, Q, packed="no")),
        ("mass_matrix: packed", lambda: lw.compile(lw.mass_matrix, ARM, packed=[True])),
        (
            "frame_acceleration: classical",
            lambda: lw.frame_acceleration(ARM, Q, V, V, frame="tool", classical="no"),
        ),
        (
            "constrained_dynamics: details",
            lambda: lw.constrained_dynamics(ARM, Q, V, V, constraints=hold, details=None),
        ),
        ("innovations_product: inverse", lambda: lw.jvp(lw.innovations_product, ARM, inverse=2)),
        ("step: differentiable", lambda: lw.step(ARM, Q, V, V, 0.01, differentiable="yes")),
    ]
    for name, call in cases:
        with pytest.raises(lw.ModelError, match=f"{name}: expected True or False, got"):
            call()
    assert lw.mass_matrix(ARM, Q, packed=np.True_).ndim == 1


def test_what_shall_be_least_is_a_word() -> None:
    for call in (
        lambda: lw.constrained_inverse_dynamics(
            ARM, Q, V, V, constraints=lw.Weld("tool"), minimize=["torque"]
        ),
        lambda: lw.spanning_hybrid_dynamics(ARM, Q, V, V, V, prescribed=[], minimize=["torque"]),
    ):
        with pytest.raises(lw.ModelError, match=r"minimize: expected one of torque, constraint_force"):
            call()


def test_an_exception_that_an_argument_raises_is_not_lost() -> None:
    """Such as that of a signal's handler, which may come in any line: the call is not tried again."""
    calls = []

    class Once(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("the time is up")
            return np.zeros(3)

    lw.inverse_dynamics(ARM, Q, V, V)
    with pytest.raises(ValueError, match="the time is up"):
        lw.inverse_dynamics(ARM, Q.view(Once), V, V)
    assert len(calls) == 1


# models that cannot move


def bolted() -> lw.Model:
    builder = lw.ModelBuilder().add_body("block", mass=2.0, inertia=(1, 1, 1))
    return builder.add_joint("bolt", lw.joints.Fixed(), parent="world", child="block").build()


@lw.model_function(q="nq", v="nv", x="3")
def scaled(model: lw.Model, q: Any, v: Any, x: Any) -> tuple[Any, Any]:
    return lw.center_of_mass(model, q)[2] * x + 1.0 if model.nq else 0.1 * x + 1.0, v


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)])
def test_a_model_that_cannot_move_answers_in_batches(dtype: str, batch: tuple[int, ...]) -> None:
    model, z = bolted(), np.zeros((*batch, 0), dtype)
    energy = lw.potential_energy(model, z, dtype=dtype)
    wanted = np.full(batch, lw.potential_energy(model, [])).astype(dtype)
    assert np.asarray(energy).dtype == dtype and np.array_equal(energy, wanted)
    assert lw.mass_matrix(model, z, dtype=dtype).shape == (*batch, 0, 0)
    assert (
        lw.mass_matrix(model, z.astype(float), dtype=dtype).dtype == dtype
    )  # no number is there to lose digits
    out = np.full((*batch, 0), 7.0)
    assert lw.inverse_dynamics(model, z, z, z, dtype=dtype, out=out) is out
    out = np.full((*batch,), 7.0, dtype)
    assert lw.potential_energy(model, z, dtype=dtype, out=(out,), threads=3) is out and np.array_equal(
        out, wanted
    )
    x = np.arange(3.0, dtype=dtype) * np.ones((*batch, 1), dtype)
    first, second = lw.compile(scaled, model, dtype=dtype)(z, z[..., :0], x=x)
    moving = lw.compile(lambda x: 0.1 * x + 1.0, {"x": 3}, dtype=dtype)(x)
    assert first.tobytes() == moving.tobytes() and first.shape == x.shape and second.shape == (*batch, 0)


Z = np.zeros(0)


@pytest.mark.parametrize(
    ("args", "options", "error", "words"),
    [
        ((Z, Z), {}, TypeError, "a"),
        ((Z, Z, Z, None, Z), {}, TypeError, "got 5 arrays"),
        ((Z, Z, Z), {"b": Z}, TypeError, "'b'"),
        (
            (Z, np.zeros(2), Z),
            {},
            lw.ShapeError,
            r"inverse_dynamics: v: expected shape \(\.\.\., 0\), got \(2,\)",
        ),
        ((Z, 1.0, Z), {}, lw.ShapeError, "inverse_dynamics: v: expected shape"),
        ((Z, [[], [1.0]], Z), {}, lw.ShapeError, "inverse_dynamics: v is not an array"),
        (
            (np.zeros((2, 0)), np.zeros((3, 0)), Z),
            {},
            lw.ShapeError,
            r"broadcast: q \(2,\), v \(3,\), a \(\)",
        ),
        ((Z, Z.astype(complex), Z), {}, lw.DtypeError, "v: expected dtype .*, got complex128"),
        ((Z, Z, None), {}, lw.DtypeError, "a: expected dtype .*, got object"),
        ((Z, np.ma.array(Z), Z), {}, lw.DtypeError, "v is a masked array"),
        ((Z, Z, Z), {"out": np.zeros(1)}, lw.ShapeError, r"output out: expected shape \(0,\), got \(1,\)"),
        ((Z, Z, Z), {"out": np.zeros((2, 0))}, lw.ShapeError, "output out: expected shape"),
        ((Z, Z, Z), {"out": []}, lw.DtypeError, "output out: expected a NumPy array, got list"),
        ((Z, Z, Z), {"out": (Z, Z)}, lw.ShapeError, r"out: expected a tuple of 1 arrays \(out\)"),
        (
            (Z, Z, Z),
            {"out": np.zeros(0, int)},
            lw.DtypeError,
            "output out: expected dtype float64, got int64",
        ),
        ((Z, Z, Z), {"out": np.broadcast_to(1.0, 0)}, lw.DtypeError, "output out is read-only"),
        (
            (Z, Z, Z),
            {"threads": -1},
            lw.LinkworkError,
            "threads: expected an integer >= 1, got -1",
        ),
        ((Z, Z, Z), {"threads": "x"}, lw.LinkworkError, "threads: expected an integer"),
    ],
)
def test_a_model_that_cannot_move_refuses_as_others_do(
    args: Any, options: Any, error: type[Exception], words: str
) -> None:
    model = bolted()
    for _ in range(2):
        with pytest.raises(error, match=words) as found:
            lw.inverse_dynamics(model, *args, **options)
        assert type(found.value) is error


def test_kernels_of_models_that_cannot_move_have_the_interface() -> None:
    model = bolted()
    kernel = lw.compile(lw.forward_kinematics, model, wait=True)
    assert isinstance(kernel, lw.Kernel) and kernel.wait() is kernel and "forward_kinematics" in repr(kernel)
    with pytest.raises(TypeError, match="'tau'"):
        lw.compile(lw.forward_dynamics, model)(Z, Z)
    with pytest.raises(TypeError, match="positional argument"):
        lw.compile(lw.potential_energy, model)(Z, np.zeros(()))
    call = lw.compile(scaled, model).bind()
    call.inputs["x"] = np.arange(3.0)
    assert (
        call()[0].tolist() == scaled(model, Z, Z, np.arange(3.0))[0].tolist()
        and call()[0] is call.outputs["out0"]
    )


def test_a_function_in_code_without_a_module() -> None:
    """As in exec(text, {}), templates and notebooks of one's own."""
    scope: dict[str, Any] = {"lw": lw}
    exec(
        "@lw.model_function(q='nq')\ndef twice(model, q): return 2.0 * q\n"
        "thrice = lw.model_function(q='nq')(lambda model, q: 3.0 * q)\n",
        scope,
    )
    assert scope["twice"].__module__ is None
    for model in (ARM, bolted()):
        q = np.arange(float(model.nq))
        assert scope["twice"](model, q).tolist() == (2.0 * q).tolist()
        assert scope["thrice"](model, q).tolist() == (3.0 * q).tolist()


def test_optional_arrays_by_one_name() -> None:
    kernel = lw.compile(lw.inverse_dynamics, ARM, optional="f_ext")
    assert [a.name for a in kernel.inputs] == ["q", "v", "a", "f_ext"]


def test_springs_of_a_ball_must_be_equal() -> None:
    def build(**springs: Any) -> lw.Model:
        builder = lw.ModelBuilder().add_body("ball", mass=1.0, inertia=(1, 1, 1))
        return builder.add_joint(
            "socket", lw.joints.Spherical(), parent="world", child="ball", **springs
        ).build()

    assert build(stiffness=2.0).joints[0].stiffness == (2.0, 2.0, 2.0)
    for springs in ({"stiffness": (1, 2, 3)}, {"stiffness": 1.0, "rest": (0.1, 0, 0)}):
        with pytest.raises(lw.ModelError, match="expected equal numbers and zero rest"):
            build(**springs)


def test_a_report_cannot_move_the_cursor() -> None:
    builder = lw.ModelBuilder("a\x9b31mb").add_body("x\x1b[2J", mass=1.0, inertia=(1, 1, 1))
    model = builder.add_joint("j\x07", lw.joints.Revolute(), parent="world", child="x\x1b[2J").build()
    assert all(sign.isprintable() or sign == "\n" for sign in model.report())


@pytest.mark.parametrize("target", ["gpu", "CPU", "", None, ["cpu"], 3])
def test_an_unknown_target_is_refused_everywhere(target: Any) -> None:
    model, still = ARM, bolted()
    derivative = lw.jacobian(lw.mass_matrix, model, wrt="q")
    program = lw.trace(lambda x: 2.0 * x, {"x": 3})
    calls = [
        lambda: lw.forward_dynamics.kernel(model, target=target),
        lambda: lw.potential_energy.kernel(still, target=target),
        lambda: derivative.kernel(target=target),
        *(lambda source=source: lw.compile(source, target=target) for source in (program, derivative)),
        lambda: lw.compile(lw.forward_dynamics, model, target=target),
        lambda: lw.compile(lw.potential_energy, still, target=target),
        lambda: build_on(target, None, lambda: program, "float64"),
    ]
    for call in calls:
        with pytest.raises(lw.TargetError, match="target: expected one of cpu, cuda.*, got "):
            call()
