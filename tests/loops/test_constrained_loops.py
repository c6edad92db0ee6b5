"""The model's own loops held by forces: the same mechanism, embedded, constrained and mixed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_loop_robots import EVERY, robot
from test_loops import state_of

import linkwork as lw
from holding import METHODS, allowed, close, floats_of, held, off, solved
from linkages import CATALOGUE, LOOP_KINDS, equations, floats, linkage, phi, tree
from linkwork import Gains, Hold, ModelError
from linkwork.constraints import loop_constraints
from linkwork.constraints.loops import ConstrainedLoop
from linkwork.functions.load import operations
from linkwork.mechanism.loops import Loop
from linkwork.model import Model

every = pytest.mark.parametrize("name", list(CATALOGUE))
some = pytest.mark.sweep(6)  # of laws that take long


def names(model: Model) -> list[str]:
    return [c.name for c in (*model.embedded, *model.constrained_loops)]


def constrained(model: Model) -> Model:
    return model.with_loops(constrain=names(model))


def in_order(model: Model, x: np.ndarray) -> np.ndarray:
    """Of the spanning tree's velocities or the like, (nv_spanning,), those that are a model's own, in their
    order.
    """
    spanning = [name for joint in model.joints for name in joint.v_names]
    return x[[spanning.index(name) for name in model.v_names]]


# rows


@every
@some
def test_rows_of_constrained_loops(name: str) -> None:
    """At closed states they allow the velocities and accelerations that the loops' own equations do, and no
    others.
    """
    model = linkage(name)
    other = constrained(model)
    _, q, _, _, _, _, V, *_ = state_of(model)
    assert other.nv == model.nv_spanning and not other.embedded
    loops = loop_constraints(other)
    J, rest = held(other, loops, q, in_order(other, V))
    _, K, k = equations(model, q, V)
    K = in_order(other, K.T).T
    assert off(J @ in_order(other, V), 0.0) < 1e-10
    rank = np.linalg.matrix_rank(K, 1e-9)
    assert np.linalg.matrix_rank(J, 1e-9) == rank == np.linalg.matrix_rank(np.concatenate([J, K]), 1e-9)
    a = allowed(K, np.random.default_rng(0).normal(size=other.nv)) + np.linalg.pinv(K, rcond=1e-10) @ k
    assert off(J @ a + rest, 0.0) < 1e-9 * (1.0 + np.abs(k).max(initial=0.0))


@pytest.mark.parametrize("kind", [k for k in LOOP_KINDS if k != "free"])
def test_rows_are_rates_of_errors(kind: str) -> None:
    """Velocities of the rows also where the loop is open, accelerations where it is closed and stays so;
    there is no error.
    """
    model = linkage(f"ring {kind}")
    (loop,) = model.embedded
    assert isinstance(loop, Loop)
    other, cut, rng, h = constrained(model), tree(model), np.random.default_rng(3), 1e-3
    assert other.v_names == cut.v_names
    plain, stiff = ConstrainedLoop(loop), ConstrainedLoop(loop, Gains(1.0))

    def error(q: np.ndarray) -> np.ndarray:
        still = np.zeros(other.nv)
        return held(other, [stiff], q, still)[1] - held(other, [plain], q, still)[1]

    closed = state_of(model).q
    a = rng.normal(size=other.nv)
    for q, v in (
        (other.tree_random(rng), 0.5 * rng.normal(size=other.nv)),
        (closed, allowed(held(other, [plain], closed)[0], 0.5 * rng.normal(size=other.nv))),
    ):
        J, rest = held(other, [plain], q, v)
        along = [
            error(floats(lw.integrate, cut, q, v * t + 0.5 * a * t * t)) for t in (-2 * h, -h, 0.0, h, 2 * h)
        ]
        first = np.tensordot(np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12.0 * h), along, 1)
        second = np.tensordot(np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / (12.0 * h * h), along, 1)
        assert close(J @ v, first, 1e-8)
        assert close(
            held(other, [ConstrainedLoop(loop, Gains(0.0, 2.0))], q, v)[1] - rest, 2.0 * (J @ v), 1e-12
        )
    assert close(J @ a + rest, second, 1e-5) and off(error(closed), 0.0) < 1e-9


@every
@some
def test_random_states_are_closed(name: str) -> None:
    model = linkage(name)
    rng = np.random.default_rng(2)
    for other in {constrained(model), model.with_loops(constrain=names(model)[:1])}:
        q, v = other.random_state(rng)
        V = floats(lw.spanning_velocity, other, q, v)
        assert np.abs(floats_of(phi(model, q))).max(initial=0.0) < 1e-9
        K = equations(model, q, V)[1]
        assert off(K @ V, 0.0) < 1e-9 * (1.0 + np.abs(V).max())


# the same motion


def test_random_states_are_regular_where_the_neutral_one_is_a_bifurcation() -> None:
    """The bars of the parallelogram are in line at zero, where branches meet."""
    model = constrained(lw.robots.four_bar())
    assert lw.loop_conditioning(model, model.neutral()) < 1e-6
    states = np.array([model.random_state(seed)[0] for seed in range(12)])
    assert lw.loop_conditioning(model, states).min() > 1e-3


def same_motion(model: Model) -> None:
    """Forward dynamics with loops embedded, all held by forces, and every other one."""
    s = state_of(model)
    force = np.zeros(model.nv_spanning)
    spanning = [name for joint in model.joints for name in joint.v_names]
    force[[spanning.index(name) for name in model.v_names]] = s.tau
    a = floats(lw.forward_dynamics, model, s.q, s.v, s.tau, s.f, method="articulated_body")
    right = floats(lw.spanning_acceleration, model, s.q, s.v, a)
    geared = not all(isinstance(c, Loop) for c in model.embedded)
    others = [model.with_loops(constrain=names(model)[::step]) for step in (1, 2)]
    for other in others if len(names(model)) > 1 else others[:1]:
        v = in_order(other, s.V)
        tau = floats(lw.independent_force, other, s.q, force)
        for method in METHODS:
            R = (
                1e-2 if method == "ltls" and geared else 1e-4
            )  # it adds Jᵀ J / R, with ratios squared, to light rotors
            found, _, residual, _ = solved(
                other, s.q, v, tau, [], s.f, method=method, compliance=R, iterations=50
            )
            assert close(floats(lw.spanning_acceleration, other, s.q, v, found), right, 1e-8), method
            assert residual < 1e-7 * (1.0 + np.abs(right).max())


def test_the_same_motion_on_several_feet() -> None:
    """What moves a cluster that stands on several bodies moves its bodies against each other."""
    same_motion(lw.robots.scissor_lift(4))


@every
@pytest.mark.sweep(3)
def test_the_same_motion(name: str) -> None:
    same_motion(linkage(name))


QUICK = (
    "four_bar",
    "six_bar",
    "planar_leg_linkage",
    "five_bar",
    "slider_crank",
    "watt",
    "bricard",
    "four_bar_chain",
)
QUICK += ("mit_humanoid_leg",)


@pytest.mark.parametrize("name", QUICK)
def test_the_same_motion_of_robots(name: str) -> None:
    same_motion(EVERY[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name not in QUICK])
def test_the_same_motion_of_all_robots(name: str) -> None:
    same_motion(EVERY[name]())


def test_other_constraints_on_top() -> None:
    """A foot that is held as well, and the loops' own rows come last."""
    model = robot("planar_leg_linkage")
    other = constrained(model)
    s = state_of(model)
    foot = Hold("foot", "x")
    force = np.zeros(model.nv_spanning)
    force[[[n for j in model.joints for n in j.v_names].index(n) for n in model.v_names]] = s.tau
    for method in METHODS:
        a, f, *_ = solved(model, s.q, s.v, s.tau, [foot], method=method)
        found, forces, *_ = solved(
            other, s.q, in_order(other, s.V), in_order(other, force), [foot], method=method
        )
        assert close(found, in_order(other, floats(lw.spanning_acceleration, model, s.q, s.v, a)), 1e-8)
        assert close(forces[:1], f, 1e-8) and len(forces) > 1


