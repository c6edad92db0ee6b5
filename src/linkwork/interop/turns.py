"""Unwrapping of angles that are stored as cosine and sine: their number of whole revolutions."""

from __future__ import annotations

from itertools import product

import numpy as np

from linkwork.mechanism import Coupling, ImplicitConstraint
from linkwork.model import Model

_REVOLUTION = 2.0 * np.pi
_MAX_TRIALS = 2000  # numbers of turns that are tried at most, for joints that couplings leave free
_MAX_TURNS = 60  # turns that one such joint is tried at, both ways
_EQUATION_TOL = 1e-6  # [rad, or what an equation is in] times its largest coefficient: an equation holds


class Turns:
    """Whole turns of the angles of a model at the indices `angles` in q."""

    def __init__(self, model: Model, angles: np.ndarray) -> None:
        self._angles = angles
        self._groups = [
            _Group(model, group, set(angles.tolist())) for group in _groups(model, set(angles.tolist()))
        ]

    def near(self, q: np.ndarray, reference: np.ndarray) -> np.ndarray:
        """Return q (..., nq) with each angle within half a turn of the reference (..., nq)."""
        q = np.array(np.broadcast_to(q, np.broadcast_shapes(q.shape, reference.shape)))
        q[..., self._angles] += _REVOLUTION * np.rint(
            (reference[..., self._angles] - q[..., self._angles]) / _REVOLUTION
        )
        return q

    def coupled(self, q: np.ndarray) -> np.ndarray:
        """Return q, (..., nq), with the fewest turns that satisfy couplings and implicit constraints.

        Rows for which there are none stay unchanged.
        """
        flat = q.reshape(-1, q.shape[-1]).copy()
        for group in self._groups:
            flat[:, group.angles] += _REVOLUTION * group.turns(flat)
        return flat.reshape(q.shape)


class _Group:
    """Equations that share angles: φ + S n = 0, where n are the turns of these angles."""

    def __init__(
        self, model: Model, equations: list[Coupling | ImplicitConstraint], wrapped: set[int]
    ) -> None:
        self._model = model
        self._equations = equations
        self.angles = sorted(wrapped & {k for e in equations for k in _places(model, e)})
        start = model.tree_neutral()
        turned = start + _REVOLUTION * np.eye(model.nq)[self.angles]
        S = (self._phi(turned) - self._phi(start[None])).T
        # turns do not change functions of cosines and sines; NaN is treated as no dependence
        self._S = np.where(np.abs(S) > 1e-9, S, 0.0)
        self._solved = _pivots(self._S)

    def _phi(self, q: np.ndarray) -> np.ndarray:
        """Return the values of the equations in each row."""
        result = []
        for e in self._equations:
            places = _places(self._model, e)
            if isinstance(e, Coupling):
                result.append((q[:, places] @ [c for _, _, c in e.terms] - e.offset)[:, None])
            else:
                with np.errstate(all="ignore"):
                    result.append(
                        np.array([e.phi(row[places]) for row in q], dtype=float).reshape(len(q), -1)
                    )
        return np.concatenate(result, axis=1)

    def turns(self, q: np.ndarray) -> np.ndarray:
        """Return the turns of each angle in each row."""
        solved = self._solved
        phi = self._phi(q)
        free = [k for k in range(len(self.angles)) if k not in solved]
        inverse = np.linalg.pinv(self._S[:, solved])
        enough = _EQUATION_TOL * np.maximum(1.0, np.abs(self._S / _REVOLUTION).max(axis=1, initial=0.0))
        n = np.zeros((len(q), len(self.angles)))
        open_ = np.arange(len(q))
        for choice in _choices(len(free)):
            trial = np.zeros((len(open_), len(self.angles)))
            trial[:, free] = choice
            trial[:, solved] = -np.rint((phi[open_] + trial @ self._S.T) @ inverse.T)
            holds = (np.abs(phi[open_] + trial @ self._S.T) <= enough).all(axis=1)
            n[open_[holds]] = trial[holds]
            open_ = open_[~holds]
            if len(open_) == 0:
                break
        return n


def _groups(model: Model, wrapped: set[int]) -> list[list[Coupling | ImplicitConstraint]]:
    """Return groups of couplings and implicit constraints that share wrapped angles."""
    groups: list[tuple[set[int], list[Coupling | ImplicitConstraint]]] = []
    for e in model.loops:
        angles = wrapped & set(_places(model, e)) if isinstance(e, (Coupling, ImplicitConstraint)) else set()
        if not angles or not isinstance(e, (Coupling, ImplicitConstraint)):
            continue
        joined = set(angles)
        together = [e]
        for group in [g for g in groups if g[0] & angles]:
            groups.remove(group)
            joined |= group[0]
            together = group[1] + together
        groups.append((joined, together))
    return [together for _, together in groups]


def _places(model: Model, equation: Coupling | ImplicitConstraint) -> list[int]:
    """Return the indices in q of an equation's coordinates."""
    if isinstance(equation, Coupling):
        return [model.joints[joint].q_start + component for joint, component, _ in equation.terms]
    return [k for joint in equation.joints for k in range(model.nq)[model.joints[joint].q_slice]]


def _pivots(S: np.ndarray) -> list[int]:
    """Return columns to solve for, one per solvable row, fast joints first: these resolve slow ones."""
    remaining = S.copy()
    selected = []
    for row in range(len(S)):
        able = [k for k in range(S.shape[1]) if k not in selected and abs(remaining[row, k]) > 1e-9]
        if able:
            k = min(able, key=lambda k: abs(remaining[row, k]))
            selected.append(k)
            for other in range(row + 1, len(S)):
                remaining[other] -= remaining[row] * (remaining[other, k] / remaining[row, k])
    return selected


def _choices(count: int) -> list[tuple[int, ...]]:
    """Return the turns of `count` joints to try: none first, then the nearest."""
    far = _MAX_TURNS
    while far and (2 * far + 1) ** count > _MAX_TRIALS:
        far -= 1
    return sorted(
        product(range(-far, far + 1), repeat=count),
        key=lambda n: (sum(map(abs, n)), max(map(abs, n), default=0), n),
    )
