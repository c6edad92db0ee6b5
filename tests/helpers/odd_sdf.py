"""Valid but unusual SDF files, written by hand: each a text with the files that it includes."""

from __future__ import annotations

IN = "<inertial><pose>{p}</pose><mass>{m}</mass><inertia><ixx>0.5</ixx><ixy>0.02</ixy><ixz>-0.03</ixz><iyy>0.6</iyy><iyz>0.04</iyz><izz>0.4</izz></inertia></inertial>"


def L(n: str, pose: str = "", m: float = 1, ip: str = "0.1 0.2 0.3 0.4 0.5 0.6", more: str = "") -> str:
    return f'<link name="{n}">{pose}{IN.format(p=ip, m=m)}{more}</link>'


def P(v: str, rel: str = "", **k: str) -> str:
    a = f' relative_to="{rel}"' if rel else ""
    return f"<pose{a}" + "".join(f' {x}="{y}"' for x, y in k.items()) + f">{v}</pose>"


def J(n: str, t: str, p: str, c: str, pose: str = "", ax: str = "0 0 1", e: str = "", more: str = "") -> str:
    ex = f' expressed_in="{e}"' if e else ""
    a = f"<axis><xyz{ex}>{ax}</xyz>{more}</axis>" if ax else ""
    return f'<joint name="{n}" type="{t}">{pose}<parent>{p}</parent><child>{c}</child>{a}</joint>'


def M(body: str, n: str = "m", a: str = "", pose: str = "") -> str:
    return f'<model name="{n}" {a}>{pose}{body}</model>'


def S(body: str, v: str = "1.9") -> str:
    return f'<sdf version="{v}">{body}</sdf>'


def W(body: str, v: str = "1.9") -> str:
    return S(f'<world name="w">{body}</world>', v)


