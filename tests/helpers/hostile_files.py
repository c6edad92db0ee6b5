"""A hundred broken or hostile files: MJCF, SDF and URDF. Each must end in a LinkworkError that names an
element.
"""

from __future__ import annotations

BALL = '<geom size="0.1"/>'


def mujoco(inside: str, more: str = "") -> str:
    return f"<mujoco>{more}<worldbody>{inside}</worldbody></mujoco>"


def body(inside: str, name: str = "a") -> str:
    return f'<body name="{name}">{inside}</body>'


def sdf(inside: str, version: str = "1.9") -> str:
    return f'<sdf version="{version}"><model name="m">{inside}</model></sdf>'


def robot(inside: str) -> str:
    return f'<robot name="r">{inside}</robot>'


def link(name: str, inside: str = "") -> str:
    return f'<link name="{name}">{inside}</link>'


def urdf_joint(inside: str = "", kind: str = "revolute", name: str = "j") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="a"/><child link="b"/>{inside}</joint>'


def sdf_joint(inside: str = "<axis/>", kind: str = "revolute", name: str = "j") -> str:
    return f'<joint name="{name}" type="{kind}"><parent>a</parent><child>b</child>{inside}</joint>'


TWO = link("a") + link("b")
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
DEEP = 600
LONG = "n" * 5000

