"""One small model for each feature of models, with states: what the product of functions and features is
taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import linkwork as lw
from flexible_bodies import cloud, flexible
from linkwork.joints import Cylindrical, Fixed, Free, Planar, Prismatic, Revolute, Spherical, Universal
from linkwork.model import Model, ModelBuilder

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A model, what its flexible bodies are made of, and the frames that functions are asked for."""

    model: Model
    clouds: Mapping[int, Any] = field(default_factory=dict)
    frame: str = "tool"
    carrier: str = "carrier"


def body(rng: Random, mass: float = 1.0) -> dict[str, Any]:
    """Return mass, centre and moment of inertia of a body without any symmetry."""
    points = rng.normal(size=(5, 3)) * 0.2
    weights = mass * rng.dirichlet(np.ones(5))
    center = weights @ points
    arms = points - center
    moment = sum(w * (r @ r * np.eye(3) - np.outer(r, r)) for w, r in zip(weights, arms))
    return {"mass": mass, "center": center, "inertia": moment + 1e-3 * mass * np.eye(3)}


def place(rng: Random) -> dict[str, Any]:
    """Return a placement without zeros."""
    return {"xyz": rng.uniform(0.2, 0.4, 3) * rng.choice([-1.0, 1.0], 3), "rpy": rng.uniform(-1.0, 1.0, 3)}


def chain(builder: ModelBuilder, rng: Random, rows: list[tuple[str, Any, str]], **passive: Any) -> None:
    """Add bodies, each behind a joint of a kind on another body."""
    for k, (name, kind, parent) in enumerate(rows):
        builder.add_body(name, **body(rng, 1.0 + 0.3 * k))
        builder.add_joint(f"{name} joint", kind, parent=parent, child=name, **place(rng), **passive)


def frames(builder: ModelBuilder, rng: Random, tool: str, carrier: str) -> None:
    """Add the frames "tool" and "carrier"."""
    builder.add_frame("tool", body=tool, **place(rng))
    builder.add_frame("carrier", body=carrier, **place(rng))


def tree(rng: Random) -> Case:
    """Return a free-floating tree with joints of one, two and three velocities, springs, dampers and
    armature.
    """
    builder = ModelBuilder("tree")
    chain(builder, rng, [("trunk", Free(), "world")])
    chain(
        builder,
        rng,
        [("arm", Revolute((0.2, 0.5, 0.8)), "trunk"), ("hand", Universal(), "arm")],
        damping=0.2,
        armature=0.05,
    )
    chain(builder, rng, [("slide", Prismatic((0.0, 1.0, 0.0)), "trunk")], stiffness=20.0, rest=0.1)
    chain(builder, rng, [("ball", Spherical(), "slide")])
    frames(builder, rng, "hand", "arm")
    return Case(builder.build())


def fixed_base(rng: Random) -> Case:
    """Return an arm on the ground that ends in a cylindrical joint."""
    builder = ModelBuilder("fixed base", gravity=(1.0, -2.0, -9.0))
    rows = [
        ("one", Revolute((0.0, 0.0, 1.0)), "world"),
        ("two", Revolute((0.3, 1.0, 0.1)), "one"),
        ("three", Planar(), "two"),
    ]
    chain(builder, rng, [*rows, ("four", Cylindrical((1.0, 0.0, 0.2)), "three")], damping=0.1)
    frames(builder, rng, "four", "two")
    return Case(builder.build())


