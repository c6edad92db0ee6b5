"""Laws that the dynamics of every tree keep, on floats over generated mechanisms, and that compiled kernels
give the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linkwork as lw
from laws import law
from linkwork.algorithms.tree import inverse_dynamics as newton_euler
from linkwork.joints import Fixed, Free, Gimbal, Helical, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.joints.joint import AxisJoint, aligned
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.spatial import Pose, ad
from mechanisms import (
    AXIAL,
    COORDINATES,
    KINDS,
    State,
    every_kind,
    general_pose,
    heavy,
    make,
    pose,
    random_model,
    rotation,
    state_of,
    with_state,
)

common = law(60)
slower = law(24)  # laws on derivatives, by the tracer
REFERENCES = ("body", "world", "world_aligned")


def numbers(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def close(a: Any, b: Any, tolerance: float = 1e-11) -> bool:
    a = numbers(a)
    b = numbers(b)
    assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
    return bool(np.all(np.abs(a - b) <= tolerance * (1.0 + np.abs(b).max(initial=0.0))))


def floats(fn: lw.ModelFunction, model: Model, *args: Any, **options: Any) -> Any:
    """What a public function computes, run on plain floats: its meaning, without tracing or compiling."""
    result = fn.body(model, *args, **options)
    return tuple(map(numbers, result)) if isinstance(result, tuple) else numbers(result)


def mass_matrix(model: Model, q: np.ndarray) -> np.ndarray:
    return floats(lw.mass_matrix, model, q)


def precision(model: Model, q: np.ndarray) -> float:
    """How exactly the acceleration can be known: by the condition of the mass matrix."""
    condition = np.linalg.cond(mass_matrix(model, q))
    assert condition < 1e9, "a mechanism that should not have been made"
    return max(1e-11, 1e-13 * condition)


def rate(model: Model, q: Any, v: Any) -> np.ndarray:
    """q̇ of v."""
    return np.concatenate([j.kind.rate(q[j.q_slice], v[j.v_slice]) for j in model.joints])


def along(model: Model, fn: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray | None = None) -> np.ndarray:
    """d/dt fn(q, v) along the motion that has velocity v and acceleration a, by the tracer."""
    a = np.zeros(model.nv) if a is None else a

    def both(x: Any) -> Any:
        return fn(x[: model.nq], x[model.nq :])

    return numbers(
        lw.jvp_of(both, np.concatenate([q, v]), np.concatenate([numbers(rate(model, q, v)), a]))[1]
    )


def body_jacobian(model: Model, q: np.ndarray, k: int) -> np.ndarray:
    return floats(lw.frame_jacobian, model, q, frame=model.bodies[k].name)


def plain(model: Model, **changed: Any) -> Model:
    """The model without springs, dampers and armature, or with other numbers for these in every joint."""
    none = {"damping": 0.0, "stiffness": 0.0, "rest": 0.0, "armature": 0.0} | changed
    joints = tuple(replace(j, **{word: (float(x),) * j.nv for word, x in none.items()}) for j in model.joints)
    return replace(model, joints=joints, kernels={})


# forces and accelerations


@common
@given(with_state())
def test_forward_dynamics_inverts_inverse_dynamics(case: tuple[Model, State]) -> None:
    m, (q, v, a, tau, f) = case
    tolerance = precision(m, q)
    for method in ("articulated_body", "mass_matrix"):
        forces = floats(lw.inverse_dynamics, m, q, v, a, f)
        assert close(floats(lw.forward_dynamics, m, q, v, forces, f, method=method), a, tolerance)
        acceleration = floats(lw.forward_dynamics, m, q, v, tau, f, method=method)
        assert close(floats(lw.inverse_dynamics, m, q, v, acceleration, f), tau, tolerance)


@common
@given(with_state())
def test_the_mass_matrix_is_how_forces_depend_on_accelerations(case: tuple[Model, State]) -> None:
    m, (q, v, a, _, f) = case
    M = mass_matrix(m, q)
    bias = floats(lw.bias_force, m, q, v, f)
    columns = [floats(lw.inverse_dynamics, m, q, v, e, f) - bias for e in np.eye(m.nv)]
    assert close(np.array(columns).T, M)
    assert close(M @ a + bias, floats(lw.inverse_dynamics, m, q, v, a, f))
    assert np.array_equal(M, M.T) and np.linalg.eigvalsh(M)[0] > 0
    rows, cols = lw.mass_matrix_pattern(m)
    assert np.all(rows <= cols) and list(zip(rows, cols)) == sorted(zip(rows.tolist(), cols.tolist()))
    outside = np.triu(np.ones((m.nv, m.nv), dtype=bool))
    outside[rows, cols] = False
    assert not np.any(M[outside])  # branches that do not carry one another
    assert np.array_equal(floats(lw.mass_matrix, m, q, packed=True), M[rows, cols])


@common
@given(with_state())
def test_the_inverse_of_the_mass_matrix(case: tuple[Model, State]) -> None:
    m, (q, *_) = case
    M = mass_matrix(m, q)
    tolerance = precision(m, q)
    for method in ("sweeps", "factorisation"):
        inverse = floats(lw.mass_matrix_inverse, m, q, method=method)
        assert close(inverse @ M, np.eye(m.nv), tolerance) and np.array_equal(inverse, inverse.T)


@common
@given(with_state())
def test_armature_adds_to_the_diagonal_only(case: tuple[Model, State]) -> None:
    m, (q, v, a, _, f) = case
    bare = plain(m)
    heavier = plain(m, armature=0.7)
    assert close(mass_matrix(heavier, q), mass_matrix(bare, q) + 0.7 * np.eye(m.nv), 1e-14)
    more = floats(lw.inverse_dynamics, heavier, q, v, a, f) - floats(lw.inverse_dynamics, bare, q, v, a, f)
    assert close(more, 0.7 * a)


@common
@given(with_state())
def test_external_forces_act_by_jacobians(case: tuple[Model, State]) -> None:
    m, (q, v, a, tau, f) = case
    generalised = sum(body_jacobian(m, q, k).T @ f[k] for k in range(len(m.bodies)))
    without = floats(lw.inverse_dynamics, m, q, v, a)
    assert close(floats(lw.inverse_dynamics, m, q, v, a, f), without - generalised)
    assert close(floats(lw.bias_force, m, q, v, f), floats(lw.bias_force, m, q, v) - generalised)
    for method in ("articulated_body", "mass_matrix"):
        pushed = floats(lw.forward_dynamics, m, q, v, tau, f, method=method)
        assert close(
            pushed, floats(lw.forward_dynamics, m, q, v, tau + generalised, method=method), precision(m, q)
        )


@common
@given(with_state(), st.integers(0, 2**32 - 1))
def test_hybrid_dynamics_lies_between(case: tuple[Model, State], seed: int) -> None:
    m, (q, v, a, tau, f) = case
    tolerance = precision(m, q)
    none = (False,) * m.nv
    every = (True,) * m.nv
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=none)
    forward = floats(lw.forward_dynamics, m, q, v, tau, f, method="articulated_body")
    assert close(got_a, forward, tolerance) and np.array_equal(got_tau, tau)
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=every)
    assert np.array_equal(got_a, a) and close(got_tau, floats(lw.inverse_dynamics, m, q, v, a, f))
    # some of both, also within one joint: what is given stays, and the whole is a solution
    mask = np.random.default_rng(seed).random(m.nv) < 0.5
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=tuple(mask.tolist()))
    assert np.array_equal(got_a[mask], a[mask]) and np.array_equal(got_tau[~mask], tau[~mask])
    assert close(floats(lw.inverse_dynamics, m, q, v, got_a, f), got_tau, tolerance)
    # and what stands where nothing is read does not matter
    other_a = np.where(mask, a, np.nan)
    other_tau = np.where(mask, np.nan, tau)
    again = floats(lw.hybrid_dynamics, m, q, v, other_a, other_tau, f, prescribed=tuple(mask.tolist()))
    assert np.array_equal(again[0], got_a) and np.array_equal(again[1], got_tau)


# energy


@slower
@given(with_state())
def test_the_power_that_goes_in_is_the_rate_of_energy(case: tuple[Model, State]) -> None:
    m, (q, v, a, _, f) = case

    def energy(q: Any, v: Any) -> Any:
        return lw.kinetic_energy.body(m, q, v) + lw.potential_energy.body(m, q)

    tau = floats(lw.inverse_dynamics, m, q, v, a, f)
    damping = np.concatenate([j.damping for j in m.joints])
    pushed = sum(f[k] @ (body_jacobian(m, q, k) @ v) for k in range(len(m.bodies)))
    assert close(along(m, energy, q, v, a), tau @ v - damping @ v**2 + pushed)


@common
@given(with_state())
def test_kinetic_energy(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    assert close(floats(lw.kinetic_energy, m, q, v), 0.5 * v @ mass_matrix(m, q) @ v)


@slower
@given(with_state())
def test_gravity_and_springs_are_gradients(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    weight, whole = plain(m), replace(plain(m), joints=m.joints, kernels={})
    gradient = [along(weight, lambda q, v: lw.potential_energy.body(weight, q), q, e) for e in np.eye(m.nv)]
    assert close(gradient, floats(lw.gravity_force, m, q))
    assert close(gradient, floats(lw.bias_force, weight, q, np.zeros(m.nv)))

    def springs(q: Any, v: Any) -> Any:
        return lw.potential_energy.body(whole, q) - lw.potential_energy.body(weight, q)

    gradient = [along(m, springs, q, e) for e in np.eye(m.nv)]
    still = floats(lw.bias_force, m, q, np.zeros(m.nv))
    assert close(still - floats(lw.gravity_force, m, q), gradient)
    # dampers take what their name says, and nothing else does
    drag = np.concatenate([j.damping for j in m.joints]) * v
    undamped = replace(m, joints=tuple(replace(j, damping=(0.0,) * j.nv) for j in m.joints), kernels={})
    assert close(floats(lw.bias_force, m, q, v) - floats(lw.bias_force, undamped, q, v), drag)


def test_a_spring_in_one_joint() -> None:
    b = ModelBuilder(gravity=(0, 0, 0)).add_body("b", mass=1.0)
    b.add_joint("j", Prismatic((1, 0, 0)), parent="world", child="b", stiffness=50.0, rest=0.2, damping=3.0)
    m = b.build()
    assert close(floats(lw.bias_force, m, np.array([0.5]), np.array([2.0])), [50 * 0.3 + 3 * 2.0], 1e-15)
    assert close(floats(lw.potential_energy, m, np.array([0.5])), 0.5 * 50 * 0.3**2, 1e-15)
    assert close(floats(lw.gravity_force, m, np.array([0.5])), [0.0])


def bracket(model: Model, q: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """[v, w] of the motions with constant v and w: q̇ = N v, N [v, w] = (N w)' N v - (N v)' N w."""
    found = []
    for j in model.joints:
        x = q[j.q_slice]
        a = v[j.v_slice]
        b = w[j.v_slice]
        N = np.array([numbers(j.kind.rate(x, e)) for e in np.eye(j.nv)]).T
        changes = [
            lw.jvp_of(lambda y, g=g, j=j: j.kind.rate(y, g) + 0.0 * y[0], x, numbers(j.kind.rate(x, h)))[1]
            for g, h in ((b, a), (a, b))
        ]
        found.append(np.linalg.lstsq(N, numbers(changes[0]) - numbers(changes[1]), rcond=None)[0])
    return np.concatenate(found)


@slower
@given(with_state(most=4), st.integers(0, 2**32 - 1))
def test_the_bias_belongs_to_the_mass_matrix(case: tuple[Model, State], seed: int) -> None:
    """M's rate is C + Cᵀ, so that Ṁ - 2 C is skew-symmetric, with C(v) w = Γ(v, w) + M [v, w] / 2.

    Γ is the symmetric form with Γ(v, v) = the bias of v; the bracket is zero where velocities are rates of
    coordinates.
    """
    m, (q, v, *_) = case
    m = replace(plain(m), gravity=(0.0, 0.0, 0.0))

    def bias(v: np.ndarray) -> np.ndarray:
        return floats(lw.bias_force, m, q, v)

    def C(w: np.ndarray) -> np.ndarray:
        return 0.5 * (bias(v + w) - bias(v) - bias(w)) + 0.5 * M @ bracket(m, q, v, w)

    M = mass_matrix(m, q)
    dM = along(m, lambda q, v: lw.mass_matrix.body(m, q), q, v)
    u, w = np.random.default_rng(seed).normal(size=(2, m.nv))
    assert close(u @ dM @ w, u @ C(w) + w @ C(u), 1e-10)
    assert close(w @ dM @ w, 2 * w @ C(w), 1e-10)
    assert close(0.5 * v @ dM @ v, v @ bias(v), 1e-10)
    if all(j.nq == j.nv and not isinstance(j.kind, Planar) for j in m.joints):
        assert close(bracket(m, q, v, w), np.zeros(m.nv))


@common
@given(with_state())
def test_the_bias_is_quadratic_in_the_velocity(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    m = plain(m)
    weight = floats(lw.gravity_force, m, q)
    once, twice = (floats(lw.bias_force, m, q, s * v) - weight for s in (1.0, 2.0))
    assert close(twice, 4.0 * once) and close(floats(lw.bias_force, m, q, -v) - weight, once)


# motion


@common
@given(with_state())
def test_integrate_and_difference(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    v = 0.3 * v
    there = floats(lw.integrate, m, q, v)
    assert close(floats(lw.difference, m, q, there), v)
    assert close(floats(lw.difference, m, q, q), np.zeros(m.nv))
    other, _ = m.random_state(1)
    arrived = floats(lw.integrate, m, q, floats(lw.difference, m, q, other))
    assert close(floats(lw.forward_kinematics, m, arrived), floats(lw.forward_kinematics, m, other), 1e-10)
    quarter = q
    for _ in range(4):
        quarter = floats(lw.integrate, m, quarter, v / 4)
    assert close(floats(lw.forward_kinematics, m, quarter), floats(lw.forward_kinematics, m, there))


def all_frames(model: Model) -> list[str]:
    return [f.name for f in model.frames]


@slower
@given(with_state(most=4), st.integers(0, 2**32 - 1))
def test_frames(case: tuple[Model, State], seed: int) -> None:
    """Poses, velocities, accelerations and Jacobians of a frame, each the derivative of the one before."""
    m, (q, v, a, *_) = case
    frame = str(np.random.default_rng(seed).choice(all_frames(m)))
    T = floats(lw.frame_pose, m, q, frame=frame)
    dT = along(m, lambda q, v: lw.frame_pose.body(m, q, frame=frame), q, v)
    R = T[:3, :3]
    p = T[:3, 3]
    spin = dT[:3, :3] @ R.T
    drift = dT[:3, 3]
    w = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
    expected = {
        "body": np.concatenate([R.T @ w, R.T @ drift]),
        "world_aligned": np.concatenate([w, drift]),
        "world": np.concatenate([w, drift - np.cross(w, p)]),
    }
    velocity = {ref: floats(lw.frame_velocity, m, q, v, frame=frame, reference=ref) for ref in REFERENCES}
    for ref in REFERENCES:
        assert close(velocity[ref], expected[ref])
        assert close(floats(lw.frame_jacobian, m, q, frame=frame, reference=ref) @ v, velocity[ref])

    def changed(ref: str) -> np.ndarray:
        return along(m, lambda q, v: lw.frame_velocity.body(m, q, v, frame=frame, reference=ref), q, v, a)

    def acceleration(ref: str, classical: bool) -> np.ndarray:
        return floats(lw.frame_acceleration, m, q, v, a, frame=frame, reference=ref, classical=classical)

    def turned(x: np.ndarray) -> np.ndarray:
        return np.concatenate([R @ x[:3], R @ x[3:]])

    assert close(acceleration("body", False), changed("body"))
    assert close(acceleration("world_aligned", False), turned(changed("body")))
    assert close(acceleration("world", False), changed("world"))
    seen = changed("world_aligned")  # of the frame's origin, from outside
    assert close(acceleration("world_aligned", True), seen)
    assert close(turned(acceleration("body", True)), seen)
    # of the body's point that is at the world's origin now, from outside: α_v + α_w × r + w × (w × r)
    there = seen[3:] + np.cross(seen[:3], -p) + np.cross(w, np.cross(w, -p))
    assert close(acceleration("world", True), np.concatenate([seen[:3], there]))


@common
@given(with_state())
def test_frames_on_a_body_are_where_they_were_put(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    poses = floats(lw.forward_kinematics, m, q)
    for frame in m.frames:
        on = np.eye(4) if frame.body == GROUND else poses[frame.body]
        assert close(floats(lw.frame_pose, m, q, frame=frame.name), on @ numbers(frame.place.matrix()))
    for body in m.bodies:
        assert close(floats(lw.frame_pose, m, q, frame=body.name), poses[body.index])
    for joint in m.joints:  # a joint's name is that of the link it moves
        assert close(floats(lw.frame_pose, m, q, frame=joint.name), poses[joint.child])
        before = np.eye(4) if joint.parent == GROUND else poses[joint.parent]
        here = joint.place.then(joint.kind.transform(q[joint.q_slice])).matrix()
        assert close(poses[joint.child], before @ numbers(here))
    still = floats(lw.frame_velocity, m, q, v, frame="world", reference="world")
    assert not np.any(still) and close(floats(lw.frame_pose, m, q, frame="world"), np.eye(4))


# momentum


@slower
@given(with_state())
def test_momentum(case: tuple[Model, State]) -> None:
    m, (q, v, *_) = case
    m = plain(m)
    momentum = floats(lw.momentum, m, q, v)
    assert close(floats(lw.centroidal_map, m, q) @ v, momentum)
    center = floats(lw.center_of_mass, m, q)
    assert close(m.mass * along(m, lambda q, v: lw.center_of_mass.body(m, q), q, v), momentum[3:])
    # body by body, in the world
    poses = floats(lw.forward_kinematics, m, q)
    total = np.zeros(6)
    moment = np.zeros(3)
    for body, T in zip(m.bodies, poses):
        V = floats(lw.frame_velocity, m, q, v, frame=body.name, reference="world_aligned")
        R = T[:3, :3]
        c = T[:3, 3] + T[:3, :3] @ body.center
        p = body.mass * (V[3:] + np.cross(V[:3], c - T[:3, 3]))
        total += [*(R @ body.moment @ R.T @ V[:3] + np.cross(c - center, p)), *p]
        moment += body.mass * c
    assert close(momentum, total) and close(center, moment / m.mass)
    assert close(floats(lw.potential_energy, m, q), -m.mass * np.dot(m.gravity, center))


@slower
@given(with_state(most=4, resisting=False, armature=False), st.integers(0, 2**32 - 1))
def test_momentum_changes_by_what_acts_from_outside(case: tuple[Model, State], seed: int) -> None:
    """A free root feels its joint's force as one from outside; forces within the mechanism change nothing."""
    m, _ = case
    rng = np.random.default_rng(seed)
    m = on_free_base(m, rng)
    q, v, _, tau, f = state_of(m, rng)
    a = floats(lw.forward_dynamics, m, q, v, tau, f, method="articulated_body")
    rates = along(m, lambda q, v: lw.momentum.body(m, q, v), q, v, a)
    center = floats(lw.center_of_mass, m, q)
    poses = floats(lw.forward_kinematics, m, q)
    f = f.copy()
    f[0] += tau[:6]
    total = np.array([0.0, 0.0, 0.0, *(m.mass * np.array(m.gravity))])
    for k, T in enumerate(poses):
        moment = T[:3, :3] @ f[k, :3]
        force = T[:3, :3] @ f[k, 3:]
        total += [*(moment + np.cross(T[:3, 3] - center, force)), *force]
    assert close(rates, total, precision(m, q))


