"""Two shapes in space, for tests of contact: on a free body each, or one of them fixed to the world."""

from __future__ import annotations

from typing import Any

import numpy as np

import linkwork as lw
from linkwork.algorithms.tree.kinematics import node_velocities
from linkwork.constraints import BodyKinematics
from linkwork.contact import Contacts, contact_rows
from linkwork.functions.contact_points import nodes_with
from linkwork.joints import Free
from linkwork.spatial import Pose

HULL = ((0.2, 0.0, 0.0), (-0.1, 0.2, 0.0), (-0.1, -0.15, 0.05), (0.0, 0.0, 0.3), (0.05, 0.1, -0.2))
STONE = tuple(tuple(row) for row in (0.3 * np.random.default_rng(2).normal(size=(14, 3))).tolist())
HILLS = (
    (0.0, 0.1, -0.1, 0.2),
    (0.1, 0.0, 0.2, 0.0),
    (-0.2, 0.1, 0.15, 0.1),
    (0.0, 0.2, 0.0, -0.1),
    (0.1, 0.1, 0.0, 0.0),
)
SHAPES: dict[str, dict[str, Any]] = {
    "point": {},
    "sphere": {"size": (0.2,)},
    "capsule": {"size": (0.1, 0.5)},
    "box": {"size": (0.3, 0.4, 0.2)},
    "ellipsoid": {"size": (0.1, 0.2, 0.3)},
    "cylinder": {"size": (0.15, 0.4)},
    "hull": {"vertices": HULL},
    "stone": {"shape": "hull", "vertices": STONE},
    "plane": {},
    "heightfield": {"size": (3.0, 4.0), "heights": HILLS},
}
ON_SURFACE = ("point", "sphere", "capsule", "box", "ellipsoid", "cylinder", "hull", "stone")
PAIRS = [(shape, surface) for surface in ("plane", "heightfield", "box") for shape in ON_SURFACE]
PAIRS += [(a, b) for a in ("sphere", "capsule") for b in ("sphere", "capsule")]
PAIRS += [("box", "sphere"), ("box", "capsule"), ("point", "capsule")]
PAIRS += [(a, b) for a in ("point", "sphere", "capsule", "box") for b in ("ellipsoid", "cylinder", "stone")]
PAIRS += [("ellipsoid", "ellipsoid"), ("cylinder", "ellipsoid"), ("cylinder", "cylinder"), ("stone", "hull")]
PAIRS += [("stone", "cylinder"), ("ellipsoid", "stone")]


def random_pose(rng: np.random.Generator, spread: float) -> Pose:
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return Pose(Q * np.sign(np.linalg.det(Q)), spread * rng.normal(size=3))


def two_shapes(one: str, other: str, rng: np.random.Generator, *, fixed: bool) -> lw.Model:
    """Each at a random place on a free body; the other one on the world where it is `fixed`."""
    builder = lw.ModelBuilder("two shapes", gravity=(0.0, 0.0, 0.0))
    for link, shape in (("a", one), ("b", other)):
        if link == "a" or not fixed:
            builder.add_body(link, mass=1.0, inertia=(0.1, 0.2, 0.25))
            builder.add_joint(f"{link} floats", Free(), parent="world", child=link)
        on = "world" if fixed and link == "b" else link
        builder.add_geometry(
            lw.Geometry(
                f"{shape} {link}", place=random_pose(rng, 0.1), link=on, **{"shape": shape, **SHAPES[shape]}
            )
        )
    return builder.build()


def nearby(model: lw.Model, rng: np.random.Generator, spread: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """A state with bodies close to the origin."""
    q, v = model.random_state(rng)
    for joint in model.joints:
        q[joint.q_slice][:3] = spread * rng.normal(size=3)
    return q, v


def gaps_and_rates(
    model: lw.Model, contacts: Contacts, q: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gap of each candidate, and its normal row times v, both over plain numbers."""
    found = contacts.candidates(model)
    kinematics = BodyKinematics(nodes_with(model, found, q, v))
    V = node_velocities(kinematics.nodes, v)
    gaps = []
    rates = []
    for each in found:
        touch = each.touch(kinematics)
        rows = contact_rows(kinematics, each, touch)
        gaps.append(touch.gap)
        rates.append(sum(K[0] @ V[node][block] for node, block, K in rows.nodes))
    return np.array(gaps, dtype=float), np.array(rates, dtype=float)
