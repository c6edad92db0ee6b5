"""Constrained loops and couplings of a model: enforced by constraint forces instead of embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from linkwork.constraints.anchors import Displaced
from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains
from linkwork.constraints.frames import BetweenFrames
from linkwork.constraints.relative_motion import BodyKinematics, RelativeMotion
from linkwork.constraints.rows import Rows
from linkwork.joints.closure import Row
from linkwork.loops.motion import Joints
from linkwork.mechanism import Loop, LoopConstraint
from linkwork.mechanism.loops import Drift, End, rows_of
from linkwork.model import Model
from linkwork.spatial import Pose


def _in_model(part: Any, model: Model) -> Any:
    """Return the loop of this name in a model, where its placements and ratios may be inputs."""
    return next((loop for loop in model.constrained_loops if loop.name == part.name), part)


@final
@dataclass(frozen=True)
class ConstrainedLoop(BetweenFrames):
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
        """Return whether two rows keep a direction of the successor fixed in the predecessor."""
        across = [
            other.across
            for other in self.loop.kind.closure()
            if other.across is not None and other.along == row.along
        ]
        return len(across) > 1 and np.linalg.matrix_rank(across) == 2

    def coefficients(self, seen: RelativeMotion) -> tuple[np.ndarray, np.ndarray]:
        pairs = [row.coefficients(Pose.identity(), Pose(seen.R, seen.p)) for row in rows_of(self.loop)]
        return np.array([c for c, _ in pairs]).reshape(-1, 3), np.array([c for _, c in pairs]).reshape(-1, 3)

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
class ConstrainedCoupling(Constraint):
    """A coupling or an implicit constraint of the model's joints: as many rows as it has equations."""

    coupling: LoopConstraint

    def labels(self, model: Model) -> tuple[str, ...]:
        n = self.coupling.count(model.joints)
        name = self.coupling.name
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


def loop_constraints(model: Model) -> tuple[Constraint, ...]:
    """Return the constraints of the constrained loops of a model that have equations."""
    acting = [part for part in model.constrained_loops if not isinstance(part, Loop) or rows_of(part)]
    return tuple(
        ConstrainedLoop(part) if isinstance(part, Loop) else ConstrainedCoupling(part) for part in acting
    )


def loop_name(constraint: Constraint) -> str | None:
    """Return the name of the constrained loop behind a constraint, or None."""
    if isinstance(constraint, ConstrainedLoop):
        return constraint.loop.name
    return constraint.coupling.name if isinstance(constraint, ConstrainedCoupling) else None


def user_constraints(model: Model, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return the constraints other than those of the model's constrained loops."""
    loop_names = {part.name for part in model.constrained_loops} if isinstance(model, Model) else set()
    return tuple(constraint for constraint in constraints if loop_name(constraint) not in loop_names)


def all_constraints(model: Model, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return the constraints followed by the model's constrained loops that are not among them.

    Loops are compared by name, since their numbers may be inputs.
    """
    named = {loop_name(constraint) for constraint in constraints}
    return (*constraints, *(loop for loop in loop_constraints(model) if loop_name(loop) not in named))


def with_nominal_numbers(model: Any, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return the constraints with nominal placements and ratios of the model's loops instead of inputs."""
    nominal_loops = (
        {part.name: part for part in model.nominal.constrained_loops} if isinstance(model, Model) else {}
    )
    nominal_constraints = []
    for constraint in constraints:
        part = nominal_loops.get(loop_name(constraint) or "")
        if part is None:
            nominal_constraints.append(constraint)
        else:
            field = "loop" if isinstance(part, Loop) else "coupling"
            nominal_constraints.append(replace(constraint, **{field: part}))  # type: ignore[type-var]
    return tuple(nominal_constraints)
