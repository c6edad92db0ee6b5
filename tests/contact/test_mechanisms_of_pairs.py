"""Which bodies are of one mechanism, whose shapes collide only where the model says so."""

from __future__ import annotations

import itertools

import pytest

import linkwork as lw
from linkwork.joints import Free, Revolute, Spherical
from linkwork.mechanism import Geometry

# bodies and what connects them: bases fixed to the world, joints in series, and a loop
MECHANISMS = {"a1": 0, "a2": 0, "b": 0, "c": 1, "d1": 2, "d2": 2, "e": 2, "f": 3, "ball": 4}


def yard(order: int) -> lw.Model:
    """Two arms on one pedestal, one on another, a chain with a loop to a free body, an arm on the ground and a
    ball.
    """
    builder = lw.ModelBuilder("yard")
    for name in ("pedestal", "post"):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(f"{name} stands", lw.joints.Fixed(), parent="world", child=name)
    tree = [("a1", "pedestal"), ("a2", "a1"), ("b", "pedestal"), ("c", "post"), ("d1", "world"), ("d2", "d1")]
    tree += [("e", "world"), ("f", "world"), ("ball", "world")]
    for name, parent in tree if order else [*tree[-3:], *tree[:-3]]:
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        kind = Free() if name in ("e", "ball") else Revolute((0.0, 1.0, 0.0))
        builder.add_joint(f"joint of {name}", kind, parent=parent, child=name)
        builder.add_geometry(Geometry(name, shape="sphere", size=(0.1,), link=name))
    builder.add_loop("rope", Spherical(), predecessor="d2", successor="e", embed=False)
    return builder.build()


@pytest.mark.parametrize("order", [0, 1])
def test_shapes_of_one_mechanism_touch_only_if_all_pairs_do(order: int) -> None:
    model = yard(order)
    pairs = {
        mode: {frozenset(each.name.split("-")) for each in lw.contact_candidates(model, contacts)}
        for mode in ("auto", "all", "none")
        for contacts in (lw.Contacts(ground=None, pairs=mode),)
    }
    every = {frozenset(pair) for pair in itertools.combinations(MECHANISMS, 2)}
    different = {pair for pair in every if len({MECHANISMS[name] for name in pair}) == 2}
    neighbours = {frozenset(pair) for pair in (("a1", "a2"), ("d1", "d2"))}
    assert pairs["none"] == set()
    assert pairs["auto"] == different
    assert pairs["all"] >= different and not pairs["all"] & neighbours
    assert frozenset(("a2", "b")) in pairs["all"] and frozenset(("d1", "e")) in pairs["all"]


def test_a_loop_joins_mechanisms_on_pedestals() -> None:
    """Two arms on pedestals of their own, and one on the ground: apart, and connected at their tips."""

    def build(tied: bool) -> lw.Model:
        builder = lw.ModelBuilder("arms")
        for k, base in enumerate(("left", "right", "world")):
            if base != "world":
                builder.add_body(base, mass=1.0, inertia=(1.0, 1.0, 1.0))
                builder.add_joint(f"{base} stands", lw.joints.Fixed(), parent="world", child=base)
            builder.add_body(f"arm{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
            builder.add_joint(f"joint{k}", Free(), parent=base, child=f"arm{k}")
            builder.add_geometry(Geometry(f"arm{k}", shape="sphere", size=(0.1,), link=f"arm{k}"))
        if tied:
            for k in (1, 2):
                builder.add_loop(f"tie{k}", Spherical(), predecessor="arm0", successor=f"arm{k}", embed=False)
        return builder.build()

    contacts = lw.Contacts(ground=None)
    assert len(lw.contact_candidates(build(False), contacts)) == 3
    assert len(lw.contact_candidates(build(True), contacts)) == 0
