"""A small renderer without browser and GPU: shaded triangles in perspective, with shadows on the ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from linkwork.formats.mesh import Mesh

LIGHT = np.array([0.35, -0.5, 0.8]) / np.linalg.norm([0.35, -0.5, 0.8])
BACKGROUND_COLOUR = (252, 252, 252)
PIXELS_PER_BLOCK = 1_000_000  # pixels that are processed together
SAMPLES = 2  # per pixel and direction, averaged: edges are smooth
# of the ground, of its lines, and of shadows on it; ground and lines fade towards the horizon
FLOOR_COLOUR = (226, 228, 231)
LINE_COLOUR = (200, 203, 207)
SHADOW_COLOUR = (186, 189, 194)
CREASE_COSINE = 0.6  # faces at larger angles are not shaded smoothly across their common edge
AMBIENT = 0.66  # brightness of faces in the light's plane; those facing the light have 1
# Scenes with a smaller extent along one axis, relative to the largest extent, are viewed along that axis.
THIN = 0.15


@dataclass(frozen=True)
class Camera:
    """Perspective camera from an `eye` towards a point `at` [m], with `pixels` per metre there.

    `up` is the vertical direction of the picture.
    """

    eye: np.ndarray
    at: np.ndarray
    pixels: float
    width: int
    height: int
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)

    @property
    def axes(self) -> np.ndarray:
        """Return the directions to the right, down and ahead as rows."""
        ahead = (self.at - self.eye) / np.linalg.norm(self.at - self.eye)
        right = np.cross(ahead, self.up)
        right /= np.linalg.norm(right)
        return np.array([right, -np.cross(right, ahead), ahead])

    def enlarged(self, factor: int) -> Camera:
        """Return the camera of the same view with `factor` times as many pixels in each direction."""
        return replace(
            self, pixels=self.pixels * factor, width=self.width * factor, height=self.height * factor
        )

    def see(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return places in the picture, (n, 2), and distances along the view [m], (n,)."""
        far = float(np.linalg.norm(self.at - self.eye))
        x, y, depth = self.axes @ (np.asarray(points, dtype=float) - self.eye).T
        scale = self.pixels * far / np.maximum(depth, 0.05 * far)
        return np.column_stack([self.width / 2 + x * scale, self.height / 2 + y * scale]), depth


def camera_for(low: np.ndarray, high: np.ndarray, width: int, height: int) -> Camera:
    """Return a camera that sees a box [m]: flat ones along their normal, others from front and above."""
    middle = 0.5 * (low + high)
    extent = high - low
    reach = max(float(np.linalg.norm(extent)), 1e-3)
    thin = int(np.argmin(extent))
    direction = np.array([-0.55, -1.0, 0.22])
    up = (0.0, 0.0, 1.0)
    if extent[thin] < THIN * extent.max() and thin == 2:
        direction = np.array([-0.12, -0.3, 1.0])
        up = (0.0, 1.0, 0.0)
    elif extent[thin] < THIN * extent.max():
        direction = np.array([[-1.0, -0.25, 0.2], [-0.25, -1.0, 0.2]][thin])
    eye = middle + 2.2 * reach * direction / np.linalg.norm(direction)
    camera = Camera(eye, middle, 1.0, width, height, up)
    corners = np.array([np.where(mask, high, low) for mask in np.ndindex(2, 2, 2)])
    places, _ = camera.see(corners)
    span = 2.0 * np.abs(places - (width / 2, height / 2)).max(axis=0)
    return replace(camera, pixels=float(np.min(0.86 * np.array([width, height]) / np.maximum(span, 1e-9))))


def backdrop(camera: Camera, floor: float, tile: float) -> np.ndarray:
    """Return the ground at height `floor` with lines every `tile` [m], up to the horizon.

    The result has shape (height, width, 3), in bytes.
    """
    right, down, ahead = camera.axes
    x = (np.arange(camera.width) + 0.5 - camera.width / 2) / camera.pixels
    y = (np.arange(camera.height) + 0.5 - camera.height / 2) / camera.pixels
    far = float(np.linalg.norm(camera.at - camera.eye))
    rays = far * ahead + x[None, :, None] * right + y[:, None, None] * down
    falls = rays[..., 2] < -1e-6
    distance = np.where(falls, (floor - camera.eye[2]) / np.where(falls, rays[..., 2], -1.0), np.inf)
    ground = falls & (distance > 0.0)
    points = camera.eye[:2] + np.where(ground, distance, 0.0)[..., None] * rays[..., :2]
    off = np.abs(points / tile - np.round(points / tile)).min(axis=-1) * tile
    line = off < distance / camera.pixels  # about two pixels wide
    near = np.where(ground, np.exp(-np.maximum(np.where(ground, distance, 1.0) - 1.0, 0.0)), 0.0)
    lines = (near * line)[..., None]
    haze = np.where(ground, np.exp(-0.35 * np.maximum(np.where(ground, distance, 1.0) - 1.0, 0.0)), 0.0)[
        ..., None
    ]
    tiled = lines * np.array(LINE_COLOUR) + (1.0 - lines) * np.array(FLOOR_COLOUR)
    return np.asarray(haze * tiled + (1.0 - haze) * BACKGROUND_COLOUR).round().astype(np.uint8)


