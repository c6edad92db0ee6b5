"""Loops in the words of other programs: the same models as in URDF+'s, and what cannot be read is told with
its line.
"""

from __future__ import annotations

import numpy as np
import pytest

import linkwork as lw
from linkages import floats
from linkwork.errors import ModelError
from linkwork.formats import urdf
from linkwork.joints import Spherical, Universal
from linkwork.mechanism.couplings import Coupling
from linkwork.mechanism.loops import Loop
from linkwork.model import GROUND, Model

BODY = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
)
HEAD = f"""<robot name="four-bar">
<link name="base"/>
<link name="a">{BODY}
<link name="b">{BODY}
<link name="c">{BODY}
<joint name="ja" type="continuous"><parent link="base"/><child link="a"/><origin xyz="0 0.2 0"/><axis xyz="0 0 1"/></joint>
<joint name="jb" type="continuous"><parent link="a"/><child link="b"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint>
<joint name="jc" type="continuous"><parent link="base"/><child link="c"/><origin xyz="1.5 0 0" rpy="0 0 1.5"/>
<axis xyz="0 0 -1"/></joint>
"""
AXIS = "<axis><xyz>0 0 1</xyz></axis>"
RATIO = "<gearbox_ratio>3</gearbox_ratio>"
REFERENCE = "<gearbox_reference_body>base</gearbox_reference_body>"
C = np.array(
    [1.5 + np.cos(1.5), np.sin(1.5), 0.0]
)  # where c's end is with all joints at zero; b begins at (1, 0.2, 0)


def robot(*parts: str) -> str:
    return HEAD + "\n".join(parts) + "\n</robot>"


def plus(x: str, kind: str = "revolute", axis: str = "0 0 1", turned: float = 1.5) -> Model:
    """URDF+'s words: from b at a place to c's end."""
    return urdf.read(
        robot(
            f'<loop name="pin" type="{kind}"><predecessor link="b"><origin xyz="{x}" rpy="0 0 {turned}"/></predecessor>',
            f'<successor link="c"><origin xyz="1 0 0"/></successor><axis xyz="{axis}"/></loop>',
        )
    )


def sdf(inside: str, kind: str = "revolute", parent: str = "b", child: str = "c", after: str = "") -> str:
    ends = f"<parent>{parent}</parent>\n<child>{child}</child>"
    return robot(f'<gazebo>\n<joint name="pin" type="{kind}">\n{ends}\n{inside}\n</joint>\n</gazebo>{after}')


def loop_of(m: Model) -> Loop:
    (loop,) = m.embedded
    assert isinstance(loop, Loop)
    return loop


def same(m: Model, n: Model) -> bool:
    a = loop_of(m)
    b = loop_of(n)
    places = [(x.place, y.place) for x, y in ((a.predecessor, b.predecessor), (a.successor, b.successor))]
    close = all(np.allclose(x.R, y.R, atol=1e-12) and np.allclose(x.p, y.p, atol=1e-12) for x, y in places)
    bodies = (a.predecessor.body, a.successor.body) == (b.predecessor.body, b.successor.body)
    axes = [getattr(x.kind, "axis", (0, 0, 0)) for x in (a, b)]
    return (
        close
        and bodies
        and a.name == b.name
        and type(a.kind) is type(b.kind)
        and np.allclose(*axes, atol=1e-12)
    )


AT_ZERO = " ".join(map(str, C - [1, 0.2, 0]))


