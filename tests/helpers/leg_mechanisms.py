"""Closed legs, ankles, wrists, fingers and trusses as robots have them, with known mobility."""

from __future__ import annotations

from typing import Any

import numpy as np

from drawings import Drawing, array, frame, universal_frame
from linkwork.joints import Free, Joint, Prismatic, Revolute, Rod, Spherical, Universal
from linkwork.model import WORLD
from spatial_mechanisms import UP

Y = (0.0, 1.0, 0.0)


def base(name: str, *, free: bool = False, **more: Any) -> Drawing:
    """A drawing whose first body is a trunk, free or hinged."""
    d = Drawing(name, gravity=UP, **more)
    d.body("trunk", WORLD, Free() if free else Revolute((0.0, 1.0, 0.0)), frame((0, 0, 0)))
    return d


def push_rod(
    d: Drawing,
    name: str,
    on: str,
    to: str,
    motor: Any,
    knee: Any,
    head: Any,
    *,
    rod: str = "US",
    **limits: Any,
) -> None:
    """A motor's crank about y on one body, and a rod from it to another body; "rod" has no mass."""
    motor, knee, head = (np.asarray(x, dtype=float) for x in (motor, knee, head))
    crank = d.body(f"{name} crank", on, Revolute(), frame(motor, Y), **limits)
    if rod == "rod":
        d.loop(Rod(float(np.linalg.norm(head - knee)) * d.size), crank, to, knee, head, name=f"{name} rod")
    else:
        first: Joint = Spherical() if rod[0] == "S" else Universal()
        bar = d.body(f"{name} rod", crank, first, universal_frame(knee, Y, head))
        d.loop(
            Universal() if rod[1] == "U" else Spherical(),
            bar,
            to,
            universal_frame(head, (1, 0, 0), knee),
            name=f"{name} ball",
        )
    d.keeps_side((crank, motor), (crank, knee), (to, head), normal=(crank, Y))


def ankle(d: Drawing, name: str, shank: str, at: Any, *, rod: str, motors: float = 0.25) -> str:
    """A foot on a universal joint, moved by two push rods from cranks on the shank: two degrees of freedom."""
    at = np.asarray(at, dtype=float)
    limits = {"lower": -0.35, "upper": 0.35}
    d.body(f"{name} foot", shank, Universal(), universal_frame(at, (1, 0, 0), at + array(0, 0, 1)), **limits)
    for s, height in ((0.04, motors), (-0.04, 0.8 * motors)):
        hinge = at + array(-0.01, s, height)
        top = at + array(-0.06, s, height + 0.01)
        heel = at + array(-0.055, s, 0.01)
        push_rod(
            d, f"{name} {'left' if s > 0 else 'right'}", shank, f"{name} foot", hinge, top, heel, rod=rod
        )
    return f"{name} foot"


def one_ankle(rod: str = "SU", **more: Any) -> Drawing:
    """A shank, and a foot with two push rods; the rods of kind SS spin as well."""
    d = base(f"ankle {rod}", **more)
    ankle(d, "ankle", "trunk", (0, 0, -0.3), rod=rod)
    return d


def linear_ankle(**more: Any) -> Drawing:
    """A foot moved by two spindles between shank and foot: two degrees of freedom."""
    d = base("linear ankle", **more)
    d.body(
        "foot",
        "trunk",
        Universal(),
        universal_frame((0, 0, -0.3), (1, 0, 0), (0, 0, 0)),
        lower=-0.4,
        upper=0.4,
    )
    for k, s in enumerate((0.04, -0.04)):
        top = array(-0.05, s, -0.05)
        heel = array(-0.06, s, -0.3)
        d.body(f"nut {k}", "trunk", Universal(), universal_frame(top, Y, heel))
        d.body(f"spindle {k}", f"nut {k}", Prismatic(), frame(0.5 * (top + heel), heel - top))
        d.loop(Spherical(), f"spindle {k}", "foot", heel)
    return d


def knee(d: Drawing, name: str, on: str, hip: Any) -> str:
    """A thigh, and a shank that a four-bar from a motor at the hip moves: two degrees of freedom."""
    hip = np.asarray(hip, dtype=float)
    down = hip + array(0.02, 0, -0.4)
    d.body(f"{name} thigh", on, Revolute(), frame(hip, Y), lower=-0.5, upper=0.5)
    d.body(f"{name} shank", f"{name} thigh", Revolute(), frame(down, Y), lower=-0.6, upper=0.6)
    d.body(f"{name} motor", f"{name} thigh", Revolute(), frame(hip + array(0.01, 0.02, -0.05), Y))
    top = hip + array(-0.05, 0.02, -0.08)
    low = down + array(-0.06, 0.02, -0.02)
    d.body(f"{name} link", f"{name} motor", Revolute(), frame(top, Y))
    d.loop(Revolute(), f"{name} link", f"{name} shank", frame(low, Y), name=f"{name} pin")
    d.keeps_side(
        (f"{name} motor", hip + array(0.01, 0.02, -0.05)),
        (f"{name} motor", top),
        (f"{name} link", low),
        normal=(f"{name} thigh", Y),
    )
    return f"{name} shank"


