"""Derivatives of constrained dynamics, against differences with 60 digits and Pinocchio; Jacobians of
constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_constrained_dynamics import consistent, robot, without_resistance
from test_dynamics_derivatives import by_differences, off

import linkwork as lw
from holding import FEET, dense
from linkages import floats
from linkwork import Connect, Coupled, Gains, Hold, Locked, ModelError, OnPlane, Rolling, Weld
from linkwork.functions.constraint_options import normalize_constraints, per_row
from linkwork.joints import Revolute
from mechanisms import make, state_of

SOLVED: dict[str, Any] = {
    "method": "ltl",
    "compliance": 1e-25,
    "iterations": 1,
    "tolerance": None,
}  # exact, in 60 digits


def ours(model: lw.Model, *args: Any, constraints: Any, **more: Any) -> Any:
    """What the function means, over plain floats."""
    every = normalize_constraints(model, constraints)["constraints"]
    return floats(lw.constrained_dynamics_derivatives, model, *args, constraints=every, **more)


def differences(model: lw.Model, constraints: Any, *args: Any, f_ext: Any = None) -> list[np.ndarray]:
    found = by_differences(
        lw.constrained_dynamics, model, *args, f_ext=f_ext, constraints=constraints, **SOLVED
    )
    nv = model.nv
    m = len(found[0]) - model.nv
    return [x[:nv] for x in found] + [x[nv : nv + m] for x in found]


@cache
def walker() -> lw.Model:
    """A free body with two limbs, springs, dampers and armatures."""
    kinds = ["free", "skew revolute", "skew prismatic", "revolute", "universal"]
    return make(np.random.default_rng(7), [-1, 0, 1, 0, 3], kinds, fixed=False)


HERE = tuple(walker().random_state(9)[0])
PULL = Gains(stiffness=30.0, damping=4.0)
KINDS: dict[str, list[Any]] = {
    "weld": [Weld("body2")],
    "connect, with gains": [Connect("body2", gains=PULL, at=HERE), Connect("body4")],
    "between bodies": [Connect("body2", "body4"), Hold("body4", "wx", "body1")],
    "weld with gains": [Weld("body4", gains=PULL, at=HERE)],
    "directions": [Hold("body2", "z wx"), Hold("body4", "y", "body1", axes="frame"), OnPlane("body4", normal=(1.0, 2.0, 3.0))],
    "rolling and joints": [
        Rolling("body4", 0.2, normal=(0.1, 0.2, 1.0)), Locked("joint1"), Coupled({"joint2": 1.0, "joint3": -2.0})
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_constraint(kind: str) -> None:
    """At states that the constraints do not allow: nothing of them is taken as given."""
    model = walker()
    constraints = KINDS[kind]
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(1))
    found = ours(model, q, v, tau, f_ext, constraints=constraints)
    assert off(found, differences(model, constraints, q, v, tau, f_ext=f_ext)) < 1e-9
    assert np.array_equal(found[2], found[2].T)


LOOPS: dict[str, tuple[Callable[[], lw.Model], list[Any]]] = {
    "four bar, an angle": (lw.robots.four_bar, [Hold("link3", "x")]),
    "geared leg": (lw.robots.mit_humanoid_leg, [Connect("ankle_link")]),
    "planar leg": (lw.robots.planar_leg_linkage, [Hold("foot", "x")]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_through_embedded_loops(name: str) -> None:
    model = LOOPS[name][0]()
    constraints = LOOPS[name][1]
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(6))
    found = ours(model, q, v, tau, f_ext, constraints=constraints)
    assert off(found, differences(model, constraints, q, v, tau, f_ext=f_ext)) < 1e-9


def test_loops_that_forces_hold_move_as_embedded_ones() -> None:
    """Rows that a planar loop has in space are redundant. Along motions that keep it closed both ways agree."""
    model = lw.robots.four_bar()
    held = model.with_loops(constrain=[c.name for c in model.embedded])
    q, v, _, tau, _ = state_of(model, np.random.default_rng(2))
    V = floats(lw.spanning_velocity, model, q, v)
    full = np.zeros(held.nv)
    full[[held.v_names.index(name) for name in model.v_names]] = tau
    found = ours(held, q, V, full, constraints=())
    G = np.array([floats(lw.spanning_velocity, model, q, e) for e in np.eye(model.nv)]).T
    right = floats(lw.forward_dynamics_derivatives, model, q, v, tau)
    own = [held.v_names.index(name) for name in model.v_names]
    H = 1e-6
    turned = [
        floats(lw.spanning_velocity, model, floats(lw.integrate, model, q, s * e), v)
        for e in H * np.eye(model.nv)
        for s in (1, -1)
    ]
    dV = (np.array(turned[::2]) - np.array(turned[1::2])).T / (2.0 * H)  # velocities follow positions
    assert off([found[1][own] @ G, found[2][np.ix_(own, own)]], right[1:]) < 1e-9
    assert off([found[0][own] @ G + found[1][own] @ dV], right[:1]) < 1e-7


def test_a_joint_that_moves_no_mass() -> None:
    """A foot without mass that is held: also its rows' forces are right."""
    b = lw.ModelBuilder("leg")
    for name, on, mass in (("thigh", "world", 2.0), ("shank", "thigh", 1.0), ("foot", "shank", 0.0)):
        b.add_body(name, mass=mass, center=(0, 0, -0.2 if mass else 0.0), inertia=(0.1 * mass,) * 3)
        b.add_joint(
            f"to {name}",
            Revolute((0, 1, 0)),
            parent=on,
            child=name,
            xyz=(0, 0, -0.4 if on != "world" else 0.0),
        )
    model = b.build()
    constraints = [Hold("foot", "wy x")]
    q, v, _, tau, _ = state_of(model, np.random.default_rng(3))
    found = ours(model, q, v, tau, constraints=constraints)
    assert off(found, differences(model, constraints, q, v, tau)) < 1e-9