@pytest.mark.parametrize(
    "inside",
    [
        "<pose>1 0 0 0 0 0</pose><axis><xyz>0 0 1</xyz></axis>",
        "<pose> 1 0 0\n0 0 0 </pose><axis><xyz>0 0 2</xyz><limit><lower>-1</lower></limit></axis><physics><ode/></physics>",
        '<pose relative_to="c">1 0 0 0 0 0</pose><axis><xyz expressed_in="b">0 0 1</xyz></axis>',
        f'<pose relative_to="b">{AT_ZERO} 0 0 1.5</pose><axis><xyz>0 0 1</xyz></axis>',
        f'<pose relative_to="__model__">{" ".join(map(str, C))} 0 0 1.5</pose>'
        "<axis><xyz>0 0 1</xyz><use_parent_model_frame>1</use_parent_model_frame></axis>",
    ],
)
def test_a_joint_for_gazebo_closes_the_loop_where_all_joints_are_at_zero(inside: str) -> None:
    m = urdf.read(sdf(inside))
    assert same(m, plus(AT_ZERO)) and m.nv == 1
    q, left = floats(lw.close_loops, m, np.zeros(3))
    assert left < 1e-15 and np.abs(q).max() < 1e-15
    assert any("<limit> in a joint that closes a loop is not supported" in note for note in m.notes) == (
        "<limit>" in inside
    )


@pytest.mark.parametrize(
    "axis",
    ['<xyz expressed_in="b">1 0 0</xyz>', "<xyz>1 0 0</xyz><use_parent_model_frame>true</use_parent_model_frame>",
     f"<xyz>{np.cos(1.5)} {-np.sin(1.5)} 0</xyz>"],
)  # fmt: skip
def test_axes_for_gazebo_are_in_the_joint_or_where_they_say(axis: str) -> None:
    """A slot along b, while the joint's frame is turned with c."""
    free = HEAD.replace('name="jb" type="continuous"', 'name="jb" type="floating"')  # or it could not move
    m = urdf.read(sdf(f"<pose>1 0 0 0 0 0</pose><axis>{axis}</axis>", "prismatic").replace(HEAD, free))
    loop = loop_of(m)
    assert np.allclose(loop.predecessor.place.R @ loop.kind.axis, [1, 0, 0])  # type: ignore[attr-defined]


def test_other_kinds_for_gazebo() -> None:
    pose = "<pose>1 0 0 0 0 0</pose>"
    ball = urdf.read(sdf(pose, "ball"))
    assert isinstance(loop_of(ball).kind, Spherical) and ball.nv == 1
    axes = "<axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"
    cross = loop_of(urdf.read(sdf(pose + axes, "universal")))
    assert isinstance(cross.kind, Universal)
    assert np.allclose(cross.successor.place.R[:, :2].T, [[0, 0, 1], [0, 1, 0]])  # x and y of its frame in c
    world = urdf.read(sdf("<axis><xyz>0 0 1</xyz></axis>", parent="world", child="b"))
    loop = loop_of(world)
    assert loop.predecessor.body == GROUND and np.allclose(loop.predecessor.place.p, [1, 0.2, 0])


def test_gazebo_may_hold_the_root_in_the_world() -> None:
    text = sdf("", "fixed", "world", "base")
    fixed = urdf.read(text)
    free = urdf.read(text, base="free")
    assert not fixed.embedded and not free.embedded and fixed.notes == ()
    assert any("a joint to the world is ignored, since base='free' is given" in note for note in free.notes)


@pytest.mark.parametrize(
    ("axis2", "sign"),
    [("<axis2><xyz>0 0 -1</xyz></axis2>", 1.0), ("<axis2><xyz>0 0 1</xyz></axis2>", -1.0), ("", -1.0)],
)
def test_a_gearbox_for_gazebo(axis2: str, sign: float) -> None:
    """θ₂ = -3 θ₁ about axes that are named; c's own hinge turns about -z."""
    m = urdf.read(sdf(f"{RATIO}{REFERENCE}{AXIS}{axis2}", "gearbox", "a", "c"))
    assert isinstance(m.embedded[0], Coupling) and m.nv == 2
    q, v = m.random_state(0)
    a, _, c = floats(lw.spanning_velocity, m, q, v)
    turning_c = -c  # about z
    assert np.isclose(turning_c * (-1.0 if sign > 0 else 1.0), -3.0 * a)


