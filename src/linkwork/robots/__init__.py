"""Robots and mechanisms that ship with linkwork.

`arm`, `quadruped` and `humanoid` are fictitious robots with realistic data. `mini_cheetah`, `mit_humanoid`,
`mit_humanoid_leg`, `tello` and `jvrc1` are existing robots with the rotors of their motors, exact or
`approximate`. `four_bar`, `six_bar`, `planar_leg_linkage`, `five_bar`, `slider_crank`, `watt`, `bricard`,
`delta` and `stewart` are mechanisms with loops; `hexapod_leg` has partitioned joints with several velocities.
`flexible_arm`, `flexible_slider_crank`, `boom_satellite`, `flexible_stewart` and `flexible_chain` have
flexible bodies. `chain`, `binary_tree`, `link_rotor_chain`, `belt_chain`, `four_bar_chain`,
`transmission_loop`, `connecting_rod_loop` and `scissor_lift` can have any size. Calls with equal arguments
return the same model, so that compiled functions are found again.
"""

import sys
from typing import NoReturn

from linkwork.mechanism.names import did_you_mean
from linkwork.robots.arm import arm
from linkwork.robots.chains import binary_tree, chain
from linkwork.robots.flexible import (
    boom_satellite,
    flexible_arm,
    flexible_chain,
    flexible_slider_crank,
    flexible_stewart,
)
from linkwork.robots.hexapod import hexapod_leg
from linkwork.robots.humanoid import humanoid
from linkwork.robots.jvrc1 import jvrc1
from linkwork.robots.linkages import (
    bricard,
    five_bar,
    four_bar,
    planar_leg_linkage,
    scissor_lift,
    six_bar,
    slider_crank,
    watt,
)
from linkwork.robots.loop_chains import (
    belt_chain,
    connecting_rod_loop,
    four_bar_chain,
    link_rotor_chain,
    transmission_loop,
)
from linkwork.robots.mini_cheetah import mini_cheetah
from linkwork.robots.mit_humanoid import mit_humanoid, mit_humanoid_leg
from linkwork.robots.parallel import delta, stewart
from linkwork.robots.quadruped import quadruped
from linkwork.robots.tello import tello

__all__ = [
    "arm",
    "belt_chain",
    "binary_tree",
    "boom_satellite",
    "bricard",
    "chain",
    "connecting_rod_loop",
    "delta",
    "five_bar",
    "flexible_arm",
    "flexible_chain",
    "flexible_slider_crank",
    "flexible_stewart",
    "four_bar",
    "four_bar_chain",
    "hexapod_leg",
    "humanoid",
    "jvrc1",
    "link_rotor_chain",
    "mini_cheetah",
    "mit_humanoid",
    "mit_humanoid_leg",
    "names",
    "planar_leg_linkage",
    "quadruped",
    "scissor_lift",
    "six_bar",
    "slider_crank",
    "stewart",
    "tello",
    "transmission_loop",
    "watt",
]

_NAMES = (
    "arm", "quadruped", "humanoid", "mini_cheetah", "mit_humanoid", "mit_humanoid_leg", "tello", "jvrc1",
    "four_bar", "six_bar",
    "planar_leg_linkage", "five_bar", "slider_crank", "watt", "bricard", "delta", "stewart",
    "flexible_arm", "flexible_slider_crank", "boom_satellite", "flexible_stewart", "hexapod_leg",
)  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"linkwork.robots: no robot named {name!r}{did_you_mean(name, __all__)}",
        name=name,
        obj=sys.modules[__name__],
    )


def names() -> tuple[str, ...]:
    """Return the names of the robots that need no arguments."""
    return _NAMES
