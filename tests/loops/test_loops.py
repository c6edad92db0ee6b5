"""Laws of mechanisms with loops, on floats, and that compiled kernels give the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import linkwork as lw
from linkages import (
    CATALOGUE,
    LOOP_KINDS,
    asymmetric_rotors,
    closed_by,
    equations,
    floats,
    four_bar,
    geared,
    linkage,
    mobility,
    moderate,
    numbers,
    phi,
    rate,
    rotors,
    slider_crank,
    tree,
    with_constraints,
)
from linkwork.algorithms.tree.forward_dynamics import articulated_body
from linkwork.errors import ModelError
from linkwork.joints import Free, PointOnLine, Prismatic, Revolute, Spherical
from linkwork.loops import analysis
from linkwork.loops import rotors as rotors_module
from linkwork.loops.clusters import find_clusters
from linkwork.loops.embedding import tree_equations
from linkwork.mechanism import Coupling, End, Loop
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.robots.linkages import Upright
from linkwork.sko.cluster import ClusterNode
from linkwork.sko.prepare.rotors import lumped
from linkwork.sko.rigid import RigidNode
from linkwork.spatial import Pose, skew
from mechanisms import make, random_model

every = pytest.mark.parametrize("name", list(CATALOGUE))
# of laws that take long, and of others
some = pytest.mark.sweep(4)
third = pytest.mark.sweep(3)
REFERENCES = ("body", "world", "world_aligned")


class Closed(NamedTuple):
    """A closed state of a model, with all that functions take, and the same of its spanning tree."""

    model: Model
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    f: np.ndarray
    V: np.ndarray  # of the spanning tree
    A: np.ndarray
    G: np.ndarray  # (nv_spanning, nv)


@cache
def state(name: str) -> Closed:
    return state_of(linkage(name))


def state_of(m: Model, seed: int = 0) -> Closed:
    rng = np.random.default_rng(seed)
    for _ in range(50):  # not too near to where the independent velocities say nothing
        q, v = m.random_state(rng)
        G = np.array([floats(lw.spanning_velocity, m, q, e) for e in np.eye(m.nv)]).T
        if np.abs(G).max() < 30.0:
            break
    a = rng.normal(size=m.nv)
    tau = rng.normal(size=m.nv)
    f = rng.normal(size=(len(m.bodies), 6))
    return Closed(
        m,
        q,
        v,
        a,
        tau,
        f,
        floats(lw.spanning_velocity, m, q, v),
        floats(lw.spanning_acceleration, m, q, v, a),
        G,
    )


def close(a: Any, b: Any, tolerance: float = 1e-11) -> bool:
    a = numbers(a)
    b = numbers(b)
    assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
    return bool(np.all(np.abs(a - b) <= tolerance * (1.0 + np.abs(b).max(initial=0.0))))


def places(m: Model) -> np.ndarray:
    """Where the entries of v are among the velocities of the spanning tree."""
    found = []
    for c in m.clusters:
        own = np.concatenate([np.arange(m.nv_spanning)[m.joints[k].v_slice] for k in c.bodies])
        found += own[list(c.independent)].tolist()
    return np.array(found)


def precision(m: Model, q: np.ndarray) -> float:
    return max(1e-11, 1e-13 * np.linalg.cond(floats(lw.mass_matrix, m, q)))


# closure


@every
@some
def test_states_are_closed_to_the_second_derivative(name: str) -> None:
    m, q, v, _, _, _, V, A, G = state(name)
    error, K, k = equations(m, q, V)
    assert np.abs(error).max(initial=0.0) < 1e-10
    assert close(K @ V, np.zeros(len(K)), 1e-10)
    assert np.all(np.abs(K @ A - k) <= 1e-10 * (1.0 + np.abs(k).max(initial=0.0)))
    assert close(G @ v, V) and np.array_equal(V[places(m)], v)
    assert np.linalg.matrix_rank(K, 1e-8) == m.nv_spanning - m.nv == sum(len(c.rows) for c in m.clusters)
    names = [n for j in m.joints for n in j.v_names]
    assert m.v_names == tuple(names[c] for c in places(m))
    neutral = m.neutral()
    assert np.abs(numbers(phi(m, neutral))).max(initial=0.0) < 1e-10


@every
@third
def test_closing_holds_the_independent_coordinates(name: str) -> None:
    m, q, *_ = state(name)
    rng = np.random.default_rng(1)
    dependent = np.setdiff1d(np.arange(m.nv_spanning), places(m))
    push = np.zeros(m.nv_spanning)
    push[dependent] = rng.normal(size=len(dependent)) * 0.01
    away = floats(lw.integrate, tree(m), q, push)
    closed, left = floats(lw.close_loops, m, away)
    assert left < 1e-12 and np.abs(numbers(phi(m, closed))).max(initial=0.0) < 1e-11
    alone = [
        j.q_slice
        for k, j in enumerate(m.joints)
        if all(k not in c.bodies for c in m.clusters if c.constraints)
    ]
    assert all(np.array_equal(closed[s], away[s]) for s in alone)
    moved = floats(lw.difference, tree(m), away, closed)
    assert close(floats(lw.difference, m, away, closed), moved[places(m)])
    kept = moved[places(m)]
    assert np.abs(kept).max(initial=0.0) < 1e-14


@every
@third
def test_integrating_keeps_loops_closed(name: str) -> None:
    m, q, v, _, _, _, V, *_ = state(name)
    step = 1e-3 * v
    there = floats(lw.integrate, m, q, step)
    assert np.abs(numbers(phi(m, there))).max(initial=0.0) < 1e-11
    got = floats(lw.difference, m, q, there)
    assert close(got, step, 1e-13)
    first = floats(lw.integrate, tree(m), q, 1e-3 * V)
    off = floats(lw.difference, tree(m), first, there)
    assert np.abs(off).max() < 1e-3 * (1.0 + np.abs(V).max() ** 2)  # of the second order
    assert close(floats(lw.integrate, m, q, np.zeros(m.nv)), q, 1e-12)


# dynamics


@every
@third
def test_forces_are_those_of_the_spanning_tree(name: str) -> None:
    m, q, v, a, _, f, V, A, G = state(name)
    for pushed in ((), (f,)):
        whole = floats(lw.inverse_dynamics, tree(m), q, V, A, *pushed)
        tau = floats(lw.inverse_dynamics, m, q, v, a, *pushed)
        assert close(tau, G.T @ whole)
        assert close(floats(lw.independent_force, m, q, whole), G.T @ whole)
        still = floats(lw.spanning_acceleration, m, q, v, np.zeros(m.nv))
        assert close(
            floats(lw.bias_force, m, q, v, *pushed),
            G.T @ floats(lw.inverse_dynamics, tree(m), q, V, still, *pushed),
        )
    assert close(floats(lw.gravity_force, m, q), G.T @ floats(lw.gravity_force, tree(m), q))
    assert close(A, G @ a + still)


@every
@third
def test_forward_dynamics_inverts_inverse_dynamics(name: str) -> None:
    m, q, v, a, tau, f, *_ = state(name)
    tolerance = precision(m, q)
    for method in ("articulated_body", "mass_matrix"):
        for pushed in ((), (f,)):
            forces = floats(lw.inverse_dynamics, m, q, v, a, *pushed)
            assert close(floats(lw.forward_dynamics, m, q, v, forces, *pushed, method=method), a, tolerance)
            acceleration = floats(lw.forward_dynamics, m, q, v, tau, *pushed, method=method)
            assert close(floats(lw.inverse_dynamics, m, q, v, acceleration, *pushed), tau, tolerance)


@every
@third
def test_forward_dynamics_solves_the_equations_with_multipliers(name: str) -> None:
    m, q, v, _, tau, f, V, *_ = state(name)
    _, K, k = equations(m, q, V)
    M = floats(lw.mass_matrix, tree(m), q)
    c = floats(lw.bias_force, tree(m), q, V, f)
    full = np.zeros(m.nv_spanning)
    full[places(m)] = tau
    U, s, _ = np.linalg.svd(K.T, full_matrices=False)
    N = U[
        :, s > 1e-9 * max(1.0, s.max(initial=0.0))
    ].T  # the same equations without those that say nothing new
    right = np.linalg.lstsq(K @ N.T, k, rcond=1e-10)[0]
    KKT = np.block([[M, N.T], [N, np.zeros((len(N), len(N)))]])
    A = np.linalg.solve(KKT, np.concatenate([full - c, right]))[: m.nv_spanning]
    for method in ("articulated_body", "mass_matrix"):
        a = floats(lw.forward_dynamics, m, q, v, tau, f, method=method)
        assert close(floats(lw.spanning_acceleration, m, q, v, a), A, max(1e-9, precision(m, q)))


@every
@third
def test_the_mass_matrix(name: str) -> None:
    m, q, v, a, _, f, _, _, G = state(name)
    M = floats(lw.mass_matrix, m, q)
    assert close(M, G.T @ floats(lw.mass_matrix, tree(m), q) @ G)
    assert np.array_equal(M, M.T) and np.linalg.eigvalsh(M)[0] > 0
    bias = floats(lw.bias_force, m, q, v, f)
    columns = [floats(lw.inverse_dynamics, m, q, v, e, f) - bias for e in np.eye(m.nv)]
    assert close(np.array(columns).T, M, 1e-10) and close(
        M @ a + bias, floats(lw.inverse_dynamics, m, q, v, a, f)
    )
    rows, cols = lw.mass_matrix_pattern(m)
    outside = np.triu(np.ones((m.nv, m.nv), dtype=bool))
    outside[rows, cols] = False
    assert not np.any(M[outside])
    assert np.array_equal(floats(lw.mass_matrix, m, q, packed=True), M[rows, cols])
    for method in ("sweeps", "factorisation"):
        inverse = floats(lw.mass_matrix_inverse, m, q, method=method)
        assert close(inverse @ M, np.eye(m.nv), precision(m, q)) and np.array_equal(inverse, inverse.T)


@every
@third
def test_hybrid_dynamics_lies_between(name: str) -> None:
    m, q, v, a, tau, f, *_ = state(name)
    tolerance = precision(m, q)
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=(False,) * m.nv)
    assert close(got_a, floats(lw.forward_dynamics, m, q, v, tau, f, method="articulated_body"), tolerance)
    assert np.array_equal(got_tau, tau)
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=(True,) * m.nv)
    assert np.array_equal(got_a, a) and close(got_tau, floats(lw.inverse_dynamics, m, q, v, a, f))
    for seed in range(2):
        mask = np.random.default_rng(seed).random(m.nv) < 0.5
        given = np.where(mask, a, np.nan), np.where(mask, np.nan, tau)
        got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, *given, f, prescribed=tuple(mask.tolist()))
        assert np.array_equal(got_a[mask], a[mask]) and np.array_equal(got_tau[~mask], tau[~mask])
        assert close(floats(lw.inverse_dynamics, m, q, v, got_a, f), got_tau, tolerance)


# energy, momentum and frames


def along(m: Model, fn: Any, q: np.ndarray, V: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """d/dt fn(q, v) along the closed motion, by the tracer."""

    def both(x: Any) -> Any:
        return fn(x[: m.nq], x[m.nq :])

    return numbers(lw.jvp_of(both, np.concatenate([q, v]), np.concatenate([numbers(rate(m, q, V)), a]))[1])


@every
@third
def test_energy_and_the_power_that_goes_in(name: str) -> None:
    m, q, v, a, _, f, V, _, _ = state(name)
    energy = floats(lw.kinetic_energy, m, q, v)
    assert close(energy, 0.5 * v @ floats(lw.mass_matrix, m, q) @ v)
    assert close(energy, floats(lw.kinetic_energy, tree(m), q, V))
    assert close(floats(lw.potential_energy, m, q), floats(lw.potential_energy, tree(m), q))

    def total(q: Any, v: Any) -> Any:
        return lw.kinetic_energy.body(m, q, v) + lw.potential_energy.body(m, q)

    tau = floats(lw.inverse_dynamics, m, q, v, a, f)
    damping = np.concatenate([j.damping for j in m.joints])
    pushed = sum(
        f[k] @ floats(lw.frame_velocity, m, q, v, frame=m.bodies[k].name) for k in range(len(m.bodies))
    )
    assert close(along(m, total, q, V, v, a), tau @ v - damping @ V**2 + pushed, 1e-10)


@every
@third
def test_momentum(name: str) -> None:
    m, q, v, _, _, _, V, _, G = state(name)
    momentum = floats(lw.momentum, m, q, v)
    assert close(momentum, floats(lw.momentum, tree(m), q, V))
    assert close(floats(lw.centroidal_map, m, q), floats(lw.centroidal_map, tree(m), q) @ G)
    assert close(floats(lw.centroidal_map, m, q) @ v, momentum)
    assert close(floats(lw.center_of_mass, m, q), floats(lw.center_of_mass, tree(m), q))


def test_momentum_changes_by_what_pushes_from_outside() -> None:
    m, q, v, a, _, f, V, *_ = state("loaded four-bar")
    f = f.copy()
    f[0] = 0.0
    tau = floats(lw.inverse_dynamics, m, q, v, a, f)
    a = a.copy()  # the base floats: nothing holds it
    mask = np.array([n not in m.joints[0].v_names for n in m.v_names])
    a, _ = floats(
        lw.hybrid_dynamics, m, q, v, a, np.where(mask, tau, 0.0), f, prescribed=tuple(mask.tolist())
    )
    change = along(m, lambda q, v: lw.momentum.body(m, q, v), q, V, v, a)
    T = floats(lw.forward_kinematics, m, q)
    center = floats(lw.center_of_mass, m, q)
    push = np.concatenate([np.zeros(3), m.mass * np.array(m.gravity)])
    for k, X in enumerate(T):
        R = X[:3, :3]
        p = X[:3, 3] - center
        push += np.concatenate([R @ f[k, :3] + np.cross(p, R @ f[k, 3:]), R @ f[k, 3:]])
    assert close(change, push, 1e-9)


@every
@some
def test_frames_move_as_derivatives_say(name: str) -> None:
    m, q, v, a, _, _, V, A, G = state(name)
    assert close(floats(lw.forward_kinematics, m, q), floats(lw.forward_kinematics, tree(m), q))
    for frame in m.frames:
        same = {"frame": frame.name}
        assert close(floats(lw.frame_pose, m, q, **same), floats(lw.frame_pose, tree(m), q, **same))
        for reference in REFERENCES:
            how = {**same, "reference": reference}
            assert close(
                floats(lw.frame_jacobian, m, q, **how), floats(lw.frame_jacobian, tree(m), q, **how) @ G
            )
            assert close(
                floats(lw.frame_jacobian, m, q, **how) @ v, floats(lw.frame_velocity, m, q, v, **how)
            )
            for classical in (False, True):
                own = floats(lw.frame_acceleration, m, q, v, a, classical=classical, **how)
                assert close(
                    own, floats(lw.frame_acceleration, tree(m), q, V, A, classical=classical, **how), 1e-10
                )
    for frame in [
        m.frames[-1].name
        if name in ("rotors", "loaded four-bar")
        else m.bodies[m.clusters[-1].bodies[-1]].name
    ]:
        velocity = along(
            m, lambda q, v, frame=frame: lw.frame_velocity.body(m, q, v, frame=frame), q, V, v, a
        )
        assert close(velocity, floats(lw.frame_acceleration, m, q, v, a, frame=frame), 1e-9)
        T = floats(lw.frame_pose, m, q, frame=frame)
        moved = along(m, lambda q, v, frame=frame: lw.frame_pose.body(m, q, frame=frame), q, V, v, a)
        twist = skew(floats(lw.frame_velocity, m, q, v, frame=frame)[:3])
        assert close(moved[:3, :3], T[:3, :3] @ twist, 1e-9)


# nodes


@every
@third
def test_nodes_of_clusters_are_like_any_other(name: str) -> None:
    """Loops Eq. 15 to 24, on dense matrices: T^a and T^c, and V = A* V(℘) + H* θ̇ and the same of
    accelerations and forces.
    """
    m, q, v, a, _, f, *_ = state(name)
    for load in (None, f):
        nodes = lw.nodes(m, q, v, load)
        alpha: dict[Any, np.ndarray] = {nodes.ground: numbers(nodes.ground.alpha)}
        V: dict[Any, np.ndarray] = {nodes.ground: np.zeros(6)}
        for k in nodes.base_to_tips():
            H = numbers(k.H)
            parent = k.parent
            assert H.shape == (k.dofs.stop - k.dofs.start, k.rows)
            A = numbers(k.A.scatter(np.eye(parent.rows)))
            assert A.shape == (k.rows, parent.rows)
            back = numbers(k.A.gather(np.eye(k.rows)))
            assert close(back, A.T)
            V[k] = A @ V[parent] + H.T @ v[k.dofs]
            alpha[k] = A @ alpha[parent] + H.T @ a[k.dofs] + numbers(k.a)
            assert close(numbers(k.accelerate(alpha[parent], a[k.dofs])), alpha[k])
            M = numbers(k.M @ np.eye(k.rows))
            assert close(M, M.T) and close(numbers(k.force(alpha[k])), M @ alpha[k] + numbers(k.b))
            carried = k.A.congruence(k.M)
            into = numbers(parent.M @ np.eye(parent.rows)) if parent is not nodes.ground else np.zeros((6, 6))
            if parent is nodes.ground:
                assert close(numbers(carried @ np.eye(6)), A.T @ M @ A)
            else:
                assert close(numbers((parent.M + carried) @ np.eye(parent.rows)) - into, A.T @ M @ A)


def test_cluster_subspace_by_the_two_transforms() -> None:
    """Loops Eq. 22: S = T^a Ŝ G with T^a of the bodies' own tree, and V of the bodies = X^c V_parent + S ẏ."""
    m, q, v, *_ = state("six-bar")
    nodes = lw.nodes(m, q, v, np.zeros((len(m.bodies), 6)))
    (k,) = nodes.base_to_tips()
    bodies = k.bodies
    n = len(bodies)
    up = np.zeros((6 * n, 6 * n))
    for i, body in enumerate(bodies):
        for j, other in enumerate(bodies):
            if body.on is other:
                up[6 * i : 6 * i + 6, 6 * j : 6 * j + 6] = numbers(body.X.scatter(np.eye(6)))
    T = np.linalg.inv(np.eye(6 * n) - up)
    S = np.zeros((6 * n, n))
    for i, body in enumerate(bodies):
        S[6 * i : 6 * i + 6, i] = numbers(body.joint_map)[:, 0]
    G = np.concatenate([numbers(body.G) for body in bodies])
    assert close(numbers(k.H).T, T @ S @ G)


