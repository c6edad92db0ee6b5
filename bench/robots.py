"""Robots for benchmarks, with placements, masses and axes of their URDFs in `robots.json`; chains and trees.

`talos_hands.json` is Talos with an Allegro hand for each gripper: many bodies and fingertips.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import linkwork as lw
from linkwork.spatial import Pose, snapped
from linkwork.spatial.constants import product

ROBOTS: dict[str, Any] = json.loads((Path(__file__).parent / "robots.json").read_text())
Body = dict[str, Any]
"""Parent (-1: the world), axis (None: free), R and p of its place on the parent, mass, com, inertia about the com."""

# What is measured: the name in tables, the function, and its options. The mass matrix is the upper triangle
# without the zeros that a tree has, which is what peers compute too.
ALGORITHMS: dict[str, tuple[lw.ModelFunction, dict[str, Any]]] = {
    "inverse dynamics": (lw.inverse_dynamics, {}),
    "mass matrix": (lw.mass_matrix, {"packed": True}),
    "full mass matrix": (lw.mass_matrix, {}),
    "forward dynamics": (lw.forward_dynamics, {}),
}


@cache
def bodies(robot: str) -> list[Body]:
    """Return the bodies, depth first: of a robot in a file here, of "chain20" (20 bodies) or of "tree21"."""
    if robot in ROBOTS:
        return ROBOTS[robot]["bodies"]
    if made := re.fullmatch(r"(chain|tree)(\d+)", robot):
        links = ROBOTS["g1"]["bodies"][5:12]  # a humanoid's arm again and again
        parents = PARENTS[made[1]](int(made[2]))
        return [{**links[k % len(links)], "parent": parent} for k, parent in enumerate(parents)]
    return json.loads((Path(__file__).parent / f"{robot}.json").read_text())[robot]["bodies"]


def chain_parents(count: int) -> list[int]:
    """Return the parents of a chain."""
    return list(range(-1, count - 1))


def tree_parents(count: int, parent: int = -1) -> list[int]:
    """Return the parents of a balanced binary tree of 3, 9, 21, 45, 93, ... bodies, three in each branch
    (Constrained, Section VIII-B).
    """
    branch = [parent, *range(parent + 1, parent + 3)]
    below, rest = divmod(count - 3, 2)
    if count < 3 or rest or below in (1, 2):
        raise ValueError("3, 9, 21, 45, 93, ... bodies make a tree")
    if below:
        branch += tree_parents(below, parent + 3)
        branch += [parent + 3 if p == parent + 3 else p + below for p in branch[3:]]
    return branch


PARENTS: dict[str, Callable[[int], list[int]]] = {"chain": chain_parents, "tree": tree_parents}


@cache
def model(robot: str) -> lw.Model:
    """Return the model of a robot, as `bodies` names it."""
    return from_bodies(robot, bodies(robot))


def from_bodies(name: str, bodies: list[Body], frames: dict[str, tuple[int, Pose]] | None = None) -> lw.Model:
    """Return a model of bodies as listed in `robots.json`, with frames on some of them."""
    builder = lw.ModelBuilder(name)
    for i, body in enumerate(bodies):
        builder.add_body(
            f"body{i}", mass=body["mass"], center=body["com"], inertia=np.array(body["inertia"]), check=False
        )
        kind = (
            lw.joints.Free()
            if body["axis"] is None
            else lw.joints.Revolute(np.eye(3)["xyz".index(body["axis"])])
        )
        parent = "world" if body["parent"] < 0 else f"body{body['parent']}"
        place = Pose(_rotation(np.array(body["R"], dtype=float)), np.array(body["p"], dtype=float))
        builder.add_joint(f"joint{i}", kind, parent=parent, child=f"body{i}", place=place)
    for frame, (i, place) in (frames or {}).items():
        builder.add_frame(frame, body=f"body{i}", place=place)
    return builder.build()


def _rotation(R: np.ndarray) -> np.ndarray:
    """Return the rotation nearest to one that was printed with twelve digits, (3, 3)."""
    if np.isin(R, (-1.0, 0.0, 1.0)).all():
        return R
    return snapped(
        product(R, 1.5 * np.eye(3) - 0.5 * product(R.T, R))
    )  # Newton's step: the same bits on every machine


def programs(robot: str) -> dict[str, lw.Program]:
    """Return the traced programs of a robot, by their names in tables."""
    return {name: fn.program(model(robot), **options) for name, (fn, options) in ALGORITHMS.items()}
