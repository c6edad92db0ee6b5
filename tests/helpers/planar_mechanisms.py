"""Planar linkages with known mobility, drawn from their dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from drawings import Drawing, array, circles
from linkwork.joints import Free, PointOnLine, Prismatic
from linkwork.model import WORLD
from linkwork.spatial import Pose


def four_bar(
    crank: float, coupler: float, rocker: float, ground: float, *, angle: float = 1.0, side: float = 1.0, keeps: str = "",
    limits: float | None = None, **more: Any,
) -> Drawing:  # fmt: skip
    """Four bars; `keeps` says which joint can never be stretched, where there is one: "pin", "coupler" or
    "ground".
    """
    d = Drawing("four-bar", **more)
    A = np.zeros(2)
    B = np.array([ground, 0.0])
    P = crank * np.array([np.cos(angle), np.sin(angle)])
    Q = circles(P, coupler, B, rocker, side)
    some = {} if limits is None else {"lower": -limits, "upper": limits}
    d.bar("crank", WORLD, A, **some)
    d.bar("coupler", "crank", P)
    d.bar("rocker", WORLD, B)
    d.pin("coupler", "rocker", Q)
    if keeps == "pin":
        d.keeps_side(("coupler", P), ("coupler", Q), ("rocker", B))
    if keeps == "coupler":
        d.keeps_side(("crank", A), ("crank", P), ("coupler", Q))
    if keeps == "ground":
        d.keeps_side((WORLD, A), (WORLD, B), ("rocker", Q))
    return d


def five_bar(**more: Any) -> Drawing:
    d = Drawing("five-bar", **more)
    d.bar("left", WORLD, (0, 0), lower=-0.4, upper=0.4)
    d.bar("right", WORLD, (0.5, 0), lower=-0.4, upper=0.4)
    d.dyad("left", "right", (-0.2, 0.5), (0.7, 0.5), (0.25, 1.1), "tip")
    return d


def slider_crank(offset: float = 0.0, **more: Any) -> Drawing:
    d = Drawing("slider-crank", **more)
    P = 0.2 * np.array([np.cos(0.7), np.sin(0.7)])
    S = np.array([P[0] + np.sqrt(0.6**2 - (P[1] - offset) ** 2), offset])
    d.bar("crank", WORLD, (0, 0))
    d.bar("rod", "crank", P)
    d.slider("slider", WORLD, S, (1, 0))
    d.pin("rod", "slider", S)
    d.keeps_side(("slider", S - array(0, 1)), ("slider", S), ("rod", P))  # the rod never points back
    return d


def quick_return(**more: Any) -> Drawing:
    """Whitworth: a crank's pin in the slot of an arm."""
    d = Drawing("quick return", **more)
    P = 0.3 * np.array([np.cos(0.4), np.sin(0.4)]) + array(0.0, 0.7)
    d.bar("crank", WORLD, (0, 0.7))
    d.bar("arm", WORLD, (0, 0))
    d.slider("block", "arm", P, P)
    d.pin("crank", "block", P)
    return d


def slotted_arm(**more: Any) -> Drawing:
    """The same with a pin in a slot instead of a block."""
    d = Drawing("slotted arm", **more)
    P = 0.3 * np.array([np.cos(0.4), np.sin(0.4)]) + array(0.0, 0.7)
    d.bar("crank", WORLD, (0, 0.7))
    d.bar("arm", WORLD, (0, 0))
    along = Pose(
        np.column_stack([[*P, 0.0], [-P[1], P[0], 0.0], [0, 0, np.linalg.norm(P)]]) / np.linalg.norm(P),
        np.zeros(3),
    )
    d.loop(PointOnLine((1.0, 0.0, 0.0)), "arm", "crank", along, [*P, 0.0])
    return d


def trammel(**more: Any) -> Drawing:
    """Two blocks on crossed rails, held apart by a bar."""
    d = Drawing("trammel", **more)
    d.slider("x", WORLD, (0.4, 0), (1, 0))
    d.slider("y", WORLD, (0, 0.3), (0, 1))
    d.bar("bar", "x", (0.4, 0))
    d.pin("bar", "y", (0, 0.3))
    return d


