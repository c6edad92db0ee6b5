"""Contacts whose branches change one after the other, where Newton's method goes round in circles.

With much friction, contacts of one body may contradict each other while all of them stick, such as two
corners of an edge that land one after the other. Newton's equations have no solution then, and whole steps
lead far away. So each step here follows its direction only until a contact reaches the boundary of its
friction cone: that one slides from there on, or opens at the apex. After a whole step, the first contact
that violates its law changes its branch. An open one that closes gets the impulse that satisfies its own law
exactly while all others stay. This is pivoting, as for linear complementarity (Cottle, Pang and Stone), with
Newton's steps for sliding in the circular cone: w_n = 0, |t| = mu λ_n, w_t = -α t with α >= 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from linkwork.algorithms.contact.friction_laws import Coulomb
from linkwork.algorithms.contact.laws import IMMOBILE, TINY, Block, length
from linkwork.algorithms.contact.newton_branches import Branch, NewtonOptions, attached, branches
from linkwork.algorithms.newton import one_norm, tolerance
from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, sqrt, where
from linkwork.spatial.solve import solve_without_pivots

OPEN, STICKING, SLIDING = 0.0, 1.0, 2.0
EPSILON = 1e-15  # relative rounding error of velocities
MAX_STEPS = 40
MAX_CONTACTS = 24  # of more, too few could change in these steps, and programs would become long
BETTER = 0.5  # impulses that do not solve the problem count if they violate laws by this part of others
LEAST_PROXIMAL = 1e-12
FIRST_RULE = 20.0  # steps in which the first contact changes, not the worst
APEX = 1e-15  # friction impulses below this have no direction [N s]
SLIP_BISECTIONS = 40
SLIP_RANGE = 1e12  # smallest and largest α that are looked for, relative to G
BOUNDARY = 1e-9  # relative distance from the cone's boundary within which a contact slides at first


class Rows(Protocol):
    """The contact problem by contact, or joint: see `newton.ProblemRows`."""

    C: np.ndarray
    soft: np.ndarray
    all: list[tuple[list[int], list[Block], list[int]]]

    def at(self, V: np.ndarray) -> np.ndarray: ...
    def along(self, V: np.ndarray) -> np.ndarray: ...
    def forces(self, lam: np.ndarray) -> np.ndarray: ...
    def assembled(self, impulse: np.ndarray, selected: Sequence[Branch]) -> tuple[np.ndarray, np.ndarray]: ...
    def after(self, impulse: np.ndarray, selected: Sequence[Branch], change: np.ndarray) -> np.ndarray: ...
    def allowed(self, lam: np.ndarray) -> np.ndarray: ...
    def violation(self, w: np.ndarray, lam: np.ndarray) -> Any: ...


class Pivoted(NamedTuple):
    """Impulses, (m,), their forces on bodies, the largest violation of any law, and the steps."""

    impulses: np.ndarray
    forces: np.ndarray
    residual: Any
    steps: Any


class _Contact(NamedTuple):
    """A contact with friction: its law, and its branch with the direction of friction, (2,)."""

    law: Coulomb
    branch: Any
    u: np.ndarray

    @property
    def rows(self) -> list[int]:
        return list(self.law.rows)


def pivoted(rows: Rows, known: Pivoted, start: np.ndarray, enter: Any, small: Any, least: Any) -> Pivoted:
    """Return the best impulses of some steps from `start`, (m,), or those that are `known`, to the tolerance
    `least`; no steps where `enter` does not hold.

    `small`: the proximal term of Newton's steps, relative to G. Problems of more than `MAX_CONTACTS` contacts
    are left as they are.
    """
    m = len(start)
    laws = [block for _, blocks, _ in rows.all for block in blocks if isinstance(block, Coulomb)]
    if not 0 < len(laws) <= MAX_CONTACTS:
        return known
    count = len(laws)
    ends = np.cumsum([m, m, len(known.forces), count, 2 * count, 3])

    def step(x: np.ndarray) -> tuple[np.ndarray, Any]:
        best, lam, best_f, kinds, u, (least_violated, small, steps) = np.split(x, ends[:-1])
        contacts = [_Contact(*each) for each in zip(laws, kinds, u.reshape(count, 2))]
        w = rows.at(rows.C @ rows.forces(lam))
        change = _newton_step(rows, contacts, w, lam, small)
        ways = [_way(each, lam[each.rows], change[each.rows]) for each in contacts]
        way: Any = 1.0
        for each in ways:
            way = minimum(each, way)
        lam = _inside(contacts, lam + way * change, rows)
        f = rows.forces(lam)
        w = rows.at(rows.C @ f)
        contacts = [_at_boundary(each, lam, way, x) for each, x in zip(contacts, ways)]
        violated = maximum(rows.violation(w, lam), _rounding(contacts, lam, w))
        violated = where(one_norm(w) < np.inf, violated, np.inf)
        better = violated < where(violated <= least, 1.0, BETTER) * least_violated
        best, best_f = (where(better, x, y) for x, y in ((lam, best), (f, best_f)))
        least_violated = where(better, violated, least_violated)
        is_full_step = way > 1.0 - APEX
        sliding: Any = 0.0
        for each in contacts:
            sliding = maximum(each.branch, sliding)
        worst = steps - known.steps > FIRST_RULE
        lam, contacts, unchanged = _released(contacts, w, lam, is_full_step, 0.1 * least, small, worst)
        # contacts that stick and contradict each other by little need larger and larger impulses
        stuck = is_full_step & unchanged & (sliding < STICKING + 0.5)
        small = where(stuck, maximum(0.1 * small, LEAST_PROXIMAL), small)
        after = [*best, *lam, *best_f, *(each.branch for each in contacts)]
        after += [x for each in contacts for x in each.u]
        again = (least_violated > least) & (one_norm(lam) < np.inf)
        return np.array([*after, least_violated, small, steps + 1.0], dtype=object), again

    first = [_Contact(law, *_branch_of(law, start[list(law.rows)])) for law in laws]
    state = [*known.impulses, *start, *known.forces, *(each.branch for each in first)]
    state += [*(x for each in first for x in each.u), known.residual, small, known.steps]
    last = loop(step, np.array(state, dtype=object), limit=MAX_STEPS, enter=enter)
    best, _, best_f, _, _, (residual, _, steps) = np.split(last, ends[:-1])
    return Pivoted(best, best_f, residual, steps)


def _branch_of(law: Coulomb, impulse: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the branch that impulses of a contact stand for, and the direction of friction."""
    size = length(impulse[1], impulse[2])
    sticks = size < (1.0 - BOUNDARY) * law.mu * impulse[0]
    branch = where(impulse[0] > 0.0, where(sticks, STICKING, SLIDING), OPEN)
    return branch, impulse[1:] * (1.0 / maximum(size, TINY))