def loop_joint(
    first: str = "link1", second: str = "link2", inside: str = '<axis xyz="0 0 1"/>', kind: str = "revolute"
) -> str:
    return robot(
        f'<loop_joint name="pin" type="{kind}">',
        f'<{first} link="b" xyz="0.9 0 0" rpy="0 0 1.5"/>',
        f'<{second} link="c" xyz="1 0 0" rpy="0 0 0"/>',
        f"{inside}</loop_joint>",
    )


def test_loop_joints_of_isaac_sim() -> None:
    assert same(urdf.read(loop_joint()), plus("0.9 0 0"))
    assert same(urdf.read(loop_joint(second="link1")), plus("0.9 0 0"))  # as its manual writes
    ball = urdf.read(loop_joint(inside="", kind="spherical"))
    assert isinstance(loop_of(ball).kind, Spherical) and ball.nv == 1 and ball.notes == ()


def ball(words: str = "") -> str:
    parts = {"body_A": 'name="b"', "body_B": 'name="c"', "p_AP": 'value="0.9 0 0"', "p_BQ": 'value="1 0 0"'}
    inside = "".join(f"<drake:ball_constraint_{tag} {said}/>\n" for tag, said in parts.items())
    return robot(f"<drake:ball_constraint>\n{inside}</drake:ball_constraint>{words}")


def test_ball_constraints_of_drake() -> None:
    m = urdf.read(ball())
    loop = loop_of(m)
    assert (loop.name, loop.kind, m.nv) == ("b on c", Spherical(), 1) and m.notes == ()
    assert np.allclose(loop.predecessor.place.p, [0.9, 0, 0]) and np.allclose(
        loop.successor.place.p, [1, 0, 0]
    )
    twice = urdf.read(ball(ball()[len(HEAD) : -len("\n</robot>")]))
    assert [c.name for c in twice.embedded] == ["b on c", "b on c (line 15)"] and twice.nv == 1


def test_old_words_and_plugins_are_told() -> None:
    old = '<gazebo><joint:hinge name="x"><body1>a</body1></joint:hinge></gazebo>'
    plugin = '<gazebo><plugin name="p"><joint>ja</joint><mimicJoint>jc</mimicJoint></plugin></gazebo>'
    m = urdf.read(robot(old, plugin, "<drake:linear_spring_damper/>"))
    for words in (
        "<joint:hinge> in <gazebo> is unknown",
        "use <mimic>: joint 'jc'",
        "<drake:linear_spring_damper> in <robot>",
    ):
        assert any(words in note for note in m.notes), m.notes
    followed = HEAD.replace('<axis xyz="0 0 -1"/></joint>', '<axis xyz="0 0 -1"/><mimic joint="ja"/></joint>')
    assert urdf.read(followed + plugin + "</robot>").notes == ()