def scotch_yoke(**more: Any) -> Drawing:
    d = Drawing("scotch yoke", **more)
    P = 0.2 * np.array([np.cos(0.9), np.sin(0.9)])
    d.bar("crank", WORLD, (0, 0))
    d.bar("block", "crank", P)
    d.slider("yoke", WORLD, (P[0], 0), (1, 0))
    d.loop(Prismatic((0.0, 1.0, 0.0)), "yoke", "block", [P[0], 0.0], [P[0], P[1]])
    return d


def oldham(**more: Any) -> Drawing:
    """Two parallel shafts, and a disc that slides in both."""
    d = Drawing("oldham", **more)
    d.bar("input", WORLD, (0, 0))
    d.slider("disc", "input", (0.05, 0), (1, 0))
    d.bar("output", WORLD, (0.1, 0.03))
    d.loop(Prismatic((0.0, 1.0, 0.0)), "output", "disc", [0.1, 0.03], [0.1, 0.0])
    return d


def watt(first: bool, **more: Any) -> Drawing:
    """Watt's six bars: I with one ternary link on the ground's neighbour, II with a ternary ground."""
    d = Drawing("Watt", **more)
    A = (0, 0)
    B = (1.0, 0)
    P = 0.3 * np.array([np.cos(1.2), np.sin(1.2)])
    Q = circles(P, 0.9, B, 0.7)
    d.bar("crank", WORLD, A, lower=-0.5, upper=0.5)
    if first:
        coupler, rocker = d.dyad("crank", WORLD, P, B, Q, "first")
        d.dyad(coupler, rocker, Q + array(-0.2, 0.4), Q + array(0.3, -0.2), Q + array(0.5, 0.6), "second")
    else:
        _, rocker = d.dyad("crank", WORLD, P, B, Q, "first")
        d.dyad(rocker, WORLD, Q + array(0.1, -0.2), (2.0, 0.1), Q + array(0.8, 0.3), "second")
    return d


def stephenson(kind: int, **more: Any) -> Drawing:
    """Stephenson's six bars: I on a binary link between ternaries, II on the far one, III with a ternary
    ground.
    """
    d = Drawing("Stephenson", **more)
    P = np.array([0.1, 0.3])
    d.bar("crank", WORLD, (0, 0), lower=-0.3, upper=0.3)
    if kind == 3:
        Q = circles(P, 0.9, (1.0, 0), 0.7)
        coupler, _ = d.dyad("crank", WORLD, P, (1.0, 0), Q, "first")
        d.dyad(coupler, WORLD, Q + array(-0.3, 0.4), (1.5, 0.3), Q + array(0.5, 0.5), "second")
    elif kind == 1:  # ternary crank and ternary coupler's neighbour: a second chain from crank to rocker
        coupler, _ = d.dyad("crank", WORLD, P, (1.0, 0), (0.9, 0.75), "first")
        d.dyad("crank", coupler, (-0.2, 0.4), (0.5, 0.9), (0.1, 1.1), "second", keeps=False)
    else:  # two ternary bars with two others between them
        d.bar("left", "crank", P)
        d.bar("right", WORLD, (1.0, 0))
        for name, start, end in (("lower", (0.5, 0.8), (1.1, 0.6)), ("upper", (0.3, 1.1), (1.3, 0.9))):
            d.bar(name, "left", start)
            d.pin(name, "right", end)
    return d


JANSEN = (
    38.0,
    41.5,
    39.3,
    40.1,
    55.8,
    39.4,
    36.7,
    50.0,
    61.9,
    7.8,
    15.0,
)  # a b c d e f g j k l m; h and i are in the foot


