"""Functions of custom trees beside dynamics: parameters, Coriolis matrix, second and constrained derivatives,
motion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_custom_trees import arm_nodes

import linkwork as lw
from linkwork.errors import LinkworkError, ModelError
from linkwork.sko import Node, Tree

LENGTHS = np.array([0.5, 0.4, 0.3])
MASSES = np.array([2.0, 1.0, 0.5])
STIFFNESS = 3.0
GRAVITY = 9.81


def bars(**more: Any) -> Tree:
    """A planar chain of bars with point masses at their tips; rows are [w, vx, vy] of each bar's root, in its
    own axes.

    α is the rate of V, as an observer on the body sees it; the ground accelerates upward.
    """

    def node(k: int) -> Node:
        def weight(q: Any, v: Any, p: Any) -> Any:
            s, c = lw.sincos(q[k])
            to_tip = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=object)
            if k:
                to_tip[2, 0] = p["lengths"][k - 1]  # the tip of the bar below moves by ω × l as well
            turn = np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]], dtype=object)
            return (turn @ to_tip).T

        def inertia(q: Any, v: Any, p: Any) -> Any:
            m = p["masses"][k]
            x = p["lengths"][k]
            return np.array([[m * x * x, 0.0, m * x], [0.0, m, 0.0], [m * x, 0.0, m]], dtype=object)

        def rates(q: Any, v: Any, p: Any) -> Any:
            """V̇ of the bar's root beside A* V̇(℘) + H* θ̈: Ȧ* V(℘), V(℘) being that of the bar below."""
            V: Any = np.zeros(3)
            for j in range(k):
                V = weight_of(j, q, p).T @ V + np.array([v[j], 0.0, 0.0])
            V = weight_of(k, q, p).T @ V
            return v[k] * np.array([0.0, V[2], -V[1]], dtype=object)

        def weight_of(j: int, q: Any, p: Any) -> Any:
            return made[j].A(q, np.zeros(len(LENGTHS)), p)

        def gyroscopic(q: Any, v: Any, p: Any) -> Any:
            """ω × momentum, and the moment of the root's velocity: M V̇ + b is the force of the masses."""
            V: Any = np.zeros(3)
            for j in range(k + 1):
                V = weight_of(j, q, p).T @ V + np.array([v[j], 0.0, 0.0])
            m = p["masses"][k]
            x = p["lengths"][k]
            w = V[0]
            acceleration = np.array(
                [-w * V[2] - w * w * x, w * V[1]], dtype=object
            )  # of the tip, beside that of V̇
            return m * np.array([x * acceleration[1], *acceleration], dtype=object)

        def spring(q: Any, v: Any, p: Any) -> Any:
            return np.array([p["stiffness"] * q[k]], dtype=object)

        frame = {
            "tip": lambda q, v, p: np.array(
                [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [p["lengths"][k], 0.0, 1.0]], dtype=object
            )
        }
        return Node(
            f"bar{k}", H=[[1.0, 0.0, 0.0]], M=inertia, parent=f"bar{k - 1}" if k else None, A=weight, a=rates, b=gyroscopic,
            passive_force=spring, pick_offs=frame if k == len(LENGTHS) - 1 else {},
        )  # fmt: skip

    made: list[Node] = []
    for k in range(len(LENGTHS)):
        made.append(node(k))
    numbers = {"lengths": LENGTHS, "masses": MASSES, "stiffness": STIFFNESS}
    return Tree("bars", made, base_acceleration=(0.0, GRAVITY, 0.0), parameters=numbers | more)


def model_of(lengths: Any = LENGTHS, masses: Any = MASSES, stiffness: float = STIFFNESS) -> lw.Model:
    """The same chain as a model: x along the bars, gravity along -x of the world."""
    b = lw.ModelBuilder("chain", gravity=(-GRAVITY, 0.0, 0.0))
    for k, (x, m) in enumerate(zip(lengths, masses)):
        b.add_body(f"bar{k}", mass=m, center=(x, 0.0, 0.0), inertia=np.zeros((3, 3)))
        at = (lengths[k - 1], 0.0, 0.0) if k else (0.0, 0.0, 0.0)
        hinge = lw.joints.Revolute((0, 0, 1))
        b.add_joint(
            f"j{k}",
            hinge,
            parent=f"bar{k - 1}" if k else "world",
            child=f"bar{k}",
            xyz=at,
            stiffness=stiffness,
        )
    return b.build()


