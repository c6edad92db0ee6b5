"""Scene of a model: coloured meshes of its bodies in their frames, and ellipsoids of inertia."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from linkwork.formats.folders import Folders
from linkwork.formats.mesh import Mesh, together
from linkwork.mechanism import Body
from linkwork.model import GROUND, Model
from linkwork.visualization.shapes import ellipsoid, rod
from linkwork.visualization.tree import cluster_numbers
from linkwork.visualization.visuals import geometry_meshes

PLAIN = (150, 160, 172)  # bodies in no loop
CLUSTERS = (
    (74, 134, 196),
    (232, 145, 58),
    (92, 168, 92),
    (205, 88, 110),
    (142, 110, 192),
    (196, 172, 60),
    (60, 172, 172),
)


@dataclass(frozen=True)
class Scene:
    """Meshes and colours by body, in its frame (GROUND for the world), and ellipsoids of inertia.

    `notes` lists what is not shown. `size` is about the length of the model [m], which scales arrows and
    frames.
    """

    model: Model
    meshes: dict[int, Mesh]
    colours: dict[int, tuple[int, int, int]]
    inertias: dict[int, Mesh]
    notes: tuple[str, ...]
    size: float


def scene(
    model: Model,
    *,
    file: str | os.PathLike[str] | None = None,
    folders: Iterable[str | os.PathLike[str]] = (),
) -> Scene:
    """Return the drawable parts of a model.

    `file` is the file of the model, whose visuals are used if present. Meshes are opened only inside its
    folder and in `folders`. Bodies without visuals are drawn as bars between joints, or as the ellipsoid of
    their inertia.
    """
    folder = None if file is None else os.fspath(file)
    by_body, notes = geometry_meshes(model.geometries, Folders(folder, folders))
    meshes = {body: together(each) for body, each in by_body.items()}
    size = model_size(model)
    cluster = cluster_numbers(model)
    inertias = {body.index: inertia_ellipsoid(body, 0.02 * size) for body in model.bodies}
    for body in model.bodies:
        if body.index not in meshes:
            meshes[body.index] = _bars(model, body, size) or inertias[body.index]
    colours = {
        body.index: CLUSTERS[(cluster[body.index] - 1) % len(CLUSTERS)] if body.index in cluster else PLAIN
        for body in model.bodies
    }
    return Scene(model, meshes, {**colours, GROUND: (120, 120, 120)}, inertias, tuple(notes), size)


def model_size(model: Model) -> float:
    """Return the extent of joints and centres of mass in the neutral state of the tree [m], at least 1 cm."""
    from linkwork.functions.kinematics import forward_kinematics

    points = [np.zeros(3)]
    if model.bodies:
        poses = np.asarray(forward_kinematics.body(model, model.neutral()), dtype=float)
        poses = poses[np.isfinite(poses).all(axis=(1, 2))]
        points = [*poses[:, :3, 3]]
        centers = [pose[:3, :3] @ body.center + pose[:3, 3] for pose, body in zip(poses, model.bodies)]
        points += centers
        for loop in model.loops:
            points += [poses[e.body][:3, :3] @ np.asarray(e.place.p, dtype=float) + poses[e.body][:3, 3]
                       for e in loop.ends if e.body != GROUND]  # fmt: skip
    spread = np.ptp(np.array(points), axis=0) if len(points) > 1 else np.zeros(3)
    return max(float(np.linalg.norm(spread)), 0.01)


def inertia_ellipsoid(body: Body, least: float) -> Mesh:
    """Return the solid ellipsoid with the mass and moment of inertia of a body, in its frame.

    Semi-axes are at least `least` [m].
    """
    values, axes = np.linalg.eigh(np.asarray(body.moment, dtype=float))
    if body.mass > 0:
        squares = 2.5 * (values.sum() - 2.0 * values) / body.mass  # of the semi-axes: I = m (b² + c²) / 5
        semi = np.sqrt(np.maximum(squares, 0.0))
    else:
        semi = np.zeros(3)
    semi = np.clip(semi, least, None)
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
    return ellipsoid(semi).moved(axes, body.center)


def _bars(model: Model, body: Body, size: float) -> Mesh | None:
    """Return bars from a body's origin to the joints, loops and frames on it; None where it has none."""
    ends = [np.asarray(j.place.p, dtype=float) for j in model.joints if j.parent == body.index]
    ends += [
        np.asarray(e.place.p, dtype=float) for loop in model.loops for e in loop.ends if e.body == body.index
    ]
    ends += [np.asarray(f.place.p, dtype=float) for f in model.frames if f.body == body.index]
    far = [end for end in ends if np.linalg.norm(end) > 1e-3 * size]
    if not far and np.linalg.norm(body.center) > 1e-3 * size and body.mass > 0:
        far = [2.0 * body.center]  # a bar whose middle is the centre of mass
    if not far:
        return None
    length = sum(float(np.linalg.norm(end)) for end in far)
    thick = float(
        np.clip(0.85 * np.sqrt(max(body.mass, 0.0) / (1000.0 * np.pi * length)), 0.008 * size, 0.03 * size)
    )
    unique = list({tuple(np.round(end / size, 4)): end for end in far}.values())[:12]
    parts = [rod(np.zeros(3), end, thick) for end in unique]
    # Balls at the far ends are smaller, so that they do not coincide with those of the bodies there.
    balls = [ellipsoid(1.25 * thick), *(ellipsoid(1.15 * thick).moved(np.eye(3), end) for end in unique)]
    return together([*parts, *balls])


def bounds(seen: Scene, q: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the height of the lowest point of a model, and the middle of its bounding box, (3,) [m]."""
    if not seen.model.bodies:
        return 0.0, np.zeros(3)
    from linkwork.functions.kinematics import forward_kinematics

    poses = np.asarray(forward_kinematics(seen.model, q), dtype=float)
    points = np.concatenate([seen.meshes[k].moved(T[:3, :3], T[:3, 3]).vertices for k, T in enumerate(poses)])
    low = points.min(axis=0)
    high = points.max(axis=0)
    return float(low[2]), 0.5 * (low + high)
