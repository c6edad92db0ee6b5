"""Films (GIF, MP4) and pictures (SVG, PNG) of a model's motion, without a browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.formats.mesh import Mesh
from linkwork.functions.kinematics import forward_kinematics
from linkwork.joints import Rod
from linkwork.mechanism import Loop
from linkwork.mechanism.names import plain, printable
from linkwork.model import GROUND, Model
from linkwork.visualization.images import pillow, write_gif, write_png
from linkwork.visualization.mp4 import ffmpeg, write_mp4
from linkwork.visualization.render import (
    SAMPLES,
    Camera,
    Triangles,
    as_svg,
    backdrop,
    camera_for,
    reduced,
    smooth_pixels,
    visible,
)
from linkwork.visualization.scene import Scene, scene
from linkwork.visualization.shapes import box, ellipsoid, rod

SIZE = (1280, 720)  # [px]
PICTURES_PER_SECOND = 20.0
MAX_PICTURES = 600
MAX_FACES = 2000  # of one body; larger meshes are simplified
PICTURED_STATES = 5  # in a picture of a motion
# colours of loop rods and of joints that close loops
ROD_COLOUR = (70, 74, 82)
JOINT_COLOUR = (196, 60, 56)
SHADES = (1.0, 0.72, 1.22)  # of neighbouring bodies of one colour


def film(
    model: Model,
    q: Any,
    t: Any = None,
    path: str | os.PathLike[str] = "film.gif",
    *,
    size: tuple[int, int] = SIZE,
    file: str | os.PathLike[str] | None = None,
    folders: Iterable[str | os.PathLike[str]] = (),
    progress: Callable[[float], None] = lambda part: None,
) -> Path:
    """Write a film or a picture of a motion, and return its path.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like, shape (n, nq) or (nq,)
        Configurations. Those that are not finite, as after a rollout has stopped, are left out.
    t : array_like, shape (n,), optional
        Times [s]; 20 pictures per second by default.
    path : str or path-like
        The suffix selects the format: films as .gif or .mp4 with 20 pictures per second, pictures of one or a
        few configurations as .png or .svg. All but .svg need ``pip install 'linkwork[film]'``.
    size : (int, int)
        Width and height [px].
    file, folders : optional
        Location of visuals, as in `view`.
    progress : callable
        Called with the progress, from 0 to 1.

    Returns
    -------
    pathlib.Path
        The path.
    """
    where = Path(path)
    suffix = checked_suffix(where)
    qs = np.atleast_2d(np.asarray(q, dtype=float))
    if qs.ndim != 2 or qs.shape[1] != model.nq or not len(qs):
        raise ShapeError(f"film: q: expected shape ({model.nq},) or (n, {model.nq}), got {np.shape(q)}")
    times = np.arange(len(qs)) / PICTURES_PER_SECOND if t is None else np.asarray(t, dtype=float)
    if times.shape != (len(qs),):
        raise ShapeError(f"film: t: expected shape ({len(qs)},), got {times.shape}")
    fine = np.isfinite(qs).all(axis=1)
    if not fine.any():
        raise ModelError("film: no configuration is finite")
    qs = qs[fine]
    times = times[fine]
    seen = scene(model, file=file, folders=folders)
    seen.meshes.update({k: mesh.simplified(MAX_FACES) for k, mesh in seen.meshes.items()})
    if suffix in (".gif", ".mp4"):
        pictures, seconds = _pictures(seen, qs, times, size, progress)
        (write_gif if suffix == ".gif" else write_mp4)(where, pictures, seconds)
    else:
        selected = np.unique(np.linspace(0, len(qs) - 1, PICTURED_STATES).round().astype(int))
        poses = _poses(seen.model, qs[selected])
        camera = _camera(seen, poses, *size)
        if suffix == ".svg":
            plate = visible(camera, [_floor(seen, poses)])
            above = visible(camera, _moments(seen, poses))
            triangles = Triangles(*(np.concatenate(pair) for pair in zip(plate, above)))
            where.write_text(as_svg(triangles, *size, title=escape(plain(model.name))), encoding="utf-8")
        else:
            ground = _ground(seen, poses, camera)
            floor = _ground_height(seen, poses)
            write_png(where, smooth_pixels(camera, _moments(seen, poses), ground, reduced(ground), floor))
    return where


def checked_suffix(path: Path) -> str:
    """Return the suffix of a film or picture.

    Raise if it is unknown or the package that writes it is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in (".gif", ".mp4", ".svg", ".png"):
        raise ModelError(f"film: expected a .gif, .mp4, .svg or .png file, got {printable(path.name)}")
    if suffix == ".mp4":
        ffmpeg()
    elif suffix != ".svg":
        pillow()
    return suffix