@pytest.fixture(scope="module")
def tree() -> Tree:
    return bars()


def off(a: Any, b: Any) -> float:
    a = np.asarray(a, dtype=float)
    b = np.asarray(b, dtype=float)
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


def state(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(4, 3))


def test_parameters_are_inputs_of_functions(tree: Tree) -> None:
    q, v, a, tau = state()
    other = {"lengths": np.array([0.6, 0.2, 0.5]), "masses": np.array([1.0, 2.0, 3.0]), "stiffness": 1.0}
    assert {name: x.tolist() for name, x in tree.parameters().items()} == {
        "lengths": LENGTHS.tolist(), "masses": MASSES.tolist(), "stiffness": STIFFNESS
    }  # fmt: skip
    for numbers, model in (({}, model_of()), (other, model_of(**other))):
        for fn, x in ((lw.inverse_dynamics, a), (lw.forward_dynamics, tau)):
            assert off(fn(tree, q, v, x, parameters=numbers), fn(model, q, v, x)) < 1e-11
            if numbers:
                assert off(fn(tree.with_parameters(numbers), q, v, x), fn(model, q, v, x)) < 1e-11
        assert off(lw.mass_matrix(tree, q, parameters=numbers), lw.mass_matrix(model, q)) < 1e-12
    masses = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 0.1]])
    found = lw.forward_dynamics(tree, q, v, tau, parameters={"masses": masses})
    for each, m in zip(found, masses):
        assert off(each, lw.forward_dynamics(model_of(masses=m), q, v, tau)) < 1e-11
    assert off(lw.frame_velocity(tree, q, v, frame="tip", parameters=other)[0], v.sum()) < 1e-14


def difference(fn: Any, x: Any, h: float = 1e-5) -> np.ndarray:
    """The Jacobian of fn by an array, of shape fn(x).shape + x.shape, by differences of fourth order."""
    x = np.asarray(x, dtype=float)
    columns = []
    for place in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[place] = h
        columns.append((8.0 * (fn(x + e) - fn(x - e)) - (fn(x + 2 * e) - fn(x - 2 * e))) / (12.0 * h))
    found = np.stack(columns, axis=-1)
    return found.reshape(*found.shape[:-1], *x.shape)


@pytest.mark.parametrize("name", ["lengths", "masses", "stiffness"])
def test_derivatives_by_parameters(tree: Tree, name: str) -> None:
    q, v, a, tau = state()
    start = tree.parameters()[name]
    for fn, of, x in (
        (lw.inverse_dynamics, lw.inverse_dynamics_derivatives, a), (lw.forward_dynamics, lw.forward_dynamics_derivatives, tau)
    ):  # fmt: skip
        expected = difference(lambda p, fn=fn, x=x: fn(tree, q, v, x, parameters={name: p}), start)
        assert off(of(tree, q, v, x, wrt=name), expected) < 1e-8
        assert off(lw.jacobian(fn, tree, wrt=name)(q, v, x, start), expected) < 1e-8


def test_the_coriolis_matrix_is_that_of_the_model(tree: Tree) -> None:
    q, v, *_ = state()
    C = lw.coriolis_matrix(tree, q, v)
    model = model_of()
    assert off(C, lw.coriolis_matrix(model, q, v)) < 1e-12
    still = lw.bias_force(model, q, 0 * v)
    assert off(C @ v, lw.bias_force(model, q, v) - still) < 1e-12
    rate = difference(lambda t: lw.mass_matrix(tree, q + t * v), 0.0)
    assert off(C + C.T, rate) < 1e-8
    arm = lw.robots.chain(3)
    assert off(lw.coriolis_matrix(arm_nodes(arm), q, v), lw.coriolis_matrix(arm, q, v)) < 1e-12
    other = {"lengths": np.array([0.6, 0.2, 0.5])}
    assert (
        off(lw.coriolis_matrix(tree, q, v, parameters=other), lw.coriolis_matrix(model_of(**other), q, v))
        < 1e-12
    )