def leg(*, free: bool = True, **more: Any) -> Drawing:
    """A trunk with one leg: a knee by a four-bar, and an ankle with two push rods."""
    d = base("leg", free=free, **more)
    ankle(d, "ankle", knee(d, "leg", "trunk", (0, 0, -0.1)), (0.02, 0, -0.8), rod="SU")
    return d


def biped(*, toes: int = 3, fingers: int = 2, **more: Any) -> Drawing:
    """A free trunk on two legs with closed hips, knees and ankles, and two arms with linkage fingers: 53
    bodies.

    Each side has 14 degrees of freedom: hip 1 + 2, knee 2, ankle 2, toes 3, arm 2, and one for each of two
    fingers.
    """
    d = base("biped", free=True, **more)
    for side, s in (("left", 0.1), ("right", -0.1)):
        hip = array(0, s, -0.05)
        d.body(f"{side} yaw", "trunk", Revolute(), frame(hip, (0, 0, 1)), lower=-0.3, upper=0.3)
        ankle(d, f"{side} hip", f"{side} yaw", hip + array(0, 0, -0.25), rod="SU", motors=0.2)
        shank = knee(d, side, f"{side} hip foot", hip + array(0, 0, -0.3))
        foot = ankle(d, f"{side} ankle", shank, hip + array(0.02, 0, -1.0), rod="SU")
        for k in range(toes):
            d.body(
                f"{side} toe {k}",
                foot,
                Revolute(),
                frame(hip + array(0.1, 0.02 * (k - 1), -1.02), Y),
                lower=-0.3,
                upper=0.3,
            )
        d.body(f"{side} shoulder", "trunk", Revolute(), frame((0, 2.5 * s, 0.4), Y), lower=-1.0, upper=1.0)
        d.body(
            f"{side} elbow",
            f"{side} shoulder",
            Revolute(),
            frame((0, 2.5 * s, 0.1), Y),
            lower=-1.0,
            upper=1.0,
        )
        for k in range(fingers):
            finger(
                d,
                f"{side} finger {k}",
                f"{side} elbow",
                array(0.02 * k, 2.5 * s, -0.15),
                Y,
                size=0.1,
                phalanges=1,
            )
    return d


def finger(
    d: Drawing, name: str, on: str, at: Any, axis: Any, *, size: float = 1.0, phalanges: int = 2
) -> None:
    """Phalanges in a row, each moved by the one before through a crossed rod: one degree of freedom."""
    at = np.asarray(at, dtype=float)
    axis = np.asarray(axis, dtype=float)
    out = array(0, 0, -size)
    side = np.cross(axis, (0, 0, -1.0)) * size
    before = on
    last = d.body(f"{name} proximal", on, Revolute(), frame(at, axis), lower=-0.1, upper=0.7)
    for k in range(phalanges):
        hinge = at + (k + 1) * 0.5 * out
        d.body(f"{name} phalanx {k}", last, Revolute(), frame(hinge, axis))
        start = hinge - 0.5 * out + 0.1 * side
        end = hinge - 0.08 * side + 0.02 * out
        d.body(f"{name} rod {k}", before, Revolute(), frame(start, axis))
        d.loop(Revolute(), f"{name} rod {k}", f"{name} phalanx {k}", frame(end, axis), name=f"{name} pin {k}")
        before = last
        last = f"{name} phalanx {k}"


def one_finger(phalanges: int = 2, **more: Any) -> Drawing:
    d = Drawing("finger", gravity=UP, **more)
    finger(d, "finger", WORLD, (0, 0, 0), (1.0, 0.0, 0.0), phalanges=phalanges)
    return d


def hand(fingers: int = 3, **more: Any) -> Drawing:
    """A hand on a free wrist, with linkage fingers that one motor moves by mimic joints: seven degrees of
    freedom.
    """
    d = base("hand", free=True, **more)
    for k in range(fingers):
        finger(d, f"finger {k}", "trunk", (0.1 * k, 0.0, -0.1), (0.3 * (k - 1), 1.0, 0.0), size=0.3)
        if k:
            d.builder.add_coupling(
                f"mimic {k}", {f"to finger {k} proximal": 1.0, "to finger 0 proximal": -1.0 - 0.1 * k}
            )
    return d


def differential_wrist(**more: Any) -> Drawing:
    """Two motors whose bevel gears turn and tilt a hand: two degrees of freedom."""
    d = base("differential wrist", **more)
    d.body("tilt", "trunk", Revolute(), frame((0, 0, 0.3), Y))
    d.body("roll", "tilt", Revolute(), frame((0, 0, 0.35), (0, 0, 1)))
    for k, s in enumerate((1.0, -1.0)):
        d.body(f"motor {k}", "trunk", Revolute(), frame((0, 0.05 * s, 0.3), Y))
        d.builder.add_coupling(f"bevel {k}", {f"to motor {k}": 1.0, "to tilt": -2.0, "to roll": -1.5 * s})
    return d


