"""Implicit constraints φ(q) = 0 given as functions; the tracer derives their Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, final

import numpy as np

from linkwork.compiler.autodiff.differentiate import jacobian
from linkwork.compiler.autodiff.in_trace import jacobian_of, jvp_of
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.ir.program import Program
from linkwork.compiler.ir.symbol import Symbol
from linkwork.compiler.ir.trace import trace
from linkwork.compiler.passes.expand import expand
from linkwork.mechanism.loops import End, LoopConstraint, Posture, Speeds
from linkwork.mechanism.tree import PlacedJoint
from linkwork.spatial.constants import product, set_frozen


@final
@dataclass(frozen=True)
class ImplicitConstraint(LoopConstraint):
    """φ(q) = 0 for a function of some joints' coordinates, one after the other, over numbers or symbols."""

    name: str
    joints: tuple[int, ...]
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        set_frozen(self, "joints", tuple(self.joints))

    def phi(self, q: np.ndarray) -> np.ndarray:
        """Return φ(q) as a vector."""
        return np.atleast_1d(np.asarray(self.function(q), dtype=object))

    @property
    def bodies(self) -> tuple[int, ...]:
        return self.joints

    def count(self, joints: Sequence[PlacedJoint]) -> int:
        return len(self.phi(np.concatenate([joints[j].kind.neutral() for j in self.joints])))

    def residual(self, posture: Posture) -> np.ndarray:
        return self.phi(np.concatenate([posture.q(j) for j in self.joints]))

    def equations(self, posture: Posture, speeds: Speeds | None = None) -> tuple[np.ndarray, np.ndarray]:
        kinds = [posture.joint(j).kind for j in self.joints]
        q = np.concatenate([posture.q(j) for j in self.joints])
        places = np.cumsum([0, *(kind.nq for kind in kinds)])

        def rate(q: np.ndarray, rates: Sequence[np.ndarray]) -> np.ndarray:
            shares = [q[a:b] for a, b in pairwise(places)]
            return np.concatenate([kind.rate(x, y) for kind, x, y in zip(kinds, shares, rates)])

        if any(isinstance(x, Symbol) for x in q):
            value, J = jacobian_of(self.phi, q)
        else:
            value, J = interpret(_traced(self, len(q)), q.astype(float))
        K = np.zeros((len(value), posture.width), dtype=object)
        for i, (j, kind) in enumerate(zip(self.joints, kinds)):
            for column in range(kind.nv):
                rates = [
                    np.eye(other.nv)[column] if n == i else np.zeros(other.nv)
                    for n, other in enumerate(kinds)
                ]
                K[:, posture.columns[j].start + column] = product(J, rate(q, rates))
        if speeds is None:
            return K, np.zeros(len(value), dtype=object)
        rates = [speeds.v[posture.columns[j]] for j in self.joints]

        def speed(x: np.ndarray) -> np.ndarray:
            return jvp_of(self.phi, x, rate(x, rates))[1]

        return K, -jvp_of(speed, q, rate(q, rates))[1]

    def content(self, index: Mapping[int, int], place_key: Callable[[End], Any]) -> Any:
        return self.function, tuple(index[k] for k in self.joints)


@lru_cache(maxsize=256)
def _traced(constraint: ImplicitConstraint, size: int) -> Program:
    """Return the program of φ and its Jacobian for numeric coordinates; cached."""
    return expand(jacobian(trace(constraint.phi, {"q": size}), "out", "q"))
