"""Mechanisms with flexible bodies: beams with a few modes each."""

from __future__ import annotations

from functools import cache
from math import pi

import numpy as np

from linkwork.errors import ModelError
from linkwork.flexible import ALUMINIUM, STEEL, Material, Rectangle, Tube, beam
from linkwork.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.parallel import SWING, around, nearby, pointing
from linkwork.robots.solids import box, cylinder
from linkwork.spatial.constants import length as length_of

CARBON = Material(1600.0, 7.0e10, 0.3)
UP = (0.0, -0.5 * pi, 0.0)  # roll, pitch and yaw that turn x up


@cache
def flexible_arm() -> Model:
    """Return a light arm of two flexible links in a vertical plane, with a payload; nv = 2 + 2 · 4.

    The links are aluminium tubes of 0.8 and 0.7 m with four modes each; the frame `tool` is at the payload.
    At zero the arm is stretched along x.
    """
    builder = ModelBuilder("flexible_arm")
    lengths = {"upper_arm": 0.8, "forearm": 0.7}
    for name, length in lengths.items():
        builder.add_body(
            flexible=beam(
                name,
                length=length,
                section=Tube(0.012, 0.0015),
                material=ALUMINIUM,
                modes=4,
                damping_ratio=0.005,
            )
        )
    builder.add_body("elbow_motor", **cylinder(0.6, 0.03, 0.05, "y").body_args())
    builder.add_body("payload", **box(0.5, (0.06, 0.06, 0.06)).body_args())
    builder.add_joint(
        "shoulder", Revolute((0.0, 1.0, 0.0)), parent=WORLD, child="upper_arm", armature=0.05, damping=0.1
    )
    builder.add_joint("motor", Fixed(), parent="upper_arm", child="elbow_motor", xyz=(0.8, 0.0, 0.0))
    builder.add_joint(
        "elbow", Revolute((0.0, 1.0, 0.0)), parent="elbow_motor", child="forearm", armature=0.02, damping=0.05
    )
    builder.add_joint("flange", Fixed(), parent="forearm", child="payload", xyz=(0.7, 0.0, 0.0))
    return builder.add_frame("tool", body="payload").build()


@cache
def flexible_slider_crank() -> Model:
    """Return a slider-crank with a crank of 0.15 m and a flexible rod of 0.45 m; nv = 1 + 3.

    The rod has three modes in its plane. The crank is the independent joint. At zero crank and rod are along
    x.
    """
    builder = ModelBuilder("flexible_slider_crank")
    builder.add_body("crank", **cylinder(0.8, 0.02, 0.15, "x", at=(0.075, 0.0, 0.0)).body_args())
    rod = beam(
        "rod",
        length=0.45,
        section=Rectangle(0.006, 0.02),
        material=STEEL,
        modes={"bending_y": 3},
        damping_ratio=0.002,
    )
    builder.add_body(flexible=rod)
    builder.add_body("piston", **box(0.4, (0.05, 0.04, 0.04)).body_args())
    builder.add_joint("crank", Revolute((0.0, 0.0, 1.0)), parent=WORLD, child="crank", independent=True)
    builder.add_joint(
        "crank_pin",
        Revolute((0.0, 0.0, 1.0)),
        parent="crank",
        child="rod",
        xyz=(0.15, 0.0, 0.0),
        independent=False,
    )
    builder.add_joint(
        "guide",
        Prismatic((1.0, 0.0, 0.0)),
        parent=WORLD,
        child="piston",
        xyz=(0.6, 0.0, 0.0),
        independent=False,
    )
    builder.add_loop(
        "wrist_pin", Revolute((0.0, 0.0, 1.0)), predecessor="rod", successor="piston", xyz=(0.45, 0.0, 0.0)
    )
    return builder.build()


