"""Planar four-bar linkages of any lengths and size, for laws of coordinates that turn bad and good."""

from __future__ import annotations

import linkwork as lw
from linkwork.joints import Revolute

Z = Revolute((0.0, 0.0, 1.0))


def four_bar(
    crank: float, coupler: float, rocker: float, frame: float, *,
    size: float = 1.0, through: str = "crank", independent: str | None = None, gravity: float = 9.81,
) -> lw.Model:  # fmt: skip
    """Bars in the plane of x and y, where gravity points down y; the tree leads from the world `through` crank or rocker."""
    builder = lw.ModelBuilder("four bar", gravity=(0.0, -gravity * size, 0.0))
    lengths = {"crank": crank * size, "coupler": coupler * size, "rocker": rocker * size}
    at = {"crank": (0.0, 0.0, 0.0), "rocker": (frame * size, 0.0, 0.0)}
    first, last = ("crank", "rocker") if through == "crank" else ("rocker", "crank")
    places = {first: ("world", at[first]), "coupler": (first, (lengths[first], 0.0, 0.0)), last: ("world", at[last])}
    for bar, (on, xyz) in places.items():
        length, mass = lengths[bar], lengths[bar] / size
        moments = (mass * length**2 / 100.0, mass * length**2 / 12.0, mass * length**2 / 11.5)
        builder.add_body(bar, mass=mass, center=(0.5 * length, 0.0, 0.0), inertia=moments)
        chosen = None if independent is None else bar == independent
        builder.add_joint(bar, Z, parent=on, child=bar, xyz=xyz, independent=chosen)
    ends = {"xyz": (lengths["coupler"], 0.0, 0.0), "successor_xyz": (lengths[last], 0.0, 0.0)}
    return builder.add_loop("pin", Z, predecessor="coupler", successor=last, **ends).build()