def _newton_step(
    rows: Rows, contacts: Sequence[_Contact], w: np.ndarray, lam: np.ndarray, small: Any
) -> np.ndarray:
    """Return the change of impulses, (m,), that satisfies the linearised laws on the branches of contacts."""
    how = NewtonOptions(1.0, small)
    of_law = {id(each.law): each for each in contacts}
    selected = []
    for group, blocks, _ in rows.all:
        contact = of_law.get(id(blocks[0]))
        if contact is None:
            selected.append(branches(blocks, group[0], w[group], lam[group], how, rows.soft[group]))
            continue
        branch = _on_branch(contact, w[group[:3]], lam[group[:3]], rows.soft[group[0]], small)
        selected.append(attached(blocks, group[0], w[group], lam[group], how, branch))
    f, S = rows.assembled(np.zeros(len(lam)), selected)
    D = len(rows.C)
    motion = solve_without_pivots(np.eye(D) + rows.C @ S, (rows.C @ f)[:, None])[:, 0]
    motion = where(one_norm(motion) < np.inf, motion, 0.0)
    change: np.ndarray = rows.after(lam, selected, rows.along(motion)) - lam
    return change


def _on_branch(contact: _Contact, w: np.ndarray, impulse: np.ndarray, soft: Any, small: Any) -> Branch:
    """Return Newton's equations of one contact, solved for its impulses."""
    law = contact.law
    slides = contact.branch > STICKING + 0.5
    closed = contact.branch > OPEN + 0.5
    # of a sliding contact with much friction the tangential impulse is proximal: λ_n is a small part of it
    stiff = where(slides, maximum(law.mu, 1.0), 1.0)
    held_n = law.inverse_n / (small * stiff + law.inverse_n * soft)
    held_t = law.disc.inverse_size * (1.0 / small)
    w_n = w[0] + soft * impulse[0]
    size = length(impulse[1], impulse[2])
    u = _direction(impulse[1:], size, contact.u)
    along = u[0] * w[1] + u[1] * w[2]
    slip = absolute(along) / maximum(size, APEX)  # α
    across = 1.0 / maximum(slip + small * law.disc.size, TINY)
    lost = law.mu * held_n
    friction = law.mu * impulse[0] - lost * w_n - size
    c = [where(closed, -held_n * w_n, -impulse[0])]
    B: Any = np.zeros((3, 3), dtype=object)
    B[0, 0] = where(closed, held_n, 0.0)
    for i in (0, 1):
        sliding = u[i] * friction - across * (w[1 + i] - along * u[i])
        c.append(where(closed, where(slides, sliding, -held_t * w[1 + i]), -impulse[1 + i]))
        B[1 + i, 0] = where(slides, lost * u[i], 0.0)
        for j in (0, 1):
            turned = across * ((1.0 if i == j else 0.0) - u[i] * u[j])
            B[1 + i, 1 + j] = where(closed, where(slides, turned, held_t if i == j else 0.0), 0.0)
    return Branch(c, B, maximum(impulse[0], 0.0))


