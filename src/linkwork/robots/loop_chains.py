"""Chains with loops, of any size, as in the benchmarks of the paper Loops (Figs. 9 and 11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from linkwork.compiler.ir.functions import sqrt
from linkwork.errors import ModelError
from linkwork.joints import Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.chains import CROSSWISE, LENGTH, ROD, TIP, _positive_integer
from linkwork.robots.solids import ORIGIN, Point, Solid, box, cylinder

GEAR = 6.0
ALONG = "xy"  # the axes about which hinges alternate
ROTORS = {axis: cylinder(0.1, 0.03, 0.02, axis) for axis in ALONG}


def link_rotor_chain(n: int, branches: int = 1) -> Model:
    """Return `n` links in series, each with a geared rotor, in each branch on the world.

    The rotors turn 6 times as fast as their links; every pair is a cluster of two bodies. Links are the rods
    of `chain`, named `link_0_0`, `link_0_1` and so on in the first branch; the rotor of `link_0_1` is
    `rotor_0_1`, on the link above it.
    """
    return _built("link and rotor chain", _link_rotor, n, branches)


def belt_chain(n: int, branches: int = 1) -> Model:
    """Return `n` parallel belt transmissions in series, in each branch on the world.

    A transmission has two links and both their rotors on the link below; the second rotor turns with both
    links. It is a cluster of four bodies with two velocities: `first_0_0`, `second_0_0`, `first_rotor_0_0`
    and `second_rotor_0_0`.
    """
    return _built("belt chain", _belt, n, branches)


def four_bar_chain(n: int, branches: int = 1) -> Model:
    """Return `n` four-bar linkages in series, in each branch on the world.

    `input_0_0` moves `output_0_0` through the rod `rod_0_0`. Every linkage is a cluster of three bodies with
    one velocity, that of the input, which can rotate fully. The next linkage is on the output.
    """
    return _built("four-bar chain", _four_bar, n, branches)


def transmission_loop(depth: int, at: int | None = None, *, ratio: float = 1.0) -> Model:
    """Return two chains of `depth` rods on the world, with a transmission between the links at depth `at`.

    The sum of the first `at` joints of one chain is `ratio` times that of the other. By default `at` is
    `depth`. The rods are those of `chain`, with all hinges about y: `rod_0_k` and `rod_1_k`, 2 `depth`
    bodies.
    """
    depth, at = _depths(depth, at)
    if not isinstance(ratio, (int, float)) or not 0.0 < abs(ratio) < float("inf"):
        raise ModelError(f"ratio: expected a finite nonzero number, got {ratio!r}")
    return _transmission(depth, at, float(ratio))


def connecting_rod_loop(depth: int, at: int | None = None) -> Model:
    """Return two chains of `depth` rods on the world, with a connecting rod between the links at depth `at`.

    By default `at` is `depth`. The rods are those of `chain`, with all hinges about y: `rod_0_k` and
    `rod_1_k`, and `connecting_rod`, which is on the middle of one link and holds the tip of the other; 2
    `depth` + 1 bodies.
    """
    return _connecting(*_depths(depth, at))


def _built(
    name: str, add: Callable[[ModelBuilder, str, Point, str, int], tuple[str, Point]], n: int, branches: int
) -> Model:
    return _branches(name, add, _positive_integer("n", n), _positive_integer("branches", branches))


@lru_cache(maxsize=64)
def _branches(name: str, add: Callable[..., tuple[str, Point]], n: int, branches: int) -> Model:
    builder = ModelBuilder(f"{name} of {n}" if branches == 1 else f"{name} of {n} in {branches} branches")
    for branch in range(branches):
        on = WORLD
        at = ORIGIN
        for k in range(n):
            on, at = add(builder, on, at, f"{branch}_{k}", k)
    return builder.build()


def _hinge(
    builder: ModelBuilder, name: str, solid: Solid, on: str, at: Point, k: int, independent: bool
) -> None:
    builder.add_body(name, **solid.body_args())
    builder.add_joint(
        f"{name}_joint", CROSSWISE[k % 2], parent=on, child=name, xyz=at, independent=independent
    )


def _link_rotor(builder: ModelBuilder, on: str, at: Point, name: str, k: int) -> tuple[str, Point]:
    link = f"link_{name}"
    rotor = f"rotor_{name}"
    _hinge(builder, link, ROD, on, at, k, True)
    _hinge(builder, rotor, ROTORS[ALONG[k % 2]], on, at, k, False)
    builder.add_coupling(f"gear_{name}", predecessor=link, successor=rotor, ratio=GEAR)
    return link, TIP


def _belt(builder: ModelBuilder, on: str, at: Point, name: str, k: int) -> tuple[str, Point]:
    first = f"first_{name}"
    second = f"second_{name}"
    _hinge(builder, first, ROD, on, at, k, True)
    _hinge(builder, second, ROD, first, TIP, k, True)
    for link, rotor in ((first, f"first_rotor_{name}"), (second, f"second_rotor_{name}")):
        _hinge(builder, rotor, ROTORS[ALONG[k % 2]], on, at, k, False)
        builder.add_coupling(f"belt_{rotor}", predecessor=link, successor=rotor, ratio=GEAR)
    return second, TIP


def _four_bar(builder: ModelBuilder, on: str, at: Point, name: str, k: int) -> tuple[str, Point]:
    # The frame is along the other one of x and y; all other bars point down.
    frame = 0.2
    crank = 0.06
    rocker = 0.12
    rod = float(sqrt(frame * frame + (rocker - crank) * (rocker - crank)))
    drop = rocker - crank
    sideways = (lambda u, w: (0.0, u, w)) if k % 2 == 0 else (lambda u, w: (u, 0.0, w))
    rocker_at: Point = tuple(a + b for a, b in zip(at, sideways(frame, 0.0)))
    size = (0.02, rod, 0.02) if k % 2 == 0 else (rod, 0.02, 0.02)
    names = [f"{part}_{name}" for part in ("input", "rod", "output")]
    _hinge(builder, names[0], cylinder(0.2, 0.015, crank, at=(0.0, 0.0, -crank / 2)), on, at, k, True)
    _hinge(
        builder,
        names[1],
        box(0.2, size, at=sideways(frame / 2, -drop / 2)),
        names[0],
        (0.0, 0.0, -crank),
        k,
        False,
    )
    _hinge(
        builder, names[2], cylinder(0.4, 0.02, rocker, at=(0.0, 0.0, -rocker / 2)), on, rocker_at, k, False
    )
    ends: dict[str, Any] = {"xyz": sideways(frame, -drop), "successor_xyz": (0.0, 0.0, -rocker)}
    builder.add_loop(f"loop_{name}", CROSSWISE[k % 2], predecessor=names[1], successor=names[2], **ends)
    return names[2], (0.0, 0.0, -rocker)


PITCH = Revolute((0.0, 1.0, 0.0))
CHAIN_DISTANCE = 0.3  # between the two chains [m]


def _depths(depth: int, at: int | None) -> tuple[int, int]:
    depth = _positive_integer("depth", depth)
    at = depth if at is None else _positive_integer("at", at)
    if at > depth:
        raise ModelError(f"at: expected at most the depth {depth}, got {at}")
    return depth, at


def _pair(name: str, depth: int, dependent: str) -> ModelBuilder:
    """Return two chains of rods, whose joints are all independent except one."""
    builder = ModelBuilder(name)
    for branch in range(2):
        on = WORLD
        xyz = (CHAIN_DISTANCE * branch, 0.0, 0.0)
        for k in range(depth):
            rod = f"rod_{branch}_{k}"
            builder.add_body(rod, **ROD.body_args())
            builder.add_joint(
                f"{rod}_joint", PITCH, parent=on, child=rod, xyz=xyz, independent=rod != dependent
            )
            on = rod
            xyz = TIP
    return builder


@lru_cache(maxsize=64)
def _transmission(depth: int, at: int, ratio: float) -> Model:
    builder = _pair(f"transmission at {at} of {depth}", depth, f"rod_1_{at - 1}")
    terms = {f"rod_{branch}_{k}_joint": (1.0, -ratio)[branch] for branch in range(2) for k in range(at)}
    return builder.add_coupling("transmission", terms).build()


@lru_cache(maxsize=64)
def _connecting(depth: int, at: int) -> Model:
    first = f"rod_0_{at - 1}"
    last = f"rod_1_{at - 1}"
    builder = _pair(f"connecting rod at {at} of {depth}", depth, last)
    drop = 0.5 * LENGTH
    length = float(sqrt(CHAIN_DISTANCE * CHAIN_DISTANCE + drop * drop))
    solid = box(0.3, (length, 0.02, 0.02), at=(0.5 * CHAIN_DISTANCE, 0.0, -0.5 * drop))
    builder.add_body("connecting_rod", **solid.body_args())
    builder.add_joint(
        "connecting_rod_joint",
        PITCH,
        parent=first,
        child="connecting_rod",
        xyz=(0.0, 0.0, -drop),
        independent=False,
    )
    ends: dict[str, Any] = {"xyz": (CHAIN_DISTANCE, 0.0, -drop), "successor_xyz": TIP}
    return builder.add_loop(
        "connecting_rod_loop", PITCH, predecessor="connecting_rod", successor=last, **ends
    ).build()