def test_kinds_of_nodes() -> None:
    m, q, v, *_ = state("loaded four-bar")
    nodes = lw.nodes(m, q, v)
    kinds = [type(node) for node in nodes.base_to_tips()]
    assert kinds == [ClusterNode if c.constraints else RigidNode for c in m.clusters]
    assert list(nodes.bodies) == [k for c in m.clusters for k in c.bodies] and nodes[GROUND] is nodes.below
    assert list(nodes.tips_to_base()) == list(nodes.base_to_tips())[::-1]


# rotors


LEG = {"rotor0", "rotor1", "rotor2", "wheel", "disc"}
ASYMMETRIC_GEARED = {"along", "against", "upward", "slow", "centred"}
ASYMMETRIC = ASYMMETRIC_GEARED | {"unlike", "across", "flywheel", "wheel", "broad", "tall"}
SOME_ROTORS: dict[
    str, tuple[Callable[[], Model], set[str], set[str]]
] = {  # a model, its rotors, those that gears leave nothing of
    "rotors": (lambda: linkage("rotors"), LEG, {"rotor0", "rotor1"}),
    "rotors askew": (lambda: linkage("rotors askew"), LEG, {"rotor0", "rotor1"}),
    "rotors on a turning base": (
        lambda: rotors(np.random.default_rng(3), base=Spherical()),
        LEG,
        {"rotor0", "rotor1"},
    ),
    "rotor in a loop": (
        lambda: linkage("rotor in a loop"),
        {f"rotor{k}" for k in (1, 2, 3, 4)},
        {"rotor1", "rotor3", "rotor4"},
    ),
    "asymmetric rotors": (lambda: linkage("asymmetric rotors"), ASYMMETRIC, ASYMMETRIC_GEARED),
    "rotors that lead": (
        lambda: asymmetric_rotors(np.random.default_rng(2), rotors_lead=True),
        ASYMMETRIC,
        ASYMMETRIC_GEARED,
    ),
}


