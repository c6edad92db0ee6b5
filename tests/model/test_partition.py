"""Partitioned hinges (Partition Sec. 2 to 4): the same mechanism, the paper's relations, and fewer
operations.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import linkwork as lw
from linkwork.algorithms.tree.forward_dynamics import articulated_body
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.errors import ModelError
from linkwork.joints import Cylindrical, Gimbal, Joint, Planar, Prismatic, Revolute, Universal
from linkwork.joints.check import composed
from linkwork.model.partition import JOINED
from linkwork.sko import Node, Stage, Tree
from linkwork.sko.prepare.frames import in_body_frames, in_node_frames
from linkwork.sko.tree import hinge_tree as hinge_tree_of
from linkwork.sko.tree import model_tree
from linkwork.spatial import Pose
from linkwork.spatial_operators import Operators
from mechanisms import KINDS, make, random_model, randoms, state_of
from sko_systems import FLEXIBLE, boom

LAW = 1e-11
SEVERAL = [name for name in KINDS if name not in ("revolute", "prismatic", "helical") and "skew" not in name]
SEVERAL += ["skew cylindrical", "skew planar"]


def floats(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def off(a: Any, b: Any, scale: float = 0.0) -> float:
    """The largest difference, relative to the largest entry or to the size of terms that cancel."""
    a = floats(a)
    b = floats(b)
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), scale, 1e-300))


# one hinge in two


def tree_of(kind: str) -> lw.Model:
    """A body with a joint of this kind in the middle of a tree."""
    kinds = ["universal", kind, "revolute", kind]
    return make(np.random.default_rng(7), [-1, 0, 1, 1], kinds, armature=False, fixed=False, resisting=False)


def hinge_and_modes(modes: int = 4) -> tuple[Tree, Tree]:
    """Bodies of 6 + modes rows; and hinge and deformation apart, the hinge with a massless body of six rows."""
    whole = boom(np.random.default_rng(3), modes)
    rows = 6 + modes
    splits = {}
    for k, node in enumerate(whole.nodes):

        def inner(q: Any, v: Any, node: Any = node) -> Any:
            return node.A(q, v)[:, :6]

        own = np.concatenate([np.eye(6), np.zeros((6, modes))], axis=1)
        splits[f"body{k}"] = [
            Stage([0], A=inner, H=node.H[:1, :6]),
            Stage(range(1, 1 + modes), A=own, H=node.H[1:], a=node.a),
        ]
        assert node.H.shape[1] == rows
    return whole, whole.partitioned(splits=splits)


CASES = {
    "universal": lambda: (m := tree_of("universal"), m.partitioned("joint1")),
    "gimbal": lambda: (m := tree_of("gimbal"), m.partitioned(splits={"joint1": [(0,), (1, 2)]})),
    "gimbal of a universal joint and a hinge": lambda: (
        m := tree_of("gimbal"),
        m.partitioned(splits={"joint1": [Revolute((0.0, 0.0, 1.0)), PitchRoll()]}),
    ),
    "cylindrical": lambda: (m := tree_of("skew cylindrical"), m.partitioned("joint1")),
    "planar": lambda: (m := tree_of("skew planar"), m.partitioned(splits={"joint1": [("vx", "vy"), "wz"]})),
    "spherical": lambda: (m := tree_of("spherical"), m.partitioned(splits={"joint1": [(2,), (0, 1)]})),
    "free": lambda: (m := tree_of("free"), m.partitioned(splits={"joint1": [(0, 1, 2), (3, 4, 5)]})),
    "hinge and modes": hinge_and_modes,
}


@dataclass(frozen=True)
class PitchRoll(Joint):
    """About y, then about the new x: what a gimbal is behind its yaw."""

    nq = nv = 2

    def transform(self, q: np.ndarray) -> Pose:
        return Pose.rotation_about(1, q[0]).then(Pose.rotation_about(0, q[1]))

    def subspace(self, q: np.ndarray) -> np.ndarray:
        s, c = lw.sincos(q[1])
        return np.array([[0.0, 1.0], [c, 0.0], [-s, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], dtype=object)

    def bias(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, c = lw.sincos(q[1])
        return v[0] * v[1] * np.array([0.0, -s, -c, 0.0, 0.0, 0.0])


class Pair:
    """The quantities of a node, underlined in the paper, and of its two stages k' and k."""

    def __init__(self, one: Any, two: Any) -> None:
        rng = np.random.default_rng(0)
        tree = isinstance(one, Tree)
        q, v = (rng.normal(size=one.nq), rng.normal(size=one.nv)) if tree else one.random_state(rng)
        self.o, self.p = lw.operators(one, q, v), lw.operators(two, q, v)
        self.k = "body1" if tree else "joint1"
        self.inner = f"{self.k}'0"
        assert self.inner in self.p.rows.names and self.inner not in self.o.rows.names

    def of(self, operators: Operators, word: str, k: str) -> np.ndarray:
        return getattr(operators, word).block(k, k)


