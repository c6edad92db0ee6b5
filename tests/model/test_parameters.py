"""Parameters of a model as inputs: the same numbers as a model that is rebuilt from them, for one state and
for batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LinkworkError, ModelError, ShapeError
from linkwork.model import Model

INERTIAL = ("mass", "center", "inertia")


def others(model: Model, rng: np.random.Generator, *names: str) -> dict[str, np.ndarray]:
    """Other numbers for some parameters, none of them zero, with which the model can exist."""
    found = {}
    for name, x in model.parameters().items():
        if name not in names:
            continue
        y = x + 0.1 * rng.normal(size=x.shape)
        if name in ("mass", "armature", "damping", "stiffness", "friction"):
            y = np.abs(y) + 0.05
        if name == "inertia":
            root = 0.3 * rng.normal(size=(len(x), 3, 3)) + np.eye(3)
            J = np.einsum("bij,bkj->bik", root, root) * (
                0.02 + np.abs(x).max()
            )  # second moments: any of them can exist
            A = np.trace(J, axis1=1, axis2=2)[:, None, None] * np.eye(3) - J
            y = np.stack([A[:, i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], axis=-1)
        found[name] = y
    return found


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= tolerance * max(1.0, np.abs(b).max(initial=0.0)))


def sprung(model: Model) -> Model:
    """With springs, so that stiffness counts; only where joints have them."""
    p = model.parameters()
    free = np.concatenate([np.full(j.nv, j.kind.springs == "each") for j in model.joints])
    return model.with_parameters({"stiffness": np.where(free, 1.5, 0.0), "damping": p["damping"] + 0.2})


TREES = ("arm", "quadruped", "humanoid")
LOOPED = ("four_bar", "five_bar", "mit_humanoid_leg")
FUNCTIONS = (
    "forward_dynamics",
    "inverse_dynamics",
    "mass_matrix",
    "kinetic_energy",
    "potential_energy",
    "bias_force",
)


def arguments(model: Model, name: str, q: Any, v: Any, x: Any) -> tuple[Any, ...]:
    takes = {
        "forward_dynamics": (q, v, x),
        "inverse_dynamics": (q, v, x),
        "kinetic_energy": (q, v),
        "bias_force": (q, v),
    }
    return takes.get(name, (q,))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("robot", ["arm", "quadruped", *LOOPED])
@pytest.mark.parametrize(
    "names",
    [
        ("mass",),
        INERTIAL,
        ("gravity",),
        ("armature", "damping"),
        (*INERTIAL, "gravity", "armature", "damping", "friction"),
    ],
    ids=" ".join,
)
def test_the_same_as_a_model_rebuilt_from_them(robot: str, names: tuple[str, ...]) -> None:
    """On the interpreter's own floats, for every function: no kernel is compiled."""
    model = getattr(lw.robots, robot)()
    rng = np.random.default_rng(4)
    values = others(model, rng, *names)
    rebuilt = model.with_parameters(values)
    assert rebuilt.v_names == model.v_names
    q, v = model.random_state(rng)
    x = rng.normal(size=model.nv)
    for function in FUNCTIONS:
        program = getattr(lw, function).program(model, parameters=names)
        assert [a.name for a in program.inputs][-len(names) :] == list(names)
        given = (*arguments(model, function, q, v, x), *(values[n] for n in names))
        found = lw.interpret(lw.lower(program, "float64"), *given)
        plain = lw.lower(getattr(lw, function).program(rebuilt), "float64")
        expected = lw.interpret(plain, *arguments(model, function, q, v, x))
        assert close(found, expected, 1e-11), function


@pytest.mark.parametrize("robot", ["arm", "four_bar"])
def test_placements_ratios_and_springs(robot: str) -> None:
    model = sprung(getattr(lw.robots, robot)())
    rng = np.random.default_rng(5)
    values = others(model, rng, "stiffness") | {"placement": model.parameters()["placement"]}
    values["placement"] = values["placement"] * [
        1.0,
        1.0,
        1.0,
        3.0,
        3.0,
        3.0,
        3.0,
    ]  # quaternions of any length
    if not model.loops:
        values["placement"][:, :3] += 0.1 * rng.normal(size=(len(model.joints), 3))
    rebuilt = model.with_parameters(values)
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    found = lw.forward_dynamics(model, q, v, tau, parameters=values)
    assert close(found, lw.forward_dynamics(rebuilt, q, v, tau), 1e-11)
    assert close(lw.forward_kinematics(model, q, parameters=values), lw.forward_kinematics(rebuilt, q))


