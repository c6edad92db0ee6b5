"""Spatial mechanisms with known mobility: parallel robots, arms that hold one plate, and overconstrained
rings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drawings import Drawing, array, frame, turn, universal_frame
from linkwork.joints import Cylindrical, Fixed, Free, Joint, Prismatic, Revolute, Rod, Spherical, Universal
from linkwork.model import WORLD
from linkwork.spatial import Pose
from mechanisms import rotation, skew_axis

UP = (0.0, 0.0, -9.81)
SMALL: dict[str, Any] = {"lower": -0.2, "upper": 0.2}


def around(radius: float, angle: float, z: float = 0.0) -> np.ndarray:
    return array(radius * np.cos(angle), radius * np.sin(angle), z)


# arms that hold one plate


def arms_on_a_plate(arms: int, kind: Joint, *, seed: int = 0, **more: Any) -> Drawing:
    """Arms of six hinges each; the first carries a plate, which the others hold in the pose of one random
    posture.

    At zero the loops are open.
    """
    d = Drawing(f"{arms} arms", seed=seed, gravity=UP, **more)
    rng = np.random.default_rng([seed, arms])
    tips: list[tuple[str, Pose]] = []
    for k in range(arms):
        on = WORLD
        T = Pose.identity()
        for j in range(6):
            place = Pose(
                rotation(rng),
                rng.uniform(-0.3, 0.3, 3) + (around(1.0, 2 * np.pi * k / arms) if j == 0 else 0.0),
            )
            axis = skew_axis(rng)
            d.body(f"arm {k} link {j}", on, Revolute(axis), d.frames[on].then(place))
            T = T.then(place).then(Pose(turn(axis, rng.uniform(-1.0, 1.0)), np.zeros(3)))
            on = f"arm {k} link {j}"
        tips.append((on, T))
    plate, T = tips[0]
    for k, (tip, there) in enumerate(tips[1:], 1):
        grip = Pose(rotation(rng), rng.uniform(-0.3, 0.3, 3))  # on the plate
        d.builder.add_loop(f"grip {k}", kind, predecessor=plate, successor=tip,
                           **{"place": grip}, successor_place=there.inverse().then(T).then(grip))  # fmt: skip
    return d


# single loops in space


def rssr(middle: str = "SS", **more: Any) -> Drawing:
    """Two cranks about crossed axes and a rod between them: with two balls it also spins."""
    d = Drawing(f"R{middle}R", gravity=UP, **more)
    P = array(0.2, 0.05, 0.0)
    Q = array(1.0, 0.2, 0.5)
    d.body("crank", WORLD, Revolute(), frame((0, 0, 0)))
    d.body("rocker", WORLD, Revolute(), frame((1, -0.3, 0.3), (0.2, 0.9, -0.3)))
    if middle == "rod":
        d.loop(Rod(float(np.linalg.norm(Q - P)) * d.size), "crank", "rocker", P, Q)
        return d
    first: Joint = Universal() if middle[0] == "U" else Spherical()
    d.body("rod", "crank", first, universal_frame(P, (0.3, 1.0, 0.1), Q))
    d.loop(Spherical(), "rod", "rocker", Q)
    return d


def rssp(**more: Any) -> Drawing:
    """A swash of a crank moves a slider by a rod without mass."""
    d = Drawing("RSSP", gravity=UP, **more)
    P = array(0.2, 0.0, 0.1)
    Q = array(0.7, 0.1, 0.6)
    d.body("crank", WORLD, Revolute(), frame((0, 0, 0.1), (0.1, 0.2, 1)))
    d.body("slider", WORLD, Prismatic(), frame(Q, (1.0, 0.1, 0.4)))
    d.loop(Rod(float(np.linalg.norm(Q - P)) * d.size), "crank", "slider", P, Q)
    return d


def rccc(**more: Any) -> Drawing:
    """A crank and three cylindrical joints: the general ring of one degree of freedom with them."""
    d = Drawing("RCCC", gravity=UP, **more)
    axes = [(0, 0, 1), (0.5, 0.1, 1), (1, 0.2, 0.2), (0.3, 1, 0.3)]
    points = [(0, 0, 0), (0.5, 0, 0.1), (0.7, 0.6, 0.2), (0, 0.7, 0)]
    d.body("a", WORLD, Revolute(), frame(points[0], axes[0]), lower=-0.5, upper=0.5)
    d.body("b", "a", Cylindrical(), frame(points[1], axes[1]))
    d.body("c", "b", Cylindrical(), frame(points[2], axes[2]))
    d.loop(Cylindrical(), "c", WORLD, frame(points[3], axes[3]))
    return d


def spherical_four_bar(*, cardan: bool = False, **more: Any) -> Drawing:
    """Four hinges that meet in a point; as a Cardan joint, three of them at right angles."""
    d = Drawing("spherical four-bar", gravity=UP, **more)
    axes = [(0, 0, 1), (1, 0, 0), (0, 1, 0.5), (0.5, 0.3, 1)]
    if cardan:
        axes = [(0, 0, 1), (1, 0, 0), (0, 1, 0), (0.0, 0.0, 1.0)]
        axes[2] = tuple(np.cross(axes[1], (0.0, 0.5, 1.0)))
        axes[3] = (0.0, 0.5, 1.0)
    d.body("input", WORLD, Revolute(), frame((0, 0, 0), axes[0]))
    d.body("cross", "input", Revolute(), frame((0, 0, 0), axes[1]))
    d.body("output", WORLD, Revolute(), frame((0, 0, 0), axes[3]))
    d.loop(Revolute(), "cross", "output", frame((0, 0, 0), axes[2]))
    return d


def cardan_shaft(**more: Any) -> Drawing:
    """Two universal joints and a shaft that slides, between parallel shafts: one degree of freedom."""
    d = Drawing("Cardan shaft", gravity=UP, **more)
    d.body("input", WORLD, Revolute(), frame((0, 0, 0), (0, 0, 1)))
    start = array(0, 0, 0.1)
    end = array(0.1, 0.05, 0.6)
    along = universal_frame(start, (1, 0, 0), end)
    d.body("shaft", "input", Universal(), along)
    out = d.body("tube", "shaft", Prismatic(), frame(0.5 * (start + end), end - start))
    d.body("output", WORLD, Revolute(), frame(end, (0, 0, 1)))
    d.loop(Universal(), out, "output", universal_frame(end, (1, 0, 0), end + array(0.0, 0.0, 1.0)))
    return d


# parallel robots


def platform(legs: int, **more: Any) -> tuple[Drawing, list[tuple[np.ndarray, np.ndarray]]]:
    """A drawing, and the ends of so many legs between a ground and a plate above it, in no symmetric places."""
    d = Drawing(f"platform of {legs}", gravity=UP, **more)
    ends = []
    for k in range(legs):
        angle = 2 * np.pi * k / legs
        ends.append(
            (
                around(0.6 + 0.03 * k, angle + 0.2 * (-1) ** k),
                around(0.35, angle - 0.3 * (-1) ** k, 0.7 + 0.02 * k),
            )
        )
    return d, ends


def stewart(kind: str = "UPS", legs: int = 6, **more: Any) -> Drawing:
    """A free plate on six legs: UPS and SPS with pistons, RUS and PUS with cranks and sliders at the ground."""
    d, ends = platform(legs, **more)
    d.body("plate", WORLD, Free(), frame((0, 0, 0.7)))
    for k, (foot, head) in enumerate(ends):
        x = np.cross(head - foot, (0.3, 0.2, 1.0))
        low = universal_frame(foot, x, head)
        if kind in ("UPS", "SPS"):
            d.body(f"cylinder {k}", WORLD, Universal() if kind == "UPS" else Spherical(), low)
            d.body(
                f"piston {k}",
                f"cylinder {k}",
                Prismatic(),
                frame(0.5 * (foot + head), head - foot),
                lower=-0.08,
                upper=0.08,
            )
            d.loop(Spherical(), f"piston {k}", "plate", head)
            continue
        out = foot * array(1, 1, 0) / np.linalg.norm(foot)
        if kind == "RUS":
            knee = foot + 0.25 * out + array(0, 0, 0.02)
            d.body(f"crank {k}", WORLD, Revolute(), frame(foot, np.cross((0, 0, 1), out)), **SMALL)
        else:
            knee = foot
            d.body(f"crank {k}", WORLD, Prismatic(), frame(foot, (0, 0, 1)), lower=-0.08, upper=0.08)
        d.body(f"rod {k}", f"crank {k}", Universal(), universal_frame(knee, np.cross(head - knee, out), head))
        d.loop(Spherical(), f"rod {k}", "plate", head)
    return d


def ss_platform(rods: int, **more: Any) -> Drawing:
    """A free plate on so many rods without mass: 6 - rods degrees of freedom."""
    d, ends = platform(6, **more)
    d.body("plate", WORLD, Free(), frame((0, 0, 0.7)))
    for foot, head in ends[:rods]:
        d.loop(Rod(float(np.linalg.norm(head - foot)) * d.size), "plate", WORLD, head, foot)
    return d


def three_legged(kind: str, **more: Any) -> Drawing:
    """A plate on three equal legs of a kind: 3-RPS, 3-PRS, 3-RRS, 3-UPU."""
    d = Drawing(f"3-{kind}", gravity=UP, **more)
    for k in range(3):
        angle = 2 * np.pi * k / 3 + 0.1 * k * (kind != "UPU")
        foot = around(0.6, angle)
        head = around(0.3, angle, 0.7)
        side = np.cross((0, 0, 1), around(1.0, angle))
        low = frame(foot, side)
        if kind == "RPS":
            d.body(f"lower {k}", WORLD, Revolute(), low)
            tip = d.body(
                f"upper {k}", f"lower {k}", Prismatic(), frame(foot, head - foot), lower=-0.1, upper=0.1
            )
        elif kind == "PRS":
            d.body(f"lower {k}", WORLD, Prismatic(), frame(foot, (0, 0, 1)), lower=-0.1, upper=0.1)
            tip = d.body(f"upper {k}", f"lower {k}", Revolute(), low)
        elif kind == "RRS":
            knee = around(0.75, angle, 0.35)
            d.body(f"lower {k}", WORLD, Revolute(), low, **SMALL)
            tip = d.body(f"upper {k}", f"lower {k}", Revolute(), frame(knee, side))
        else:
            d.body(f"lower {k}", WORLD, Universal(), universal_frame(foot, side, head))
            tip = d.body(
                f"upper {k}", f"lower {k}", Prismatic(), frame(foot, head - foot), lower=-0.1, upper=0.1
            )
        ball: Joint = Universal() if kind == "UPU" else Spherical()
        at = frame(head)
        if kind == "UPU":  # its axes are those of the lower one, so that the plate does not turn
            along = (head - foot) / np.linalg.norm(head - foot)
            second = np.cross(along, side)
            at = Pose(np.column_stack([second, side, np.cross(second, side)]), head)
        if k == 0:
            d.body("plate", tip, ball, at)
        else:
            d.loop(ball, tip, "plate", at)
    return d


def delta(kind: str = "rods", **more: Any) -> Drawing:
    """Clavel's robot: three cranks, and two rods from each to a plate that does not turn; rods without mass
    or with.
    """
    d = Drawing(f"delta with {kind}", gravity=UP, **more)
    d.body("plate", WORLD, Free(), frame((0, 0, -0.5)))
    for k in range(3):
        angle = 2 * np.pi * k / 3
        out = around(1.0, angle)
        side = np.cross((0, 0, 1), around(1.0, angle))
        d.body(f"crank {k}", WORLD, Revolute(), frame(0.2 * out, side), **SMALL)
        knee = 0.4 * out + array(0, 0, -0.05)
        head = 0.08 * out + array(0, 0, -0.5)
        for s in (-0.05, 0.05):
            if kind == "rods":
                length = float(np.linalg.norm(head - knee)) * d.size
                d.loop(Rod(length), f"crank {k}", "plate", knee + s * side, head + s * side)
            else:
                rod = d.body(
                    f"rod {k} {s}",
                    f"crank {k}",
                    Universal(),
                    universal_frame(knee + s * side, side, head + s * side),
                )
                d.loop(Spherical(), rod, "plate", head + s * side)
    return d


def delta_on_a_rod(**more: Any) -> Drawing:
    """The same as files have it that may only hang bodies on one another: its plate hangs on a rod."""
    d = Drawing("delta on a rod", gravity=UP, **more)
    for k in range(3):
        angle = 2 * np.pi * k / 3
        out = around(1.0, angle)
        side = np.cross((0, 0, 1), around(1.0, angle))
        d.body(f"crank {k}", WORLD, Revolute(), frame(0.2 * out, side), **SMALL)
        knee = 0.45 * out + array(0, 0, -0.15)
        head = 0.06 * out + array(0, 0, -0.75)
        for s in (0.05, -0.05):
            rod = d.body(
                f"rod {k} {s}",
                f"crank {k}",
                Universal(),
                universal_frame(knee + s * side, side, head + s * side),
            )
            if "plate" in d.frames:
                d.loop(Spherical(), rod, "plate", head + s * side)
            else:
                d.body("plate", rod, Spherical(), frame(head + s * side))
    return d


def tripteron(**more: Any) -> Drawing:
    """Three sliders along x, y and z, each with two hinged bars to one plate, which only moves along:
    overconstrained.
    """
    d = Drawing("tripteron", gravity=UP, **more)
    for k in range(3):
        u, x, y = np.roll(np.eye(3), -k, axis=0) if k else np.eye(3)
        foot = 0.8 * x - 0.1 * u
        knee = 0.5 * x + 0.4 * y
        head = 0.1 * x + 0.05 * y + 0.1 * u
        d.body(f"slider {k}", WORLD, Prismatic(), frame(foot, u), lower=-0.15, upper=0.15)
        d.body(f"upper {k}", f"slider {k}", Revolute(), frame(foot, u))
        d.body(f"lower {k}", f"upper {k}", Revolute(), frame(knee, u))
        if k == 0:
            d.body("plate", f"lower {k}", Revolute(), frame(head, u))
        else:
            d.loop(Revolute(), f"lower {k}", "plate", frame(head, u))
    return d


def spherical_wrist(*, agile: bool = False, **more: Any) -> Drawing:
    """Three chains of three hinges that all meet in a point: three degrees of freedom; the agile eye has
    right angles.
    """
    d = Drawing("agile eye" if agile else "3-RRR wrist", gravity=UP, **more)
    for k in range(3):
        turned = turn((1, 1, 1), 2 * np.pi * k / 3)
        low, mid, high = (
            (turned @ array(*u) for u in ((1, 0, 0), (0, 0, 1), (0, -1, 0)))
            if agile
            else (turned @ array(*u) for u in ((1, 0.1, 0), (0.1, 0.3, 1), (-0.4, -1, 0.2)))
        )
        d.body(f"proximal {k}", WORLD, Revolute(), frame((0, 0, 0), low), **SMALL)
        d.body(f"distal {k}", f"proximal {k}", Revolute(), frame((0, 0, 0), mid))
        if k == 0:
            d.body("plate", f"distal {k}", Revolute(), frame((0, 0, 0), high))
        else:
            d.loop(Revolute(), f"distal {k}", "plate", frame((0, 0, 0), high))
    return d


# rings of hinges that should not move


def ring_of_hinges(name: str, links: list[tuple[float, float, float]], theta: Any, **more: Any) -> Drawing:
    """A ring by Denavit and Hartenberg: (length, twist, offset) of each link, in a closed posture near the
    angles `theta`.
    """
    d = Drawing(name, gravity=UP, **more)
    theta = closed_angles(links, np.array(theta, dtype=float))
    T = Pose.identity()
    on = WORLD
    for k, ((length, twist, offset), angle) in enumerate(zip(links, theta)):
        T = T.then(Pose(turn((0, 0, 1), angle), np.zeros(3)))  # turned about z, the joint's axis
        if k < len(links) - 1:
            on = d.body(f"link {k}", on, Revolute(), T)
        else:
            d.loop(Revolute(), on, WORLD, T)
        T = T.then(Pose(turn((1, 0, 0), twist), array(length, 0, offset)))
    return d


def ring_pose(links: list[tuple[float, float, float]], theta: np.ndarray) -> Pose:
    T = Pose.identity()
    for (length, twist, offset), angle in zip(links, theta):
        T = T.then(Pose(turn((0, 0, 1), angle), np.zeros(3))).then(
            Pose(turn((1, 0, 0), twist), array(length, 0, offset))
        )
    return T


def closed_angles(links: list[tuple[float, float, float]], theta: np.ndarray) -> np.ndarray:
    """Angles that close a ring, by Newton's method."""

    def miss(x: np.ndarray) -> np.ndarray:
        T = ring_pose(links, x)
        W = 0.5 * (T.R - T.R.T)
        sine = np.linalg.norm([W[2, 1], W[0, 2], W[1, 0]])
        cosine = 0.5 * (np.trace(T.R) - 1.0)
        grown = np.arctan2(sine, cosine) / sine if sine > 1e-9 else 1.0
        return np.array([*(grown * np.array([W[2, 1], W[0, 2], W[1, 0]])), *T.p])

    for _ in range(30):
        J = np.array([(miss(theta + 1e-6 * e) - miss(theta - 1e-6 * e)) / 2e-6 for e in np.eye(len(theta))]).T
        step = np.linalg.lstsq(J, miss(theta), rcond=1e-6)[0]
        theta = theta - step * min(1.0, 0.3 / (np.abs(step).max() + 1e-300))
    assert np.abs(ring_pose(links, theta).matrix() - np.eye(4)).max() < 1e-13, np.abs(miss(theta)).max()
    return theta


