"""Derivatives of public functions with model and options: against differences on the manifold, and against
each other.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

import linkwork as lw
import mechanisms
from linkages import linkage
from linkwork.errors import DifferentiationError, LinkworkError, ModelError
from linkwork.functions.engine.sources import source_of
from linkwork.functions.engine.tangent import rates
from linkwork.mechanism import Actuator


def run(derivative: lw.Derivative, *arrays: Any) -> tuple[np.ndarray, ...]:
    """What a derivative gives, by the interpreter: nothing is compiled."""
    found = lw.interpret(lw.lower(derivative.program()), *arrays)
    return found if isinstance(found, tuple) else (found,)


def richardson(f: Any, step: float = 2e-3) -> np.ndarray:
    """df/ds at s = 0 from differences at four steps, right to about ten digits."""
    table = [(np.asarray(f(h)) - np.asarray(f(-h))) / (2 * h) for h in (step / 2**k for k in range(4))]
    order = 4.0
    while len(table) > 1:
        table = [(order * b - a) / (order - 1.0) for a, b in pairwise(table)]
        order = order * 4.0
    return table[0]


class Case:
    """A function of a model at a point, with its values along directions on the manifold."""

    def __init__(
        self, function: lw.ModelFunction, model: lw.Model, arrays: dict[str, Any], **options: Any
    ) -> None:
        self.function = function
        self.model = model
        self.arrays = arrays
        self.options = options

    def directions(self, wrt: tuple[str, ...], rng: Any) -> list[np.ndarray]:
        return [rng.normal(size=self.model.nv if self.is_q(n) else np.shape(self.arrays[n])) for n in wrt]

    def is_q(self, name: str) -> bool:
        return self.function.shapes.get(name) == "nq"

    def along(self, wrt: tuple[str, ...], directions: list[np.ndarray]) -> list[np.ndarray]:
        """The derivative of every output, from differences."""
        base = self.values({})

        def values(s: float) -> np.ndarray:
            moved = {}
            for name, d in zip(wrt, directions):
                x = self.arrays[name]
                moved[name] = lw.integrate(self.model, x, s * d) if self.is_q(name) else x + s * d
            parts = []
            for k, (b, y) in enumerate(zip(base, self.values(moved))):
                told = f"out{k if len(base) > 1 else ''}" in self.function.configurations
                parts.append(lw.difference(self.model, b, y) if told else y)
            self.shapes = [np.shape(part) for part in parts]
            return np.concatenate([np.ravel(part) for part in parts])

        flat = richardson(values)
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), self.shapes)]

    def values(self, moved: dict[str, Any]) -> tuple[np.ndarray, ...]:
        arrays = {**self.arrays, **moved}
        named = {n: arrays.pop(n) for n in list(arrays) if n not in self.function.shapes}
        found = self.function(self.model, **arrays, parameters=named, **self.options)
        return found if isinstance(found, tuple) else (found,)

    def check(
        self, wrt: tuple[str, ...], seed: int = 0, *, reverse: bool = True, against_differences: bool = True
    ) -> None:
        """jvp against differences; Jacobians and vjp against jvp."""
        rng = default_rng(seed)
        directions = self.directions(wrt, rng)
        ours = [name for name in self.arrays if name in self.function.shapes]
        given = [*(self.arrays[n] for n in ours), *(self.arrays[n] for n in self.arrays if n not in ours)]
        names = {
            "parameters": [n for n in self.arrays if n not in ours],
            "optional": [n for n in ours if n in self.function.optional],
        }
        found = run(lw.jvp(self.function, self.model, wrt=wrt, **names, **self.options), *given, *directions)
        outputs = len(found) // 2
        tangents = found[outputs:]
        if against_differences:
            for a, b in zip(tangents, self.along(wrt, directions), strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-8 * max(1.0, np.abs(b).max(initial=0.0)))

        Js = run(lw.jacobian(self.function, self.model, wrt=wrt, **names, **self.options), *given)
        for k, tangent in enumerate(tangents):
            parts = [
                np.tensordot(J, d, axes=np.ndim(d))
                for J, d in zip(Js[k * len(wrt) : (k + 1) * len(wrt)], directions)
            ]
            np.testing.assert_allclose(
                sum(parts), tangent, rtol=0, atol=1e-10 * max(1.0, np.abs(tangent).max(initial=0.0))
            )
        if reverse:
            bars = [rng.normal(size=t.shape) for t in tangents]
            back = run(lw.vjp(self.function, self.model, wrt=wrt, **names, **self.options), *given, *bars)[
                outputs:
            ]
            ahead = sum(float(np.sum(b * t)) for b, t in zip(bars, tangents))
            behind = sum(float(np.sum(b * d)) for b, d in zip(back, directions))
            assert abs(ahead - behind) <= 1e-10 * max(
                1.0, abs(ahead), *(float(np.abs(b).max(initial=0)) for b in back)
            )


def curved() -> lw.Model:
    """A planar joint and a ball joint on it: q̇ is not v."""
    return mechanisms.make(default_rng(1), [-1, 0], ["planar", "spherical"], fixed=False)


def free() -> lw.Model:
    return mechanisms.make(default_rng(2), [-1, 0], ["free", "revolute"], fixed=False)


def held() -> lw.Model:
    """A four-bar linkage of which a force holds the loop, so that all joints are independent."""
    builder = lw.ModelBuilder("held")
    bar = {"mass": 3.3, "inertia": (0.011, 0.036, 0.043)}
    for name, on, x in (("a", "world", 0.0), ("b", "a", 0.5), ("c", "world", 1.0)):
        builder.add_body(name, **bar)
        builder.add_joint(
            f"to {name}", lw.joints.Revolute((0.0, 0.0, 1.0)), parent=on, child=name, xyz=(x, 0.0, 0.0)
        )
    ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    builder.add_loop(
        "loop", lw.joints.Revolute((0.0, 0.0, 1.0)), predecessor="b", successor="c", embed=False, **ends
    )
    return builder.build()


MODELS = {
    "curved": curved,
    "free": free,
    "four bar": lw.robots.four_bar,
    "slider crank": lw.robots.slider_crank,
    "ball in a function": lambda: linkage("ball in a function"),
}


def point(model: lw.Model, seed: int = 4) -> dict[str, Any]:
    """Arrays of every name, for any public function."""
    rng = default_rng(seed)
    q, v = model.random_state(rng)
    q1 = lw.integrate(model, q, 0.3 * rng.normal(size=model.nv))
    more = {name: rng.normal(size=model.nv) for name in ("a", "tau")}
    spanning = {name: rng.normal(size=model.nv_spanning) for name in ("a_spanning", "tau_spanning")}
    return {
        "q": q,
        "v": v,
        "q0": q,
        "q1": q1,
        "f_ext": rng.normal(size=(len(model.bodies), 6)),
        **more,
        **spanning,
    }


def case(function: lw.ModelFunction, model: lw.Model, optional: tuple[str, ...] = (), **options: Any) -> Case:
    arrays = point(model)
    return Case(function, model, {n: arrays[n] for n in (*function.required, *optional)}, **options)


STATES = [lw.integrate, lw.difference, lw.spanning_velocity, lw.spanning_acceleration, lw.independent_force]
DYNAMICS = [
    lw.inverse_dynamics,
    lw.forward_dynamics,
    lw.mass_matrix,
    lw.center_of_mass,
    lw.momentum,
    lw.kinetic_energy,
]


@pytest.mark.parametrize("function", [*STATES, *DYNAMICS], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["curved", "slider crank"])
def test_against_differences(name: str, function: lw.ModelFunction) -> None:
    case(function, MODELS[name]()).check(function.required)


@pytest.mark.parametrize(
    "name", sorted(n for n in lw.__all__ if isinstance(getattr(lw, n), lw.ModelFunction))
)
@pytest.mark.sweep(2)
def test_every_public_function_has_derivatives(name: str) -> None:
    """By its required arrays, a mass and a placement, where a loop is embedded: the modes agree."""
    function = getattr(lw, name)
    model = lw.robots.four_bar()
    values = {
        "frame": "link3", "prescribed": ("joint1",), "actuators": ("joint2",),
        "constraints": (lw.Connect(frame="link3"),), "frames": ("link3",), "loop": "loop1",
    }  # fmt: skip
    if name == "force_propagator":  # a frame that another carries
        model = lw.robots.chain(2)
        values = {"frame": model.bodies[1].name, "to": model.bodies[0].name}
    if name == "operational_inertia":  # a frame that can move in all directions
        model = lw.robots.chain(6)
        values = {"frames": (model.bodies[-1].name,)}
    if name == "distance":
        model = lw.robots.quadruped()
    if name == "closure_error":  # norms, which have no derivatives where they are zero, as in closed states
        model = lw.robots.bricard()
    options = {
        word: values[word] for word, default in function.options.items() if default is inspect.Parameter.empty
    }
    if name == "distance":
        options["pairs"] = (("front_left_foot", "rear_right_foot"),)
    if name == "actuation":  # the model has no actuators
        servo = Actuator(
            "servo",
            "joint",
            "joint2",
            joints=(("joint2", 1.0),),
            gain=("fixed", (10.0,)),
            bias=("affine", (0.0, -10.0, -0.5)),
        )
        model = replace(model, actuators=(servo,))
    if name == "contact_points":  # the model has no shapes
        options["contacts"] = lw.Contacts(shapes=("link3",))
    arrays = {
        **point(model),
        "x": np.array([0.3, -0.2, 0.5]),
        "dt": np.array(0.01),
        "controls": np.array([0.4]),
    }
    if name == "closure_error":
        arrays["q"] = arrays["q"] + 0.02 * np.arange(1, model.nq + 1)
    now = model.parameters()
    parameters = {
        f"mass@{model.bodies[1].name}": now["mass"][1],
        f"placement@{model.joints[1].name}": now["placement"][1],
    }
    own = {n: arrays[n] for n in function.required}
    made = Case(function, model, {**own, **parameters}, **options)
    made.check((*own, *parameters), against_differences=False)


def test_parameters_are_differentiated_as_arrays_are() -> None:
    model = curved()
    now = model.parameters()
    joint = model.joints[1].name
    arrays = {n: point(model)[n] for n in ("q", "v", "tau")}
    arrays |= {"mass@body1": now["mass"][1], f"damping@{joint}": np.full(3, 0.4), "center": now["center"]}
    Case(lw.forward_dynamics, model, arrays).check(("q", "mass@body1", f"damping@{joint}", "center"))


def test_external_forces() -> None:
    case(lw.inverse_dynamics, lw.robots.slider_crank(), ("f_ext",)).check(("q", "f_ext"))


@pytest.mark.parametrize("name", ["four bar", "slider crank", "ball in a function"])
def test_closing_is_differentiated_at_the_solution(name: str) -> None:
    """From a state that is far from closed; and a step of time is a function of q and v in both modes."""
    model = MODELS[name]()
    rng = default_rng(7)
    q, v = model.random_state(rng)
    exact = (
        name != "ball in a function"
    )  # part of a ball joint is independent there: its steps are not Newton's
    Case(lw.integrate, model, {"q": q, "v": 0.04 * v}).check(("q", "v"))
    moved = q + 0.05 * rng.normal(size=model.nq)

    def by_entries(d: np.ndarray) -> np.ndarray:
        return richardson(lambda s: lw.close_loops(model, moved + s * d)[0])

    program = lw.close_loops.program(model)
    d, bar = rng.normal(size=model.nq), rng.normal(size=model.nq)
    along = lw.interpret(lw.lower(lw.jvp(program, "q")), moved, d)[2]
    np.testing.assert_allclose(along, by_entries(d), atol=1e-8)
    if exact:
        back = lw.interpret(lw.lower(lw.vjp(program, "q")), moved, bar, 0.0)[2]
        assert abs(back @ d - bar @ along) < 1e-10


def test_gradients_by_entries_without_reverse_mode() -> None:
    """As JAX and PyTorch take them: of what changes, and of weights for all entries of a configuration."""
    model = linkage("ball in a function")
    rng = default_rng(8)
    q, v = model.random_state(rng)
    source = source_of(lw.integrate, model, {})
    ahead = source.jvp((0, 1))
    back = source.vjp((0, 1))
    for made in (ahead, back):
        assert [a.shape for a in made.program.inputs] == [a.shape for a in made.inputs]
    d_q = np.asarray(rates(model, q), dtype=float) @ rng.normal(size=model.nv)
    d_v = rng.normal(size=model.nv)
    bar = rng.normal(size=model.nq)
    change = lw.interpret(lw.lower(ahead.program), q, 0.04 * v, d_q, d_v)
    by_q, by_v = lw.interpret(lw.lower(back.program), q, 0.04 * v, bar)
    assert abs(bar @ change - by_q @ d_q - by_v @ d_v) < 1e-10 * np.abs(bar @ change)


def test_a_step_of_time_through_a_loop_in_reverse() -> None:
    @lw.model_function(q="nq", v="nv", tau="nv", configurations=("out0",))
    def step(model: lw.Model, q: Any, v: Any, tau: Any) -> Any:
        after = v + 0.01 * lw.forward_dynamics(model, q, v, tau)
        return lw.integrate(model, q, 0.01 * after), after

    model = lw.robots.slider_crank()
    arrays = {n: point(model)[n] for n in ("q", "v", "tau")}
    made = Case(step, model, arrays)
    made.check(("q", "v", "tau"))


def test_loops_that_forces_hold_leave_all_velocities_free() -> None:
    model = held()
    q = model.random_state(3)[0]
    J = run(lw.jacobian(lw.mass_matrix, model, wrt="q"), q)[0]
    for k, e in enumerate(np.eye(3)):
        np.testing.assert_allclose(
            J[..., k], richardson(lambda s, e=e: lw.mass_matrix(model, q + s * e)), atol=1e-8
        )
    with pytest.raises(
        DifferentiationError, match="through a loop"
    ):  # of a program; a function has Jacobians to fall back on
        lw.vjp(lw.integrate.program(model))
    Case(lw.integrate, model, {"q": q, "v": np.array([0.02, -0.01, 0.03])}).check(
        ("q", "v"), against_differences=False
    )


@pytest.mark.parametrize(
    "function", [lw.integrate, lw.difference, *DYNAMICS, lw.frame_pose], ids=lambda f: f.__name__
)
def test_no_nan_at_rest(function: lw.ModelFunction) -> None:
    """At zero angles, identity rotations, zero velocities and zero motion, in every mode, and twice."""
    model = curved()
    zero = np.zeros(model.nv)
    neutral = model.neutral()
    options = {"frame": "body1"} if function is lw.frame_pose else {}
    arrays = [neutral if function.shapes[n] == "nq" else zero for n in function.required]
    for make in (lw.jvp, lw.vjp, lw.jacobian):
        made = make(function, model, **options)
        program = made.program()
        more = [np.ones(a.shape) for a in program.inputs[len(arrays) :]]
        assert all(np.isfinite(x).all() for x in run(made, *arrays, *more))
        if make is not lw.jacobian and function in (lw.integrate, lw.difference):
            twice = lw.jvp(program)
            found = lw.interpret(lw.lower(twice), *arrays, *more, *(np.ones(a.shape) for a in program.inputs))
            assert all(np.isfinite(x).all() for x in found)


@pytest.mark.parametrize("name", ["curved", "free"])
def test_the_identity_where_nothing_moves(name: str) -> None:
    """The derivative of integrate at zero motion by q and by v is the unit matrix, of difference plus and
    minus that.
    """
    model = MODELS[name]()
    q = model.random_state(5)[0]
    zero = np.zeros(model.nv)
    one = np.eye(model.nv)
    by_q, by_v = run(lw.jacobian(lw.integrate, model), q, zero)
    np.testing.assert_allclose(by_q, one, atol=1e-14)
    np.testing.assert_allclose(by_v, one, atol=1e-14)
    from_, to = run(lw.jacobian(lw.difference, model), q, q)
    np.testing.assert_allclose(from_, -one, atol=1e-14)
    np.testing.assert_allclose(to, one, atol=1e-14)


def test_calls_take_batches_and_say_what_they_take() -> None:
    model = lw.robots.four_bar()
    q, v = (np.stack(x) for x in zip(*(model.random_state(k) for k in range(5))))
    by_q, by_mass = lw.jacobian(lw.forward_dynamics, model, wrt=("q", "mass@link2"))(q, v, v, 3.0)
    assert by_q.shape == (5, 1, 1) and by_mass.shape == (5, 1)
    one = lw.jacobian(lw.forward_dynamics, model, wrt="q")
    np.testing.assert_array_equal(one(q[2], v[2], np.zeros(1)), one(q, v, np.zeros(1))[2])
    named = lw.jvp(lw.forward_dynamics, model, wrt=("q", "mass@link2"))
    assert [a.name for a in named.inputs] == ["q", "v", "tau", "mass_of_link2", "d_q", "d_mass_of_link2"]
    assert [a.shape for a in named.inputs] == [(3,), (1,), (1,), (), (1,), ()]
    a = named(q, v, v, 3.0, v, 1.0)
    b = named(q, v, v, d_q=v, d_mass_of_link2=1.0, parameters={"mass@link2": 3.0})
    c = named(q, v, v, v, 1.0, parameters={"mass@link2": 3.0})
    assert all(np.array_equal(x, y) and np.array_equal(x, z) for x, y, z in zip(a, b, c))
    single = one(*(x.astype("float32") for x in (q, v, 0 * v)), dtype="float32")
    assert single.dtype == np.float32 and np.abs(single - one(q, v, np.zeros(1))).max() < 1e-3
    assert lw.count_operations(one)["total"] == lw.count_operations(one.program())["total"]
    assert lw.compile(one) is one.kernel()


def test_inside_a_trace_it_is_traced() -> None:
    model = lw.robots.chain(2)
    J = lw.jacobian(lw.forward_dynamics, model, wrt=("q", "v"))
    q, v = model.random_state(0)
    A = lw.compile(lambda q, v: np.hstack(J(q, v, np.zeros(2))), {"q": 2, "v": 2})(q, v)
    np.testing.assert_allclose(A, np.hstack(J(q, v, np.zeros(2))), rtol=1e-13)


def test_inside_a_trace_arrays_are_counted() -> None:
    model = lw.robots.chain(2)
    J = lw.jacobian(lw.forward_dynamics, model, wrt="q")
    calls = [lambda q: J(q, q), lambda q: J(q, q, q, q), lambda q: J(q, q, tao=q), lambda q: J(q, q, q, v=q)]
    for call in calls:
        with pytest.raises(TypeError, match="takes the arrays q, v, tau"):
            lw.trace(call, {"q": 2})


def test_found_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """An equal model, and an equal derivative, find the kernel without tracing; another choice does not."""

    def model() -> lw.Model:
        return lw.robots.chain(2).with_parameters({"mass": np.array([1.5, 2.5])})

    q, v = model().random_state(0)
    first = lw.vjp(lw.forward_dynamics, model(), wrt=("q", "v"))
    found = first(q, v, v, v)
    keep = first.kernel()  # kernels live as long as somebody has them

    def refuse(*_: Any) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(lw.ModelFunction, "program_of", refuse)
    again = lw.vjp(lw.forward_dynamics, model(), wrt=("q", "v"))(q, v, v, v)
    assert all(np.array_equal(a, b) for a, b in zip(found, again)) and keep.name == "forward_dynamics_vjp"
    for other in (("v", "q"), "q"):
        with pytest.raises(AssertionError, match="traced again"):
            lw.vjp(lw.forward_dynamics, model(), wrt=other)(q, v, v, v)


@pytest.mark.parametrize("name", ["chain", "quadruped", "loop"])
def test_a_gradient_costs_less_than_four_evaluations(name: str) -> None:
    model = {
        "chain": lambda: lw.robots.chain(7),
        "quadruped": lw.robots.quadruped,
        "loop": lw.robots.four_bar,
    }[name]()
    once = lw.count_operations(lw.forward_dynamics, model)["total"]
    assert lw.count_operations(lw.vjp(lw.forward_dynamics, model))["total"] <= 3 * once


# the seams


def test_newtons_loops_have_the_derivative_of_their_solution() -> None:
    """The root of x³ + a x = b from a start of its own, in few steps and in both modes; the start does not
    matter.
    """

    def root(newton: int) -> lw.Program:
        def f(a: Any, b: Any, x: Any) -> Any:
            def step(x: Any) -> tuple[Any, Any]:
                move = (x * x * x + a * x - b) / (3.0 * x * x + a)
                return x - move, lw.absolute(move) > 1e-13

            return lw.loop(step, x, limit=40, newton=newton)

        return lw.trace(f, {"a": (), "b": (), "x": ()})

    a = 2.0
    b = 5.0
    _, da, db, dx = lw.interpret(lw.lower(lw.vjp(root(1))), a, b, 1.0, 1.0)
    x = lw.interpret(lw.lower(root(1)), a, b, 1.0)
    np.testing.assert_allclose(
        [da, db, dx], np.array([-x, 1.0, 0.0]) / (3 * x * x + a) * [1, 1, 0], atol=1e-14
    )
    _, ahead = lw.interpret(lw.lower(lw.jvp(root(1))), a, b, 1.0, 1.0, 0.0, 7.0)
    np.testing.assert_allclose(ahead, da, atol=1e-14)
    second = lw.jvp(lw.jacobian(root(1), "out", "b"), "b")  # x'' = -6 x x'² / (3 x² + a)
    *_, bent = lw.interpret(lw.lower(second), a, b, 1.0, 1.0)
    np.testing.assert_allclose(bent, -6 * x * db**2 / (3 * x * x + a), rtol=1e-12)
    with pytest.raises(DifferentiationError, match="through a loop"):
        lw.vjp(root(0))


def test_a_function_carries_its_own_rule() -> None:
    """The rule is used for what it covers; a wrong one shows that it is."""

    @lw.model_function(q="nq", v="nv")
    def settled(model: lw.Model, q: Any, v: Any) -> Any:
        return lw.loop(lambda x: (0.5 * (x + q / x), x[0] > 0.0), v, limit=30)  # q^(1/2), slowly

    @settled.derivative("q", "v")
    def _(model: lw.Model, q: Any, v: Any) -> Any:
        return np.diag(0.5 / lw.sqrt(q)), np.zeros((2, 2))

    model = lw.robots.chain(2)
    q, v = np.array([2.0, 3.0]), np.ones(2)
    np.testing.assert_allclose(lw.jacobian(settled, model, wrt="q")(q, v), np.diag(0.5 / np.sqrt(q)))
    out, by_q, by_v = lw.vjp(settled, model)(q, v, np.array([1.0, 2.0]))
    np.testing.assert_allclose(out, np.sqrt(q))
    np.testing.assert_allclose(by_q, np.array([0.5, 1.0]) / np.sqrt(q))
    assert not by_v.any()
    with pytest.raises(LinkworkError, match="no array 'x'"):
        settled.derivative("x")


# errors


def test_errors_name_what_is_wrong() -> None:
    model = lw.robots.chain(2)
    with pytest.raises(DifferentiationError, match=r"no array or parameter 'w'.*arrays are q, v, tau, f_ext"):
        lw.jacobian(lw.forward_dynamics, model, wrt="w")
    with pytest.raises(ModelError, match="link9"):
        lw.jvp(lw.forward_dynamics, model, wrt="mass@link9")
    with pytest.raises(DifferentiationError, match="no output 'out7'"):
        lw.jacobian(lw.forward_dynamics, model, wrt="q", output="out7").program()
    with pytest.raises(DifferentiationError, match="a function and its model; other arguments by name"):
        lw.vjp(lw.forward_dynamics)
    with pytest.raises(DifferentiationError, match="other arguments by name"):
        lw.vjp(lw.forward_dynamics, model, "q")
    with pytest.raises(DifferentiationError, match="takes a program, or a function of a model"):
        lw.jvp(np.sin, model)
    with pytest.raises(TypeError, match="no option 'frame'"):
        lw.jvp(lw.forward_dynamics, model, frame="tool")
    with pytest.raises(ModelError, match="expected a model"):
        lw.jvp(lw.forward_dynamics, 3)
    with pytest.raises(LinkworkError, match="parameters mass"):
        lw.jvp(lw.forward_dynamics, model, wrt="mass")(1, 2, 3, 4, parameters={"gravity": 1.0})
    with pytest.raises(TypeError, match=r"by q> has no input f_ext: request it with optional=\('f_ext',\)"):
        lw.jacobian(lw.forward_dynamics, model, wrt="q")(1, 2, 3, f_ext=4)
    with pytest.raises(DifferentiationError, match="expected a name or several"):
        lw.jvp(lw.forward_dynamics, model, wrt=())


def test_models_that_cannot_move() -> None:
    builder = lw.ModelBuilder("rock").add_body("rock", mass=1.0)
    model = builder.add_joint("fast", lw.joints.Fixed(), parent="world", child="rock").build()
    assert lw.jacobian(lw.potential_energy, model, wrt="q")(np.zeros(0)).shape == (0,)