def _way(contact: _Contact, impulse: np.ndarray, change: np.ndarray) -> Any:
    """Return the part of a step with which a contact reaches its cone's boundary, or a sliding one its apex;
    2 where the whole step stays inside.
    """
    mu = contact.law.mu
    slides = contact.branch > STICKING + 0.5
    end = impulse + change
    # mu² (λ_n + x δ_n)² = |t + x δ_t|²
    a = mu * mu * change[0] * change[0] - change[1] * change[1] - change[2] * change[2]
    b = mu * mu * impulse[0] * change[0] - impulse[1] * change[1] - impulse[2] * change[2]
    c = maximum(mu * mu * impulse[0] * impulse[0] - impulse[1] * impulse[1] - impulse[2] * impulse[2], 0.0)
    below = sqrt(maximum(b * b - a * c, 0.0)) - b
    boundary = where(below > 0.0, c / where(below > 0.0, below, 1.0), 0.0)
    falls = change[0] < 0.0
    apex = where(falls, impulse[0] / where(falls, -change[0], 1.0), 2.0)
    inside = (end[0] >= 0.0) & (mu * end[0] >= length(end[1], end[2]))
    sticking = where(inside, 2.0, minimum(boundary, apex))
    sliding = where(end[0] >= 0.0, 2.0, apex)
    return where(slides, sliding, where(contact.branch > OPEN + 0.5, sticking, 2.0))


