"""The picture of the demo, as SVG: a robot in flight, its energies, a map of all flights, and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.cli.svg import GREY, INK, blend, mix, path, rule, shape, text
from linkwork.model import Model

WIDTH = 1240
HEIGHT = 1120
LOWER = 792  # where the plots begin, below the flight
TIME_COLOURS = (
    "#173f73",
    "#1f7a8c",
    "#4fa36b",
    "#e0a030",
    "#d1495b",
)  # colours from the first to the last pose
ROTATION_COLOURS = (
    "#27476e",
    "#7fa6c9",
    "#fdfdfb",
    "#e8a07a",
    "#9c2f2f",
)  # colours from turned too little to too far
LINE_COLOURS = ("#d1495b", "#1f7a8c", "#e0a030", INK)


@dataclass(frozen=True)
class Motion:
    """Times [s], (n,), poses of all bodies, (n, bodies, 4, 4), and the centre of mass [m], (n, 3)."""

    t: np.ndarray
    bodies: np.ndarray
    center: np.ndarray


@dataclass(frozen=True)
class Map:
    """Rotation of each of many flights [rad], (tucks, spins), and the selected spin and tuck."""

    spins: np.ndarray
    tucks: np.ndarray
    rotation: np.ndarray
    selected: tuple[float, float]


def draw(
    model: Model, motion: Motion, lines: dict[str, np.ndarray], field: Map, bars: dict[str, float]
) -> str:
    """Return the full picture as SVG. `lines` are energies over the motion [J], (n,), `bars` times [s]."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fbfbf9"/>',
        text(40, 52, f"A somersault, found among {field.rotation.size}", size=27, weight="bold"),
        text(40, 78, f"{model.name}, {len(model.joints) - 1} joints, {model.nv} degrees of freedom, "
                     f"{model.mass:.1f} kg: every flight simulated in one batch by one compiled kernel, "
                     "joints driven by torques", fill=GREY),
        *flight(model, motion),
        *panel(40, LOWER, "Energy of this flight", "the sum minus the work of motors is constant",
            plot(motion.t, lines)),
        *panel(455, LOWER, "All flights", "rotation at landing", heat(field)),
        *panel(870, LOWER, "Time of forward dynamics", "per state, measured on this machine", columns(bars)),
        "</svg>\n",
    ]  # fmt: skip
    return "\n".join(parts)


# the robot in flight


