"""Four real robots to measure with: placements, masses and axes read from their URDFs, in `robots.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.spatial import Pose

ROBOTS: dict[str, Any] = json.loads((Path(__file__).parent / "robots.json").read_text())

# What is measured: the name in tables, the function, and its options. The mass matrix is the upper triangle without the
# zeros that a tree has, which is what peers compute too.
ALGORITHMS: dict[str, tuple[lw.ModelFunction, dict[str, Any]]] = {
    "inverse dynamics": (lw.inverse_dynamics, {}),
    "mass matrix": (lw.mass_matrix, {"packed": True}),
    "full mass matrix": (lw.mass_matrix, {}),
    "forward dynamics": (lw.forward_dynamics, {}),
}


@cache
def model(robot: str) -> lw.Model:
    """The model of a robot of `robots.json`."""
    return from_bodies(robot, ROBOTS[robot]["bodies"])


def from_bodies(name: str, bodies: list[dict[str, Any]]) -> lw.Model:
    """A model of bodies as `robots.json` lists them."""
    builder = lw.ModelBuilder(name)
    for i, body in enumerate(bodies):
        builder.add_body(f"body{i}", mass=body["mass"], center=body["com"], inertia=np.array(body["inertia"]), check=False)
        kind = lw.joints.Free() if body["axis"] is None else lw.joints.Revolute(np.eye(3)["xyz".index(body["axis"])])
        parent = "world" if body["parent"] < 0 else f"body{body['parent']}"
        place = Pose(np.array(body["R"], dtype=float), np.array(body["p"], dtype=float))
        builder.add_joint(f"joint{i}", kind, parent=parent, child=f"body{i}", place=place)
    return builder.build()


def chain(bodies: int) -> lw.Model:
    """A chain of so many bodies, made of a humanoid's arm again and again."""
    links = ROBOTS["g1"]["bodies"][5:12]
    return from_bodies(f"chain{bodies}", [{**links[k % len(links)], "parent": k - 1} for k in range(bodies)])


def programs(robot: str) -> dict[str, lw.Program]:
    """The traced programs of a robot, by the names in tables."""
    return {name: fn.program(model(robot), **options) for name, (fn, options) in ALGORITHMS.items()}
