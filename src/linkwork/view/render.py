"""A small renderer without a browser and without a GPU: triangles in perspective, shaded, those behind first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from linkwork.view.shapes import Mesh

LIGHT = np.array([0.35, -0.5, 0.8]) / np.linalg.norm([0.35, -0.5, 0.8])
PAPER = (251, 251, 249)
AT_ONCE = 1_000_000  # pixels that are looked at together


@dataclass(frozen=True)
class Camera:
    """Perspective: from an `eye` towards a point `at` [m], with so many `pixels` for a metre there."""

    eye: np.ndarray
    at: np.ndarray
    pixels: float
    width: int
    height: int

    def see(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the picture, (n, 2), and distances along the view [m], (n,)."""
        out = self.at - self.eye
        far = float(np.linalg.norm(out))
        ahead = out / far
        right = np.cross(ahead, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        axes = np.array([right, -np.cross(right, ahead), ahead])
        x, y, depth = axes @ (np.asarray(points, dtype=float) - self.eye).T
        scale = self.pixels * far / np.maximum(depth, 0.05 * far)
        return np.column_stack([self.width / 2 + x * scale, self.height / 2 + y * scale]), depth


def camera_for(low: np.ndarray, high: np.ndarray, width: int, height: int) -> Camera:
    """A camera that sees all of a box [m], from the front, a little from the right and from above."""
    middle, reach = 0.5 * (low + high), max(float(np.linalg.norm(high - low)), 1e-3)
    direction = np.array([-0.55, -1.0, 0.42])
    eye = middle + 2.2 * reach * direction / np.linalg.norm(direction)
    return Camera(eye, middle, 0.92 * min(width, height) / reach, width, height)


class Triangles(NamedTuple):
    """Triangles in a picture, those behind first: corners, (n, 3, 2) [px], and colours, (n, 3), from 0 to 255."""

    corners: np.ndarray
    colours: np.ndarray


def visible(camera: Camera, solids: Sequence[tuple[Mesh, tuple[int, int, int]]]) -> Triangles:
    """The triangles of solids, in the world, that face the camera."""
    corners, colours, depths = [np.zeros((0, 3, 2))], [np.zeros((0, 3))], [np.zeros(0)]
    for mesh, colour in solids:
        if not len(mesh.faces):
            continue
        places, depth = camera.see(mesh.vertices)
        a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
        faces = np.einsum("ij,ij->i", normal, a - camera.eye) < 0.0
        shade = 0.62 + 0.38 * np.clip(normal @ LIGHT, -1.0, 1.0)
        corners.append(places[mesh.faces[faces]])
        colours.append(np.clip(shade[faces, None] * 1.15 * np.array(colour), 0, 255))
        depths.append(depth[mesh.faces[faces]].mean(axis=1))
    order = np.argsort(-np.concatenate(depths), kind="stable")
    return Triangles(np.concatenate(corners)[order], np.concatenate(colours)[order])


def as_svg(triangles: Triangles, width: int, height: int, *, title: str = "") -> str:
    """The picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{title}</title>" if title else "",
        f'<rect width="{width}" height="{height}" fill="#{"".join(f"{c:02x}" for c in PAPER)}"/><g stroke-width="0.6">',
    ]
    for corners, colour in zip(triangles.corners.round(1), triangles.colours.astype(int)):
        path = " ".join(f"{x:g},{y:g}" for x, y in corners)
        tint = f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"
        parts.append(f'<polygon points="{path}" fill="{tint}" stroke="{tint}"/>')
    return "\n".join([*parts, "</g></svg>\n"])


def as_pixels(triangles: Triangles, width: int, height: int, ground: np.ndarray | None = None) -> np.ndarray:
    """The picture as pixels, (height, width, 3), from 0 to 255, on top of a `ground` picture or of paper."""
    picture = np.empty((height, width, 3), dtype=np.uint8) if ground is None else ground.copy()
    if ground is None:
        picture[:] = PAPER
    low = np.clip(np.floor(triangles.corners.min(axis=1)), 0, (width, height)).astype(int)
    high = np.clip(np.ceil(triangles.corners.max(axis=1)) + 1, 0, (width, height)).astype(int)
    wide, tall = (high - low).T.clip(min=0)
    ends = np.cumsum(wide * tall)
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + AT_ONCE)))
        _fill(picture, triangles, low, wide, tall, slice(begin, end))
        begin = end
    return picture


def _fill(picture: np.ndarray, triangles: Triangles, low: np.ndarray, wide: np.ndarray, tall: np.ndarray, some: slice) -> None:
    """Colour the pixels of some triangles, later ones on top: all pixels around each are looked at together."""
    counts = (wide * tall)[some]
    which = np.repeat(np.arange(some.start, some.start + len(counts)), counts)
    place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    x, y = low[which, 0] + place % wide[which], low[which, 1] + place // wide[which]
    corners = triangles.corners
    edges = np.roll(corners, -1, axis=1) - corners
    area = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]
    sign = np.sign(area)
    inside = sign[which] != 0.0
    for k in range(3):
        ex, ey = edges[which, k].T
        cx, cy = corners[which, k].T
        over = -0.35 * (np.abs(ex) + np.abs(ey))  # a little over the edge, so that there are no gaps
        inside &= sign[which] * (ex * (y + 0.5 - cy) - ey * (x + 0.5 - cx)) >= over
    height, width, _ = picture.shape
    picture.reshape(height * width, 3)[y[inside] * width + x[inside]] = triangles.colours.astype(np.uint8)[which[inside]]
