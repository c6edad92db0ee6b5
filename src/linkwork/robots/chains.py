"""Chains and trees of any size: nothing that anybody would build, but all that a program can be measured on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from linkwork.errors import ModelError
from linkwork.joints import Joint, Revolute
from linkwork.model import WORLD, Model, ModelBuilder
from linkwork.robots.solids import ORIGIN, Point, cylinder

LENGTH = 0.2  # of each body [m]
ROD = cylinder(0.5, 0.02, LENGTH, at=(0.0, 0.0, -LENGTH / 2))
TIP: Point = (0.0, 0.0, -LENGTH)
CROSSWISE = (Revolute((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0)))


def chain(n: int, *, joint: Joint | Sequence[Joint] = CROSSWISE, branches: int = 1, base: Joint | None = None) -> Model:
    """`n` equal bodies, each hanging on the tip of another, the first on the world.

    A body is a uniform rod of 0.5 kg, 0.2 m long and 0.04 m thick, that hangs down from its joint. `joint` is the kind of
    all joints, or several that take turns: hinges about x and y; `base` that of the first, where it is another, such as
    `Free()`. With `branches`, the bodies after the first are shared among as many chains, all of which hang on its tip.
    Body `k` is named `body_k` and its joint `joint_k`.
    """
    n, branches = _whole("n", n), _whole("branches", branches)
    return _chain(n, _joints(joint), branches, _base(base))


def binary_tree(n: int, *, joint: Joint | Sequence[Joint] = CROSSWISE, base: Joint | None = None) -> Model:
    """`n` equal bodies in a binary tree, filled level by level: body k hangs on body (k - 1) // 2, the first on the world.

    Bodies, names, `joint` and `base` are as in `chain`, where joints take turns with the levels; a body's two children hang
    0.06 m apart along x. A tree of so many levels has n = 2**levels - 1.
    """
    return _binary_tree(_whole("n", n), _joints(joint), _base(base))


@lru_cache(maxsize=64)
def _chain(n: int, joints: tuple[Joint, ...], branches: int, base: Joint | None) -> Model:
    def parent(k: int) -> int:
        return max(0, k - branches)

    name = f"chain of {n}" if branches == 1 else f"chain of {n} in {branches} branches"
    return _rods(name, n, joints, base, parent, lambda k: TIP)


@lru_cache(maxsize=64)
def _binary_tree(n: int, joints: tuple[Joint, ...], base: Joint | None) -> Model:
    name = f"binary tree of {n}"
    return _rods(name, n, joints, base, lambda k: (k - 1) // 2, lambda k: (0.03 if k % 2 else -0.03, 0.0, -LENGTH))


def _rods(
    name: str,
    n: int,
    joints: tuple[Joint, ...],
    base: Joint | None,
    parent: Callable[[int], int],
    where: Callable[[int], Point],
) -> Model:
    """Rods that hang on one another: on which `parent`, and `where` on it [m]. Joints take turns along each branch."""
    builder = ModelBuilder(name)
    depth: list[int] = []
    for k in range(n):
        depth.append(0 if k == 0 else depth[parent(k)] + 1)
        on, at = (WORLD, ORIGIN) if k == 0 else (f"body_{parent(k)}", where(k))
        builder.add_body(f"body_{k}", **ROD.figures())
        kind = joints[depth[k] % len(joints)] if k or base is None else base
        builder.add_joint(f"joint_{k}", kind, parent=on, child=f"body_{k}", xyz=at)
    return builder.build()


def _whole(what: str, value: Any) -> int:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ModelError(f"{what} must be a whole number of at least 1, not {value!r}")
    return number


def _base(base: Any) -> Joint | None:
    return None if base is None else _joints(base)[0]


def _joints(joint: Any) -> tuple[Joint, ...]:
    joints = tuple(joint) if isinstance(joint, Sequence) else (joint,)
    if not joints or not all(isinstance(one, Joint) and one.nv for one in joints):
        raise ModelError(f"joint must be one of linkwork.joints that can move, or several, not {joint!r}")
    return joints