BROKEN: dict[str, tuple[str, int, str]] = {
    "constraint": (robot('<constraint name="x" type="gear"/>'), 10, "unsupported element that appears to constrain links:"),
    "closure": (robot("<loop_closure/>"), 10, "write it as <loop> or <coupling>"),
    "drake's others": (robot("<drake:distance_constraint/>"), 10, "unsupported element that appears to constrain links:"),
    "no parent": (sdf(AXIS).replace("<parent>b</parent>", ""), 11, "missing element <parent>"),
    "empty parent": (sdf(AXIS, parent=" "), 12, "empty element: expected text"),
    "two parents": (sdf(AXIS + "\n<parent>a</parent>"), 15, "duplicate element: expected one, the first is in line 12"),
    "unknown child": (sdf(AXIS, child="cc"), 13, "no link named 'cc' (did you mean 'c'?)"),
    "itself": (sdf(AXIS, parent="c"), 11, "predecessor and successor are the same link 'c'; expected two links"),
    "no type": (sdf(AXIS).replace(' type="revolute"', ""), 11, "missing attribute type"),
    "no name": (sdf(AXIS).replace('name="pin" ', ""), 11, "missing attribute name"),
    "long name": (sdf(AXIS).replace('"pin"', f'"{"x" * 1001}"'), 11, "longer than 1000"),
    "a screw": (sdf(AXIS, "screw"), 11, "unknown type 'screw' of a loop joint; expected one of revolute,"),
    "no axis": (sdf(""), 11, "missing element <axis>"),
    "no direction": (sdf("<axis><xyz>0 0 0</xyz></axis>"), 14, "axis: expected a nonzero vector such as 0 0 1"),
    "half a pose": (sdf(f"<pose>1 0 0</pose>{AXIS}"), 14, "'1 0 0': expected 6 numbers, got 3"),
    "a pose of words": (sdf(f"<pose>1 0 0 0 0 x</pose>{AXIS}"), 14, "'x' is not a finite decimal number"),
    "a far pose": (sdf(f"<pose>1e31 0 0 0 0 0</pose>{AXIS}"), 14, "'1e31 0 0 0 0 0': too large; expected at most 1e+30"),
    "degrees": (sdf(f'<pose degrees="true">1 0 0 0 0 90</pose>{AXIS}'), 14, "degrees and quaternions are not supported;"),
    "relative to nothing": (sdf(f'<pose relative_to="x"/>{AXIS}'), 14, "relative_to: no link named 'x'"),
    "expressed in nothing": (sdf('<axis><xyz expressed_in="x">1 0 0</xyz></axis>'), 14, "expressed_in: no link named 'x'"),
    "one axis": (sdf(AXIS, "universal"), 11, "missing element <axis2>"),
    "same axes": (sdf(AXIS + AXIS.replace("axis>", "axis2>"), "universal"), 11, "universal joint: expected perpendicular axes"),
    "rigid": (sdf("", "fixed"), 11, "no degree of freedom"),
    "same name": (sdf(f"<pose>1 0 0 0 0 0</pose>{AXIS}", after=sdf(AXIS)[len(HEAD) : -9]), 17, "already taken"),
    "no ratio": (sdf(AXIS + REFERENCE, "gearbox", "a"), 11, "missing element <gearbox_ratio>"),
    "no reference": (sdf(AXIS + RATIO, "gearbox", "a"), 11, "missing element <gearbox_reference_body>"),
    "two hinges": (sdf(AXIS + RATIO + REFERENCE, "gearbox", "b"), 11, "each connected to 'base' by"),
    "beside": (sdf(AXIS + RATIO + REFERENCE.replace("base", "b"), "gearbox", "a"), 11, "each connected to 'b' by"),
    "other axis": (sdf(AXIS.replace("0 0 1", "1 0 0") + RATIO + REFERENCE, "gearbox", "a"), 11, "the axis of joint 'ja'"),
    "one link": (loop_joint().replace("<link2", "<link3"), 10, "expected <link1> and <link2>, got 1 elements"),
    "unknown link1": (loop_joint().replace('link1 link="b"', 'link1 link="bb"'), 11, "no link named 'bb' (did you mean 'b'?)"),
    "unknown type": (loop_joint(kind="hinge"), 10, "unknown joint type 'hinge'; expected one of revolute, continuous,"),
    "no body": (ball().replace('B name="c"', "B"), 12, "missing attribute name"),
    "no point": (ball().replace('value="1 0 0"', 'value="1 0"'), 14, "value=\"1 0\": expected 3 numbers, got 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_files_are_told_with_their_line(name: str) -> None:
    text, line, words = BROKEN[name]
    with pytest.raises(ModelError) as told:
        urdf.read(text, source="robot.urdf")
    assert str(told.value).startswith(f"robot.urdf:{line}:") and words in str(told.value), str(told.value)


def test_long_texts_are_cut() -> None:
    m = urdf.read(robot(f"<gazebo><plugin>{'x ' * 200_000}</plugin></gazebo>"))
    assert m.nv == 3 and m.notes == ()