@pytest.mark.parametrize("name", SOME_ROTORS)
def test_rotors_are_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, spinning, geared = SOME_ROTORS[name]
    m = made()
    _, q, v, a, tau, f, *_ = state_of(m)
    found = {m.bodies[k].name: rotor for k, (_, rotor, _) in enumerate(lumped(m)) if rotor}
    assert set(found) == spinning and {name for name, rotor in found.items() if rotor.geared} == geared
    general = replace(m, kernels={})
    with monkeypatch.context() as patch:
        patch.setattr(rotors_module, "is_rotor", lambda *_: False)
        assert not any(each.rotor for each in lumped(general))
    calls = [
        (lw.inverse_dynamics, (q, v, a), {}),
        (lw.inverse_dynamics, (q, v, a, f), {}),
        (lw.forward_dynamics, (q, v, tau), {"method": "articulated_body"}),
        (lw.forward_dynamics, (q, v, tau, f), {"method": "articulated_body"}),
        (lw.forward_dynamics, (q, v, tau), {"method": "mass_matrix"}),
        (lw.mass_matrix, (q,), {}),
        (lw.mass_matrix_inverse, (q,), {"method": "sweeps"}),
        (lw.kinetic_energy, (q, v), {}),
        (lw.potential_energy, (q,), {}),
        (lw.momentum, (q, v), {}),
        (lw.centroidal_map, (q,), {}),
        (lw.forward_kinematics, (q,), {}),
    ]
    for fn, args, options in calls:
        assert close(
            floats(fn, m, *args, **options), floats(fn, general, *args, **options), precision(m, q)
        ), fn.__name__
    whole = lw.nodes(m, q, v, f, all_bodies=True)  # every body with rows of its own
    assert sum(node.rows for node in whole.base_to_tips()) == 6 * len(m.bodies)
    assert close(articulated_body(whole, tau), floats(lw.forward_dynamics, m, q, v, tau, f), precision(m, q))
    mask = np.arange(m.nv) % 2 == 0
    mixed = [
        floats(lw.hybrid_dynamics, x, q, v, a, tau, prescribed=tuple(mask.tolist())) for x in (m, general)
    ]
    assert close(np.concatenate(mixed[0]), np.concatenate(mixed[1]), precision(m, q))
    for frame in m.frames:
        own, other = (floats(lw.frame_acceleration, x, q, v, a, frame=frame.name) for x in (m, general))
        assert close(own, other)
    count = lw.count_operations(lw.forward_dynamics, m)["total"]
    assert count < lw.count_operations(lw.forward_dynamics, general)["total"]