SDF: dict[str, tuple[str, dict[str, str]]] = {}
a = L("a")
b = L("b", P("0.5 0.1 0 0.3 0.2 0.1"), 2)
c = L("c", P("0.2 0 0.4 -0.3 0.2 0.1"), 0.5)
SDF["two links"] = (S(M(a + b + J("j", "revolute", "a", "b"))), {})
SDF["joint pose"] = (S(M(a + b + J("j", "revolute", "a", "b", P("0.1 0.2 0.3 0.4 0.5 0.6"), "1 2 0"))), {})
SDF["joint pose relative to parent"] = (
    S(M(a + b + J("j", "revolute", "a", "b", P("0.1 0.2 0.3 0.4 0.5 0.6", "a"), "1 2 0"))),
    {},
)
SDF["joint pose relative to __model__"] = (
    S(
        M(
            a + b + J("j", "revolute", "a", "b", P("0.1 0.2 0.3 0.4 0.5 0.6", "__model__"), "1 2 0"),
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["axis expressed in frame"] = (
    S(
        M(
            a
            + b
            + '<frame name="f" attached_to="b">'
            + P("1 0 0 1 1 1")
            + "</frame>"
            + J("j", "revolute", "a", "b", P("0.1 0.2 0.3 0.4 0.5 0.6"), "1 2 0", "f")
        )
    ),
    {},
)
SDF["axis expressed in __model__"] = (
    S(
        M(
            a + b + J("j", "prismatic", "a", "b", P("0 0 0 1 0 0"), "1 2 0", "__model__"),
            pose=P("0 0 0 0 0 1"),
        )
    ),
    {},
)
SDF["axis expressed in other joint"] = (
    S(
        M(
            a
            + b
            + c
            + J("k", "revolute", "a", "b", P("0 0 0 0.5 0 0"), "0 1 0", "j")
            + J("j", "revolute", "b", "c", P("0 0 0 0 0.7 0"))
        )
    ),
    {},
)
SDF["link relative to frame chain"] = (
    S(
        M(
            L("a", P("1 0 0 0 0 0.5", "f3"))
            + b
            + '<frame name="f1" attached_to="b">'
            + P("0 1 0 0.1 0 0")
            + '</frame><frame name="f2" attached_to="f1">'
            + P("0 0 1 0 0.2 0")
            + '</frame><frame name="f3">'
            + P("1 1 1 0 0 0.3", "f2")
            + "</frame>"
            + J("j", "revolute", "b", "a")
        )
    ),
    {},
)
SDF["frame attached to joint"] = (
    S(
        M(
            a
            + b
            + '<frame name="f" attached_to="j">'
            + P("0 1 0 0.1 0 0")
            + "</frame>"
            + J("j", "revolute", "a", "b", P("0.1 0 0 0 0 1"))
            + L("c", P("1 0 0 0 0 0", "f"))
            + J("k", "revolute", "b", "c")
        )
    ),
    {},
)
SDF["frame as parent and child"] = (
    S(
        M(
            a
            + b
            + '<frame name="fa" attached_to="a">'
            + P("0 1 0 0.1 0 0")
            + '</frame><frame name="fb" attached_to="b">'
            + P("0 1 0 0.1 0.5 0")
            + "</frame>"
            + J("j", "revolute", "fa", "fb", P("0.3 0 0 0 0 0.2"))
        )
    ),
    {},
)
SDF["frame pose relative_to other than attached"] = (
    S(
        M(
            a
            + b
            + '<frame name="f" attached_to="a">'
            + P("0 1 0 0.1 0 0", "b")
            + "</frame>"
            + L("c", P("1 0 0 0 0 0", "f"))
            + J("j", "revolute", "a", "b")
            + J("k", "revolute", "a", "c")
        )
    ),
    {},
)
SDF["link relative to joint"] = (
    S(
        M(
            a
            + b
            + J("j", "revolute", "a", "b", P("0 0.2 0 0 0.4 0", "a"))
            + L("c", P("1 0 0 0 0 0.2", "j"))
            + J("k", "revolute", "b", "c")
        )
    ),
    {},
)
SDF["world joint"] = (
    S(
        M(
            a + b + J("w", "fixed", "world", "a", ax="") + J("j", "revolute", "a", "b"),
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["world joint revolute"] = (
    S(M(a + J("w", "revolute", "world", "a", P("1 0 0 0.3 0 0"), "0 1 1"), pose=P("1 2 3 0.1 0.2 0.3"))),
    {},
)
SDF["degrees"] = (
    S(
        M(
            L("a", P("1 2 3 30 -45 60", degrees="true"))
            + b
            + J("j", "revolute", "a", "b", P("0 0 0 90 0 0", degrees="true"))
        )
    ),
    {},
)
SDF["quat"] = (
    S(M(L("a", P("1 2 3 0.1 0.2 0.3 0.9", rotation_format="quat_xyzw")) + b + J("j", "revolute", "a", "b"))),
    {},
)
SDF["canonical link second, placement_frame link"] = (
    S(
        M(
            a + b + J("j", "revolute", "a", "b"),
            a='canonical_link="b" placement_frame="b"',
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["placement_frame frame"] = (
    S(
        M(
            a
            + b
            + '<frame name="grip" attached_to="b">'
            + P("0.3 0 0 0 0.5 0")
            + "</frame>"
            + J("j", "revolute", "a", "b"),
            a='placement_frame="grip"',
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["world frames"] = (
    W(
        '<frame name="F">'
        + P("1 0 0 0 0 1")
        + '</frame><frame name="G" attached_to="F">'
        + P("0 1 0 0.3 0 0")
        + "</frame>"
        + M(a + b + J("j", "revolute", "a", "b"), pose=P("1 2 3 0.1 0.2 0.3", "G"))
    ),
    {},
)
SDF["model relative to model"] = (
    W(
        M(a + b + J("j", "revolute", "a", "b"), "m1", pose=P("1 2 3 0.1 0.2 0.3"))
        + M(c, "m2", pose=P("0 0 1 0 0 1", "m1"))
    ),
    {},
)
SDF["model relative to link of model"] = (
    W(
        M(a + b + J("j", "revolute", "a", "b"), "m1", pose=P("1 2 3 0.1 0.2 0.3"))
        + M(c, "m2", pose=P("0 0 1 0 0 1", "m1::b"))
    ),
    {},
)
SDF["joint between models in world"] = (
    W(
        M(a, "m1", pose=P("1 2 3 0.1 0.2 0.3"))
        + M(b, "m2", pose=P("0 0 1 0 0 1"))
        + J("j", "revolute", "m1::a", "m2::b", P("0.1 0 0 0.3 0 0"), "0 1 0")
    ),
    {},
)
SDF["joint world to model"] = (
    W(
        M(a, "m1", pose=P("1 2 3 0.1 0.2 0.3"))
        + J("j", "revolute", "world", "m1::a", P("0.1 0 0 0.3 0 0"), "0 1 0")
    ),
    {},
)
SDF["nested"] = (
    S(
        M(
            a
            + M(b + c + J("k", "revolute", "b", "c"), "n", pose=P("0 1 0 0.5 0 0"))
            + J("j", "revolute", "a", "n::b", P("0 0 0 0 0.3 0"), "0 1 0"),
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["nested placement_frame"] = (
    S(
        M(
            a
            + M(b + c + J("k", "revolute", "b", "c"), "n", a='placement_frame="c"', pose=P("0 1 0 0.5 0 0"))
            + J("j", "revolute", "a", "n::b"),
            pose=P("1 2 3 0.1 0.2 0.3"),
        )
    ),
    {},
)
SDF["nested relative to link, twice"] = (
    S(
        M(
            a
            + M(
                b + M(c, "o", pose=P("0.1 0 0 0 0 0.2", "b")) + J("k", "revolute", "b", "o::c"),
                "n",
                pose=P("0 1 0 0.5 0 0", "a"),
            )
            + J("j", "revolute", "a", "n::b", P("0 0 0 0 0 0", "n::o::c"), "1 0 0", "n::o")
        )
    ),
    {},
)
SDF["nested frame of outer in inner names"] = (
    S(
        M(
            a
            + '<frame name="f" attached_to="n::b">'
            + P("0 0 0.2 0.1 0 0")
            + "</frame>"
            + M(b, "n", pose=P("0 1 0 0.5 0 0"))
            + L("d", P("0.3 0 0 0 0 0", "f"))
            + J("j", "fixed", "a", "n::b", ax="")
            + J("k", "revolute", "n::b", "d")
        )
    ),
    {},
)
SDF["parent is nested model name"] = (
    S(M(a + M(b, "n", pose=P("0 1 0 0.5 0 0")) + J("j", "revolute", "a", "n"))),
    {},
)
SDF["universal"] = (
    S(
        M(
            a
            + b
            + '<joint name="j" type="universal"><pose>0.1 0 0 0.2 0 0</pose><parent>a</parent><child>b</child><axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2></joint>'
        )
    ),
    {},
)
SDF["universal expressed"] = (
    S(
        M(
            a
            + b
            + '<joint name="j" type="universal"><pose>0.1 0 0 0.2 0 0</pose><parent>a</parent><child>b</child><axis><xyz expressed_in="__model__">1 0 0</xyz></axis><axis2><xyz expressed_in="__model__">0 0 1</xyz></axis2></joint>'
        )
    ),
    {},
)
SDF["ball and screw"] = (
    S(
        M(
            a
            + b
            + c
            + J("j", "ball", "a", "b", ax="")
            + '<joint name="k" type="screw"><parent>b</parent><child>c</child><axis><xyz>0 1 0</xyz></axis><screw_thread_pitch>0.1</screw_thread_pitch></joint>'
        )
    ),
    {},
)
SDF["axis default"] = (
    S(
        M(
            a
            + b
            + '<joint name="j" type="revolute"><pose>0 0 0 1 0 0</pose><parent>a</parent><child>b</child><axis/></joint>'
        )
    ),
    {},
)
SDF["axis not normalised"] = (S(M(a + b + J("j", "revolute", "a", "b", ax="3 0 4"))), {})
SDF["whitespace"] = (
    S(M(L("a", P("\n 1\t2 3\n0.1 0.2   0.3 ")) + b + J("j", "revolute", " a ", "\nb\n"))),
    {},
)
SDF["comments"] = (
    S(
        "<!-- c -->"
        + M(
            "<!-- c -->"
            + a.replace("<mass>", "<!-- m --><mass><!-- n -->")
            + b
            + J("j", "revolute", "a", "b")
        )
    ),
    {},
)
SDF["empty pose"] = (
    S(M(L("a", "<pose/>") + L("b", "<pose></pose>", 2) + J("j", "revolute", "a", "b", "<pose/>"))),
    {},
)
SDF["no inertial, continuous"] = (
    S(
        M(
            '<link name="a"/><link name="b"><pose>1 0 0 0 0 1</pose><inertial/></link>'
            + J("j", "continuous", "a", "b")
        )
    ),
    {},
)
SDF["scientific"] = (
    S(M(L("a", P("1e-1 +2.0E+00 .3 -1.e-1 0 0")) + b + J("j", "revolute", "a", "b", ax="1e-3 0 1E-3"))),
    {},
)
SDF["static part of world"] = (
    W(
        M(a, "s", "", P("0 0 1 0 0 0")).replace("<link", "<static>true</static><link", 1)
        + M(b, "m2", pose=P("0 0 1 0 0 1"))
    ),
    {},
)
SDF["joint child above parent order"] = (
    S(M(c + b + a + J("k", "revolute", "b", "c") + J("j", "prismatic", "a", "b", ax="0 1 0"))),
    {},
)
inc = (
    '<sdf version="1.9"><model name="arm" placement_frame="tip"><pose>9 9 9 0 0 0</pose>'
    + L("base")
    + L("tipl", P("0 0 1 0.2 0 0"))
    + '<frame name="tip" attached_to="tipl"><pose>0 0 0.1 0 0.1 0</pose></frame>'
    + J("aj", "revolute", "base", "tipl")
    + "</model></sdf>"
)
SDF["include"] = (
    W("<include><uri>arm.sdf</uri><name>x</name>" + P("1 2 3 0.1 0.2 0.3") + "</include>"),
    {"arm.sdf": inc},
)
SDF["include placement override"] = (
    W(
        "<include><uri>arm.sdf</uri><name>x</name><placement_frame>base</placement_frame>"
        + P("1 2 3 0.1 0.2 0.3")
        + "</include>"
    ),
    {"arm.sdf": inc},
)
SDF["include without pose"] = (W("<include><uri>arm.sdf</uri></include>"), {"arm.sdf": inc})
SDF["include in model with joint"] = (
    S(
        M(
            a
            + "<include><uri>arm.sdf</uri><name>x</name>"
            + P("0 0 1 0 0 0", "a")
            + "</include>"
            + J("m", "revolute", "a", "x::base", P("0 0 0 0 1 0", "x::tip"), "0 1 0", "x::tipl")
        )
    ),
    {"arm.sdf": inc},
)
SDF["include twice"] = (
    W(
        "<include><uri>arm.sdf</uri><name>x</name></include><include><uri>arm.sdf</uri><name>y</name>"
        + P("1 0 0 0 0 0", "x::tip")
        + "</include>"
    ),
    {"arm.sdf": inc},
)