RIGHT = np.pi / 2


def bennett(
    a: float = 1.0, alpha: float = 0.6, beta: float = 1.1, *, angle: float = 1.2, **more: Any
) -> Drawing:
    """Four hinges: opposite links are equal, and lengths are as the sines of twists."""
    b = a * np.sin(beta) / np.sin(alpha)
    other = 2 * np.arctan(np.sin(0.5 * (beta + alpha)) / np.sin(0.5 * (beta - alpha)) / np.tan(0.5 * angle))
    return ring_of_hinges(
        "Bennett", [(a, alpha, 0), (b, beta, 0)] * 2, [angle, other, -angle, -other], **more
    )


def goldberg(a: float = 1.0, c: float = 0.7, alpha: float = 0.6, beta: float = 1.1, **more: Any) -> Drawing:
    """Two of Bennett's rings that share a link, which is left out, with two others made one."""
    ratio = a / np.sin(alpha)
    gamma = float(np.arcsin(c / ratio))
    b = ratio * np.sin(beta)
    links = [(a + c, alpha + gamma, 0.0), (b, beta, 0.0), (c, gamma, 0.0), (a, alpha, 0.0), (b, beta, 0.0)]
    return ring_of_hinges("Goldberg", links, [-0.709, -3.021, 0.243, 0.588, 2.899], **more)


