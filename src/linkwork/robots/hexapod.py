"""A leg of a hexapod (Gough-Stewart platform) with its share of the platform."""

from __future__ import annotations

from functools import cache

from linkwork.joints import Cylindrical, Gimbal, Universal
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import box, cylinder

REACH = 0.55  # from the universal joint of the cylinder to the piston at zero [m]
STROKE = 0.2  # of the piston in both directions [m]


def hexapod_leg(partitioned: bool = True) -> Model:
    """Return a leg with universal, cylindrical and gimbal joints, and a sixth of the platform; nv = 7.

    If `partitioned`, joints are split into one node per velocity with massless bodies between them. States,
    names and results are equal, and forward dynamics takes a fifth fewer operations. At zero the leg points
    upwards. The frame "platform_center" is at the center of the platform.
    """
    return _partitioned() if partitioned else _hexapod_leg()


@cache
def _partitioned() -> Model:
    return _hexapod_leg().partitioned()


@cache
def _hexapod_leg() -> Model:
    builder = ModelBuilder("hexapod leg")
    builder.add_body("cylinder", **cylinder(3.2, 0.04, REACH, at=(0.0, 0.0, REACH / 2)).body_args())
    builder.add_body("piston", **cylinder(1.4, 0.02, 0.5, at=(0.0, 0.0, -0.1)).body_args())
    builder.add_body("platform", **box(4.0, (0.3, 0.3, 0.03), at=(0.15, 0.0, 0.04)).body_args())
    # [rad]
    swing = 1.2
    turn = 1.3
    builder.add_joint("foot", Universal(), parent=WORLD, child="cylinder", lower=-swing, upper=swing)
    builder.add_joint(
        "strut",
        Cylindrical(),
        parent="cylinder",
        child="piston",
        xyz=(0.0, 0.0, REACH),
        lower=(-3.2, -STROKE),
        upper=(3.2, STROKE),
        damping=(0.05, 40.0),
    )
    builder.add_joint(
        "head",
        Gimbal(),
        parent="piston",
        child="platform",
        xyz=(0.0, 0.0, 0.2),
        lower=-turn,
        upper=turn,
        damping=0.1,
    )
    builder.add_frame("platform_center", body="platform", xyz=(0.3, 0.0, 0.04))
    return builder.build()
