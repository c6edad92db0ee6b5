"""Constraints on joint coordinates: locked joints, and couplings with constant ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains
from linkwork.constraints.relative_motion import BodyKinematics
from linkwork.constraints.rows import Rows
from linkwork.errors import ModelError
from linkwork.model import Model
from linkwork.spatial.constants import real


def _numbers(label: str, values: Any) -> tuple[float, ...]:
    try:
        result = tuple(real(x) for x in values)
    except (TypeError, ValueError):
        raise ModelError(f"{label}: expected numbers, got {values!r}") from None
    if not all(map(math.isfinite, result)):
        raise ModelError(f"{label}: expected finite numbers, got {values!r}")
    return result


@final
@dataclass(frozen=True)
class Locked(Constraint):
    """A joint that does not accelerate: one row per velocity.

    `at` are coordinates of the joint, (joint.nq,): by default its neutral ones. The error is the motion that
    leads from there to its coordinates, as in `lw.difference`.
    """

    joint: str
    at: tuple[float, ...] | None = None
    gains: Gains = NO_GAINS

    def __post_init__(self) -> None:
        Gains.check(self.gains)
        if self.at is not None:
            object.__setattr__(self, "at", _numbers(f"Locked({self.joint!r}): `at`", self.at))

    def labels(self, model: Model) -> tuple[str, ...]:
        joint = model.joint(self.joint)
        if self.at is not None:
            if len(self.at) != joint.nq:
                raise ModelError(
                    f"Locked({self.joint!r}): `at`: expected {joint.nq} coordinates of the joint, got "
                    f"{len(self.at)}"
                )
            with np.errstate(invalid="ignore", divide="ignore"):  # a quaternion of zeros
                away = joint.kind.difference(joint.kind.neutral(), np.array(self.at))
            if not np.isfinite(np.asarray(away, dtype=float)).all():
                raise ModelError(
                    f"Locked({self.joint!r}): `at`: expected coordinates of the joint, got {self.at}"
                )
        return joint.v_names

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        joint = model.joint(self.joint)
        start = joint.kind.neutral() if self.at is None else np.array(self.at)
        return joint.kind.difference(start, kinematics.nodes.bodies[joint.child].q)

    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        joint = model.joint(self.joint)
        body = kinematics.nodes.bodies[joint.child]
        k: Any = np.zeros(joint.nv, dtype=object)
        if self.gains.stiffness:
            k = k - self.gains.stiffness * self.violation(model, kinematics)
        if self.gains.damping:
            k = k - self.gains.damping * body.v
        return kinematics.on_joints([(joint.child, np.eye(joint.nv))], k)


@final
@dataclass(frozen=True)
class Coupled(Constraint):
    """A linear coupling of single-DoF joints: Σ coefficient · coordinate = offset, one row.

    `terms` are {joint: coefficient}.
    """

    terms: Any
    offset: float = 0.0
    gains: Gains = NO_GAINS

    def __post_init__(self) -> None:
        Gains.check(self.gains)
        _numbers("Coupled's offset", [self.offset])
        if not isinstance(self.terms, (Mapping, tuple)):
            raise ModelError(
                f"Coupled: terms: expected coefficients by joint: {{'a': 1.0, 'b': -6.0}}, got {self.terms!r}"
            )
        coefficients = dict(self.terms)
        terms = tuple(zip(coefficients, _numbers("Coupled's coefficients", coefficients.values())))
        if not terms or len(coefficients) < len(self.terms):
            raise ModelError("Coupled needs joints, each once, and a coefficient for each")
        if not any(c for _, c in terms):
            raise ModelError("Coupled: expected coefficients that are not all zero")
        object.__setattr__(self, "terms", terms)

    def labels(self, model: Model) -> tuple[str, ...]:
        for name, _ in self.terms:
            joint = model.joint(name)
            if joint.nv != 1 or joint.nq != 1:
                raise ModelError(
                    f"Coupled: joint {name!r} has {joint.nv} velocities; only joints of one can be coupled"
                )
        return (" + ".join(name for name, _ in self.terms),)

    def violation(self, model: Model, kinematics: BodyKinematics) -> Any:
        return np.array(
            [
                sum(c * kinematics.nodes.bodies[model.joint(name).child].q[0] for name, c in self.terms)
                - self.offset
            ]
        )

    def equations(self, model: Model, kinematics: BodyKinematics) -> Rows:
        bodies = [kinematics.nodes.bodies[model.joint(name).child] for name, _ in self.terms]
        k: Any = np.zeros(1, dtype=object)
        if self.gains.stiffness:
            k = k - self.gains.stiffness * self.violation(model, kinematics)
        if self.gains.damping:
            k = k - self.gains.damping * sum(c * body.v[0] for (_, c), body in zip(self.terms, bodies))
        return kinematics.on_joints(
            [(body.joint.child, np.array([[c]])) for (_, c), body in zip(self.terms, bodies)], k
        )
