"""Derivatives of dynamics on the tangent space: against differences with 60 digits, against Pinocchio, and by
laws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.loops.closing import integrate_tree, tree_motion
from linkwork.algorithms.loops.embedded_derivatives import position_rates
from linkwork.algorithms.tree import lie_derivatives as lie
from linkwork.joints import Fixed, Free, Revolute, Spherical
from linkwork.sko.prepare.frames import without_lumping
from linkwork.sko.tree import model_tree
from mechanisms import KINDS, make, random_model, state_of
from mp_interpret import mp_interpret, mpf
from polar_joint import Polar

H = mpf(10) ** -20


def ours(
    fn: lw.ModelFunction, model: lw.Model, *args: np.ndarray, f_ext: np.ndarray | None = None, **options: Any
) -> Any:
    """A public function by the interpreter, which gives the same bits as its kernel, and sooner."""
    more = {} if f_ext is None else {"optional": ("f_ext",)}
    return lw.interpret(
        lw.lower(fn.program(model, **more, **options)), *args, *([] if f_ext is None else [f_ext])
    )


def in_60_digits(program: lw.Program, *args: Any) -> np.ndarray:
    named = {array.name: x for array, x in zip(program.inputs, args, strict=True)}
    return np.concatenate([x.ravel() for x in mp_interpret(program, named).values()])


def by_differences(
    fn: lw.ModelFunction,
    model: lw.Model,
    q: np.ndarray,
    *args: np.ndarray,
    f_ext: np.ndarray | None = None,
    **options: Any,
) -> list[np.ndarray]:
    """∂/∂q on the tangent space, and the derivatives by all further arrays but f_ext."""
    more = {} if f_ext is None else {"optional": ("f_ext",)}
    program = fn.program(model, **more, **options)
    move = lw.trace(
        lambda q, v: integrate_tree(model, q, tree_motion(model, q, v)), {"q": model.nq, "v": model.nv}
    )  # loops stay closed to O(H²)
    given = [q, *args, *([] if f_ext is None else [f_ext])]
    found = []
    for place in range(1 + len(args)):
        columns = []
        for e in np.eye(model.nv):
            ends = []
            for step in (H, -H):
                x: list[Any] = list(given)
                x[place] = in_60_digits(move, q, e * step) if place == 0 else x[place] + e * step
                ends.append(in_60_digits(program, *x))
            columns.append((ends[0] - ends[1]) / (2 * H))
        found.append(np.array(columns).astype(float).T)
    return found


def off(found: Any, right: Any) -> float:
    """The largest error, relative to the largest number of each matrix (1, if that is less)."""
    return max(
        float(np.abs(x - y).max() / max(1.0, np.abs(y).max())) for x, y in zip(found, right, strict=True)
    )


def one_of(kind: str) -> lw.Model:
    """A chain and a branch with a joint of some kind in the middle, with springs, dampers and armatures."""
    return make(
        np.random.default_rng(7),
        [-1, 0, 1, 1],
        ["skew revolute", kind, "revolute", "skew prismatic"],
        fixed=False,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sweep(3)
def test_inverse_dynamics_of_every_joint(kind: str) -> None:
    model = one_of(kind)
    q, v, a, _, f_ext = state_of(model, np.random.default_rng(1))
    found = ours(lw.inverse_dynamics_derivatives, model, q, v, a, f_ext=f_ext)
    assert off(found, by_differences(lw.inverse_dynamics, model, q, v, a, f_ext=f_ext)) < 1e-12
    assert np.array_equal(found[2], found[2].T)


@pytest.mark.parametrize("kind", ["revolute", "gimbal", "free", "skew planar"])
def test_forward_dynamics_of_joints_on_the_ground(kind: str) -> None:
    model = make(np.random.default_rng(2), [-1, 0, 0], [kind, "skew revolute", "universal"], fixed=False)
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(3))
    found = ours(lw.forward_dynamics_derivatives, model, q, v, tau, f_ext=f_ext)
    assert (
        off(
            found,
            by_differences(lw.forward_dynamics, model, q, v, tau, f_ext=f_ext, method="articulated_body"),
        )
        < 1e-10
    )
    assert np.array_equal(found[2], found[2].T)


def with_polar() -> lw.Model:
    b = lw.ModelBuilder("polar")
    for k, (kind, on) in enumerate(((Polar(), "world"), (Polar(), "body0"), (Spherical(), "body1"))):
        b.add_body(f"body{k}", mass=1.0 + k, center=(0.1, -0.2, 0.3), inertia=(0.2, 0.25, 0.3))
        stiff = {"stiffness": np.full(kind.nv, 3.0), "damping": np.full(kind.nv, 0.5)}
        b.add_joint(
            f"joint{k}",
            kind,
            parent=on,
            child=f"body{k}",
            xyz=(0.1 * k, 0.2, -0.3),
            rpy=(0.3, 0.2, k),
            **stiff,
        )
    return b.build()


def test_a_joint_of_ones_own() -> None:
    model = with_polar()
    q, v, a, tau, f_ext = state_of(model, np.random.default_rng(4))
    found = ours(lw.inverse_dynamics_derivatives, model, q, v, a, f_ext=f_ext)
    assert off(found, by_differences(lw.inverse_dynamics, model, q, v, a, f_ext=f_ext)) < 1e-12
    assert (
        off(
            ours(lw.forward_dynamics_derivatives, model, q, v, tau),
            by_differences(lw.forward_dynamics, model, q, v, tau),
        )
        < 1e-10
    )


def wheels() -> lw.Model:
    """Bodies that are lumped into what carries them: a round one, and one that is balanced but not round."""
    b = lw.ModelBuilder("wheels")
    for name, on, inertia in (
        ("arm", "world", (0.2, 0.3, 0.4)),
        ("round", "arm", (0.1, 0.1, 0.15)),
        ("flat", "arm", (0.1, 0.2, 0.25)),
    ):
        b.add_body(name, mass=1.0, center=(0.1, 0.2, 0.3) if name == "arm" else (0, 0, 0), inertia=inertia)
        b.add_joint(
            name,
            Revolute((0, 0, 1)),
            parent=on,
            child=name,
            xyz=(0.3, 0, 0.1),
            rpy=(0.5, 0.3, 0.1),
            armature=0.1,
        )
    return b.build()


def test_wheels() -> None:
    model = wheels()
    q, v, a, _, f_ext = state_of(model, np.random.default_rng(5))
    found = ours(lw.inverse_dynamics_derivatives, model, q, v, a, f_ext=f_ext)
    assert off(found, by_differences(lw.inverse_dynamics, model, q, v, a, f_ext=f_ext)) < 1e-12


LOOPS: dict[str, Callable[[], lw.Model]] = {
    "four bar": lw.robots.four_bar,
    "slider crank": lw.robots.slider_crank,
    "planar leg": lw.robots.planar_leg_linkage,
    "geared leg": lw.robots.mit_humanoid_leg,
}


@pytest.mark.parametrize("name", LOOPS)
def test_through_embedded_loops(name: str) -> None:
    model = LOOPS[name]()
    rng = np.random.default_rng(6)
    q, v, a, tau, f_ext = state_of(model, rng)
    found = ours(lw.inverse_dynamics_derivatives, model, q, v, a, f_ext=f_ext)
    assert off(found, by_differences(lw.inverse_dynamics, model, q, v, a, f_ext=f_ext)) < 1e-10
    by_q, by_v, by_tau = ours(lw.forward_dynamics_derivatives, model, q, v, tau)
    right = by_differences(lw.forward_dynamics, model, q, v, tau)
    assert off((by_q, by_v, by_tau), right) < 1e-8


def test_gears_on_a_free_base() -> None:
    """∂θ̈ = -M⁻¹ ∂T on plain numbers, where rotors turn on what falls freely."""
    model = lw.robots.mini_cheetah()
    q, v = model.random_state(np.random.default_rng(22))
    tau = np.ones(model.nv)
    acc = lw.forward_dynamics.body(model, q, v, tau, method="articulated_body")
    Tq, Tv, M = (x.astype(float) for x in lw.inverse_dynamics_derivatives.body(model, q, v, acc))
    found = [x.astype(float) for x in lw.forward_dynamics_derivatives.body(model, q, v, tau)]
    inverse = np.linalg.inv(M)
    assert off(found, (-inverse @ Tq, -inverse @ Tv, inverse)) < 1e-11


def test_hybrid_dynamics() -> None:
    model = one_of("gimbal")
    q, v, a, tau, f_ext = state_of(model, np.random.default_rng(8))
    mask = np.arange(model.nv) % 2 == 1
    found = ours(lw.hybrid_dynamics_derivatives, model, q, v, a, tau, f_ext=f_ext, prescribed=mask)
    right = by_differences(lw.hybrid_dynamics, model, q, v, a, tau, f_ext=f_ext, prescribed=mask)
    rows = np.where(
        mask, np.arange(model.nv) + model.nv, np.arange(model.nv)
    )  # what is found, of accelerations and forces
    by_q, by_v, by_a, by_tau = (x[rows] for x in right)
    assert off(found, (by_q, by_v, np.where(mask, by_a, by_tau))) < 1e-10


def test_integrate_and_difference() -> None:
    model = make(
        np.random.default_rng(9), [-1, 0, 1, 2], ["free", "spherical", "skew planar", "helical"], fixed=False
    )
    rng = np.random.default_rng(10)
    q, v = model.random_state(rng)
    end = lw.integrate(model, q, v)
    by_q, by_v = ours(lw.integrate_derivatives, model, q, v)
    by_0, by_1 = ours(lw.difference_derivatives, model, q, end)
    assert off((by_1 @ by_v, by_0 + by_1 @ by_q), (np.eye(model.nv), np.zeros((model.nv, model.nv)))) < 1e-12
    h = 1e-5
    for matrix, move in ((by_q, lambda e: (lw.integrate(model, q, e), v)), (by_v, lambda e: (q, v + e))):
        ends = [
            [lw.difference(model, end, lw.integrate(model, *move(s * e))) for e in np.eye(model.nv)]
            for s in (h, -h)
        ]
        assert off([matrix], [((np.array(ends[0]) - np.array(ends[1])) / (2 * h)).T]) < 1e-8
    still, _ = ours(lw.integrate_derivatives, model, q, np.zeros(model.nv))
    assert off([still], [np.eye(model.nv)]) < 1e-15


@pytest.mark.parametrize(
    "make_model", [lambda: one_of("gimbal"), with_polar, lw.robots.four_bar, lambda: one_of("free")]
)
def test_coriolis_matrix(make_model: Callable[[], lw.Model]) -> None:
    model = make_model()
    q, v = model.random_state(np.random.default_rng(11))
    C = ours(lw.coriolis_matrix, model, q, v)
    program = lw.mass_matrix.program(model)
    move = lw.trace(
        lambda q, v: integrate_tree(model, q, tree_motion(model, q, v)), {"q": model.nq, "v": model.nv}
    )
    ends = [in_60_digits(program, in_60_digits(move, q, v * step)) for step in (H, -H)]
    rate = ((ends[0] - ends[1]) / (2 * H)).astype(float).reshape(C.shape)
    assert off([C + C.T], [rate]) < 1e-12  # so Ṁ - 2 C is skew
    no_damping = model.with_parameters({"damping": np.zeros(model.nv_spanning)})
    bias = ours(lw.bias_force, no_damping, q, v) - ours(lw.bias_force, no_damping, q, 0.0 * v)
    assert off([C @ v], [bias]) < 1e-12


def test_rates_of_frame_jacobians() -> None:
    model = lw.robots.arm()
    q, v = model.random_state(np.random.default_rng(12))
    a = np.random.default_rng(13).normal(size=model.nv)
    frame = model.frames[-1].name
    h = 1e-6
    for reference in ("body", "world", "world_aligned"):
        rate = ours(lw.frame_jacobian_rate, model, q, v, frame=frame, reference=reference)
        J = lw.frame_jacobian(model, q, frame=frame, reference=reference)
        ends = [
            lw.frame_velocity(
                model, lw.integrate(model, q, s * v), v + s * a, frame=frame, reference=reference
            )
            for s in (h, -h)
        ]
        assert off([J @ a + rate @ v], [(ends[0] - ends[1]) / (2 * h)]) < 1e-8


def test_linearisation_of_a_moving_body() -> None:
    model = make(np.random.default_rng(14), [-1, 0], ["free", "planar"], fixed=False)
    q, v, _, tau, _ = state_of(model, np.random.default_rng(15))
    A, B = ours(lw.linearize, model, q, v, tau)
    nv = model.nv
    h = 1e-4
    by_q, by_v, by_tau = ours(lw.forward_dynamics_derivatives, model, q, v, tau)
    assert np.array_equal(A[nv:], np.hstack([by_q, by_v])) and np.array_equal(
        B, np.vstack([np.zeros((nv, nv)), by_tau])
    )

    def error(step: float, delta: np.ndarray, dv: np.ndarray) -> np.ndarray:
        other = lw.integrate(model, lw.integrate(model, q, delta), step * (v + dv))
        return lw.difference(model, lw.integrate(model, q, step * v), other)

    columns = []
    for e in np.eye(2 * nv) * h:
        ahead, behind = ([error(s, x[:nv], x[nv:]) for s in (h, -h)] for x in (e, -e))
        columns.append((ahead[0] - ahead[1] - behind[0] + behind[1]) / (4 * h * h))
    assert off([A[:nv]], [np.array(columns).T]) < 1e-6
    resting = ours(lw.linearize, model, q, 0.0 * v, tau)[0]
    assert np.array_equal(resting[:nv], np.hstack([np.zeros((nv, nv)), np.eye(nv)]))


def test_where_loops_are_held_by_forces() -> None:
    model = lw.robots.four_bar().with_loops(constrain=[loop.name for loop in lw.robots.four_bar().loops])
    q, _ = lw.robots.four_bar().random_state(np.random.default_rng(16))
    v = np.zeros(model.nv)
    tau = np.random.default_rng(17).normal(size=model.nv)
    by_q, by_v, by_tau = lw.forward_dynamics_derivatives(model, q, v, tau)
    h = 1e-6
    right = [[lw.forward_dynamics(model, q + s * e, v, tau) for e in np.eye(model.nv)] for s in (h, -h)]
    assert off([by_q], [((np.array(right[0]) - np.array(right[1])) / (2 * h)).T]) < 1e-6
    assert by_v.shape == by_tau.shape == (model.nv, model.nv)


def test_loops_that_forces_hold_are_differentiated_at_the_solution() -> None:
    """As constraints, by the system that accelerations solve, and not through its iterations."""
    model = lw.robots.planar_leg_linkage()
    held = model.with_loops(constrain=[loop.name for loop in model.embedded])
    operations = {
        f: lw.count_operations(f, held)["total"]
        for f in (lw.forward_dynamics, lw.forward_dynamics_derivatives)
    }
    assert operations[lw.forward_dynamics_derivatives] < 8 * operations[lw.forward_dynamics]
    q, v = held.random_state(np.random.default_rng(18))
    tau = np.ones(held.nv)
    f_ext = np.ones((len(held.bodies), 6))
    names = ("q", "v", "tau", "f_ext", "mass", "placement")
    found = lw.forward_dynamics_derivatives(held, q, v, tau, f_ext, wrt=names)
    right = lw.constrained_dynamics_derivatives(held, q, v, tau, f_ext, constraints=(), wrt=names)
    assert off(found, right[: len(names)]) < 1e-12


def test_batches_and_parameters() -> None:
    model = one_of("revolute")
    rng = np.random.default_rng(18)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(3))))
    tau = rng.normal(size=(2, 3, model.nv))
    mass = model.parameters()["mass"]
    found = lw.forward_dynamics_derivatives(model, q, v, tau)
    assert all(x.shape == (2, 3, model.nv, model.nv) for x in found)
    for one, whole in zip(lw.forward_dynamics_derivatives(model, q[1], v[1], tau[1, 1]), found):
        assert np.array_equal(one, whole[1, 1])
    heavier = lw.inverse_dynamics_derivatives(model, q[0], v[0], tau[0, 0], parameters={"mass": 1.5 * mass})
    right = ours(
        lw.inverse_dynamics_derivatives, model.with_parameters({"mass": 1.5 * mass}), q[0], v[0], tau[0, 0]
    )
    assert off(heavier, right) < 1e-13


def test_zeros_of_the_tree() -> None:
    """Legs do not feel each other's accelerations."""
    model = lw.robots.quadruped()
    program = lw.inverse_dynamics_derivatives.program(model)
    apart = np.ones((model.nv, model.nv), dtype=bool)
    rows, columns = lw.mass_matrix_pattern(model)
    apart[rows, columns] = apart[columns, rows] = False
    assert apart.sum() == 108
    for result in program.results:
        numbers = np.array([program.code[value].op == "const" for value in result]).reshape(apart.shape)
        assert numbers[apart].all()