def test_compiled() -> None:
    """Forward dynamics of a model with held loops is its constrained dynamics."""
    model = robot("four_bar")
    other = constrained(model)
    rng = np.random.default_rng(0)
    q, v = (np.array(x) for x in zip(*(other.random_state(rng) for _ in range(3))))
    tau = rng.normal(size=v.shape)
    a = lw.forward_dynamics(other, q, v, tau)
    for k in range(3):
        assert close(a[k], solved(other, q[k], v[k], tau[k], [])[0], 1e-8)
    assert np.array_equal(a, lw.constrained_dynamics(other, q, v, tau, constraints=())[0])


# there and back


def test_placements_and_ratios_of_constrained_loops_are_inputs() -> None:
    """What constrains a model with other numbers as inputs are its loops with these numbers, wherever they
    are asked for.
    """
    model = constrained(linkage("loop and gear"))
    q, v = model.random_state(np.random.default_rng(3))
    tau = np.ones(model.nv)
    own = model.parameters()
    rng = np.random.default_rng(4)
    values = {
        name: own[name] + 0.05 * rng.normal(size=own[name].shape) for name in ("ratio", "loop_placement")
    }
    for name, value in values.items():
        given = {"constraints": (), "parameters": {name: value}}
        other = model.with_parameters({name: value})
        calls = (
            (lw.constraint_jacobian, (q,)),
            (lw.constraint_bias, (q, v)),
            (lw.constrained_dynamics, (q, v, tau)),
            (lw.delassus, (q,)),
        )
        for fn, args in calls:
            found, right = fn(model, *args, **given), fn(other, *args, constraints=())
            for x, y in zip(found, right) if isinstance(found, tuple) else ((found, right),):
                assert np.abs(x - y).max() < 1e-7 * max(1.0, np.abs(y).max())
        by = lw.forward_dynamics_derivatives(model, q, v, tau, wrt=name)
        step = rng.normal(size=value.shape)
        h = 1e-5
        ends = [
            lw.forward_dynamics(model, q, v, tau, parameters={name: own[name] + s * h * step})
            for s in (1, -1)
        ]
        right = (ends[0] - ends[1]) / (2 * h)
        assert np.abs(right).max() > 1e-3
        assert np.abs(np.tensordot(by, step, step.ndim) - right).max() < 1e-5 * np.abs(right).max()


