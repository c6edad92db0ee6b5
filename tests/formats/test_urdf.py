"""URDF: what is read from good files, what is said of broken ones, and that hostile ones do no harm."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from linkwork.errors import ModelError
from linkwork.formats import load, urdf, xml
from linkwork.joints import Fixed, Free, Planar, Prismatic, Revolute
from linkwork.model import GROUND, Limits, Model

GOOD = """<robot name="r">
<link name="a"/>
<link name="b">
<inertial>
<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/>
<mass value="2"/>
<inertia ixx="0.03" ixy="0.001" ixz="0.002" iyy="0.04" iyz="0.003" izz="0.05"/>
</inertial>
</link>
<joint name="j" type="revolute">
<origin xyz="1 2 3" rpy="0.3 0.2 0.1"/>
<parent link="a"/>
<child link="b"/>
<axis xyz="0 0 2"/>
<limit lower="-1" upper="2" effort="3" velocity="4"/>
<dynamics damping="0.5" friction="0.25"/>
</joint>
</robot>
"""
BODY = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def link(name: str, inside: str = BODY) -> str:
    return f'<link name="{name}">{inside}</link>\n'


def joint(name: str, type_: str, parent: str, child: str, inside: str = "") -> str:
    return f'<joint name="{name}" type="{type_}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>\n'


def robot(*parts: str) -> str:
    return '<robot name="r">\n' + "".join(parts) + "</robot>"


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1, f"{old!r} must stand once in the text"
    return text.replace(old, new)


def turned(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Roll about x, then pitch about y, then yaw about z, all fixed axes: written out, not taken from the
    library.
    """
    (a, b, c), (x, y, z) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    Rx = np.array([[1, 0, 0], [0, a, -x], [0, x, a]])
    Ry = np.array([[b, 0, y], [0, 1, 0], [-y, 0, b]])
    Rz = np.array([[c, -z, 0], [z, c, 0], [0, 0, 1]])
    return Rz @ Ry @ Rx


def noted(model: Model, *words: str) -> bool:
    return any(all(word in note for word in words) for note in model.notes)


# good files


def test_everything_that_a_joint_and_a_link_say_is_read() -> None:
    m = urdf.read(GOOD, gravity=(0, 1, 2))
    assert (m.name, m.nq, m.nv, m.gravity) == ("r", 1, 1, (0.0, 1.0, 2.0))
    j = m.joint("j")
    b = m.body("b")
    assert j.kind == Revolute((0, 0, 1)) and j.parent == GROUND and j.child == b.index
    assert np.allclose(j.place.p, [1, 2, 3]) and np.allclose(j.place.R, turned(0.3, 0.2, 0.1), atol=1e-15)
    assert (j.lower, j.upper, j.max_effort, j.max_velocity) == ((-1.0,), (2.0,), (3.0,), (4.0,))
    assert (j.damping, j.friction) == ((0.5,), (0.25,))
    R = turned(0.1, 0.2, 0.3)  # the moment is written in the axes of the inertial frame
    moment = R @ np.array([[0.03, 0.001, 0.002], [0.001, 0.04, 0.003], [0.002, 0.003, 0.05]]) @ R.T
    assert (
        b.mass == 2 and np.allclose(b.center, [0.1, 0.2, 0.3]) and np.allclose(b.moment, moment, atol=1e-15)
    )
    assert m.notes == ()
    assert np.array_equal(urdf.read(GOOD.encode()).joint("j").place.p, j.place.p)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("revolute", Revolute((0, 1, 0))), ("continuous", Revolute((0, 1, 0))), ("prismatic", Prismatic((0, 1, 0))),
        ("planar", Planar((0, 1, 0))), ("floating", Free()),
    ],
)  # fmt: skip
def test_every_joint_type(type_: str, kind: object) -> None:
    m = urdf.read(robot(link("a"), link("b"), joint("j", type_, "a", "b", '<axis xyz="0 3 0"/>')))
    assert m.joint("j").kind == kind and m.joints[0].v_slice == slice(0, m.nv)


def test_fixed_joints_merge_and_leave_frames() -> None:
    # which mean nothing in a fixed joint
    fixed = '<origin xyz="0 0 2"/><axis xyz="0 0 0"/><limit lower="5" upper="1"/>'
    m = urdf.read(
        robot(
            link("a"),
            link("b"),
            link("c"),
            joint("j", "prismatic", "a", "b"),
            joint("f", "fixed", "b", "c", fixed),
        )
    )
    (body,) = m.bodies
    assert body.links == ("b", "c") and body.mass == 2 and np.allclose(body.center, [0, 0, 1])
    assert np.allclose(body.moment, np.diag([4.0, 4.0, 2.0]))  # 2 * 1 + 2 * 1 kg at 1 m, about x and y
    assert m.body("c") is body and np.allclose(m.frame("c").place.p, [0, 0, 2]) and m.frame("f").body == 0


