"""Random trees of bodies and joints, for laws that every mechanism keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from linkwork.joints import (
    Cylindrical,
    Fixed,
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
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose, skew

Random = np.random.Generator


class State(NamedTuple):
    """A state of a model with everything that functions of it take: f_ext is (bodies, 6)."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray


# parts


def skew_axis(rng: Random) -> tuple[float, float, float]:
    """A direction along no coordinate axis."""
    x, y, z = rng.uniform(0.2, 1.0, 3) * rng.choice([-1.0, 1.0], 3)
    return float(x), float(y), float(z)


def coordinate_axis(rng: Random) -> tuple[float, float, float]:
    """A coordinate axis, or its opposite."""
    x, y, z = np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
    return float(x), float(y), float(z)


KINDS: dict[str, Callable[[Random], Joint]] = {
    "revolute": lambda rng: Revolute(coordinate_axis(rng)),
    "skew revolute": lambda rng: Revolute(skew_axis(rng)),
    "prismatic": lambda rng: Prismatic(coordinate_axis(rng)),
    "skew prismatic": lambda rng: Prismatic(skew_axis(rng)),
    "helical": lambda rng: Helical(float(rng.uniform(-0.3, 0.3)), coordinate_axis(rng)),
    "skew helical": lambda rng: Helical(float(rng.uniform(-0.3, 0.3)), skew_axis(rng)),
    "cylindrical": lambda rng: Cylindrical(coordinate_axis(rng)),
    "skew cylindrical": lambda rng: Cylindrical(skew_axis(rng)),
    "planar": lambda rng: Planar(),
    "planar about another axis": lambda rng: Planar(coordinate_axis(rng)),
    "skew planar": lambda rng: Planar(skew_axis(rng)),
    "universal": lambda rng: Universal(),
    "gimbal": lambda rng: Gimbal(),
    "spherical": lambda rng: Spherical(),
    "free": lambda rng: Free(),
}
COORDINATES = tuple(
    k for k in KINDS if not any(word in k for word in ("planar", "spherical", "free"))
)  # with q̇ = v
AXIAL = tuple(k for k in COORDINATES if k not in ("universal", "gimbal"))
SIMPLE = ("revolute", "skew revolute", "prismatic", "skew prismatic")


def right_angles(rng: Random) -> np.ndarray:
    """A rotation by right angles."""
    R = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], 3)
    return R if np.linalg.det(R) > 0 else -R


def rotation(rng: Random) -> np.ndarray:
    """Any rotation."""
    q = rng.normal(size=4)
    return Pose.from_quaternion(q / np.linalg.norm(q)).R


def pose(rng: Random) -> Pose:
    """A place: turned by nothing, by right angles or in any way, often with a zero in it."""
    R = (np.eye(3), right_angles(rng), rotation(rng))[rng.integers(3)]
    return Pose(R, rng.uniform(-0.5, 0.5, 3) * (rng.random(3) < 0.8))


def general_pose(rng: Random) -> Pose:
    """A place without a zero in it."""
    return Pose(rotation(rng), rng.uniform(0.2, 0.5, 3) * rng.choice([-1.0, 1.0], 3))


def heavy(rng: Random) -> dict[str, Any]:
    """The mass, centre and moment of inertia of some points of mass; or of a body along its own axes."""
    if rng.random() < 0.25:
        x, y, z = rng.uniform(0.01, 0.1, 3)  # second moments of mass
        return {"mass": float(rng.uniform(0.5, 3.0)), "inertia": (y + z, z + x, x + y)}
    points = rng.normal(size=(6, 3)) * 0.3
    masses = rng.uniform(0.1, 1.0, 6)
    mass = masses.sum()
    center = masses @ points / masses.sum()
    moment = sum(m * skew(r - center).T @ skew(r - center) for m, r in zip(masses, points))
    return {"mass": float(mass), "center": center, "inertia": moment}


# whole models


