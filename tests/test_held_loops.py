"""The model's own loops held by forces: the same mechanism, embedded, constrained and mixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import linkwork as lw
from holding import METHODS, allowed, close, floats_of, held, off, solved
from linkages import CATALOGUE, LOOP_KINDS, equations, floats, linkage, phi, tree
from linkwork import Gains, Hold, ModelError
from linkwork.constraints import force_held_loops
from linkwork.constraints.loops import ForceHeldLoop
from linkwork.functions.load import operations
from linkwork.model import Model
from linkwork.parts.loops import Loop
from test_loop_robots import EVERY, robot
from test_loops import state_of

every = pytest.mark.parametrize("name", list(CATALOGUE))
some = pytest.mark.sweep(6)  # of laws that take long


def names(model: Model) -> list[str]:
    return [c.name for c in (*model.embedded, *model.force_held)]


def constrained(model: Model) -> Model:
    return model.with_loops(constrain=names(model))


def in_order(model: Model, x: np.ndarray) -> np.ndarray:
    """Of the spanning tree's velocities or the like, (nv_spanning,), those that are a model's own, in their order."""
    spanning = [name for joint in model.joints for name in joint.v_names]
    return x[[spanning.index(name) for name in model.v_names]]


# rows


@every
@some
def test_rows_of_held_loops(name: str) -> None:
    """At closed states they allow the velocities and accelerations that the loops' own equations do, and no others."""
    model = linkage(name)
    other = constrained(model)
    _, q, _, _, _, _, V, *_ = state_of(model)
    assert other.nv == model.nv_spanning and not other.embedded
    loops = force_held_loops(other)
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
    """Velocities of the rows also where the loop is open, accelerations where it is closed and stays so; there is no error."""
    model = linkage(f"ring {kind}")
    (loop,) = model.embedded
    assert isinstance(loop, Loop)
    other, cut, rng, h = constrained(model), tree(model), np.random.default_rng(3), 1e-3
    assert other.v_names == cut.v_names
    plain, stiff = ForceHeldLoop(loop), ForceHeldLoop(loop, Gains(1.0))

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
        along = [error(floats(lw.integrate, cut, q, v * t + 0.5 * a * t * t)) for t in (-2 * h, -h, 0.0, h, 2 * h)]
        first = np.tensordot(np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12.0 * h), along, 1)
        second = np.tensordot(np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / (12.0 * h * h), along, 1)
        assert close(J @ v, first, 1e-8)
        assert close(held(other, [ForceHeldLoop(loop, Gains(0.0, 2.0))], q, v)[1] - rest, 2.0 * (J @ v), 1e-12)
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
            R = 1e-2 if method == "ltls" and geared else 1e-4  # it adds Jᵀ J / R, with ratios squared, to light rotors
            found, _, residual, _ = solved(other, s.q, v, tau, [], s.f, method=method, compliance=R, iterations=50)
            assert close(floats(lw.spanning_acceleration, other, s.q, v, found), right, 1e-8), method
            assert residual < 1e-7 * (1.0 + np.abs(right).max())


def test_the_same_motion_on_several_feet() -> None:
    """What moves a cluster that stands on several bodies moves its bodies against each other."""
    same_motion(lw.robots.scissor_lift(4))


@every
@pytest.mark.sweep(3)
def test_the_same_motion(name: str) -> None:
    same_motion(linkage(name))


QUICK = ("four_bar", "six_bar", "planar_leg_linkage", "five_bar", "slider_crank", "watt", "bricard", "four_bar_chain")
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
        found, forces, *_ = solved(other, s.q, in_order(other, s.V), in_order(other, force), [foot], method=method)
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


def test_placements_and_ratios_of_held_loops_are_inputs() -> None:
    """What constrains a model with other numbers as inputs are its loops with these numbers, wherever they are asked for."""
    model = constrained(linkage("loop and gear"))
    q, v = model.random_state(np.random.default_rng(3))
    tau, own, rng = np.ones(model.nv), model.parameters(), np.random.default_rng(4)
    values = {name: own[name] + 0.05 * rng.normal(size=own[name].shape) for name in ("ratio", "loop_placement")}
    for name, value in values.items():
        given, other = {"constraints": (), "parameters": {name: value}}, model.with_parameters({name: value})
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
        step, h = rng.normal(size=value.shape), 1e-5
        ends = [lw.forward_dynamics(model, q, v, tau, parameters={name: own[name] + s * h * step}) for s in (1, -1)]
        right = (ends[0] - ends[1]) / (2 * h)
        assert np.abs(right).max() > 1e-3
        assert np.abs(np.tensordot(by, step, step.ndim) - right).max() < 1e-5 * np.abs(right).max()


@every
@pytest.mark.sweep(3)
def test_there_and_back(name: str) -> None:
    model = linkage(name)
    assert constrained(model).with_loops(embed=names(model)) == model
    some = model.with_loops(constrain=names(model)[0])
    assert [c.name for c in some.force_held] == names(model)[:1]
    assert set(names(some)) == set(names(model)) and constrained(some).nv == model.nv_spanning
    assert tree(model).nv == constrained(model).nv


def test_held_loops_are_part_of_the_model() -> None:
    model = robot("watt")
    assert constrained(model) != model and hash(constrained(model)) != hash(model)
    assert model.force_held == () and len(constrained(model).force_held) == 2
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
def test_the_choice_is_never_worse_for_larger_ones(name: str) -> None:
    test_the_choice_is_never_worse(name)


def test_choices() -> None:
    model = robot("watt")
    assert lw.choose_loops(model, "embed") == model and lw.choose_loops(constrained(model), "embed") == model
    assert lw.choose_loops(model, "constrain") == constrained(model)
    assert lw.choose_loops(lw.robots.arm(), "auto") == lw.robots.arm()
    with pytest.raises(ModelError, match="loops must be one of embed, constrain, auto, not 'both'"):
        lw.choose_loops(model, "both")