REDUNDANT: dict[str, list[Any]] = {
    "the same points in other axes": [Connect("body2"), Hold("body4", "x"), Hold("body2", "x y z"), Hold("body4", "x z")],
    "moments and forces": [Weld("body2"), Weld("body2", at=HERE), Connect("body4"), Hold("body4", "z wy", axes="frame")],
}  # fmt: skip


def least_norm(model: lw.Model, constraints: Any, mask: np.ndarray, q: Any, v: Any, tau: Any) -> np.ndarray:
    """Accelerations and forces of least sum of R f², by a pseudo-inverse."""
    J = floats(lw.constraint_jacobian, model, q, constraints=constraints) * mask[:, None]
    drift = floats(lw.constraint_bias, model, q, v, constraints=constraints) * mask
    s = np.asarray(per_row("auto", model, constraints, q), dtype=float) ** -0.5
    M = floats(lw.mass_matrix, model, q)
    force = tau - floats(lw.bias_force, model, q, v)
    scaled = s[:, None] * J
    response = np.linalg.solve(M, scaled.T)
    right = -(s * drift) - response.T @ force
    f = np.linalg.pinv(scaled @ response, rcond=1e-10, hermitian=True) @ right
    return np.concatenate([np.linalg.solve(M, force + scaled.T @ f), s * f])