def test_operations() -> None:
    """Full Jacobians cost a few evaluations, not one for each column."""
    for model, inverse, forward in ((lw.robots.arm(), 5.5, 6.5), (lw.robots.quadruped(), 5.0, 7.0)):
        of = {
            fn: lw.count_operations(fn, model)["total"] for fn in (lw.inverse_dynamics, lw.forward_dynamics)
        }
        assert (
            lw.count_operations(lw.inverse_dynamics_derivatives, model)["total"]
            < inverse * of[lw.inverse_dynamics]
        )
        assert (
            lw.count_operations(lw.forward_dynamics_derivatives, model)["total"]
            < forward * of[lw.forward_dynamics]
        )


def test_what_cannot_be_differentiated_is_said() -> None:
    node = lw.sko.Node("one", A=np.zeros((0, 6)), H=np.eye(6)[:1], M=np.eye(6))
    custom = lw.sko.Tree("custom", [node])
    for name in ("mass", "nothing"):
        with pytest.raises(lw.DifferentiationError, match=f"no parameter '{name}'"):
            lw.inverse_dynamics_derivatives(custom, np.zeros(1), np.zeros(1), np.zeros(1), wrt=(name,))


def test_a_model_that_cannot_move() -> None:
    b = lw.ModelBuilder("fast")
    b.add_body("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint("joint", Fixed(), parent="world", child="body")
    model = b.build()
    none = np.zeros(0)
    for fn in (lw.inverse_dynamics_derivatives, lw.forward_dynamics_derivatives):
        assert [x.shape for x in fn(model, none, none, none)] == [(0, 0)] * 3
    assert [x.shape for x in lw.linearize(model, none, none, none)] == [(0, 0)] * 2
    assert lw.coriolis_matrix(model, none, none).shape == (0, 0)


def test_along_directions() -> None:
    x, directions = np.array([0.3, -0.7, 1.1]), np.array([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]])
    fn: Callable[[Any], Any] = lambda y: np.array([lw.sin(y[0]) * y[1], y[2] * y[2], 3.0])  # noqa: E731
    value, along = lw.jacobian_along(fn, x, directions)
    whole = lw.jacobian_of(fn, x)
    assert np.array_equal(value, whole[0]) and off([along], [whole[1] @ directions]) < 1e-15
    traced = lw.interpret(
        lw.lower(lw.trace(lambda x, d: lw.jacobian_along(fn, x, d)[1], {"x": 3, "d": (3, 2)})), x, directions
    )
    assert off([traced], [along]) < 1e-15
    with pytest.raises(lw.DifferentiationError, match="directions"):
        lw.jacobian_along(fn, x, np.eye(2))


