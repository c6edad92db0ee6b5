"""Active and passive joints in loops (Lie Sec. 3), against dense equations with multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_loops import Closed, close, places, precision, state, state_of

import linkwork as lw
from linkages import CATALOGUE, equations, floats, four_bar, linkage, tree
from linkwork.algorithms.loops.active_joints import least_squares
from linkwork.errors import ModelError
from linkwork.model import Model
from loops import loop_equations

every = pytest.mark.parametrize("name", list(CATALOGUE))
some = pytest.mark.sweep(6)  # of laws that take long


def names_of(m: Model) -> list[str]:
    return [n for j in m.joints for n in j.v_names]


def kept(m: Model, q: np.ndarray) -> np.ndarray:
    """The equations whose forces are λ, (kept, nv_spanning)."""
    K = loop_equations(m, q, np.zeros(m.nv_spanning))[1]
    ends = np.cumsum([0, *(c.count for c in m.clusters)])
    return K[[start + row for start, c in zip(ends, m.clusters) for row in c.rows]]


def dense(
    s: Closed, u: np.ndarray, ddq: np.ndarray, tau: np.ndarray, minimize: str, w: np.ndarray
) -> tuple[np.ndarray, ...]:
    """q̈, τ and λ of M q̈ + b = τ + Aᵀ λ, A q̈ = k, q̈_u and τ_v given: all solutions, and of these the
    least.
    """
    m = s.model
    q = s.q
    n = m.nv_spanning
    nu = int(u.sum())
    M = floats(lw.mass_matrix, tree(m), q)
    b = floats(lw.bias_force, tree(m), q, s.V, s.f)
    A = kept(m, q)
    K, k = equations(m, q, s.V)[1:]
    nl = len(A)
    system = np.zeros((n + len(K) + nu, n + nu + nl))
    system[:n] = np.hstack([M, -np.eye(n)[:, u], -A.T])
    system[n : n + len(K), :n] = K
    system[n + len(K) :, :n] = np.eye(n)[u]
    right = np.concatenate([np.where(u, 0.0, tau) - b, k, ddq[u]])
    U, size, Vt = np.linalg.svd(system)
    rank = int(np.sum(size > 1e-9 * size[0]))
    x = Vt[:rank].T @ ((U[:, :rank].T @ right) / size[:rank])
    N = Vt[rank:].T
    assert np.abs(system @ x - right).max() < 1e-8 * (1.0 + np.abs(right).max())  # there is a motion
    part = slice(n, n + nu) if minimize == "torque" else slice(n + nu, None)
    root = np.sqrt(w)
    x = x - N @ np.linalg.lstsq(root[:, None] * N[part], root * x[part], rcond=1e-9)[0]
    found = np.where(u, 0.0, tau)
    found[u] = x[n : n + nu]
    return x[:n], found, x[n + nu :]


def compare(
    s: Closed, u: np.ndarray, *, minimize: str = "torque", weighed: bool = False, seed: int = 0
) -> None:
    m = s.model
    q = s.q
    v = s.v
    rng = np.random.default_rng(seed)
    count = int(u.sum()) if minimize == "torque" else len(kept(m, q))
    w = rng.uniform(0.5, 2.0, count) if weighed else np.ones(count)
    tau = rng.normal(size=m.nv_spanning)
    want_a, want_tau, _ = dense(s, u, s.A, tau, minimize, w)
    given = np.where(u, s.A, np.nan), np.where(u, np.nan, tau)
    how = {"prescribed": tuple(u.tolist()), "minimize": minimize, "weights": tuple(w.tolist())}
    got_a, got_tau = floats(lw.spanning_hybrid_dynamics, m, q, v, *given, s.f, **how)
    tolerance = max(1e-8, 1e3 * precision(m, q))
    assert close(got_a, want_a, tolerance) and close(got_tau, want_tau, tolerance)


@every
@pytest.mark.sweep(3)
def test_forward_dynamics_with_forces_in_all_joints(name: str) -> None:
    s = state(name)
    compare(s, np.zeros(s.model.nv_spanning, dtype=bool))


@every
@some
def test_inverse_dynamics_where_all_joints_are_driven(name: str) -> None:
    s = state(name)
    for minimize in ("torque", "constraint_force"):
        compare(s, np.ones(s.model.nv_spanning, dtype=bool), minimize=minimize, weighed=minimize == "torque")


@pytest.mark.parametrize(("seed", "name"), list(enumerate(CATALOGUE)))
@pytest.mark.sweep(6)
def test_some_joints_are_active(seed: int, name: str) -> None:
    """Too few, enough and too many, in one cluster or the other."""
    s = state(name)
    rng = np.random.default_rng(seed)
    u = rng.random(s.model.nv_spanning) < rng.uniform(0.2, 0.8)
    compare(s, u, weighed=True, seed=seed)
    compare(s, u, minimize="constraint_force", weighed=True, seed=seed)


def options(m: Model, names: Any, minimize: str = "torque") -> dict[str, Any]:
    """The options in their normal form, for the function's body."""
    return lw.spanning_hybrid_dynamics.normalize_options(m, {"prescribed": names, "minimize": minimize})