@pytest.mark.parametrize(
    "why", ["centre beside", "not balanced", "carries", "held by a loop", "on the ground", "slides"]
)
def test_what_is_no_rotor(why: str) -> None:
    builder = ModelBuilder("arm")
    builder.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("shoulder", Revolute(), parent="world", child="arm")
    center = (0.1, 0.0, 0.0) if why == "centre beside" else (0.0, 0.0, 0.2)
    inertia = np.diag([0.025, 0.02, 0.03] if why == "centre beside" else [0.02, 0.02, 0.03])
    inertia[0, 2] = inertia[2, 0] = 1e-4 if why == "not balanced" else 0.0
    builder.add_body("rotor", mass=0.5, center=center, inertia=inertia)
    kind = Prismatic() if why == "slides" else Revolute()
    builder.add_joint(
        "spin", kind, parent="world" if why == "on the ground" else "arm", child="rotor", xyz=(0.1, 0.2, 0.3)
    )
    if why == "carries":
        builder.add_body("more", mass=0.1, inertia=(0.1, 0.1, 0.1))
        builder.add_joint("other", Revolute((1.0, 0.0, 0.0)), parent="rotor", child="more")
    if why == "held by a loop":
        builder.add_body("more", mass=0.1, inertia=(0.1, 0.1, 0.1))
        builder.add_joint("other", Free(), parent="world", child="more")
        builder.add_loop("grip", Spherical(), predecessor="more", successor="rotor")
    else:
        builder.add_coupling("gear", {"spin": 1.0, "shoulder": -6.0})
    m = builder.build()
    assert not lumped(m)[m.body("rotor").index].rotor
    _, q, v, a, _, f, V, A, G = state_of(m)
    assert close(
        floats(lw.inverse_dynamics, m, q, v, a, f), G.T @ floats(lw.inverse_dynamics, tree(m), q, V, A, f)
    )