@pytest.fixture(params=CASES, scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*CASES[request.param]())


def test_conditions_of_equivalence(pair: Pair) -> None:
    """Eq. 5: the weights, joint maps and Coriolis terms of the stages make those of the node, and k' has no
    mass.
    """
    o = pair.o
    p = pair.p
    k = pair.k
    inner = pair.inner
    parent = o.rows.names[o.parents[o.rows.place(k)]]
    phi = p.E_A.block(inner, k)
    assert off(p.E_A.block(parent, inner) @ phi, o.E_A.block(parent, k)) < LAW
    H_C = p.H.block(inner, inner) @ phi
    inboard, outboard = dofs(pair)
    H = o.H.block(k, k)
    assert off(H[outboard], p.H.block(k, k)) < LAW and off(H[inboard], H_C) < LAW
    a, a_inner = (p.a[p.rows.slices[p.rows.place(name)]] for name in (k, inner))
    assert off(a + phi.T @ a_inner, o.a[o.rows.slices[o.rows.place(k)]], 1.0) < LAW
    assert not p.M.block(inner, inner).any() and not p.b[p.rows.slices[p.rows.place(inner)]].any()
    assert off(p.M.block(k, k), o.M.block(k, k)) < LAW


def dofs(pair: Pair) -> tuple[list[int], list[int]]:
    """Which velocities of the node are those of k', and which are left."""
    whole = pair.o.velocities.slices[pair.o.velocities.place(pair.k)]
    places = []
    for name in (pair.inner, pair.k):
        own = pair.p.velocities.slices[pair.p.velocities.place(name)]
        places.append([i - whole.start for i in range(own.start, own.stop)])
    return places[0], places[1]


def test_articulated_bodies(pair: Pair) -> None:
    """Lemmas 3.1 to 3.3: Eq. 9 to 11 and 14 to 18."""
    o = pair.o
    p = pair.p
    k = pair.k
    inner = pair.inner
    whole = {word: pair.of(o, word, k) for word in ("D", "G", "tau", "tau_bar", "H", "P", "P_plus")}
    own = {word: pair.of(p, word, k) for word in whole}
    first = {word: pair.of(p, word, inner) for word in whole}
    phi = p.E_A.block(inner, k)
    H_C = first["H"] @ phi
    D, G, P, P_plus, H = (own[word] for word in ("D", "G", "P", "P_plus", "H"))
    D_inner = np.linalg.inv(first["D"])
    inboard, outboard = dofs(pair)
    order = [*outboard, *inboard]  # the paper has the outboard velocities first
    m = len(outboard)
    expected = np.block([[D, H @ P @ H_C.T], [H_C @ P @ H.T, H_C @ P @ H_C.T]])
    assert off(whole["D"][np.ix_(order, order)], expected) < LAW  # Eq. 9
    inverse = np.zeros_like(expected)
    inverse[:m, :m] = np.linalg.inv(D)
    column = np.concatenate([-G.T @ H_C.T, np.eye(len(inboard))])
    inverse = inverse + column @ D_inner @ column.T
    assert off(np.linalg.inv(whole["D"])[np.ix_(order, order)], inverse) < LAW
    row = np.concatenate([-H_C @ G, np.eye(len(inboard))], axis=1)
    G_whole = np.concatenate([G, np.zeros((len(G), len(inboard)))], axis=1) + P_plus @ H_C.T @ D_inner @ row
    assert off(whole["G"][:, order], G_whole, 1.0) < LAW  # Eq. 10
    change = P_plus @ H_C.T @ D_inner @ H_C @ own["tau_bar"]
    assert off(whole["tau"], own["tau"] + change, 1.0) < LAW  # Eq. 11
    assert off(whole["tau_bar"], own["tau_bar"] - change, 1.0) < LAW
    carried = np.concatenate([first["tau_bar"] @ phi @ G, first["G"]], axis=1)
    assert off(phi @ whole["G"][:, order], carried, 1.0) < LAW  # Eq. 14
    assert (
        off(phi @ whole["tau"], phi @ own["tau"] + first["tau"] @ phi @ own["tau_bar"], 1.0) < LAW
    )  # Eq. 15
    assert off(phi @ whole["tau_bar"], first["tau_bar"] @ phi @ own["tau_bar"], 1.0) < LAW
    left = whole["H"].T @ np.linalg.inv(whole["D"]) @ whole["H"]
    right = H.T @ np.linalg.inv(D) @ H + own["tau_bar"].T @ H_C.T @ D_inner @ H_C @ own["tau_bar"]
    assert off(left, right) < LAW  # Eq. 16
    for name in o.rows.names:
        assert off(pair.of(p, "P", name), pair.of(o, "P", name)) < LAW  # Eq. 17
    assert (
        off(whole["P_plus"], P_plus - P_plus @ H_C.T @ D_inner @ H_C @ P_plus, np.abs(P_plus).max()) < LAW
    )  # Eq. 18
    moved = phi @ whole["P_plus"] @ phi.T
    assert off(first["P_plus"], moved, np.abs(first["P"]).max()) < LAW  # Eq. 19