def test_a_five_bar_as_in_the_paper() -> None:
    """Two active joints are enough, three too many, one too few (Lie Sec. 3.1)."""
    s = state_of(lw.robots.five_bar())
    m = s.model
    tau = floats(lw.inverse_dynamics, m, s.q, s.v, s.a, s.f)

    def hybrid(active: Any, minimize: str = "torque") -> Any:
        passive = np.zeros(m.nv_spanning)
        return floats(
            lw.spanning_hybrid_dynamics, m, s.q, s.v, s.A, passive, s.f, **options(m, active, minimize)
        )

    assert m.nv == 2 and len(m.joints) == 4
    a, found = hybrid(m.v_names)
    assert close(a, s.A, 1e-9) and close(found[places(m)], tau, 1e-9)
    more = [j.name for j in m.joints][:3]
    (a, torque), (_, force) = hybrid(more), hybrid(more, "constraint_force")
    assert close(a, s.A, 1e-9) and close(s.G.T @ torque, tau, 1e-9) and close(s.G.T @ force, tau, 1e-9)
    lam = [np.linalg.norm(floats(lw.loop_forces, m, s.q, s.v, s.a, s.f, x)) for x in (torque, force)]
    assert np.linalg.norm(torque) < 0.999 * np.linalg.norm(force) and lam[1] < 0.999 * lam[0]
    actuators = tuple(int(m.joint(n).v_start) for n in more)
    how = {"actuators": actuators, "weights": (1.0,) * len(more)}
    assert close(floats(lw.actuator_force, m, s.q, tau, **how), torque[list(actuators)], 1e-9)
    a, found = hybrid(more[:1])  # the rest moves as it must
    first = actuators[0]
    others = [k for k in range(4) if k != actuators[0]]
    assert np.isclose(a[first], s.A[first]) and not np.any(found[others]) and not close(a, s.A, 1e-3)


@every
@pytest.mark.sweep(3)
def test_forces_of_loops_close_the_equations(name: str) -> None:
    """M q̈ + b = τ + Aᵀ λ in all joints, for the forces that make a motion and for those of independent
    joints.
    """
    m, q, v, a, _, f, V, A, _ = state(name)
    M = floats(lw.mass_matrix, tree(m), q)
    b = floats(lw.bias_force, tree(m), q, V, f)
    rows = kept(m, q)
    alone = np.zeros(m.nv_spanning)
    alone[places(m)] = floats(lw.inverse_dynamics, m, q, v, a, f)
    spread = alone + rows.T @ np.random.default_rng(0).normal(size=len(rows))  # does the same
    for tau, given in ((alone, ()), (alone, (alone,)), (spread, (spread,))):
        lam = floats(lw.loop_forces, m, q, v, a, f, *given)
        assert close(M @ A + b, tau + rows.T @ lam, 1e-8)