# clusters


def is_tree(joints: Any, constraints: list[Any], parts: list[list[int]]) -> bool:
    """Whether parts hang on one another as a tree (Loops footnote 2) and every constraint acts in one and the
    one below.

    What no constraint holds together is no part.
    """
    part_of = {GROUND: GROUND} | {k: i for i, part in enumerate(parts) for k in part}
    below: dict[int, int] = {}
    for i, part in enumerate(parts):
        on = {part_of[joints[k].parent] for k in part} - {i}
        if len(on) != 1:
            return False
        (below[i],) = on
    for i in below:
        for _ in parts:
            i = below.get(i, GROUND)
        if i != GROUND:
            return False
    held = [{k} for k in range(len(joints))]
    for c in constraints:
        ends = {c.predecessor.body, c.successor.body} if isinstance(c, Loop) else {k for k, _, _ in c.terms}
        touched = {part_of[k] for k in ends}
        if isinstance(c, Loop) and isinstance(c.kind, Free):
            continue
        own = [i for i in below if i in touched and touched <= {i, below[i] if isinstance(c, Loop) else i}]
        if not own:
            return False
        ring = {j for k in ends for j in way(joints, k) if part_of[j] == own[0]}
        merged = set().union(*(one for one in held if one & ring))
        held = [one for one in held if not one & ring] + [merged]
    return len(held) == len(parts)


def way(joints: Any, body: int) -> list[int]:
    return [] if body == GROUND else [body, *way(joints, joints[body].parent)]


def most(joints: Any, constraints: list[Any]) -> int:
    """How many parts there can be; by trying all."""

    def partitions(items: list[int]) -> Any:
        if not items:
            yield []
            return
        for rest in partitions(items[1:]):
            yield [[items[0]], *rest]
            for i in range(len(rest)):
                yield [*rest[:i], [items[0], *rest[i]], *rest[i + 1 :]]

    return max(
        len(parts) for parts in partitions(list(range(len(joints)))) if is_tree(joints, constraints, parts)
    )


@pytest.mark.parametrize("seed", range(60))
@third
def test_clusters_are_the_smallest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    parents = [int(rng.integers(-1, k)) for k in range(n)]
    t = make(rng, parents, ["revolute"] * n, fixed=False)
    here = Pose.identity()
    made: list[Any] = []
    for c in range(int(rng.integers(1, 5))):
        i, j = rng.choice(np.arange(-1, n), size=2, replace=False).tolist()
        if rng.random() < 0.5 or GROUND in (i, j):
            kind = Free() if rng.random() < 0.1 else Spherical()
            made.append(Loop(f"loop{c}", kind, End(i, here), End(j, here)))
        else:
            some = rng.choice(n, size=min(n, int(rng.integers(2, 4))), replace=False).tolist()
            made.append(Coupling(f"gear{c}", tuple((k, 0, 1.0) for k in some), 0.0))
    found = find_clusters(t.joints, made)
    parts = [bodies for bodies, _ in found]
    assert is_tree(t.joints, made, parts) and len(parts) == most(t.joints, made)
    first = [bodies[0] for bodies in parts]
    assert first == sorted(first) and all(bodies == sorted(bodies) for bodies in parts)
    held = [c.name for _, constraints in found for c in constraints]
    assert sorted(held) == sorted(
        c.name for c in made if not (isinstance(c, Loop) and isinstance(c.kind, Free))
    )


@pytest.mark.parametrize(
    ("file", "sizes"),
    [("four_bar", [3]), ("six_bar", [5]), ("planar_leg_linkage", [1, 3]), ("mini_cheetah", [1] + [2] * 12)],
)
def test_clusters_of_the_paper(file: str, sizes: list[int]) -> None:
    path = f"/work/shared/data/urdf_plus/{file}.urdf"
    try:
        m = lw.load(path)
    except ModelError as error:
        if "cannot be read" in str(error):
            pytest.skip("the files of the paper are not here")
        raise
    assert sorted(len(c.bodies) for c in m.clusters) == sorted(sizes)


# clusters that stand on several bodies


