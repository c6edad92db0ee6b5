"""Constraints on joints themselves: held still, or moving in a fixed proportion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains, Rows
from linkwork.constraints.relative import Scene
from linkwork.errors import ModelError
from linkwork.model.model import Model


@final
@dataclass(frozen=True)
class Locked(Constraint):
    """A joint does not accelerate: one row for each of its velocities. Its error is how far it is from neutral plus `at`."""

    joint: str
    at: tuple[float, ...] | None = None
    gains: Gains = NO_GAINS

    def labels(self, model: Model) -> tuple[str, ...]:
        joint = model.joint(self.joint)
        if self.at is not None and len(self.at) != joint.nv:
            raise ModelError(f"Locked({self.joint!r}): `at` must have {joint.nv} numbers, not {len(self.at)}")
        return joint.v_names

    def equations(self, model: Model, scene: Scene) -> Rows:
        joint = model.joint(self.joint)
        body = scene.nodes.bodies[joint.child]
        k: Any = np.zeros(joint.nv, dtype=object)
        if self.gains.stiffness:
            away = joint.kind.difference(joint.kind.neutral(), body.q)
            k = k - self.gains.stiffness * (away - np.array(self.at or np.zeros(joint.nv)))
        if self.gains.damping:
            k = k - self.gains.damping * body.v
        return Rows((), ((joint.child, np.eye(joint.nv)),), k)


@final
@dataclass(frozen=True)
class Coupled(Constraint):
    """Σ coefficient * coordinate = offset over joints of one velocity each: one row. `terms` are {joint: coefficient}."""

    terms: Any
    offset: float = 0.0
    gains: Gains = NO_GAINS

    def __post_init__(self) -> None:
        pairs = self.terms.items() if isinstance(self.terms, Mapping) else self.terms
        chosen = tuple((str(name), float(c)) for name, c in pairs)
        if not chosen or len({name for name, _ in chosen}) < len(chosen):
            raise ModelError("Coupled needs joints, each once, and a coefficient for each")
        if not all(np.isfinite(c) for _, c in chosen) or not any(c for _, c in chosen):
            raise ModelError(f"Coupled: coefficients must be finite and not all zero, not {[c for _, c in chosen]}")
        object.__setattr__(self, "terms", chosen)

    def labels(self, model: Model) -> tuple[str, ...]:
        for name, _ in self.terms:
            joint = model.joint(name)
            if joint.nv != 1 or joint.nq != 1:
                raise ModelError(f"Coupled: joint {name!r} has {joint.nv} velocities; only joints of one can be coupled")
        return (" + ".join(name for name, _ in self.terms),)

    def equations(self, model: Model, scene: Scene) -> Rows:
        joints, error, rate = [], -self.offset, 0.0
        for name, c in self.terms:
            child = model.joint(name).child
            body = scene.nodes.bodies[child]
            joints.append((child, np.array([[c]])))
            error, rate = error + c * body.q[0], rate + c * body.v[0]
        k: Any = np.zeros(1, dtype=object)
        if self.gains.stiffness:
            k = k - self.gains.stiffness * error
        if self.gains.damping:
            k = k - self.gains.damping * rate
        return Rows((), joints, k)