def _pictures(
    seen: Scene, qs: np.ndarray, times: np.ndarray, size: tuple[int, int], progress: Callable[[float], None]
) -> tuple[list[np.ndarray], float]:
    """Return the pictures of a film, and how long each is seen [s]."""
    count = int(np.clip(round((times[-1] - times[0]) * PICTURES_PER_SECOND) + 1, 1, MAX_PICTURES))
    moments = np.linspace(times[0], times[-1], count)
    selected = np.clip(np.searchsorted(times, moments - 1e-9), 0, len(times) - 1)
    poses = _poses(seen.model, qs[selected])
    camera = _camera(seen, poses, *size)
    ground = _ground(seen, poses, camera)
    plain_ground = reduced(ground)
    floor = _ground_height(seen, poses)
    pictures = []
    for k, pose in enumerate(poses):
        pictures.append(smooth_pixels(camera, _solids(seen, pose), ground, plain_ground, floor))
        progress((k + 1) / len(poses))
    return pictures, float(moments[-1] - moments[0]) / (count - 1) if count > 1 else 1.0


def _moments(seen: Scene, poses: np.ndarray) -> list[tuple[Mesh, tuple[int, int, int]]]:
    """Return the solids of a few configurations in one picture, the earlier ones pale."""
    solids = []
    for k, pose in enumerate(poses):
        share = (k + 1) / len(poses)
        solids += [(mesh, _mixed(colour, share)) for mesh, colour in _solids(seen, pose)]
    return solids


def _mixed(colour: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    r, g, b = (round(share * c + (1.0 - share) * 235) for c in colour)
    return r, g, b


def _poses(model: Model, qs: np.ndarray) -> np.ndarray:
    """Return the poses of all bodies, (n, bodies, 4, 4)."""
    if not model.bodies:
        return np.zeros((len(qs), 0, 4, 4))
    return np.asarray(forward_kinematics(model, qs), dtype=float)


def _solids(seen: Scene, pose: np.ndarray) -> list[tuple[Mesh, tuple[int, int, int]]]:
    placed = []
    for k in range(len(pose)):
        red, green, blue = (min(255, round(SHADES[k % len(SHADES)] * part)) for part in seen.colours[k])
        placed.append((seen.meshes[k].moved(pose[k, :3, :3], pose[k, :3, 3]), (red, green, blue)))
    if GROUND in seen.meshes:
        placed.append((seen.meshes[GROUND], seen.colours[GROUND]))
    return placed + _loop_solids(seen, pose)


def _loop_solids(seen: Scene, pose: np.ndarray) -> list[tuple[Mesh, tuple[int, int, int]]]:
    """Return rods of loops, and balls where other joints close loops."""
    solids: list[tuple[Mesh, tuple[int, int, int]]] = []
    for loop in seen.model.loops:
        if isinstance(loop, Loop):
            ends = [_placed(end.body, end.place.p, pose) for end in loop.ends]
            is_rod = isinstance(loop.kind, Rod) and np.linalg.norm(ends[1] - ends[0]) > 1e-4 * seen.size
            radius, colour = (0.018, ROD_COLOUR) if is_rod else (0.0385, JOINT_COLOUR)
            solids += [(ellipsoid(radius * seen.size).moved(np.eye(3), end), colour) for end in ends]
            if is_rod:
                solids.append((rod(ends[0], ends[1], 0.012 * seen.size), ROD_COLOUR))
    return solids


def _placed(body: int, point: Any, pose: np.ndarray) -> np.ndarray:
    """Return a point of a body in the world."""
    local = np.asarray(point, dtype=float)
    return local if body == GROUND else pose[body, :3, :3] @ local + pose[body, :3, 3]


def _bounds(seen: Scene, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    subset = poses[:: max(1, len(poses) // 40)]
    points = [np.zeros((1, 3))] if not seen.meshes else []
    for pose in subset:
        points += [mesh.vertices for mesh, _ in _solids(seen, pose)]
    every = np.concatenate(points)
    return every.min(axis=0), every.max(axis=0)


def _camera(seen: Scene, poses: np.ndarray, width: int, height: int) -> Camera:
    low, high = _bounds(seen, poses)
    return camera_for(low, high, width, height)


def _ground(seen: Scene, poses: np.ndarray, camera: Camera) -> np.ndarray:
    """Return the ground below everything, up to the horizon, for a camera enlarged by SAMPLES."""
    tile = 10.0 ** np.floor(np.log10(seen.size)) * 0.5
    return backdrop(camera.enlarged(SAMPLES), _ground_height(seen, poses), float(tile))


def _ground_height(seen: Scene, poses: np.ndarray) -> float:
    """Return the height of the ground, below everything [m]."""
    low, _ = _bounds(seen, poses)
    return float(low[2]) - 0.003 * seen.size


def _floor(seen: Scene, poses: np.ndarray) -> tuple[Mesh, tuple[int, int, int]]:
    """Return a plate below everything, across gravity where that points down."""
    low, high = _bounds(seen, poses)
    middle = 0.5 * (low + high)
    reach = 0.6 * max(float(np.max(high[:2] - low[:2])), 0.3 * seen.size)
    thick = 0.002 * seen.size
    plate = box(np.array([2 * reach, 2 * reach, thick]))
    return plate.moved(np.eye(3), np.array([middle[0], middle[1], low[2] - 0.02 * seen.size - thick])), (
        214,
        216,
        208,
    )