def jansen(**more: Any) -> Drawing:
    """Theo Jansen's leg, by his thirteen numbers (in decimetres, so that rounding has a meaning)."""
    n = {key: x / 100 for key, x in zip("abcdefgjklm", JANSEN)}
    d = Drawing("Jansen", **more)
    crank = np.array([n["a"], n["l"]])
    left = np.zeros(2)
    tip = crank + n["m"] * np.array([np.cos(0.5), np.sin(0.5)])
    up = circles(left, n["b"], tip, n["j"], 1.0)
    far = circles(left, n["d"], up, n["e"], 1.0)
    down = circles(left, n["c"], tip, n["k"], -1.0)
    knee = circles(far, n["f"], down, n["g"], -1.0)
    d.bar("crank", WORLD, crank)
    d.bar("j", "crank", tip)
    d.bar("top", WORLD, left)
    d.pin("j", "top", up)
    d.keeps_side(("j", tip), ("j", up), ("top", left))
    d.bar("k", "crank", tip)
    d.bar("c", WORLD, left)
    d.pin("k", "c", down)
    d.keeps_side(("k", tip), ("k", down), ("c", left))
    d.bar("f", "top", far)
    d.bar("foot", "c", down)
    d.pin("f", "foot", knee)
    d.keeps_side(("f", far), ("f", knee), ("foot", down))
    return d


def klann(**more: Any) -> Drawing:
    """Klann's leg: a Stephenson III whose second dyad is the leg itself."""
    d = Drawing("Klann", **more)
    O = np.zeros(2)
    A = np.array([-0.61, -0.27])
    B = np.array([-0.366, 0.79])
    M = 0.266 * np.array([np.cos(0.6), np.sin(0.6)])
    C = circles(A, 0.45, M, 0.65, 1.0)
    D = M + 1.1 * (C - M) @ np.array([[np.cos(0.18), np.sin(0.18)], [-np.sin(0.18), np.cos(0.18)]]) / 0.65
    E = 0.5 * (B + D) + 0.4 * np.array([D[1] - B[1], B[0] - D[0]])
    d.bar("crank", WORLD, O, lower=-0.4, upper=0.4)
    d.bar("coupler", "crank", M)
    d.bar("lower", WORLD, A)
    d.pin("coupler", "lower", C)
    d.keeps_side(("coupler", M), ("coupler", C), ("lower", A))
    d.bar("upper", WORLD, B)
    d.bar("leg", "coupler", D)
    d.pin("upper", "leg", E)
    return d


def peaucellier(angle: float = 0.5, **more: Any) -> Drawing:
    """Peaucellier and Lipkin's eight bars, which draw a straight line; the crank is drawn at an angle.

    At about 1.082 the bars of each of its two dyads are in one line.
    """
    d = Drawing("Peaucellier", **more)
    long = 1.0
    short = 0.4
    c = 0.35
    P = np.array([c + c * np.cos(angle), c * np.sin(angle)])
    up = circles((0, 0), long, P, short, 1.0)
    low = circles((0, 0), long, P, short, -1.0)
    far = up + low - P
    d.bar("crank", WORLD, (c, 0), lower=-0.3, upper=0.3)
    d.bar("upper", WORLD, (0, 0))
    d.bar("lower", WORLD, (0, 0))
    for k, (arm, at) in enumerate((("upper", up), ("lower", low))):
        d.bar(f"near {k}", "crank", P)
        d.pin(f"near {k}", arm, at)
        d.keeps_side((f"near {k}", P), (f"near {k}", at), (arm, (0, 0)))
    d.dyad("upper", "lower", up, low, far, "far")
    return d


def hart(**more: Any) -> Drawing:
    """Hart's antiparallelogram, hinged to the ground at a point of one bar, with a crank to a point of
    another.
    """
    d = Drawing("Hart", **more)
    A, B, C, D = (
        np.array(x) for x in ((-0.7, 0.0), (0.3, 0.5), (-0.3, 0.5), (0.7, 0.0))
    )  # a trapezium and its diagonals
    O = 0.5 * (A + C)
    d.bar("AC", WORLD, O, lower=-0.2, upper=0.2)
    d.bar("AB", "AC", A)
    d.bar("CD", "AC", C)
    d.bar("BD", "AB", B)
    d.pin("BD", "CD", D)
    d.bar("crank", WORLD, O + array(0.2, 0.3))
    d.pin("crank", "AB", 0.5 * (A + B))
    return d


def pantograph(**more: Any) -> Drawing:
    """Four bars that copy a figure at another scale, on a fixed point; two degrees of freedom."""
    d = Drawing("pantograph", **more)
    T = np.array([0.4, 0.9])
    L = np.array([0.2, 0.45])
    R = np.array([0.6, 0.45])
    d.bar("left", WORLD, (0, 0), lower=-0.4, upper=0.4)
    d.bar("right", "left", T, lower=-0.4, upper=0.4)
    d.dyad("left", "right", L, R, L + R - T, "inner")
    return d