def linkage(rng: Random, embed: bool, planar: bool = False) -> Case:
    """Return a crank, a coupler that carries an arm, and a rocker; a spatial one has no redundant equation."""
    builder = ModelBuilder("linkage")
    up = Revolute((0.0, 0.0, 1.0))
    places = [
        ("crank", up, "world", (0.0, 0.0, 0.0)),
        ("coupler", up if planar else Spherical(), "crank", (0.4, 0.0, 0.0)),
    ]
    places += [("rocker", up if planar else Spherical(), "coupler", (0.9 if planar else 0.7, 0.0, 0.0))]
    turned = (0.0, 0.0, 0.0) if planar else (0.3, -0.2, 0.4)
    for name, kind, parent, xyz in places:
        builder.add_body(name, **body(rng))
        passive: dict[str, Any] = {} if isinstance(kind, Spherical) else {"damping": 0.1, "armature": 0.02}
        builder.add_joint(f"{name} joint", kind, parent=parent, child=name, xyz=xyz, **passive)
    ends = {"xyz": (1.0 if planar else 0.5, 0.2, 0.0), "rpy": turned, "successor_xyz": (0.6, 0.0, 0.0)}
    builder.add_loop("close", up, predecessor="world", successor="rocker", **ends, embed=embed)
    builder.add_body("arm", **body(rng))
    builder.add_joint(
        "arm joint",
        Revolute((0.5, 0.1, 0.7)),
        parent="coupler",
        child="arm",
        xyz=(0.2, 0.1, 0.1),
        stiffness=3.0,
    )
    frames(builder, rng, "arm", "coupler")
    start = {"crank joint": 0.5, "rocker joint": -1.2, "coupler joint": -0.4} if planar else None
    return Case(builder.build(start=start))


def gears(rng: Random, embed: bool) -> Case:
    """Return an arm whose elbow drives a round rotor in its carrier and whose wrist a skew one, by couplings."""
    builder = ModelBuilder("gears")
    axis = Revolute((0.0, 0.6, 0.8))
    chain(
        builder,
        rng,
        [
            ("upper", Revolute((0.1, 0.2, 1.0)), "world"),
            ("lower", axis, "upper"),
            ("hand", Revolute((1.0, 0.0, 0.3)), "lower"),
        ],
    )
    builder.add_body("rotor", mass=0.1, inertia=(1e-3, 1e-3, 2e-3))
    builder.add_joint(
        "rotor joint", Revolute((0.0, 0.0, 1.0)), parent="upper", child="rotor", xyz=(0.1, 0.0, 0.2)
    )
    builder.add_body("wheel", **body(rng, 0.3))
    builder.add_joint(
        "wheel joint", Revolute((0.3, 0.0, 1.0)), parent="lower", child="wheel", xyz=(0.0, 0.1, 0.2)
    )
    builder.add_coupling("gear", {"lower joint": 5.0, "rotor joint": -1.0}, embed=embed)
    builder.add_coupling("belt", {"hand joint": 2.0, "lower joint": 1.0, "wheel joint": 1.0}, embed=embed)
    frames(builder, rng, "hand", "lower")
    return Case(builder.build())


def flexible_arm(rng: Random) -> Case:
    """Return an arm with a flexible link between rigid ones; it ends in an independent joint."""
    points, slopes = cloud(rng, modes=2)
    builder = ModelBuilder("flexible")
    builder.add_body("base", **body(rng))
    builder.add_joint(
        "base joint", Revolute((0.0, 0.0, 1.0)), parent="world", child="base", xyz=(0.1, 0.0, 0.2)
    )
    builder.add_body("bar", flexible=flexible(points, slopes, rng))
    builder.add_joint("bar joint", Revolute((0.2, 1.0, 0.1)), parent="base", child="bar", **place(rng))
    builder.add_body("wrist", **body(rng))
    builder.add_joint(
        "wrist joint",
        Revolute((0.3, 0.2, 1.0)),
        parent="bar",
        child="wrist",
        xyz=points.points[3],
        damping=0.1,
    )
    builder.add_frame("tool", body="wrist", **place(rng))
    builder.add_frame("carrier", body="base", **place(rng))
    model = builder.build()
    (place_of_modes,) = [joint.child for joint in model.joints if joint.kind.elastic]
    return Case(model, {place_of_modes: points})


def massless(rng: Random) -> Case:
    """Return an arm with hinges between bodies without mass."""
    builder = ModelBuilder("massless")
    chain(builder, rng, [("trunk", Free(), "world")])
    for k, axis in enumerate(np.eye(3)):
        heavy = body(rng) if k == 2 else {}
        builder.add_body(f"link{k}", **heavy)
        builder.add_joint(
            f"joint{k}",
            Revolute(tuple(axis)),
            parent=f"link{k - 1}" if k else "trunk",
            child=f"link{k}",
            xyz=(0.1, 0.2, 0.0),
        )
    frames(builder, rng, "link2", "trunk")
    return Case(builder.build())


