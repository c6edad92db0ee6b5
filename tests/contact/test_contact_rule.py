"""Which shapes may touch which: the rule, and how it is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import Contacts, Geometry
from linkwork.contact.names import named_shapes
from linkwork.joints import Free, Revolute
from linkwork.spatial import Pose


def leg(*more: Geometry, **first: Any) -> lw.ModelBuilder:
    """A free trunk with a leg of two links, a sphere on each."""
    builder = lw.ModelBuilder("leg")
    for name, parent, kind in (
        ("trunk", "world", Free()),
        ("thigh", "trunk", Revolute((0.0, 1.0, 0.0))),
        ("shank", "thigh", Revolute((0.0, 1.0, 0.0))),
    ):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(
            f"to {name}", kind, parent=parent, child=name, xyz=(0.0, 0.0, 0.0 if name == "trunk" else -0.4)
        )
        builder.add_geometry(Geometry(f"{name} ball", shape="sphere", size=(0.1,), link=name, **first))
    for each in more:
        builder.add_geometry(each)
    return builder


def names(model: lw.Model, **contacts: Any) -> list[str]:
    return [each.name for each in lw.contact_candidates(model, Contacts(**contacts))]


def test_all_that_can_collide_touches_the_ground_and_nothing_of_the_same_mechanism() -> None:
    model = leg(Geometry("drawn", shape="sphere", size=(1.0,), collision=False, link="trunk")).build()
    assert names(model) == ["trunk ball", "thigh ball", "shank ball"]
    assert names(model, pairs="all") == [
        *names(model),
        "trunk ball-shank ball",
    ]  # neighbours are held by their joint
    assert names(model, ground=None, pairs="all") == ["trunk ball-shank ball"]
    assert names(model, pairs=[("thigh", "shank ball")])[3:] == ["thigh ball-shank ball"]
    assert names(model, shapes="shank") == ["shank ball"]
    assert names(model, shapes=["shank", "thigh"], pairs="all") == ["shank ball", "thigh ball"]


def test_the_model_lists_and_excludes_pairs() -> None:
    listed = leg().add_contact_pair(
        lw.ContactPair("trunk ball", "shank ball", friction=(0.3, 0.3, 0.02, 0.01, 0.01), condim=6)
    )
    (found,) = [each for each in lw.contact_candidates(listed.build()) if each.other != -1]
    assert (found.friction, found.dimension) == ((0.3, 0.02, 0.01), 6)
    excluded = leg().add_contact_pair(lw.ContactPair("trunk", "shank", excluded=True)).build()
    assert "trunk ball-shank ball" not in names(excluded, pairs="all")
    assert names(excluded, ground=None, pairs=[("trunk", "shank")]) == [
        "trunk ball-shank ball"
    ]  # whoever names them wants it


def test_masks_decide() -> None:
    model = leg(
        Geometry("ghost", shape="sphere", size=(0.1,), link="shank", contype=2, conaffinity=2)
    ).build()
    assert "ghost" not in names(model) and "ghost" in names(model, shapes=["ghost"])


def two_balls(**more: Any) -> lw.Model:
    builder = lw.ModelBuilder("balls")
    for name in "ab":
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1)).add_joint(
            name * 2, Free(), parent="world", child=name
        )
        builder.add_geometry(Geometry(f"ball {name}", shape="sphere", size=(0.1,), link=name, **more))
    return builder.build()


def test_different_mechanisms_touch() -> None:
    assert names(two_balls()) == ["ball a", "ball b", "ball a-ball b"]
    assert names(two_balls(), pairs="none") == ["ball a", "ball b"]


def test_what_a_truss_holds_does_not_touch() -> None:
    """A loop that leaves no freedom makes its bodies one rigid body with the ground."""
    builder = lw.ModelBuilder("truss")
    for k, x in enumerate((0.0, 1.0)):
        builder.add_body(f"bar {k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(
            f"hinge {k}", Revolute((0.0, 1.0, 0.0)), parent="world", child=f"bar {k}", xyz=(x, 0.0, 0.5)
        )
        builder.add_geometry(Geometry(f"end {k}", shape="sphere", size=(0.1,), link=f"bar {k}"))
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1)).add_joint(
        "floats", Free(), parent="world", child="ball"
    )
    free = builder.build()
    assert names(free) == ["end 0", "end 1", "end 0-end 1"]
    truss = free.with_loop(
        "top",
        Revolute((0.0, 1.0, 0.0)),
        predecessor="bar 0",
        successor="bar 1",
        xyz=(0.5, 0, 1),
        successor_xyz=(-0.5, 0, 1),
    )
    assert truss.nv == 6 and names(truss) == []


def test_terrain_of_the_model_takes_the_place_of_the_plane() -> None:
    slope = Geometry(
        "slope",
        shape="plane",
        place=Pose.from_xyz_rpy((0.0, 0.0, 1.0), (0.3, 0.0, 0.0)),
        link="world",
        friction=(0.4,),
    )
    model = leg(slope).build()
    assert [each.other_place.point for each in lw.contact_candidates(model)] == [(0.0, 0.0, 1.0)] * 3
    assert {each.friction[0] for each in lw.contact_candidates(model)} == {0.4}
    step = Geometry("step", shape="box", size=(1.0, 1.0, 0.2), link="world")
    kinds = [each.kind for each in lw.contact_candidates(leg(step).build())]
    assert kinds == ["sphere on plane", "sphere on box"] * 3
    over = Contacts(ground=[Geometry("other", shape="plane")])
    assert [each.other_place.point[2] for each in lw.contact_candidates(model, over)] == [0.0] * 3


def test_a_body_on_a_fixed_link_does_not_touch_that_link() -> None:
    builder = lw.ModelBuilder("arm").add_body("base", mass=1.0)
    builder.add_joint("held", lw.joints.Fixed(), parent="world", child="base")
    builder.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1)).add_joint(
        "turns", Revolute((0.0, 1.0, 0.0)), parent="base", child="arm"
    )
    builder.add_geometry(Geometry("foot", shape="box", size=(1.0, 1.0, 0.1), link="base"))
    builder.add_geometry(Geometry("tip", shape="sphere", size=(0.1,), link="arm"))
    assert [each.kind for each in lw.contact_candidates(builder.build())] == ["sphere on plane"]


def test_what_one_fixed_link_holds_is_one_mechanism() -> None:
    """Two legs of a trunk that is fixed to the world are as those of one that floats; two pendulums on the
    world are not.
    """

    def hanging(on: str) -> lw.Model:
        builder = lw.ModelBuilder("two").add_body("trunk", mass=1.0).add_body("bracket", mass=1.0)
        builder.add_joint("held", lw.joints.Fixed(), parent="world", child="trunk")
        builder.add_joint("screwed", lw.joints.Fixed(), parent="trunk", child="bracket")
        builder.add_geometry("table", "box", (1.0, 1.0, 1.0), link="trunk")
        for name, parent in (("a", on), ("b", "bracket" if on == "trunk" else on)):
            builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
            builder.add_joint(f"hinge {name}", Revolute((0.0, 1.0, 0.0)), parent=parent, child=name)
            builder.add_geometry(f"ball {name}", "sphere", 0.1, link=name)
        return builder.build()

    assert names(hanging("trunk")) == ["ball a", "ball b"]
    assert names(hanging("world")) == ["ball a", "ball a-table", "ball b", "ball b-table", "ball a-ball b"]


def test_a_body_that_moves_only_along_a_plane_does_not_touch_the_plane() -> None:
    """A turntable and a slide on the floor; the arm on them does."""
    builder = lw.ModelBuilder("arm")
    parent = "world"
    kinds = {
        "table": Revolute((0.0, 0.0, -1.0)),
        "slide": lw.joints.Prismatic((1.0, 0.0, 0.0)),
        "arm": Revolute((0.0, 1.0, 0.0)),
    }
    for name, kind in kinds.items():
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1)).add_joint(
            f"to {name}", kind, parent=parent, child=name
        )
        builder.add_geometry(f"on {name}", "sphere", 0.1, link=name)
        parent = name
    model = builder.build()
    assert names(model) == ["on arm"]
    tilted = Geometry("slope", shape="plane", place=Pose.from_xyz_rpy(rpy=(0.2, 0.0, 0.0)))
    assert names(model, ground=tilted) == ["on table", "on slide", "on arm"]
    assert names(model, shapes=["table"]) == ["on table"]


def test_friction_is_the_larger_of_both_or_what_is_asked() -> None:
    model = leg(friction=(0.2, 0.01, 0.001), condim=4).build()
    rough = Contacts(ground=Geometry("rough", shape="plane", friction=(0.9,)), shapes="shank")
    (found,) = lw.contact_candidates(model, rough)
    assert (found.friction, found.dimension) == ((0.9, 0.01, 0.001), 4)
    (found,) = lw.contact_candidates(
        model, Contacts(shapes="shank", friction=0.5, rolling=0.02, restitution=0.3, margin=0.01)
    )
    assert (found.friction, found.dimension, found.restitution, found.margin) == (
        (0.5, 0.01, 0.02),
        6,
        0.3,
        0.01,
    )
    (found,) = lw.contact_candidates(leg().build(), Contacts(shapes="shank", friction=0.0))
    assert found.dimension == 1


def test_frames_are_points_and_geometries_are_put_where_their_link_is() -> None:
    model = leg().add_frame("heel", body="shank", place=Pose.translation(np.array([0.0, 0.0, -0.4]))).build()
    tip = Geometry("tip", shape="sphere", size=0.05, link="heel")
    gap, point, normal = lw.contact_points(
        model, np.array([*np.zeros(6), 1.0, 0.0, 0.0]), contacts=Contacts(shapes=["heel", tip])
    )
    np.testing.assert_allclose(gap, [-1.2, -1.25])
    np.testing.assert_allclose(point, [[0.0, 0.0, -1.2], [0.0, 0.0, -1.25]])
    np.testing.assert_allclose(normal, [[0.0, 0.0, 1.0]] * 2)


def test_kernels_are_found_by_shapes() -> None:
    """Models of one digest with other shapes have kernels of their own, and the same contacts in other words
    share one.
    """
    one = leg().build()
    other = leg(Geometry("more", shape="sphere", size=(0.2,), link="trunk")).build()
    q = np.array([*np.zeros(6), 1.0, 0.0, 0.0])
    assert one.digest == other.digest
    assert len(lw.contact_points(one, q, contacts=Contacts())[0]) + 1 == len(
        lw.contact_points(other, q, contacts=Contacts())[0]
    )
    kernels = {
        lw.contact_points.kernel(one, contacts=each)
        for each in (Contacts(), Contacts(pairs="none"), Contacts().on(one))
    }
    assert len(kernels) == 1
    identities = {
        lw.contact_points.identity(m, lw.contact_points.inputs(m, (), ()), {"contacts": Contacts().on(m)})
        for m in (one, other)
    }
    assert len(identities) == 2


WRONG = [
    ({"shapes": "shak"}, "no shape, link or frame named 'shak' (did you mean"),
    ({"shapes": 3}, "shapes: expected names"),
    ({"pairs": "some"}, "pairs: expected"),
    ({"pairs": [("trunk", "trunk ball")]}, "cannot move against each other"),
    ({"ground": "floor"}, "ground: expected"),
    ({"friction": -1.0}, "friction: expected a non-negative number"),
    ({"restitution": 1.5}, "restitution: expected a number from 0 to 1"),
    ({"stiffness": 0.0}, "stiffness: expected a number above zero"),
    ({"max_candidates": 2}, "expected at most 2 contact candidates, got 3 (3 of sphere on plane)"),
    ({"shapes": ["photo"]}, "shape 'photo': the mesh has no hull and can touch nothing: lw.with_hulls"),
    ({"shapes": ["flat"]}, "expected 3 numbers in `size`"),
    ({"shapes": ["words"]}, "expected 1 number in `size`"),
    (
        {"shapes": ["slick"]},
        "shape 'slick': friction: expected 1 to 3 non-negative numbers, got (-0.3,)",
    ),
    ({"shapes": ["five"]}, "shape 'five': condim: expected one of 1, 3, 4, 6, got 5"),
    (
        {"ground": Geometry("deck", shape="plane", link="trunk")},
        "ground= are shapes on the world, and 'deck' is on 'trunk'",
    ),
    (
        {"ground": Geometry("hills", shape="heightfield", size=(1.0, 1.0), heights=((0.0, 1.0), (0.0,)))},
        "heights: expected",
    ),
    (
        {"ground": Geometry("hills", shape="heightfield", size=(1.0, 1.0), heights=np.zeros((99, 99)))},
        "more than 4096 heights",
    ),
]


@pytest.mark.parametrize(("contacts", "told"), WRONG, ids=lambda x: str(x)[:30])
def test_what_is_wrong_is_said(contacts: dict[str, Any], told: str) -> None:
    odd = [
        Geometry("photo", shape="mesh", mesh="a.stl", link="trunk", contype=0, conaffinity=0),
        Geometry("flat", shape="box", size=(1.0, 2.0), link="trunk", contype=0, conaffinity=0),
        Geometry("can", shape="cylinder", size=(1.0, 2.0), link="shank", contype=0, conaffinity=0),
        Geometry("words", shape="sphere", size="big", link="trunk", contype=0, conaffinity=0),  # type: ignore[arg-type]
        Geometry(
            "slick", shape="sphere", size=(0.1,), link="trunk", contype=0, conaffinity=0, friction=(-0.3,)
        ),
        Geometry("five", shape="sphere", size=(0.1,), link="trunk", contype=0, conaffinity=0, condim=5),
    ]
    with pytest.raises(lw.ModelError) as error:
        lw.contact_points.kernel(leg(*odd).build(), contacts=Contacts(**contacts))
    assert told in str(error.value)


def test_what_a_name_means() -> None:
    """First shapes of that name, those that can collide before those that are only seen; then a link's; then
    a frame.
    """
    trunk = {"shape": "sphere", "link": "trunk"}
    model = (
        leg(Geometry("cap", size=(0.2,), collision=False, **trunk), Geometry("cap", size=(0.3,), **trunk),
            Geometry("badge", size=(0.4,), collision=False, **trunk), Geometry("badge", size=(0.5,), collision=False, **trunk))
        .add_frame("toe", body="shank", xyz=(0.0, 0.0, -0.3))
        .build()
    )  # fmt: skip

    def sizes(name: str | Geometry) -> list[tuple[float, ...]]:
        return [each.size for each in named_shapes(model, name)]

    assert sizes("cap") == [(0.3,)] and sizes("badge") == [(0.4,), (0.5,)]
    assert sizes("trunk") == [(0.1,), (0.3,)] and sizes("shank") == [(0.1,)]
    (toe,) = named_shapes(model, "toe")
    assert (toe.shape, toe.link, toe.body) == ("point", "toe", model.body("shank").index)
    assert np.array_equal(toe.place.p, [0.0, 0.0, -0.3])
    (own,) = named_shapes(
        model,
        Geometry("ball", shape="sphere", size=(0.6,), link="toe", place=Pose.translation((0.0, 0.1, 0.0))),
    )
    assert own.body == toe.body and np.array_equal(own.place.p, [0.0, 0.1, -0.3])
    assert named_shapes(model, Geometry("floor", shape="plane"))[0].body == -1
    with pytest.raises(lw.ModelError, match=r"no shape, link or frame named 'cup' \(did you mean 'cap'"):
        named_shapes(model, "cup")


def test_a_link_that_is_fixed_to_another_has_its_own_shapes() -> None:
    builder = leg()
    builder.add_body("foot", mass=0.1, inertia=(0.01, 0.01, 0.01))
    builder.add_joint("ankle", lw.joints.Fixed(), parent="shank", child="foot", xyz=(0.0, 0.0, -0.3))
    model = builder.add_geometry(Geometry("sole", shape="sphere", size=(0.05,), link="foot")).build()
    assert [each.name for each in named_shapes(model, "foot")] == ["sole"]
    assert [each.name for each in named_shapes(model, "shank")] == ["shank ball"]
    assert named_shapes(model, "sole")[0].body == model.body("shank").index


@pytest.mark.parametrize("stiffness", [0.0, -1.0, float("nan"), "1e3", True, None])
def test_stiffness_is_above_zero(stiffness: Any) -> None:
    with pytest.raises(lw.ModelError, match="Contacts: stiffness: expected"):
        Contacts(stiffness=stiffness)


def test_what_goes_with_stiffness() -> None:
    assert Contacts(stiffness=1e-3, damping=2.0).stiffness == 1e-3
    assert Contacts(stiffness=float("inf"), restitution=0.5).restitution == 0.5
    with pytest.raises(lw.ModelError, match="restitution is for rigid contacts"):
        Contacts(stiffness=1e3, restitution=0.5)
    with pytest.raises(lw.ModelError, match="damping is for compliant contacts"):
        Contacts(damping=1.0)


def test_nothing_to_touch_with_is_an_error_unless_nothing_is_meant() -> None:
    model = lw.robots.arm()
    with pytest.raises(lw.ModelError, match="has no shape that may touch the ground"):
        Contacts().on(model)
    assert Contacts(ground=None).on(model).resolved == ()


def test_frames_touch_where_a_model_has_no_shapes() -> None:
    builder = lw.ModelBuilder("stick").add_body("stick", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("free", lw.joints.Free(), parent="world", child="stick")
    model = builder.add_frame("end", body="stick", xyz=(0.0, 0.0, -0.1)).build()
    gap, point, _ = lw.contact_points(model, model.neutral(), contacts=Contacts(shapes=["end"]))
    assert gap == [-0.1] and np.array_equal(point, [[0.0, 0.0, -0.1]])
