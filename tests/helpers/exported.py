"""Models with one feature each, for files that are written and read again, and what differs between two
models.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

import numpy as np

import linkwork as lw
from linkages import LOOP_KINDS, linkage
from linkwork.errors import ModelError
from linkwork.formats.mjcf_equalities import polynomial
from linkwork.joints import (
    Cylindrical,
    Free,
    Gimbal,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from linkwork.mechanism import Actuator, ContactPair, Coupling, Geometry, ImplicitConstraint, Loop
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

KINDS: dict[str, Joint] = {
    "revolute": Revolute((0.3, -0.2, 1.0)),
    "prismatic": Prismatic((0, 1, 0)),
    "free": Free(),
    "spherical": Spherical(),
    "universal": Universal(),
    "gimbal": Gimbal(),
    "cylindrical": Cylindrical((1, 1, 0)),
    "helical": Helical(0.1, (0, 1, 1)),
    "planar": Planar((0, 1, 0)),
    "planar askew": Planar((0.3, -0.2, 1.0)),
}
PLACES: dict[str, Pose] = {
    "at the parent": Pose.identity(),
    "moved": Pose.translation(np.array([0.1, -0.2, 0.3])),
    "turned": Pose.from_xyz_rpy((0.3, 0.1, -0.2), (0.4, -1.1, 2.0)),
    "upright": Pose.from_xyz_rpy((0.3, 0.1, -0.2), (0.4, math.pi / 2, 0.2)),
    "nearly upright": Pose.from_xyz_rpy((0.3, 0.1, -0.2), (0.4, math.pi / 2 - 3e-10, 0.2)),
    "reversed": Pose.from_xyz_rpy((0.0, 0.0, 0.5), (math.pi, 0.0, 0.0)),
}
INF = math.inf
LIMITS: dict[str, dict[str, float]] = {
    "none": {},
    "both": {"lower": -2.0, "upper": 1.5},
    "lower only": {"lower": -2.0},
    "upper only": {"upper": 1.5},
    "zero": {"lower": 0.0, "upper": 0.0},
    "zero width": {"lower": 0.7, "upper": 0.7},
    "lower zero": {"lower": 0.0},
    "effort only": {"max_effort": 3.0},
    "no effort": {"max_effort": 0.0},
    "velocity only": {"max_velocity": 4.0},
    "all": {"lower": -0.1, "upper": 0.2, "max_effort": 3.0, "max_velocity": 4.0},
}
PASSIVE: dict[str, dict[str, float]] = {
    "damping": {"damping": 0.2},
    "friction": {"friction": 0.3},
    "armature": {"armature": 0.05},
    "spring": {"stiffness": 3.0},
    "spring at rest elsewhere": {"stiffness": 3.0, "rest": 0.4},
    "rest without a spring": {"rest": 0.4},
    "all": {"damping": 0.2, "friction": 0.3, "armature": 0.05, "stiffness": 3.0, "rest": -0.4},
}


def chain(kind: Joint, place: Pose = PLACES["turned"], **words: Any) -> ModelBuilder:
    """A body on the world by one kind of joint, with a hinged body on it, and another that is fixed to it."""
    b = ModelBuilder("chain", gravity=(0.3, -0.2, -9.0))
    b.add_body(
        "a",
        mass=1.3,
        center=(0.1, -0.05, 0.02),
        inertia=[[0.1, 0.01, 0.0], [0.01, 0.12, 0.02], [0.0, 0.02, 0.15]],
    )
    b.add_body("b", mass=0.7, center=(0.0, 0.2, 0.1), inertia=(0.1, 0.12, 0.15))
    b.add_body("tool", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.add_joint("j", kind, parent="world", child="a", place=place, **words)
    b.add_joint("hold", lw.joints.Fixed(), parent="a", child="tool", rpy=(1, 2, 0.5))
    b.add_joint("k", Revolute((0, 1, 0)), parent="tool", child="b", xyz=(0.2, 0, 0.1))
    return b


def _several(kind: Joint, words: dict[str, float]) -> dict[str, Any]:
    """The same words for each velocity, different ones where that is allowed."""
    found: dict[str, Any] = {}
    for word, value in words.items():
        if kind.nv == 1:
            found[word] = value
        elif word in ("stiffness", "rest") and kind.springs != "each":
            if kind.springs == "equal" and word == "stiffness":
                found[word] = value
        else:
            count = kind.nq if word in ("lower", "upper") else kind.nv
            found[word] = [value * (1.0 + 0.1 * i) for i in range(count)]
    return found


def joints() -> Iterator[tuple[str, Callable[[], Model]]]:
    """All kinds of joints, at all places, with all limits and passive elements."""
    for name, kind in KINDS.items():
        for where, place in PLACES.items():
            yield f"{name}, {where}", lambda kind=kind, place=place: chain(kind, place).build()
        for told, words in LIMITS.items():
            yield (
                f"{name}, limits: {told}",
                lambda kind=kind, words=words: chain(kind, **_several(kind, words)).build(),
            )
        for told, words in PASSIVE.items():
            yield (
                f"{name}, {told}",
                lambda kind=kind, words=words: chain(kind, **_several(kind, words)).build(),
            )
        alike = {"damping": 0.2, "armature": 0.05, "friction": 0.1}
        for word, value in alike.items():
            yield (
                f"{name}, one {word}",
                lambda kind=kind, word=word, value=value: chain(kind, **{word: value}).build(),
            )


def arms(count: int = 4, **words: Any) -> ModelBuilder:
    """Bodies side by side, each on a hinge."""
    b = ModelBuilder("arms")
    for k in range(count):
        b.add_body(f"b{k}", mass=1 + k, center=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"j{k}", Revolute((0, 0, 1)), parent="world", child=f"b{k}", xyz=(0, 0.1 * k, 0), **words)
    return b


def _coupled(
    *couplings: tuple[str, dict[str, float], float], embed: bool = True, independent: str = ""
) -> Model:
    b = arms()
    for name, terms, offset in couplings:
        b.add_coupling(name, terms, offset=offset, embed=embed)
    model = b.build()
    return model.with_independent(independent) if independent else model


def _polynomials() -> Model:
    b = arms()
    b.add_implicit_constraint(
        "cam", functools.partial(polynomial, (0.1, 0.5, 0.2), ((1.0, 0.0), (0.0, 1.0))), joints=["j1", "j0"]
    )
    b.add_coupling("gear", {"j2": 1.0, "j3": -2.0})
    return b.build()


def _held_polynomial() -> Model:
    b = arms()
    function = functools.partial(polynomial, (0.0, 0.5, 0.2, 0.0, 0.1), ((1.0, 0.0), (0.0, 1.0)))
    return b.add_implicit_constraint("cam", function, joints=["j1", "j0"], embed=False).build()


def _mimicked() -> Model:
    text = lw.export_urdf(arms().build())
    for one, two in (("j1", "j0"), ("j3", "j1")):
        at = text.index("</joint>", text.index(f'<joint name="{one}"'))
        text = f'{text[:at]}<mimic joint="{two}" multiplier="-2.5" offset="0.1"/>{text[at:]}'
    return lw.load(text)


def loops() -> Iterator[tuple[str, Callable[[], Model]]]:
    """All kinds of loops and couplings, embedded and constrained."""
    for kind in LOOP_KINDS:
        if kind not in ("free",):
            yield f"ring {kind}", lambda kind=kind: linkage(f"ring {kind}")
            yield f"ring {kind}, constrained", lambda kind=kind: _constrained(linkage(f"ring {kind}"))
    for name in (
        "rotors",
        "rotors askew",
        "rotor in a loop",
        "asymmetric rotors",
        "geared across",
        "spatial stages",
        "through a function",
        "ladder",
    ):
        yield name, lambda name=name: linkage(name)
    yield "coupling", lambda: _coupled(("gear", {"j0": 1.0, "j1": -2.0, "j2": 0.5}, 0.3))
    yield "coupling named like a mimic", lambda: _coupled(("j3 follows j2", {"j3": 1.0, "j2": -3.0}, 0.1))
    yield (
        "coupling named like a mimic, its follower leads",
        lambda: _coupled(("j3 follows j2", {"j3": 1.0, "j2": -3.0}, 0.1), independent="j3"),
    )
    yield (
        "coupling named like a mimic, scaled",
        lambda: _coupled(("j3 follows j2", {"j3": 2.0, "j2": -3.0}, 0.1), independent="j2"),
    )
    yield (
        "coupling named like a mimic, constrained",
        lambda: _coupled(("j3 follows j2", {"j3": 1.0, "j2": -3.0}, 0.1), embed=False),
    )
    yield (
        "couplings in another order",
        lambda: _coupled(
            ("last", {"j0": 1.0, "j1": 1.0}, 0.0),
            ("j3 follows j2", {"j3": 1.0, "j2": -3.0}, 0.0),
            independent="j2",
        ),
    )
    yield (
        "coupling with one term",
        lambda: _coupled(("stop", {"j0": 2.0}, 0.6), ("gear", {"j1": 1.0, "j2": 1.0}, 0.0), embed=False),
    )
    yield "mimics of mimics", _mimicked
    yield "polynomial", _polynomials
    yield "polynomial, constrained", _held_polynomial
    yield (
        "one loop of two constrained",
        lambda: lw.robots.six_bar().with_loops(constrain=[lw.robots.six_bar().loops[-1].name]),
    )
    yield (
        "other independent joints",
        lambda: lw.robots.four_bar().with_independent(lw.robots.four_bar().joints[-1].name),
    )
    yield "other tolerance, and over-determined", _tolerant


def _tolerant() -> Model:
    b = ModelBuilder("bars")
    for name, parent, x in (("one", "world", 0.0), ("two", "one", 1.0), ("three", "world", 1.0)):
        b.add_body(name, mass=1, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
        b.add_joint(f"to {name}", Revolute((0, 0, 1)), parent=parent, child=name, xyz=(x, 0, 0))
    b.add_loop(
        "closure",
        Revolute((0, 0, 1)),
        predecessor="two",
        successor="three",
        xyz=(1, 0, 5e-4),
        successor_xyz=(1, 0, 0),
    )
    return b.build(start={"to one": 0.8, "to two": -0.7, "to three": 0.9}, tolerance=3e-3)


def _constrained(model: Model) -> Model:
    return model.with_loops(constrain=[c.name for c in model.loops])


def _shapes() -> ModelBuilder:
    b = chain(Revolute((0, 0, 1)))
    at = {"xyz": (0.1, 0.2, 0.3), "rpy": (0.3, 0.2, 0.1)}
    for link in ("a", "tool", "world", "b"):
        b.add_geometry(f"{link}::box", "box", (0.1, 0.2, 0.3), link=link, **at)
        b.add_geometry(
            f"{link} ball", "sphere", 0.1, link=link, rgba=(1, 0.5, 0, 1), friction=(0.5, 0.1), **at
        )
    return b


def attached() -> Iterator[tuple[str, Callable[[], Model]]]:
    """What goes along with a model: shapes, frames, motors, keyframes, and what contact needs."""
    at: dict[str, Any] = {"xyz": (0.1, 0.2, 0.3), "rpy": (0.3, 0.2, 0.1), "link": "a"}
    shapes: dict[str, tuple[Any, ...]] = {
        "box": ("box", (0.1, 0.2, 0.3)),
        "sphere": ("sphere", 0.1),
        "cylinder": ("cylinder", (0.1, 0.3)),
        "capsule": ("capsule", (0.1, 0.3)),
        "ellipsoid": ("ellipsoid", (0.1, 0.2, 0.3)),
        "plane": ("plane", (0.0, 0.0)),
        "wide plane": ("plane", (1.0, 2.0)),
        "point": ("point", ()),
    }
    for name, (kind, size) in shapes.items():
        yield (
            f"shape: {name}",
            lambda kind=kind, size=size: chain(Revolute()).add_geometry("it", kind, size, **at).build(),
        )
    hull = {"vertices": [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3)]}
    yield "shape: hull", lambda: chain(Revolute()).add_geometry("it", "hull", **hull, **at).build()
    heights = {"heights": [[0.1, 0.2, 0.3], [0.0, 0.4, 0.1]]}
    yield (
        "shape: heightfield",
        lambda: chain(Revolute()).add_geometry("it", "heightfield", (2, 3), **heights, **at).build(),
    )
    mesh = Geometry(
        "it",
        place=Pose.from_xyz_rpy((1, 2, 3), (0.1, 0.2, 0.3)),
        shape="mesh",
        mesh="x.obj",
        scale=(1, 2, 3),
        link="a",
    )
    yield "shape: mesh", lambda: chain(Revolute()).add_geometry(mesh).build()
    for told, words in {
        "only seen": {"collision": False},
        "only felt": {"visual": False},
        "neither": {"visual": False, "collision": False},
        "colour": {"rgba": (0.1, 0.2, 0.3, 0.4)},
        "colour of what is only felt": {"rgba": (0.1, 0.2, 0.3, 0.4), "visual": False},
        "contact": {"friction": (0.5, 0.1), "contype": 2, "conaffinity": 4, "condim": 4, "margin": 0.01},
        "odd friction": {"friction": (0.5,)},
    }.items():
        for kind, size in (("box", (0.1, 0.2, 0.3)), ("ellipsoid", (0.1, 0.2, 0.3))):
            yield (
                f"shape: {kind}, {told}",
                lambda kind=kind, size=size, words=words: (
                    chain(Revolute()).add_geometry("it", kind, size, **words, **at).build()
                ),
            )
    yield "shapes on all links", lambda: _shapes().build()
    yield (
        "shapes of one name",
        lambda: (
            chain(Revolute())
            .add_geometry("a::visual0", "sphere", 0.1, **at)
            .add_geometry("a::visual0", "sphere", 0.2, **at)
            .build()
        ),
    )
    yield (
        "pairs",
        lambda: (
            _shapes()
            .add_contact_pair(
                ContactPair("a ball", "b ball", friction=(0.3, 0.3, 0.1, 0.1, 0.1), condim=4, margin=0.1)
            )
            .add_contact_pair(ContactPair("a", "b", excluded=True))
            .build()
        ),
    )
    yield (
        "frames",
        lambda: (
            chain(Revolute())
            .add_frame("tip", body="b", xyz=(0.1, 0.2, 0.3), rpy=(0.0, math.pi / 2, 0.3))
            .add_frame("mark", xyz=(1, 2, 3))
            .add_frame("tip_fixed", body="tool", rpy=(1, 0, 0))
            .build()
        ),
    )
    yield "base link", _on_a_base
    yield "branched base", lambda: _on_a_base(branched=True)
    for told, actuator in ACTUATORS.items():
        yield (
            f"actuator: {told}",
            lambda actuator=actuator: arms().add_frame("tip", body="b1").add_actuator(actuator).build(),
        )
    yield "keyframes", _keyframes
    yield "gravity", lambda: chain(Revolute()).build()
    yield "no gravity", lambda: chain(Spherical()).build().with_parameters({"gravity": [0, 0, 0]})
    yield (
        "parameters",
        lambda: chain(Universal()).build().with_parameters({"mass@a": 3.0, "damping": [0.1, 0.2, 0.3]}),
    )
    yield "partitioned", lambda: chain(Universal(), PLACES["moved"]).build().partitioned()
    yield "a link without mass", _massless
    yield "odd names", _odd_names
    yield "no joints", lambda: ModelBuilder("still").add_frame("mark").build()


def _on_a_base(*, branched: bool = False) -> Model:
    b = arms(1)
    b.add_body("base", mass=3.0, inertia=(1, 1, 1)).add_body("side").add_body(
        "arm", mass=1.0, inertia=(1, 1, 1)
    )
    b.add_joint(
        "base hold", lw.joints.Fixed(), parent="world", child="base", xyz=(1, 0, 0), rpy=(0.1, 0.2, 0.3)
    )
    b.add_joint(
        "side hold", lw.joints.Fixed(), parent="base", child="side", xyz=(1, 0, 0), rpy=(0.1, 0.2, 0.3)
    )
    b.add_joint(
        "swing", Revolute((0, 1, 0)), parent="side", child="arm", xyz=(0.1, 0, 0), rpy=(0.5, 0.2, 0.3)
    )
    if branched:
        b.add_body("other base").add_joint(
            "other hold", lw.joints.Fixed(), parent="world", child="other base"
        )
        b.add_body("leg", mass=1.0, inertia=(1, 1, 1))
        b.add_joint("step", Prismatic((0, 1, 0)), parent="other base", child="leg")
        b.add_body("late").add_joint(
            "late hold", lw.joints.Fixed(), parent="base", child="late", rpy=(1, 0, 0)
        )
        b.add_geometry("late::box", "box", (1, 1, 1), link="late").add_geometry("ground", "plane", (0, 0))
    return b.build()


def _keyframes() -> Model:
    b = ModelBuilder("many")
    for k, kind in enumerate(KINDS.values()):
        b.add_body(f"b{k}", mass=1 + k, center=(0.1, 0, 0.2), inertia=(0.1, 0.12, 0.15))
        b.add_joint(
            f"j{k}",
            kind,
            parent="world" if k in (0, 2) else f"b{k - 1}",
            child=f"b{k}",
            place=PLACES["turned"],
        )
    bare = b.build()
    for n, name in enumerate(("posed", "other pose")):
        q, v = bare.random_state(n)
        b.add_keyframe(
            name,
            *({j.name: x[getattr(j, s)] for j in bare.joints} for x, s in ((q, "q_slice"), (v, "v_slice"))),
        )
    return b.build()


def _massless() -> Model:
    b = chain(Revolute())
    b.add_body("between")
    b.add_body("end", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint("first", Revolute((1, 0, 0)), parent="b", child="between", place=PLACES["turned"])
    b.add_joint(
        "second", Prismatic((0, 1, 0)), parent="between", child="end", place=PLACES["turned"], lower=-1
    )
    return b.build()


def _odd_names() -> Model:
    b = ModelBuilder("a <b> & \"c\" 'd'\n\te ü → 🤖")
    for k, name in enumerate((" spaces ", "<tag>", "a\nb", "x_y", "x")):
        b.add_body(f"{name} link", mass=1, inertia=(1, 1, 1))
        b.add_joint(
            name,
            Universal() if name == "x" else Revolute(),
            parent="world",
            child=f"{name} link",
            xyz=(k, 0, 0),
        )
    return b.build()


def _actuator(name: str, **words: Any) -> Actuator:
    return Actuator(name, **({"transmission": "joint", "target": "j0", "joints": (("j0", 1.0),)} | words))


curve = (0.75, 1.05, -1.0, 200.0, 0.5, 1.6, 1.5, 1.3, 1.2, 0.0)
ten = (1.5, -0.2, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
ACTUATORS: dict[str, Actuator] = {
    "motor": _actuator("motor", joints=(("j0", 6.0),), gear=(6.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    "named only": _actuator("named only"),
    "limited": _actuator("limited", control_range=(-1.0, 2.0), force_range=(-3.0, 3.5)),
    "limited on one side": _actuator("limited on one side", control_range=(0.0, INF)),
    "position": _actuator("position", gain=("fixed", ten), bias=("affine", (0.0, -1.5, -0.2, *[0.0] * 7))),
    "velocity with integrator": _actuator(
        "intvelocity", gain=("fixed", ten), bias=("affine", (0.0, -1.5, *[0.0] * 8)), dynamics=("integrator", (1.0, *[0.0] * 9))
    ),
    "cylinder": _actuator(
        "cylinder", gain=("fixed", ten), bias=("affine", (0.1, 0.2, 0.3, *[0.0] * 7)), dynamics=("filter", (0.5, *[0.0] * 9))
    ),
    "muscle": _actuator(
        "muscle", gain=("muscle", curve), bias=("muscle", curve), dynamics=("muscle", (0.01, 0.04, *[0.0] * 8)),
        control_range=(0.0, 1.0), length_range=(-1.0, 2.0),
    ),
    "tendon": _actuator("tendon", transmission="tendon", target="cable", joints=(("j0", 1.0), ("j1", -2.0))),
    "site": _actuator("site", transmission="site", target="tip", joints=(), gear=(0.0, 0.0, 1.0, 0.0, 0.0, 0.0)),
    "spatial tendon": _actuator("spatial tendon", transmission="tendon", target="rope", joints=()),
    "body": _actuator("body", transmission="body", target="b0", joints=()),
}  # fmt: skip


def table() -> dict[str, Callable[[], Model]]:
    """All of them, by name."""
    return dict([*joints(), *loops(), *attached()])


def robots() -> dict[str, Callable[[], Model]]:
    """All robots that ship with the package."""
    return {name: getattr(lw.robots, name) for name in lw.robots.names()}


# files


NEEDS = re.compile(r"allow_loss=\['([a-z ]+)'\]")


def as_mjcf(model: Model) -> tuple[str, list[str]]:
    """A model as MJCF, and what MuJoCo had to lose for it, which the errors name."""
    losses: list[str] = []
    while True:
        try:
            return lw.export_mjcf(model, allow_loss=losses), losses
        except ModelError as error:
            found = NEEDS.search(str(error))
            if not found or found[1] in losses:
                raise
            losses.append(found[1])


def undescribed(text: str) -> str:
    """MJCF without linkwork's own description: as MuJoCo reads it."""
    assert text.count("<custom>") == 1
    return text[: text.index("  <custom>")] + "</mujoco>"