def test_operational_space(pair: Pair) -> None:
    """Lemma 4.1: Eq. 22 to 25."""
    o = pair.o
    p = pair.p
    k = pair.k
    inner = pair.inner
    for name in o.rows.names:
        assert off(pair.of(p, "Upsilon", name), pair.of(o, "Upsilon", name)) < LAW  # Eq. 24
    parent = o.rows.names[o.parents[o.rows.place(k)]]

    def plus(operators: Operators, k: str) -> np.ndarray:
        A = operators.E_A.block(parent, k)
        return A.T @ pair.of(operators, "Upsilon", parent) @ A

    phi = p.E_A.block(inner, k)
    assert off(plus(o, k), phi.T @ plus(p, inner) @ phi) < LAW  # Eq. 25
    assert off(p.mass_matrix.dense(), o.mass_matrix.dense()) < LAW
    assert off(p.mass_matrix_inverse.dense(), o.mass_matrix_inverse.dense()) < LAW


# whole mechanisms


def same_results(one: Any, two: Any, rng: np.random.Generator) -> None:
    if isinstance(one, Tree):
        q, v, a, tau = rng.normal(size=(4, one.nv))
        more: dict[str, Any] = {}
    else:
        q, v, a, tau, f_ext = state_of(one, rng)
        more = {"f_ext": f_ext}
    assert one.v_names == two.v_names and one.nq == two.nq
    found = {}
    for model in (one, two):
        found[model is two] = [
            lw.inverse_dynamics.body(model, q, v, a, **more),
            lw.forward_dynamics.body(model, q, v, tau, **more, method="articulated_body"),
            lw.forward_dynamics.body(model, q, v, tau, **more, method="mass_matrix"),
            lw.mass_matrix.body(model, q),
            lw.mass_matrix_inverse.body(model, q, method="sweeps"),
            lw.mass_matrix_log_determinant.body(model, q, method="articulated_body"),
        ]
        prescribed = np.arange(one.nv) % 3 == 0
        found[model is two] += list(
            lw.hybrid_dynamics.body(model, q, v, a, tau, **more, prescribed=prescribed)
        )
    for x, y in zip(found[True], found[False]):
        assert off(x, y, 1.0) < 1e-10


@settings(max_examples=15, deadline=None, derandomize=True)
@given(randoms)
def test_random_trees_stay_what_they_are(rng: np.random.Generator) -> None:
    """All joints of several velocities at once, with armature, springs, dampers and forces from outside."""
    model = random_model(rng, 5, kinds=SEVERAL, massless=False)
    same_results(model, model.partitioned() if any(j.nv > 1 for j in model.joints) else model, rng)


