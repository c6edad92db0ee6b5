"""Planar four-bar linkages of any lengths and size, for laws of coordinates that turn bad and good."""

from __future__ import annotations

from typing import Any

import numpy as np

import linkwork as lw
from linkwork.joints import Revolute

Z = Revolute((0.0, 0.0, 1.0))


def four_bar(
    crank: float, coupler: float, rocker: float, frame: float, *,
    size: float = 1.0, through: str = "crank", independent: str | None = None, gravity: float = 9.81,
) -> lw.Model:  # fmt: skip
    """Bars in the plane of x and y, where gravity points down y; the tree leads from the world `through`
    crank or rocker.
    """
    builder = lw.ModelBuilder("four bar", gravity=(0.0, -gravity * size, 0.0))
    lengths = {"crank": crank * size, "coupler": coupler * size, "rocker": rocker * size}
    at = {"crank": (0.0, 0.0, 0.0), "rocker": (frame * size, 0.0, 0.0)}
    first, last = ("crank", "rocker") if through == "crank" else ("rocker", "crank")
    places = {
        first: ("world", at[first]),
        "coupler": (first, (lengths[first], 0.0, 0.0)),
        last: ("world", at[last]),
    }
    for bar, (on, xyz) in places.items():
        length = lengths[bar]
        mass = lengths[bar] / size
        moments = (mass * length**2 / 100.0, mass * length**2 / 12.0, mass * length**2 / 11.5)
        builder.add_body(bar, mass=mass, center=(0.5 * length, 0.0, 0.0), inertia=moments)
        chosen = None if independent is None else bar == independent
        builder.add_joint(bar, Z, parent=on, child=bar, xyz=xyz, independent=chosen)
    ends = {"xyz": (lengths["coupler"], 0.0, 0.0), "successor_xyz": (lengths[last], 0.0, 0.0)}
    return builder.add_loop("pin", Z, predecessor="coupler", successor=last, **ends).build()


def crank_states(
    angles: np.ndarray, crank: float = 0.3, coupler: float = 1.0, rocker: float = 0.8, frame: float = 1.0
) -> Any:
    """Closed states of a four-bar linkage on one branch, at angles of its crank, (..., 3): geometry of
    circles.
    """
    tip = np.stack(
        [crank * np.cos(angles) - frame, crank * np.sin(angles)], axis=-1
    )  # seen from the rocker's hinge
    far = np.linalg.norm(tip, axis=-1)
    inner = np.arccos((far**2 + rocker**2 - coupler**2) / (2 * far * rocker))
    turned = np.arctan2(tip[..., 1], tip[..., 0]) - inner
    end = rocker * np.stack([np.cos(turned), np.sin(turned)], axis=-1) - tip
    return np.stack([angles, np.arctan2(end[..., 1], end[..., 0]) - angles, turned], axis=-1)


def parallelograms(n: int) -> lw.Model:
    """n four-bar linkages in a row that share their cranks, all bars of 1 m and 1 kg; at zero the cranks
    point up.

    Where all bars lie in one line it has more freedoms than one.
    """
    builder = lw.ModelBuilder(f"{n} parallelograms", gravity=(0.0, -9.81, 0.0))

    def bar(name: str, on: str, xyz: tuple[float, float, float], center: tuple[float, float, float]) -> None:
        builder.add_body(name, mass=1.0, center=center, inertia=(1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0))
        builder.add_joint(name, Z, parent=on, child=name, xyz=xyz, independent=name == "crank_0")

    for k in range(n + 1):
        bar(f"crank_{k}", "world", (float(k), 0.0, 0.0), (0.0, 0.5, 0.0))
    for k in range(n):
        bar(f"coupler_{k}", f"crank_{k}", (0.0, 1.0, 0.0), (0.5, 0.0, 0.0))
        ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.0, 1.0, 0.0)}
        builder.add_loop(f"pin_{k}", Z, predecessor=f"coupler_{k}", successor=f"crank_{k + 1}", **ends)
    return builder.build()