# what differs


def differences(one: Any, two: Any) -> list[str]:
    """All in which two models differ, beyond rounding."""
    found = [
        f"{word}: {getattr(one, word)} != {getattr(two, word)}"
        for word in SAME
        if getattr(one, word) != getattr(two, word)
    ]
    for word in (
        "bodies",
        "joints",
        "frames",
        "embedded",
        "constrained_loops",
        "actuators",
        "geometries",
        "contact_pairs",
    ):
        a = getattr(one, word)
        b = getattr(two, word)
        if len(a) != len(b):
            found.append(
                f"{word}: {[x.name for x in a if hasattr(x, 'name')]} != {[x.name for x in b if hasattr(x, 'name')]}"
            )
        for k, (x, y) in enumerate(zip(a, b)):
            found += _differ(f"{word}[{k}]", _words(one, x), _words(two, y))
    found += _differ("start", one.start, two.start) + _differ("tolerance", one.tolerance, two.tolerance)
    found += _differ("keyframes", dict(one.keyframes), dict(two.keyframes))
    return found


SAME = ("name", "partition", "nq", "nv", "v_names", "q_names", "gravity")


def _words(model: Model, x: Any) -> Any:
    if isinstance(x, ImplicitConstraint) and isinstance(x.function, functools.partial):
        return {"name": x.name, "joints": x.joints, "function": x.function.func, "args": x.function.args}
    if isinstance(x, (Loop, Coupling)):
        return {"type": type(x), **_plain(x)}
    words = _plain(x)
    if hasattr(x, "independent"):
        looped = any(x.child in c.bodies for c in model.clusters if c.constraints)
        words["independent"] = "chosen" if looped else x.choices
        words["base"] = x.base or "world"
    if isinstance(x, Geometry):
        words["link"] = x.link or "world"
    return words


