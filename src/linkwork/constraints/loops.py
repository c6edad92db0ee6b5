"""Loops and couplings of a model that are not embedded: held by forces, as other constraints are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from linkwork.constraints.constraint import NO_GAINS, Constraint, Gains, Rows
from linkwork.constraints.frames import BetweenFrames
from linkwork.constraints.relative import Relative, Scene
from linkwork.joints.closure import Row
from linkwork.model.embedding import Motion, closure_rows
from linkwork.model.loops import Closure, Coupling, Loop, count_rows
from linkwork.model.model import Model
from linkwork.spatial import cross
from linkwork.spatial.constants import product


@final
@dataclass(frozen=True)
class HeldLoop(BetweenFrames):
    """A loop joint of the model: the equations of its kind, in the axes of its predecessor."""

    loop: Loop
    gains: Gains = NO_GAINS
    in_frame = False

    def ends(self, model: Model) -> Any:
        return self.loop.successor, self.loop.predecessor

    def labels(self, model: Model) -> tuple[str, ...]:
        return tuple(f"{self.loop.name}.{i}" for i in range(len(self._rows())))

    def _rows(self) -> list[Row]:
        rows = self.loop.kind.closure()
        return rows if self.loop.kept is None else [rows[i] for i in self.loop.kept]

    @property
    def stays(self) -> bool:  # type: ignore[override]
        along = [row.along for row in self.loop.kind.closure() if row.across is None and row.length is None]
        return len(along) > 2 and np.linalg.matrix_rank(along) == 3

    def _fixed(self, row: Row) -> bool:
        """Whether a direction of the successor stays where it is in the predecessor, since two rows hold it."""
        across = [other.across for other in self.loop.kind.closure() if other.across is not None and other.along == row.along]
        return len(across) > 1 and np.linalg.matrix_rank(across) == 2

    def coefficients(self, seen: Relative) -> tuple[np.ndarray, np.ndarray]:
        c_w, c_v = [], []
        for row in self._rows():
            if row.length is not None:
                c_w.append(np.zeros(3))
                c_v.append(seen.p)
            elif row.across is None:
                c_w.append(np.zeros(3))
                c_v.append(np.array(row.along))
            else:
                c_w.append(cross(product(seen.R, np.array(row.along)), np.array(row.across)))
                c_v.append(np.zeros(3))
        return np.array(c_w).reshape(-1, 3), np.array(c_v).reshape(-1, 3)

    def extra(self, seen: Relative) -> Any:
        out: list[Any] = []
        for row in self._rows():
            if row.length is not None:
                out.append(product(seen.U, seen.U))
            elif row.across is None or self._fixed(row):
                out.append(0.0)
            else:
                out.append(product(np.array(row.across), cross(seen.W, cross(seen.W, product(seen.R, np.array(row.along))))))
        return np.array(out)

    def error(self, seen: Relative) -> Any:
        out = []
        for row in self._rows():
            if row.length is not None:
                out.append(0.5 * (product(seen.p, seen.p) - row.length * row.length))
            else:
                along = np.array(row.along)
                out.append(
                    product(along, seen.p) if row.across is None else product(np.array(row.across), product(seen.R, along))
                )
        return np.array(out)


@final
@dataclass(frozen=True)
class HeldCoupling(Constraint):
    """A linear coupling of the model's joints: one row."""

    coupling: Coupling

    def labels(self, model: Model) -> tuple[str, ...]:
        return (self.coupling.name,)

    def violation(self, model: Model, scene: Scene) -> Any:
        terms = self.coupling.terms
        return np.array([sum(c * scene.nodes.bodies[j].q[i] for j, i, c in terms) - self.coupling.offset])

    def equations(self, model: Model, scene: Scene) -> Rows:
        joints = []
        for joint, component, coefficient in self.coupling.terms:
            c = np.zeros((1, model.joints[joint].nv))
            c[0, component] = coefficient
            joints.append((joint, c))
        return Rows((), joints, np.zeros(1, dtype=object))


@final
@dataclass(frozen=True)
class HeldClosure(Constraint):
    """A function of the model's coordinates that is held at zero: as many rows as it has values."""

    closure: Closure

    def labels(self, model: Model) -> tuple[str, ...]:
        return tuple(f"{self.closure.name}.{i}" for i in range(count_rows(self.closure, model.joints)))

    def violation(self, model: Model, scene: Scene) -> Any:
        return self.closure.phi(np.concatenate([scene.nodes.bodies[j].q for j in self.closure.joints]))

    def equations(self, model: Model, scene: Scene) -> Rows:
        motion = Motion({j: scene.nodes.bodies[j] for j in self.closure.joints})
        v = np.concatenate([body.v for body in motion.bodies.values()])
        K, k = closure_rows(motion, self.closure, v)
        return Rows((), [(j, K[:, motion.columns[j]]) for j in self.closure.joints], k)


def held_loops(model: Model) -> tuple[Constraint, ...]:
    """The model's own loops that are not embedded."""
    found: list[Constraint] = []
    for part in model.held:
        if isinstance(part, Loop):
            found.append(HeldLoop(part))
        else:
            found.append(HeldCoupling(part) if isinstance(part, Coupling) else HeldClosure(part))
    return tuple(found)