def test_actuators_are_weighed_and_counted() -> None:
    m = four_bar(0, independent=True).build()
    q = m.random_state(0)[0]
    every = ["to crank", "to coupler", "to rocker"]
    w = np.array([1.0, 2.0, 5.0])
    x = lw.actuator_force(m, q, [3.0], actuators=every, weights=w)
    G = lw.spanning_velocity(m, q, [1.0])
    assert np.isclose(G @ x, 3.0) and close(x, 3.0 * (G / w) / (G @ (G / w)))
    assert close(lw.actuator_force(m, q, [3.0], actuators="to rocker"), [3.0 / G[2]])
    for weights in ([1.0, 2.0], [1.0, -1.0, 1.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0]):
        with pytest.raises(
            ModelError, match="weights: expected 3 positive numbers, one for each actuated velocity"
        ):
            lw.actuator_force(m, q[:3], [3.0], actuators=every, weights=weights)


def test_a_free_base_needs_no_actuator() -> None:
    """Nobody else makes the motors' forces: the same motion, with the base as it must move, from these alone."""
    m = linkage("loaded four-bar")
    q, v = m.random_state(0)
    assert m.joints[0].nv == 6
    motors = ["to crank", "to rocker", "to coupler_2", "to hand", "to finger", "to flag", "to ball"]
    tau = np.random.default_rng(0).normal(size=m.nv)
    tau[:6] = 0.0
    x = lw.actuator_force(m, q, tau, actuators=motors)
    spread = np.zeros(m.nv_spanning)
    spread[np.concatenate([np.arange(m.nv_spanning)[m.joint(name).v_slice] for name in motors])] = x
    assert close(lw.independent_force(m, q, spread), tau, 1e-12)
    assert close(lw.actuator_force(m, q, np.concatenate([np.ones(6), tau[6:]]), actuators=motors), x)
    with pytest.raises(
        ModelError, match="'to ball' has 3 independent velocities but 0 actuators: it is under-actuated"
    ):
        lw.actuator_force(m, q, tau, actuators=motors[:-1])
    floating = lw.robots.quadruped()
    q, v = floating.random_state(0)
    legs = [joint.name for joint in floating.joints[1:]]
    assert close(lw.actuator_force(floating, q, v, actuators=legs), v[6:], 1e-15)


def test_wrong_choices_are_told() -> None:
    m = four_bar(0).build()
    q, v = m.random_state(0)
    args = (m, q, v, np.zeros(3), np.zeros(3))
    for how, words in (
        ({"prescribed": ["to crnak"]}, "no joint named 'to crnak'"),
        ({"prescribed": 5}, "names of joints or of entries of the spanning velocity"),
        ({"prescribed": np.ones(2, dtype=bool)}, r"a boolean array of shape \(3,\)"),
        (
            {"prescribed": [], "minimize": "effort"},
            "minimize: expected one of torque, constraint_force",
        ),
        (
            {"prescribed": ["to crank"], "weights": [1.0, 1.0]},
            "weights: expected 1 positive numbers, one for each prescribed",
        ),
        (
            {"prescribed": [], "minimize": "constraint_force", "weights": [1.0]},
            "weights: expected 2 positive numbers, one for each equation",
        ),
    ):
        with pytest.raises(ModelError, match=words):
            lw.spanning_hybrid_dynamics(*args, **how)


def test_kernels_give_the_same_in_batches() -> None:
    s = state("loop and gear")
    m = s.model
    how = options(m, ["to crank", "to rocker"], "constraint_force")
    many = lw.spanning_hybrid_dynamics(m, np.stack([s.q, s.q]), s.v, s.A, 0.0 * s.A, s.f, **how)
    one = floats(lw.spanning_hybrid_dynamics, m, s.q, s.v, s.A, 0.0 * s.A, s.f, **how)
    for x, y in zip(many, one):
        assert x.shape == (2, m.nv_spanning) and close(x[0], y, 1e-10) and np.array_equal(x[0], x[1])