def test_what_is_left_out_has_the_values_of_the_format() -> None:
    m = urdf.read(robot(link("a", ""), link("b", ""), joint("j", "continuous", "a", "b")))
    j = m.joint("j")
    assert (
        j.kind == Revolute((1, 0, 0))
        and np.array_equal(j.place.R, np.eye(3))
        and np.array_equal(j.place.p, np.zeros(3))
    )
    assert (
        m.body("b").mass == 0
        and (j.lower, j.upper) == ((-np.inf,), (np.inf,))
        and (j.damping, j.friction) == ((0,), (0,))
    )
    assert m.notes == ()


@pytest.mark.parametrize(
    ("type_", "limit", "lower", "upper", "effort", "note"),
    [
        ("revolute", "", -np.inf, np.inf, np.inf, "no <limit>"),
        ("prismatic", "", -np.inf, np.inf, np.inf, "no <limit>"),
        ("continuous", "", -np.inf, np.inf, np.inf, None),
        ("continuous", '<limit lower="1" upper="-1" effort="2" velocity="3"/>', -np.inf, np.inf, 2.0, None),
        ("revolute", '<limit upper="1" effort="2" velocity="3"/>', 0.0, 1.0, 2.0, None),
        ("revolute", '<limit lower="-1" effort="2" velocity="3"/>', -1.0, 0.0, 2.0, None),
        (
            "revolute",
            '<limit effort="2" velocity="3"/>',
            -np.inf,
            np.inf,
            2.0,
            "absent or 0: taken as unlimited",
        ),
        (
            "prismatic",
            '<limit lower="0" upper="0.0" effort="2" velocity="3"/>',
            -np.inf,
            np.inf,
            2.0,
            "taken as unlimited",
        ),
        ("revolute", '<limit lower="1" upper="1" effort="2" velocity="3"/>', 1.0, 1.0, 2.0, None),
        ("revolute", '<limit lower="-1" upper="1" velocity="3"/>', -1.0, 1.0, np.inf, "no effort"),
        ("revolute", '<limit lower="-1" upper="1" effort="2"/>', -1.0, 1.0, 2.0, "no velocity"),
        ("revolute", '<limit lower="-1" upper="1" effort="1e308" velocity="0"/>', -1.0, 1.0, 1e308, None),
    ],
)
def test_limits(type_: str, limit: str, lower: float, upper: float, effort: float, note: str | None) -> None:
    m = urdf.read(robot(link("a"), link("b"), joint("j", type_, "a", "b", limit)))
    j = m.joint("j")
    assert (j.lower, j.upper, j.max_effort) == ((lower,), (upper,), (effort,))
    assert noted(m, note, "'j' (line 4)") if note else m.notes == ()


def test_limits_and_damping_of_joints_with_several_coordinates_are_noted() -> None:
    more = '<limit effort="1" velocity="1"/><dynamics damping="1"/>'
    m = urdf.read(robot(link("a"), link("b"), joint("j", "planar", "a", "b", more)))
    assert m.joint("j").damping == (0, 0, 0) and noted(m, "not supported in a planar joint", "'j' (line 4)")


def test_joints_come_depth_first_in_the_order_of_the_file() -> None:
    names = ["a", "b", "c", "d", "e"]
    pairs = ["de", "ac", "ab", "bd"]  # a has the branches c and then b; d and e hang on b
    m = urdf.read(robot(*map(link, names), *(joint(p, "continuous", *p) for p in pairs)))
    assert [j.name for j in m.joints] == ["ac", "ab", "bd", "de"] and [b.name for b in m.bodies] == [
        "c",
        "b",
        "d",
        "e",
    ]


def test_a_free_base_is_a_free_joint() -> None:
    m = urdf.read(GOOD, base="free")
    assert (m.nq, m.nv) == (8, 7) and m.joints[0].kind == Free() and m.joints[0].name == "root_joint"
    assert m.bodies[0].name == "a" and m.joint("j").parent == 0
    m = urdf.read(changed('name="j"', 'name="root_joint"'), base="free")
    assert [j.name for j in m.joints] == ["root_joint_2", "root_joint"]


def test_the_root_link_stands_in_the_world() -> None:
    m = urdf.read(GOOD)
    assert (
        m.frame("a").body == GROUND
        and [b.name for b in m.bodies] == ["b"]
        and m.frame("a").joint == "root_joint"
    )


