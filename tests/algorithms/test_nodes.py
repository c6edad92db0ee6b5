"""The contract of nodes (SKO Sec. 2), in every description and for every kind of node; and types that refuse
the rest.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.tree.energy import kinetic_energy
from linkwork.algorithms.tree.inverse_dynamics import inverse_dynamics
from linkwork.algorithms.tree.mass_matrix import mass_matrix
from linkwork.sko.contracts import HingeNode, NodeState
from linkwork.sko.prepare.base_parameters import regrouped
from linkwork.sko.prepare.frames import in_node_frames, in_own_frames, without_lumping
from linkwork.sko.prepare.trees import hinge_tree
from linkwork.sko.tree import hinge_tree as hinge_tree_of
from linkwork.sko.tree import model_tree

ROBOTS = ("arm", "humanoid", "four_bar", "five_bar", "mit_humanoid_leg", "tello", "delta", "scissor")
DESCRIPTIONS = {"own frames": in_own_frames, "node frames": in_node_frames}


def model_of(name: str) -> lw.Model:
    return lw.robots.scissor_lift(2) if name == "scissor" else getattr(lw.robots, name)()


def floats(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    a = floats(a)
    b = floats(b)
    return bool(np.abs(a - b).max(initial=0.0) <= tolerance * max(1.0, np.abs(b).max(initial=0.0)))


def trees(model: lw.Model, q: Any, v: Any, f_ext: Any) -> dict[str, Any]:
    """A model's nodes in all descriptions, with rotors as rows, as bodies and lumped, and with forces from
    outside.
    """
    found = {}
    for word, describe in DESCRIPTIONS.items():
        for whole in (False, True):
            found[f"{word}, whole {whole}"] = model_tree(model, describe(model), q, v, all_bodies=whole)
        found[f"{word}, pushed"] = model_tree(model, describe(model), q, v, f_ext)
    spanning = model.spanning_tree()
    every = floats(lw.spanning_velocity.body(model, q, v))
    found["one by one"] = model_tree(spanning, without_lumping(spanning), q, every, f_ext)
    return found


@pytest.mark.parametrize("name", ROBOTS)
def test_every_node_keeps_the_contract(name: str) -> None:
    """V = A* V(℘) + H* θ̇, α = A* α(℘) + H* θ̈ + a, f = M α + b; A is one matrix, and M symmetric."""
    model = model_of(name)
    rng = np.random.default_rng(5)
    q, v = model.random_state(rng)
    f_ext = rng.normal(size=(len(model.bodies), 6))
    for word, tree in trees(model, q, v, f_ext).items():
        for k in tree.base_to_tips():
            up = k.parent.rows
            m = len(k.H)
            V = rng.normal(size=up)
            alpha = rng.normal(size=up)
            own = rng.normal(size=k.rows)
            dtheta, ddtheta = rng.normal(size=(2, m))
            A = floats(k.A.gather(np.eye(k.rows)))
            H = floats(k.H)
            M = floats(k.M.dense())
            assert A.shape == (up, k.rows) and close(k.A.scatter(np.eye(up)), A.T), (word, k.name)
            assert close(k.velocity(V, dtheta), A.T @ V + H.T @ dtheta), (word, k.name)
            assert close(k.accelerate(alpha, ddtheta), A.T @ alpha + H.T @ ddtheta + floats(k.a)), (
                word,
                k.name,
            )
            assert close(k.force(own), M @ own + floats(k.b)) and close(M, M.T), (word, k.name)
            assert close(k.M @ np.eye(k.rows), M) and close(k.A.congruence(k.M).dense(), A @ M @ A.T), (
                word,
                k.name,
            )
            ends = sorted((block.start, block.stop) for block in k.blocks.values())
            assert all(b - a == 6 for a, b in ends) and all(x[1] <= y[0] for x, y in pairwise(ends))


@pytest.mark.parametrize("name", ROBOTS)
def test_descriptions_are_of_one_mechanism(name: str) -> None:
    """Energies, joint forces and mass matrices do not depend on frames, nor on what is lumped or regrouped."""
    model = model_of(name)
    rng = np.random.default_rng(6)
    q, v = model.random_state(rng)
    a = rng.normal(size=model.nv)
    plain = model_tree(model, in_own_frames(model), q, v, all_bodies=True)
    for whole in (False, True):
        for describe in DESCRIPTIONS.values():
            tree = model_tree(model, describe(model), q, v, all_bodies=whole)
            assert close(kinetic_energy(tree, v), kinetic_energy(plain, v))
            assert close(inverse_dynamics(tree, a), inverse_dynamics(plain, a))
        reduced = hinge_tree_of(model, regrouped(model), q, v, all_bodies=whole)
        assert close(inverse_dynamics(reduced, a), inverse_dynamics(plain, a))
        assert close(mass_matrix(reduced), mass_matrix(plain))


@pytest.mark.parametrize("name", ["arm", "mit_humanoid_leg", "four_bar"])
def test_regrouped_nodes_have_no_force_to_ask_for(name: str) -> None:
    """Where base parameters are regrouped, M α + b is not the force on a body: the question cannot be asked."""
    model = model_of(name)
    q, v = model.random_state(np.random.default_rng(0))
    for k in hinge_tree(model, q, v).base_to_tips():
        assert isinstance(k, HingeNode) and not isinstance(k, NodeState)
        assert not hasattr(k, "force") and not hasattr(k, "b") and not hasattr(k, "armature_energy")
    for k in lw.nodes(model, q, v).base_to_tips():
        assert isinstance(k, NodeState) and callable(k.force)


def test_nodes_are_computed_from_what_does_not_change() -> None:
    """Making a tree changes nothing that was made before: the same nodes tell the same afterwards."""
    model = model_of("tello")
    q, v = model.random_state(np.random.default_rng(1))
    one = lw.nodes(model, q, v)
    before = [floats(k.M.dense()) for k in one.base_to_tips()]
    lw.nodes(model, model.random_state(np.random.default_rng(2))[0])
    again = lw.nodes(model, q, v)
    assert all(np.array_equal(x, floats(k.M.dense())) for x, k in zip(before, again.base_to_tips()))
    assert all(np.array_equal(x, floats(k.M.dense())) for x, k in zip(before, one.base_to_tips()))