def with_locked_joint() -> lw.Model:
    """Return a skew four-bar with a universal joint in place of a hinge: loops lock the joint's first axis, but
    for rounding.
    """
    up = lw.joints.Revolute((0, 0, 1))
    builder = lw.ModelBuilder("locked")
    builder.add_body("base")
    skew = (0.3, -0.7, 1.1)
    builder.add_joint("skew", lw.joints.Fixed(), parent="world", child="base", rpy=skew)
    rows = [
        ("a", up, "base", (0.0, 0.0, 0.0), (0.0, 0.0, 0.9)),
        ("b", lw.joints.Universal(), "a", (0.5, 0.0, 0.0), (np.pi / 2, 0.0, 0.0)),
        ("c", up, "base", (1.0, 0.0, 0.0), (0.0, 0.0, 1.2)),
    ]
    for name, kind, parent, xyz, rpy in rows:
        builder.add_body(name, mass=1.0, center=(0.2, 0.0, 0.1), inertia=(0.01, 0.02, 0.02))
        builder.add_joint(f"j{name}", kind, parent=parent, child=name, xyz=xyz, rpy=rpy)
    ends = {"xyz": (1.0, 0, 0), "successor_xyz": (0.7, 0, 0), "successor_rpy": (np.pi / 2, 0, 0)}
    builder.add_loop("l", lw.joints.Revolute((0, 1, 0)), predecessor="b", successor="c", **ends)
    return builder.build()


def test_a_joint_that_loops_lock_is_no_actuator() -> None:
    """Prescribed as well, it changes nothing, and forces on it move nothing; alone it is refused where motion
    is to be determined.
    """
    model = with_locked_joint()
    q, v = model.random_state(1)
    still, tau = np.zeros(4), np.random.default_rng(0).normal(size=4)
    for driven in ([], ["ja"], ["jc"]):
        expected = lw.spanning_hybrid_dynamics(model, q, v, still, tau, prescribed=driven)
        found = lw.spanning_hybrid_dynamics(model, q, v, still, tau, prescribed=["jb.0", *driven])
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(np.delete(found[1], 1), np.delete(expected[1], 1), rtol=0, atol=1e-9)
    alone = lw.actuator_force(model, q, [2.0], actuators=["jc"])
    np.testing.assert_allclose(lw.actuator_force(model, q, [2.0], actuators=["jb.0", "jc"])[1:], alone)
    with pytest.raises(ModelError, match="expected joints that determine the motion of 'ja', got 'jb.0'"):
        lw.actuator_force(model, q, [2.0], actuators=["jb.0"])
    a = lw.forward_dynamics(model, q, v, [0.0])
    plane = [lw.OnPlane("c")]  # which it never leaves
    *_, missing = lw.constrained_inverse_dynamics(model, q, v, a + 1, constraints=plane, actuators=["jb.0"])
    np.testing.assert_allclose(missing, lw.inverse_dynamics(model, q, v, a + 1), rtol=1e-9)


def test_actuators_that_move_as_one_are_refused() -> None:
    """Two motors of one wheel do not determine a mechanism of two DoF."""
    geared = lw.ModelBuilder("geared")
    hinge = lw.joints.Revolute((0, 0, 1))
    for k in range(4):
        geared.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        geared.add_joint(f"j{k}", hinge, parent="world", child=f"b{k}")
    geared.add_coupling("same", {"j0": 1.0, "j1": -3.0}).add_coupling(
        "mix", {"j1": 1.0, "j2": 1.0, "j3": 2.0}
    )
    wheels = geared.build()
    with pytest.raises(ModelError, match="which loops lock or couple"):
        lw.actuator_force(wheels, np.zeros(4), np.ones(2), actuators=["j0", "j1"])
    assert np.isfinite(lw.actuator_force(wheels, np.zeros(4), np.ones(2), actuators=["j0", "j3"])).all()


@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 1e-6])
def test_minimal_forces_lose_no_more_digits_than_the_condition_near_singular_states(smallest: float) -> None:
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(5, 3)))[0]
    V = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = U @ np.diag([1.0, 0.5, smallest]) @ V.T
    b = rng.normal(size=3)
    weights = rng.uniform(0.5, 2.0, 5)
    found = least_squares(A, b, weights).astype(float)
    half = np.sqrt(weights)
    right = np.linalg.lstsq((A / half[:, None]).T, b, rcond=None)[0] / half
    assert np.abs(found - right).max() < 1e-15 / smallest * 100.0 * np.abs(right).max()
    assert np.allclose(A.T @ found, b, rtol=0.0, atol=1e-12 / smallest)