def test_a_massless_root_called_world_is_the_world() -> None:
    text = robot(link("world", ""), link("a"), joint("j", "continuous", "world", "a"))
    m = urdf.read(text)
    assert [f.name for f in m.frames] == ["a"] and m.frame("world").body == GROUND and m.notes == ()
    free = urdf.read(text, base="free")
    assert (
        free.frame("world").body == GROUND
        and [b.name for b in free.bodies] == ["world_link", "a"]
        and free.nv == 7
    )
    assert noted(free, "'world' (line 2)", "'world_link'")


def test_other_links_called_world() -> None:
    heavy = urdf.read(robot(link("world"), link("a"), joint("j", "continuous", "world", "a")))
    assert heavy.mass == 1 and noted(heavy, "'world' (line 2)", "mass is ignored")
    text = robot(link("a"), link("world"), link("world_link"), joint("i", "continuous", "a", "world"),
                 joint("k", "fixed", "world", "world_link"))  # fmt: skip
    inner = urdf.read(text)
    assert inner.frame("world").body == GROUND and inner.bodies[0].links == ("world_link_2", "world_link")


def test_odd_inertias_are_noted_and_taken_as_they_stand_or_refused_if_strict() -> None:
    text = changed('izz="0.05"', 'izz="5"')
    m = urdf.read(text)
    assert np.isclose(np.trace(m.body("b").moment), 5.07) and len(m.notes) == 1
    assert noted(m, "link 'b' (line 3)", "larger than the sum of the others")
    with pytest.raises(
        ModelError, match=r'<text>:4: <inertial> in <link name="b">: the principal moment .* larger than'
    ):
        urdf.read(text, strict=True)
    assert noted(
        urdf.read(changed('mass value="2"', 'mass value="0"')),
        "link 'b' (line 3)",
        "the mass is zero",
    )
    assert noted(urdf.read(changed('ixx="0.03"', 'ixx="-0.03"')), "link 'b' (line 3)", "negative")
    with pytest.raises(ModelError, match=r"the mass is zero"):
        urdf.read(changed('mass value="2"', 'mass value="0"'), strict=True)
    assert urdf.read(GOOD, strict=True) == urdf.read(GOOD)


def test_what_draws_collides_and_controls_is_passed_over_and_meshes_are_only_named() -> None:
    mesh = '<{0} name="x"><origin xyz="bad"/><geometry><mesh filename="{1}"/></geometry></{0}>'
    a = link(
        "a",
        BODY + mesh.format("visual", "package://p/a.stl") + mesh.format("collision", "file:///etc/passwd"),
    )
    rest = '<material name="m"/><transmission name="t"/><gazebo reference="a"><joint name="no"/></gazebo>'
    more = '<safety_controller k_velocity="1"/><calibration rising="0"/>'
    m = urdf.read(robot(a, link("b"), joint("j", "continuous", "a", "b", more), rest))
    assert m.notes == (
        "shape <mesh> is not supported and ignored: link 'a' (line 2), link 'a' (line 2)",
        "2 mesh files named, none opened: file:///etc/passwd, package://p/a.stl",
    )
    odd = urdf.read(robot(link("a", "<inertail/>" + BODY.replace("<mass", '<mass unit="kg"')), "<jiont/>"))
    for words in ("<inertail> in <link>", "<jiont> in <robot>", "unit in <mass>"):
        assert noted(odd, words, "unknown in URDF", "line")


