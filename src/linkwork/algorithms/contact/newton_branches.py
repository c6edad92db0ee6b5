"""Branches of contact laws near an impulse, for Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact.friction_laws import Coulomb, Rolling
from linkwork.algorithms.contact.laws import TINY, Block, Bounded, Interval
from linkwork.compiler.ir.functions import absolute, maximum, sqrt, where


class Branch(NamedTuple):
    """Impulses after Newton's step are λ + c - B δw, δw being the change of velocities by it; p is the normal
    impulse.
    """

    c: list[Any]
    B: np.ndarray
    p: Any = 0.0


class NewtonOptions(NamedTuple):
    """ρ and the proximal term, both relative to G; and what friction is multiplied by to tell whether
    contacts slide.
    """

    rate: Any
    small: Any
    grip: Any = 1.0

    def held(self, inverse: Any, soft: Any) -> Any:
        """Return the change of an impulse per velocity where it holds that, from 1 / G and the compliance of
        a row.
        """
        if isinstance(soft, (int, float)) and soft == 0.0:
            return inverse * (1.0 / self.small)
        return where(inverse > 0.0, inverse / where(inverse > 0.0, self.small + inverse * soft, 1.0), 0.0)


def _disc(
    w: np.ndarray,
    t: np.ndarray,
    size: Any,
    inverse: Any,
    how: NewtonOptions,
    normal: Branch,
    mu: Any,
    old: Any,
) -> Branch:
    """Return two rows with |t| <= mu λ_n, where G is at most `size`; `old` is λ_n now. B has the column of
    λ_n first.
    """
    radius = mu * normal.p
    y = t - (how.rate * inverse) * w
    square = y[0] * y[0] + y[1] * y[1]
    edge = how.grip * radius
    slips = square >= edge * edge
    length = 1.0 / maximum(sqrt(square), TINY)
    u = y * length
    k = radius * length
    over = 1.0 / where(slips, (1.0 - k) * (1.0 / how.rate) + k * how.small, 1.0)
    held = how.held(inverse, 0.0)
    along = u[0] * t[0] + u[1] * t[1]
    n = mu * (old + normal.c[0])
    c = [
        where(slips, u[i] * n - u[i] * along - (t[i] - u[i] * along) * over * (1.0 / how.rate), -w[i] * held)
        for i in (0, 1)
    ]
    stays = where(slips, k * over * inverse, held)
    across = where(slips, stays, 0.0)
    B: Any = np.zeros((2, 3), dtype=object)
    for i in (0, 1):
        B[i, 0] = where(slips, mu * normal.B[0, 0] * u[i], 0.0)
    B[0, 1] = stays - across * u[0] * u[0]
    B[1, 2] = stays - across * u[1] * u[1]
    B[0, 2] = B[1, 1] = -across * u[0] * u[1]
    return Branch(c, B)


def _interval(block: Interval, w: Any, impulse: Any, how: NewtonOptions, soft: Any) -> Branch:
    """Return a row whose velocity has bounds."""
    rho = how.rate * block.inverse
    w = w + soft * impulse
    held = how.held(block.inverse, soft)
    p = 0.0
    c = -impulse
    B = 0.0
    for bound, sign in ((block.upper, -1.0), (block.lower, 1.0)):
        if bound is not None:
            expected = impulse - rho * (w - bound)
            acts = sign * expected > 0.0
            p, c, B = (where(acts, a, b) for a, b in ((expected, p), ((bound - w) * held, c), (held, B)))
    return Branch([c], np.array([[B]], dtype=object), p)


def _normal(block: Coulomb, w: Any, impulse: Any, how: NewtonOptions, soft: Any) -> Branch:
    w = w + soft * impulse
    expected = impulse - how.rate * block.inverse_n * w
    touches = expected > 0.0
    held = how.held(block.inverse_n, soft)
    B = where(touches, held, 0.0)
    return Branch(
        [where(touches, -w * held, -impulse)], np.array([[B]], dtype=object), maximum(expected, 0.0)
    )


def _bounded(block: Bounded, w: Any, impulse: Any, how: NewtonOptions, normal: Branch, old: Any) -> Branch:
    """Return dry friction; B has the column of the normal impulse first."""
    expected = impulse - how.rate * block.inverse * w
    most, then = (
        (block.bound, block.bound)
        if block.normal is None
        else (block.bound * x for x in (normal.p, old + normal.c[0]))
    )
    slips = absolute(expected) >= most
    held = how.held(block.inverse, 0.0)
    sign = where(expected < 0.0, -1.0, 1.0)
    c = where(slips, sign * then - impulse, -w * held)
    column = 0.0 if block.normal is None else where(slips, sign * block.bound * normal.B[0, 0], 0.0)
    return Branch([c], np.array([[column, where(slips, 0.0, held)]], dtype=object))


def branches(
    blocks: Sequence[Block],
    first: int,
    w: np.ndarray,
    impulse: np.ndarray,
    how: NewtonOptions,
    soft: np.ndarray,
) -> Branch:
    """Return the branches of all laws of one contact, or of one row of a joint; rows from `first` on."""
    block = blocks[0]
    if isinstance(block, Coulomb):
        normal = _normal(block, w[0], impulse[0], how, soft[0])
        size, inverse = block.disc.size, block.disc.inverse_size
        disc = _disc(w[1:3], impulse[1:3], size, inverse, how, normal, block.mu, impulse[0])
        B: Any = np.zeros((3, 3), dtype=object)
        B[0, 0] = normal.B[0, 0]
        B[1:3, :3] = disc.B
        return attached(blocks, first, w, impulse, how, Branch([*normal.c, *disc.c], B, normal.p))
    if isinstance(block, Interval):
        return attached(blocks, first, w, impulse, how, _interval(block, w[0], impulse[0], how, soft[0]))
    return attached([None, *blocks], first, w, impulse, how, Branch([], np.zeros((0, 0)), 0.0))


def attached(
    blocks: Sequence[Block | None],
    first: int,
    w: np.ndarray,
    impulse: np.ndarray,
    how: NewtonOptions,
    contact: Branch,
) -> Branch:
    """Return the branches of one contact: `contact` is that of its first law, on which the others depend."""
    c = list(contact.c)
    size = len(c)
    B: Any = np.zeros((len(impulse), len(impulse)), dtype=object)
    B[:size, :size] = contact.B
    normal = Branch(c[:1], contact.B[:1, :1], contact.p) if c else Branch([0.0], np.zeros((1, 1)))
    for block in blocks[1:]:
        assert block is not None
        at = [i - first for i in block.rows]
        if isinstance(block, Rolling):
            disc = _disc(
                w[at],
                impulse[at],
                block.disc.size,
                block.disc.inverse_size,
                how,
                normal,
                block.coefficient,
                impulse[0],
            )
            c = [*c, *disc.c]
            B[at, 0] = disc.B[:, 0]
            B[np.ix_(at, at)] = disc.B[:, 1:]
        else:
            assert isinstance(block, Bounded)
            result = _bounded(block, w[at[0]], impulse[at[0]], how, normal, impulse[0])
            if block.normal is not None:
                B[at[0], 0] = result.B[0, 0]
            c = [*c, *result.c]
            B[at[0], at[0]] = result.B[0, 1]
    return Branch(c, B)