def test_a_coriolis_matrix_needs_velocity_dependent_terms_that_fit() -> None:
    def inertia(q: Any, v: Any) -> Any:
        return np.array([[1.0 + q[0] * q[0]]])

    one = {"name": "k", "H": [[1.0]], "M": inertia}
    fits = Tree("fits", [Node(**one, b=lambda q, v: np.array([q[0] * v[0] * v[0]]))])
    assert off(lw.coriolis_matrix(fits, [0.3], [2.0]), [[0.6]]) < 1e-14
    for wrong in ({}, {"b": lambda q, v: np.array([2.0 * q[0] * v[0] * v[0]])}):
        with pytest.raises(ModelError, match="a and b are the velocity-dependent terms .* but Ṁ = C"):
            lw.coriolis_matrix(Tree("wrong", [Node(**one, **wrong)]), [0.3], [2.0])


def test_second_derivatives_are_those_of_the_model(tree: Tree) -> None:
    q, v, a, _ = state()
    for found, expected in zip(
        lw.inverse_dynamics_second_derivatives(tree, q, v, a),
        lw.inverse_dynamics_second_derivatives(model_of(), q, v, a),
    ):
        assert off(found, expected) < 1e-11


def test_derivatives_of_constrained_dynamics(tree: Tree) -> None:
    """Of rows that hold the tip along one direction, against the derivatives of dense equations."""
    row = np.array([[0.3, -0.5]])

    def hold(q: Any, v: Any, p: Any) -> Any:
        found = np.zeros((6, 3), dtype=object)
        found[3:5] = row.T @ row @ np.array([[0.0, 1.0, 0.0], [p["lengths"][2], 0.0, 1.0]], dtype=object)
        return found

    last = tree.nodes[2]
    nodes = [*tree.nodes[:2], Node(**{**vars(last), "pick_offs": {"held": hold}})]
    held = Tree("held", nodes, base_acceleration=tree.base_acceleration, parameters=tree.parameters())
    q, v, _, tau = state()
    how = {"constraints": [lw.Weld("held")]}

    def solved(q: Any, v: Any, tau: Any, **numbers: Any) -> np.ndarray:
        J = lw.constraint_jacobian(held, q, **how, parameters=numbers)[3:4]
        b = lw.constraint_bias(held, q, v, **how, parameters=numbers)[3:4]
        M = lw.mass_matrix(held, q, parameters=numbers)
        h = lw.bias_force(held, q, v, parameters=numbers)
        system = np.block([[M, -J.T], [J, np.zeros((1, 1))]])
        return np.linalg.solve(system, np.concatenate([tau - h, -b]))[:3]

    found = lw.constrained_dynamics_derivatives(held, q, v, tau, **how, wrt=("q", "v", "tau", "masses"))[:4]
    expected = [
        difference(lambda x: solved(x, v, tau), q), difference(lambda x: solved(q, x, tau), v),
        difference(lambda x: solved(q, v, x), tau), difference(lambda x: solved(q, v, tau, masses=x), MASSES),
    ]  # fmt: skip
    for one, other in zip(found, expected):
        assert off(one, other) < 1e-7