def loaded(rng: Random) -> Case:
    """Return a floating tree with weights that are compensated in part, and spatial tendons."""
    builder = ModelBuilder("loaded", gravity=(1.0, -2.0, -9.0))
    builder.add_body("trunk", **body(rng), gravity_scale=0.3)
    builder.add_joint("trunk joint", Free(), parent="world", child="trunk")
    builder.add_body("arm", **body(rng), gravity_scale=0.0)
    builder.add_joint(
        "arm joint", Revolute((0.2, 0.5, 0.8)), parent="trunk", child="arm", **place(rng), damping=0.2
    )
    builder.add_body("plate", **body(rng), gravity_scale=0.0)
    builder.add_joint("plate joint", Fixed(), parent="arm", child="plate", **place(rng))
    builder.add_body("hand", **body(rng), gravity_scale=1.5)
    builder.add_joint("hand joint", Spherical(), parent="plate", child="hand", **place(rng))
    frames(builder, rng, "hand", "arm")
    builder.add_tendon("pull", ["trunk", "tool"], stiffness=3.0, damping=0.4, rest=0.2)
    builder.add_tendon("slack", ["world", ("arm", (0.1, 0.2, 0.3)), "tool"], stiffness=5.0, rest=(0.1, 40.0))
    return Case(builder.build())


def loaded_linkage(rng: Random, embed: bool) -> Case:
    """Return a linkage and a gear whose bodies have scaled weights, with a tendon over a pulley."""
    builder = ModelBuilder("loaded linkage")
    rows = [
        ("upper", Revolute((0.1, 0.2, 1.0)), "world"),
        ("lower", Revolute((0.0, 0.6, 0.8)), "upper"),
        ("wheel", Revolute((0.0, 0.0, 1.0)), "upper"),
    ]
    for (name, kind, parent), scale in zip(rows, (0.2, 1.0, -0.5)):
        inertia = {"mass": 0.4, "inertia": (0.02, 0.02, 0.04)} if name == "wheel" else body(rng)
        builder.add_body(name, **inertia, gravity_scale=scale)
        builder.add_joint(f"{name} joint", kind, parent=parent, child=name, **place(rng))
    builder.add_coupling("gear", {"lower joint": 5.0, "wheel joint": -1.0}, embed=embed)
    frames(builder, rng, "lower", "upper")
    pulley = [(1.0, ["world", "tool"]), (2.0, ["carrier", ("wheel", (0.1, 0.0, 0.2))])]
    builder.add_tendon("rope", branches=pulley, stiffness=4.0, damping=0.3, rest=(0.0, 0.3))
    return Case(builder.build())


CASES: dict[str, Callable[[Random], Case]] = {
    "tree": tree,
    "fixed base": fixed_base,
    "embedded loop": lambda rng: linkage(rng, True),
    "constrained loop": lambda rng: linkage(rng, False),
    "redundant embedded loop": lambda rng: linkage(rng, True, planar=True),
    "redundant constrained loop": lambda rng: linkage(rng, False, planar=True),
    "embedded gears": lambda rng: gears(rng, True),
    "constrained gears": lambda rng: gears(rng, False),
    "flexible": flexible_arm,
    "massless": massless,
    "loaded tree": loaded,
    "embedded loaded gears": lambda rng: loaded_linkage(rng, True),
    "constrained loaded gears": lambda rng: loaded_linkage(rng, False),
}


@cache
def case(name: str) -> Case:
    """Return the model of a feature."""
    return CASES[name](np.random.default_rng(sum(map(ord, name))))


def states(model: Model, rng: Random, count: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return closed states, q (count, nq) and v (count, nv)."""
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(count))))
    return q, v


def loops_of(model: lw.Model) -> bool:
    """Return whether a model has loops that constrain v."""
    return bool(model.constrained_loops)