def shadows(
    solids: Sequence[tuple[Mesh, tuple[int, int, int]]], floor: float
) -> list[tuple[Mesh, tuple[int, int, int]]]:
    """Return the shadows of solids on the ground at height `floor`, as flat solids."""
    flat = []
    for mesh, _ in solids:
        height = mesh.vertices[:, 2:] - floor
        flat.append((Mesh(mesh.vertices - height * (LIGHT / LIGHT[2]), mesh.faces), SHADOW_COLOUR))
    return flat


def reduced(fine: np.ndarray) -> np.ndarray:
    """Return a picture with the mean of SAMPLES × SAMPLES pixels in each."""
    height, width, _ = fine.shape
    blocks = fine.reshape(height // SAMPLES, SAMPLES, width // SAMPLES, SAMPLES, 3).astype(np.uint16)
    return (blocks.sum(axis=(1, 3)) // SAMPLES**2).astype(np.uint8)


def smooth_pixels(
    camera: Camera,
    solids: Sequence[tuple[Mesh, tuple[int, int, int]]],
    ground: np.ndarray,
    plain: np.ndarray,
    floor: float | None = None,
) -> np.ndarray:
    """Return an anti-aliased picture of solids, with their shadows on the ground at height `floor`.

    `ground` is the backdrop of the camera enlarged by SAMPLES and `plain` the same reduced: only the part of
    the picture that solids and shadows cover is drawn and reduced.
    """
    fine = camera.enlarged(SAMPLES)
    triangles = visible(fine, solids)
    if floor is not None:
        dark = visible(fine, shadows(solids, floor), shaded=False)
        triangles = Triangles(*(np.concatenate(pair) for pair in zip(dark, triangles)))
    picture = plain.copy()
    if not len(triangles.corners):
        return picture
    low = np.clip(
        np.floor(triangles.corners.min(axis=(0, 1)) / SAMPLES) - 1, 0, (camera.width, camera.height)
    ).astype(int)
    high = np.clip(
        np.ceil(triangles.corners.max(axis=(0, 1)) / SAMPLES) + 1, low, (camera.width, camera.height)
    ).astype(int)
    (x0, y0), (x1, y1) = low, high
    part = ground[SAMPLES * y0 : SAMPLES * y1, SAMPLES * x0 : SAMPLES * x1]
    moved = triangles._replace(corners=triangles.corners - SAMPLES * low)
    drawn = as_pixels(moved, SAMPLES * int(x1 - x0), SAMPLES * int(y1 - y0), np.ascontiguousarray(part))
    picture[y0:y1, x0:x1] = reduced(drawn)
    return picture


class Triangles(NamedTuple):
    """Triangles in a picture, those behind first.

    Corners, (n, 3, 2) [px], colours of the corners, (n, 3, 3), from 0 to 255, and depths of the corners along
    the view, (n, 3) [m].
    """

    corners: np.ndarray
    colours: np.ndarray
    depths: np.ndarray


def corner_normals(faces: np.ndarray, normals: np.ndarray, areas: np.ndarray, vertices: int) -> np.ndarray:
    """Return unit normals at the corners of faces, (n, 3, 3), averaged over faces except at creases."""
    sums = np.zeros((vertices, 3))
    np.add.at(sums, faces.ravel(), np.repeat(normals * areas[:, None], 3, axis=0))
    mean = sums[faces]
    mean /= np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-300)
    is_smooth = np.einsum("nkj,nj->nk", mean, normals) > CREASE_COSINE
    return np.where(is_smooth[..., None], mean, normals[:, None, :])


def visible(
    camera: Camera, solids: Sequence[tuple[Mesh, tuple[int, int, int]]], *, shaded: bool = True
) -> Triangles:
    """Return the triangles of solids, in the world, that face the camera."""
    corners = [np.zeros((0, 3, 2))]
    colours = [np.zeros((0, 3, 3))]
    depths = [np.zeros((0, 3))]
    for mesh, colour in solids:
        if not len(mesh.faces):
            continue
        places, depth = camera.see(mesh.vertices)
        a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        area = np.linalg.norm(normal, axis=1)
        normal /= np.maximum(area[:, None], 1e-300)
        faces = np.einsum("ij,ij->i", normal, a - camera.eye) < 0.0
        shade = np.ones((len(faces), 3))
        if shaded:
            normals = corner_normals(mesh.faces, normal, area, len(mesh.vertices))
            shade = 1.15 * (AMBIENT + (1.0 - AMBIENT) * np.clip(normals @ LIGHT, -1.0, 1.0))
        corners.append(places[mesh.faces[faces]])
        colours.append(np.clip(shade[faces][..., None] * np.array(colour), 0, 255))
        depths.append(depth[mesh.faces[faces]])
    order = np.argsort(-np.concatenate(depths).mean(axis=1), kind="stable")
    return Triangles(
        np.concatenate(corners)[order], np.concatenate(colours)[order], np.concatenate(depths)[order]
    )


def as_svg(triangles: Triangles, width: int, height: int, *, title: str = "") -> str:
    """Return the picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        f"<title>{title}</title>" if title else "",
        f'<rect width="{width}" height="{height}" fill="#{"".join(f"{c:02x}" for c in BACKGROUND_COLOUR)}"/>'
        '<g stroke-width="0.6">',
    ]
    for corners, colour in zip(triangles.corners.round(1), triangles.colours.mean(axis=1).astype(int)):
        path = " ".join(f"{x:g},{y:g}" for x, y in corners)
        tint = f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"
        parts.append(f'<polygon points="{path}" fill="{tint}" stroke="{tint}"/>')
    return "\n".join([*parts, "</g></svg>\n"])


def as_pixels(triangles: Triangles, width: int, height: int, ground: np.ndarray | None = None) -> np.ndarray:
    """Return the picture in front of a `ground` picture or white, (height, width, 3), from 0 to 255."""
    picture = np.empty((height, width, 3), dtype=np.uint8) if ground is None else ground.copy()
    if ground is None:
        picture[:] = BACKGROUND_COLOUR
    nearness = np.zeros((height, width))  # 1 / depth of what is drawn in each pixel
    low = np.clip(np.floor(triangles.corners.min(axis=1)), 0, (width, height)).astype(int)
    high = np.clip(np.ceil(triangles.corners.max(axis=1)) + 1, 0, (width, height)).astype(int)
    wide, tall = (high - low).T.clip(min=0)
    ends = np.cumsum(wide * tall)
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + PIXELS_PER_BLOCK)))
        _fill(picture, nearness, triangles, low, wide, tall, slice(begin, end))
        begin = end
    return picture


def _fill(
    picture: np.ndarray,
    nearness: np.ndarray,
    triangles: Triangles,
    low: np.ndarray,
    wide: np.ndarray,
    tall: np.ndarray,
    chunk: slice,
) -> None:
    """Colour the pixels of a chunk of triangles that are in front of those drawn before.

    All pixels are processed together; depths and colours are interpolated between corners.
    """
    counts = (wide * tall)[chunk]
    which = np.repeat(np.arange(chunk.start, chunk.start + len(counts)), counts)
    place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    x = low[which, 0] + place % wide[which]
    y = low[which, 1] + place // wide[which]
    corners = triangles.corners
    edges = np.roll(corners, -1, axis=1) - corners
    area = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]
    sign = np.sign(area)
    inside = sign[which] != 0.0
    inverse_depth = 1.0 / triangles.depths
    near = np.zeros(len(which))
    weights = np.zeros((3, len(which)))  # of the corners
    for k in range(3):
        ex, ey = edges[which, k].T
        cx, cy = corners[which, k].T
        over = -0.35 * (np.abs(ex) + np.abs(ey))  # a little over the edge, so that there are no gaps
        side = ex * (y + 0.5 - cy) - ey * (x + 0.5 - cx)
        inside &= sign[which] * side >= over
        near += inverse_depth[which, (k + 2) % 3] * side  # 1 / depth is linear in the picture
        weights[(k + 2) % 3] = side
    which = which[inside]
    place = (y * picture.shape[1] + x)[inside]
    near = near[inside] / area[which]
    weights = weights[:, inside] / area[which]
    front = near > nearness.ravel()[place]
    order = np.flatnonzero(front)[np.argsort(near[front], kind="stable")]  # the nearest is written last
    nearness.reshape(-1)[place[order]] = near[order]
    mixed = np.einsum("kn,nkc->nc", weights[:, order], triangles.colours[which[order]])
    picture.reshape(-1, 3)[place[order]] = np.clip(mixed, 0, 255).astype(np.uint8)