@every
@pytest.mark.sweep(3)
def test_there_and_back(name: str) -> None:
    model = linkage(name)
    assert constrained(model).with_loops(embed=names(model)) == model
    some = model.with_loops(constrain=names(model)[0])
    assert [c.name for c in some.constrained_loops] == names(model)[:1]
    assert set(names(some)) == set(names(model)) and constrained(some).nv == model.nv_spanning
    assert tree(model).nv == constrained(model).nv


def test_held_loops_are_part_of_the_model() -> None:
    model = robot("watt")
    assert constrained(model) != model and hash(constrained(model)) != hash(model)
    assert model.constrained_loops == () and len(constrained(model).constrained_loops) == 2
    assert constrained(model) != replace(model, embedded=(), kernels={})


def test_unknown_loops() -> None:
    model = robot("four_bar")
    for how in ("constrain", "embed"):
        with pytest.raises(ModelError, match="four_bar has no loop named 'pin'"):
            model.with_loops(**{how: ["pin"]})


# the choice between both


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "watt", "planar_leg_linkage", "six_bar", "bricard"])
def test_the_choice_is_never_worse(name: str) -> None:
    model = robot(name)
    counts = {how: operations(lw.choose_loops(model, how)) for how in ("embed", "constrain", "auto")}
    assert counts["auto"] <= min(counts["embed"], counts["constrain"]), counts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "stewart", "mit_humanoid_leg", "mini_cheetah"])
def test_the_choice_is_never_worse_for_large_models(name: str) -> None:
    test_the_choice_is_never_worse(name)


def test_choices() -> None:
    model = robot("watt")
    assert lw.choose_loops(model, "embed") == model and lw.choose_loops(constrained(model), "embed") == model
    assert lw.choose_loops(model, "constrain") == constrained(model)
    assert lw.choose_loops(lw.robots.arm(), "auto") == lw.robots.arm()
    with pytest.raises(ModelError, match="loops: expected one of embed, constrain, auto"):
        lw.choose_loops(model, "both")


# hybrid dynamics, and what is of all joints of the tree


def in_hybrid_motion(model: Model, seed: int, share: float) -> tuple[Model, dict[str, np.ndarray]]:
    """A model with all loops constrained and a motion that these allow; `prescribed` is less than loops leave
    free.
    """
    other = constrained(model)
    rng = np.random.default_rng(seed)
    s = state_of(model)
    prescribed = np.zeros(other.nv, dtype=bool)
    free = model.nv - int(np.ceil((1.0 - share) * model.nv))
    prescribed[rng.choice([other.v_names.index(name) for name in model.v_names], free, replace=False)] = True
    found = {"q": s.q, "v": in_order(other, s.V), "a": in_order(other, s.A), "f": s.f, "V": s.V}
    return other, found | {"tau": rng.normal(size=other.nv), "prescribed": prescribed}