def test_gear_ratios_as_inputs() -> None:
    """A rotor that turns faster: what was lumped for its own ratio is not, and the motion is that of the
    other gear.
    """
    model = lw.robots.mit_humanoid_leg()
    rng = np.random.default_rng(6)
    ratio = model.parameters()["ratio"]
    values = {"ratio": ratio * np.where(np.abs(ratio) == 1.0, 1.0, 1.25)}
    rebuilt = model.with_parameters(values)
    q, v = rebuilt.random_state(rng)
    tau = rng.normal(size=model.nv)
    assert not close(lw.forward_dynamics(model, q, v, tau), lw.forward_dynamics(rebuilt, q, v, tau), 1e-3)
    assert close(
        lw.forward_dynamics(model, q, v, tau, parameters=values),
        lw.forward_dynamics(rebuilt, q, v, tau),
        1e-10,
    )
    closed, left = lw.close_loops(model, model.neutral() + 0.1, parameters=values)
    assert left < 1e-12 and close(lw.close_loops(rebuilt, closed)[0], closed)


def with_other_loops(kind: str) -> tuple[Model, Model, dict[str, np.ndarray]]:
    """A model, the same rebuilt with other numbers for its loops, and these; of `scissor_lift` two clusters
    are one family.
    """
    if kind == "ratio":
        model = lw.robots.mit_humanoid_leg()
        factor = np.array(1.25)
    else:
        model = lw.robots.scissor_lift(2)
        factor = np.array([1.02, 1.02, 1.02, 1.0, 1.0, 1.0, 1.0])
    x = model.parameters()[kind]
    values = {kind: x * np.where(np.abs(x) == 1.0, 1.0, factor) if kind == "ratio" else x * factor}
    return model, model.with_parameters(values), values


@pytest.mark.parametrize("kind", ["ratio", "loop_placement"])
def test_numbers_of_loops_where_other_joints_are_active(kind: str) -> None:
    """Where clusters are described by other independent velocities, their loops keep the numbers that are
    inputs.
    """
    model, rebuilt, values = with_other_loops(kind)
    rng = np.random.default_rng(3)
    q, v = rebuilt.random_state(rng)
    a = rng.normal(size=model.nv)
    ddq = lw.spanning_acceleration(rebuilt, q, v, a)
    tau = rng.normal(size=model.nv_spanning)
    dependent = [name for name in model.v_names_spanning if name not in model.v_names]
    calls: list[Any] = [
        (lw.spanning_hybrid_dynamics, (q, v, ddq, tau), {"prescribed": dependent[: model.nv]}),
        (
            lw.constrained_inverse_dynamics,
            (q, v, a),
            {"constraints": lw.Locked(model.v_names[0]), "actuators": dependent},
        ),
    ]
    d = rng.normal(size=values[kind].shape)
    h = 1e-5
    for function, arrays, options in calls:
        others, right = function(model, *arrays, **options), function(rebuilt, *arrays, **options)
        found = function(model, *arrays, parameters=values, **options)
        assert not all(close(x, y, 1e-4) for x, y in zip(others, right))
        assert all(close(x, y, 1e-8) for x, y in zip(found, right)), function.__name__
        program = lw.lower(lw.jvp(function, model, wrt=kind, **options).program())
        changes = lw.interpret(program, *arrays, values[kind], d)[len(found) :]
        ahead, behind = (
            function(model, *arrays, parameters={kind: values[kind] + s * d}, **options) for s in (h, -h)
        )
        for change, x, y in zip(changes, ahead, behind):
            assert close(change, (x - y) / (2 * h), 1e-5), function.__name__