def _plain(x: Any) -> dict[str, Any]:
    return {name: getattr(x, name) for name in x.__dataclass_fields__}


def _differ(at: str, x: Any, y: Any) -> list[str]:
    if isinstance(x, dict) and isinstance(y, dict):
        found = [] if x.keys() == y.keys() and list(x) == list(y) else [f"{at}: {list(x)} != {list(y)}"]
        return found + [told for key in x if key in y for told in _differ(f"{at}.{key}", x[key], y[key])]
    if isinstance(x, Pose):
        return _differ(f"{at}.R", np.asarray(x.R, float), np.asarray(y.R, float)) + _differ(
            f"{at}.p", x.p, y.p
        )
    if hasattr(x, "dense"):
        return _differ(at, np.asarray(x.dense(), float), np.asarray(y.dense(), float))
    if is_dataclass(x) and not isinstance(x, type):
        found = [] if type(x) is type(y) else [f"{at}: {type(x).__name__} != {type(y).__name__}"]
        return found or _differ(at, _plain(x), _plain(y))
    if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
        return [told for k, (a, b) in enumerate(zip(x, y)) for told in _differ(f"{at}[{k}]", a, b)]
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.shape == y.shape:
        scale = max(1.0, float(np.abs(x).max(initial=0.0)))
        return (
            []
            if np.allclose(x.astype(float), y.astype(float), rtol=0.0, atol=4e-15 * scale)
            else [f"{at}: {x} != {y}"]
        )
    if isinstance(x, Joint) and type(x) is type(y):
        return _differ(at, dict(vars(x)), dict(vars(y)))
    if (
        isinstance(x, (int, float))
        and isinstance(y, (int, float))
        and not isinstance(x, bool)
        and not isinstance(y, bool)
    ):
        return [] if math.isclose(x, y, rel_tol=1e-15, abs_tol=0.0) else [f"{at}: {x!r} != {y!r}"]
    return [] if type(x) is type(y) and x == y else [f"{at}: {x!r} != {y!r}"]
