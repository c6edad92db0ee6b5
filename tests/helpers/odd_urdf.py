"""Valid but unusual URDF files, written by hand."""

from __future__ import annotations

DIAGONAL = 'ixx="0.1" ixy="0" ixz="0" iyy="0.12" iyz="0" izz="0.14"'
I = '<inertial><mass value="{m}"/><origin xyz="{x}" rpy="{r}"/><inertia {i}/></inertial>'


def inertial(m: object = 1.0, x: str = "0.1 0.2 0.3", r: str = "0 0 0", i: str = DIAGONAL) -> str:
    return I.format(m=m, x=x, r=r, i=i)


def robot(body: str, attributes: str = 'name="odd"') -> str:
    return f"<robot {attributes}>{body}</robot>"


def link(name: str, *numbers: object, **words: str) -> str:
    return f'<link name="{name}">{inertial(*numbers, **words)}</link>'


def joint(
    n: str,
    t: str,
    p: str,
    c: str,
    o: str = 'xyz="0.3 0 0.1" rpy="0.1 0.2 0.3"',
    ax: str | None = "0 0 1",
    more: str = "",
) -> str:
    a = f'<axis xyz="{ax}"/>' if ax else ""
    lim = (
        '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
        if t in ("revolute", "prismatic") and "<limit" not in more
        else ""
    )
    return f'<joint name="{n}" type="{t}"><parent link="{p}"/><child link="{c}"/><origin {o}/>{a}{lim}{more}</joint>'