def satellite(**more: Any) -> Drawing:
    """Two pantographs on a free body in space, which fold and stretch through states where branches meet."""
    d = Drawing("satellite", gravity=(0.0, 0.0, 1e-12), **more)
    d.body("bus", WORLD, Free(), Pose.identity())
    for k, way in enumerate((1.0, -1.0)):
        shoulder, top, left, right = (
            array(0.5 * way + way * x, way * y) for x, y in ((0.0, 0.0), (0.4, 0.9), (0.2, 0.45), (0.6, 0.45))
        )
        d.bar(f"left {k}", "bus", shoulder)
        d.bar(f"right {k}", f"left {k}", top)
        d.dyad(f"left {k}", f"right {k}", left, right, left + right - top, f"inner {k}", keeps=False)
    return d


def scissors(stages: int, **more: Any) -> Drawing:
    """Crossed bars in so many stages, from a hinge and a slider; one degree of freedom."""
    d = Drawing("scissors", **more)
    x = np.cos(0.6)
    y = np.sin(0.6)
    d.slider("block", WORLD, (x, 0), (1, 0))
    below = [(WORLD, (0.0, 0.0)), ("block", (x, 0.0))]
    for k in range(stages):
        rising = d.bar(
            f"rising {k}", below[0][0], below[0][1], **({"lower": -0.3, "upper": 0.3} if k == 0 else {})
        )
        falling = d.bar(f"falling {k}", below[1][0], below[1][1])
        d.pin(rising, falling, (x / 2, (k + 0.5) * y))
        below = [(falling, (0.0, (k + 1) * y)), (rising, (x, (k + 1) * y))]
    return d


def four_bars_in_a_row(
    count: int, *, length: float = 1.0, angle: float = np.pi / 2, braced: bool = False, **more: Any
) -> Drawing:
    """So many parallelograms side by side, one of the benchmark problems of multibody dynamics; one degree of
    freedom.

    `braced`: each second coupler spans two windows as well, which demands nothing new.
    """
    d = Drawing(f"{count} four-bars", **more)
    u = length * np.array([np.cos(angle), np.sin(angle)])
    d.bar("crank 0", WORLD, (0, 0), lower=-0.9, upper=0.9)
    for k in range(count):
        start = np.array([k * length, 0.0])
        end = np.array([(k + 1) * length, 0.0])
        d.bar(f"crank {k + 1}", WORLD, end)
        d.bar(f"coupler {k}", f"crank {k}", start + u)
        d.pin(f"coupler {k}", f"crank {k + 1}", end + u)
        d.keeps_side((f"coupler {k}", start + u), (f"coupler {k}", end + u), (f"crank {k + 1}", end))
        if braced and k % 2:
            d.bar(f"brace {k}", f"crank {k - 1}", start - array(length, 0.0) + 0.5 * u)
            d.pin(f"brace {k}", f"crank {k + 1}", end + 0.5 * u)
    return d


def folding_dyad(slack: float = 0.02, **more: Any) -> Drawing:
    """A crank-rocker whose crank and rocker are tied by a dyad: near to where that is stretched, all turn
    back.

    The dyad is longer than where it is drawn by a part, `slack`, of that distance.
    """
    d = Drawing("folding dyad", **more)
    crank = 0.3
    coupler = 1.0
    rocker = 0.8
    ground = array(1.0, 0.0)
    pin = crank * array(np.cos(1.2), np.sin(1.2))
    apart = float(np.linalg.norm(ground - pin))
    along = (ground - pin) / apart
    part = (apart**2 + coupler**2 - rocker**2) / (2 * apart)
    tip = pin + part * along + np.sqrt(coupler**2 - part**2) * array(-along[1], along[0])
    d.bar("crank", WORLD, (0, 0))
    d.bar("coupler", "crank", pin)
    d.bar("rocker", WORLD, ground)
    d.pin("coupler", "rocker", tip)
    across = tip + pin
    height = np.sqrt((1.0 + slack) ** 2 - 1.0) / 2
    d.dyad(
        "crank",
        "rocker",
        -pin,
        tip,
        -pin + across / 2 + height * array(-across[1], across[0]),
        "dyad",
        keeps=False,
    )
    return d