@cache
def boom_satellite() -> Model:
    """Return a free satellite with a boom of 12 m and an instrument at its tip, without gravity; nv = 6 + 6.

    The boom, a tube of carbon fiber, has two bending modes in each plane, one of torsion and one of stretch;
    the frame `tip` is at the instrument.
    """
    builder = ModelBuilder("boom_satellite", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bus", **box(300.0, (1.0, 1.0, 1.2)).body_args())
    modes = {"bending_y": 2, "bending_z": 2, "torsion": 1, "stretch": 1}
    boom = beam(
        "boom", length=12.0, section=Tube(0.05, 0.001), material=CARBON, modes=modes, damping_ratio=0.002
    )
    builder.add_body(flexible=boom)
    builder.add_body("instrument", **box(4.0, (0.2, 0.2, 0.1)).body_args())
    builder.add_joint("base", Free(), parent=WORLD, child="bus")
    builder.add_joint("root", Fixed(), parent="bus", child="boom", xyz=(0.5, 0.0, 0.0))
    builder.add_joint("mount", Fixed(), parent="boom", child="instrument", xyz=(12.0, 0.0, 0.0))
    return builder.add_frame("tip", body="instrument").build()


@cache
def flexible_stewart(modes: int = 1) -> Model:
    """Return a Gough-Stewart platform with flexible pistons; nv = 6 + 12 modes.

    The pistons have `modes` bending modes in each of two planes. As `stewart`, with the tubes of the pistons
    as beams from the cylinders to the ball joints under the platform.
    """
    if not isinstance(modes, int) or not 1 <= modes <= 4:
        raise ModelError(f"modes: expected an integer from 1 to 4, got {modes!r}")
    height = 0.8
    reach = 0.4
    builder = ModelBuilder("flexible_stewart").add_body("platform", **cylinder(6.0, 0.3, 0.04).body_args())
    builder.add_joint(
        "platform",
        Free(),
        parent=WORLD,
        child="platform",
        xyz=(0.0, 0.0, height),
        independent=False,
        **nearby(0.1, 0.1),
    )
    bending = {"bending_y": modes, "bending_z": modes}
    rod = beam(
        "piston", length=reach, section=Tube(0.012, 0.002), material=STEEL, modes=bending, damping_ratio=0.005
    )
    for k in range(6):
        third = 2.0 * pi / 3.0 * (k // 2)
        turn = 1.0 if k % 2 else -1.0
        foot = around(0.6, third + 0.25 * turn)
        head = around(0.3, third + (pi / 3.0 - 0.25) * turn)
        length = float(length_of(np.array((head[0], head[1], height)) - np.array(foot)))
        low = pointing(foot, (head[0], head[1], height))
        builder.add_body(f"cylinder_{k}", **cylinder(1.2, 0.03, 0.45, at=(0.0, 0.0, 0.225)).body_args())
        builder.add_body(f"piston_{k}", flexible=rod)
        builder.add_joint(
            f"foot_{k}",
            Universal(),
            parent=WORLD,
            child=f"cylinder_{k}",
            place=low,
            independent=False,
            **SWING,
        )
        builder.add_joint(
            f"leg_{k}", Prismatic((1.0, 0.0, 0.0)), parent=f"cylinder_{k}", child=f"piston_{k}",
            xyz=(0.0, 0.0, length - reach),
            rpy=UP, lower=-0.2, upper=0.2,
        )  # fmt: skip
        builder.add_loop(
            f"ball_{k}",
            Spherical(),
            predecessor="platform",
            successor=f"piston_{k}",
            xyz=head,
            successor_xyz=(reach, 0.0, 0.0),
        )
    return builder.build()


@cache
def flexible_chain(n: int, modes: int = 6) -> Model:
    """Return n flexible links in series, each a beam of 0.5 m with `modes` modes, on alternating hinges."""
    if not isinstance(n, int) or n < 1:
        raise ModelError(f"n: expected a positive integer, got {n!r}")
    builder = ModelBuilder(f"flexible_chain_{n}")
    link = beam(
        "link", length=0.5, section=Rectangle(0.01, 0.02), material=ALUMINIUM, modes=modes, damping_ratio=0.01
    )
    for k in range(n):
        below, at = (WORLD, 0.0) if k == 0 else (f"link_{k - 1}", 0.5)
        axis = (0.0, 1.0, 0.0) if k % 2 else (0.0, 0.0, 1.0)
        builder.add_body(f"link_{k}", flexible=link)
        builder.add_joint(f"joint_{k}", Revolute(axis), parent=below, child=f"link_{k}", xyz=(at, 0.0, 0.0))
    return builder.add_frame("tip", body=f"link_{n - 1}", xyz=(0.5, 0.0, 0.0)).build()