def test_a_hundred_joints_without_limits_make_one_note() -> None:
    names = [f"l{k}" for k in range(101)]
    m = urdf.read(
        robot(*map(link, names), *(joint(f"j{k}", "revolute", f"l{k}", f"l{k + 1}") for k in range(100)))
    )
    assert len(m.notes) == 1 and noted(m, "joint 'j0' (line 103), joint 'j1'", "and 92 more")


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        '<?xml version="1.0" encoding="utf-8"?>\n<!-- über -->'.encode() + GOOD.encode(),
        ('<?xml version="1.0" encoding="UTF-16"?>' + GOOD).encode("utf-16"),
        '<?xml version="1.0" encoding="iso-8859-1"?><!-- über -->'.encode("latin1") + GOOD.encode(),
        '<?xml version="1.0" encoding="windows-1252"?><!-- über -->'.encode("cp1252") + GOOD.encode(),
        changed(
            '<robot name="r">',
            '<?a b?><robot xmlns:xacro="http://ros.org/wiki/xacro" version="1.0" name="r">',
        ).encode(),
        changed("<inertial>", "<![CDATA[ <joint & ]]> text <inertial><!-- <mass/> -->").encode(),
        GOOD.replace("\n", "\r\n").replace(" ", "\t ").encode(),
        changed('"1 2 3"', '" 1.0 \n +2. 3e0 "').encode(),
        changed('"1 2 3"', '"1 &#50; 3"').encode(),
        changed(
            '<axis xyz="0 0 2"/>', '<axis xyz="0 0 2"/><axis xyz="0 0 2"/>'
        ).encode(),  # the same twice is no question
    ],
)
def test_the_same_in_other_dress(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_bytes(data)
    assert load(path) == load(str(path)) == urdf.read(GOOD)


def test_the_suffix_or_the_root_decides(tmp_path: Path) -> None:
    for name in ("r.xml", "R.URDF"):
        (tmp_path / name).write_text(GOOD)
        assert load(tmp_path / name, base="free", gravity=(0, 0, -1)) == urdf.read(
            GOOD, base="free", gravity=(0, 0, -1)
        )
    for name, text, words in [
        ("m.xml", "<svg/>", "m.xml:1: <svg>: unsupported root element; expected <robot>, <sdf> or"),
        ("m.urdf", "\n<svg/>", "m.urdf:2: <svg>: unsupported root element"), ("m", GOOD, "unsupported suffix"),
        ("m.stl", GOOD, "unsupported suffix .stl; supported formats are URDF"),
    ]:  # fmt: skip
        (tmp_path / name).write_text(text)
        with pytest.raises(ModelError, match=re.escape(words)):
            load(tmp_path / name)


# broken files: what is put in place of what, in which line that is found, and what is said

BROKEN = [
    # numbers
    ('"1 2 3"', '"1 2"', 11, '<origin> in <joint name="j">: xyz="1 2": expected 3 numbers, got 2'),
    ('"1 2 3"', '"1 2 3 4"', 11, "xyz=\"1 2 3 4\": expected 3 numbers, got 4"),
    ('"1 2 3"', '"1, 2, 3"', 11, "'1,' is not a finite decimal number"),
    ('"1 2 3"', '"1 2 x"', 11, "'x' is not a finite decimal number"),
    ('"1 2 3"', '"1 2 ${z}"', 11, "if this is a xacro file"),
    ('"1 2 3"', '"1_0 2 3"', 11, "'1_0' is not a finite decimal number"),
    ('"1 2 3"', '"1 2 ٣"', 11, "'٣' is not a finite decimal number"),
    ('"1 2 3"', '"1 2\u00a03"', 11, "is not a finite decimal number"),
    ('"1 2 3"', '"0x1 2 3"', 11, "'0x1' is not a finite decimal number"),
    ('"1 2 3"', '"1 2 1e31"', 11, "too large; expected at most 1e+30"),
    ('"1 2 3"', '""', 11, "empty attribute xyz"),
    ('"1 2 3"', '" "', 11, "xyz=\" \": expected 3 numbers, got 0"),
    ('rpy="0.3 0.2 0.1"', 'rpy="nan 0 0"', 11, "'nan' is not a finite decimal number"),
    ('rpy="0.3 0.2 0.1"', 'quat_xyzw="0 0 0 1"', 11, "quaternions are not read: give roll, pitch and yaw"),
    ('rpy="0.1 0.2 0.3"', 'rpy="infinity 0 0"', 5, '<origin> in <inertial> in <link name="b">'),
    ('upper="2"', 'upper="inf"', 15, "'inf' is not a finite decimal number"),
    ('upper="2"', 'upper="1e999"', 15, 'upper="1e999": too large'),
    ('lower="-1"', 'lower="3"', 15, '<limit> in <joint name="j">: limit: expected lower <= upper, got 3 > 2'),
    ('effort="3"', 'effort="-3"', 15, "effort: expected a non-negative number, got -3"),
    ('velocity="4"', 'velocity="-4"', 15, "velocity: expected a non-negative number, got -4"),
    ('damping="0.5"', 'damping="-1"', 16, "damping: expected a non-negative number, got -1"),
    ('friction="0.25"', 'friction="-1"', 16, "friction: expected a non-negative number, got -1"),
    ('friction="0.25"', 'friction="1 2"', 16, "friction=\"1 2\": expected one number, got 2"),
    # links
    ('<mass value="2"/>', '<mass value="-2"/>', 6, '<mass> in <inertial> in <link name="b">: mass: expected a non-negative'),
    ('<mass value="2"/>', "<mass/>", 6, "missing attribute value"),
    ('<mass value="2"/>\n', "", 4, '<inertial> in <link name="b">: missing element <mass>'),
    ('<mass value="2"/>', '<mass value="2"/><mass value="3"/>', 6, "duplicate element: expected one, the first is in line 6"),
    ('izz="0.05"', "", 7, '<inertia> in <inertial> in <link name="b">: missing attribute izz'),
    ('izz="0.05"', 'izz="NaN"', 7, "'NaN' is not a finite"),
    ("</inertial>", "</inertial><inertial/>", 8, "duplicate element: expected one, the first is in line 4"),
    ('<link name="a"/>', '<link name=""/>', 2, "<link name=\"\">: empty attribute name"),
    ('<link name="a"/>', "<link/>", 2, "<link>: missing attribute name"),
    ('<link name="a"/>', '<link name="b"/>', 3, 'duplicate link name; the first is in line 2'),
    ('<link name="a"/>', f'<link name="{"n" * 2000}"/>', 2, "name: longer than 1000 characters"),
    ('<link name="a"/>', '<link name="a"/>\n<link name="z"/>', 3,
     '<link name="z">: second root link, besides <link name="a"> in line 2; expected one link'),
    # joints
    ('<joint name="j"', "<joint", 10, "<joint>: missing attribute name"),
    ('type="revolute"', "", 10, '<joint name="j">: missing attribute type'),
    ('type="revolute"', 'type="ball"', 10, "unknown joint type 'ball'; expected one of revolute, continuous, prismatic,"),
    ('type="revolute"', 'type="Revolute"', 10, "unknown joint type 'Revolute'"),
    ('<parent link="a"/>\n', "", 10, '<joint name="j">: missing element <parent>'),
    ('<child link="b"/>\n', "", 10, '<joint name="j">: missing element <child>'),
    ('<parent link="a"/>', "<parent/>", 12, '<parent> in <joint name="j">: missing attribute link'),
    ('<parent link="a"/>', '<parent link="aa"/>', 12, "no link named 'aa' (did you mean 'a'?)"),
    ('<child link="b"/>', '<child link="world"/>', 13, "no link named 'world'"),
    ('<child link="b"/>', '<child link="c"/>', 13, '<child> in <joint name="j">: no link named \'c\''),
    ('<child link="b"/>', '<child link="a"/>', 10, "parent and child are the same link 'a'; expected two links"),
    ('<child link="b"/>', '<child link="b"/><child link="a"/>', 13, "duplicate element: expected one, the first is in line 13"),
    ('"0 0 2"', '"0 0 0"', 14, '<axis> in <joint name="j">: axis: expected a nonzero vector such as 0 0 1'),
    ('"0 0 2"', '"0 0 -0.0e9"', 14, "axis: expected a nonzero vector such as 0 0 1"),
    ('"0 0 2"', '"0 nan 2"', 14, "'nan' is not a finite decimal number"),
    ('<axis xyz="0 0 2"/>', "<axis/>", 14, "missing attribute xyz"),
    ('<axis xyz="0 0 2"/>', '<axis xyz="0 0 2"/><axis xyz="1 0 0"/>', 14, "duplicate element: expected one, the first is"),
    ("</robot>", joint("j", "fixed", "a", "b") + "</robot>", 18, "duplicate joint name; the first is in line 10"),
    ("</robot>", joint("k", "fixed", "a", "b") + "</robot>", 18,
     "<joint name=\"k\">: child 'b' is already the child of <joint name=\"j\"> in line 10; a link"),
    ("</robot>", joint("k", "fixed", "b", "a") + "</robot>", 18, "the links 'a', 'b' form a cycle without a root; close a"),
    ("</robot>", link("c") + link("d") + joint("k", "fixed", "c", "d") + joint("l", "fixed", "d", "c") + "</robot>", 21,
     "<joint name=\"l\">: the links 'c', 'd' form a cycle without a root; close a cycle with"),
    # loops; more in test_loops_input.py
    ('<axis xyz="0 0 2"/>', '<mimic joint="k" multiplier="2"/>', 14,
     "<mimic> in <joint name=\"j\">: no joint named 'k'"),
    ("</robot>", '<loop name="o" type="fixed"/></robot>', 18, '<loop name="o">: missing element <predecessor>'),
    ("</robot>", '<coupling name="o"/></robot>', 18, '<coupling name="o">: missing element <predecessor>'),
    ('type="revolute"', 'type="revolute" independent="false"', 10, "joint 'j': independent=False: expected a joint in a loop"),
    # what is not read
    ("</robot>", '<xacro:leg side="l"/></robot>', 18, "<xacro:leg>: this is a xacro file: expand it first"),
    # the whole
    ('<robot name="r">', "<robot>", 1, "<robot>: missing attribute name"),
    # XML
    ("</inertial>", "</inertia>", "8:3", "not XML: mismatched tag"),
    ("</robot>", "", "19:1", "not XML: no element found"),
    ("</robot>", "</robot><robot/>", "18:9", "not XML: junk after document element"),
    ('"1 2 3"', '"1 2 3" xyz="1 2 3"', "11:21", "not XML: duplicate attribute"),
    ('"1 2 3"', "1 2 3", "11:13", "not XML: not well-formed"),
    ('"1 2 3"', '"&one; 2 3"', "11:1", "not XML: undefined entity"),
    ('"1 2 3"', '"1 2 \x003"', "11:18", "not XML: not well-formed"),
    ('<robot name="r">', '\n<?xml version="1.0"?><robot name="r">', "2:1", "<?xml ...?> must be at the very beginning"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "line", "words"), BROKEN, ids=[f"{b[3][-40:]}-{k}" for k, b in enumerate(BROKEN)]
)
def test_what_is_wrong_is_said_with_its_line(
    old: str, new: str, line: int | str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.urdf"
    path.write_text(changed(old, new), encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ") and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<robot name='r'/>", '<text>:1: <robot name="r">: no <link>: a robot needs at least one'),
        ("<sdf/>", "<text>:1: <sdf>: unsupported root element; expected <robot>"),
        ("", "<text>:1:1: not XML: no element found"),
        (b"", "<text>:1:1: not XML: no element found"),
        ("\ud800", "invalid Unicode text: surrogates not allowed at 0"),
        (7, "expected XML as str or bytes, got int"),
        (None, "expected XML as str or bytes, got NoneType"),
        (b"\xff\xfe<\x00", "<text>:1:"),
        (b"<robot name='\xff'/>", "not well-formed"),
        *((f'<?xml version="1.0" encoding="{e}"?><robot/>'.encode(), "<text>:1")
          for e in ("foo", "shift_jis", "hex", "undefined", "punycode", "utf-16")),
    ],
)  # fmt: skip
def test_other_broken_texts(text: object, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        urdf.read(text)  # type: ignore[arg-type]


def test_a_root_cannot_float_twice_without_mass() -> None:
    text = robot(link("a", ""), link("b"), joint("j", "floating", "a", "b"))
    assert urdf.read(text).nv == 6
    with pytest.raises(
        ModelError,
        match=r"<text>:4: <joint name=\"j\">: base='free' would add a floating joint to",
    ):
        urdf.read(text, base="free")
    assert urdf.read(text.replace('name="a"></link>', f'name="a">{BODY}</link>'), base="free").nv == 12


def test_wrong_arguments() -> None:
    for base in ("fixe", "", None, 1):
        with pytest.raises(ModelError, match='base: expected "fixed" or "free", got '):
            urdf.read(GOOD, base=base)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="gravity: expected 3 numbers"):
        urdf.read(GOOD, gravity=(0, 0))
    for path in (7, None, b"r.urdf"):
        with pytest.raises(ModelError, match="path: expected a path or XML text"):
            load(path)  # type: ignore[arg-type]


