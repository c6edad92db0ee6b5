"""A collection of closed mechanisms: each with its mobility, by mechanism theory, and with what stays so on
its branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import leg_mechanisms as legs
import planar_mechanisms as planar
import spatial_mechanisms as spatial
from drawings import Drawing, drake, isaac
from linkwork.formats import urdf
from linkwork.joints import Fixed, Joint, Revolute, Spherical
from linkwork.model import Model


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and what is known of it.

    `freedom` is its number of degrees of freedom; `gap` what its file leaves open, relative to its `size`
    [m], where frames were rounded: then its redundant equations cannot all hold.
    """

    draw: Callable[[], Drawing]
    freedom: int
    gap: float = 0.0
    read: Callable[[str], str] | None = None  # the text of a file, in some dialect; without, it is built
    large: bool = False  # for the slow tests only

    def drawing(self) -> Drawing:
        return _drawing(self)

    def model(self) -> Model:
        return _model(self)


@cache
def _drawing(mechanism: Mechanism) -> Drawing:
    return mechanism.draw()


@cache
def _model(mechanism: Mechanism) -> Model:
    drawing = _drawing(mechanism)
    if mechanism.read is None:
        return drawing.builder.build()
    return urdf.read(mechanism.read(drawing.urdf()), gravity=drawing.builder.gravity)


def _as_it_is(text: str) -> str:
    return text


def rounded_four_bar(**more: Any) -> Drawing:
    """Lengths with more digits than are written."""
    return planar.four_bar(0.3123456789, 0.8234567891, 0.6345678912, 0.9456789123, keeps="pin", **more)


def arms(count: int, kind: Joint, freedom: int) -> Mechanism:
    return Mechanism(
        lambda: spatial.arms_on_a_plate(count, kind),
        freedom,
        large=count > (3 if isinstance(kind, Fixed) else 2),
    )


def braced_row() -> Drawing:
    return planar.four_bars_in_a_row(6, braced=True, angle=1.1, digits=6)


GRASHOF = {  # crank, coupler, rocker, ground, and the joint that never stretches
    "crank-rocker": (0.3, 0.8, 0.6, 0.9, "pin"),
    "double crank": (0.8, 0.7, 0.9, 0.3, "coupler"),
    "double rocker": (0.8, 0.3, 0.7, 0.9, "ground"),
    "rocker-crank": (0.7, 0.8, 0.25, 0.9, "coupler"),
}
FOUR_BARS: dict[str, Callable[[], Drawing]] = {
    **{f"four-bar, {n}": (lambda x=x: planar.four_bar(*x[:4], keeps=x[4])) for n, x in GRASHOF.items()},
    "four-bar, triple rocker": lambda: planar.four_bar(0.6, 0.5, 0.7, 1.3, angle=0.5),
    "four-bar, parallelogram": lambda: planar.four_bar(0.5, 1.0, 0.5, 1.0, side=-1.0, limits=0.8),
    "four-bar, antiparallelogram": lambda: planar.four_bar(0.5, 1.0, 0.5, 1.0, side=1.0, limits=0.8),
    "four-bar, kite": lambda: planar.four_bar(0.5, 0.5, 1.0, 1.0, angle=0.8, limits=0.4),
    "four-bar, change point": lambda: planar.four_bar(0.4, 0.9, 0.7, 1.2, limits=0.5),
    "Chebyshev's lambda": planar.chebyshev,
    "Roberts' linkage": planar.roberts,
}

