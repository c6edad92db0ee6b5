"""Laws of friction: Coulomb friction of points, and rolling and torsional friction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.algorithms.contact.laws import (
    IMMOBILE,
    SLIP_STEPS,
    STEEPEST,
    TINY,
    Block,
    Linear,
    Proximal,
    block_inverse,
    largest_eigenvalue,
    length,
    reciprocal,
)
from linkwork.compiler.ir.functions import absolute, maximum, minimum, where


def _polar(y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return length and direction; zero for both where y is zero."""
    size = length(y[0], y[1])
    return size, y * (1.0 / maximum(size, TINY))


class _Disc:
    """Two rows whose impulse t is at most some radius long: what projected gradient steps and Newton's need
    of G there.
    """

    def __init__(self, T: np.ndarray, small: Any, felt: np.ndarray | None = None, least: Any = 0.0) -> None:
        """Set the disc; `felt` is the change of w by t while other impulses follow it, if that is not T, and
        `least` bounds steps from below.
        """
        self.T = T
        self.small = small
        self.size = largest_eigenvalue(T)
        self.s = self.size if felt is None else largest_eigenvalue(felt) + least
        self.inverse = reciprocal(self.s)
        self.inverse_size = reciprocal(self.size)

    def ahead(self, w: np.ndarray, t: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return length and direction of t - w / s, w being the velocity with t."""
        return _polar(t - w * self.inverse)

    def alpha(self, size: Any, radius: Any) -> Any:
        """Return alpha with w = -alpha t at the end of a projection from `size` to `radius`."""
        return self.s * minimum(maximum(size / maximum(radius, TINY) - 1.0, 0.0), STEEPEST)

    def linearised(
        self, t: np.ndarray, touches: Any, slips: Any, alpha: Any, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return P and N, (2, 2), and r; in sliding, the dependence of the radius has still to be added."""
        s = where(slips, 1.0, 0.0)
        uu = np.array([[u[0] * u[0], u[0] * u[1]], [u[0] * u[1], u[1] * u[1]]], dtype=object)
        across = np.eye(2) - s * uu
        P = where(touches, across, 0.0)
        N = where(touches, where(slips, alpha, 0.0) * across + (s * self.s) * uu, self.s * np.eye(2))
        soft = self.small * self.s * across
        return P, N + where(touches, soft, 0.0), where(touches, soft @ t, 0.0)

    def proximal(
        self, w: np.ndarray, t: np.ndarray, rate: Any, radius: Any
    ) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """Return the point of the disc nearest to t - ρ w, what it loses by w, (2, 2), gains by the radius,
        and the change.
        """
        rho = rate * self.inverse_size
        size, u = _polar(t - rho * w)
        slips = size > radius
        new = minimum(size, radius) * u
        uu = np.array([[u[0] * u[0], u[0] * u[1]], [u[0] * u[1], u[1] * u[1]]], dtype=object)
        shrunk = where(slips, rho * radius / maximum(size, TINY), rho)
        slope = shrunk * (np.eye(2) - where(slips, 1.0, 0.0) * uu)
        back = new - t
        moved = self.size * maximum(absolute(back[0]), absolute(back[1])) / rate
        return new, slope, where(slips, 1.0, 0.0) * u, moved

    def violation(self, w: np.ndarray, t: np.ndarray, radius: Any) -> Any:
        size, u = _polar(t - w * self.inverse_size)
        back = t - minimum(size, radius) * u
        return self.size * maximum(absolute(back[0]), absolute(back[1]))


@dataclass(eq=False)
class Coulomb(Block):
    """Signorini's and Coulomb's laws: normal and two tangents, with the exact circular cone |λ_t| <= μ λ_n.

    0 <= w_n ⊥ λ_n >= 0; where the point slides, friction is μ λ_n against w_t. (With De Saxcé's term, w + μ
    |w_t| n lies in the dual cone and is orthogonal to λ: the same law as one complementarity on cones.)
    """

    first: int
    mu: Any

    @property
    def rows(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.first, self.first + 1, self.first + 2)

    def _prepare(self, G: np.ndarray) -> None:
        G_block = G[np.ix_(self.rows, self.rows)]
        self.n = G_block[0, 0]
        self.across = G_block[1:, 0]
        T = G_block[1:, 1:]
        self.inverse_n = reciprocal(self.n)
        self.c = self.across * self.inverse_n
        self.stuck = T - np.outer(self.c, self.across)  # what tangents feel while the normal velocity stays
        size = self.n + T[0, 0] + T[1, 1]
        self.disc = _Disc(T, self.small, self.stuck, self.small * size)
        self.inverse_stuck = block_inverse(self.stuck, size, self.small)

    def update(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, Any]:
        alone = -w[0] * self.inverse_n  # the normal impulse without friction
        stuck = impulse[1:] - self.inverse_stuck @ (w[1:] + self.across * alone + self.stuck @ impulse[1:])
        stuck_n = alone - self.c @ stuck
        sticks = (stuck_n > 0.0) & (stuck @ stuck <= (self.mu * stuck_n) * (self.mu * stuck_n))
        # where friction jams, both an open and a sticking contact satisfy the law: then it stays what it is
        touches = ((w[0] < 0.0) | (sticks & (impulse[0] > 0.0))) & (self.n > IMMOBILE)
        t = impulse[1:]
        for _ in range(SLIP_STEPS):
            n = maximum(alone - self.c @ t, 0.0)
            size, u = self.disc.ahead(w[1:] + self.across * n + self.disc.T @ t, t)
            felt = self.n + self.mu * (self.across @ u)  # w_n by a normal impulse with friction along u
            radius = minimum(size, self.mu * where(felt > 0.1 * self.n, -w[0] / maximum(felt, IMMOBILE), n))
            t = radius * u
        n = maximum(alone - self.c @ t, 0.0)
        new = [where(touches, where(sticks, a, b), 0.0) for a, b in zip((stuck_n, *stuck), (n, *t))]
        slips = touches & (where(sticks, 1.0, 0.0) < 0.5)
        return np.array(new, dtype=object), (touches, slips, self.disc.alpha(size, radius), u)

    def branch(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray, G: np.ndarray) -> Any:
        touches, slips, alpha, u = super().branch(w, impulse, lam, G)
        return touches, slips & (w[1:] @ w[1:] > self.small * self.small), alpha, u

    def linearised(self, impulse: np.ndarray, branch: Any) -> Linear:
        touches, slips, alpha, u = branch
        P: Any = np.zeros((3, 3), dtype=object)
        N: Any = np.zeros((3, 3), dtype=object)
        P[1:, 1:], N[1:, 1:], r = self.disc.linearised(impulse[1:], touches, slips, alpha, u)
        P[0, 0] = where(touches, 1.0, 0.0)
        N[0, 0] = where(touches, self.small * self.n, self.n)
        N[1:, 0] = where(slips, -self.disc.s * self.mu * u, 0.0)
        return Linear(
            P, N, np.array([where(touches, self.small * self.n * impulse[0], 0.0), *r], dtype=object)
        )

    def proximal(
        self, w: np.ndarray, impulse: np.ndarray, rate: Any, soft: np.ndarray, normal: Any
    ) -> Proximal:
        rho = rate * self.inverse_n
        stiff = 1.0 / (1.0 + rho * soft[0])
        expected = (impulse[0] - rho * w[0]) * stiff
        n = maximum(expected, 0.0)
        falls = where(expected > 0.0, rho * stiff, 0.0)
        t, slope, along, moved = self.disc.proximal(w[1:], impulse[1:], rate, self.mu * n)
        D: Any = np.zeros((3, 3), dtype=object)
        D[0, 0] = falls
        D[1:, 0] = self.mu * falls * along
        D[1:, 1:] = slope
        moved = maximum(moved, self.n * absolute(n - impulse[0]) / rate)
        return Proximal(np.array([n, *t], dtype=object), D, moved)

    def violation(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> Any:
        normal = absolute(minimum(self.n * impulse[0], w[0]))
        result = maximum(normal, self.disc.violation(w[1:], impulse[1:], self.mu * impulse[0]))
        return where(self.n > IMMOBILE, result, 0.0)


@dataclass(eq=False)
class Rolling(Block):
    """Rolling friction: a moment about both tangents of at most `coefficient` [m] times the normal impulse,
    against rolling.
    """

    first: int
    coefficient: Any
    normal: int

    @property
    def rows(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.first, self.first + 1)

    def _prepare(self, G: np.ndarray) -> None:
        self.disc = _Disc(G[np.ix_(self.rows, self.rows)], self.small)
        self.inverse_stuck = block_inverse(self.disc.T, self.disc.T[0, 0] + self.disc.T[1, 1], self.small)

    def update(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, Any]:
        radius = self.coefficient * lam[self.normal]
        stuck = impulse - self.inverse_stuck @ (w + self.disc.T @ impulse)
        sticks = stuck @ stuck <= radius * radius
        t = impulse
        for _ in range(SLIP_STEPS):
            size, u = self.disc.ahead(w + self.disc.T @ t, t)
            t = minimum(size, radius) * u
        new = np.array([where(sticks, a, b) for a, b in zip(stuck, t)], dtype=object)
        return new, (where(sticks, 0.0, 1.0) > 0.5, self.disc.alpha(size, minimum(size, radius)), u)

    def branch(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray, G: np.ndarray) -> Any:
        slips, alpha, u = super().branch(w, impulse, lam, G)
        return slips & (w @ w > self.small * self.small), alpha, u

    def linearised(self, impulse: np.ndarray, branch: Any) -> Linear:
        slips, alpha, u = branch
        always = slips | (where(slips, 1.0, 0.0) < 0.5)
        P, N, r = self.disc.linearised(impulse, always, slips, alpha, u)
        return Linear(P, N, r, self.normal, where(slips, -self.disc.s * self.coefficient * u, 0.0))

    def proximal(
        self, w: np.ndarray, impulse: np.ndarray, rate: Any, soft: np.ndarray, normal: Any
    ) -> Proximal:
        new, slope, along, moved = self.disc.proximal(w, impulse, rate, self.coefficient * normal)
        return Proximal(new, slope, moved, self.normal, self.coefficient * along)

    def violation(self, w: np.ndarray, impulse: np.ndarray, lam: np.ndarray) -> Any:
        return self.disc.violation(w, impulse, self.coefficient * lam[self.normal])