# hostile files

LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
HOSTILE = [
    (f'<!DOCTYPE robot [<!ENTITY l0 "ha">{LAUGHS}]><robot name="&l9;"/>', "a document type"),
    (
        '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="r">&x;</robot>',
        "a document type",
    ),
    ('<!DOCTYPE robot SYSTEM "http://127.0.0.1:1/x.dtd"><robot name="r"/>', "a document type"),
    ('<!DOCTYPE robot [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x">%p;]><robot name="r"/>', "a document type"),
    ("<!DOCTYPE robot><robot name='r'/>", "a document type"),
    ("<a>" * 101 + "</a>" * 101, "nested deeper than the limit of 100"),
    ("<a>" * 10_000_000, "nested deeper than the limit of 100"),
    (f'<robot name="{"x" * 70_000}"/>', "attribute name is longer than the limit of 65536 characters"),
    (f'<robot {"x" * 70_000}="1"/>', "is longer than the limit of 65536 characters"),
    (f'<robot name="{"x" * 3_000_000}"/>', "a tag or comment is longer than the limit of 1048576 bytes"),
    ("<robot " + " ".join(f'a{k}=""' for k in range(300_000)) + "/>", "a tag or comment is longer"),
    ("<robot name='r'>" + "<x/>" * 300_000 + "</robot>", "more than 250000 elements"),
]