def _inside(contacts: Sequence[_Contact], lam: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the impulses, (m,), without what leads out of cones and bounds after a step.

    With much friction the normal impulse grows, which changes velocities less than cutting off friction.
    """
    result = rows.allowed(lam)
    for each in contacts:
        impulse = lam[each.rows]
        mu = each.law.mu
        size = length(impulse[1], impulse[2])
        normal = where(impulse[0] > 0.0, maximum(impulse[0], size / maximum(mu, 1.0)), 0.0)
        factor = minimum(mu * normal / maximum(size, TINY), 1.0)
        result[each.rows] = [normal, factor * impulse[1], factor * impulse[2]]
    return result


def _at_boundary(contact: _Contact, lam: np.ndarray, way: Any, own_way: Any) -> _Contact:
    """Return the contact with its branch after a step, which ended where one contact left its branch."""
    t = lam[contact.rows][1:]
    size = length(t[0], t[1])
    leaves = (own_way <= way) & (way < 1.0)
    slides = (contact.branch < STICKING + 0.5) & (size > APEX)
    branch = where(leaves, where(slides, SLIDING, OPEN), contact.branch)
    return contact._replace(branch=branch, u=_direction(t, size, contact.u))


def _direction(t: np.ndarray, size: Any, known: np.ndarray) -> np.ndarray:
    """Return the direction of a friction impulse t of this size, (2,); the `known` one near the apex."""
    over = 1.0 / maximum(size, APEX)
    return np.array([where(size > APEX, x * over, y) for x, y in zip(t, known)], dtype=object)


def _released(
    contacts: Sequence[_Contact],
    w: np.ndarray,
    lam: np.ndarray,
    complete: Any,
    slack: Any,
    small: Any,
    worst: Any,
) -> tuple[np.ndarray, list[_Contact], Any]:
    """Return impulses and contacts after one contact that violates its law, by more than `slack`, has
    changed its branch, and whether none has: an open one closes, a sliding one that friction pushes sticks.

    It is the first of them, or the `worst`.
    """
    closes = []
    violations = []
    for each in contacts:
        v = w[each.rows]
        closes.append((each.branch < OPEN + 0.5) & (v[0] < -slack) & (each.law.n > IMMOBILE))
        push = v[1] * each.u[0] + v[2] * each.u[1]
        violated = where(closes[-1], -v[0], where(each.branch > STICKING + 0.5, push, 0.0))
        violations.append(where(violated > slack, where(worst, violated, 1.0), 0.0))
    most: Any = 0.0
    for violated in violations:
        most = maximum(violated, most)
    waits = complete & (most > 0.0)
    unchanged = _negated(waits)
    closing = []
    sticking = []
    for each, violated in zip(closes, violations):
        changes = waits & (violated >= most)
        closing.append(changes & each)
        sticking.append(changes & _negated(each))
        waits = waits & _negated(changes)
    numbers: Any = _numbers(contacts[0], w)
    for each, changes in zip(contacts, closing):
        numbers = [where(changes, x, y) for x, y in zip(_numbers(each, w), numbers)]
    impulse, branch, u = _alone(np.array(numbers, dtype=object), small)
    lam = np.array(lam, dtype=object)
    result = []
    for each, closes, sticks in zip(contacts, closing, sticking):
        lam[each.rows] = [where(closes, x, y) for x, y in zip(impulse, lam[each.rows])]
        new = where(closes, branch, where(sticks, STICKING, each.branch))
        turned = np.array([where(closes, x, y) for x, y in zip(u, each.u)], dtype=object)
        result.append(each._replace(branch=new, u=turned))
    return lam, result, unchanged


def _rounding(contacts: Sequence[_Contact], lam: np.ndarray, w: np.ndarray) -> Any:
    """Return the rounding error of velocities by impulses that cancel each other [m/s]: where it is not
    small, laws may seem to hold because large impulses hide what is missing.
    """
    largest: Any = 0.0
    for each in contacts:
        normal = each.law.n * absolute(lam[each.law.first])
        largest = maximum(normal + each.law.disc.size * length(*lam[each.rows][1:]), largest)
    return tolerance(EPSILON, w) * largest


def _negated(condition: Any) -> Any:
    return where(condition, 0.0, 1.0) > 0.5


def _numbers(contact: _Contact, w: np.ndarray) -> list[Any]:
    """Return what `_alone` needs of one contact."""
    law = contact.law
    S = law.stuck
    return [*w[contact.rows], law.n, *law.across, S[0, 0], S[0, 1], S[1, 1], law.disc.size, law.mu]


def _alone(numbers: np.ndarray, small: Any) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return the impulse of a contact that presses alone, its branch, and the direction of friction.

    Where it slides, α is the root of |t(α)| = mu λ_n(α) with (S + α) t = -s, where S and s are what tangents
    feel while w_n = 0: there is one, since λ_n > 0 without friction (Bonnefon and Daviet 2011).
    """
    w, (n, *across), (a, b, d), (size, mu) = numbers[:3], numbers[3:6], numbers[6:9], numbers[9:]
    inverse_n = 1.0 / maximum(n, IMMOBILE)
    s = w[1:] - np.array(across, dtype=object) * (w[0] * inverse_n)
    scale = maximum(size, IMMOBILE)

    def impulses(slip: Any) -> np.ndarray:
        p, q = a + slip, d + slip
        t = np.array([b * s[1] - q * s[0], b * s[0] - p * s[1]], dtype=object)
        t = t * (1.0 / maximum(p * q - b * b, TINY))
        return np.array([-(w[0] + across[0] * t[0] + across[1] * t[1]) * inverse_n, *t], dtype=object)

    def outside(impulse: np.ndarray) -> Any:
        most = mu * maximum(impulse[0], 0.0)
        return impulse[1] * impulse[1] + impulse[2] * impulse[2] > most * most

    def bisect(bounds: np.ndarray) -> tuple[np.ndarray, Any]:
        low, high = bounds
        middle = low * sqrt(high / low)
        is_low = outside(impulses(middle))
        return np.array([where(is_low, middle, low), where(is_low, high, middle)]), is_low | (high > low)

    stuck = impulses(small * scale)
    sticks = where(outside(stuck), 0.0, 1.0) > 0.5
    bounds = np.array([scale * (1.0 / SLIP_RANGE), scale * SLIP_RANGE], dtype=object)
    slipping = impulses(loop(bisect, bounds, limit=SLIP_BISECTIONS)[1])
    result = where(sticks, stuck, slipping)
    result[0] = maximum(result[0], 0.0)
    u = slipping[1:] * (1.0 / maximum(length(slipping[1], slipping[2]), TINY))
    return result, where(sticks, STICKING, SLIDING), u