@pytest.mark.parametrize("kind", SEVERAL)
def test_every_kind_of_joint(kind: str) -> None:
    rng = np.random.default_rng(2)
    model = make(rng, [-1, 0, 1], [kind, "revolute", kind])
    same_results(model, model.partitioned(), rng)
    last = model.joints[-1].nv - 1
    same_results(model, model.partitioned(splits={"joint2": [range(last), (last,)]}), rng)
    same_results(model, model.partitioned(splits={"joint2": [(last,), range(last)]}), rng)


def test_beside_loops_and_rotors() -> None:
    """A universal joint in a mechanism with a loop is partitioned; the loop's cluster is as it was."""
    builder = lw.ModelBuilder("beside a loop")
    rng = np.random.default_rng(0)
    for k in range(5):
        builder.add_body(f"body{k}", mass=1.0 + k, center=rng.normal(size=3) * 0.1, inertia=(0.1, 0.2, 0.15))
    builder.add_joint("base", Universal(), parent="world", child="body0")
    builder.add_joint("crank", Revolute(), parent="body0", child="body1")
    builder.add_joint("rod", Revolute(), parent="body1", child="body2", xyz=(0.3, 0.0, 0.0))
    builder.add_joint("slide", Prismatic((1.0, 0.0, 0.0)), parent="body0", child="body3")
    builder.add_loop("pin", Revolute(), predecessor="body2", successor="body3", xyz=(0.5, 0.0, 0.0))
    builder.add_joint("tool", Gimbal(), parent="body3", child="body4")
    model = builder.build()
    assert {k for k, _ in model.partitioned().partition} == {0, 4}
    same_results(model, model.partitioned(), rng)
    with pytest.raises(ModelError, match="'slide'.*loop"):
        model.partitioned("slide")


def test_custom_trees() -> None:
    whole, apart = hinge_and_modes()
    same_results(whole, apart, np.random.default_rng(1))
    same_results(whole, whole.partitioned(), np.random.default_rng(1))
    q = np.random.default_rng(2).normal(size=whole.nq)
    assert off(lw.frame_jacobian(apart, q, frame="tip"), lw.frame_jacobian(whole, q, frame="tip")) < LAW
    compliance = lw.operational_compliance
    assert off(compliance(apart, q, frames="tip"), compliance(whole, q, frames="tip")) < LAW


@pytest.mark.parametrize("wrong", [None, "A", "H", "a"])
def test_stages_with_coriolis_terms_of_their_own(wrong: str | None) -> None:
    """A node of three velocities behind another, and its two stages, of fewer rows than it."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(7, 7))
    inner = {"A": rng.normal(size=(6, 5)), "H": rng.normal(size=(2, 5)), "a": rng.normal(size=5)}
    outer = {"A": rng.normal(size=(5, 7)), "H": rng.normal(size=(1, 7)), "a": rng.normal(size=7)}
    apart = {
        "A": inner["A"] @ outer["A"],
        "H": np.concatenate([inner["H"] @ outer["A"], outer["H"]]),
        "a": outer["a"] + outer["A"].T @ inner["a"],
    }
    first = Node("first", H=np.eye(6)[:1], M=2.0 * np.eye(6), A=np.eye(6))
    last = Node("last", parent="first", M=X @ X.T + np.eye(7), b=rng.normal(size=7), **apart)
    whole = Tree("stages", [first, last], base_acceleration=(0, 0, 0, 0, 0, 9.81))
    if wrong:
        inner[wrong] = inner[wrong] + 1e-3 * rng.normal(size=inner[wrong].shape)
    splits = {"last": [Stage([0, 1], **inner), Stage([2], **outer)]}
    if wrong:
        with pytest.raises(ModelError, match="Partition Eq. 5"):
            whole.partitioned(splits=splits)
    else:
        same_results(whole, whole.partitioned(splits=splits), rng)


def test_parameters_stay_inputs_and_kernels_are_their_own() -> None:
    model = lw.robots.chain(3, joint=Universal())
    apart = model.partitioned()
    q, v = model.random_state(0)
    tau = np.ones(model.nv)
    values = {"mass": 1.5 * model.parameters()["mass"], "armature": np.linspace(0.1, 0.2, model.nv)}
    a = lw.forward_dynamics(apart, q, v, tau, parameters=values)
    assert off(a, lw.forward_dynamics(model, q, v, tau, parameters=values)) < LAW
    assert apart != model and apart.unpartitioned() == model and apart.digest != model.digest
    assert off(lw.frame_jacobian(apart, q, frame="body_2"), lw.frame_jacobian(model, q, frame="body_2")) < LAW
    both = [lw.forward_dynamics_derivatives(m, q, v, tau)[0] for m in (model, apart)]
    assert off(*both) < 1e-10
    hold = lw.Locked("joint_1")
    both = [lw.constrained_dynamics(m, q, v, tau, constraints=hold)[0] for m in (model, apart)]
    assert off(*both) < 1e-9
    assert (
        off(
            lw.operators(apart, q).compliance("body_2").dense(),
            lw.operators(model, q).compliance("body_2").dense(),
        )
        < LAW
    )


@pytest.mark.parametrize(
    "kind",
    [Universal(), Gimbal(), Cylindrical(), Cylindrical((0.3, -0.4, 0.5))],
    ids=lambda k: type(k).__name__,
)
def test_joints_are_what_they_are_made_of(kind: Joint) -> None:
    """Partition Eq. 5 of joints that ship, and the rate of the composed motion against a difference."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        q = kind.random(rng)
        v = rng.normal(size=kind.nv)
        X, S, bias = composed(kind.partition(), q, v)
        assert off(X.matrix(), kind.transform(q).matrix()) < 1e-14 and off(S, kind.subspace(q)) < 1e-14
        assert off(bias, kind.bias(q, v), 1.0) < 1e-14
        h = 1e-6
        moved = [floats(composed(kind.partition(), q + s * h * v, v)[1]) @ v for s in (-1.0, 1.0)]
        assert off((moved[1] - moved[0]) / (2 * h), bias, 1.0) < 1e-8