def on_free_base(model: Model, rng: np.random.Generator) -> Model:
    """The model with its roots on a free body."""
    base = make(rng, [-1], ["free"], fixed=False, resisting=False, armature=False)
    bodies = [
        base.bodies[0],
        *(replace(b, index=b.index + 1, name=f"x{b.name}", links=()) for b in model.bodies),
    ]
    joints = [base.joints[0]]
    for j in model.joints:
        joints.append(
            replace(
                j,
                name=f"x{j.name}",
                parent=j.parent + 1,
                child=j.child + 1,
                q_start=j.q_start + 7,
                v_start=j.v_start + 6,
            )
        )
    return replace(model, bodies=tuple(bodies), joints=tuple(joints), frames=base.frames, kernels={})


# the papers' own tables, with dense matrices


def Ad(T: np.ndarray) -> np.ndarray:
    """Lie Eq. 7."""
    return np.block([[T[:3, :3], np.zeros((3, 3))], [hat(T[:3, 3]) @ T[:3, :3], T[:3, :3]]])


def hat(r: np.ndarray) -> np.ndarray:
    return np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])


def ad_(V: np.ndarray) -> np.ndarray:
    """Lie Eq. 27."""
    return np.block([[hat(V[:3]), np.zeros((3, 3))], [hat(V[3:]), hat(V[:3])]])