def dense_hybrid(model: Model, other: Model, s: dict[str, np.ndarray], rows: Any = None) -> np.ndarray:
    """All accelerations, from the equations of motion and all of the loops' as one dense system (Lie Eq. 70,
    71).
    """
    K, k = (x if x.ndim == 1 else in_order(other, x.T).T for x in equations(model, s["q"], s["V"])[1:])
    if rows is not None:
        K = np.concatenate([K, rows[0]])
        k = np.concatenate([k, -rows[1]])
    M = floats(lw.mass_matrix, other, s["q"])
    b = floats(lw.bias_force, other, s["q"], s["v"], s["f"])
    u = s["prescribed"]
    n = other.nv
    m = len(K)
    system = np.block([[M[~u], -K[:, ~u].T], [K, np.zeros((m, m))], [np.eye(n)[u], np.zeros((u.sum(), m))]])
    return np.linalg.lstsq(system, np.concatenate([(s["tau"] - b)[~u], k, s["a"][u]]), rcond=1e-12)[0][:n]


@pytest.mark.parametrize(("seed", "name"), list(enumerate(CATALOGUE)))
@pytest.mark.sweep(6)
def test_hybrid_dynamics(seed: int, name: str) -> None:
    """Constrained loops act; what is prescribed is kept, what is given is given, and forces are what motion
    and loops need.
    """
    model = linkage(name)
    other, s = in_hybrid_motion(model, seed, (0.0, 0.6, 1.0)[seed % 3])
    u = s["prescribed"]
    chosen = lw.hybrid_dynamics.normalize_options(other, {"prescribed": u, "iterations": 100})
    given = np.where(u, s["a"], np.nan), np.where(u, np.nan, s["tau"])
    for method in ("caba", "ltl"):
        a, tau = floats(
            lw.hybrid_dynamics, other, s["q"], s["v"], *given, s["f"], **{**chosen, "method": method}
        )
        assert close(a, dense_hybrid(model, other, s), 1e-7), method
        assert (tau[~u] == s["tau"][~u]).all() and (a[u] == s["a"][u]).all()
        left = floats(lw.inverse_dynamics, other, s["q"], s["v"], a, s["f"]) - tau
        assert close(
            allowed(in_order(other, equations(model, s["q"], s["V"])[1].T).T, left), np.zeros(other.nv), 1e-7
        )


@pytest.mark.parametrize("robot", ["five_bar", "mit_humanoid_leg", "arm"])
def test_hybrid_dynamics_with_constraints(robot: str) -> None:
    """In kernels, with forces as a third result, also of models without loops; derivatives are those of
    differences.
    """
    model = getattr(lw.robots, robot)()
    other, rng = constrained(model), np.random.default_rng(1)
    frame = model.frames[-1].name
    row = Hold(frame, "x", axes="to")
    q, v = model.random_state(rng)
    V = floats(lw.spanning_velocity, model, q, v)
    s = {
        "q": q,
        "v": in_order(other, V),
        "V": V,
        "f": rng.normal(size=(len(model.bodies), 6)),
        "tau": rng.normal(size=other.nv),
    }
    s |= {"a": rng.normal(size=other.nv), "prescribed": np.isin(other.v_names, model.v_names[:1])}
    options: dict[str, Any] = {"prescribed": s["prescribed"], "constraints": row}

    def found(q: Any, v: Any, a: Any, tau: Any) -> Any:
        both = lw.hybrid_dynamics(other, q, v, a, tau, s["f"], method="ltl", **options)
        return np.concatenate([np.where(s["prescribed"], both[1], both[0]), both[2]])

    own = held(other, [row], q, s["v"])
    a, tau, forces = lw.hybrid_dynamics(other, q, s["v"], s["a"], s["tau"], s["f"], **options)
    assert close(a, dense_hybrid(model, other, s, own), 1e-7)
    J = lw.constraint_jacobian(other, q, constraints=row)
    assert len(forces) == len(J) and close(
        lw.inverse_dynamics(other, q, s["v"], a, s["f"]) - tau - J.T @ forces, np.zeros(other.nv), 1e-7
    )
    parts = lw.hybrid_dynamics_derivatives(other, q, s["v"], s["a"], s["tau"], s["f"], **options)
    cut = tree(model)
    d = rng.normal(size=other.nv)
    h = 1e-5
    D = np.zeros(model.nv_spanning)
    D[[model.v_names_spanning.index(name) for name in other.v_names]] = d
    moved = [
        [(floats(lw.integrate, cut, q, x * D), s["v"], s["a"], s["tau"]) for x in (h, -h)],
        [(q, s["v"] + x * d, s["a"], s["tau"]) for x in (h, -h)],
        [(q, s["v"], s["a"] + x * d, s["tau"] + x * d) for x in (h, -h)],
    ]
    independent = np.linalg.matrix_rank(J[:, ~s["prescribed"]], 1e-8) == len(J)
    for k, (ahead, behind) in enumerate(moved):
        by = (found(*ahead) - found(*behind)) / (2 * h)
        assert close(parts[k] @ d, by[: other.nv], 1e-5)
        assert not independent or close(parts[k + 3] @ d, by[other.nv :], 1e-5)
    by_tau = lw.jacobian(lw.hybrid_dynamics, other, wrt="tau", optional=["f_ext"], **options)
    all_of = by_tau(q, s["v"], s["a"], s["tau"], s["f"])
    u = s["prescribed"]
    assert close(all_of[0], np.where(u[:, None] | u, 0.0, parts[2]), 1e-9)
    assert close(all_of[1], np.where(u[:, None] & ~u, parts[2], np.diag(~u)), 1e-9)


