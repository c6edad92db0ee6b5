"""Planar linkages of bars on parallel hinges; their spatial closure equations are redundant."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from linkwork.compiler.ir.functions import atan2, cos, sin
from linkwork.joints import Joint, PointOnLine, Prismatic, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.chains import _positive_integer
from linkwork.robots.solids import ORIGIN, Point, box
from linkwork.spatial import Pose
from linkwork.spatial.constants import length as length_of

UP = Revolute((0.0, 0.0, 1.0))
ACROSS = Revolute((0.0, 1.0, 0.0))  # for linkages in the vertical plane of x and z

BAR: dict[str, Any] = {
    "mass": 3.3,
    "inertia": (0.011253, 0.036203, 0.042673),
}  # of four_bar and six_bar; its center of mass is on the hinge


@cache
def four_bar() -> Model:
    """Return a four-bar linkage in the horizontal plane: bars of 0.5, 1.0 and 0.5 m, frame of 1.0 m; nv = 1.

    It is a parallelogram. At zero it is folded flat, a bifurcation point to the crossed assembly mode.
    """
    builder = ModelBuilder("four_bar")
    rows = [("link1", WORLD, 0.0, True), ("link2", "link1", 0.5, False), ("link3", WORLD, 1.0, False)]
    for k, (link, on, x, independent) in enumerate(rows, 1):
        builder.add_body(link, **BAR)
        builder.add_joint(f"joint{k}", UP, parent=on, child=link, xyz=(x, 0.0, 0.0), independent=independent)
    ends: dict[str, Any] = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    return builder.add_loop("loop1", UP, predecessor="link2", successor="link3", **ends).build()


@cache
def six_bar() -> Model:
    """Return a ring of five bars and the frame in the horizontal plane; nv = 3."""
    builder = ModelBuilder("six_bar")
    rows = [
        ("link1", WORLD, 0.0),
        ("link2", "link1", 0.1),
        ("link3", "link2", 0.2),
        ("link4", WORLD, 0.0),
        ("link5", "link4", 0.4),
    ]
    for k, (link, on, x) in enumerate(rows, 1):
        builder.add_body(link, **BAR)
        builder.add_joint(f"joint{k}", UP, parent=on, child=link, xyz=(x, 0.0, 0.0), independent=k < 4)
    ends: dict[str, Any] = {"xyz": (0.3, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    return builder.add_loop("constraint1", UP, predecessor="link3", successor="link5", **ends).build()


@cache
def planar_leg_linkage() -> Model:
    """Return a leg whose shank is driven from the hip by a four-bar linkage in the xy plane; nv = 2.

    The bodies have moments of inertia about z only, which `report()` lists as physically inconsistent.
    """
    builder = ModelBuilder("planar_leg_linkage")
    rows = [  # joint, parent, link, position, independent, mass, center, moment about z
        ("base_to_thigh", WORLD, "thigh", 0.0, None, 0.23, 0.0364, 4.5389e-5),
        ("thigh_to_driver", "thigh", "shank_driver", 0.011, True, 0.004, 0.048, 3.257e-6),
        ("thigh_to_support", "thigh", "shank_support", 0.042, False, 0.225, 0.04, 2.2918e-5),
        ("driver_to_foot", "shank_driver", "foot", 0.096, False, 0.017, 0.0635, 2.2176e-5),
    ]
    for joint, on, link, x, independent, mass, center, moment in rows:
        builder.add_body(link, mass=mass, center=(center, 0.0, 0.0), inertia=(0.0, 0.0, moment), check=False)
        builder.add_joint(joint, UP, parent=on, child=link, xyz=(x, 0.0, 0.0), independent=independent)
    ends: dict[str, Any] = {"xyz": (0.031, 0.0, 0.0), "successor_xyz": (0.096, 0.0, 0.0)}
    return builder.add_loop("linkage", UP, predecessor="foot", successor="shank_support", **ends).build()


class Upright:
    """Builder of linkages in the vertical plane, from hinge positions with all joints at zero."""

    def __init__(self, name: str) -> None:
        self.builder = ModelBuilder(name)
        # x, z and angle of each link.
        self.frames: dict[str, tuple[float, float, float]] = {WORLD: (0.0, 0.0, 0.0)}

    def place(self, link: str, x: float, z: float, angle: float | None = None) -> Pose:
        """Return the pose of a point at x and z in the frame of a link.

        Its axes are those of the link or, with `angle`, are rotated by that angle relative to the world.
        """
        at, up, turn = self.frames[link]
        back = Pose.from_xyz_rpy((at, 0.0, up), (0.0, turn, 0.0)).inverse()
        return back.then(Pose.from_xyz_rpy((x, 0.0, z), (0.0, turn if angle is None else angle, 0.0)))

    def bar(
        self,
        name: str,
        on: str,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        mass: float,
        independent: bool | None = None,
        kind: Joint = ACROSS,
        turn: float = np.inf,
    ) -> None:
        """Add a straight bar from a hinge on another link to a point.

        Its x axis points to `end`; it can `turn` by that angle [rad] to both sides.
        """
        dx = end[0] - start[0]
        dz = end[1] - start[1]
        angle = -atan2(dz, dx)
        length = float(length_of(np.array([dx, dz])))
        self.builder.add_body(
            name, **box(mass, (length, 0.02, 0.03), at=(0.5 * length, 0.0, 0.0)).body_args()
        )
        place = self.place(on, *start, angle)
        self.builder.add_joint(
            f"{name}_joint",
            kind,
            parent=on,
            child=name,
            place=place,
            independent=independent,
            lower=-turn,
            upper=turn,
        )
        self.frames[name] = (*start, angle)

    def close(self, name: str, one: str, other: str, x: float, z: float) -> None:
        """Add a hinge between two links at a point."""
        places: dict[str, Any] = {
            "place": self.place(one, x, z, 0.0),
            "successor_place": self.place(other, x, z, 0.0),
        }
        self.builder.add_loop(name, ACROSS, predecessor=one, successor=other, **places)


@cache
def five_bar() -> Model:
    """Return a five-bar linkage in the vertical plane; nv = 2.

    Two arms, driven at the frame, share their tip; the frame `tip` is on that hinge. At zero it is 0.40 m
    below the center of the frame.
    """
    linkage = Upright("five_bar")
    for side, x in (("left", -0.1), ("right", 0.1)):
        elbow = (2.0 * x, -0.18)
        linkage.bar(f"{side}_upper", WORLD, (x, 0.0), elbow, mass=0.4, independent=True)
        linkage.bar(f"{side}_lower", f"{side}_upper", elbow, (0.0, -0.4), mass=0.3, independent=False)
    linkage.close("tip_joint", "left_lower", "right_lower", 0.0, -0.4)
    return linkage.builder.add_frame(
        "tip", body="left_lower", place=linkage.place("left_lower", 0.0, -0.4)
    ).build()


@cache
def slider_crank() -> Model:
    """Return a slider-crank in the vertical plane: crank of 0.1 m, rod of 0.3 m, slider along x; nv = 1.

    The crank can rotate fully. At zero it points along x, with the slider at its outermost position.
    """
    linkage = Upright("slider_crank")
    linkage.bar("crank", WORLD, (0.0, 0.0), (0.1, 0.0), mass=0.5, independent=True)
    linkage.bar("rod", "crank", (0.1, 0.0), (0.4, 0.0), mass=0.6, independent=False)
    builder = linkage.builder.add_body("slider", **box(0.8, (0.08, 0.06, 0.05)).body_args())
    slide = Prismatic((1.0, 0.0, 0.0))
    builder.add_joint(
        "slider_joint", slide, parent=WORLD, child="slider", xyz=(0.4, 0.0, 0.0), independent=False
    )
    linkage.frames["slider"] = (0.4, 0.0, 0.0)
    linkage.close("pin", "rod", "slider", 0.4, 0.0)
    return builder.build()


@cache
def watt() -> Model:
    """Return a six-bar Watt linkage in the vertical plane; nv = 1.

    Two four-bar linkages share a rocker, in one cluster. The crank can rotate fully.
    """
    linkage = Upright("watt")
    linkage.bar("crank", WORLD, (0.0, 0.0), (0.0, 0.08), mass=0.3, independent=True)
    linkage.bar("coupler", "crank", (0.0, 0.08), (0.3, 0.2), mass=0.5, independent=False)
    linkage.bar("rocker", WORLD, (0.3, 0.0), (0.3, 0.2), mass=0.5, independent=False)
    linkage.close("first", "coupler", "rocker", 0.3, 0.2)
    linkage.bar("second_coupler", "rocker", (0.34, 0.1), (0.64, 0.22), mass=0.5, independent=False)
    linkage.bar("output", WORLD, (0.6, 0.0), (0.64, 0.22), mass=0.4, independent=False)
    linkage.close("second", "second_coupler", "output", 0.64, 0.22)
    return linkage.builder.build()


def scissor_lift(stages: int) -> Model:
    """Return a scissor lift with crossed bars of 1 m in `stages` stages and a platform; nv = 1.

    `left_0` is hinged to the ground and drives the lift; `right_0` is on a `slider`. Each further stage is on
    both bars of the one below: a cluster with two output bodies, whose cost does not depend on the number of
    stages. The platform is hinged to one bar and rests on the other. At zero the bars rise at 0.6 rad; their
    range is 0.2 to 1 rad.
    """
    return _scissor_lift(_positive_integer("stages", stages))


@lru_cache(maxsize=64)
def _scissor_lift(stages: int) -> Model:
    # [rad]
    rise = 0.6
    far = 0.4
    x = cos(rise)
    z = sin(rise)
    lift = Upright(f"scissor lift of {stages}")
    lift.bar("left_0", WORLD, (0.0, 0.0), (x, z), mass=1.0, independent=True, turn=far)
    lift.builder.add_body("slider", **box(0.5, (0.1, 0.06, 0.05)).body_args())
    lift.builder.add_joint(
        "slider_joint", Prismatic((1.0, 0.0, 0.0)), parent=WORLD, child="slider", xyz=(x, 0.0, 0.0),
        independent=False,
        lower=cos(rise + far) - x, upper=cos(rise - far) - x,
    )  # fmt: skip
    lift.frames["slider"] = (x, 0.0, 0.0)
    lift.bar("right_0", "slider", (x, 0.0), (0.0, z), mass=1.0, independent=False, turn=far)
    lift.close("pivot_0", "left_0", "right_0", 0.5 * x, 0.5 * z)
    for k in range(1, stages):
        lift.bar(
            f"left_{k}",
            f"right_{k - 1}",
            (0.0, k * z),
            (x, (k + 1) * z),
            mass=1.0,
            independent=False,
            turn=2 * far,
        )
        lift.bar(
            f"right_{k}",
            f"left_{k - 1}",
            (x, k * z),
            (0.0, (k + 1) * z),
            mass=1.0,
            independent=False,
            turn=2 * far,
        )
        lift.close(f"pivot_{k}", f"left_{k}", f"right_{k}", 0.5 * x, (k + 0.5) * z)
    left_bar = f"left_{stages - 1}"
    right_bar = f"right_{stages - 1}"
    top = stages * z
    lift.bar("platform", right_bar, (0.0, top), (1.0, top), mass=5.0, independent=False, turn=far)
    ends: dict[str, Any] = {
        "place": lift.place("platform", 0.0, top),
        "successor_place": lift.place(left_bar, x, top),
    }
    return lift.builder.add_loop(
        "roller", PointOnLine((1.0, 0.0, 0.0)), predecessor="platform", successor=left_bar, **ends
    ).build()


@cache
def bricard() -> Model:
    """Return a Bricard linkage: a ring of six bars of 0.3 m, successive hinges perpendicular; nv = 1.

    It is overconstrained: by the count of equations, a spatial ring of six hinges has no DoF. At zero its
    bars are six edges of a cube, one of which is fixed along x. The first hinge is the independent joint; it
    reaches a turning point at 0.52 rad, beyond which no closed configurations exist.
    """
    L = 0.3
    edges: list[Point] = [(L, 0, 0), (0, L, 0), (0, 0, L), (-L, 0, 0), (0, -L, 0), (0, 0, -L)]
    hinges: list[Point] = [
        (0, 0, 1),
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (1, 0, 0),
        (0, 1, 0),
    ]  # where each edge ends
    builder = ModelBuilder("bricard").add_frame("bar_0", body=WORLD)
    below = WORLD
    for k in range(1, 6):
        edge = np.array(edges[k])
        figures = box(
            0.3, tuple(np.maximum(np.abs(edge), 0.02).tolist()), at=tuple((0.5 * edge).tolist())
        ).body_args()
        builder.add_body(f"bar_{k}", **figures)
        builder.add_joint(
            f"hinge_{k}", Revolute(hinges[k - 1]), parent=below, child=f"bar_{k}", xyz=edges[k - 1],
            lower=-0.4, upper=0.4, independent=k == 1,
        )  # fmt: skip
        below = f"bar_{k}"
    ends: dict[str, Any] = {"xyz": edges[5], "successor_xyz": ORIGIN}
    return builder.add_loop(
        "hinge_6", Revolute(hinges[5]), predecessor=below, successor=WORLD, **ends
    ).build()
