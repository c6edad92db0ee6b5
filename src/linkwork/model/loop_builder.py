"""Loop constraints for a builder: loop joints, couplings and implicit constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from linkwork.errors import ModelError
from linkwork.joints import Joint
from linkwork.model.loop_joints import Given, GivenCoupling, GivenImplicit, LoopJoint, LoopOptions, Place, moving_joint
from linkwork.parts import ImplicitConstraint, LoopConstraint, PlacedJoint
from linkwork.parts.limits import Limits
from linkwork.parts.names import did_you_mean
from linkwork.spatial import Inertia, Pose
from linkwork.topology.clusters import Ancestors


class LoopBuilder:
    """The part of `ModelBuilder` that collects loops, couplings and implicit constraints."""

    def __init__(self) -> None:
        self._links: dict[str, Inertia] = {}
        self._joints: dict[str, tuple[PlacedJoint, str, str]] = {}  # with parent and child; its indices come with `build`
        self._constraints: dict[str, Given] = {}
        self._force_held: set[str] = set()  # names of force-held constraints

    def add_loop(
        self,
        name: str,
        kind: Joint,
        *,
        predecessor: str,
        successor: str,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        place: Pose | None = None,
        successor_xyz: Sequence[float] = (0.0, 0.0, 0.0),
        successor_rpy: Sequence[float] = (0.0, 0.0, 0.0),
        successor_place: Pose | None = None,
        embed: bool = True,
    ) -> Self:
        """A loop joint between `predecessor` and `successor`, which are links of the spanning tree, frames, or "world".

        Its frame is at `xyz` [m] turned by `rpy` [rad], or at the pose `place`, in the predecessor, and likewise in the
        successor: without, it joins the two that are named. With neutral coordinates both frames coincide. Unless `embed`,
        it is force-held: all velocities stay independent, and constraint forces close it.
        """
        more: dict[str, Any] = {"xyz": xyz, "rpy": rpy, "place": place, "embed": embed}
        more |= {"successor_xyz": successor_xyz, "successor_rpy": successor_rpy, "successor_place": successor_place}
        return self._add(LoopJoint(name, kind, predecessor=predecessor, successor=successor, **more))

    def add_coupling(
        self,
        name: str,
        terms: Mapping[str, float] | None = None,
        *,
        offset: float = 0.0,
        predecessor: str | None = None,
        successor: str | None = None,
        ratio: float | None = None,
        embed: bool = True,
    ) -> Self:
        """Σ coefficient * coordinate = offset over joints of one coordinate each: gears, belts, mimics, differentials.

        `terms` gives the coefficients by joint. Or, between two links: `ratio` times the sum of the joints from their common
        ancestor to `predecessor`, less that to `successor`. `embed` as in `add_loop`.
        """
        return self._add(GivenCoupling.checked(name, terms, offset, predecessor, successor, ratio, embed))

    def add_implicit_constraint(
        self, name: str, function: Callable[[Any], Any], *, joints: Sequence[str], embed: bool = True
    ) -> Self:
        """φ(q) = 0: `function` takes the coordinates of `joints`, one after the other, and gives one or several numbers.

        It must work on symbols, as any function that is traced. `embed` as in `add_loop`.
        """
        return self._add(GivenImplicit.checked(name, function, joints, embed))

    def add(self, loops: LoopOptions) -> dict[str, Any]:
        """Further loops of a caller's; what is said about all loops goes to `build`."""
        for loop in loops.added:
            self._add(loop)
        return {"start": loops.start, "tolerance": loops.tolerance, "embed": loops.embed}

    def _add(self, given: Given) -> Self:
        if given.name in self._constraints:
            raise ModelError(f"there is already a loop, coupling or implicit constraint named {given.name!r}")
        self._constraints[given.name] = given
        if not given.embed:
            self._force_held.add(given.name)
        return self

    def _constraint(
        self,
        given: Given,
        found: Mapping[str, Place],
        joints: list[PlacedJoint],
        places: dict[str, int],
        tree: Ancestors,
        limits: Limits | None,
    ) -> LoopConstraint:
        """A constraint of what was given, on the bodies and joints of the model; `places` are those of the joints."""
        name = given.name

        def joint_of(joint: str) -> int:
            return moving_joint(name, joint, places, joint in self._joints)

        def place_of(end: str) -> Place:
            if end not in found:
                told = f"there is no link or frame of that name{did_you_mean(end, found)}"
                raise ModelError(f"{name!r} names link {end!r}, and {told}")
            return found[end]

        if isinstance(given, GivenImplicit):
            of = tuple(joint_of(j) for j in given.joints)
            _check_function(name, given.function, np.concatenate([joints[k].kind.neutral() for k in of]))
            return ImplicitConstraint(name, of, given.function)
        if isinstance(given, LoopJoint):
            return given.on(place_of)
        return given.on(joint_of, place_of, joints, tree, limits)

    def _no_link(self, name: str) -> str:
        return f", and there is no link of that name{did_you_mean(name, self._links)}"


def _check_function(name: str, function: Callable[[Any], Any], q: np.ndarray) -> None:
    """That an implicit constraint's function takes coordinates, and gives one number or several."""
    try:
        value = np.asarray(function(q), dtype=float)
    except Exception as error:
        raise ModelError(
            f"implicit constraint {name!r}: its function fails at {q.tolist()}: {type(error).__name__}: {error}"
        ) from error
    if value.ndim > 1 or value.size == 0:
        raise ModelError(
            f"implicit constraint {name!r}: its function must give one number, or several in a row, not shape {value.shape}"
        )