CATALOGUE: dict[str, Mechanism] = {
    **{name: Mechanism(draw, 1) for name, draw in FOUR_BARS.items()},
    # files with few digits: positions alone leave no gap, turned frames do
    **{f"four-bar with {n} digits": Mechanism(lambda n=n: rounded_four_bar(digits=n), 1) for n in (4, 6, 9)},
    **{
        f"turned four-bar with {n} digits": Mechanism(lambda n=n: rounded_four_bar(digits=n, turned=True), 1, gap=gap)
        for n, gap in ((4, 1e-3), (6, 1e-5), (9, 1e-8))
    },
    "turned four-bar in a file": Mechanism(lambda: rounded_four_bar(digits=4, turned=True), 1, gap=1e-3, read=_as_it_is),
    "turned four-bar for Isaac Sim": Mechanism(lambda: rounded_four_bar(digits=6, turned=True), 1, gap=1e-5, read=isaac),
    "turned four-bar for Drake": Mechanism(lambda: rounded_four_bar(digits=4, turned=True), 1, gap=1e-3, read=drake),
    "tiny four-bar, 1e-7 m": Mechanism(lambda: planar.four_bar(0.3, 0.8, 0.6, 0.9, keeps="pin", size=1e-7), 1),
    "huge four-bar, 1e8 m": Mechanism(lambda: planar.four_bar(0.3, 0.8, 0.6, 0.9, keeps="pin", size=1e8), 1),
    "five-bar": Mechanism(planar.five_bar, 2),
    "five-bar with 4 digits": Mechanism(lambda: planar.five_bar(digits=4), 2, read=_as_it_is),
    "slider-crank": Mechanism(planar.slider_crank, 1),
    "offset slider-crank": Mechanism(lambda: planar.slider_crank(0.1, digits=6), 1, read=_as_it_is),
    "quick return": Mechanism(planar.quick_return, 1),
    "slotted arm": Mechanism(planar.slotted_arm, 1),
    "trammel": Mechanism(planar.trammel, 1),
    "Scotch yoke": Mechanism(planar.scotch_yoke, 1),
    "Oldham coupling": Mechanism(planar.oldham, 1),
    "Watt I": Mechanism(lambda: planar.watt(True), 1),
    "Watt II with 4 digits": Mechanism(lambda: planar.watt(False, digits=4), 1, read=_as_it_is),
    **{f"Stephenson {'I' * k}": Mechanism(lambda k=k: planar.stephenson(k), 1) for k in (1, 2, 3)},
    "Jansen's leg": Mechanism(planar.jansen, 1),
    "Jansen's leg, turned, 6 digits": Mechanism(lambda: planar.jansen(digits=6, turned=True), 1, gap=1e-5, large=True),
    "Klann's leg": Mechanism(planar.klann, 1),
    "Peaucellier": Mechanism(planar.peaucellier, 1),
    "Hart": Mechanism(planar.hart, 1),
    "pantograph": Mechanism(planar.pantograph, 2),
    "scissors of 2": Mechanism(lambda: planar.scissors(2), 1),
    "scissors of 6": Mechanism(lambda: planar.scissors(6), 1, large=True),
    "scissors of 3, turned, 4 digits": Mechanism(lambda: planar.scissors(3, digits=4, turned=True), 1, gap=1e-3),
    "3 four-bars": Mechanism(lambda: planar.four_bars_in_a_row(3), 1),
    "4 four-bars, braced": Mechanism(lambda: planar.four_bars_in_a_row(4, braced=True), 1),
    "6 four-bars, braced, 6 digits": Mechanism(braced_row, 1, gap=1e-5, large=True),
    **{f"{n} four-bars": Mechanism(lambda n=n: planar.four_bars_in_a_row(n), 1, large=True) for n in (10, 20, 40)},
    "Assur of 9": Mechanism(lambda: planar.assur(9, seed=1), 1, large=True),
    "Assur of 15, 4 digits": Mechanism(lambda: planar.assur(15, seed=2, digits=4), 1, read=_as_it_is),
    "Assur of 25, 6 digits": Mechanism(lambda: planar.assur(25, seed=3, digits=6), 1, large=True),
    "Assur of 39, 9 digits": Mechanism(lambda: planar.assur(39, seed=4, digits=9), 1, large=True),
    "ring of 8": Mechanism(lambda: planar.ring(8), 5),
    "ring of 20": Mechanism(lambda: planar.ring(20), 17, large=True),
    "geared five-bar": Mechanism(planar.geared_five_bar, 1),
    "excavator": Mechanism(planar.excavator, 3),
    "3-RRR in the plane": Mechanism(lambda: planar.three_legs("RRR"), 3),
    "3-RPR in the plane, 6 digits": Mechanism(lambda: planar.three_legs("RPR", digits=6), 3),
    "lamp": Mechanism(planar.lamp, 2),
    "Andrews' squeezer": Mechanism(planar.squeezer, 1),
    # in space
    "RSSR": Mechanism(spatial.rssr, 2),
    "RUSR": Mechanism(lambda: spatial.rssr("US"), 1),
    "RSSR with a rod": Mechanism(lambda: spatial.rssr("rod"), 1),
    "RSSP": Mechanism(spatial.rssp, 1),
    "RCCC": Mechanism(spatial.rccc, 1),
    "spherical four-bar": Mechanism(spatial.spherical_four_bar, 1),
    "Cardan joint": Mechanism(lambda: spatial.spherical_four_bar(cardan=True), 1),
    "Cardan shaft": Mechanism(spatial.cardan_shaft, 1),
    "ring of 9 skew hinges": Mechanism(spatial.screw_ring, 3),
    "ring of 8 skew hinges and a weld": Mechanism(spatial.welded_ring, 2),
    "6-UPS": Mechanism(spatial.stewart, 6),
    "6-SPS": Mechanism(lambda: spatial.stewart("SPS"), 12, large=True),
    "6-RUS": Mechanism(lambda: spatial.stewart("RUS"), 6, large=True),
    "6-PUS": Mechanism(lambda: spatial.stewart("PUS"), 6, large=True),
    "5-SS": Mechanism(lambda: spatial.ss_platform(5), 1),
    "3-SS": Mechanism(lambda: spatial.ss_platform(3), 3),
    **{f"3-{kind}": Mechanism(lambda kind=kind: spatial.three_legged(kind), 3) for kind in ("RPS", "PRS", "RRS", "UPU")},
    "delta with rods": Mechanism(spatial.delta, 3),
    "delta with rods of mass": Mechanism(lambda: spatial.delta("US"), 3, large=True),
    "delta with its plate on a rod": Mechanism(spatial.delta_on_a_rod, 3, large=True),
    "tripteron": Mechanism(spatial.tripteron, 3),
    "spherical wrist": Mechanism(spatial.spherical_wrist, 3),
    "agile eye": Mechanism(lambda: spatial.spherical_wrist(agile=True), 3),
    # overconstrained
    "Bennett": Mechanism(spatial.bennett, 1),
    "Goldberg": Mechanism(spatial.goldberg, 1),
    "Myard": Mechanism(spatial.myard, 1),
    "Schatz": Mechanism(spatial.schatz, 1),
    **{f"Bricard, {kind}": Mechanism(lambda kind=kind: spatial.bricard(kind), 1) for kind in ("trihedral", "line", "plane")},
    "Sarrus": Mechanism(spatial.sarrus, 1),
    # arms on a plate
    **{f"{n} arms, welded": arms(n, Fixed(), 6) for n in range(2, 7)},
    **{f"{n} arms, balls": arms(n, Spherical(), 3 + 3 * n) for n in (2, 3, 5)},
    **{f"{n} arms, hinges": arms(n, Revolute(), 5 + n) for n in (2, 3, 6)},
    # legs, hands and trusses; the trunk's hinge counts as one
    "ankle with rods": Mechanism(lambda: legs.one_ankle("rod"), 3),
    "ankle SU": Mechanism(lambda: legs.one_ankle("SU"), 3),
    "ankle SS": Mechanism(lambda: legs.one_ankle("SS"), 5),
    "ankle US with 6 digits": Mechanism(lambda: legs.one_ankle("US", digits=6), 3),
    "linear ankle": Mechanism(legs.linear_ankle, 3),
    "leg": Mechanism(legs.leg, 10),
    "heron leg": Mechanism(legs.heron_leg, 3),
    "finger of 2": Mechanism(legs.one_finger, 1),
    "finger of 4": Mechanism(lambda: legs.one_finger(4), 1, large=True),
    "hand": Mechanism(legs.hand, 7, large=True),
    "differential wrist": Mechanism(legs.differential_wrist, 3),
    "quadruped": Mechanism(legs.quadruped, 14),
    "biped of 53": Mechanism(legs.biped, 34, large=True),
    "foot of 50 rods": Mechanism(legs.foot_of_rods, 40, large=True),
    **{f"truss, {kind}": Mechanism(lambda kind=kind: legs.truss(kind), 1) for kind in ("triangle", "tripod", "four stays")},
    "truss in a linkage": Mechanism(legs.truss_in_a_linkage, 1),
}  # fmt: skip


def side_signs(drawing: Drawing, places: dict[str, Any]) -> list[int]:
    """The signs that stay on one branch, for the places (R, p) of bodies in the world."""

    def at(mark: tuple[str, np.ndarray]) -> np.ndarray:
        R, p = places[mark[0]]
        return R @ mark[1] + p

    found = []
    for a, b, c, (body, n) in drawing.sides:
        A = at(a)
        B = at(b)
        C = at(c)
        found.append(int(np.sign(np.cross(B - A, C - B) @ (places[body][0] @ n))))
    return found