def differences_of_least_norm(model: lw.Model, function: Any, q: Any, *args: np.ndarray) -> list[np.ndarray]:
    """Derivatives by q on the tangent space, and by all other arguments, of fourth order."""
    found = []
    for place in range(1 + len(args)):
        columns = []
        for e in 1e-3 * np.eye(model.nv):
            ends = []
            for step in (1.0, -1.0, 2.0, -2.0):
                x: list[Any] = [q, *args]
                x[place] = floats(lw.integrate, model, q, step * e) if place == 0 else x[place] + step * e
                ends.append(function(*x))
            columns.append((8.0 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-3)
        found.append(np.array(columns).T)
    return found


@pytest.mark.parametrize("kind", REDUNDANT)
@pytest.mark.parametrize("acting", [(1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.0, 1.0)])
def test_redundant_rows_share_forces_by_least_norm(kind: str, acting: tuple[float, ...]) -> None:
    """Whichever of them act, also along motions that the rows contradict."""
    model = walker()
    constraints = tuple(REDUNDANT[kind])
    mask = np.repeat(acting, [len(c.labels(model)) for c in constraints])
    q, v, tau = consistent(model, constraints, 4)
    found = ours(model, q, v, tau, active=np.array(acting), constraints=constraints)
    right = differences_of_least_norm(model, lambda *x: least_norm(model, constraints, mask, *x), q, v, tau)
    nv = model.nv
    assert off(found, [x[:nv] for x in right] + [x[nv:] for x in right]) < 1e-8


def contradicting() -> dict[str, tuple[lw.Model, tuple[Any, ...], tuple[np.ndarray, ...]]]:
    """Models, constraints and states whose velocities the rows do not allow."""
    chain = lw.robots.chain(3)
    first, _, last = (body.name for body in chain.bodies)
    q, v = chain.random_state(0)
    state = np.asarray(q), np.asarray(v), np.array([0.3, -0.2, 0.5])
    model = walker()
    s = state_of(model, np.random.default_rng(4))
    return {
        "moments and forces": (model, tuple(REDUNDANT["moments and forces"]), (s.q, s.v, s.tau)),
        "a joint on a sphere": (chain, (Connect(last),), state),
        "two joints": (chain, (Connect(last), Connect(first)), state),
        "a whole body": (chain, (Weld(last),), state),
    }


@pytest.mark.parametrize("kind", contradicting())
def test_rows_that_contradict_each_other(kind: str) -> None:
    """Derivatives are those of the accelerations and forces of least squares, also in reverse mode."""
    model, constraints, state = contradicting()[kind]
    m = sum(len(c.labels(model)) for c in constraints)
    nv = model.nv

    def missed(*x: Any) -> np.ndarray:
        J = floats(lw.constraint_jacobian, model, x[0], constraints=constraints)
        bias = floats(lw.constraint_bias, model, *x[:2], constraints=constraints)
        return J @ least_norm(model, constraints, np.ones(m), *x)[:nv] + bias

    assert np.abs(missed(*state)).max() > 0.05
    right = differences_of_least_norm(
        model, lambda *x: least_norm(model, constraints, np.ones(m), *x), *state
    )
    found = ours(model, *state, constraints=constraints)
    assert off(found, [x[:nv] for x in right] + [x[nv:] for x in right]) < 1e-6
    rng = np.random.default_rng(7)
    weights = rng.normal(size=nv), rng.normal(size=m)
    pullback = lw.vjp(lw.constrained_dynamics, model, wrt=("q", "v", "tau"), constraints=constraints)
    gradients = pullback(*state, *weights)[-3:]
    assert off(gradients, [np.concatenate(weights) @ x for x in right]) < 1e-6


def test_redundant_rows_by_what_is_named() -> None:
    """Of a custom tree's kind of differentiation: by the residual."""
    model = walker()
    constraints = tuple(REDUNDANT["moments and forces"])
    q, v, tau = consistent(model, constraints, 4)
    masses = model.parameters()["mass"]
    names = ("mass", "tau", "q")
    found = ours(model, q, v, tau, constraints=constraints, wrt=names)
    again = ours(model, q, v, tau, constraints=constraints, wrt=("q", "tau"))
    assert off([found[2], found[1], found[5], found[4]], again) < 1e-9
    mask = np.ones(len(found[3]))
    ends = []
    for e in 1e-3 * np.eye(len(masses)):
        for step in (1.0, -1.0):
            other = model.with_parameters({"mass": masses + step * e})
            ends.append(least_norm(other, constraints, mask, q, v, tau))
    right = (np.array(ends[::2]) - np.array(ends[1::2])).T / 2e-3
    assert off([found[0], found[3]], [right[: model.nv], right[model.nv :]]) < 1e-5


@pytest.mark.parametrize("kind", ["apart", "contradicting"])
def test_redundant_rows_in_hybrid_dynamics(kind: str) -> None:
    """Rows that only the prescribed velocities keep apart are redundant too; they may contradict each other."""
    model = walker()
    constraints: tuple[Any, ...] = (Connect("body2"), Hold("body2", "x y z"), Hold("body4", "x"))
    if kind == "contradicting":
        model, constraints, (q, v, tau) = contradicting()["a whole body"]
        prescribed = np.arange(model.nv) == 0
    else:
        q, v, tau = consistent(model, constraints, 4)
        prescribed = np.arange(model.nv) == 7
    accelerations = np.full(model.nv, 0.3)
    settings: dict[str, Any] = {"prescribed": prescribed, "constraints": constraints}

    def forward(q: Any, v: Any, given: np.ndarray) -> np.ndarray:
        a = np.where(prescribed, given, 0.0)
        t = np.where(prescribed, 0.0, given)
        exact: dict[str, Any] = {"method": "ltl", "tolerance": 1e-13 if kind == "apart" else "auto"}
        found = floats(lw.hybrid_dynamics, model, q, v, a, t, **settings, **exact)
        return np.concatenate([np.where(prescribed, found[1], found[0]), found[2]])

    given = np.where(prescribed, accelerations, tau)
    found = floats(lw.hybrid_dynamics_derivatives, model, q, v, accelerations, tau, **settings)
    right = differences_of_least_norm(model, forward, q, v, given)
    nv = model.nv
    bound = 1e-5 if kind == "apart" else 1e-4  # differences of iterations have fewer digits there
    assert off(found, [x[:nv] for x in right] + [x[nv:] for x in right]) < bound


def test_targets() -> None:
    model = walker()
    q, v, _, tau, f_ext = state_of(model, np.random.default_rng(1))
    constraints = [Connect("body2")]
    targets = np.array([3.0, -2.0, 1.0])
    found = ours(model, q, v, tau, f_ext, targets, constraints=constraints)
    H = 1e-4
    options = {**SOLVED, "compliance": 1e-7 * np.ones(3), "iterations": 5, "constraints": constraints}
    for k, e in enumerate(H * np.eye(model.nv)):
        ends = [
            np.concatenate(
                floats(
                    lw.constrained_dynamics,
                    model,
                    floats(lw.integrate, model, q, s * e),
                    v,
                    tau,
                    f_ext,
                    targets,
                    **options,
                )
            )
            for s in (1.0, -1.0)
        ]
        assert off([(ends[0] - ends[1]) / (2.0 * H)], [np.concatenate([found[0], found[3]])[:, k]]) < 1e-5


def test_compiled_in_batches() -> None:
    model = robot("arm")
    constraints = [Connect("tool")]
    q, v = (np.array(x) for x in zip(*(model.random_state(k) for k in range(3))))
    found = lw.constrained_dynamics_derivatives(model, q, v, v, constraints=constraints)
    assert [x.shape for x in found] == [(3, model.nv, model.nv)] * 3 + [(3, 3, model.nv)] * 3
    one = lw.constrained_dynamics_derivatives(model, q[1], v[1], v[1], constraints=constraints)
    assert all(np.array_equal(x[1], y) for x, y in zip(found, one))
    assert off(one, ours(model, q[1], v[1], v[1], constraints=constraints)) < 1e-10


# Pinocchio


HELD = {
    "point contacts": ("quadruped", [Connect(f) for f in FEET]),
    "point contacts, axes of the world": ("quadruped", [Hold(f, "x y z") for f in FEET]),
    "points and a sole": ("quadruped", [Weld(FEET[0]), Connect(FEET[1]), Connect(FEET[2])]),
    "a sole": ("humanoid", [Weld("left_sole")]),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "a sole")) for name in HELD]
)
@pytest.mark.parametrize("moving", [False, True])
def test_pinocchio(name: str, moving: bool) -> None:
    pin = pytest.importorskip("pinocchio")
    from test_loops_against_peers import in_pinocchio, swapped

    which, constraints = HELD[name]
    model = without_resistance(robot(which))
    theirs, _ = in_pinocchio(pin, model)
    contacts = pin.StdVec_RigidConstraintModel()
    datas = pin.StdVec_RigidConstraintData()
    for c in constraints:
        end = model.frame(c.frame)
        kind = pin.ContactType.CONTACT_6D if isinstance(c, Weld) else pin.ContactType.CONTACT_3D
        place = pin.SE3(np.asarray(end.place.R, dtype=float), np.asarray(end.place.p, dtype=float))
        axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED if isinstance(c, Hold) else pin.ReferenceFrame.LOCAL
        contacts.append(pin.RigidConstraintModel(kind, theirs, end.body + 1, place, axes))
        datas.append(contacts[-1].createData())
    q, v, tau = consistent(model, constraints, 1, model.random_state(1)[0])
    v = v * moving
    data = theirs.createData()
    order = swapped(model)
    pin.initConstraintDynamics(theirs, data, contacts, datas)
    tight = pin.ProximalSettings(1e-14, 1e-10, 300)
    pin.constraintDynamics(theirs, data, q, v[order], tau[order], contacts, datas, tight)
    right = pin.computeConstraintDynamicsDerivatives(theirs, data, contacts, datas, tight)
    found = ours(model, q, v, tau, constraints=constraints)
    assert off([x[np.ix_(order, order)] for x in found[:3]], right[:3]) < 1e-8
    turned = []
    first = 0
    for c in constraints:
        rows = np.roll(np.arange(6), 3) if isinstance(c, Weld) else np.arange(3)  # [f, m] there
        turned, first = [*turned, *(first + rows)], first + len(rows)
    assert off([x[np.ix_(turned, order)] for x in found[3:]], right[3:]) < 1e-8