def myard(a: float = 0.6, alpha: float = 0.9, **more: Any) -> Drawing:
    """Five hinges, symmetric about a plane."""
    b = a / np.sin(alpha)
    links = [
        (a, alpha, 0.0),
        (b, RIGHT, 0.0),
        (0.0, np.pi - 2 * alpha, 0.0),
        (b, RIGHT, 0.0),
        (a, np.pi - alpha, 0.0),
    ]
    return ring_of_hinges("Myard", links, [0.8, -2.4, 1.0, 1.0, 2.4], **more)


def schatz(**more: Any) -> Drawing:
    """The turbula: two hinges are parallel, √3 links apart."""
    links = [
        (0.0, RIGHT, 0.3),
        (1.0, RIGHT, 0.0),
        (1.0, RIGHT, 0.0),
        (1.0, RIGHT, 0.0),
        (0.0, RIGHT, 0.0),
        (np.sqrt(3.0), 0.0, -0.3),
    ]
    return ring_of_hinges("Schatz", links, [-1.454, 1.672, 2.088, -0.203, -2.615, 0.059], **more)


def bricard(kind: str, **more: Any) -> Drawing:
    """Six hinges: trihedral, or symmetric about a line or a plane."""
    if kind == "trihedral":
        a = [0.5, 0.6, 0.7, 0.8, 0.9, 0.0]
        a[5] = float(np.sqrt(a[0] ** 2 + a[2] ** 2 + a[4] ** 2 - a[1] ** 2 - a[3] ** 2))
        return ring_of_hinges(
            "Bricard",
            [(x, RIGHT * (-1) ** k, 0.0) for k, x in enumerate(a)],
            [-1.941, 0.605, -1.753, 0.82, -2.33, 0.882],
            **more,
        )
    if kind == "line":
        half = [(0.5, 0.7, 0.1), (0.8, 1.3, -0.2), (0.6, 1.0, 0.15)]
        return ring_of_hinges("Bricard", half * 2, [0.82, -0.706, 2.916] * 2, **more)
    a = (0.5, 0.7)
    b = (0.8, 1.3)
    c = (0.6, 1.0)
    r = 0.2
    s = 0.1
    links = [(a[0], a[1], 0.0), (b[0], b[1], r), (c[0], c[1], s)]
    links += [(c[0], -c[1], 0.0), (b[0], -b[1], -s), (a[0], -a[1], -r)]
    return ring_of_hinges("Bricard", links, [1.155, -2.284, -2.117, 2.371, -2.117, -2.284], **more)


