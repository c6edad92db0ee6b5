"""Loops that are wrong: each is told with what, where and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.formats import urdf
from linkwork.joints import Fixed, Helical, Revolute, Rod, Spherical
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

NAN = float("nan")
INF = float("inf")


def arm(links: int = 3, **independent: bool | None) -> ModelBuilder:
    """A planar chain of links of half a metre; with a tool held fast, a ball, and a pole in the ground."""
    builder = ModelBuilder("arm")
    on = "world"
    for k in range(links):
        builder.add_body(f"link{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        said = independent.get(f"joint{k}")
        builder.add_joint(
            f"joint{k}", Revolute(), parent=on, child=f"link{k}", xyz=(0.5, 0.0, 0.0), independent=said
        )
        on = f"link{k}"
    builder.add_body("tool").add_joint("weld", Fixed(), parent=on, child="tool")
    builder.add_body("pole").add_joint("stand", Fixed(), parent="world", child="pole")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1)).add_joint(
        "socket", Spherical(), parent=on, child="ball"
    )
    return builder


def pinned(links: int = 3, **independent: bool | None) -> Model:
    at = {
        "predecessor": "world",
        "successor": f"link{links - 1}",
        "xyz": (0.8, 0.2, 0.0),
        "successor_xyz": (0.4, 0.0, 0.0),
    }
    return arm(links, **independent).add_loop("pin", Revolute(), **at).build()


def looped(kind: Any = None, predecessor: str = "world", successor: str = "link2", **more: Any) -> Model:
    kind = Revolute() if kind is None else kind
    return arm().add_loop("pin", kind, predecessor=predecessor, successor=successor, **more).build()


def coupled(*args: Any, **more: Any) -> Model:
    return arm().add_coupling("gear", *args, **more).build()


def tied(function: Any, joints: Any = ("joint0", "joint1")) -> Model:
    return arm().add_implicit_constraint("tie", function, joints=joints).build()


def between(ratio: Any, predecessor: str = "link0", successor: str = "link1") -> Model:
    return coupled(predecessor=predecessor, successor=successor, ratio=ratio)


BOTH = {"joint0": 1.0, "joint1": -2.0}
WRONG: dict[str, tuple[Any, str]] = {
    "out of reach": (
        lambda: looped(xyz=(5.0, 0.0, 0.0)),
        "'pin' cannot be closed: .* 'pin' is open by 3.5 m and .* rad; check placements and lengths, or try start=, tol",
    ),
    "out of the plane": (
        lambda: looped(xyz=(1.0, 0.0, 0.1)),
        "'pin' cannot be closed: .* 'pin' is open by 0.1 m",
    ),
    "two pins": (
        lambda: (
            arm()
            .add_loop("a", Spherical(), predecessor="world", successor="link2", xyz=(0.8, 0.2, 0.0))
            .add_loop("b", Spherical(), predecessor="world", successor="link2", xyz=(0.8, 0.3, 0.0))
            .build()
        ),
        "'a', 'b' cannot be closed",
    ),
    "two gears": (
        lambda: arm().add_coupling("a", BOTH).add_coupling("b", BOTH, offset=1.0).build(),
        "'a', 'b' cannot be closed",
    ),
    "locked": (lambda: coupled({"joint0": 1.0}), "'gear' leave the links 'link0' no degree of freedom"),
    "none independent": (
        lambda: pinned(3, joint0=False, joint1=False, joint2=False),
        "'pin' leave 1 degrees of freedom, but 0 independent velocities are chosen",
    ),
    "all independent": (
        lambda: pinned(3, joint0=True),
        "1 degrees of freedom, but 3 independent velocities are chosen: 'joint0', 'joint1', 'joint2'",
    ),
    "singular": (
        lambda: (
            arm(3, joint0=False, joint1=False, joint2=True)
            .add_coupling("a", {"joint0": 1.0, "joint1": 1.0})
            .add_coupling("b", {"joint0": 1.0, "joint1": 1.0, "joint2": 1.0})
            .build()
        ),
        "'a', 'b': the velocities of 'joint2' do not determine the others",
    ),
    "independent?": (
        lambda: arm(3, joint0="yes").build(),
        "joint 'joint0': independent: expected True, False or None, got 'yes'",
    ),  # type: ignore[arg-type]
    "chosen too few": (
        lambda: pinned(4).with_independent("joint0"),
        "2 degrees of freedom, but 1 independent velocities are chosen: 'joint0'",
    ),
    "chosen unknown": (
        lambda: pinned(3).with_independent("jiont0"),
        "no joint named 'jiont0' .did you mean 'joint0'",
    ),
    "ratio zero": (
        lambda: between(0.0),
        "coupling 'gear': ratio: expected a non-zero number; zero would lock 'link1'",
    ),
    "ratio NaN": (lambda: between(NAN), "coupling 'gear': ratio: expected finite numbers"),
    "ratio infinite": (lambda: between(INF), "coupling 'gear': ratio: expected finite numbers"),
    "ratio a word": (lambda: between("two"), "coupling 'gear': ratio: expected 1 numbers, got"),
    "coefficient NaN": (
        lambda: coupled({"joint0": 1.0, "joint1": NAN}),
        "coupling 'gear': joint1: expected finite numbers",
    ),
    "coefficients zero": (
        lambda: coupled({"joint0": 0.0, "joint1": 0}),
        "coupling 'gear': expected at least one non-zero coefficient",
    ),
    "no coefficients": (lambda: coupled({}), "coupling 'gear': expected at least one non-zero coefficient"),
    "a list": (lambda: coupled(["joint0"]), "coupling 'gear': terms: expected coefficients by joint"),
    "nothing given": (
        lambda: coupled(),
        "coupling 'gear': expected either terms, or predecessor, successor and ratio",
    ),
    "all given": (
        lambda: coupled(BOTH, predecessor="link0", successor="link1", ratio=2.0),
        "coupling 'gear': expected either terms, or",
    ),
    "some given": (
        lambda: coupled(predecessor="link0", ratio=2.0),
        "coupling 'gear': expected either terms, or",
    ),
    "terms and ratio": (lambda: coupled(BOTH, ratio=2.0), "coupling 'gear': expected either terms, or"),
    "offset NaN": (lambda: coupled(BOTH, offset=NAN), "coupling 'gear': offset: expected finite numbers"),
    "a ball": (
        lambda: coupled({"joint0": 1.0, "socket": 1.0}),
        "coupling 'gear': joint 'socket': expected one velocity, got 3",
    ),
    "through a ball": (
        lambda: between(2.0, "link0", "ball"),
        "coupling 'gear': joint 'socket': expected one velocity, got 3",
    ),
    "unknown joint": (
        lambda: coupled({"joint0": 1.0, "jiont1": 1.0}),
        "'gear': .*moving joint, got 'jiont1' .*did you mean 'joint1'",
    ),
    "fixed joint": (
        lambda: coupled({"joint0": 1.0, "weld": 1.0}),
        "'gear': .*moving joint, got 'weld' .it is fixed",
    ),
    "unknown link": (
        lambda: between(2.0, "lnik0"),
        "'gear': .*link or frame, got 'lnik0' .*did you mean 'link0'",
    ),
    "unknown successor": (
        lambda: looped(successor="lnik2"),
        "'pin': .*link or frame, got 'lnik2' .*did you mean 'link2'",
    ),
    "unknown predecessor": (
        lambda: looped(predecessor="lnik2"),
        "'pin': .*link or frame, got 'lnik2' .*did you mean 'link2'",
    ),
    "itself": (
        lambda: looped(predecessor="link2"),
        "loop 'pin': expected two different bodies, got 'link2' and 'link2'",
    ),
    "merged links": (
        lambda: looped(predecessor="tool"),
        "loop 'pin': expected two different bodies, got 'tool' and 'link2'",
    ),
    "the ground itself": (
        lambda: looped(successor="pole"),
        "loop 'pin': expected two different bodies, got 'world' and 'pole'",
    ),
    "coupled to itself": (
        lambda: between(2.0, "link1"),
        "coupling 'gear': no joint lies between 'link1' and 'link1'",
    ),
    "coupled merged links": (
        lambda: between(2.0, "link2", "tool"),
        "no joint lies between 'link2' and 'tool'",
    ),
    "same name": (
        lambda: (
            arm()
            .add_coupling("pin", BOTH)
            .add_loop("pin", Revolute(), predecessor="world", successor="link1")
        ),
        "'pin': the name is already taken",
    ),
    "no name": (
        lambda: arm().add_loop("", Revolute(), predecessor="world", successor="link1"),
        "name of a loop: expected",
    ),
    "a screw": (lambda: looped(Helical(0.1)), "loop 'pin': Helical joint: cannot close a loop"),
    "a rod in a tree": (
        lambda: arm().add_body("more").add_joint("bar", Rod(0.5), parent="world", child="more").build(),
        "joint 'bar'",
    ),
    "a word for a kind": (
        lambda: looped("revolute"),
        "loop 'pin': kind: expected one of linkwork.joints, got 'revolute'",
    ),
    "a class for a kind": (lambda: looped(Revolute), "loop 'pin': kind: expected one of linkwork.joints"),
    "two numbers": (lambda: looped(xyz=(1.0, 2.0)), "loop 'pin': xyz: expected 3 numbers, got 2"),
    "place NaN": (
        lambda: looped(successor_xyz=(1.0, 2.0, NAN)),
        "loop 'pin', successor: xyz: expected finite numbers",
    ),
    "place a number": (lambda: looped(place=5), "loop 'pin': place: expected a linkwork.spatial.Pose, got 5"),
    "placed twice": (
        lambda: looped(place=Pose.identity(), xyz=(1.0, 0.0, 0.0)),
        "loop 'pin': expected place, or xyz and rpy",
    ),
    "no rotation": (
        lambda: looped(place=Pose(np.diag([1.0, 1.0, 2.0]), np.zeros(3))),
        "expected a rotation matrix R",
    ),
    "tie of nothing": (
        lambda: tied(lambda q: q, []),
        "'tie': joints: expected names of different joints",
    ),
    "tie of the same": (
        lambda: tied(lambda q: q[0], ["joint0", "joint0"]),
        "'tie': joints: expected names of different",
    ),
    "tie unknown": (
        lambda: tied(lambda q: q[0], ["joint0", "joint9"]),
        "'tie': .*moving joint, got 'joint9' .*did you mean",
    ),
    "tie by a number": (lambda: tied(5), "implicit constraint 'tie': function: expected a callable, got 5"),
    "tie that fails": (
        lambda: tied(lambda q: q[5]),
        "implicit constraint 'tie': the function raised IndexError at",
    ),
    "tie of no equation": (
        lambda: tied(lambda q: []),
        "'tie': function: expected one number or a vector",
    ),
    "tie of a matrix": (
        lambda: tied(lambda q: np.outer(q, q)),
        "'tie': function: expected .* got shape .2, 2",
    ),
    "tie that never holds": (
        lambda: tied(lambda q: q[0] * 0.0 + 1.0),
        "'tie' cannot be closed: .* 'tie' is open by 1;",
    ),
    "tie NaN": (lambda: tied(lambda q: q[0] * NAN), "'tie' cannot be closed"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_said(name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(ModelError, match=words):
        make()


def test_dependent_joints_cannot_be_prescribed() -> None:
    m = pinned(3)
    q, v = m.random_state(0)
    (dependent, *_) = [j.name for j in m.joints[:3] if j.name not in m.v_names]
    with pytest.raises(
        ModelError, match=f"joint '{dependent}' is not independent: a loop determines its motion"
    ):
        lw.hybrid_dynamics(m, q, v, v, v, prescribed=[dependent])


def test_another_choice_of_independent_joints_is_the_same_mechanism() -> None:
    m = pinned(3)
    q, v = m.random_state(0)
    whole = lw.spanning_velocity.body(m, q, v).astype(float)
    for joint in ("joint0", "joint1", "joint2"):
        other = m.with_independent(joint)
        assert set(other.v_names) == {joint, *m.joint("socket").v_names}
        names = [n for j in m.joints for n in j.v_names]
        u = np.array([whole[names.index(n)] for n in other.v_names])
        assert np.allclose(lw.spanning_velocity.body(other, q, u).astype(float), whole, atol=1e-11)
        assert np.isclose(float(lw.kinetic_energy.body(other, q, u)), float(lw.kinetic_energy.body(m, q, v)))


def test_functions_with_other_numbers_are_other_models() -> None:
    def model(c: float) -> Model:
        return tied(lambda q: q[0] - c * q[1])

    a = model(2.0)
    b = model(3.0)
    assert a != b and hash(a) != hash(b)
    q = np.zeros(a.nq)
    v = np.ones(a.nv)
    assert not np.allclose(lw.spanning_velocity(a, q, v), lw.spanning_velocity(b, q, v))


# URDF+


LINK = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
)
FILE = f"""<robot name="four-bar">
<link name="base"/>
<link name="a">{LINK}
<link name="b">{LINK}
<link name="c">{LINK}
<link name="w"/>
<joint name="ja" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
<joint name="jb" type="continuous"><parent link="a"/><child link="b"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint>
<joint name="jc" type="continuous"><parent link="base"/><child link="c"/><origin xyz="1.1 0 0"/><axis xyz="0 0 1"/></joint>
<joint name="jw" type="fixed"><parent link="c"/><child link="w"/></joint>
<loop name="pin" type="revolute">
<predecessor link="b"><origin xyz="1 0 0"/></predecessor>
<successor link="c"><origin xyz="1 0 0"/></successor>
<axis xyz="0 0 1"/>
</loop>
</robot>
"""
GEAR = """<coupling name="gear">
<predecessor link="a"/>
<successor link="c"/>
<ratio value="2"/>
</coupling>"""
LOOP = FILE[FILE.index("<loop") : FILE.index("</robot>") - 1]
GEARED = FILE.replace(LOOP, GEAR)
JC = '<axis xyz="0 0 1"/></joint>\n<joint name="jw"'


def mimic(words: str) -> str:
    return FILE.replace(LOOP, "").replace(JC, JC.replace("</joint>", f"<mimic {words}/></joint>", 1))


BROKEN: dict[str, tuple[str, int, str]] = {
    "no name": (FILE.replace('name="pin" ', ""), 11, "<loop>: missing attribute name"),
    "empty name": (FILE.replace('"pin"', '""'), 11, "empty attribute name"),
    "long name": (FILE.replace('"pin"', f'"{"x" * 1001}"'), 11, "name: longer than 1000 characters"),
    "no type": (
        FILE.replace('name="pin" type="revolute"', 'name="pin"'),
        11,
        "missing attribute type",
    ),
    "unknown type": (
        FILE.replace('name="pin" type="revolute"', 'name="pin" type="hinge"'),
        11,
        "unknown joint type 'hinge'; expected one of revolute, continuous,",
    ),
    "no predecessor": (
        FILE.replace('<predecessor link="b"><origin xyz="1 0 0"/></predecessor>', ""),
        11,
        "missing element <predecessor>",
    ),
    "no successor": (
        FILE.replace('<successor link="c"><origin xyz="1 0 0"/></successor>', ""),
        11,
        "missing element <successor>",
    ),
    "two successors": (
        FILE.replace("</loop>", '<successor link="a"/></loop>'),
        15,
        "duplicate element: expected one, the first is in line 13",
    ),
    "successor of nothing": (
        FILE.replace('<successor link="c">', "<successor>"),
        13,
        "missing attribute link",
    ),
    "unknown link": (
        FILE.replace('<successor link="c">', '<successor link="cc">'),
        13,
        "no link named 'cc' (did you mean 'c'?)",
    ),
    "itself": (
        FILE.replace('<successor link="c">', '<successor link="b">'),
        11,
        "predecessor and successor are the same link 'b'; expected two links",
    ),
    "merged": (
        FILE.replace('<predecessor link="b">', '<predecessor link="w">'),
        11,
        "expected two different bodies, got 'w' and 'c'",
    ),
    "no axis": (
        FILE.replace('<axis xyz="0 0 1"/>\n</loop>', '<axis xyz="0 0 0"/>\n</loop>'),
        14,
        "axis: expected a nonzero vector such as 0 0 1",
    ),
    "half an axis": (
        FILE.replace('<axis xyz="0 0 1"/>\n</loop>', '<axis xyz="0 1"/>\n</loop>'),
        14,
        "expected 3 numbers, got 2",
    ),
    "a word": (
        FILE.replace('<successor link="c"><origin xyz="1 0 0"', '<successor link="c"><origin xyz="1 0 x"'),
        13,
        "'x' is not a",
    ),
    "too far": (
        FILE.replace('<successor link="c"><origin xyz="1 0 0"', '<successor link="c"><origin xyz="1e31 0 0"'),
        13,
        "too large; expected at most 1e+30",
    ),
    "out of reach": (
        FILE.replace('<successor link="c"><origin xyz="1 0 0"', '<successor link="c"><origin xyz="9 0 0"'),
        11,
        "'pin' cannot be closed: in the best configuration found, 'pin' is open by 5.9 m and 0 rad",
    ),
    "same name": (
        FILE.replace("</robot>", GEAR.replace("gear", "pin") + "</robot>"),
        16,
        "'pin': the name is already taken",
    ),
    "rigid": (FILE.replace("</robot>", GEAR + "</robot>"), 11, "no degree of freedom"),
    "a second parent": (
        FILE.replace(
            "</robot>", '<joint name="z" type="fixed"><parent link="a"/><child link="c"/></joint></robot>'
        ),
        16,
        "child 'c' is already the child of <joint name=\"jc\"> in line 9; a link",
    ),
    "independent maybe": (
        FILE.replace('name="jb" type', 'name="jb" independent="maybe" type'),
        8,
        "independent: expected true, false or any, once or for each velocity;",
    ),
    "all independent": (
        FILE.replace('name="jb" type', 'name="jb" independent="true" type'),
        11,
        "but 3 independent velocities are chosen: 'ja', 'jb', 'jc'",
    ),
    "none independent": (
        FILE.replace('" type="continuous"', '" independent="false" type="continuous"'),
        11,
        "but 0 independent velocities are chosen",
    ),
    "no ratio": (GEARED.replace('<ratio value="2"/>', ""), 11, "missing element <ratio>"),
    "empty ratio": (GEARED.replace('<ratio value="2"/>', "<ratio/>"), 14, "missing attribute value"),
    "ratio NaN": (GEARED.replace('value="2"', 'value="nan"'), 14, "'nan' is not a finite decimal number"),
    "ratio infinite": (
        GEARED.replace('value="2"', 'value="inf"'),
        14,
        "'inf' is not a finite decimal number",
    ),
    "ratio zero": (
        GEARED.replace('value="2"', 'value="0"'),
        11,
        "ratio: expected a non-zero number; zero would lock 'c'",
    ),
    "two ratios": (
        GEARED.replace("</coupling>", '<ratio value="3"/></coupling>'),
        15,
        "duplicate element: expected one, the first is in line 14",
    ),
    "coupled merged": (
        GEARED.replace('link="a"/>\n<succ', 'link="w"/>\n<succ'),
        11,
        "no joint lies between 'w' and 'c'",
    ),
    "coupled unknown": (
        GEARED.replace('link="a"/>\n<succ', 'link="aa"/>\n<succ'),
        12,
        "no link named 'aa' (did you mean 'a'?)",
    ),
    "mimic of nothing": (mimic(""), 9, "missing attribute joint"),
    "mimic unknown": (mimic('joint="jbb"'), 9, "no joint named 'jbb' (did you mean 'jb'?)"),
    "mimic itself": (mimic('joint="jc"'), 9, "the joint follows itself"),
    "mimic fixed": (
        mimic('joint="jw"'),
        9,
        '<joint name="jw">: expected a joint with one DoF',
    ),
    "mimic NaN": (mimic('joint="ja" multiplier="nan"'), 9, "'nan' is not a finite decimal number"),
    "mimic too much": (
        mimic('joint="ja" multiplier="1e31"'),
        9,
        "too large; expected at most 1e+30",
    ),
    "mimic offset": (mimic('joint="ja" offset="x"'), 9, "'x' is not a finite decimal number"),
    "mimic still": (
        mimic('joint="ja" multiplier="0"'),
        9,
        "'jc follows ja' leave the links 'c' no degree of freedom",
    ),
    "mimic two": (
        mimic('joint="ja"').replace(
            '</joint>\n<joint name="jw"', '<mimic joint="jb"/></joint>\n<joint name="jw"'
        ),
        9,
        "duplicate element: expected one, the first is in line 9",
    ),
    "mimic circle": (
        mimic('joint="jb"').replace(
            '</joint>\n<joint name="jc"', '<mimic joint="jc"/></joint>\n<joint name="jc"'
        ),
        8,
        "cyclic mimic: the joint follows itself through 'jc'",
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_files_are_told_with_their_line(name: str) -> None:
    text, line, words = BROKEN[name]
    assert text not in (FILE, GEARED)
    with pytest.raises(ModelError) as told:
        urdf.read(text, source="robot.urdf")
    assert str(told.value).startswith(f"robot.urdf:{line}:") and words in str(told.value), str(told.value)


def test_files_with_loops_are_read() -> None:
    m = urdf.read(FILE)
    geared = urdf.read(GEARED)
    assert (m.nq, m.nv, [c.bodies for c in m.clusters]) == (3, 1, [(0, 1, 2)])
    assert m.clusters[0].count == 5 and len(m.clusters[0].rows) == 2
    assert (geared.nv, [c.bodies for c in geared.clusters]) == (2, [(0, 2), (1,)])
    q, v = geared.random_state(0)
    a, _, c = lw.spanning_velocity.body(geared, q, v)
    assert np.isclose(float(c), 2.0 * float(a))
    chosen = urdf.read(
        FILE.replace('name="jb" type', 'name="jb" independent="false" type').replace(
            'name="jc" type', 'name="jc" independent="false" type'
        )
    )
    assert chosen.v_names == ("ja",)
    strange = urdf.read(
        FILE.replace('name="pin" type', 'name="pin" mood="good" type').replace("</loop>", "<thing/></loop>")
    )
    for words in ("mood in <loop>", "<thing> in <loop>"):
        assert any(words in note for note in strange.notes)
    assert strange == m


def test_mimics_and_chains_of_them_are_read() -> None:
    m = urdf.read(mimic('joint="ja" multiplier="-2" offset="0.3"'))
    q, v = m.random_state(0)
    assert np.isclose(q[2], -2.0 * q[0] + 0.3) and (m.nq, m.nv) == (3, 2) and m.v_names == ("ja", "jb")
    text = mimic('joint="jb" offset="0.5"')
    end = '</joint>\n<joint name="jc"'
    chain = urdf.read(text.replace(end, f'<mimic joint="ja" multiplier="2"/>{end}'))
    q, v = chain.random_state(0)
    a, b, c = map(float, lw.spanning_velocity.body(chain, q, v))
    assert chain.nv == 1 and np.isclose(b, 2.0 * a) and np.isclose(c, b)
    assert np.isclose(q[1], 2.0 * q[0]) and np.isclose(q[2], q[1] + 0.5)


def test_a_fixed_joint_follows_nothing() -> None:
    text = FILE.replace('<child link="w"/></joint>', '<child link="w"/><mimic joint="ja"/></joint>')
    m = urdf.read(text)
    assert m == urdf.read(FILE) and any("<mimic> in a fixed joint is ignored" in note for note in m.notes)