def merged(m: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The same model with one cluster for all that stand on several bodies of one another."""
    with monkeypatch.context() as patch:
        patch.setattr(analysis, "satisfies_all_equations", lambda embedding, _: embedding.below is None)
        other = m.with_any_independent()
        assert len(other.clusters) < len(m.clusters) and not any(c.supports for c in other.clusters)
    return other


@pytest.mark.parametrize("name", ["scissor lift", "ladder", "geared across", "spatial stages"])
def test_clusters_on_several_bodies_give_the_results_of_one_cluster(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, q, v, _, _, f, V, A, _ = state(name)
    one = merged(m, monkeypatch)
    assert m.nv == one.nv
    force = np.random.default_rng(0).normal(size=m.nv_spanning)
    tolerance = 100 * max(precision(m, q), precision(one, q))
    for method in ("articulated_body", "mass_matrix"):
        found = []
        for x in (m, one):
            tau = floats(lw.independent_force, x, q, force)
            ddy = floats(lw.forward_dynamics, x, q, V[places(x)], tau, f, method=method)
            found.append(floats(lw.spanning_acceleration, x, q, V[places(x)], ddy))
        assert close(*found, tolerance)
    assert close(floats(lw.kinetic_energy, m, q, v), floats(lw.kinetic_energy, one, q, V[places(one)]))
    assert close(floats(lw.spanning_acceleration, one, q, V[places(one)], A[places(one)]), A, tolerance)


def test_stages_cost_the_same_however_many() -> None:
    models = [lw.robots.scissor_lift(n) for n in (3, 4, 5, 6)]
    assert [[len(c.bodies) for c in m.clusters] for m in models[:2]] == [[3, 2, 2, 1], [3, 2, 2, 2, 1]]
    for fn, options in (
        (lw.inverse_dynamics, {}),
        (lw.forward_dynamics, {"method": "articulated_body"}),
        (lw.mass_matrix, {}),
        (lw.spanning_acceleration, {}),
        (lw.close_loops, {}),
    ):
        counts = [lw.count_operations(fn, m, **options)["total"] for m in models]
        steps = np.array(counts[2:]) - counts[:-2]  # of two stages, since each mirrors the one below
        assert np.ptp(steps) <= 0.05 * steps.mean(), (fn.__name__, counts)
    assert (
        "hanging on right_0, left_0" in models[0].report()
        or "hanging on left_0, right_0" in models[0].report()
    )


def test_scissor_lift_rises_as_its_bars_turn() -> None:
    m = lw.robots.scissor_lift(4)
    for turn in (-0.35, 0.0, 0.3):
        q, left = floats(
            lw.close_loops, m, np.where(np.arange(m.nq) == m.joint("left_0_joint").q_start, turn, 0.0)
        )
        assert left < 1e-12
        top = floats(lw.frame_pose, m, q, frame="platform")
        assert close(top[:3, 3], [0.0, 0.0, 4 * np.sin(0.6 - turn)], 1e-12) and close(
            top[:3, :3], np.eye(3), 1e-12
        )
        velocity = floats(lw.frame_velocity, m, q, np.ones(1), frame="platform", reference="world_aligned")
        assert close(velocity, [0.0, 0.0, 0.0, 0.0, 0.0, -4 * np.cos(0.6 - turn)])


def stood_on(kind: str) -> ModelBuilder:
    """A five-bar linkage, and a bar between its lower arms."""
    linkage = Upright("stood on")
    for side, x in (("left", -0.1), ("right", 0.1)):
        linkage.bar(f"{side}_upper", "world", (x, 0.0), (2.0 * x, -0.18), mass=0.4)
        linkage.bar(f"{side}_lower", f"{side}_upper", (2.0 * x, -0.18), (0.0, -0.4), mass=0.3)
    linkage.close("tip", "left_lower", "right_lower", 0.0, -0.4)
    linkage.bar("bar", "left_lower", (-0.1, -0.29), (0.1, -0.29), mass=0.2)
    if kind == "pin":
        linkage.close("held", "bar", "right_lower", 0.1, -0.29)
    else:
        ends = {
            "place": linkage.place("bar", 0.0, -0.29),
            "successor_place": linkage.place("right_lower", 0.1, -0.29),
        }
        linkage.builder.add_loop(
            "held", PointOnLine((1.0, 0.0, 0.0)), predecessor="bar", successor="right_lower", **ends
        )
    return linkage.builder


def test_loops_that_constrain_their_supports_join_one_cluster() -> None:
    follows = stood_on("slot").build()
    holds = stood_on("pin").build()
    assert (follows.nv, [len(c.bodies) for c in follows.clusters]) == (2, [4, 1])
    assert (holds.nv, [len(c.bodies) for c in holds.clusters]) == (1, [5])
    check(follows)
    check(holds)


def test_independent_joints_may_be_on_top() -> None:
    m = lw.robots.scissor_lift(3)
    assert m.v_names == ("left_0_joint",)
    upper = m.with_independent("left_1_joint")
    assert upper.v_names == ("left_1_joint",) and [len(c.bodies) for c in upper.clusters] == [5, 2, 1]
    check(upper)
    ladder = linkage("ladder")
    other = ladder.with_independent("to left")
    assert [c.bodies for c in other.clusters] == [
        c.bodies for c in ladder.clusters
    ] and other.v_names != ladder.v_names
    with pytest.raises(
        ModelError, match="leave 1 degrees of freedom, but 2 independent velocities are chosen"
    ):
        m.with_independent("left_1_joint", "left_2_joint")


@pytest.mark.parametrize("name", ["four-bar", "scissor lift", "ladder", "spatial stages"])
def test_forces_of_loops_hold_the_tree(name: str) -> None:
    """M v̇ + c = τ + Kᵀ λ on the spanning tree, with τ in the independent joints alone, and K by the loops'
    own equations.
    """
    m, q, v, a, _, _, V, A, _ = state(name)
    left = floats(lw.inverse_dynamics, tree(m), q, V, A)
    left[places(m)] -= floats(lw.inverse_dynamics, m, q, v, a)
    forces = floats(lw.loop_forces, m, q, v, a)
    assert len(forces) == m.nv_spanning - m.nv
    start = 0
    for c in m.clusters:
        if c.constraints:
            K = numbers(tree_equations(m, c, q)[0])[list(c.rows)]
            left -= K.T @ forces[start : start + len(K)]
            start += len(K)
    assert np.abs(left).max() < 1e-9 * (1.0 + np.abs(forces).max())


def test_actuators_on_several_stages() -> None:
    m, q, *_ = state("ladder")
    alone = [j.name for j in m.joints if j.name in ("to base", "to hand", "to flag")]
    driven = [*alone, "to rocker", "to top"]  # two for the two freedoms of all stages
    tau = np.random.default_rng(0).normal(size=m.nv)
    x = lw.actuator_force(m, q, tau, actuators=driven)
    spread = np.zeros(m.nv_spanning)
    spread[np.concatenate([np.arange(m.nv_spanning)[m.joint(n).v_slice] for n in driven])] = x
    assert close(floats(lw.independent_force, m, q, spread), tau, 1e-9)


@pytest.mark.parametrize("seed", range(12))
@some
def test_random_stages(seed: int) -> None:
    """Loops that stand on random bodies of what is there already, each with joints to spare or none."""
    rng = np.random.default_rng(3000 + seed)
    parents = [-1, 0, 1, -1, 3]
    kinds = ["skew revolute", "universal", "revolute", "skew revolute", "universal"]
    ends = [(2, 4)]
    for _ in range(int(rng.integers(1, 4))):
        feet = rng.choice(len(parents), size=2, replace=False).tolist()
        for foot in feet:
            parents += [foot, len(parents)]
            kinds += [
                ("universal", "skew revolute")[rng.integers(2)],
                ("revolute", "prismatic")[rng.integers(2)],
            ]
        ends.append((len(parents) - 3, len(parents) - 1))
    t = make(rng, parents, kinds, fixed=False)
    q = moderate(t, rng)
    m = with_constraints(
        t, *(closed_by(t, Spherical(), i, j, q, rng, f"loop{n}") for n, (i, j) in enumerate(ends))
    )
    check(m)


# equations that say nothing new


def test_a_planar_four_bar_is_told_by_two_of_five_equations() -> None:
    m = four_bar().build()
    (cluster,) = m.clusters
    assert (cluster.count, len(cluster.rows), len(cluster.independent), m.nv) == (5, 2, 1, 1)
    assert "5 equations, of rank 2: 3 redundant" in m.report()
    twice = four_bar()
    twice.add_loop(
        "again",
        Revolute(),
        predecessor="coupler",
        successor="rocker",
        xyz=(0.8, 0, 0),
        successor_xyz=(0.6, 0, 0),
    )
    (both,) = twice.build().clusters
    assert (both.count, len(both.rows)) == (10, 2)
    q, v = m.random_state(0)
    other = twice.build()
    assert close(floats(lw.inverse_dynamics, m, q, v, v), floats(lw.inverse_dynamics, other, q, v, v)) or (
        m.v_names != other.v_names
    )


def test_a_repeated_gear_counts_once() -> None:
    rng = np.random.default_rng(0)
    t = make(rng, [-1, 0], ["revolute", "revolute"], fixed=False)
    m = with_constraints(
        t, Coupling("a", ((0, 0, 1.0), (1, 0, -2.0)), 0.3), Coupling("b", ((0, 0, -2.0), (1, 0, 4.0)), -0.6)
    )
    assert m.nv == 1 and len(m.clusters[0].rows) == 1
    with pytest.raises(ModelError, match="'a', 'b' cannot be closed"):
        with_constraints(t, m.embedded[0], Coupling("b", ((0, 0, -2.0), (1, 0, 4.0)), -0.5))


def test_a_bricard_linkage_moves() -> None:
    """Six hinges in a ring should not move, by counting; some rings do."""
    builder = ModelBuilder("bricard")
    on = "world"
    names = [f"link{k}" for k in range(5)]
    turn = [np.pi / 2, -np.pi / 2]
    for k, name in enumerate(names):  # equal lengths, axes at right angles in turn: Bricard's trihedral ring
        builder.add_body(name, mass=1.0 + 0.1 * k, center=(0.2, 0.1 * k, 0.0), inertia=(0.1, 0.12, 0.14))
        xyz, rpy = (
            ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) if k == 0 else ((0.5, 0.0, 0.0), (turn[(k - 1) % 2], 0.0, 0.0))
        )
        builder.add_joint(f"hinge{k}", Revolute(), parent=on, child=name, xyz=xyz, rpy=rpy)
        on = name
    base = Pose.from_xyz_rpy((0.5, 0.0, 0.0), (turn[1], 0.0, 0.0)).inverse()
    ends = {"predecessor": "link4", "xyz": (0.5, 0.0, 0.0), "rpy": (turn[0], 0.0, 0.0), "successor": "world"}
    builder.add_loop("last", Revolute(), successor_place=base, **ends)
    m = builder.build()
    assert (m.nv, m.clusters[0].count, len(m.clusters[0].rows)) == (1, 5, 4)
    c = state_of(m)
    assert np.abs(numbers(phi(m, c.q))).max() < 1e-10
    tau = floats(lw.inverse_dynamics, m, c.q, c.v, c.a)
    assert close(tau, c.G.T @ floats(lw.inverse_dynamics, tree(m), c.q, c.V, c.A), 1e-9)


# hinges are not put together the wrong way round


@pytest.mark.parametrize("kind", ["revolute", "prismatic", "cylindrical", "planar", "fixed"])
def test_shared_axes_are_not_flipped(kind: str) -> None:
    closing = LOOP_KINDS[kind](np.random.default_rng(1))
    builder = ModelBuilder("ball")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("loose", Free(), parent="world", child="ball")
    builder.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", Revolute((1.0, 0.0, 0.0)), parent="world", child="arm")
    builder.add_loop(
        "grip", closing, predecessor="arm", successor="ball", xyz=(0.1, 0.2, 0.3), rpy=(0.3, 0.2, 0.1)
    )
    m = builder.build()
    rng = np.random.default_rng(0)
    for _ in range(8):
        q, _ = m.random_state(rng)
        assert np.abs(numbers(phi(m, q))).max() < 1e-10
    over = q.copy()
    R = Pose.from_quaternion(q[3:7]).R @ np.diag(
        [1.0, -1.0, -1.0]
    )  # in the ball's own axes, where the loop's frame is
    if kind == "fixed":
        over[3:7] = [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + np.trace(R)]
        closed, left = floats(lw.close_loops, m, over)
        assert left > 0.4 or np.abs(numbers(phi(m, closed))).max() < 1e-9  # what is not closed is told


# batches and compiled code


def parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


COMPILED = ("four-bar", "slider-crank", "rotors", "ring universal", "loaded four-bar", "ladder")


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.sweep(3)
def test_compiled_kernels_give_the_same(name: str) -> None:
    m, q, v, a, tau, f, *_ = state(name)
    cases: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (lw.inverse_dynamics, (q, v, a), {}),
        (lw.forward_dynamics, (q, v, tau), {}),
        (lw.close_loops, (q + 1e-3,), {}),
    ]
    if name in ("four-bar", "rotors", "ladder"):
        cases += [
            (lw.forward_dynamics, (q, v, tau, f), {"method": "articulated_body"}),
            (lw.mass_matrix, (q,), {}),
            (lw.spanning_acceleration, (q, v, a), {}),
            (lw.independent_force, (q, np.ones(m.nv_spanning)), {}),
            (lw.integrate, (q, 0.1 * v), {}),
        ]
    for fn, args, options in cases:
        own = {"method": "articulated_body"} if fn is lw.forward_dynamics else options
        got = fn(m, *args, **options)
        many = fn(m, *(np.stack([x] * 19) for x in args), **options)
        for one, rows, plain in zip(*map(parts, (got, many, floats(fn, m, *args, **own)))):
            assert close(one, plain, max(1e-10, precision(m, q))), fn.__name__
            assert all(np.array_equal(row, one) for row in rows), fn.__name__


def test_a_batch_closes_row_by_row() -> None:
    m = four_bar(independent=True).build()
    assert m.v_names == ("to crank",)
    rng = np.random.default_rng(0)
    good = np.stack([m.random_state(rng)[0] for _ in range(33)])
    away = good.copy()
    away[:, 1:] += rng.normal(size=(33, 2)) * 0.05
    closed, left = lw.close_loops(m, away)
    assert left.shape == (33,) and left.max() < 1e-12
    assert np.array_equal(closed[:, 0], away[:, 0]) and all(
        np.abs(numbers(phi(m, q))).max() < 1e-11 for q in closed
    )
    far = ModelBuilder("reach")  # a rod that reaches only where the crank points to it
    for name, x in (("crank", 0.0), ("rocker", 1.0)):
        far.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        far.add_joint(
            f"to {name}",
            Revolute(),
            parent="world",
            child=name,
            xyz=(x, 0.0, 0.0),
            independent=name == "crank",
        )
    far.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1))
    far.add_joint("to rod", Revolute(), parent="crank", child="rod", xyz=(0.5, 0.0, 0.0), independent=False)
    far.add_loop(
        "pin", Revolute(), predecessor="rod", successor="rocker", xyz=(0.4, 0, 0), successor_xyz=(0.3, 0, 0)
    )
    m = far.build()
    q, _ = m.random_state(0)
    rows = np.stack([q] * 20)
    rows[::3, m.joint("to crank").q_start] = np.pi  # points away: nothing reaches
    rows[4] = np.nan
    closed, left = lw.close_loops(m, rows)
    bad = np.arange(20) % 3 == 0
    assert np.all(left[bad] > 0.1) and left[4] == np.inf
    fine = ~bad & (np.arange(20) != 4)
    assert np.all(left[fine] < 1e-12) and np.abs(closed[fine] - q).max() < 1e-10
    assert np.all(np.isfinite(closed[bad]))


# simulation


def semi_implicit(
    m: Model, q: np.ndarray, v: np.ndarray, h: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    zero = np.zeros(m.nv)
    for _ in range(steps):
        v = v + h * lw.forward_dynamics(m, q, v, zero)
        q = lw.integrate(m, q, h * v)
    return q, v


def runge_kutta(
    m: Model, q: np.ndarray, v: np.ndarray, h: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    zero = np.zeros(m.nv)

    def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return lw.forward_dynamics(m, q, v, zero)

    for _ in range(steps):
        a1 = acceleration(q, v)
        a2 = acceleration(lw.integrate(m, q, 0.5 * h * v), v + 0.5 * h * a1)
        a3 = acceleration(lw.integrate(m, q, 0.5 * h * (v + 0.5 * h * a1)), v + 0.5 * h * a2)
        a4 = acceleration(lw.integrate(m, q, h * (v + 0.5 * h * a2)), v + h * a3)
        q = lw.integrate(m, q, h * (v + h / 6.0 * (a1 + a2 + a3)))
        v = v + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
    return q, v


def energy(m: Model, q: np.ndarray, v: np.ndarray) -> float:
    return float(lw.kinetic_energy(m, q, v) + lw.potential_energy(m, q))


@pytest.mark.parametrize(("step", "order"), [(semi_implicit, 1), (runge_kutta, 4)])
def test_a_simulated_four_bar_stays_closed(step: Any, order: int) -> None:
    m = four_bar(0, independent=True).build()
    q = m.neutral()
    v = np.array([4.0])
    start = energy(m, q, v)
    h = 0.004
    drift = []
    for k in (1, 2):
        x, u = step(m, q, v, h / k, 250 * k)
        drift.append(abs(energy(m, x, u) - start) / abs(start))
    fall = np.log2(drift[0] / drift[1])
    assert fall > order - 0.4, drift
    x, u = step(m, q, v, h, 2500)  # ten seconds
    assert np.abs(numbers(phi(m, x))).max() < 1e-9
    assert abs(energy(m, x, u) - start) < (0.2 if order == 1 else 1e-5) * abs(start)


# many more


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
@some
def test_random_linkages(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    t = random_model(rng, int(rng.integers(3, 8)), massless=False)
    q = moderate(t, rng)
    made: list[Any] = []
    for c in range(int(rng.integers(1, 3))):
        i, j = rng.choice(np.arange(-1, len(t.bodies)), size=2, replace=False).tolist()
        kind = list(LOOP_KINDS)[rng.integers(len(LOOP_KINDS))]
        i, j = (x if x == GROUND else int(t.bodies[x].name.removeprefix("body")) for x in (i, j))
        made.append(closed_by(t, LOOP_KINDS[kind](rng), i, j, q, rng, f"loop{c}"))
    groups = [(bodies, only) for bodies, only in find_clusters(t.joints, made) if only]
    rigid = any(mobility(t, q, bodies, only) == 0 for bodies, only in groups)
    try:
        m = with_constraints(t, *made)
    except ModelError as error:
        assert rigid and (
            "no degree of freedom" in str(error) or "cannot be closed" in str(error)
        )  # the only state is hard to find
        return
    check(m)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
@some
def test_random_gears(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    try:
        m = geared(rng, int(rng.integers(3, 8)), int(rng.integers(1, 4)))
    except ModelError as error:
        if "no degree of freedom" in str(error):
            return
        raise
    check(m)


def check(m: Model) -> None:
    _, q, v, a, _, f, V, A, G = state_of(m)
    error, K, k = equations(m, q, V)
    assert np.abs(error).max(initial=0.0) < 1e-10
    assert close(K @ V, np.zeros(len(K)), 1e-9) and close(K @ A, k, 1e-9)
    tau = floats(lw.inverse_dynamics, m, q, v, a, f)
    assert close(tau, G.T @ floats(lw.inverse_dynamics, tree(m), q, V, A, f), 1e-10)
    for method in ("articulated_body", "mass_matrix"):
        assert close(
            floats(lw.forward_dynamics, m, q, v, tau, f, method=method), a, max(1e-9, precision(m, q))
        )


def test_slider_crank_has_its_known_motion() -> None:
    m = slider_crank(np.random.default_rng(0))
    m = m.with_independent("to crank")
    q, _ = m.random_state(0)
    v = floats(lw.spanning_velocity, m, q, np.array([1.0]))
    x = m.joint("to slider")
    h = 1e-6
    ahead, _ = floats(lw.close_loops, m, q + h * np.eye(3)[m.joint("to crank").q_start])
    back, _ = floats(lw.close_loops, m, q - h * np.eye(3)[m.joint("to crank").q_start])
    assert close(v[x.v_start], (ahead - back)[x.q_start] / (2 * h), 1e-7)