@pytest.mark.parametrize("robot", ["mini_cheetah", "mit_humanoid_leg"])
def test_the_hinge_of_a_geared_link_elsewhere(robot: str) -> None:
    """Its axis may then be askew to its rotor's: what was lumped since both were parallel is not."""
    model = getattr(lw.robots, robot)()
    rng = np.random.default_rng(6)
    carried = [joint for joint in model.joints if joint.parent != -1 and "rotor" not in joint.name]
    for joint in carried[:4]:
        name = f"placement@{joint.name}"
        values = {name: model.parameters()["placement"][joint.child] + 0.2 * rng.normal(size=7)}
        rebuilt = model.with_parameters(values)
        q, v = rebuilt.random_state(rng)
        a = rng.normal(size=model.nv)
        found = lw.inverse_dynamics(model, q, v, a, parameters=values)
        tau = lw.inverse_dynamics(rebuilt, q, v, a)
        assert close(found, tau, 1e-11)
    program = lw.lower(lw.jvp(lw.kinetic_energy, model, wrt=name).program())
    d = rng.normal(size=7)
    h = 1e-5
    ahead, behind = (lw.kinetic_energy(model, q, v, parameters={name: values[name] + s * d}) for s in (h, -h))
    assert close(lw.interpret(program, q, v, values[name], d)[1], (ahead - behind) / (2 * h), 1e-8)


def test_loops_stay_closed_for_their_own_lengths() -> None:
    model = lw.robots.four_bar()
    rng = np.random.default_rng(7)
    values = {"loop_placement": model.parameters()["loop_placement"]}
    values["loop_placement"][0, 1, 0] *= 0.97  # another length of one bar
    rebuilt = model.with_parameters(values)
    q, v = rebuilt.random_state(rng)
    tau = rng.normal(size=model.nv)
    assert close(
        lw.forward_dynamics(model, q, v, tau, parameters=values),
        lw.forward_dynamics(rebuilt, q, v, tau),
        1e-9,
    )
    moved = lw.integrate(model, q, 0.1 * v, parameters=values)
    assert lw.close_loops(rebuilt, moved)[1] < 1e-12 and lw.close_loops(model, moved)[1] < 1e-12
    assert (
        np.abs(moved - lw.close_loops(model, moved)[0]).max() > 1e-4
    )  # closed for its own lengths, not for the model's


def test_batches_and_broadcasting() -> None:
    model = lw.robots.arm()
    rng = np.random.default_rng(8)
    n = len(model.bodies)
    q, v, tau = (rng.normal(size=(16, model.nv)) for _ in range(3))
    mass = model.parameters()["mass"] * rng.uniform(0.5, 2.0, (16, n))
    gravity = np.array([0.0, 1.0, -9.0])  # one for all rows
    given = {"gravity": gravity, "mass": mass}
    a = lw.forward_dynamics(model, q, v, tau, parameters=given)
    assert a.shape == (16, model.nv)
    for k in (0, 7, 15):
        row = {"mass": mass[k], "gravity": gravity}
        assert np.array_equal(a[k], lw.forward_dynamics(model, q[k], v[k], tau[k], parameters=row))
        rebuilt = model.with_parameters(row)
        assert close(a[k], lw.forward_dynamics(rebuilt, q[k], v[k], tau[k]))
    spread = lw.forward_dynamics(
        model, q[0], v[0], tau[0], parameters={"mass": mass}
    )  # one state, many robots
    assert spread.shape == (16, model.nv) and np.array_equal(
        lw.mass_matrix(model, q, parameters={}), lw.mass_matrix(model, q)
    )