def test_against_pinocchio() -> None:
    pin = pytest.importorskip("pinocchio")
    from test_against_pinocchio import handmade

    from linkwork.interop.pinocchio import States

    model, peer = handmade()
    states = States(model, peer)
    data = peer.createData()
    q, v, a, tau, _ = state_of(model, np.random.default_rng(19))
    Q = states.q_to(q)
    V = states.v_to(v)
    whole = [
        name.partition(".")[0] not in ("gimbal", "cross") for name in model.v_names
    ]  # there their S counts as constant
    right = [
        states.matrix_from(np.array(x))
        for x in pin.computeRNEADerivatives(peer, data, Q, V, states.v_to(a))[:2]
    ]
    found = ours(lw.inverse_dynamics_derivatives, model, q, v, a)[:2]
    assert off([x[:, whole] for x in found], [x[:, whole] for x in right]) < 1e-11
    pin.computeABADerivatives(peer, data, Q, V, states.tau_to(tau))
    right = [states.matrix_from(np.array(x)) for x in (data.ddq_dq, data.ddq_dv)]
    found = ours(lw.forward_dynamics_derivatives, model, q, v, tau)[:2]
    assert off([x[:, whole] for x in found], [x[:, whole] for x in right]) < 1e-10
    C = states.matrix_from(np.array(pin.computeCoriolisMatrix(peer, data, Q, V)))
    assert off([ours(lw.coriolis_matrix, model, q, v)[:, whole]], [C[:, whole]]) < 1e-11
    J = [states.matrix_from(np.array(x)) for x in pin.dIntegrate(peer, Q, V)]
    assert off(ours(lw.integrate_derivatives, model, q, v), J) < 1e-12