@pytest.mark.parametrize("robot", ["five_bar", "mit_humanoid_leg", "scissor_lift"])
def test_forces_of_joints_and_loops(robot: str) -> None:
    """What joints, loops and actuators transmit does not depend on how loops are enforced, but something must
    drive.
    """
    model = lw.robots.scissor_lift(2) if robot == "scissor_lift" else getattr(lw.robots, robot)()
    rng = np.random.default_rng(4)
    for other in (constrained(model), model.with_loops(constrain=names(model)[-1:])):
        q, v = model.random_state(rng)
        f = rng.normal(size=(len(model.bodies), 6))
        given = rng.normal(size=model.nv_spanning)
        a = lw.forward_dynamics(model, q, v, lw.independent_force(model, q, given), f)
        V = lw.spanning_velocity(model, q, v)
        A = lw.spanning_acceleration(model, q, v, a)
        mine = in_order(other, V), in_order(other, A)
        right = lw.joint_forces(model, q, v, a, f, given)
        assert close(lw.joint_forces(other, q, *mine, f, given), right, 1e-9)
        of_both = [lw.loop_forces.kernel(m, optional=("f_ext", "tau_spanning")) for m in (other, model)]
        labels = [kernel.array_labels["out"].axes[0] for kernel in of_both]
        forces = lw.loop_forces(other, q, *mine, f, given)
        assert close(
            forces[[labels[0].index(x) for x in labels[1]]], lw.loop_forces(model, q, v, a, f, given), 1e-9
        )
        mask = rng.random(model.nv_spanning) < 0.5
        pairs = [
            lw.spanning_hybrid_dynamics(m, q, x, A, given, f, prescribed=mask)
            for m, x in ((other, mine[0]), (model, v))
        ]
        assert all(close(x, y, 1e-9) for x, y in zip(*pairs))
        tau = rng.normal(size=model.nv_spanning)
        torques = [
            lw.actuator_force(m, q, lw.independent_force(m, q, tau), actuators=model.v_names)
            for m in (other, model)
        ]
        assert close(*torques, 1e-9)
        how = {"actuators": model.v_names, "joints": model.v_names_spanning}
        assert close(lw.actuator_map(other, q, **how), lw.actuator_map(model, q, **how), 1e-9)
        for function in (lw.joint_forces, lw.loop_forces):
            with pytest.raises(ModelError, match="give tau_spanning"):
                function(other, q, *mine)


def test_a_constrained_loop_without_equations() -> None:
    """It does not act, and nothing asks for constraints where there are none."""
    model = linkage("ring free")
    other = constrained(model)
    cut = tree(model)
    q, v = other.random_state(0)
    tau = np.random.default_rng(0).normal(size=other.nv)
    a = lw.forward_dynamics(cut, q, v, tau)
    assert close(lw.forward_dynamics(other, q, v, tau), a, 1e-12)
    assert close(lw.hybrid_dynamics(other, q, v, a, tau, prescribed=other.v_names)[1], tau, 1e-9)
    assert close(lw.integrate(other, q, v), lw.integrate(cut, q, v), 1e-12)