def assur(bars: int, *, seed: int, **more: Any) -> Drawing:
    """A crank and random dyads on what is there, so many bars and one degree of freedom."""
    d = Drawing(f"Assur of {bars}", seed=seed, **more)
    rng = np.random.default_rng(seed)
    d.bar("bar 0", WORLD, (0, 0), lower=-0.1, upper=0.1)
    there: list[tuple[str, np.ndarray]] = [("bar 0", np.array([0.3, 0.4])), (WORLD, np.array([1.0, 0.0]))]
    for k in range((bars - 1) // 2):
        (one, start), (other, end) = (
            there[-1],
            there[int(rng.integers(max(0, len(there) - 5), len(there) - 1))],
        )
        if one == other:
            other = WORLD
            end = start + array(1.0, 0.2)
        apart = end - start
        normal = np.array([-apart[1], apart[0]]) / np.linalg.norm(apart)
        side = 1.0 if normal[1] > 0 else -1.0
        meet = (
            start
            + rng.uniform(0.3, 0.7) * apart
            + normal * side * np.linalg.norm(apart) * rng.uniform(0.6, 1.0)
        )
        a, b = d.dyad(one, other, start, end, meet, f"dyad {k}")
        there.append(
            (WORLD, meet + rng.uniform(0.4, 0.8, 2) * [1.0, -0.5])
            if rng.random() < 0.5
            else (a, meet + array(0.1, 0.3))
        )
        there.append((b, meet + rng.uniform(-0.3, 0.3, 2)))
    return d


def ring(bars: int, **more: Any) -> Drawing:
    """A closed chain of so many bars, one of which is the ground: bars - 3 degrees of freedom."""
    d = Drawing(f"ring of {bars}", **more)
    turns = 2 * np.pi * np.arange(bars) / bars
    points = np.column_stack([np.cos(turns), np.sin(turns)])
    on = WORLD
    for k in range(bars - 1):
        on = d.bar(f"bar {k}", on, points[k], lower=-0.3, upper=0.3)
    d.pin(on, WORLD, points[-1])
    return d


def geared_five_bar(ratio: float = 2.0, **more: Any) -> Drawing:
    """A five-bar whose cranks are geared: one degree of freedom."""
    d = Drawing("geared five-bar", **more)
    d.bar("left", WORLD, (0, 0))
    d.bar("right", WORLD, (0.5, 0))
    d.dyad("left", "right", (-0.15, 0.1), (0.6, 0.15), (0.25, 1.0), "tip")
    d.builder.add_coupling("gears", {"to left": ratio, "to right": 1.0})
    return d


def excavator(**more: Any) -> Drawing:
    """Boom, stick and bucket, each moved by a hydraulic cylinder, the bucket over a four-bar: three degrees
    of freedom.
    """
    d = Drawing("excavator", **more)

    def cylinder(name: str, on: str, to: str, start: Any, end: Any) -> None:
        along = np.array(end) - start
        d.bar(f"{name} cylinder", on, start)
        middle = np.array(start) + 0.6 * along
        d.slider(f"{name} piston", f"{name} cylinder", middle, along, lower=-0.1, upper=0.1)
        d.pin(f"{name} piston", to, end)

    d.bar("boom", WORLD, (0, 0))
    cylinder("boom", WORLD, "boom", (0.5, -0.3), (1.4, 1.0))
    d.bar("stick", "boom", (3.0, 1.2))
    cylinder("stick", "boom", "stick", (1.5, 1.4), (2.8, 1.7))
    d.bar("bucket", "stick", (4.0, -0.5))
    d.bar("lever", "stick", (3.8, -0.1))
    cylinder("bucket", "stick", "lever", (3.2, 1.4), (4.1, 0.2))
    d.bar("link", "lever", (4.1, 0.2))
    d.pin("link", "bucket", (4.3, -0.3))
    return d


def three_legs(kind: str, **more: Any) -> Drawing:
    """A plate in the plane on three legs: 3-RRR or 3-RPR; three degrees of freedom."""
    d = Drawing(f"3-{kind}", **more)
    feet = 1.5 * np.array([[np.cos(t), np.sin(t)] for t in (0.3, 2.4, 4.5)])
    heads = 0.4 * np.array([[np.cos(t), np.sin(t)] for t in (0.8, 2.9, 5.0)])
    for k, (foot, head) in enumerate(zip(feet, heads)):
        if kind == "RRR":
            knee = circles(foot, 0.8, head, 0.9)
            d.bar(f"thigh {k}", WORLD, foot, lower=-0.2, upper=0.2)
            shank = d.bar(f"shank {k}", f"thigh {k}", knee)
            d.keeps_side((f"thigh {k}", foot), (f"thigh {k}", knee), (f"shank {k}", head))
        else:
            d.bar(f"cylinder {k}", WORLD, foot)
            shank = d.slider(f"piston {k}", f"cylinder {k}", foot, head - foot, lower=-0.15, upper=0.15)
        if k:
            d.pin(shank, "plate", head)
        else:
            d.bar("plate", shank, head)
    return d


def lamp(**more: Any) -> Drawing:
    """Two parallelograms on one another keep a lamp level: two degrees of freedom."""
    d = Drawing("lamp", **more)
    d.bar("lower", WORLD, (0, 0), lower=-0.4, upper=0.4)
    d.bar("bracket", "lower", (0.3, 0.8))
    d.bar("lower parallel", WORLD, (0.1, 0))
    d.pin("lower parallel", "bracket", (0.4, 0.8))
    d.bar("upper", "bracket", (0.3, 0.8), lower=-0.4, upper=0.4)
    d.bar("head", "upper", (1.0, 1.1))
    d.bar("upper parallel", "bracket", (0.35, 0.95))
    d.pin("upper parallel", "head", (1.05, 1.25))
    return d


def chebyshev(**more: Any) -> Drawing:
    """Chebyshev's lambda: a crank of 2, coupler and rocker of 5, on a frame of 4."""
    return four_bar(0.2, 0.5, 0.5, 0.4, keeps="pin", **more)


def roberts(**more: Any) -> Drawing:
    """A symmetric double rocker."""
    return four_bar(0.6, 0.5, 0.6, 1.0, angle=0.9, limits=0.2, **more)


ANDREWS = {
    "d": 0.028, "e": 0.02, "rr": 0.007, "ss": 0.035, "u": 0.04, "zf": 0.02, "zt": 0.04,
    "xa": -0.06934, "ya": -0.00227, "xb": -0.03635, "yb": 0.03273,
}  # fmt: skip
ANDREWS_START = (  # β, Θ, γ, φ, δ, Ω, ε of the test set for initial value problems, chapter 7
    -0.0617138900142764496358948458001, 0.0, 0.455279819163070380255912382449, 0.222668390165885884674473185609,
    0.487364979543842550225598953530, -0.222668390165885884674473185609, 1.23054744454982119249735015568,
)  # fmt: skip


def squeezer(**more: Any) -> Drawing:
    """Andrews' squeezer mechanism: seven bodies and three loops that meet in one point, one degree of
    freedom.
    """
    size = 0.04
    c = {key: x / size for key, x in ANDREWS.items()}
    beta, theta, gamma, _, delta, _, epsilon = ANDREWS_START
    d = Drawing("squeezer", size=size, **more)

    def along(angle: float) -> np.ndarray:
        return np.array([np.cos(angle), np.sin(angle)])

    def down(angle: float) -> np.ndarray:
        return np.array([np.sin(angle), -np.cos(angle)])

    A = np.array([c["xa"], c["ya"]])
    B = np.array([c["xb"], c["yb"]])
    P = c["rr"] * along(beta)
    E = P - c["d"] * along(beta + theta)
    assert np.allclose(E, B + c["ss"] * down(gamma), atol=1e-13)
    d.bar("K1", WORLD, (0, 0))
    d.bar("K2", "K1", P)
    d.bar("K3", WORLD, B)
    d.pin("K2", "K3", E)
    for upper, lower, knee in (
        ("K5", "K4", A + c["zt"] * along(delta)),
        ("K7", "K6", A + c["u"] * down(epsilon)),
    ):
        d.bar(upper, WORLD, A)
        d.bar(lower, upper, knee)
        d.pin("K2", lower, E)
    return d