def make(
    rng: Random,
    parents: Sequence[int],
    kinds: Sequence[str],
    massless: Sequence[bool] = (),
    *,
    resisting: bool = True,
    armature: bool = True,
    fixed: bool = True,
    gravity: bool = True,
    name: str = "mechanism",
) -> Model:
    """A model with a moving body for each parent (-1: the world) and kind, in this order.

    Where `massless` asks for it, a body has no mass: it then moves along one axis only, carries one heavier
    body by another simple joint at a general place, so that no force can move it infinitely fast.
    """
    builder = ModelBuilder(
        name, gravity=rng.normal(size=3) * 10 if gravity and rng.random() < 0.5 else (0.0, 0.0, -9.81)
    )

    def held(body: str, joint: str, kind: Joint, parent: str, place: Pose, inertia: dict[str, Any]) -> None:
        some = {"damping": rng.uniform(0.1, 1.0, kind.nv)} if resisting and rng.random() < 0.5 else {}
        if resisting and kind.springs != "none" and rng.random() < 0.5:
            one = kind.springs == "equal"
            some["stiffness"] = (
                np.full(kind.nv, rng.uniform(1.0, 20.0)) if one else rng.uniform(1.0, 20.0, kind.nv)
            )
            some["rest"] = np.zeros(kind.nv) if one else rng.uniform(-0.5, 0.5, kind.nv)
        if armature and rng.random() < 0.4:
            some["armature"] = rng.uniform(0.01, 0.5, kind.nv) * (rng.random(kind.nv) < 0.7)
        builder.add_body(body, **inertia)
        builder.add_joint(joint, kind, parent=parent, child=body, place=place, **some)

    for k, (parent, kind) in enumerate(zip(parents, kinds)):
        on = "world" if parent < 0 else f"body{parent}"
        if k < len(massless) and massless[k]:
            held(f"light{k}", f"before{k}", KINDS[SIMPLE[rng.integers(2)]](rng), on, pose(rng), {})
            held(
                f"body{k}",
                f"joint{k}",
                KINDS[SIMPLE[rng.integers(2)]](rng),
                f"light{k}",
                general_pose(rng),
                heavy(rng),
            )
        else:
            held(f"body{k}", f"joint{k}", KINDS[kind](rng), on, pose(rng), heavy(rng))
        if fixed and rng.random() < 0.3:  # a link held fast, and at times another on that
            builder.add_body(f"held{k}", **(heavy(rng) if rng.random() < 0.7 else {}))
            builder.add_joint(f"fast{k}", Fixed(), parent=f"body{k}", child=f"held{k}", place=pose(rng))
            if rng.random() < 0.5:
                builder.add_body(f"far{k}", **heavy(rng))
                builder.add_joint(f"faster{k}", Fixed(), parent=f"held{k}", child=f"far{k}", place=pose(rng))
        if rng.random() < 0.5:
            builder.add_frame(f"frame{k}", body=f"body{k}", place=pose(rng))
    return builder.build()


def random_model(
    rng: Random,
    bodies: int = 5,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    massless: bool = True,
    **options: Any,
) -> Model:
    """A random tree of about this many bodies."""
    parents = [int(rng.integers(-1, k)) if rng.random() < 0.5 else k - 1 for k in range(bodies)]
    light = [bool(massless and rng.random() < 0.15) for _ in range(bodies)]
    return make(rng, parents, [kinds[rng.integers(len(kinds))] for _ in range(bodies)], light, **options)


def every_kind(rng: Random, **options: Any) -> Model:
    """A tree with one joint of every kind."""
    parents = [int(rng.integers(max(-1, k - 3), k)) for k in range(len(KINDS))]
    return make(rng, parents, list(KINDS), **options)


def state_of(model: Model, rng: Random) -> State:
    """A random state."""
    q, v = model.random_state(rng)
    return State(
        q, v, rng.normal(size=model.nv), rng.normal(size=model.nv), rng.normal(size=(len(model.bodies), 6))
    )


# for hypothesis


@st.composite
def mechanisms(
    draw: st.DrawFn,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    most: int = 5,
    massless: bool = True,
    **options: Any,
) -> Model:
    """Models of up to `most` bodies. They shrink to few bodies with simple joints."""
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=most))
    parents = [draw(st.integers(-1, k - 1)) for k in range(len(chosen))]
    light = [massless and draw(st.integers(0, 6)) == 6 for _ in chosen]
    return make(draw(randoms), parents, chosen, light, **options)


randoms = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def with_state(draw: st.DrawFn, **options: Any) -> tuple[Model, State]:
    """A model and a random state of it."""
    model = draw(mechanisms(**options))
    return model, state_of(model, draw(randoms))