def quadruped(**more: Any) -> Drawing:
    """A free trunk on four five-bar legs: 6 + 8 degrees of freedom."""
    d = base("quadruped", free=True, **more)
    for k, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))):
        knees = [array(x + s, y, -0.15) for s in (0.1, -0.1)]
        foot = array(x, y, -0.35)
        for side, at in zip(("front", "rear"), knees):
            d.body(f"{side} thigh {k}", "trunk", Revolute(), frame((x, y, -0.02), Y), lower=-0.4, upper=0.4)
            d.body(f"{side} shank {k}", f"{side} thigh {k}", Revolute(), frame(at, Y))
        d.loop(Revolute(), f"front shank {k}", f"rear shank {k}", frame(foot, Y), name=f"foot {k}")
        d.keeps_side(
            (f"front shank {k}", knees[0]),
            (f"front shank {k}", foot),
            (f"rear shank {k}", knees[1]),
            normal=("trunk", Y),
        )
    return d


def heron_leg(**more: Any) -> Drawing:
    """A leg as birds have it: a rod from hip to hock couples tarsus and knee, and another the toe: two
    degrees of freedom.

    The rods have no mass and balls at both ends; a hinge of its own holds each body.
    """
    d = base("heron leg", **more)
    d.body("thigh", "trunk", Revolute(), frame((0, 0, -0.1), Y), lower=-0.3, upper=0.3)
    d.body("shin", "thigh", Revolute(), frame((0.1, 0, -0.4), Y), lower=-0.3, upper=0.3)
    d.body("tarsus", "shin", Revolute(), frame((-0.1, 0, -0.7), Y))
    d.body("toe", "tarsus", Revolute(), frame((0.05, 0, -1.0), Y))
    for name, one, other, start, end in (
        ("achilles", "thigh", "tarsus", (-0.05, 0.02, -0.2), (-0.17, 0.01, -0.68)),
        ("plantar", "shin", "toe", (-0.05, -0.02, -0.65), (-0.01, -0.01, -1.03)),
    ):
        d.loop(
            Rod(float(np.linalg.norm(array(*end) - array(*start))) * d.size),
            one,
            other,
            start,
            end,
            name=name,
        )
    return d


def foot_of_rods(rods: int = 50, *, bones: int = 30, seed: int = 7, **more: Any) -> Drawing:
    """Bones on balls in a tree, tied by so many rods: 3 bones - rods degrees of freedom."""
    d = Drawing("foot", seed=seed, gravity=UP, **more)
    rng = np.random.default_rng(seed)
    names = [WORLD]
    points = [array(0, 0, 0)]
    for k in range(bones):
        on = int(rng.integers(max(0, k - 4), k + 1))
        points.append(points[on] + rng.uniform(0.05, 0.2, 3) * rng.choice([-1.0, 1.0], 3))
        names.append(d.body(f"bone {k}", names[on], Spherical(), frame(points[-1])))
    for k in range(rods):
        i = 1 + k % bones
        j = int(rng.integers(max(0, i - 6), min(len(names), i + 7)))
        j = j if j != i else i - 1
        start = points[i] + rng.uniform(-0.1, 0.1, 3)
        end = points[j] + rng.uniform(-0.1, 0.1, 3)
        d.loop(
            Rod(float(np.linalg.norm(end - start)) * d.size), names[i], names[j], start, end, name=f"rod {k}"
        )
    return d


# trusses on moving bodies


def truss(kind: str, **more: Any) -> Drawing:
    """Bars on a moving body that cannot move against it: a triangle of hinges, a tripod of rods, or one with
    a bar too many.
    """
    d = base(f"truss, {kind}", **more)
    if kind == "triangle":
        d.body("a", "trunk", Revolute(), frame((0, 0, 0.1), Y))
        d.body("b", "trunk", Revolute(), frame((0.3, 0, 0.1), Y))
        d.loop(Revolute(), "a", "b", frame((0.1, 0, 0.4), Y), name="apex")
        return d
    mast = d.body("mast", "trunk", Spherical(), frame((0, 0, 0.2)))
    count = 3 if kind == "tripod" else 4
    for k in range(count):
        foot = array(0.3 * np.cos(2 * np.pi * k / count), 0.3 * np.sin(2 * np.pi * k / count) + 0.02, 0.0)
        head = array(
            0.05 * np.cos(2 * np.pi * k / count + 1.0), 0.05 * np.sin(2 * np.pi * k / count + 1.0), 0.6
        )
        d.loop(Rod(float(np.linalg.norm(head - foot)) * d.size), "trunk", mast, foot, head, name=f"stay {k}")
    return d


def truss_in_a_linkage(**more: Any) -> Drawing:
    """A four-bar whose coupler is a triangle of bars: one degree of freedom."""
    d = Drawing("truss in a linkage", **more)
    d.bar("crank", WORLD, (0, 0))
    d.bar("rocker", WORLD, (1.0, 0))
    d.bar("one", "crank", (0.1, 0.3))
    d.bar("two", "one", (0.8, 0.7))
    d.bar("three", "one", (0.1, 0.3))
    d.pin("two", "three", (0.2, 0.9))
    d.pin("one", "rocker", (0.8, 0.7))
    return d
