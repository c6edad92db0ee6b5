"""SDF: the same mechanisms as in URDF, whatever frames their poses are given in; loops, nested models, gears
and includes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import LimitError, ModelError
from linkwork.joints import Free, Helical, Prismatic, Revolute, Spherical, Universal
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

INERTIA = "<ixx>0.03</ixx><iyy>0.04</iyy><izz>0.05</izz><ixy>0.001</ixy><ixz>0.002</ixz><iyz>-0.003</iyz>"
MOMENT = np.array([[0.03, 0.001, 0.002], [0.001, 0.04, -0.003], [0.002, -0.003, 0.05]])
CENTRE = Pose.from_xyz_rpy((0.1, 0.02, -0.03), (0.3, 0.1, 0.2))
A, B, C, D = (  # poses of links in the model, at zero
    Pose.from_xyz_rpy((0.1, 0.2, 0.3), (0.1, 0.2, 0.3)),
    Pose.from_xyz_rpy((0.5, -0.2, 0.4), (0.4, -0.2, 1.3)),
    Pose.from_xyz_rpy((0.9, 0.1, 0.2), (-0.4, 0.7, 0.3)),
    Pose.from_xyz_rpy((-0.3, 0.4, 0.1), (1.0, 0.2, -0.3)),
)


def text(pose: Pose) -> str:
    """A pose as SDF writes it: with a quaternion, so that no digits are lost."""
    q = np.array(lw.spatial.rotation.of_matrix(np.asarray(pose.R, dtype=float)), dtype=float)
    return " ".join(repr(float(x)) for x in (*pose.p, *q))


def pose(pose: Pose, relative_to: str = "") -> str:
    return f'<pose rotation_format="quat_xyzw" relative_to="{relative_to}">{text(pose)}</pose>'


def link(name: str, where: str) -> str:
    return f'<link name="{name}">{where}<inertial>{pose(CENTRE)}<mass>2</mass><inertia>{INERTIA}</inertia></inertial></link>'


def joint(
    name: str, kind: str, parent: str, child: str, inside: str = "<axis><xyz>0 0 1</xyz></axis>"
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{inside}</joint>'
    )


def model(*parts: str, name: str = "robot", version: str = "1.9") -> str:
    return f'<sdf version="{version}"><model name="{name}">{"".join(parts)}</model></sdf>'


def body(b: ModelBuilder, name: str) -> None:
    b.add_body(name, mass=2.0, center=CENTRE.p, inertia=CENTRE.R @ MOMENT @ CENTRE.R.T)


LINKS = (link("a", pose(A)), link("b", pose(B)), link("c", pose(C)))
J = Pose.from_xyz_rpy((0.05, 0.06, 0.07), (0.2, 0.3, 0.4))  # of the second joint, in b
AXIS = np.array([0.2, -0.4, 0.6])
AXIS_TEXT = "<xyz>0.2 -0.4 0.6</xyz>"
REST = "<limit><lower>-1</lower><upper>2</upper><effort>5</effort></limit>"
SPRING = (
    "<dynamics><damping>0.3</damping><spring_stiffness>4</spring_stiffness>"
    "<spring_reference>0.2</spring_reference></dynamics>"
)
CHAIN = (
    *LINKS,
    joint("fast", "fixed", "world", "a"),
    joint("one", "revolute", "a", "b", f"{pose(J)}<axis>{AXIS_TEXT}{REST}{SPRING}</axis>"),
    joint("two", "prismatic", "b", "c", f"<axis>{AXIS_TEXT}</axis>"),
)


def chain() -> Model:
    """The same by hand: joint frames where they are, and links held fast on what they move."""
    b = ModelBuilder("robot")
    for name in "abc":
        body(b, name)
    b.add_body("carrier")
    b.add_joint("fast", lw.joints.Fixed(), parent="world", child="a", place=A)
    at = B.then(J)
    b.add_joint("one", Revolute(tuple(AXIS)), parent="a", child="carrier", place=A.inverse().then(at), damping=0.3, stiffness=4,
                rest=0.2)  # fmt: skip
    b.add_joint("hold", lw.joints.Fixed(), parent="carrier", child="b", place=J.inverse())
    b.add_joint("two", Prismatic(tuple(AXIS)), parent="b", child="c", place=B.inverse().then(C))
    return b.build()


def same(one: Model, two: Model, links: str = "abc") -> None:
    """Both have the same poses of links and the same dynamics in the same coordinates."""
    assert [j.name for j in one.joints] == [j.name for j in two.joints] and one.nq == two.nq
    q, v = two.random_state(4)
    tau = np.random.default_rng(1).normal(size=two.nv)
    for name in links:
        assert np.allclose(
            lw.frame_pose(one, q, frame=name), lw.frame_pose(two, q, frame=name), atol=1e-12
        ), name
    for function in (lw.forward_dynamics, lw.inverse_dynamics):
        assert np.allclose(function(one, q, v, tau), function(two, q, v, tau), atol=1e-10, rtol=1e-10)


def test_a_chain_equals_one_built_in_python() -> None:
    found = lw.load(model(*CHAIN))
    same(found, chain())
    one = found.joint("one")
    assert (one.lower, one.upper, one.max_effort, one.damping, one.rest) == (
        (-1.0,),
        (2.0,),
        (5.0,),
        (0.3,),
        (0.2,),
    )


RELATIVE: dict[str, Callable[[], tuple[str, ...]]] = {
    "links to links": lambda: (
        link("a", pose(A)),
        link("c", pose(B.inverse().then(C), "b")),  # b comes later
        link("b", pose(A.inverse().then(B), "a")),
        *CHAIN[3:],
    ),
    "frames": lambda: (
        f'<frame name="f" attached_to="a">{pose(J)}</frame><frame name="g" attached_to="f"/>',
        link("a", pose(A)),
        link("b", pose(A.then(J).inverse().then(B), "g")),
        link("c", pose(C, "__model__")),
        *CHAIN[3:],
    ),
    "joints to frames": lambda: (
        *LINKS,
        f'<frame name="f">{pose(B.then(J))}</frame>',
        CHAIN[3],
        joint("one", "revolute", "a", "b", f'<pose relative_to="f"/><axis>{AXIS_TEXT}{REST}{SPRING}</axis>'),
        CHAIN[5],
    ),
    "expressed in": lambda: (
        *LINKS,
        *CHAIN[3:5],
        joint(
            "two",
            "prismatic",
            "b",
            "c",
            '<axis><xyz expressed_in="b">{} {} {}</xyz></axis>'.format(*(B.R.T @ C.R @ AXIS)),
        ),
    ),
    "frames as ends": lambda: (
        *LINKS,
        '<frame name="on_a" attached_to="a"/><frame name="on_b" attached_to="b"/>',
        CHAIN[3],
        joint("one", "revolute", "on_a", "on_b", f"{pose(J)}<axis>{AXIS_TEXT}{REST}{SPRING}</axis>"),
        CHAIN[5],
    ),
}


@pytest.mark.parametrize("way", RELATIVE)
def test_poses_in_any_frame(way: str) -> None:
    same(lw.load(model(*RELATIVE[way]())), chain())


def test_a_nested_model_is_the_same() -> None:
    M = Pose.from_xyz_rpy((0.3, -0.1, 0.2), (0.5, 0.6, 0.7))
    inner = (link("b", pose(M.inverse().then(B))), link("c", pose(M.inverse().then(C))), CHAIN[5])
    nested = f'<model name="inner">{pose(M)}{"".join(inner)}</model>'
    outer = lw.load(model(LINKS[0], nested, CHAIN[3], CHAIN[4].replace("<child>b<", "<child>inner::b<")))
    assert {"inner::b", "inner::c"} <= {frame.name for frame in outer.frames}
    assert [j.name for j in outer.joints] == ["one", "inner::two"]
    by_hand = chain()
    q, v = by_hand.random_state(2)
    assert np.allclose(
        lw.forward_dynamics(outer, q, v, 0 * v), lw.forward_dynamics(by_hand, q, v, 0 * v), atol=1e-10
    )
    placed = nested.replace('<model name="inner"', '<model name="inner" placement_frame="b"').replace(
        pose(M), pose(B), 1
    )
    same_place = lw.load(model(LINKS[0], placed, CHAIN[3], CHAIN[4].replace("<child>b<", "<child>inner::b<")))
    assert np.allclose(
        lw.frame_pose(same_place, q, frame="inner::c"), lw.frame_pose(outer, q, frame="inner::c"), atol=1e-12
    )


def test_a_world_of_models() -> None:
    one = f'<model name="one">{pose(A)}{link("a", "")}</model>'
    two = f'<model name="two"><static>true</static>{link("a", "")}</model>'
    world = f'<sdf version="1.9"><world name="w"><gravity>0 0 -3</gravity>{one}{two}</world></sdf>'
    found = lw.load(world)
    assert found.gravity == (0.0, 0.0, -3.0) and found.nv == 6 and isinstance(found.joints[0].kind, Free)
    assert np.allclose(lw.frame_pose(found, found.neutral(), frame="one::a"), A.matrix(), atol=1e-12)
    assert found.frame("two::a").body == -1
    assert lw.load(world, base="fixed").nv == 0


KINDS = {
    "ball": ("", Spherical()),
    "universal": ("<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>", Universal()),
    "screw": (
        "<axis><xyz>0 0 1</xyz></axis><screw_thread_pitch>0.5</screw_thread_pitch>",
        Helical(0.5 / (2 * np.pi)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_joints(kind: str) -> None:
    inside, here = KINDS[kind]
    found = lw.load(model(LINKS[0], LINKS[1], CHAIN[3], joint("one", kind, "a", "b", inside)))
    b = ModelBuilder("robot")
    for name in "ab":
        body(b, name)
    b.add_joint("fast", lw.joints.Fixed(), parent="world", child="a", place=A)
    b.add_joint("one", here, parent="a", child="b", place=A.inverse().then(B))
    same(found, b.build(), "ab")


def test_two_hinges_in_one_joint() -> None:
    inside = "<axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"
    found = lw.load(model(LINKS[0], LINKS[1], CHAIN[3], joint("one", "revolute2", "a", "b", inside)))
    assert [j.name for j in found.joints] == ["one_1", "one_2"]
    q = np.array([0.3, -0.7])
    here = A.then(A.inverse().then(B)).then(Pose.rotation_about(2, q[0])).then(Pose.rotation_about(1, q[1]))
    assert np.allclose(lw.frame_pose(found, q, frame="b"), here.matrix().astype(float), atol=1e-12)


# loops


def bars(close: str, version: str = "1.9") -> str:
    """A four-bar in the plane: the last joint closes it."""
    at = {"a": "0 0 0 0 0 0", "b": "0 0.3 0 0 0 0", "c": "0.6 0 0 0 0 0.2"}
    parts = [link(name, f"<pose>{where}</pose>") for name, where in at.items()]
    parts += [
        joint("ja", "revolute", "world", "a"),
        joint("jb", "revolute", "a", "b"),
        joint("jc", "revolute", "world", "c"),
    ]
    return model(*parts, close, version=version)


def test_a_joint_too_many_closes_a_loop() -> None:
    found = lw.load(
        bars(joint("pin", "revolute", "b", "c", "<pose>0.1 0.4 0 0 0 0</pose><axis><xyz>0 0 1</xyz></axis>"))
    )
    assert found.nv == 1 and [loop.name for loop in found.loops] == ["pin"]
    q, _ = found.random_state(2)
    where = C0.then(Pose.translation([0.1, 0.4, 0.0]))
    one = lw.frame_pose(found, q, frame="b") @ np.linalg.inv(B0.matrix()) @ where.matrix()
    two = lw.frame_pose(found, q, frame="c") @ np.linalg.inv(C0.matrix()) @ where.matrix()
    assert np.allclose(one[:3, 3], two[:3, 3], atol=1e-12)


B0 = Pose.translation([0.0, 0.3, 0.0])
C0 = Pose.from_xyz_rpy((0.6, 0.0, 0.0), (0.0, 0.0, 0.2))


def test_a_link_that_is_only_a_parent_is_taken_backwards() -> None:
    """b hangs on nothing: the joint that it holds c by is taken the other way round, with the same
    coordinate.
    """
    parts = (*LINKS, CHAIN[3], joint("one", "revolute", "a", "c"), joint("two", "revolute", "b", "c"))
    found = lw.load(model(*parts))
    assert [j.name for j in found.joints] == ["one", "two"] and not found.loops
    q = np.array([0.4, 0.9])
    b, c = (lw.frame_pose(found, q, frame=name) for name in "bc")
    moved = (
        np.linalg.inv(b @ np.linalg.inv(B.matrix()) @ C.matrix()) @ c
    )  # of the joint's child, seen from its parent
    assert np.allclose(moved, Pose.rotation_about(2, 0.9).matrix().astype(float), atol=1e-12)


def test_gears_and_mimics() -> None:
    gear = (
        '<joint name="gear" type="gearbox"><parent>a</parent><child>c</child><gearbox_ratio>3</gearbox_ratio>'
    )
    gear += "<gearbox_reference_body>world</gearbox_reference_body></joint>"
    found = lw.load(bars(gear))
    q, _ = found.random_state(1)
    assert found.nv == 2 and np.isclose(3 * q[found.joint("ja").q_start] + q[found.joint("jc").q_start], 0.0)
    follow = '<axis><xyz>0 0 1</xyz><mimic joint="ja"><multiplier>2</multiplier><offset>0.1</offset></mimic></axis>'
    found = lw.load(
        bars("").replace(joint("jc", "revolute", "world", "c"), joint("jc", "revolute", "world", "c", follow))
    )
    q, _ = found.random_state(1)
    assert np.isclose(q[found.joint("jc").q_start], 2 * q[found.joint("ja").q_start] + 0.1)


# files and faults


def test_includes_stay_inside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "robot" / "arm").mkdir(parents=True)
    (tmp_path / "robot" / "arm" / "model.sdf").write_text(model(LINKS[1], name="arm"))
    (tmp_path / "secret.sdf").write_text(model(LINKS[1], name="arm"))
    include = f"<include><uri>{{}}</uri><name>limb</name>{pose(D)}</include>"
    main = tmp_path / "robot" / "robot.sdf"
    main.write_text(model(LINKS[0], include.format("model://arm"), joint("one", "ball", "a", "limb::b", "")))
    found = lw.load(main, base="fixed")
    assert found.nv == 3
    assert np.allclose(lw.frame_pose(found, found.neutral(), frame="limb::b"), D.then(B).matrix(), atol=1e-12)
    for uri in ("../secret.sdf", str(tmp_path / "secret.sdf"), "https://example.org/arm", "model://nothing"):
        main.write_text(model(LINKS[0], include.format(uri)))
        with pytest.raises(ModelError, match=r"robot.sdf:1: <include>"):
            lw.load(main)
    main.write_text(model(LINKS[0], include.format("robot.sdf")))
    with pytest.raises(ModelError, match="includes itself"):
        lw.load(main)


AXES = "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"
FAULTS = {
    "no model": ('<sdf version="1.9"/>', "no <model> or <world>"),
    "two models": ('<sdf><model name="a"/><model name="b"/></sdf>', '<model name="b">: second model or world; the first'),
    "no links": (model(), "no <link>: a model needs at least one"),
    "version": (model(*LINKS, version="new"), "version: expected one such as 1.9, got 'new'"),
    "same name": (model(LINKS[0], LINKS[0]), '<link name="a">: duplicate name; the first is a <link> in line 1'),
    "reserved": (model(link("__model__", "")), "reserved"),
    "relative to itself": (model(link("a", pose(A, "b")), link("b", pose(A, "a"))), "relative to itself"),
    "relative to nothing": (model(link("a", pose(A, "bb"))), '<link name="a">: no link or frame named \'bb\''),
    "attached to itself": (model(LINKS[0], '<frame name="f" attached_to="g"/><frame name="g" attached_to="f"/>'), "itself"),
    "no parent": (model(*LINKS, joint("j", "ball", "z", "b")), '<joint name="j">: no link or frame named \'z\''),
    "child world": (model(*LINKS, joint("j", "ball", "b", "world")), "the world can only be the parent of a joint"),
    "to itself": (model(*LINKS, joint("j", "ball", "b", "b")), "parent and child are the same link 'b'; expected two links"),
    "no such type": (model(*LINKS, joint("j", "hinge", "a", "b")), "unknown joint type 'hinge'; expected one of revolute,"),
    "no axis": (model(*LINKS, joint("j", "revolute", "a", "b", "")), "missing element <axis>"),
    "axis of no length": (model(*LINKS, joint("j", "revolute", "a", "b", "<axis><xyz>0 0 0</xyz></axis>")), "nonzero vector"),
    "limits": (model(*LINKS, joint("j", "revolute", "a", "b", "<axis><limit><lower>2</lower><upper>1</upper></limit></axis>")),
               "limit: expected lower <= upper, got 2 > 1"),
    "skew universal": (model(*LINKS, joint("j", "universal", "a", "b", AXES.replace("0 1 0", "0.01 1 0"))),
                       "universal joint: expected perpendicular axes"),
    "mass": (model(LINKS[0].replace("<mass>2", "<mass>-2")), "mass: expected a non-negative number [kg], got -2"),
    "number": (model(LINKS[0].replace("<mass>2", "<mass>two")), "'two' is not a finite decimal number"),
    "pose": (model(link("a", "<pose>1 2 3</pose>")), "'1 2 3': expected 6 numbers, got 3"),
    "quaternion": (model(link("a", '<pose rotation_format="quat_xyzw">0 0 0 0 0 0 0</pose>')), "expected a nonzero one"),
    "entity": ('<!DOCTYPE a [<!ENTITY b "c">]>' + model(*LINKS), "document type"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told(fault: str) -> None:
    sdf, words = FAULTS[fault]
    with pytest.raises(ModelError) as told:
        lw.load(sdf)
    assert words in str(told.value) and str(told.value).startswith("<text>:1")


def test_limits() -> None:
    with pytest.raises(LimitError, match="more than 2 links"):
        lw.load(model(*LINKS), limits=lw.Limits(links=2))
    assert len(lw.load(model(*LINKS), limits=lw.Limits(links=3)).bodies) == 3  # as many as there may be
    joints = [joint("j", "fixed", "a", "b"), joint("k", "fixed", "b", "c")]
    assert lw.load(model(*LINKS, *joints), limits=lw.Limits(links=3)).mass == 6.0
    for depth, fits in ((20, True), (21, False), (30, False)):
        deep = "".join(f'<model name="m{k}">' for k in range(depth)) + LINKS[0] + "</model>" * depth
        if fits:
            assert lw.load(model(deep)).mass == 2.0
            continue
        with pytest.raises(ModelError, match="nested deeper than the limit of 20"):
            lw.load(model(deep))


def test_meshes() -> None:
    """A mesh is the file that its uri names, as it is or scaled, in the frame of its element."""
    inside = "<geometry><mesh><uri>model://parts/hand.stl</uri>{}</mesh></geometry>"
    visual = f'<visual name="seen">{pose(J)}{inside.format("<scale>1 2 -3</scale>")}</visual>'
    collision = f'<collision name="solid">{inside.format("")}</collision>'
    text = link("a", pose(A)).replace("</link>", f"{visual}{collision}</link>")
    seen, solid = lw.load(model(text)).geometries
    assert (seen.name, seen.shape, seen.scale, seen.collision) == ("a::seen", "mesh", (1.0, 2.0, -3.0), False)
    assert (solid.name, solid.shape, solid.scale, solid.collision) == (
        "a::solid",
        "mesh",
        (1.0, 1.0, 1.0),
        True,
    )
    assert seen.mesh.endswith("parts/hand.stl") and seen.mesh == solid.mesh and seen.size == ()
    np.testing.assert_allclose(seen.place.matrix(), J.matrix(), atol=1e-15)
    with pytest.raises(ModelError, match="uri"):
        lw.load(model(text.replace("<uri>model://parts/hand.stl</uri>", "")))


def test_axes_of_universal_joints_with_few_digits() -> None:
    """They are at right angles to the digits that are written."""
    axes = "<axis><xyz>-0.2035 0.6062 0.4136</xyz></axis><axis2><xyz>-0.7960 -0.5000 0.3411</xyz></axis2>"
    found = lw.load(model(*LINKS, joint("j", "universal", "a", "b", axes)))
    assert found.joint("j").kind == Universal()