def test_operations() -> None:
    """Columns of a leg, which are one map, take few products, and those of a free base no force on all."""
    model = robot("quadruped")
    feet = [Connect(f) for f in FEET]
    assert lw.count_operations(lw.constrained_dynamics_derivatives, model, constraints=feet)["total"] < 29_500


# Jacobians, biases and inertias


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "gains" not in kind])
def test_rows(kind: str) -> None:
    model = walker()
    constraints = KINDS[kind]
    s = state_of(model, np.random.default_rng(5))
    system = dense(model, s.q, s.v, s.tau, constraints)  # from poses of frames alone
    assert off([floats(lw.constraint_jacobian, model, s.q, constraints=constraints)], [system.J]) < 1e-7
    assert off([floats(lw.constraint_bias, model, s.q, s.v, constraints=constraints)], [-system.k]) < 1e-6


def test_gains_in_the_bias() -> None:
    model = walker()
    q, v, *_ = state_of(model, np.random.default_rng(5))
    plain, damped = ([Connect("body2", gains=Gains(damping=d))] for d in (0.0, 4.0))
    Jv = floats(lw.constraint_jacobian, model, q, constraints=plain) @ v
    one, other = (floats(lw.constraint_bias, model, q, v, constraints=c) for c in (plain, damped))
    assert off([other - one], [4.0 * Jv]) < 1e-12