def test_joining_is_the_reverse() -> None:
    """A massless body between two hinges, and both as one node: what a flexible body's hinge and deformation
    can be.
    """
    rng = np.random.default_rng(4)
    model = make(
        rng,
        [-1, 0, 1, 1],
        ["revolute", "gimbal", "revolute", "universal"],
        [False, True, False, False],
        fixed=False,
    )
    inner = model.joint("before1")
    outer = model.joint("joint1")
    assert outer.parent == inner.child and not model.bodies[inner.child].mass
    q, v, a, tau, _ = state_of(model, rng)
    for make_tree, describe in ((model_tree, in_body_frames), (hinge_tree_of, in_node_frames)):
        apart = make_tree(model, describe(model), q, v)
        whole = make_tree(model, describe(model), q, v, partition={outer.child: JOINED})
        assert len(whole.nodes) == len(apart.nodes) - 1
        for algorithm, x in ((inverse_dynamics, a), (articulated_body, tau)):
            assert off(algorithm(whole, x), algorithm(apart, x)) < 1e-10
        assert off(mass_matrix(whole), mass_matrix(apart)) < LAW
    one = lw.operators(whole)
    two = lw.operators(apart)
    for name in one.rows.names:
        for word in ("P", "Upsilon"):
            assert off(getattr(one, word).block(name, name), getattr(two, word).block(name, name)) < 1e-10


# what it saves