class Camera:
    """Perspective camera with its eye at a point [m], looking at `towards`.

    That point is drawn at `at` (x, y), with a scale of `pixels` per metre.
    """

    def __init__(self, eye: Any, towards: Any, pixels: float, at: tuple[float, float]) -> None:
        self.eye = np.array(eye, dtype=float)
        out = np.array(towards, dtype=float) - self.eye
        self.far = float(np.linalg.norm(out))
        ahead = out / self.far
        right = np.cross(ahead, (0.0, 0.0, 1.0))
        right = right / np.linalg.norm(right)
        self.axes = np.array([right, -np.cross(right, ahead), ahead])
        self.pixels = pixels
        self.at = np.array(at)

    def see(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return places in the picture, (n, 2), and the scale at each [pixels/m], (n,)."""
        x, y, depth = self.axes @ (np.asarray(points, dtype=float) - self.eye).T
        scale = self.pixels * self.far / depth
        return self.at + np.column_stack([x * scale, y * scale]), scale


def flight(model: Model, motion: Motion, count: int = 9) -> list[str]:
    """Return poses at equal times, from the first to the last, with their shadows and the way of the centre
    of mass.
    """
    selected = np.linspace(0, len(motion.t) - 1, count).round().astype(int)
    start = motion.center[0, 0]
    end = motion.center[-1, 0]
    middle = 0.5 * (start + end)
    camera = Camera((middle - 2.3, -7.5, 2.3), (middle, 0.0, 1.0), 240, (WIDTH / 2 - 10, 398))
    shapes = outlines(model)
    parts = floor(camera, start - 0.5, end + 0.3)
    parts.append('<g opacity="0.12">')
    for k in selected:  # shadows: everything flat on the ground
        flat = motion.bodies[k].copy()
        flat[:, 2, :] = 0.0
        parts += figure(camera, flat, shapes, "#000000", halo=False)
    parts.append("</g>")
    trajectory, _ = camera.see(motion.center)
    parts.append(
        f'<path d="{path(trajectory)}" fill="none" stroke="{GREY}" stroke-width="1.4" stroke-dasharray="2 '
        '5"/>'
    )
    for k in selected:
        colour = blend(TIME_COLOURS, k / (len(motion.t) - 1))
        parts += figure(camera, motion.bodies[k], shapes, colour)
        (place,), _ = camera.see([[motion.center[k, 0], -0.95, 0.0]])
        parts.append(
            text(place[0], place[1] + 14, f"{motion.t[k]:.1f} s", fill=colour, anchor="middle", weight="bold")
        )
    return parts


def floor(camera: Camera, start: float, end: float, deep: float = 0.9) -> list[str]:
    """Return a ground grid with a spacing of half a metre."""
    xs = np.arange(np.floor(2 * start), np.ceil(2 * end) + 1) / 2
    ys = np.linspace(-deep, deep, 5)
    ends = [((x, -deep, 0.0), (x, deep, 0.0)) for x in xs] + [((xs[0], y, 0.0), (xs[-1], y, 0.0)) for y in ys]
    corners, _ = camera.see([(xs[0], -deep, 0), (xs[-1], -deep, 0), (xs[-1], deep, 0), (xs[0], deep, 0)])
    lines = "".join(path(camera.see(pair)[0]) for pair in ends)
    return [
        f'<path d="{path(corners)}Z" fill="#f1f2ee"/>',
        f'<path d="{lines}" stroke="#dcdfd8" stroke-width="1"/>',
    ]


def outlines(model: Model) -> list[tuple[int, np.ndarray, float]]:
    """Return, for each body, its index, the points that it reaches to [m], (n, 3), and its thickness [m].

    A body spans its origin, the joints on it and its frames. It is a little thinner than its mass at the
    density of water would make it.
    """
    ends: dict[int, list[np.ndarray]] = {body.index: [np.zeros(3)] for body in model.bodies}
    for at, p in [(j.parent, j.place.p) for j in model.joints] + [(f.body, f.place.p) for f in model.frames]:
        if at >= 0 and np.any(p):
            ends[at].append(p)
    shapes = []
    for body in model.bodies:
        points = np.array(ends[body.index])
        length = np.linalg.norm(points, axis=1).sum()
        if length > 0:
            thick = 2 * np.sqrt(body.mass / (1000 * np.pi * length))
            shapes.append((body.index, points, min(0.85 * thick, 0.11)))
    return shapes


def figure(camera: Camera, bodies: np.ndarray, shapes: Any, colour: str, *, halo: bool = True) -> list[str]:
    """Return one pose: all bodies, those behind first and darker, each with a light rim."""
    drawings = []
    for index, points, thick in shapes:
        places, scale = camera.see(points @ bodies[index, :3, :3].T + bodies[index, :3, 3])
        drawings.append((scale.mean(), path(hull(places)) + "Z", thick * scale.mean()))
    _, middle = camera.see(bodies[:1, :3, 3])
    parts = []
    for scale, d, width in sorted(drawings):
        shade = blend(
            (mix(colour, "#000000", 0.35), colour, mix(colour, "#ffffff", 0.25)),
            0.5 + 16 * (scale / middle[0] - 1),
        )
        if halo:
            parts.append(shape(d, "#fbfbf9", width + 2.6))
        parts.append(shape(d, shade if halo else colour, width))
    return parts


def hull(points: np.ndarray) -> np.ndarray:
    """Return the convex hull of points in the plane, in order."""
    order = sorted(map(tuple, points))

    def half(points: Iterable[tuple[float, ...]]) -> list[tuple[float, ...]]:
        result: list[tuple[float, ...]] = []
        for p in points:
            while len(result) > 1 and turn(result[-2], result[-1], p) <= 0:
                result.pop()
            result.append(p)
        return result[:-1]

    def turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return np.array(half(order) + half(reversed(order)) or order)


# plots: each draws into a field of 330 by 200 pixels

FIELD = (330, 200)


def panel(x: float, y: float, title: str, subtitle: str, inside: list[str]) -> list[str]:
    """Return a plot with a title."""
    return [
        f'<g transform="translate({x} {y})">',
        text(0, 0, title, size=17, weight="bold"),
        text(0, 20, subtitle, fill=GREY),
        '<g transform="translate(0 52)">',
        *inside,
        "</g></g>",
    ]


def plot(t: np.ndarray, lines: dict[str, np.ndarray]) -> list[str]:
    """Return energies [J] over time."""
    margin, (width, height) = 42, FIELD
    values = np.array(list(lines.values()))
    lowest = values.min()
    ticks = nice(lowest if lowest < -0.02 * values.max() else 0.0, values.max())
    low = ticks[0]
    high = ticks[-1]

    def place(x: Any, y: Any) -> np.ndarray:
        across, up = np.broadcast_arrays(
            margin + (width - margin) * np.asarray(x) / t[-1], height * (high - y) / (high - low)
        )
        return np.column_stack([across.ravel(), up.ravel()])

    parts = []
    for tick in ticks:
        ((_, y),) = place(0.0, tick)
        parts += [
            rule(margin, y, width, y),
            text(margin - 8, y + 4, f"{tick:g}", fill=GREY, anchor="end", size=11),
        ]
    for tick in np.arange(0.0, t[-1] + 1e-9, 0.2):
        ((x, _),) = place(tick, low)
        parts.append(text(x, height + 17, f"{tick:.1f}", fill=GREY, anchor="middle", size=11))
    parts += [
        text(margin - 8, -10, "J", fill=GREY, anchor="end", size=11),
        text(width, height + 32, "s", fill=GREY, anchor="end", size=11),
    ]
    for k, ((name, y), colour) in enumerate(zip(lines.items(), LINE_COLOURS)):
        parts.append(
            f'<path d="{path(place(t, y))}" fill="none" stroke="{colour}" stroke-width="2.2" '
            'stroke-linejoin="round"/>'
        )
        x = margin + (k % 2) * 140
        parts += [rule(x, height + 42 + 17 * (k // 2), x + 18, height + 42 + 17 * (k // 2), colour, 3),
                  text(x + 24, height + 46 + 17 * (k // 2), name, size=12)]  # fmt: skip
    return parts


def cells(share: np.ndarray, left_edge: float, width: float, height: float) -> list[str]:
    """Return one path per colour for a map of fractions, (rows, columns), with cells of a size."""
    paths: dict[str, list[str]] = {}
    for (row, column), fraction in np.ndenumerate(share):
        colour = blend(ROTATION_COLOURS, round(64 * float(fraction)) / 64)
        corner = f"M{left_edge + column * width:.1f} {row * height:.1f}"
        paths.setdefault(colour, []).append(f"{corner}h{width:.1f}v{height:.1f}h-{width:.1f}z")
    return [f'<path d="{"".join(d)}" fill="{colour}" stroke="none"/>' for colour, d in paths.items()]


def heat(field: Map) -> list[str]:
    """Return a map of the rotation of all flights: spin to the right, tuck upwards."""
    margin, (width, height) = 42, FIELD
    side = width - margin
    span = np.radians(240)
    share = 0.5 + (field.rotation - 2 * np.pi) / (2 * span)
    (spin, tuck), spins, tucks = field.selected, field.spins, field.tucks
    x = margin + side * (spin - spins[0]) / (spins[-1] - spins[0])
    y = height * (1 - (tuck - tucks[0]) / (tucks[-1] - tucks[0]))
    parts = [
        *cells(share[::-1], margin, side / share.shape[1], height / share.shape[0]),
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="{INK}" stroke-width="2"/>',
        text(x + 11, y + (18 if y < height / 2 else -9), "shown above", size=12),
    ]
    for tick in nice(spins[0], spins[-1]):
        at = margin + side * (tick - spins[0]) / (spins[-1] - spins[0])
        parts.append(text(at, height + 17, f"{tick:g}", fill=GREY, anchor="middle", size=11))
    for tick in (0.0, 0.5, 1.0):
        parts.append(
            text(margin - 8, height * (1 - tick) + 4, f"{tick:.0%}", fill=GREY, anchor="end", size=11)
        )
    parts.append(
        text(margin + side / 2, height + 32, "spin at take-off, rad/s", fill=GREY, anchor="middle", size=11)
    )
    parts.append(text(margin - 8, -10, "tuck", fill=GREY, anchor="end", size=11))
    legend = [blend(ROTATION_COLOURS, k / 40) for k in range(41)]
    parts += [f'<rect x="{margin + side * k / 41:.1f}" y="{height + 44}" width="{side / 41 + 0.5:.1f}" '
              f'height="8" fill="{c}"/>'
              for k, c in enumerate(legend)]  # fmt: skip
    for degrees in (180, 270, 360, 450, 540):
        at = margin + side * (0.5 + np.radians(degrees - 360) / (2 * span))
        parts.append(text(at, height + 66, f"{degrees}°", fill=GREY, anchor="middle", size=11))
    return parts


def columns(bars: dict[str, float]) -> list[str]:
    """Return times [s] as bars on a logarithmic axis."""
    margin, (width, height) = 0, FIELD
    low = np.floor(np.log10(min(bars.values())))
    high = np.ceil(np.log10(max(bars.values())))
    parts = []
    for power in np.arange(low, high + 1):
        x = margin + (width - 60) * (power - low) / (high - low)
        parts += [
            rule(x, 0, x, height + 32),
            text(x, height + 49, duration(10.0**power, 0), fill=GREY, anchor="middle", size=11),
        ]
    for k, (name, seconds) in enumerate(bars.items()):
        y = 48 * k
        length = (width - 60) * (np.log10(seconds) - low) / (high - low)
        colour = GREY if k == 0 else LINE_COLOURS[1]
        parts.append(
            f'<rect x="{margin}" y="{y + 18}" width="{length:.1f}" height="14" rx="2" fill="{colour}"/>'
        )
        parts += [text(margin + 1, y + 12, name, size=12),
                  text(margin + length + 7, y + 30, duration(seconds), size=12, weight="bold")]  # fmt: skip
    return parts


def duration(seconds: float, digits: int = 2) -> str:
    """Return a time with its unit."""
    unit, name = next(
        (u, n) for u, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")) if seconds >= 0.9999 * u
    )
    value = seconds / unit
    return f"{value:.{max(0, digits - int(np.log10(value)))}f} {name}"


def nice(low: float, high: float) -> np.ndarray:
    """Return about five round numbers from below one number to above another."""
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    gap = power * min((g for g in (1, 2, 2.5, 5, 10) if g * power >= raw), default=10)
    return np.arange(np.floor(low / gap), np.ceil(high / gap - 1e-9) + 1) * gap


# SVG
