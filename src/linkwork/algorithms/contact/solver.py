"""The contact problem: impulses λ and velocities w = G λ + g that satisfy a law in every block of rows.

Block Gauss-Seidel solves one block's law after the other; it is robust, and slow where contacts are coupled.
So each sweep is followed by a Newton step on the branches of the laws (open, sticking, sliding) that the
sweep has found. It is kept if the next sweep has less to change then, or after a few more such steps:
branches may have to change on the way, one contact after the other, as in active-set methods. Otherwise
sweeps go on from where they were, more of them after each such failure. Near a solution that is quadratic
convergence. Many points on few bodies are solved by Newton's method alone (`contact_newton`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.contact import newton as contact_newton
from linkwork.algorithms.contact.carried import Carried
from linkwork.algorithms.contact.friction_laws import Coulomb
from linkwork.algorithms.contact.laws import IMMOBILE, Block, Bounded, Interval, Linear
from linkwork.algorithms.newton import infinity_norm, one_norm, tolerance
from linkwork.compiler.ir.functions import absolute, loop, maximum, minimum, sqrt, where
from linkwork.spatial import is_zero
from linkwork.spatial.solve import solve_without_pivots

LESS = 0.9  # by what factor a Newton step must make the change of the next sweep smaller
WATCHED = 5  # Newton steps in a row that may fail in this before sweeps go on from where they were
ROUNDED = 1e-12  # of the velocities: what may be left by rounding
FAST = 3.0  # [m/s] the largest velocity that counts in this: targets of contacts that are far away are larger
# its geometric mean with the former, 1e-8, is what Newton's steps add to the diagonal of G, relative to it
PROXIMAL = 1e-4
GAINED = 1e-6  # of the energy that bounces give and take: what they may gain by rounding
LEAST_PART = 0.01  # of restitution: less is none
MOST_MOTIONS = 60  # rows up to which Newton's method alone solves for all of them
PARTS = 20  # how often a smaller part of the restitution may be tried
MOST_NEWTON_ROWS = 24  # beyond, the factorisation of a Newton step costs more than the sweeps that it saves
MOST_ROWS_TOGETHER = 15  # up to here, with limits and dry friction of joints among them


class Bounce(NamedTuple):
    """Restitution in some `rows`: `free`, (m,), are all velocities without impulses, and g = free +
    targets(part), (m,).

    Several contacts that bounce, or friction that turns a sliding point back, may gain energy by Newton's law
    (Kane's paradox). Then only a part of the restitution acts, the same in all contacts. With none of it
    energy is never gained.
    """

    free: np.ndarray
    targets: Callable[[Any], np.ndarray]
    rows: Sequence[int]

    def less(self, lam: np.ndarray, part: Any) -> Any:
        """Return the part of the restitution with which impulses do not gain energy, from a solution: `part`
        if that does not.

        The work of impulses is λᵀ(w + free) / 2. Of λᵀw that of friction is left out, which is never
        positive.
        """
        back = self.targets(0.0) - self.targets(part)
        energy: Any = sum(lam[i] * back[i] for i in self.rows)
        taken = -_product(lam, self.free, 0.0)
        gains = (energy - taken > GAINED * (energy + taken)) & (energy > 0.0)
        ratio = where(gains, 0.5 * (energy + taken) / where(gains, energy, 1.0), 1.0)
        smaller = part * ratio * ratio
        return where(gains, where(smaller > LEAST_PART, smaller, 0.0), part)


class Problem(NamedTuple):
    """G, (m, m), is symmetric and positive semidefinite, g (m,) are velocities without impulses; blocks cover
    all rows.

    `carried`: impulses act through the motion of bodies instead, and `solve` does not look at G. `bounce`:
    what g is with a part of restitution only.
    """

    G: np.ndarray
    g: np.ndarray
    blocks: Sequence[Block]
    carried: Carried | None = None
    bounce: Bounce | None = None


Step = Callable[[np.ndarray], tuple[np.ndarray, Any]]


class Solution(NamedTuple):
    """Impulses, (m,), the largest violation of any law [m/s or rad/s], the sweeps, and 1 if that is within
    the tolerance.

    `part`: of the restitution, that which acts.
    """

    impulses: np.ndarray
    residual: Any
    iterations: Any
    converged: Any
    part: Any = 1.0


def solve(
    problem: Problem, start: np.ndarray, iterations: int, within: float, *, implicit: bool = False
) -> Solution:
    """Return the solution from impulses to `start` with, (m,).

    `implicit`: its derivatives are those of the branches of the laws that hold there, by the implicit
    function theorem.
    """
    m = len(problem.g)
    if m == 0:
        return Solution(np.zeros(0, dtype=object), 0.0, 0.0, 1.0)
    if problem.carried is not None or (m <= MOST_MOTIONS and not implicit):
        return _on_bodies(problem, start, iterations, within)
    G, g, blocks, _, bounce = problem
    small = proximal(g)
    for block in blocks:
        block.prepare(G, small)
    least = within + tolerance(ROUNDED, g) * minimum(infinity_norm(g), FAST)
    solved = _solved_by_newton(problem)

    def step(x: np.ndarray) -> tuple[np.ndarray, Any]:
        lam = x[:m]
        retained = x[m : 2 * m]
        best, guessed, wait, pause, *part, count = x[2 * m :]
        now = problem if bounce is None else problem._replace(g=bounce.free + bounce.targets(part[0]))
        swept, change, branches = _sweep(now, lam)
        change = _plain(change)
        better = (LESS * best > change) | (guessed < 0.5)
        retained = where(better, swept, retained)
        best = where(better, change, best)
        ahead = retained
        if solved:
            tried = _guess(now, swept, solved, branches)
            take = (where(better, wait, guessed - (WATCHED - 1.0)) < 0.5) & (one_norm(tried) < np.inf)
            ahead = where(take, tried, retained)
            guessed = where(take, where(better, 1.0, guessed + 1.0), 0.0)
            wait = where(better, wait - 1.0, where(take, wait, pause))
            pause = where(better | take, pause, 2.0 * pause)
        more = best > 0.1 * least
        if bounce is not None:
            # solved, but impulses gain energy: go on from here with a smaller part of the restitution
            smaller = where(more, part[0], bounce.less(retained, part[0]))
            again = smaller < part[0]
            part = [smaller]
            more = more | again
            ahead = where(again, retained, ahead)
            best = where(again, np.inf, best)
            guessed, wait, pause = (
                where(again, x, y) for x, y in ((0.0, guessed), (0.0, wait), (1.0, pause))
            )
        return np.array(
            [*ahead, *retained, best, guessed, wait, pause, *part, count + 1.0], dtype=object
        ), more

    first = np.array(
        [*start, *start, np.inf, 0.0, 0.0, 1.0, *([] if bounce is None else [1.0]), 0.0], dtype=object
    )
    lam, last = _iterated(problem, step, start, first, iterations, implicit)
    part = 1.0 if bounce is None else last[-2]
    at_end = problem if bounce is None else problem._replace(g=bounce.free + bounce.targets(part))
    residual = violation(at_end, lam)
    return Solution(lam, residual, last[-1], where(_plain(residual) <= least, 1.0, 0.0), part)


def _iterated(
    problem: Problem, step: Step, start: np.ndarray, first: np.ndarray, iterations: int, implicit: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the impulses, (m,), and the last state of the solver's steps."""
    m = len(start)
    if not implicit:
        last = loop(step, first, limit=iterations)
        return last[m : 2 * m], last
    state = np.concatenate([start, first, np.zeros(m * m)])
    last = loop(_with_branches(problem, step), state, limit=iterations, newton=m)
    return last[:m], last[: -m * m]


def _guess(problem: Problem, swept: np.ndarray, solved: Sequence[int], branches: Sequence[Any]) -> np.ndarray:
    """Return the impulses after a Newton step from those of a sweep; `solved` are the blocks that it solves
    for, by index.
    """
    blocks = problem.blocks
    lines = [blocks[k].linearised(swept[list(blocks[k].rows)], branches[k]) for k in solved]
    return _until_one_opens(blocks, swept, _newton(problem, swept, [blocks[k] for k in solved], lines))


def _on_bodies(problem: Problem, start: np.ndarray, iterations: int, within: float) -> Solution:
    """Return the solution where bodies carry contacts."""
    G, g, blocks, carried, bounce = problem
    if alone := carried is None:  # rows are motions themselves
        carried = Carried(np.eye(len(g)).astype(object), G, np.zeros(len(g)), _contacts(blocks))
    else:
        carried = carried.in_axes_of_contact()
        G = carried.delassus_blocks()
    for block in blocks:
        block.prepare(G, proximal(g))
    least = within + tolerance(ROUNDED, g) * minimum(infinity_norm(g), FAST)
    if bounce is None:
        lam, residual, count = contact_newton.solve(carried, g, blocks, start, least, iterations, alone)
        return Solution(lam, residual, count, where(_plain(residual) <= least, 1.0, 0.0))
    m = len(g)

    def step(x: np.ndarray) -> tuple[np.ndarray, Any]:
        """Solve with a part of the restitution; again with a smaller one if impulses gain energy."""
        part = x[m]
        targets = bounce.free + bounce.targets(part)
        lam, residual, count = contact_newton.solve(carried, targets, blocks, x[:m], least, iterations, alone)
        smaller = where(residual <= least, bounce.less(lam, part), part)
        again = smaller < part
        after = [*lam, where(again, smaller, part), residual, x[m + 2] + count]
        return np.array(after, dtype=object), again

    first = np.array([*start, 1.0, np.inf, 0.0], dtype=object)
    lam, (part, residual, count) = (last := loop(step, first, limit=PARTS))[:m], last[m:]
    return Solution(lam, residual, count, where(_plain(residual) <= least, 1.0, 0.0), part)


def _contacts(blocks: Sequence[Block]) -> list[list[int]]:
    """Return the rows of each contact."""
    result: dict[int, list[int]] = {}
    for block in blocks:
        first = block.rows[0] if isinstance(block, Coulomb) else getattr(block, "normal", None)
        if first is not None:
            result.setdefault(first, []).extend(block.rows)
    return list(result.values())


def proximal(g: np.ndarray) -> Any:
    """Return the proximal term on the diagonal of G, relative to it: 1e-8, or more in single precision."""
    return sqrt(tolerance(ROUNDED, g) * PROXIMAL)


def _plain(x: Any) -> Any:
    """Return a number as a Python float: NumPy scalars would compare themselves with symbols."""
    return float(x) if isinstance(x, np.floating) else x


def violation(problem: Problem, lam: np.ndarray) -> Any:
    """Return the largest violation of any law [m/s or rad/s]; infinite for impulses that are not finite."""
    G, g, blocks, carried, _ = problem
    w = g + (G @ lam if carried is None else carried.of_rows(carried.motion(lam)) + carried.soft * lam)
    result: Any = 0.0
    for block in blocks:
        rows = list(block.rows)
        result = maximum(block.violation(w[rows], lam[rows], lam), result)
    return where(one_norm(lam) < np.inf, result, np.inf)


def _sweep(problem: Problem, lam: np.ndarray) -> tuple[np.ndarray, Any, list[Any]]:
    """Return impulses after one update of each block in turn, the largest change in units of velocity, and
    branches of the laws.
    """
    G, g, blocks, *_ = problem
    lam = np.array(lam, dtype=object)
    change = 0.0
    branches = []
    for block in blocks:
        rows = list(block.rows)
        others = [j for j in range(len(g)) if j not in rows]
        w = np.array([_product(G[i, others], lam[others], g[i]) for i in rows], dtype=object)
        new, branch = block.update(w, lam[rows], lam)
        for i, x in zip(rows, new):
            change = maximum(change, G[i, i] * absolute(x - lam[i]))
        lam[rows] = new
        branches.append(branch)
    return lam, change, branches


def _product(row: np.ndarray, x: np.ndarray, start: Any) -> Any:
    for a, b in zip(row, x):
        if not is_zero(a):
            start = start + a * b
    return start


def _solved_by_newton(problem: Problem) -> list[int]:
    """Return the blocks that Newton's steps solve for: all, or only contacts, or none where these are too
    many.
    """
    every = list(problem.blocks)
    contacts = [
        block for block in every if not isinstance(block, (Interval, Bounded)) or block.normal is not None
    ]
    for selected, most in ((every, MOST_ROWS_TOGETHER), (contacts, MOST_NEWTON_ROWS)):
        if sum(len(block.rows) for block in selected) <= most:
            return [k for k, block in enumerate(every) if block in selected]
    return []


def _with_branches(problem: Problem, step: Step) -> Step:
    """Return the steps of the solver with one of Newton's method besides, on the branches of all laws at the
    impulses that are kept.

    The loop's derivative is that of it. The state is these impulses, Newton's, those to go on from, and what
    the solver remembers; then the inverse of the equations' matrix where the impulses are now: the derivative
    needs none of its own.
    """
    m = len(problem.g)

    def again(x: np.ndarray) -> tuple[np.ndarray, Any]:
        retained = x[:m]
        lam = x[2 * m : 3 * m]
        others = x[3 * m : -m * m]
        inverse = x[-m * m :].reshape(m, m)
        after, more = step(np.concatenate([lam, retained, others]))
        newton = retained - inverse @ residual_of(
            problem.G @ retained + problem.g, retained, on_branches(problem, retained)
        )
        now = after[m : 2 * m]
        new = inverse_of(problem, on_branches(problem, now))
        return np.concatenate([now, newton, after[:m], after[2 * m :], new.ravel()]), more

    return again


def on_branches(problem: Problem, lam: np.ndarray) -> list[tuple[Block, Linear]]:
    """Return the linearised laws of all blocks on their branches at lam."""
    G = problem.G
    w = G @ lam + problem.g
    result = []
    for block in problem.blocks:
        rows = list(block.rows)
        block_lam = lam[rows]
        branch = block.branch(w[rows], block_lam, lam, G[np.ix_(rows, rows)])
        result.append((block, block.linearised(block_lam, branch)))
    return result


def residual_of(w: np.ndarray, lam: np.ndarray, lines: Sequence[tuple[Block, Linear]]) -> np.ndarray:
    """Return the residual of the linearised laws, (m,), at impulses lam and velocities w."""
    result: Any = np.zeros(len(lam), dtype=object)
    for block, line in lines:
        rows = list(block.rows)
        result[rows] = line.P @ w[rows] + line.N @ lam[rows] - line.r
        if line.other is not None:
            result[rows] = result[rows] + line.column * lam[line.other]
    return result


def inverse_of(problem: Problem, lines: Sequence[tuple[Block, Linear]]) -> np.ndarray:
    """Return the inverse of the matrix of all linearised laws, (m, m)."""
    G = problem.G
    A: Any = np.zeros(G.shape, dtype=object)
    for block, line in lines:
        rows = list(block.rows)
        A[rows] = line.P @ G[rows]
        A[np.ix_(rows, rows)] = A[np.ix_(rows, rows)] + line.N
        if line.other is not None:
            A[rows, line.other] = A[rows, line.other] + line.column
    for i in range(len(G)):
        A[i, i] = where(G[i, i] > IMMOBILE, A[i, i], 1.0)  # a row that cannot move has no impulse
    return solve_without_pivots(A, np.eye(len(G)).astype(object))


def _newton(
    problem: Problem, lam: np.ndarray, blocks: Sequence[Block], lines: Sequence[Linear]
) -> np.ndarray:
    """Return impulses that satisfy the linearised laws of some blocks, while those of all others stay."""
    rows = [i for block in blocks for i in block.rows]
    place = {i: k for k, i in enumerate(rows)}
    others = [j for j in range(len(lam)) if j not in place]
    G = problem.G[np.ix_(rows, rows)]
    g = np.array([_product(problem.G[i, others], lam[others], problem.g[i]) for i in rows], dtype=object)
    A: Any = np.zeros(G.shape, dtype=object)
    b: Any = np.zeros(len(rows), dtype=object)
    for block, line in zip(blocks, lines):
        block_places = [place[i] for i in block.rows]
        A[block_places] = line.P @ G[block_places]
        A[np.ix_(block_places, block_places)] = A[np.ix_(block_places, block_places)] + line.N
        b[block_places] = line.r - line.P @ g[block_places]
        if line.other is not None:
            A[block_places, place[line.other]] = A[block_places, place[line.other]] + line.column
    result = np.array(lam, dtype=object)
    result[rows] = solve_without_pivots(A, b[:, None])[:, 0]
    return result


def _until_one_opens(blocks: Sequence[Block], lam: np.ndarray, tried: np.ndarray) -> np.ndarray:
    """Return the way from impulses λ to those that were tried, up to where the first contact would begin to
    pull: that one opens.

    Where contacts of one body contradict each other a little, their equations have no solution with all of
    them closed.
    """
    normals = [
        block.rows[0]
        for block in blocks
        if isinstance(block, Coulomb) or getattr(block, "normal", -1) == block.rows[0]
    ]
    part: Any = 1.0
    parts: dict[int, Any] = {}
    for i in normals:
        pulls = (tried[i] < 0.0) & (lam[i] > 0.0)
        parts[i] = where(pulls, lam[i] / where(pulls, lam[i] - tried[i], 1.0), 2.0)
        part = minimum(parts[i], part)
    result = lam + part * (tried - lam)
    for i in normals:
        result[i] = where(part < parts[i], result[i], 0.0)
    return result