class Lie:
    """Lie Tables 2, 3 and 4 to the letter, with accelerations that are rates of velocities' components.

    Armature is added to SᵀÎS; what springs and dampers take is subtracted from τ.
    """

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray, f_ext: np.ndarray) -> None:
        self.model = model
        self.F_ext = f_ext
        self.n = len(model.bodies)
        self.parent = [j.parent for j in model.joints]
        self.at = [j.v_slice for j in model.joints]
        # X: Ad of T⁻¹
        self.X = []
        self.S = []
        self.eta = []
        self.V = []
        self.I = []
        self.children: list[list[int]] = [[] for _ in range(self.n)]
        for i, (joint, body) in enumerate(zip(model.joints, model.bodies)):
            x = q[joint.q_slice]
            dq = v[joint.v_slice]
            T = numbers(joint.place.matrix()) @ numbers(joint.kind.transform(x).matrix())
            S = numbers(joint.kind.subspace(x))
            self.X.append(np.linalg.inv(Ad(T)))
            self.S.append(S)
            V = S @ dq + (self.X[i] @ self.V[joint.parent] if joint.parent != GROUND else 0.0)
            self.V.append(V)
            self.eta.append(ad_(V) @ S @ dq + numbers(joint.kind.bias(x, dq)))
            c = hat(body.center)
            mass = body.mass
            self.I.append(
                np.block([[body.moment + mass * c.T @ c, mass * c], [mass * c.T, mass * np.eye(3)]])
            )
            if joint.parent != GROUND:
                self.children[joint.parent].append(i)
        self.dV0 = np.array([0.0, 0.0, 0.0, *(-np.array(model.gravity))])

    def before(self, dV: list[np.ndarray], i: int) -> np.ndarray:
        return self.X[i] @ (self.dV0 if self.parent[i] == GROUND else dV[self.parent[i]])

    def table2(self, ddq: np.ndarray, resistance: np.ndarray, armature: np.ndarray) -> np.ndarray:
        dV: list[np.ndarray] = []
        for i in range(self.n):
            dV.append(self.before(dV, i) + self.eta[i] + self.S[i] @ ddq[self.at[i]])
        F: dict[int, np.ndarray] = {}
        tau = np.zeros(self.model.nv)
        for i in reversed(range(self.n)):
            F[i] = self.I[i] @ dV[i] - ad_(self.V[i]).T @ self.I[i] @ self.V[i] - self.F_ext[i]
            F[i] += sum((self.X[k].T @ F[k] for k in self.children[i]), np.zeros(6))
            tau[self.at[i]] = self.S[i].T @ F[i]
        return tau + armature * ddq + resistance

    def table4(
        self, ddq: np.ndarray, tau: np.ndarray, u: set[int], armature: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """With the joints u prescribed; without any it is Table 3."""
        ddq = ddq.copy()
        tau = tau.copy()
        I = {}
        B = {}
        Psi = {}
        Pi = {}
        beta = {}
        for i in reversed(range(self.n)):
            S = self.S[i]
            eta = self.eta[i]
            I[i] = self.I[i] + sum(
                (self.X[k].T @ Pi[k] @ self.X[k] for k in self.children[i]), np.zeros((6, 6))
            )
            B[i] = -ad_(self.V[i]).T @ self.I[i] @ self.V[i] - self.F_ext[i]
            B[i] += sum((self.X[k].T @ beta[k] for k in self.children[i]), np.zeros(6))
            if i in u:
                Pi[i], beta[i] = I[i], B[i] + I[i] @ (eta + S @ ddq[self.at[i]])
            else:
                Psi[i] = np.linalg.inv(S.T @ I[i] @ S + np.diag(armature[self.at[i]]))
                Pi[i] = I[i] - I[i] @ S @ Psi[i] @ S.T @ I[i]
                beta[i] = B[i] + I[i] @ (eta + S @ Psi[i] @ (tau[self.at[i]] - S.T @ (I[i] @ eta + B[i])))
        dV: list[np.ndarray] = []
        for i in range(self.n):
            S = self.S[i]
            at = self.at[i]
            came = self.before(dV, i) + self.eta[i]
            if i not in u:
                ddq[at] = Psi[i] @ (tau[at] - S.T @ I[i] @ came - S.T @ B[i])
            dV.append(came + S @ ddq[at])
            if i in u:
                tau[at] = S.T @ (I[i] @ dV[i] + B[i]) + armature[at] * ddq[at]
        return ddq, tau


@common
@given(with_state(), st.integers(0, 2**32 - 1))
def test_the_tables_of_the_lie_paper(case: tuple[Model, State], seed: int) -> None:
    m, (q, v, a, tau, f) = case
    lie = Lie(m, q, v, f)
    tolerance = precision(m, q)
    armature, damping, stiffness, rest = (
        np.concatenate([getattr(j, word) for j in m.joints])
        for word in ("armature", "damping", "stiffness", "rest")
    )
    stretch = np.concatenate([j.kind.difference(j.kind.neutral(), q[j.q_slice]) for j in m.joints]) - rest
    resistance = numbers(damping * v + stiffness * stretch)
    assert close(floats(lw.inverse_dynamics, m, q, v, a, f), lie.table2(a, resistance, armature))
    ddq, _ = lie.table4(a, tau - resistance, set(), armature)  # Table 3
    for method in ("articulated_body", "mass_matrix"):
        assert close(floats(lw.forward_dynamics, m, q, v, tau, f, method=method), ddq, tolerance)
    u = set(np.flatnonzero(np.random.default_rng(seed).random(len(m.joints)) < 0.5).tolist())
    mask = np.zeros(m.nv, dtype=bool)
    for i in u:
        mask[m.joints[i].v_slice] = True
    ddq, forces = lie.table4(a, tau - resistance, u, armature)
    got_a, got_tau = floats(lw.hybrid_dynamics, m, q, v, a, tau, f, prescribed=tuple(mask.tolist()))
    assert close(got_a, ddq, tolerance) and close(got_tau, forces + resistance, tolerance)
    # the paper's velocities and accelerations are the library's
    for i, body in enumerate(m.bodies):
        assert close(floats(lw.frame_velocity, m, q, v, frame=body.name), lie.V[i])


def test_spatial_brackets_are_lies() -> None:
    rng = np.random.default_rng(0)
    V, X = rng.normal(size=(2, 6))
    assert close(ad_(V) @ X, ad(V, X))


# one mechanism, described in different ways


def described(model: Model, change: Any) -> Model:
    """The model put together again from its numbers; `change(builder, joint, body, parent)` adds a joint and
    its body.
    """
    b = ModelBuilder(model.name, gravity=model.gravity)
    for joint, body in zip(model.joints, model.bodies):
        parent = "world" if joint.parent == GROUND else model.bodies[joint.parent].name
        change(b, joint, body, parent)
    return b.build()


def acting(joint: Any) -> dict[str, Any]:
    return {word: getattr(joint, word) for word in ("damping", "stiffness", "rest", "armature")}


def same_dynamics(one: Model, other: Model, s: State, f_other: np.ndarray | None = None) -> None:
    q, v, a, tau, f = s
    g = f if f_other is None else f_other
    assert close(mass_matrix(one, q), mass_matrix(other, q))
    assert close(floats(lw.inverse_dynamics, one, q, v, a, f), floats(lw.inverse_dynamics, other, q, v, a, g))
    acceleration = floats(lw.forward_dynamics, one, q, v, tau, f, method="articulated_body")
    assert close(
        floats(lw.forward_dynamics, other, q, v, tau, g, method="articulated_body"),
        acceleration,
        precision(one, q),
    )
    for fn, args in (
        (lw.kinetic_energy, (q, v)),
        (lw.potential_energy, (q,)),
        (lw.center_of_mass, (q,)),
        (lw.momentum, (q, v)),
    ):
        assert close(floats(fn, one, *args), floats(fn, other, *args))
    assert close(floats(lw.gravity_force, one, q), floats(lw.gravity_force, other, q))


@common
@given(with_state(fixed=False), st.integers(0, 2**32 - 1))
def test_a_body_split_in_two_by_a_fixed_joint(case: tuple[Model, State], seed: int) -> None:
    m, s = case
    rng = np.random.default_rng(seed)

    def split(b: ModelBuilder, joint: Any, body: Any, parent: str) -> None:
        place = general_pose(rng)
        share = rng.uniform(0.0, 1.0)
        centre = place.inverse().point(body.center)
        moment = place.R.T @ body.moment @ place.R
        b.add_body(body.name, mass=share * body.mass, center=body.center, inertia=share * body.moment)
        b.add_body(f"{body.name}b", mass=(1 - share) * body.mass, center=centre, inertia=(1 - share) * moment)
        b.add_joint(f"{joint.name}b", Fixed(), parent=body.name, child=f"{body.name}b", place=place)
        b.add_joint(
            joint.name, joint.kind, parent=parent, child=body.name, place=joint.place, **acting(joint)
        )

    other = described(m, split)
    assert [body.links for body in other.bodies] == [(body.name, f"{body.name}b") for body in m.bodies]
    same_dynamics(m, other, s)


@common
@given(with_state(fixed=False), st.integers(0, 2**32 - 1))
def test_bodies_hung_on_a_link_that_is_held_fast(case: tuple[Model, State], seed: int) -> None:
    """Children may hang on a link that was merged: their place is then carried over."""
    m, s = case
    rng = np.random.default_rng(seed)
    frames = {body.name: general_pose(rng) for body in m.bodies} | {"world": general_pose(rng)}
    held = {"world": "pedestal"} | {body.name: f"{body.name}b" for body in m.bodies}

    def hang(b: ModelBuilder, joint: Any, body: Any, parent: str) -> None:
        b.add_body(body.name, mass=body.mass, center=body.center, inertia=body.moment).add_body(
            held[body.name]
        )
        b.add_joint(
            f"{joint.name}b", Fixed(), parent=body.name, child=held[body.name], place=frames[body.name]
        )
        place = frames[parent].inverse().then(joint.place)
        b.add_joint(
            joint.name, joint.kind, parent=held[parent], child=body.name, place=place, **acting(joint)
        )

    b = ModelBuilder(gravity=m.gravity).add_body(
        "pedestal", mass=4.0, inertia=(1, 1, 1)
    )  # its mass cannot move
    b.add_joint("foot", Fixed(), parent="world", child="pedestal", place=frames["world"])
    for joint, body in zip(m.joints, m.bodies):
        hang(b, joint, body, "world" if joint.parent == GROUND else m.bodies[joint.parent].name)
    other = b.build()
    same_dynamics(m, other, s)
    assert close(floats(lw.frame_pose, other, s.q, frame="pedestal"), numbers(frames["world"].matrix()))
    for body in m.bodies:
        expected = floats(lw.frame_pose, m, s.q, frame=body.name) @ numbers(frames[body.name].matrix())
        assert close(floats(lw.frame_pose, other, s.q, frame=held[body.name]), expected)


@common
@given(with_state(kinds=AXIAL, fixed=False, massless=False), st.integers(0, 2**32 - 1), st.booleans())
def test_frames_chosen_anew(case: tuple[Model, State], seed: int, along_z: bool) -> None:
    """A joint about a skew axis is one about a coordinate axis in a turned frame."""
    m, s = case
    rng = np.random.default_rng(seed)
    turned = {GROUND: np.eye(3)}
    for joint in m.joints:
        assert isinstance(joint.kind, AxisJoint)
        turned[joint.child] = aligned(joint.kind.unit).R @ quarter(rng) if along_z else rotation(rng)

    def turn(b: ModelBuilder, joint: Any, body: Any, parent: str) -> None:
        C = turned[joint.child]
        before = turned[joint.parent]
        axis = C.T @ joint.kind.unit
        place = Pose(before.T @ joint.place.R @ C, before.T @ joint.place.p)
        b.add_body(body.name, mass=body.mass, center=C.T @ body.center, inertia=C.T @ body.moment @ C)
        b.add_joint(
            joint.name,
            replace(joint.kind, axis=axis),
            parent=parent,
            child=body.name,
            place=place,
            **acting(joint),
        )

    other = described(m, turn)
    assert not along_z or all(1.0 in np.abs(j.kind.unit) for j in other.joints)
    f = np.array([[*(turned[k].T @ x[:3]), *(turned[k].T @ x[3:])] for k, x in enumerate(s.f_ext)])
    same_dynamics(m, other, s, f)


def quarter(rng: np.random.Generator) -> np.ndarray:
    """A rotation that takes z to some coordinate axis or its opposite."""
    R = np.roll(np.eye(3), rng.integers(3), axis=0)
    return R if rng.random() < 0.5 else R @ np.diag([1.0, -1.0, -1.0])


@pytest.mark.parametrize("below", ["world", "under"])
def test_three_ways_to_turn_about_a_point(below: str) -> None:
    """A spherical joint, a gimbal, and three revolute joints with massless bodies between, each in its own
    coordinates.
    """
    rng = np.random.default_rng(7)
    turned_body, tip, place = heavy(rng), heavy(rng), pose(rng)

    def build(add: Any) -> Model:
        b = ModelBuilder(gravity=(1.0, 2.0, -9.0)).add_body("top", **turned_body).add_body("tip", **tip)
        if below == "under":
            b.add_body("under", **heavy(np.random.default_rng(3)))
            b.add_joint("base", Prismatic((0.3, 0.4, 0.5)), parent="world", child="under")
        add(b)
        b.add_joint(
            "end", Revolute((0.2, 0.3, -0.4)), parent="top", child="tip", place=pose(np.random.default_rng(4))
        )
        return b.build()

    def chain(b: ModelBuilder) -> None:
        b.add_body("yaw").add_body("pitch")
        b.add_joint("z", Revolute((0, 0, 1)), parent=below, child="yaw", place=place)
        b.add_joint("y", Revolute((0, 1, 0)), parent="yaw", child="pitch").add_joint(
            "x", Revolute((1, 0, 0)), parent="pitch", child="top"
        )

    ball, gimbal = (
        build(lambda b, kind=kind: b.add_joint("ball", kind, parent=below, child="top", place=place))
        for kind in (Spherical(), Gimbal())
    )
    three = build(chain)
    (q, v, a, tau, _), n = state_of(gimbal, rng), gimbal.joint("ball").v_slice
    f = rng.normal(size=(len(gimbal.bodies), 6))
    x = q[n]
    dx = v[n]
    T = Gimbal().transform(x)
    S = numbers(Gimbal().subspace(x))[:3]
    angles = [
        np.array([0.0, 0.0, np.sin(x[0] / 2), np.cos(x[0] / 2)]),
        np.array([0.0, np.sin(x[1] / 2), 0.0, np.cos(x[1] / 2)]),
    ]
    angles.append(np.array([np.sin(x[2] / 2), 0.0, 0.0, np.cos(x[2] / 2)]))
    quaternion = lw.spatial.rotation.multiply(lw.spatial.rotation.multiply(angles[0], angles[1]), angles[2])
    assert close(Pose.from_quaternion(quaternion).R, T.R)

    def in_ball(u: np.ndarray, more: Any = 0.0) -> np.ndarray:
        return np.concatenate([u[: n.start], S @ u[n] + more, u[n.stop :]])

    q_ball = np.concatenate([q[: n.start], quaternion, q[n.stop :]])
    a_ball = in_ball(a, numbers(Gimbal().bias(x, dx))[:3])
    forces = floats(lw.inverse_dynamics, ball, q_ball, in_ball(v), a_ball, f)
    forces[n] = S.T @ forces[n]
    assert close(floats(lw.inverse_dynamics, gimbal, q, v, a, f), forces)
    f_three = np.insert(f, n.start, np.zeros((2, 6)), axis=0)
    assert close(floats(lw.inverse_dynamics, three, q, v, a, f_three), forces)
    given_tau = tau.copy()
    given_tau[n] = np.linalg.solve(S.T, tau[n])
    a_gimbal = floats(lw.forward_dynamics, gimbal, q, v, tau, f, method="articulated_body")
    assert close(
        floats(lw.forward_dynamics, three, q, v, tau, f_three, method="articulated_body"), a_gimbal, 1e-10
    )
    by_ball = floats(lw.forward_dynamics, ball, q_ball, in_ball(v), given_tau, f, method="articulated_body")
    assert close(in_ball(a_gimbal, numbers(Gimbal().bias(x, dx))[:3]), by_ball, 1e-10)
    for fn, args, args_ball in (
        (lw.kinetic_energy, (q, v), (q_ball, in_ball(v))),
        (lw.potential_energy, (q,), (q_ball,)),
    ):
        assert close(floats(fn, gimbal, *args), floats(fn, three, *args))
        assert close(floats(fn, gimbal, *args), floats(fn, ball, *args_ball))


def test_a_universal_joint_is_two_revolute_ones() -> None:
    rng = np.random.default_rng(8)
    body = heavy(rng)
    place = pose(rng)
    one = ModelBuilder().add_body("b", **body)
    one.add_joint("u", Universal(), parent="world", child="b", place=place)
    two = ModelBuilder().add_body("a").add_body("b", **body)
    two.add_joint("x", Revolute((1, 0, 0)), parent="world", child="a", place=place)
    two.add_joint("y", Revolute((0, 1, 0)), parent="a", child="b")
    q, v, a = rng.normal(size=(3, 2))
    assert close(*(floats(lw.inverse_dynamics, m.build(), q, v, a) for m in (one, two)))


def test_a_screw_is_a_cylinder_whose_advance_is_tied() -> None:
    rng = np.random.default_rng(9)
    body = heavy(rng)
    place = pose(rng)
    axis = (0.3, -0.4, 0.5)
    pitch = 0.2
    screw = (
        ModelBuilder()
        .add_body("b", **body)
        .add_joint("j", Helical(pitch, axis), parent="world", child="b", place=place)
    )
    both = ModelBuilder().add_body("b", **body)
    both.add_joint("j", lw.joints.Cylindrical(axis), parent="world", child="b", place=place)
    tie = np.array([1.0, pitch])
    q, v, a = rng.normal(size=3)
    free = floats(lw.inverse_dynamics, both.build(), tie * q, tie * v, tie * a)
    assert close(
        floats(lw.inverse_dynamics, screw.build(), *([x] for x in np.array([q, v, a]))), [tie @ free]
    )


@slower
@given(with_state(kinds=("free",), most=1, massless=False, fixed=False, resisting=False, armature=False))
def test_a_free_body_obeys_newton_and_euler(case: tuple[Model, State]) -> None:
    m, (q, v, _, tau, f) = case
    (body,) = m.bodies
    T = floats(lw.forward_kinematics, m, q)[0]
    c = body.center
    R = T[:3, :3]
    w = v[:3]
    a = floats(lw.forward_dynamics, m, q, v, tau, f, method="articulated_body")
    wrench = tau + f[0]
    turning = np.linalg.solve(
        body.moment, wrench[:3] - np.cross(c, wrench[3:]) - np.cross(w, body.moment @ w)
    )
    center = (
        R.T @ np.array(m.gravity) + wrench[3:] / body.mass
    )  # acceleration of the centre, in the body's axes
    origin = center - np.cross(turning, c) - np.cross(w, np.cross(w, c))
    assert close(a, np.concatenate([turning, origin - np.cross(w, v[3:])]), 1e-10)


@common
@given(with_state())
def test_bodies_are_nodes_like_any_other(case: tuple[Model, State]) -> None:
    """What a rigid body computes for fewer operations is what (A, H, M, a, b) say."""
    m, (q, v, a, _, f) = case
    alpha = np.random.default_rng(0).normal(size=6)
    for k in lw.nodes(m, q, v, f).base_to_tips():
        assert close(k.accelerate(alpha, a[k.dofs]), k.A.scatter(alpha) + k.H.T @ a[k.dofs] + k.a)
        assert close(k.force(alpha), k.M @ alpha + k.b)
        assert (
            k.H.shape == (k.dofs.stop - k.dofs.start, 6)
            and k.armature.shape == 2 * k.H.shape[:1]
            and k.passive_force.shape == k.H.shape[:1]
        )


def test_every_kind_at_once() -> None:
    """One tree with a joint of every kind, the free one not at its root, keeps the laws as well."""
    rng = np.random.default_rng(11)
    m = every_kind(rng)
    assert {type(j.kind).__name__.lower() for j in m.joints} == {
        k.split()[-1] if "another" not in k else "planar" for k in KINDS
    }
    assert isinstance(m.joint("joint14").kind, Free) and m.joint("joint14").parent != GROUND
    q, v, a, _, f = state_of(m, rng)
    tau = floats(lw.inverse_dynamics, m, q, v, a, f)
    for method in ("articulated_body", "mass_matrix"):
        assert close(floats(lw.forward_dynamics, m, q, v, tau, f, method=method), a, precision(m, q))
    lie = Lie(m, q, v, f)
    bare = plain(m)
    assert close(floats(lw.inverse_dynamics, bare, q, v, a, f), lie.table2(a, np.zeros(m.nv), np.zeros(m.nv)))


def test_large_trees() -> None:
    rng = np.random.default_rng(12)
    m = random_model(rng, 60, kinds=COORDINATES)
    q, v, a, *_ = state_of(m, rng)
    tau = floats(lw.inverse_dynamics, m, q, v, a)
    assert close(floats(lw.forward_dynamics, m, q, v, tau, method="articulated_body"), a, precision(m, q))


# compiled


def arm() -> Model:
    rng = np.random.default_rng(20)
    return make(rng, range(-1, 5), ["revolute"] * 5 + ["skew prismatic"], name="arm")


def floating() -> Model:
    rng = np.random.default_rng(21)
    kinds = ["free", "revolute", "universal", "spherical", "skew cylindrical"]
    return make(rng, [-1, 0, 1, 0, 3], kinds, [False, True], name="floating")


def odd() -> Model:
    rng = np.random.default_rng(22)
    return make(rng, [-1, 0, -1, 2], ["skew planar", "gimbal", "skew helical", "free"], name="odd")


MODELS = {"arm": arm(), "floating": floating(), "odd": odd()}
chosen = pytest.mark.parametrize("name", MODELS)


def calls(m: Model, s: State) -> list[tuple[lw.ModelFunction, tuple[Any, ...], dict[str, Any]]]:
    """Every public function of a model, with arguments."""
    q, v, a, tau, f = s
    mask = tuple((np.arange(m.nv) % 3 == 0).tolist())
    frame = m.frames[-1].name
    return [
        (lw.integrate, (q, 0.3 * v), {}),
        (lw.difference, (q, m.neutral()), {}),
        (lw.forward_kinematics, (q,), {}),
        (lw.frame_pose, (q,), {"frame": frame}),
        *((lw.frame_velocity, (q, v), {"frame": frame, "reference": ref}) for ref in REFERENCES),
        *(
            (lw.frame_acceleration, (q, v, a), {"frame": frame, "reference": ref, "classical": ref == "body"})
            for ref in REFERENCES
        ),
        *((lw.frame_jacobian, (q,), {"frame": frame, "reference": ref}) for ref in REFERENCES),
        (lw.inverse_dynamics, (q, v, a), {}),
        (lw.inverse_dynamics, (q, v, a, f), {}),
        (lw.forward_dynamics, (q, v, tau), {"method": "articulated_body"}),
        (lw.forward_dynamics, (q, v, tau, f), {"method": "mass_matrix"}),
        (lw.hybrid_dynamics, (q, v, a, tau, f), {"prescribed": mask}),
        (lw.mass_matrix, (q,), {}),
        (lw.mass_matrix, (q,), {"packed": True}),
        (lw.mass_matrix_inverse, (q,), {"method": "sweeps"}),
        (lw.mass_matrix_inverse, (q,), {"method": "factorisation"}),
        (lw.bias_force, (q, v), {}),
        (lw.gravity_force, (q,), {}),
        (lw.kinetic_energy, (q, v), {}),
        (lw.potential_energy, (q,), {}),
        (lw.center_of_mass, (q,), {}),
        (lw.momentum, (q, v), {}),
        (lw.centroidal_map, (q,), {}),
    ]


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@chosen
@pytest.mark.sweep(3)
def test_programs_mean_what_floats_give(name: str) -> None:
    """To 1e-13 of the largest entry, times how sensitive the solution is: a program may add up in another
    order.
    """
    m = MODELS[name]
    for seed in range(2):
        s = state_of(m, np.random.default_rng(seed))
        solving = 1e-15 * np.linalg.cond(mass_matrix(m, s.q))
        for fn, args, options in calls(m, s):
            given = dict(zip((*fn.required, *fn.optional), args))
            program = fn.program(m, optional=tuple(n for n in fn.optional if n in given), **options)
            got = lw.interpret(lw.lower(program), *given.values())
            for x, y in zip(as_tuple(got), as_tuple(floats(fn, m, *args, **options)), strict=True):
                assert close(x, y, 1e-13 + solving), f"{fn.__name__} {options}"


@chosen
@pytest.mark.sweep(3)
def test_kernels_give_the_bits_of_the_interpreter(name: str) -> None:
    """One state, a batch, and any number of threads: the same bits, which are those that the program means."""
    m = MODELS[name]
    states = [state_of(m, np.random.default_rng(seed)) for seed in range(11)]
    batch = State(*(np.array(x) for x in zip(*states)))
    functions = (lw.inverse_dynamics, lw.mass_matrix, lw.momentum)
    for fn in functions:
        args = [getattr(batch, n) for n in fn.required]
        program = lw.lower(fn.program(m))
        together = fn(m, *args)
        assert together.tobytes() == fn(m, *args, threads=2).tobytes()
        for k in (0, 10):
            row = [x[k] for x in args]
            assert (
                np.asarray(lw.interpret(program, *row)).tobytes()
                == fn(m, *row).tobytes()
                == together[k].tobytes()
            )


@chosen
@pytest.mark.sweep(3)
def test_laws_through_the_public_functions(name: str) -> None:
    m = MODELS[name]
    rng = np.random.default_rng(5)
    states = [state_of(m, rng) for _ in range(6)]
    q, v, a, tau, f = (np.array(x).reshape(2, 3, *np.shape(x)[1:]) for x in zip(*states))
    forces = lw.inverse_dynamics(m, q, v, a, f_ext=f)
    assert close(lw.forward_dynamics(m, q, v, forces, f), a, 1e-9)
    M = lw.mass_matrix(m, q)
    bias = lw.bias_force(m, q, v, f)
    assert close((M @ a[..., None])[..., 0] + bias, forces)
    assert close(lw.mass_matrix_inverse(m, q) @ M, np.broadcast_to(np.eye(m.nv), M.shape), 1e-9)
    rows, columns = lw.mass_matrix_pattern(m)
    assert close(lw.mass_matrix(m, q, packed=True), M[..., rows, columns], 1e-14)
    assert close(lw.kinetic_energy(m, q, v), 0.5 * np.einsum("...i,...ij,...j", v, M, v))
    assert close(lw.difference(m, q, lw.integrate(m, q, 0.2 * v)), 0.2 * v)
    assert close((lw.centroidal_map(m, q) @ v[..., None])[..., 0], lw.momentum(m, q, v))
    frame = m.frames[-1].name
    for ref in REFERENCES:
        J = lw.frame_jacobian(m, q, frame=frame, reference=ref)
        assert close((J @ v[..., None])[..., 0], lw.frame_velocity(m, q, v, frame=frame, reference=ref))
    last = m.joints[-1].name
    found, needed = lw.hybrid_dynamics(m, q, v, a, tau, f, prescribed=[last])
    at = m.joint(last).v_slice
    assert np.array_equal(found[..., at], a[..., at]) and close(
        lw.inverse_dynamics(m, q, v, found, f), needed, 1e-9
    )


def test_gravity_can_be_left_out_of_resistance() -> None:
    m = MODELS["arm"]
    s = state_of(MODELS["arm"], np.random.default_rng(1))
    nodes = lw.nodes(m, s.q, s.v)
    with_, without = (numbers(newton_euler.inverse_dynamics(nodes, s.a, passive=r)) for r in (True, False))
    assert close(
        without, floats(lw.inverse_dynamics, plain(m, armature=0.0), s.q, s.v, s.a) + armature_of(m) * s.a
    )
    assert not close(with_, without)


def armature_of(model: Model) -> np.ndarray:
    return np.concatenate([j.armature for j in model.joints])