def test_rows_compiled() -> None:
    model = robot("arm")
    constraints = [Weld("tool")]
    q, v = model.random_state(0)
    J = lw.constraint_jacobian(model, np.array([q, q]), constraints=constraints)
    assert off(J, [lw.frame_jacobian(model, q, frame="tool")] * 2) < 1e-12
    tau = np.ones(model.nv)
    a = lw.constrained_dynamics(model, q, v, tau, constraints=constraints)[0]
    assert off([J[0] @ a], [-lw.constraint_bias(model, q, v, constraints=constraints)]) < 1e-7


def test_operational_inertia() -> None:
    arm = robot("arm")
    q = arm.random_state(1)[0]
    J = lw.frame_jacobian(arm, q, frame="tool")
    right = np.linalg.inv(J @ np.linalg.solve(lw.mass_matrix(arm, q), J.T))
    found = lw.operational_inertia(arm, np.array([q, q]), frames="tool")
    assert found.shape == (2, 6, 6) and off(found, [right, right]) < 1e-8
    for bad in ((), ("tool", "tool"), 3, ["no such frame"]):
        with pytest.raises(ModelError):
            lw.operational_inertia(arm, q, frames=bad)


def test_operational_inertia_of_several_frames() -> None:
    model = robot("humanoid")
    frames = ["right_sole", "left_sole"]
    q = model.random_state(1)[0]
    J = np.vstack([floats(lw.frame_jacobian, model, q, frame=f) for f in frames])
    right = np.linalg.inv(J @ np.linalg.solve(floats(lw.mass_matrix, model, q), J.T))
    assert off([floats(lw.operational_inertia, model, q, frames=frames)], [right]) < 1e-8
