"""Force-held loops and couplings of a model: not embedded, but enforced by forces as other constraints are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.constraints.anchors import Displaced
from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains
from linkwork.constraints.frames import BetweenFrames
from linkwork.constraints.relative_motion import BodyKinematics, RelativeMotion
from linkwork.constraints.rows import Rows
from linkwork.joints.closure import Row
from linkwork.model import Model
from linkwork.parts import Loop, LoopConstraint
from linkwork.parts.loops import Drift, End, rows_of
from linkwork.spatial import Pose
from linkwork.topology.motion import Joints


def _in_model(part: Any, model: Model) -> Any:
    """A loop or coupling as it is in a model: its placements and ratios may be inputs there, whatever they were when chosen."""
    return next((own for own in model.force_held if own.name == part.name), part)


@final
@dataclass(frozen=True)
class ForceHeldLoop(BetweenFrames):
    """A loop joint of the model: the equations of its kind, in the axes of its predecessor."""

    loop: Loop
    gains: Gains = NO_GAINS
    in_frame = False
    at = None

    def __post_init__(self) -> None:
        Gains.check(self.gains)

    def ends(self, model: Model) -> Any:
        loop = _in_model(self.loop, model)
        return loop.successor, loop.predecessor

    def labels(self, model: Model) -> tuple[str, ...]:
        return tuple(f"{self.loop.name}.{i}" for i in range(len(rows_of(self.loop))))

    @property
    def origin_fixed(self) -> bool:  # type: ignore[override]
        along = [row.along for row in self.loop.kind.closure() if row.across is None and row.length is None]
        return len(along) > 2 and np.linalg.matrix_rank(along) == 3

    def _fixed(self, row: Row) -> bool:
        """Whether a direction of the successor is fixed in the predecessor, since two rows constrain it."""
        across = [other.across for other in self.loop.kind.closure() if other.across is not None and other.along == row.along]
        return len(across) > 1 and np.linalg.matrix_rank(across) == 2

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        found = [row.coefficients(Pose.identity(), Pose(seen.R, seen.p)) for row in rows_of(self.loop)]
        return np.array([c for c, _ in found]).reshape(-1, 3), np.array([c for _, c in found]).reshape(-1, 3)

    def coefficient_bias(self, seen: RelativeMotion) -> Any:
        out: list[Any] = []
        for row in rows_of(self.loop):
            if row.length is None and (row.across is None or self._fixed(row)):
                out.append(0.0)
            else:
                out.append(row.bias(Pose.identity(), Pose(seen.R, seen.p), seen.W, seen.U))
        return np.array(out)

    def error(self, seen: RelativeMotion | Displaced) -> Any:
        return np.array([row.residual(seen.R, seen.p) for row in rows_of(self.loop)])


class _Speeds:
    """The velocities of joints alone."""

    def __init__(self, v: np.ndarray) -> None:
        self.v = v

    def drift(self, end: End, at: np.ndarray) -> Drift:
        raise NotImplementedError("joints alone have no frames")


@final
@dataclass(frozen=True)
class ForceHeldCoupling(Constraint):
    """A coupling or an implicit constraint of the model's joints: as many rows as it has equations."""

    coupling: LoopConstraint

    def labels(self, model: Model) -> tuple[str, ...]:
        n, name = self.coupling.count(model.joints), self.coupling.name
        return (name,) if self.coupling.linear else tuple(f"{name}.{i}" for i in range(n))

    def _joints(self, kinematics: BodyKinematics) -> Joints:
        return Joints({j: kinematics.nodes.bodies[j].state for j in self.coupling.bodies})

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        return _in_model(self.coupling, model).residual(self._joints(kinematics))

    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        joints = self._joints(kinematics)
        v = np.concatenate([kinematics.nodes.bodies[j].v for j in joints.states])
        K, k = _in_model(self.coupling, model).equations(joints, _Speeds(v))
        return kinematics.on_joints([(j, K[:, joints.columns[j]]) for j in joints.states], k)


def force_held_loops(model: Model) -> tuple[Constraint, ...]:
    """The model's own loops and couplings that are force-held."""
    return tuple(ForceHeldLoop(part) if isinstance(part, Loop) else ForceHeldCoupling(part) for part in model.force_held)


def given_constraints(model: Model, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Those of all constraints on a model that its user gave: not its own force-held loops, which always act."""
    own = force_held_loops(model) if isinstance(model, Model) else ()
    return tuple(constraint for constraint in constraints if constraint not in own)