@pytest.mark.parametrize(("text", "words"), HOSTILE, ids=[str(k) for k in range(len(HOSTILE))])
def test_hostile_texts_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert (
        words in str(caught.value)
        and str(caught.value).startswith(f"{path}:1: ")
        and len(str(caught.value)) < 1500
    )


def test_entities_are_refused_even_if_a_document_type_were_not() -> None:
    parser = xml._Parser("x", None, Limits())
    parser.expat.StartDoctypeDeclHandler = None
    with pytest.raises(ModelError, match="an entity declaration"):
        parser.run(HOSTILE[0][0].encode())


def test_long_numbers_and_names_take_no_long_time() -> None:
    begin = time.process_time()
    with pytest.raises(ModelError, match="is not a finite decimal number"):
        urdf.read(changed('"1 2 3"', f'"{"1" * 60_000}x 2 3"'))
    rng = np.random.default_rng(1)
    names = ["".join(map(chr, 0x4E00 + rng.integers(0, 120, 900))) for _ in range(1000)]  # slow to compare
    with pytest.raises(ModelError, match="no link named"):
        urdf.read(robot(*map(link, names), joint("j", "fixed", names[0][::-1], names[0])))
    names = [f"{'nm' * 40}{k}" for k in range(4_000)]
    with pytest.raises(ModelError, match="no link named"):
        urdf.read(robot(*(link(name, "") for name in names), joint("j", "fixed", "nm" * 45, names[0])))
    assert time.process_time() - begin < 20.0  # it would take minutes