def test_only_those_of_named_bodies_and_joints() -> None:
    model = lw.robots.quadruped()
    rng = np.random.default_rng(9)
    body = model.bodies[3].name
    joint = model.joints[4].name
    q, v = model.random_state(rng)
    tau = rng.normal(size=model.nv)
    values = {f"mass@{body}": 0.7, f"center@{body}": [0.01, 0.02, -0.1], f"damping@{joint}": [0.3]}
    rebuilt = model.with_parameters(values)
    assert (
        rebuilt.bodies[3].mass == 0.7
        and rebuilt.joints[4].damping == (0.3,)
        and rebuilt.bodies[2] == model.bodies[2]
    )
    found = lw.forward_dynamics(model, q, v, tau, parameters=values)
    assert close(found, lw.forward_dynamics(rebuilt, q, v, tau), 1e-11)
    whole = lw.count_operations(lw.forward_dynamics, model, parameters=INERTIAL)["total"]
    one = lw.count_operations(lw.forward_dynamics, model, parameters=[f"{name}@{body}" for name in INERTIAL])[
        "total"
    ]
    assert lw.count_operations(lw.forward_dynamics, model)["total"] < one < 0.5 * whole + 0.5 * one


def test_kernels_and_c_take_them(tmp_path: Any) -> None:
    model = lw.robots.arm()
    kernel = lw.compile(lw.inverse_dynamics, model, parameters=("gravity", "mass"), wait=True)
    assert [a.name for a in kernel.inputs] == [
        "q",
        "v",
        "a",
        "gravity",
        "mass",
    ]  # in the order in which they were asked for
    q, v, a = np.random.default_rng(1).normal(size=(3, model.nv))
    p = model.parameters()
    assert close(kernel(q, v, a, p["gravity"], p["mass"]), lw.inverse_dynamics(model, q, v, a))
    export = lw.export_c(lw.inverse_dynamics, model, tmp_path, parameters=("mass@" + model.bodies[0].name,))
    assert f"mass_of_{model.bodies[0].name}" in export.header.read_text()


@pytest.mark.parametrize("robot", ["arm", "four_bar", "mit_humanoid_leg"])
def test_the_parameters_of_a_model_are_inputs_as_they_are(robot: str) -> None:
    """Kinds without entries, such as "ratio" where there are no couplings, are left out, and refused by name."""
    model = getattr(lw.robots, robot)()
    q, v = model.random_state(0)
    p = model.parameters()
    assert close(lw.mass_matrix(model, q, parameters=p), lw.mass_matrix(model, q))
    assert ("ratio" in p, "loop_placement" in p) == (robot == "mit_humanoid_leg", robot == "four_bar")
    for name, owners in {"ratio": "couplings", "loop_placement": "loop joints"}.items():
        for values in ([], np.zeros((0, 2, 7))) if name not in p else ():
            with pytest.raises(ModelError, match=f"parameter '{name}': .* has no {owners}"):
                lw.mass_matrix(model, q, parameters={name: values})
            with pytest.raises(ModelError, match=f"parameter '{name}': .* has no {owners}"):
                lw.rollout(model, q, v, dt=1e-3, steps=1, parameters={name: values})


def test_they_go_there_and_back() -> None:
    for robot in (*TREES, *LOOPED):
        model = getattr(lw.robots, robot)()
        p = model.parameters()
        again = model.with_parameters(p).parameters()
        assert set(p) == set(again) and all(close(again[name], p[name]) for name in p), robot
        n = len(model.bodies)
        nv = model.nv_spanning
        shapes = {
            "mass": (n,),
            "center": (n, 3),
            "inertia": (n, 6),
            "gravity": (3,),
            "armature": (nv,),
            "placement": (n, 7),
        }
        assert all(p[name].shape == shape for name, shape in shapes.items())
        assert p["mass"].sum() == pytest.approx(model.mass)


def test_a_function_inside_a_trace_chooses_its_method() -> None:
    """The cheaper one, as it does outside; so does one with parameters."""
    model = lw.robots.arm()

    @lw.model_function(q="nq", v="nv", tau="nv")
    def wrapped(model: Model, q: Any, v: Any, tau: Any) -> Any:
        return lw.forward_dynamics(model, q, v, tau)

    assert lw.count_operations(wrapped, model) == lw.count_operations(lw.forward_dynamics, model)

    @lw.model_function(q="nq", v="nv", tau="nv", g="3")
    def falling(model: Model, q: Any, v: Any, tau: Any, g: Any) -> Any:
        return lw.forward_dynamics(model, q, v, tau, parameters={"gravity": g})

    q, v, tau = np.random.default_rng(2).normal(size=(3, model.nv))
    g = np.array([1.0, 2.0, 3.0])
    assert close(
        falling(model, q, v, tau, g), lw.forward_dynamics(model.with_parameters({"gravity": g}), q, v, tau)
    )