def sarrus(legs: int = 2, **more: Any) -> Drawing:
    """Chains of three parallel hinges, at angles: a plate that moves straight up."""
    d = Drawing("Sarrus", gravity=UP, **more)
    for k, angle in enumerate((0.0, 2.0, 4.1, 5.0)[:legs]):
        out = around(1.0, angle)
        side = np.cross((0, 0, 1), around(1.0, angle))
        d.body(f"lower {k}", WORLD, Revolute(), frame(0.3 * out, side), **SMALL)
        d.body(f"upper {k}", f"lower {k}", Revolute(), frame(0.7 * out + array(0, 0, 0.3), side))
        knee = 0.7 * out + array(0, 0, 0.3)
        head = 0.3 * out + array(0, 0, 0.6)
        if k == 0:
            d.body("plate", "upper 0", Revolute(), frame(head, side))
        else:
            d.loop(Revolute(), f"upper {k}", "plate", frame(head, side))
        d.keeps_side(
            (f"lower {k}", 0.3 * out), (f"lower {k}", knee), (f"upper {k}", head), normal=(WORLD, side)
        )
    return d


def parallel_bars(bars: int = 3, **more: Any) -> Drawing:
    """A plate on equal parallel bars with parallel universal joints at both ends: it moves on a sphere."""
    d = Drawing(f"plate on {bars} bars", gravity=UP, **more)
    for k, (x, y) in enumerate([(0.5, 0.1), (-0.4, 0.3), (-0.1, -0.6), (0.3, 0.5)][:bars]):
        foot = array(x, y, 0.0)
        head = foot + array(0.3, 0.1, 0.8)
        low = universal_frame(foot, (0.0, 1.0, 0.0), head)
        high = Pose(low.R @ np.column_stack([(0, 1, 0), (1, 0, 0), (0, 0, -1)]), head)  # the same axes
        d.body(f"bar {k}", WORLD, Universal(), low)
        if k == 0:
            d.body("plate", "bar 0", Universal(), high)
        else:
            d.loop(Universal(), f"bar {k}", "plate", high)
    return d