def test_random_trees() -> None:
    """∂θ̈ = -M⁻¹ ∂T, whatever hangs on what."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        model = random_model(rng, 4, massless=False)
        q, v, _, tau, f_ext = state_of(model, rng)
        acc = ours(lw.forward_dynamics, model, q, v, tau, f_ext=f_ext)
        Tq, Tv, M = ours(lw.inverse_dynamics_derivatives, model, q, v, acc, f_ext=f_ext)
        inverse = np.linalg.inv(M)
        found = ours(lw.forward_dynamics_derivatives, model, q, v, tau, f_ext=f_ext)
        assert off(found, (-inverse @ Tq, -inverse @ Tv, inverse)) < 1e-9


def test_free_bodies_fall_alike() -> None:
    """Joints of what falls freely feel neither how it is turned nor how fast it moves along: zero without an
    operation.
    """
    b = lw.ModelBuilder("falling")
    b.add_body("base", mass=2.0, center=(0.1, 0, 0), inertia=(0.2, 0.25, 0.3))
    b.add_joint("base", Free(), parent="world", child="base")
    b.add_body("arm", mass=1.0, center=(0.1, 0.2, 0), inertia=(0.2, 0.25, 0.3))
    b.add_joint("arm", Revolute((0, 0, 1)), parent="base", child="arm", xyz=(0.3, 0.1, 0.2))
    program = lw.forward_dynamics_derivatives.program(b.build())
    by_q, by_v, _ = (
        np.array([program.code[x].op == "const" for x in result]).reshape(7, 7) for result in program.results
    )
    assert by_q[[0, 1, 2, 6], :6].all() and by_v[[0, 1, 2, 6], 3:6].all()


def with_added_mass(geared: bool) -> lw.Model:
    """A free body whose own joint has armature, as in water, and dampers; with an arm, and a rotor that is
    geared to it.
    """
    b = lw.ModelBuilder("added mass")
    turns = Revolute((0, 1, 0)), Revolute((0, 0, 1))
    for name, kind, on in (("hull", Free(), "world"), ("arm", turns[0], "hull"), ("rotor", turns[1], "hull")):
        b.add_body(name, mass=1.0, center=(0.1, 0.2, -0.1), inertia=(0.2, 0.25, 0.3))
        own = np.linspace(0.1, 0.6, kind.nv)
        b.add_joint(name, kind, parent=on, child=name, xyz=(0.3, 0.1, 0.2), armature=own, damping=own)
    return (b.add_coupling("gear", {"arm": 6.0, "rotor": -1.0}) if geared else b).build()


@pytest.mark.parametrize("geared", [False, True])
def test_a_free_base_with_armature(geared: bool) -> None:
    """Armature holds on to the world: what has some does not fall as all else does."""
    model = with_added_mass(geared)
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(23))
    found = ours(lw.forward_dynamics_derivatives, model, q, v, tau, f_ext=f_ext)
    assert off(found, by_differences(lw.forward_dynamics, model, q, v, tau, f_ext=f_ext)) < 1e-10
    held = {"constraints": [lw.Connect("arm")]}
    found = ours(lw.constrained_dynamics_derivatives, model, q, v, tau, f_ext=f_ext, **held)
    right = by_differences(
        lw.constrained_dynamics, model, q, v, tau, f_ext=f_ext, **held, method="ltl", compliance=1e-12
    )
    assert off(found[:3], [x[: model.nv] for x in right]) < 1e-8


@pytest.mark.parametrize(
    "kinds", [("free", "universal", "skew helical"), ("gimbal", "revolute", "spherical")]
)
def test_the_recursions_of_the_paper(kinds: tuple[str, ...]) -> None:
    """Lie Tables 5, 6 and 7 along a motion in which positions, velocities, accelerations, forces and loads
    change at once.
    """
    model = make(np.random.default_rng(20), [-1, 0, 0], kinds, resisting=False, armature=False, fixed=False)
    rng = np.random.default_rng(21)
    q, v, a, tau, f_ext = state_of(model, rng)
    delta, dv, da, dtau = rng.normal(size=(4, model.nv))
    df = rng.normal(size=f_ext.shape)
    moved = position_rates(model, q) @ delta

    def bodies(p: Any) -> list[lie.LieBody]:
        nodes = model_tree(model, without_lumping(model), q + p * moved, v + p * dv, f_ext + p * df)
        return lie.lie_bodies(nodes, lw.jacobian_of)

    gravity = np.array(model.gravity)
    still = np.array(0.0)
    here = bodies(still)
    changes = lie.lie_changes(bodies, still, lw.jvp_of)
    state = lie.State(v, a, tau)
    change = lie.State(dv, da, dtau)
    Tq, Tv, M = ours(lw.inverse_dynamics_derivatives, model, q, v, a, f_ext=f_ext)
    heavier, lighter = (ours(lw.inverse_dynamics, model, q, v, a, f_ext=f) for f in (f_ext + df, f_ext))
    by_load = heavier - lighter
    found = lie.inverse_dynamics_derivative(here, changes, state, change, gravity)
    assert off([found.astype(float)], [Tq @ delta + Tv @ dv + M @ da + by_load]) < 1e-11
    Aq, Av, inverse = ours(lw.forward_dynamics_derivatives, model, q, v, tau, f_ext=f_ext)
    found, _ = lie.hybrid_dynamics_derivative(here, changes, state, change, gravity)
    assert off([found.astype(float)], [Aq @ delta + Av @ dv + inverse @ (dtau - by_load)]) < 1e-9
    mask = np.zeros(model.nv, dtype=bool)
    mask[here[1].dofs] = True
    Hq, Hv, Hg = ours(lw.hybrid_dynamics_derivatives, model, q, v, a, tau, f_ext=f_ext, prescribed=mask)
    loaded = np.where(mask, by_load, 0.0) + Hg @ np.where(mask, 0.0, -by_load)
    acc, force = lie.hybrid_dynamics_derivative(here, changes, state, change, gravity, prescribed={1})
    want = Hq @ delta + Hv @ dv + Hg @ np.where(mask, da, dtau) + loaded
    assert off([np.where(mask, force, acc).astype(float)], [want]) < 1e-9


@pytest.mark.parametrize("parameter", ["mass", "center", "inertia", "placement"])
def test_the_recursions_of_the_paper_by_parameters(parameter: str) -> None:
    """Lie Tables 5, 6 and 7 by a scalar that enters inertias, or the joints' places and axes, against `wrt=`."""
    kinds = ("universal", "gimbal", "skew helical")
    model = make(np.random.default_rng(24), [-1, 0, 0], kinds, resisting=False, armature=False, fixed=False)
    rng = np.random.default_rng(25)
    q, v, a, tau, f_ext = state_of(model, rng)
    now = model.parameters()[parameter]
    along = rng.normal(size=now.shape)

    def bodies(p: Any) -> list[lie.LieBody]:
        other = model.traced_with({parameter: now + p * along})
        return lie.lie_bodies(model_tree(other, without_lumping(other), q, v, f_ext), lw.jacobian_of)

    gravity = np.array(model.gravity)
    still = np.array(0.0)
    none = np.zeros(model.nv)
    here = bodies(still)
    changes = lie.lie_changes(bodies, still, lw.jvp_of)
    state = lie.State(v, a, tau)
    change = lie.State(none, none, none)

    def right(fn: Any, *args: np.ndarray, **options: Any) -> np.ndarray:
        by = ours(fn, model, *args, f_ext=f_ext, wrt=parameter, **options)
        return np.reshape(by, (model.nv, -1)) @ along.ravel()

    found = lie.inverse_dynamics_derivative(here, changes, state, change, gravity)
    assert off([found.astype(float)], [right(lw.inverse_dynamics_derivatives, q, v, a)]) < 1e-11
    found, _ = lie.hybrid_dynamics_derivative(here, changes, state, change, gravity)
    assert off([found.astype(float)], [right(lw.forward_dynamics_derivatives, q, v, tau)]) < 1e-9
    mask = np.zeros(model.nv, dtype=bool)
    mask[here[1].dofs] = True
    acc, force = lie.hybrid_dynamics_derivative(here, changes, state, change, gravity, prescribed={1})
    want = right(lw.hybrid_dynamics_derivatives, q, v, a, tau, prescribed=tuple(mask.tolist()))
    assert off([np.where(mask, force, acc).astype(float)], [want]) < 1e-9