@lru_cache(maxsize=1)
def bench() -> Any:
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location("bench_partition", root / "bench/partition.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_modes_apart_save_a_third() -> None:
    """Nodes of 6 + 8 rows in which nothing is known to vanish: hinge and modes one after the other."""
    whole, apart = bench().dense_body(1, 8)
    assert apart < 0.7 * whole
    whole, apart = bench().dense_body(3, 8)
    assert apart < 0.7 * whole


def operations(model: Any, method: str = "articulated_body") -> int:
    return lw.count_operations(lw.forward_dynamics, model, method=method)["total"]


def test_the_cheaper_is_taken() -> None:
    """Forward dynamics of universal joints takes the partition by itself: a fifth fewer operations, and no
    more anywhere.
    """
    model = lw.robots.chain(6, joint=Universal())
    apart = operations(model, "partitioned")
    assert apart == operations(model.partitioned()) and apart < 0.8 * operations(model)
    assert operations(model, "auto") == min(
        operations(model, m) for m in ("articulated_body", "partitioned", "mass_matrix")
    )
    for kind in (Gimbal(), Cylindrical(), Planar()):
        chain = lw.robots.chain(4, joint=kind)
        assert operations(chain, "auto") <= operations(chain)
    q, v = model.random_state(0)
    tau = np.ones(model.nv)
    assert (
        off(
            lw.forward_dynamics(model, q, v, tau),
            lw.forward_dynamics(model, q, v, tau, method="articulated_body"),
        )
        < LAW
    )


# what does not fit


def test_splits_that_are_not_the_joint_are_refused() -> None:
    model = make(np.random.default_rng(0), [-1, 0, 1], ["universal", "revolute", "planar"])
    x = Revolute((1.0, 0.0, 0.0))
    y = Revolute((0.0, 1.0, 0.0))
    with pytest.raises(ModelError, match=r"Φ\(k\+1, k\).*Eq. 5"):
        model.partitioned(splits={"joint0": [y, x]})
    with pytest.raises(ModelError, match="total nq = 2, got 1"):
        model.partitioned(splits={"joint0": [x]})
    with pytest.raises(
        ModelError, match=r"H\(k\).*Eq. 5"
    ):  # the velocities of a planar joint turn with the child
        model.partitioned(
            splits={"joint2": [Prismatic((1.0, 0.0, 0.0)), Prismatic((0.0, 1.0, 0.0)), Revolute()]}
        )
    with pytest.raises(ModelError, match="each of its 2 velocities once"):
        model.partitioned(splits={"joint0": [(0,), (0,)]})
    with pytest.raises(ModelError, match="consecutive velocities"):
        model.partitioned(splits={"joint2": [(0, 2), (1,)]})
    with pytest.raises(ModelError, match="expected velocities of .*; got '"):
        model.partitioned(splits={"joint2": ["vx", "vy", "spin"]})
    with pytest.raises(ModelError, match="expected velocities of .*; got None"):
        model.partitioned(splits={"joint0": [None, 1]})
    with pytest.raises(ModelError, match="got both"):
        model.partitioned(splits={"joint0": [x, (1,)]})
    with pytest.raises(ModelError, match="expected a sequence of"):
        model.partitioned(splits={"joint0": 3})
    with pytest.raises(ModelError, match="several velocities"):
        model.partitioned("joint1")
    with pytest.raises(ModelError, match="no joint named"):
        model.partitioned("hip")


def test_stages_that_are_not_the_node_are_refused() -> None:
    tree = boom(np.random.default_rng(0), 2)
    own = np.concatenate([np.eye(6), np.zeros((6, 2))], axis=1)
    node = tree.nodes[1]

    def inner(q: Any, v: Any) -> Any:
        return node.A(q, v)[:, :6]

    right = [Stage([0], A=inner, H=node.H[:1, :6]), Stage([1, 2], A=own, H=node.H[1:], a=node.a)]
    tree.partitioned(splits={"body1": right})
    bad = {
        "H": [Stage([0], A=inner, H=2.0 * node.H[:1, :6]), right[1]],
        "Φ": [Stage([0], A=lambda q, v: 1.1 * inner(q, v), H=node.H[:1, :6]), right[1]],
        "a": [right[0], Stage([1, 2], A=own, H=node.H[1:], a=0.0 * node.a)],
        "H()": [Stage([0, 1, 2], H=2.0 * node.H)],  # all in one stage
    }
    for word, stages in bad.items():
        with pytest.raises(ModelError, match=rf"'body1'.* in {word[0]}\(k.*Eq. 5"):
            tree.partitioned(splits={"body1": stages})
    with pytest.raises(ModelError, match="shape"):
        tree.partitioned(splits={"body1": [Stage([0], H=node.H[:1, :5]), right[1]]})
    with pytest.raises(ModelError, match="each of its 3 velocities once"):
        tree.partitioned(splits={"body1": [(0,), (1,)]})
    for split in (3, [3.5], [None], [Stage(3)]):  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="expected a sequence of"):
            tree.partitioned(splits={"body1": split})  # type: ignore[dict-item]
    with pytest.raises(ModelError, match="no node named"):
        tree.partitioned("elbow")


@settings(max_examples=5, deadline=None, derandomize=True)
@given(randoms)
def test_articulated_inertias_and_compliances_of_bodies_are_the_same(rng: np.random.Generator) -> None:
    """Lemmas 3.3 and 4.1 through the public operators, also behind joints with armature."""
    model = random_model(rng, 5, kinds=SEVERAL, massless=False)
    q, _ = model.random_state(rng)
    whole = lw.operators(model, q)
    apart = lw.operators(model.partitioned(), q)
    body = slice(0, 6)  # rows of armature follow
    for name in whole.rows.names:
        for word in ("P", "Upsilon"):
            one, other = (floats(getattr(each, word).block(name, name)) for each in (whole, apart))
            assert np.abs(one[body, body] - other[body, body]).max() <= LAW * np.abs(one[body, body]).max()