MJCF = {
    "no element": "<mujoco",
    "empty tag": mujoco("<body><></body>"),
    "unclosed": "<mujoco><worldbody>",
    "entities": BOMB + mujoco(BALL),
    "external entity": OUTSIDE + mujoco(BALL),
    "unknown element": mujoco("<bdy/>"),
    "unknown attribute": mujoco('<body nmae="a"/>'),
    "unknown section": mujoco("", "<worldbodies/>"),
    "odd tag": mujoco("<a.b/>"),
    "bad number": mujoco(body('<joint axis="0 0 one"/>' + BALL)),
    "too few numbers": mujoco(body('<joint axis="0 1"/>' + BALL)),
    "nan": mujoco('<body pos="nan 0 0"><joint/><geom size="0.1"/></body>'),
    "infinite": mujoco(body('<joint/><inertial pos="0 0 0" mass="1e400" diaginertia="1 1 1"/>')),
    "huge mass": mujoco(body('<joint/><inertial pos="0 0 0" mass="1e200" diaginertia="1 1 1"/>')),
    "zero axis": mujoco(body('<joint axis="0 0 0"/>' + BALL)),
    "no mass": mujoco(body("<joint/>")),
    "negative mass": mujoco(body('<joint/><inertial pos="0 0 0" mass="-1" diaginertia="1 1 1"/>')),
    "impossible inertia": mujoco(body('<joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 9"/>')),
    "name twice": mujoco(body(BALL) + body(BALL)),
    "long name": mujoco(body("<joint/>" + BALL, LONG)),
    "free inside": mujoco(body("<joint/>" + BALL + body("<freejoint/>" + BALL, "b"))),
    "equality of nothing": mujoco(body("<joint/>" + BALL), '<equality><joint joint1="no"/></equality>'),
    "weld of nothing": mujoco(body("<joint/>" + BALL), '<equality><weld body1="no" body2="a"/></equality>'),
    "tendon of nothing": mujoco(BALL, '<tendon><fixed><joint joint="no" coef="1"/></fixed></tendon>'),
    "actuator of nothing": mujoco(BALL, '<actuator><motor joint="no"/></actuator>'),
    "keyframe": mujoco(body("<joint/>" + BALL), '<keyframe><key qpos="1 2 3"/></keyframe>'),
    "class": mujoco(body('<joint class="no"/>' + BALL)),
    "mesh": mujoco(body('<joint/><geom type="mesh" mesh="no"/>')),
    "mesh outside": mujoco(
        body('<joint/><geom type="mesh" mesh="m"/>'), '<asset><mesh name="m" file="/etc/passwd"/></asset>'
    ),
    "include outside": mujoco('<include file="/etc/passwd"/>'),
    "include above": mujoco('<include file="../../../../etc/passwd"/>'),
    "include nothing": mujoco('<include file="no.xml"/>'),
    "include device": mujoco('<include file="/dev/zero"/>'),
    "include no name": mujoco("<include/>"),
    "model outside": mujoco("", '<asset><model name="m" file="/etc/hosts"/></asset>'),
    "file in body": mujoco('<body file="/etc/passwd"/>'),
    "soft": mujoco('<flexcomp name="f" type="grid" count="1000 1000 1000" spacing=".1 .1 .1"/>'),
    "replicate": mujoco('<replicate count="1000000"><body><joint/><geom size="1"/></body></replicate>'),
    "nested replicates": mujoco('<replicate count="100">' * 6 + body(BALL) + "</replicate>" * 6),
    "replicate negative": mujoco('<replicate count="-5"><geom size="1"/></replicate>'),
    "composite": mujoco(
        body('<composite type="cable" count="1000000 1 1" size="1"><geom size=".1"/></composite>')
    ),
    "vertices": mujoco("", '<asset><mesh name="m" builtin="sphere" params="90000"/></asset>'),
    "deep": "<mujoco><worldbody>" + "<body>" * DEEP + "</body>" * DEEP + "</worldbody></mujoco>",
    "many": mujoco("<geom/>" * 300_000),
    "open loop": mujoco(
        body('<joint axis="0 0 1"/><geom size=".1"/><site name="s"/>')
        + '<body name="b" pos="9 0 0"><joint axis="0 0 1"/><geom size=".1"/><site name="t"/></body>',
        '<equality><connect site1="s" site2="t"/></equality>',
    ),
}
MJCF |= {  # numbers that no model can have, and more than is compiled soon
    "friction nan": mujoco(body('<joint/><geom size="0.1" friction="nan 1 1"/>')),
    "gravity nan": mujoco(body("<joint/>" + BALL), '<option gravity="0 0 -NaN"/>'),
    "equality nan": mujoco(
        body('<joint name="j"/>' + BALL), '<equality><joint joint1="j" polycoef="nan 1 0 0 0"/></equality>'
    ),
    "mass inf": mujoco(body('<joint/><inertial pos="0 0 0" mass="inf" diaginertia="1 1 1"/>')),
    "armature nan": mujoco(body('<joint armature="nan"/>' + BALL)),
    "keyframes": mujoco(body("<joint/>" + BALL), "<keyframe>" + "<key/>" * 60_000 + "</keyframe>"),
    "height field": mujoco(
        "", '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'
    ),
    "replicate fraction": mujoco(f'<replicate count="1.5">{BALL}</replicate>'),
    "weld of itself": mujoco(body("<joint/>" + BALL), '<equality><weld body1="a" body2="a"/></equality>'),
    "many joints": mujoco(body("<joint/>" * 300 + BALL)),
}
GEAR = "<gearbox_reference_body>a</gearbox_reference_body><gearbox_ratio>2</gearbox_ratio>"
SDF = {
    "no element": "<sdf",
    "nothing": "<sdf/>",
    "entities": BOMB + sdf(TWO),
    "external entity": OUTSIDE + sdf(TWO),
    "version": sdf(TWO, "1.x"),
    "no name": "<sdf><model/></sdf>",
    "no link name": sdf("<link/>"),
    "long name": sdf(link(LONG)),
    "name twice": sdf(link("a") + link("a")),
    "model twice": "<sdf><model name='a'/><model name='a'/></sdf>",
    "pose": sdf(link("a", "<pose>1 2</pose>")),
    "pose words": sdf(link("a", "<pose>1 2 3 4 5 x</pose>")),
    "pose nan": sdf(link("a", "<pose>nan 2 3 4 5 6</pose>")),
    "pose huge": sdf(link("a", "<pose>1e300 2 3 4 5 6</pose>")),
    "relative": sdf(link("a", '<pose relative_to="no"/>')),
    "relative circle": sdf(link("a", '<pose relative_to="b"/>') + link("b", '<pose relative_to="a"/>')),
    "frame circle": sdf(TWO + '<frame name="f" attached_to="f"/>'),
    "joint type": sdf(TWO + sdf_joint(kind="hinge")),
    "joint parent": sdf(link("b") + sdf_joint()),
    "joint child": sdf(link("a") + sdf_joint()),
    "no child": sdf(TWO + '<joint name="j" type="ball"><parent>a</parent></joint>'),
    "no axis": sdf(TWO + sdf_joint("")),
    "axis": sdf(TWO + sdf_joint("<axis><xyz>0 0 0</xyz></axis>")),
    "expressed": sdf(TWO + sdf_joint('<axis><xyz expressed_in="no">0 0 1</xyz></axis>')),
    "damping": sdf(TWO + sdf_joint("<axis><dynamics><damping>-1</damping></dynamics></axis>")),
    "gearbox": sdf(
        TWO
        + sdf_joint(
            "<gearbox_reference_body>a</gearbox_reference_body><gearbox_ratio>2</gearbox_ratio>", "gearbox"
        )
    ),
    "screw": sdf(TWO + sdf_joint(kind="screw")),
    "mimic": sdf(TWO + sdf_joint('<axis><mimic joint="no"/></axis>')),
    "mass": sdf(link("a", "<inertial><mass>-1</mass></inertial>")),
    "auto": sdf(link("a", '<inertial auto="true"/>')),
    "include": sdf("<include><uri>model://no</uri></include>"),
    "include outside": sdf("<include><uri>file:///etc/passwd</uri></include>"),
    "include fetched": sdf("<include><uri>https://fuel.example/model</uri></include>"),
    "include no uri": sdf("<include/>"),
    "nested": sdf("<model name='x'>" * 40 + link("a") + "</model>" * 40),
    "many": sdf("".join(link(f"l{k}") for k in range(5000))),
    "reserved": sdf(link("world")),
}
SDF |= {
    "mass words": sdf(link("a", "<inertial><mass>0x1p3</mass></inertial>")),
    "joint to itself": sdf(
        link("a") + '<joint name="j" type="fixed"><parent>a</parent><child>a</child></joint>'
    ),
    "world below": sdf(
        link("a") + '<joint name="j" type="fixed"><parent>a</parent><child>world</child></joint>'
    ),
    "joint and link circle": sdf(
        '<link name="a"><pose relative_to="j"/></link><link name="b"/><joint name="j" type="fixed"><parent>b</parent>'
        '<child>a</child><pose relative_to="a"/></joint>'
    ),
    "all to all": sdf(
        "".join(link(f"l{k}") for k in range(40))
        + "".join(
            f'<joint name="j{i} {k}" type="ball"><parent>l{i}</parent><child>l{k}</child></joint>'
            for i in range(40)
            for k in range(i + 1, 40)
        )
    ),
    "deep plugin": sdf("<plugin>" + "<a>" * 300 + "</a>" * 300 + "</plugin>"),
    "merge": sdf('<include merge="true"><uri>file.sdf</uri></include>'),
    "itself": sdf("<include><uri>file.sdf</uri></include>"),
}
URDF = {
    "no element": "<robot",
    "no links": robot(""),
    "entities": BOMB + robot(TWO),
    "external entity": OUTSIDE + robot(TWO),
    "no joint": robot(TWO),
    "joint type": robot(TWO + urdf_joint(kind="hinge")),
    "joint kind": robot(TWO + urdf_joint(kind="rod")),
    "parent": robot(link("b") + urdf_joint()),
    "axis": robot(TWO + urdf_joint('<axis xyz="0 0 0"/>')),
    "pitch": robot(TWO + urdf_joint(kind="helical")),
    "circle": robot(
        TWO + urdf_joint() + '<joint name="k" type="fixed"><parent link="b"/><child link="a"/></joint>'
    ),
    "mass": robot(link("a", '<inertial><mass value="x"/><inertia/></inertial>')),
    "limit": robot(TWO + urdf_joint('<limit lower="2" upper="1"/>')),
    "mimic": robot(TWO + urdf_joint('<mimic joint="j"/>')),
    "loop": robot(TWO + urdf_joint() + '<loop name="l" type="fixed"/>'),
    "loop kind": robot(
        TWO + urdf_joint() + '<loop name="l" type="x"><predecessor link="a"/><successor link="b"/></loop>'
    ),
    "coupling": robot(
        TWO + urdf_joint() + '<coupling name="c"><term joint="no" coefficient="1"/></coupling>'
    ),
    "xacro": robot(TWO + "<xacro:macro/>"),
    "long name": robot(link(LONG)),
    "deep": robot("<gazebo>" * 200 + "</gazebo>" * 200),
    "empty": "",
    "control character": robot(link("a\x1b[31m")),
    "encoding": '<?xml version="1.0" encoding="klingon"?>' + robot(TWO),
    "two roots": robot(TWO) * 2,
    "page": "<!doctype html><html><body>404</body></html>",
    "mass nan": robot(link("a", '<inertial><mass value="nan"/></inertial>')),
    "mass digits": robot(link("a", '<inertial><mass value="' + "1" * 90_000 + '"/></inertial>')),
    "far": robot(TWO + urdf_joint('<origin xyz="1e308 0 0"/>')),
    "mimic circle": robot(
        TWO
        + link("c")
        + urdf_joint('<mimic joint="k"/>')
        + '<joint name="k" type="revolute"><parent link="b"/>'
        '<child link="c"/><mimic joint="j"/></joint>'
    ),
    "own parent": robot(
        link("a") + '<joint name="j" type="fixed"><parent link="a"/><child link="a"/></joint>'
    ),
    "two parents": robot(
        TWO
        + link("c")
        + urdf_joint()
        + '<joint name="k" type="fixed"><parent link="c"/><child link="b"/></joint>'
    ),
    "link twice": robot(TWO + link("a") + urdf_joint()),
    "joint twice": robot(TWO + urdf_joint() + urdf_joint()),
    "comment": robot(f"<!--{'x' * 2_000_000}-->"),
    "parameter entity": '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x"> %p;]>' + robot(TWO),
    "long chain": robot(
        "".join(link(f"l{k}") for k in range(5001))
        + "".join(
            f'<joint name="j{k}" type="fixed"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
            for k in range(5000)
        )
    ),
}
FILES = {
    f"{kind} {name}": text
    for kind, files in (("mjcf", MJCF), ("sdf", SDF), ("urdf", URDF))
    for name, text in files.items()
}
