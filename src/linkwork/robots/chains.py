"""Chains and trees of any size, for benchmarks and tests."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from linkwork.errors import ModelError
from linkwork.joints import Joint, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import ORIGIN, Point, cylinder

LENGTH = 0.2  # length of each body [m]
ROD = cylinder(0.5, 0.02, LENGTH, at=(0.0, 0.0, -LENGTH / 2))
TIP: Point = (0.0, 0.0, -LENGTH)
CROSSWISE = (Revolute((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0)))


def chain(
    n: int, *, joint: Joint | Sequence[Joint] = CROSSWISE, branches: int = 1, base: Joint | None = None
) -> Model:
    """Return a chain of `n` equal bodies, each on the tip of another, the first on the world.

    A body is a uniform rod of 0.5 kg, 0.2 m long and 0.04 m thick, pointing down from its joint. Body `k` is
    named `body_k` and its joint `joint_k`.

    Parameters
    ----------
    n : int
        Number of bodies.
    joint : Joint or sequence of Joint, optional
        Kind of all joints, or several that alternate. Default: hinges about x and y.
    branches : int, optional
        Number of chains that the bodies after the first form on its tip.
    base : Joint, optional
        Kind of the first joint if it differs, such as `Free()`.
    """
    n = _positive_integer("n", n)
    branches = _positive_integer("branches", branches)
    return _chain(n, _joints(joint), branches, _base(base))


def binary_tree(n: int, *, joint: Joint | Sequence[Joint] = CROSSWISE, base: Joint | None = None) -> Model:
    """Return `n` equal bodies in a binary tree, filled level by level.

    Body k is on body (k - 1) // 2, the first on the world. Bodies, names, `joint` and `base` are as in
    `chain`, where joints alternate with the levels; the two children of a body are 0.06 m apart along x. A
    full tree has n = 2**levels - 1 bodies.
    """
    return _binary_tree(_positive_integer("n", n), _joints(joint), _base(base))


@lru_cache(maxsize=64)
def _chain(n: int, joints: tuple[Joint, ...], branches: int, base: Joint | None) -> Model:
    def parent(k: int) -> int:
        return max(0, k - branches)

    name = f"chain of {n}" if branches == 1 else f"chain of {n} in {branches} branches"
    return _rods(name, n, joints, base, parent, lambda k: TIP)


@lru_cache(maxsize=64)
def _binary_tree(n: int, joints: tuple[Joint, ...], base: Joint | None) -> Model:
    name = f"binary tree of {n}"
    return _rods(
        name, n, joints, base, lambda k: (k - 1) // 2, lambda k: (0.03 if k % 2 else -0.03, 0.0, -LENGTH)
    )


def _rods(
    name: str,
    n: int,
    joints: tuple[Joint, ...],
    base: Joint | None,
    parent: Callable[[int], int],
    position: Callable[[int], Point],
) -> Model:
    """Return connected rods: `parent` gives the parent, `position` the position on it [m].

    Joints alternate along each branch.
    """
    builder = ModelBuilder(name)
    depth: list[int] = []
    for k in range(n):
        depth.append(0 if k == 0 else depth[parent(k)] + 1)
        on, at = (WORLD, ORIGIN) if k == 0 else (f"body_{parent(k)}", position(k))
        builder.add_body(f"body_{k}", **ROD.body_args())
        kind = joints[depth[k] % len(joints)] if k or base is None else base
        builder.add_joint(f"joint_{k}", kind, parent=on, child=f"body_{k}", xyz=at)
    return builder.build()


def _positive_integer(name: str, value: Any) -> int:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ModelError(f"{name}: expected a positive integer, got {value!r}")
    return number


def _base(base: Any) -> Joint | None:
    return None if base is None else _joints(base)[0]


def _joints(joint: Any) -> tuple[Joint, ...]:
    joints = tuple(joint) if isinstance(joint, Sequence) else (joint,)
    if not joints or not all(isinstance(kind, Joint) and kind.nv for kind in joints):
        raise ModelError(f"joint: expected one or several movable joints of linkwork.joints, got {joint!r}")
    return joints