WRONG: dict[str, tuple[Any, str]] = {
    "unread": (lambda: bars(spare=1.0), "no entry of its nodes depends on the parameter 'spare'"),
    "named as an array": (lambda: bars(tau=1.0), "names other than those of arrays of functions, got 'tau'"),
    "no number": (lambda: bars(stiffness="much"), "parameter 'stiffness': expected numbers"),
    "not finite": (lambda: bars(stiffness=np.nan), "parameter 'stiffness': expected finite numbers"),
    "unknown": (lambda: lw.mass_matrix(bars(), np.zeros(3), parameters={"mases": 1.0}), "no parameter 'mases'.*masses"),
    "of another shape": (lambda: bars().with_parameters({"masses": [1.0]}), "expected shape .3,., got .1,."),
    "inconsistent": (lambda: bars().with_parameters({"masses": [1.0, 1.0, -1.0]}), "mass matrix: expected a positive"),
    "unknown to derivatives": (
        lambda: lw.inverse_dynamics_derivatives(bars(), *np.zeros((3, 3)), wrt="mass"), "no parameter 'mass'",
    ),
    "of a name that is not there": (
        lambda: Tree("t", [Node("k", [[1.0]], lambda q, v, p: p["m"] * np.eye(1))]), "fails: KeyError.*no parameter 'm'",
    ),
    "depends on v": (
        lambda: Tree("t", [Node("k", [[1.0]], lambda q, v: [[1.0 + v[0] * v[0]]])]), "M: expected a function of q alone",
    ),
    "other coordinates": (
        lambda: lw.coriolis_matrix(Tree("t", [Node("k", [[1.0]], [[1.0]])], nq=2), np.zeros(2), [1.0]), "relation of q to v",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told(name: str) -> None:
    make, told = WRONG[name]
    with pytest.raises(LinkworkError, match=told) as error:
        make()
    assert "\n" not in str(error.value)


def test_rollouts_are_those_of_the_model(tree: Tree) -> None:
    rng = np.random.default_rng(1)
    q, v, tau = rng.normal(size=(3, 2, 3))
    other = {"masses": np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 0.1]])}
    forces = rng.normal(size=(2, 20, 3))
    gains = lw.PD(2.0, 0.3, np.zeros(3))
    for given, integrator in (
        (tau, "semi_implicit_euler"),
        (forces, "rk4"),
        (gains, "semi_implicit_euler"),
        (tau, "rk45"),
    ):
        how = {"dt": 1e-2, "steps": 20, "integrator": integrator, "record_every": 5}
        found = lw.rollout(tree, q, v, given, **how)
        expected = lw.rollout(model_of(), q, v, given, **how)
        assert found.q.shape == (2, 5, 3) and (found.status == lw.Status.OK).all()
        assert off(found.q, expected.q) < 1e-8 and off(found.v, expected.v) < 1e-7
    found = lw.rollout(tree, q, v, tau, dt=1e-2, steps=20, parameters=other)
    for k, masses in enumerate(other["masses"]):
        each = lw.rollout(model_of(masses=masses), q[k], v[k], tau[k], dt=1e-2, steps=20)
        assert off(found.q[k], each.q) < 1e-8
    policy = lw.rollout(tree, q, v, policy=lambda q, v, t, inputs: -0.3 * v - 2.0 * q, dt=1e-2, steps=20)
    assert off(policy.q[:, -1], lw.rollout(tree, q, v, gains, dt=1e-2, steps=20).q[:, -1]) < 1e-12


def test_rollouts_of_trees_stop_in_their_row_alone(tree: Tree) -> None:
    q, v = np.zeros((2, 3)), np.ones((2, 3))
    v[1] = 1e200
    found = lw.rollout(tree, q, v, dt=1e-2, steps=10)
    assert found.status.tolist() == [int(lw.Status.OK), int(lw.Status.NOT_FINITE)]
    assert np.isfinite(found.q[0]).all() and np.isnan(found.q[1, -1]).all()
    one = Tree("quaternion", [Node("k", [[1.0]], [[1.0]])], nq=2)
    how: Any = {"dt": 0.1, "steps": 1}
    for make, told in (
        (lambda: lw.rollout(tree, q, v, contacts=lw.Contacts(), **how), "has no shapes for contacts="),
        (lambda: lw.rollout(tree, q, v, lambda q, v, t: 0.0 * v, **how), "expected forces or policy="),
        (
            lambda: lw.rollout(tree, q, v, integrator="implicit_midpoint", **how),
            "expected semi_implicit_euler, rk4 or rk45",
        ),
        (
            lambda: lw.rollout(tree, q, v, integrator="linearly_implicit_euler", **how),
            "expected semi_implicit_euler",
        ),
        (lambda: lw.rollout(tree, q, v, parameters={"mass": 1.0}, **how), "has no parameter 'mass'"),
        (lambda: lw.rollout(one, [0.0, 0.0], [1.0], **how), "the relation of q to v is unknown"),
        (lambda: lw.simulate(tree, dt=0.1, duration=1.0), "model"),
    ):
        with pytest.raises(LinkworkError, match=told):
            make()