def test_zeros_of_a_model_are_not_zeros_of_its_inputs() -> None:
    """A body without mass, a joint without damping and a place without length: as inputs they may be
    anything.
    """
    b = lw.ModelBuilder("bare")
    b.add_body("one")
    b.add_body("two", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint("a", lw.joints.Revolute((0, 0, 1)), parent="world", child="one")
    b.add_joint("b", lw.joints.Revolute((0, 1, 0)), parent="one", child="two")
    model = b.build()
    rng = np.random.default_rng(3)
    names = (*INERTIAL, "damping", "armature", "placement", "gravity")
    values = others(model, rng, *names)
    q, v, tau = rng.normal(size=(3, 2))
    found = lw.forward_dynamics(model, q, v, tau, parameters=values)
    assert close(found, lw.forward_dynamics(model.with_parameters(values), q, v, tau), 1e-11)


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown": (lambda m, q: lw.mass_matrix(m, q, parameters={"masses": 1.0}), ModelError, "got 'masses'.*mean 'mass'"),
    "no such body": (lambda m, q: lw.mass_matrix(m, q, parameters={"mass@x": 1.0}), ModelError, "no body named 'x'"),
    "twice": (
        lambda m, q: lw.compile(lw.mass_matrix, m, parameters=["mass", "mass@upper_arm"]), ModelError, "is given twice|no body",
    ),
    "not a dict": (lambda m, q: lw.mass_matrix(m, q, parameters=[1.0]), ModelError, "expected a mapping"),
    "shape": (lambda m, q: lw.mass_matrix(m, q, parameters={"mass": np.ones(3)}), ShapeError, "mass"),
    "negative": (lambda m, q: m.with_parameters({"mass": -np.ones(len(m.bodies))}), ModelError, "'mass': expected non-negative"),
    "not finite": (lambda m, q: m.with_parameters({"gravity": [0.0, np.nan, 0.0]}), ModelError, "'gravity': expected finite"),
    "shape of numbers": (lambda m, q: m.with_parameters({"gravity": [0.0, 1.0]}), ShapeError, r"shape \(3,\), got \(2,\)"),
    "gravity of one": (lambda m, q: m.with_parameters({"gravity@x": [0.0, 0.0, 1.0]}), ModelError, "parameter of the whole model"),
    "no rotation": (
        lambda m, q: m.with_parameters({"placement": np.zeros((len(m.joints), 7))}), ModelError, "non-zero quaternion",
    ),
    "text": (lambda m, q: m.with_parameters({"mass": "heavy"}), ModelError, "expected numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    make, kind, told = MISTAKES[name]
    model = lw.robots.arm()
    with pytest.raises(kind, match=told) as caught:
        make(model, model.neutral())
    assert isinstance(caught.value, LinkworkError)


def test_a_link_within_a_body_has_no_parameters_of_its_own() -> None:
    b = lw.ModelBuilder("plated")
    for name in ("arm", "plate"):
        b.add_body(name, mass=1.0, center=[0.1, 0.0, 0.0], inertia=np.eye(3))
    b.add_joint("hinge", lw.joints.Revolute((0, 0, 1)), parent="world", child="arm")
    b.add_joint("bolts", lw.joints.Fixed(), parent="arm", child="plate")
    model = b.build()
    assert lw.mass_matrix(model, [0.0], parameters={"mass@arm": 2.0}).shape == (1, 1)
    for kind, value in (
        ("mass", 2.0),
        ("center", [0.0, 0.0, 0.0]),
        ("inertia", [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
    ):
        with pytest.raises(ModelError, match=f"{kind}@plate: .*rigidly attached to body 'arm'"):
            lw.mass_matrix(model, [0.0], parameters={f"{kind}@plate": value})