def test_a_long_chain_is_no_recursion() -> None:
    n = 3000
    parts = [
        *(link(f"l{k}") for k in range(n + 1)),
        *(joint(f"j{k}", "fixed", f"l{k}", f"l{k + 1}") for k in range(1, n)),
    ]
    assert urdf.read(robot(*parts, joint("j0", "continuous", "l0", "l1"))).mass == n
    with pytest.raises(
        ModelError, match=r"the links 'l0', 'l3000', 'l2999', 'l2998', 'l2997' \.\.\. form a cycle"
    ):
        urdf.read(robot(*parts, joint("j0", "continuous", "l0", "l1"), joint("up", "fixed", f"l{n}", "l0")))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(GOOD)
    assert load(path, limits=Limits(size=len(GOOD))).nv == 1
    with pytest.raises(
        ModelError, match=rf"r\.urdf: larger than the limit of {len(GOOD) - 1} bytes.*lw.Limits\(size="
    ):
        load(path, limits=Limits(size=len(GOOD) - 1))
    sparse = tmp_path / "sparse.urdf"
    with sparse.open("wb") as file:
        file.truncate(2**40)  # no more of it may be read than the limit
    with pytest.raises(ModelError, match="larger than"):
        load(sparse)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    for path, words in [
        (tmp_path / "none.urdf", "none.urdf: cannot be read: No such file"), ("x\0.urdf", "cannot be read"),
        (f"{'x' * 5000}.urdf", "cannot be read: File name too long"), ("\ud800.urdf", r"\ud800.urdf: cannot be read"),
    ]:  # fmt: skip
        with pytest.raises(ModelError, match=re.escape(words)):
            load(path)
    (tmp_path / "folder.urdf").mkdir()
    with pytest.raises(ModelError, match=r"folder\.urdf: expected a file, got a folder"):
        load(tmp_path / "folder.urdf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.urdf")
    with pytest.raises(ModelError, match=r"pipe\.urdf: expected a file, got a special file"):
        load(tmp_path / "pipe.urdf")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything"
)
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(ModelError, match=r"r\.urdf: cannot be read: Permission denied"):
        load(path)


RICH = robot(
    link("world"), link("a", BODY.replace("<mass", '<origin xyz="1 0 0" rpy="0 1 0"/><mass')),
    link("b"), link("c"), link("d"), joint("f", "floating", "world", "a"),
    joint("g", "planar", "a", "b", '<axis xyz="0 0 1"/>'),
    joint("h", "prismatic", "b", "c", '<axis xyz="1 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/>'),
    joint("i", "fixed", "c", "d", '<origin xyz="0 0 1e3" rpy="1 1 1"/>'),
)  # fmt: skip
PIECES = [
    b"<",
    b">",
    b"/",
    b'"',
    b"&",
    b"=",
    b" ",
    b"\0",
    b"e",
    b"-",
    b"9" * 30,
    b"e300",
    b"nan",
    b"link",
    b"joint",
    b"<!--",
    b"]]>",
]


VALUES = [
    b'"0"',
    b'"1"',
    b'"-1"',
    b'"1e30"',
    b'"1e-320"',
    b'"1e999"',
    b'""',
    b'"0 0 0"',
    b'"1e30 1e-30 0"',
    b'"world"',
    b'"fixed"',
]