B = '<link name="base"/>'
CH = B + link("a") + link("b", 2.0) + link("c", 0.5)
C2 = B + link("a") + link("b", 2.0)
full = 'ixx="0.5" ixy="0.02" ixz="-0.03" iyy="0.6" iyz="0.04" izz="0.4"'
URDF: dict[str, str] = {}
URDF["rotated inertial"] = robot(
    B + link("a", r="0.5 -1.2 2.3", i=full) + joint("j", "revolute", "base", "a")
)
URDF["principal but rotated by gimbal lock"] = robot(
    B
    + link("a", r="0.3 1.5707963267948966 -0.7", i=full)
    + joint("j", "revolute", "base", "a", o='rpy="0.3 1.5707963267948966 -0.7" xyz="1 2 3"')
)
URDF["axis not normalised"] = robot(B + link("a") + joint("j", "revolute", "base", "a", ax="1 2 3"))
URDF["axis tiny"] = robot(B + link("a") + joint("j", "revolute", "base", "a", ax="1e-5 2e-5 0"))
URDF["axis huge"] = robot(B + link("a") + joint("j", "prismatic", "base", "a", ax="1e5 2e5 -3e5"))
URDF["no axis: x"] = robot(B + link("a") + joint("j", "revolute", "base", "a", ax=None))
URDF["axis xyz -0"] = robot(B + link("a") + joint("j", "revolute", "base", "a", ax="-0 -1 -0.0"))
URDF["no origin"] = robot(
    B
    + link("a")
    + joint("j", "continuous", "base", "a").replace('<origin xyz="0.3 0 0.1" rpy="0.1 0.2 0.3"/>', "")
)
URDF["origin without rpy, inertial without origin"] = robot(
    B
    + '<link name="a"><inertial><mass value="2"/><inertia ixx="1" ixy="0.1" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
    + joint("j", "continuous", "base", "a", o='xyz="1 2 3"')
)
URDF["origin rpy only"] = robot(B + link("a") + joint("j", "continuous", "base", "a", o='rpy="1 2 3"'))
URDF["angles beyond 2 pi"] = robot(B + link("a") + joint("j", "continuous", "base", "a", o='rpy="10 -20 30"'))
URDF["scientific"] = robot(
    B
    + link(
        "a",
        m="1.5E+0",
        x="1e-1 +2.0e-01 .3",
        i='ixx="1E-1" ixy="0." ixz="-0" iyy="+.12" iyz="0e0" izz="1.4e-1"',
    )
    + joint("j", "revolute", "base", "a", o='xyz="3.e-1 0 1E-1"')
)
URDF["comments everywhere"] = robot(
    "<!-- x -->"
    + B
    + '<!-- <link name="z"/> -->'
    + link("a").replace("<mass", "<!-- m --><mass")
    + '<!-- --><joint name="j" type="revolute"><!-- p --><parent link="base"/><child link="a"/><!-- o --><origin xyz="1 2 3"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
)
URDF["joints before links"] = robot(
    joint("k", "revolute", "a", "b", ax="0 1 0")
    + joint("j", "continuous", "base", "a")
    + link("b", 2.0)
    + link("a")
    + B
)
URDF["children order reversed"] = robot(
    '<joint type="revolute" name="j"><limit velocity="1" effort="1" upper="1" lower="-1"/><axis xyz="0 1 0"/><origin rpy="0.1 0.2 0.3" xyz="1 2 3"/><child link="a"/><parent link="base"/></joint>'
    + '<link name="a"><inertial><inertia izz="0.1" iyz="0" iyy="0.1" ixz="0" ixy="0" ixx="0.1"/><origin xyz="1 0 0"/><mass value="1"/></inertial></link>'
    + B
)
URDF["planar"] = robot(B + link("a") + joint("j", "planar", "base", "a", ax="0 0 1"))
URDF["planar tilted origin"] = robot(
    B
    + link("a")
    + joint("j", "planar", "base", "a", ax="0 0 1", o='xyz="1 2 3" rpy="0.4 0.5 0.6"')
    + link("b", 2.0)
    + joint("k", "revolute", "a", "b", ax="1 1 0")
)
URDF["floating below revolute"] = robot(
    B
    + link("a")
    + joint("j", "revolute", "base", "a")
    + link("b", 2.0)
    + joint("k", "floating", "a", "b", ax=None)
)
URDF["fixed chains with inertia"] = robot(
    B
    + link("a")
    + joint("f1", "fixed", "base", "a", ax=None)
    + link("b", 2.0)
    + joint("j", "revolute", "a", "b")
    + link("c", 0.5)
    + joint("f2", "fixed", "b", "c", ax=None)
    + link("d", 0.25)
    + joint("f3", "fixed", "c", "d", ax="1 0 0")
)
URDF["base with inertia"] = robot(link("base", 5.0) + link("a") + joint("j", "revolute", "base", "a"))
URDF["world link root"] = robot('<link name="world"/>' + link("a") + joint("j", "revolute", "world", "a"))
URDF["mimic"] = robot(
    C2
    + joint("j", "revolute", "base", "a")
    + joint("k", "revolute", "a", "b", ax="0 1 0", more='<mimic joint="j" multiplier="-2.5" offset="0.3"/>')
)
URDF["mimic default multiplier"] = robot(
    C2
    + joint("j", "revolute", "base", "a")
    + joint("k", "revolute", "a", "b", ax="0 1 0", more='<mimic joint="j"/>')
)
URDF["mimic of mimic"] = robot(
    CH
    + joint("j", "revolute", "base", "a")
    + joint("k", "revolute", "a", "b", ax="0 1 0", more='<mimic joint="j" multiplier="2" offset="0.1"/>')
    + joint("l", "revolute", "b", "c", ax="1 1 0", more='<mimic joint="k" multiplier="-3" offset="0.2"/>')
)
URDF["mimic before its leader"] = robot(
    CH
    + joint("l", "revolute", "b", "c", ax="1 1 0", more='<mimic joint="k" multiplier="-3" offset="0.2"/>')
    + joint("k", "revolute", "a", "b", ax="0 1 0", more='<mimic joint="j" multiplier="2" offset="0.1"/>')
    + joint("j", "revolute", "base", "a")
)
URDF["mimic of prismatic by revolute"] = robot(
    C2
    + joint("j", "prismatic", "base", "a")
    + joint("k", "revolute", "a", "b", ax="0 1 0", more='<mimic joint="j" multiplier="7"/>')
)
URDF["mimic siblings"] = robot(
    CH
    + joint("j", "revolute", "base", "a")
    + joint("k", "revolute", "base", "b", ax="0 1 0", more='<mimic joint="j" multiplier="1"/>')
    + joint("l", "revolute", "base", "c", ax="1 1 0", more='<mimic joint="j" multiplier="-1"/>')
)
URDF["safety_controller and calibration"] = robot(
    B
    + link("a")
    + joint(
        "j",
        "revolute",
        "base",
        "a",
        more='<limit lower="-3" upper="3" effort="1" velocity="1"/><safety_controller soft_lower_limit="-2" soft_upper_limit="2" k_position="100" k_velocity="1.5"/><calibration rising="0.3" falling="0.1"/>',
    )
)
URDF["dynamics"] = robot(
    B + link("a") + joint("j", "revolute", "base", "a", more='<dynamics damping="0.7" friction="0.2"/>')
)
URDF["limit only effort"] = robot(
    B + link("a") + joint("j", "continuous", "base", "a", more='<limit effort="5" velocity="3"/>')
)
URDF["revolute reversed limits 0 0"] = robot(
    B
    + link("a")
    + joint("j", "revolute", "base", "a", more='<limit lower="0" upper="0" effort="5" velocity="3"/>')
)
URDF["lower only"] = robot(
    B + link("a") + joint("j", "revolute", "base", "a", more='<limit lower="-0.5" effort="5" velocity="3"/>')
)
URDF["namespaces"] = robot(
    '<gazebo xmlns:x="y"/>' + B + link("a") + joint("j", "revolute", "base", "a"),
    'name="odd" xmlns:xacro="http://www.ros.org/wiki/xacro" version="1.0"',
)
URDF["xml declaration and doctype comment"] = '<?xml version="1.0" ?>\n<!-- c -->\n' + robot(
    B + link("a") + joint("j", "revolute", "base", "a")
)
URDF["utf8 names"] = robot('<link name="база"/>' + link("рука") + joint("сустав", "revolute", "база", "рука"))
URDF["names with spaces and slashes"] = robot(
    '<link name="my base"/>'
    + link("arm/left link.1")
    + joint("joint: 1 [a]", "revolute", "my base", "arm/left link.1")
)
URDF["massless tips"] = robot(
    B
    + link("a")
    + joint("j", "revolute", "base", "a")
    + '<link name="tip"/>'
    + joint("f", "fixed", "a", "tip", ax=None)
    + '<link name="tip2"/>'
    + joint("f2", "fixed", "tip", "tip2", ax=None)
)
URDF["zero mass inertial tag"] = robot(
    B
    + link("a")
    + joint("j", "revolute", "base", "a")
    + '<link name="tip"><inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>'
    + joint("f", "fixed", "a", "tip", ax=None)
)
URDF["tiny masses"] = robot(
    B
    + link(
        "a", m="1e-9", i='ixx="1e-13" ixy="0" ixz="0" iyy="1.2e-13" iyz="0" izz="1.4e-13"', x="1e-3 2e-3 0"
    )
    + joint("j", "revolute", "base", "a", o='xyz="1e-3 0 0"')
)
URDF["large"] = robot(
    B
    + link("a", m="1e6", i='ixx="1e7" ixy="0" ixz="0" iyy="1.2e7" iyz="0" izz="1.4e7"', x="100 200 0")
    + joint("j", "revolute", "base", "a", o='xyz="1e3 0 0"')
)
URDF["point mass"] = robot(
    B + link("a", i='ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"') + joint("j", "revolute", "base", "a")
)
URDF["visuals between"] = robot(
    '<material name="red"><color rgba="1 0 0 1"/></material>'
    + B
    + link("a").replace(
        "</link>",
        '<visual><geometry><box size="1 2 3"/></geometry><material name="red"/></visual><collision name="c"><origin xyz="1 0 0"/><geometry><cylinder radius="0.1" length="2"/></geometry></collision><collision><geometry><sphere radius="1"/></geometry></collision></link>',
    )
    + joint("j", "revolute", "base", "a")
)
URDF["deep chain of fixed with rotations"] = robot(
    B
    + "".join(
        f'<link name="l{k}"/>'
        + joint(
            f"f{k}",
            "fixed",
            "base" if k == 0 else f"l{k - 1}",
            f"l{k}",
            ax=None,
            o=f'xyz="0.{k} 0.1 -0.2" rpy="0.{k} -1.1 2.{k}"',
        )
        for k in range(8)
    )
    + link("a")
    + joint("j", "revolute", "l7", "a", ax="1 0 1")
)
URDF["branching"] = robot(
    B
    + "".join(
        link(f"l{k}", 1.0 + k)
        + joint(
            f"j{k}",
            ("revolute", "prismatic", "continuous")[k % 3],
            "base" if k < 2 else f"l{(k - 1) // 2}",
            f"l{k}",
            ax=("0 0 1", "1 0 0", "0.6 0 0.8")[k % 3],
        )
        for k in range(9)
    )
)
URDF["continuous with limit attr lower upper"] = robot(
    B
    + link("a")
    + joint("j", "continuous", "base", "a", more='<limit lower="-1" upper="1" effort="5" velocity="3"/>')
)
URDF["duplicate spaces in rpy, hex?"] = robot(
    B + link("a") + joint("j", "revolute", "base", "a", o='xyz="0.3  0  0.1" rpy="0.10  0.20 0.30"')
)

URDF["floating on a heavy base"] = robot(
    link("base", 3.0) + link("a") + joint("j", "floating", "base", "a", ax=None)
)
URDF["products of inertia only"] = robot(
    link("base", 3.0)
    + link("a", i='ixx="1" ixy="0.3" ixz="0.2" iyy="1" iyz="-0.4" izz="1"')
    + joint("j", "floating", "base", "a", ax=None)
)