@pytest.mark.parametrize("of_state", [False, True], ids=["constant", "function of q"])
def test_armature_that_couples_stages_is_refused(of_state: bool) -> None:
    coupling = np.diag([0.3, 0.2, 0.4])
    coupling[0, 1] = coupling[1, 0] = 0.1
    armature = (lambda q, v: (1.0 + q[0] * q[0]) * coupling) if of_state else coupling
    tree = Tree("arm", [Node("body", H=np.eye(3, 6), M=np.eye(6), armature=armature)])
    with pytest.raises(ModelError, match="'body' cannot be partitioned: its armature couples velocities"):
        tree.partitioned()
    apart = tree.partitioned(splits={"body": [(0, 1), (2,)]})
    assert np.allclose(lw.mass_matrix(apart, np.zeros(3)), lw.mass_matrix(tree, np.zeros(3)))


# mechanisms that ship


def test_leg_of_a_hexapod() -> None:
    whole = lw.robots.hexapod_leg(partitioned=False)
    apart = lw.robots.hexapod_leg()
    assert apart is lw.robots.hexapod_leg() and whole.nv == apart.nv == 7 and len(apart.bodies) == 3
    same_results(whole, apart, np.random.default_rng(0))
    o = lw.operators(apart, apart.neutral())
    assert len(o.rows) == 7 and all(o.velocities.rows_of(k) == 1 for k in range(7))
    assert operations(apart) < 0.85 * operations(whole)


@pytest.mark.slow
def test_chain_of_two_hundred_links() -> None:
    """As linear as a short one: operators sweep over it, and determinants stay within the range of floats as
    logarithms.
    """
    model = lw.robots.chain(200)
    rng = np.random.default_rng(0)
    q = rng.uniform(-0.3, 0.3, 200)
    x = rng.normal(size=200)
    o = lw.operators(model, q)
    y = o.mass_matrix @ x
    assert off(o.mass_matrix_inverse @ y, x) < 1e-6  # its condition is about 1e8
    assert off(o.innovations_inverse @ (o.innovations_factor @ x), x) < LAW
    pivots = [float(o.D.block(k, k)[0, 0]) for k in range(200)]
    assert np.isclose(
        lw.mass_matrix_log_determinant.body(model, q, method="articulated_body"),
        np.log(pivots).sum(),
        rtol=1e-12,
    )
    few, more, most = (
        lw.count_operations(lw.mass_matrix_solve, lw.robots.chain(n))["total"] for n in (40, 60, 80)
    )
    assert most - more <= 1.01 * (more - few)


@pytest.mark.slow
def test_the_table_of_the_page_is_what_its_command_gives() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/partition.md").read_text(encoding="utf-8")
    assert "\n".join(bench().joints()) in page and "\n".join(bench().dense()) in page


@pytest.mark.parametrize("name", FLEXIBLE)
def test_flexible_bodies(name: str) -> None:
    """As they are, all velocities apart, and with hinge and deformation in one node where they are in no
    loop.
    """
    model = getattr(lw.robots, name)()
    rng = np.random.default_rng(0)
    alone = [model.joints[c.bodies[0]] for c in model.clusters if not c.constraints]
    if any(joint.nv > 1 for joint in alone):
        same_results(model, model.partitioned(), rng)
    whole = model.unpartitioned()
    assert (whole is not model) == (name == "flexible_arm")
    if whole is not model:
        same_results(model, whole, rng)
        q, v, _, tau, _ = state_of(model, rng)
        found = [lw.forward_dynamics.body(m, q, v, tau, method="articulated_body") for m in (model, whole)]
        assert off(*found) < 1e-10
        assert len(lw.operators(whole, q).rows) < len(lw.operators(model, q).rows)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(lw, "flexible"), reason="no flexible bodies here")
def test_the_table_of_beams_is_what_its_command_gives() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/partition.md").read_text(encoding="utf-8")
    assert "\n".join(bench().beams()) in page