def screw_ring(hinges: int = 9, *, seed: int = 3, **more: Any) -> Drawing:
    """A ring of skew hinges: hinges - 6 degrees of freedom."""
    d = Drawing(f"ring of {hinges} skew hinges", seed=seed, gravity=UP, **more)
    rng = np.random.default_rng(seed)
    on = WORLD
    for k in range(hinges - 1):
        on = d.body(
            f"link {k}",
            on,
            Revolute(),
            frame(around(0.6, 2 * np.pi * k / hinges, rng.uniform(-0.2, 0.2)), skew_axis(rng)),
            **SMALL,
        )
    d.loop(Revolute(), on, WORLD, frame(around(0.6, -2 * np.pi / hinges), skew_axis(rng)))
    return d


def welded_ring(**more: Any) -> Drawing:
    """Eight skew hinges, and a weld where the last body meets the ground: two degrees of freedom."""
    d = Drawing("welded ring", gravity=UP, **more)
    rng = np.random.default_rng(5)
    on = WORLD
    for k in range(8):
        on = d.body(
            f"link {k}",
            on,
            Revolute(),
            frame(around(0.6, 2 * np.pi * k / 9, rng.uniform(-0.2, 0.2)), skew_axis(rng)),
            **SMALL,
        )
    d.loop(Fixed(), on, WORLD, frame(around(0.6, -2 * np.pi / 9)))
    return d