def damaged(data: bytearray, rng: np.random.Generator) -> None:
    """One bit, some bytes, or one whole value of an attribute are not what they were."""
    at = int(rng.integers(len(data)))
    n = int(rng.integers(1, 1 + rng.choice([2, 20, 200])))
    values = list(re.finditer(rb'"[^"]*"', data))
    match rng.integers(7):
        case 0:
            data[at] ^= 1 << int(rng.integers(8))
        case 1:
            del data[at : at + n]
        case 2:
            data[at:at] = PIECES[rng.integers(len(PIECES))]
        case 3:
            data[at:at] = data[int(rng.integers(len(data))) :][:n]
        case _ if values:  # the XML stays right, and what it says does not
            of = values[rng.integers(len(values))]
            others = [*VALUES, *(value.group() for value in values)]
            data[of.start() : of.end()] = others[rng.integers(len(others))]


@pytest.mark.parametrize("good", [GOOD, RICH], ids=["good", "rich"])
@pytest.mark.filterwarnings("error")
def test_damaged_files_give_a_model_or_a_model_error(good: str) -> None:
    rng = np.random.default_rng(1)
    models = errors = 0
    for k in range(1500):
        data = bytearray(good.encode())
        for _ in range(rng.integers(1, 4)):
            damaged(data, rng)
        try:
            m = urdf.read(bytes(data), base=["fixed", "free"][k % 2], strict=k % 3 == 0)
        except ModelError as error:
            errors += 1
            assert re.match(r"<text>:\d+(:\d+)?: .", str(error)), error
        else:
            models += 1
            assert all(np.isfinite(body.inertia.dense().astype(float)).all() for body in m.bodies)
            assert all(np.isfinite([*j.place.R.ravel(), *j.place.p]).all() for j in m.joints)
    assert models > 100 and errors > 500, (models, errors)


# against Pinocchio

FILES = [
    "ur_description/urdf/ur5_robot.urdf", "anymal_b_simple_description/robots/anymal.urdf",
    "solo_description/robots/solo12.urdf", "tiago_description/robots/tiago_no_hand.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf", "icub_description/robots/icub.urdf",
]  # fmt: skip


@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("file", FILES)
def test_pinocchio_reads_the_same(file: str, base: str) -> None:
    pin = pytest.importorskip("pinocchio")
    path = next(
        (
            p / "share/example-robot-data/robots" / file
            for p in Path(pin.__file__).parents
            if p.name == "cmeel.prefix"
        ),
        None,
    )
    if path is None or not path.exists():
        pytest.skip("example-robot-data is not installed beside Pinocchio")
    theirs = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if base == "free" else []))
    ours = load(path, base=base)
    assert sorted(j.name for j in ours.joints) == sorted(theirs.names[1:])
    q = pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq))
    data = theirs.createData()
    pin.forwardKinematics(theirs, data, q)
    for j in ours.joints:
        k = theirs.getJointId(j.name)
        x = q[theirs.idx_qs[k] :][: theirs.nqs[k]]
        x = np.array([np.arctan2(x[1], x[0])]) if (theirs.nqs[k], j.nq) == (2, 1) else x  # an unlimited angle
        T = j.place.then(j.kind.transform(x))
        assert np.allclose(np.array(T.R, dtype=float), data.liMi[k].rotation, atol=1e-12)
        assert np.allclose(np.array(T.p, dtype=float), data.liMi[k].translation, atol=1e-12)
        parent = theirs.parents[k]
        assert (ours.joints[j.parent].name == theirs.names[parent]) if j.parent != GROUND else parent == 0
        body = ours.bodies[j.child]
        inertia = theirs.inertias[k]
        scale = max(1e-12, float(np.abs(inertia.inertia).max()))
        assert np.isclose(body.mass, inertia.mass, rtol=1e-12)
        assert np.allclose(body.inertia.h, inertia.mass * inertia.lever, atol=1e-12)
        assert np.allclose(body.moment, inertia.inertia, atol=1e-9 * scale + 1e-13)
        if (theirs.nqs[k], j.nq) == (1, 1) and np.isfinite(j.lower[0]):
            i = theirs.idx_qs[k]
            assert (j.lower[0], j.upper[0]) == (theirs.lowerPositionLimit[i], theirs.upperPositionLimit[i])
    assert not any(isinstance(j.kind, Fixed) for j in ours.joints)


def test_a_parent_named_world_is_the_world_where_no_link_is_called_so() -> None:
    """As Drake's own files have it."""
    high = '<origin xyz="0 0 2"/>'
    parts = [link("base"), link("arm"), joint("weld", "fixed", "world", "base", high)]
    model = urdf.read(robot(*parts, joint("hinge", "continuous", "base", "arm")))
    assert model.nv == 1 and model.frame("base").body == GROUND and model.frame("base").place.p[2] == 2.0
    assert noted(model, "no link named 'world': taken as the fixed world")
    with pytest.raises(ModelError, match="no link named 'world'"):
        urdf.read(robot(*parts[:2], joint("hinge", "continuous", "arm", "world")))
