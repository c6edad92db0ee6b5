"""The benchmarks of the paper Constrained (Sec. VIII): `PYTHONPATH=bench python -m papers constrained`.

Fig. 1 and Table II: operations and times of the solvers for constrained dynamics. Fig. 5 and Table III: those
of the damped inverse of the Delassus matrix. Fig. 3: scaling of the solvers with chains and trees. Fig. 4:
convergence with redundant constraints. Each is a table, a CSV file and a picture. Pinocchio's solvers are timed
in turns with linkwork's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.proximal import Settings
from linkwork.algorithms.newton import infinity_norm
from linkwork.cli.measure import Cost, costs, operations
from linkwork.compiler.ir.interpret import interpret
from linkwork.compiler.passes import lower
from linkwork.constraints import Connect, Constraint
from linkwork.functions.constrained import SOLVERS as METHODS
from linkwork.functions.constrained import constrained_dynamics, impact
from linkwork.functions.delassus import damped_delassus_inverse, damped_delassus_inverse_at_base
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.engine.model_function import model_function
from linkwork.joints import Free
from linkwork.lazy import cached_property
from linkwork.model import Model
from papers.constrained_sets import DAMPED, DYNAMICS, INVERSES, MU, SHIPPED, SOLVERS, Case, Sets, sets
from papers.figures import Figure, columns, show
from papers.loops import linear_fit
from papers.picture import Bars, Line, Panel, page

FIGURES = ("operations", "times", "damped_operations", "damped_times", "scaling", "convergence")  # of a Bench
ITERATIONS = 3
PARTS = (
    "inertias, or M and its factor",
    "more for constraints, Λ",
    "forces and accelerations",
    "iterations 2 and 3",
)
SWEPT = ("caba", "pv", "pv_early")  # the others factorise the mass matrix
AT_BASE = "caba, at base"
INVERTED = ("caba", AT_BASE, "pv", "ltl")
IN_TWO = (
    "Matrices as their upper triangle, which is what Pinocchio's own sweeps fill. "
    f"{AT_BASE}: in two parts, for products with it (cABA-OSIMf); it is not among those that ratios are of."
)
WHISKERS = (1, 25, 50, 75, 99)  # percentiles
GOOD = 1e-9  # largest residual of a converged constraint [rad/s² or m/s²]
LIKE = {
    "constrainedABA": 0,
    "pv": 1,
    "proxLTLs": 3,
    "lcaba": 5,
    "constraintDynamics": 4,
}  # colour of the method here


@dataclass(frozen=True)
class Sizes:
    """How much is measured, and how long."""

    table: int | None = None  # how many sets of constraints; None: all
    chains: tuple[int, ...] = (10, 20, 50, 100, 200)
    trees: tuple[int, ...] = (9, 21, 45, 93, 189)
    points: tuple[int, ...] = (1, 5, 10, 20, 40)  # held in a chain of 40
    states: int = 1000  # of Fig. 4
    steps: int = 10
    timed: int = 17_000  # largest number of operations of timed functions; caba is always timed
    turns: int = 20


QUICK = Sizes(table=1, chains=(2, 3), trees=(3, 9), points=(1, 2, 3), states=20, steps=2, timed=1100, turns=1)


def run(folder: Path, *, quick: bool = False, sizes: Sizes | None = None) -> int:
    """Measure, print, and write all figures into a folder."""
    bench = Bench(sizes or (QUICK if quick else Sizes()), SHIPPED if quick else sets())
    return show(folder, [getattr(bench, name) for name in FIGURES])


class Solved(NamedTuple):
    """What was measured on a set of constraints: costs by method, parts of them, and Pinocchio's ns."""

    case: Case
    dynamics: dict[str, Cost]
    inverse: dict[str, Cost]
    parts: dict[str, tuple[int, ...]]
    theirs: dict[str, float]


class Bench:
    """All figures of some sizes on some sets."""

    def __init__(self, sizes: Sizes, sets: Sets) -> None:
        self.sizes = sizes
        self.sets = sets

    @cached_property
    def solved(self) -> list[Solved]:
        return [self._solve(self.sets.case(name)) for name in self.sets.table[: self.sizes.table]]

    def _solve(self, case: Case) -> Solved:
        held = {"constraints": case.constraints, "compliance": MU}
        asked: dict[str, Any] = {
            method: (constrained_dynamics, options(case.constraints, method, ITERATIONS))
            for method in METHODS
        }
        packed = held | {"packed": True}  # as the upper triangle, which is what Pinocchio fills
        asked |= {
            f"{DAMPED}/{m}": (damped_delassus_inverse, packed | {"method": m})
            for m in INVERTED
            if m != AT_BASE
        }
        if isinstance(case.model.joints[0].kind, Free):
            asked[f"{DAMPED}/{AT_BASE}"] = (damped_delassus_inverse_at_base, held)
        with closing(case.peer()) as peer:
            turns = self.sizes.turns
            always = ("caba", f"{DAMPED}/caba")
            found = costs(
                asked,
                case.model,
                turns=turns,
                max_operations=self.sizes.timed,
                always=always,
                between=peer.turn,
            )
            theirs = peer.variants
        dynamics = {method: found[method] for method in METHODS}
        inverse = {
            m: found.get(f"{DAMPED}/{m}", found[f"{DAMPED}/caba"]) for m in INVERTED
        }  # on a fixed base both are one
        return Solved(
            case, dynamics, inverse, {m: parts(case, m, c.operations) for m, c in dynamics.items()}, theirs
        )

    def operations(self, note: str) -> Figure:
        """Return Fig. 1."""
        rows = [
            (s.case.name, s.case.model.nv, s.case.rows, method, cost.operations, *s.parts[method])
            for s in self.solved
            for method, cost in s.dynamics.items()
        ]
        panels = []
        for s in self.solved:
            stacks = {m: [(float(x), "") for x in s.parts[m][:-1]] for m in METHODS}
            for m, stack in stacks.items():
                stack.append((float(s.parts[m][-1]), f"{s.dynamics[m].operations}"))
            panels.append(Bars(s.case.name, PARTS, stacks, stacked=True))
        title = (
            f"Operations of constrained dynamics with {ITERATIONS} proximal iterations (Constrained Fig. 1)"
        )
        remarks = (
            "Inertias: all that does not depend on forces, counted without constraints; more: what constraints add to it.",
            "The paper counts three iterations as proximal; here the first is among forces and accelerations.",
        )
        head = ("constraints", "nv", "rows", "method", "operations", *PARTS)
        return Figure("fig01_operations", title, head, rows, page(title, panels, note), remarks)

    def times(self, note: str) -> Figure:
        """Return Table II."""
        algorithm = DYNAMICS[ITERATIONS]
        rows = [_compared(s.case, s.dynamics, s.theirs, algorithm, SOLVERS) for s in self.solved]
        title = f"Constrained dynamics with {ITERATIONS} proximal iterations, times (Constrained Table II)"
        return self._table("table2_times", title, tuple(METHODS), SOLVERS, rows, note)

    def damped_operations(self, note: str) -> Figure:
        """Return Fig. 5."""
        rows: list[tuple[Any, ...]] = [
            (s.case.name, s.case.model.nv, s.case.rows, *(s.inverse[m].operations for m in INVERTED))
            for s in self.solved
        ]
        panels = [
            Bars(
                robot,
                INVERTED,
                {_rest(r[0]): [(float(n), f"{n}") for n in r[3:]] for r in rows if _robot(r[0]) == robot},
            )
            for robot in self._robots()
        ]
        title = "Operations of the damped inverse of the Delassus matrix (Constrained Fig. 5)"
        head = ("constraints", "nv", "rows", *INVERTED)
        return Figure("fig05_damped_operations", title, head, rows, page(title, panels, note), (IN_TWO,))

    def damped_times(self, note: str) -> Figure:
        """Return Table III."""
        rows = [_compared(s.case, s.inverse, s.theirs, DAMPED, INVERSES) for s in self.solved]
        title = "Damped inverse of the Delassus matrix, times (Constrained Table III)"
        return self._table("table3_damped_times", title, INVERTED, INVERSES, rows, note, IN_TWO)

    def _table(
        self,
        name: str,
        title: str,
        ours: tuple[str, ...],
        theirs: tuple[str, ...],
        rows: list[Any],
        note: str,
        remark: str = "",
    ) -> Figure:
        """Return a table of times, with the best ones as bars."""
        panels: list[Panel | Bars] = []
        for robot in self._robots():
            own = {
                _rest(r[0]): [(1e-3 * x, f"{1e-3 * x:.2f}") for x in r[4:7] if x]
                for r in rows
                if _robot(r[0]) == robot
            }
            names = ("one state", "batch", "Pinocchio")
            panels.append(
                Bars(f"µs, {robot}", names, own) if any(own.values()) else Panel(f"µs, {robot}", "", "")
            )
        head = (
            "constraints", "nv", "rows", "fastest of Pinocchio", "best: one state, ns", "batch, ns", "Pinocchio, ns",
            "ratio: one state", "batch", *(f"{m}: one, ns" for m in ours), *(f"{m}: batch, ns" for m in ours),
            *(f"Pinocchio {solver}, ns" for solver in theirs),
        )  # fmt: skip
        called = "Pinocchio is called from Python." if self.sets is SHIPPED else ""
        told = "Ratios are of the fastest of each side. Pinocchio's batch on one core is one state after the other."
        remarks = tuple(words for words in (told, called, remark) if words)
        return Figure(name, title, head, rows, page(title, panels, note), remarks)

    def _robots(self) -> list[str]:
        return list(dict.fromkeys(_robot(s.case.name) for s in self.solved))

    def scaling(self, note: str) -> Figure:
        """Return Fig. 3."""
        rows: list[tuple[Any, ...]] = []
        for kind, sizes in (("chain", self.sizes.chains), ("tree", self.sizes.trees)):
            small = {
                iterations: list(METHODS) for iterations in DYNAMICS
            }  # methods that have not become too long to count
            for n in sizes:
                rows += self._scaled(kind, n, small)
        remarks = [*self._flatness(rows), self._in_rows()]
        panels = []
        for kind in ("chain", "tree"):
            for iterations in DYNAMICS:
                lines = []
                for k, method in enumerate((*METHODS, *SOLVERS)):
                    x, y = columns(
                        rows, (2, 9 + k + (k >= len(METHODS))), lambda r, w=(kind, iterations): r[:2] == w
                    )  # type: ignore[misc]
                    theirs = k >= len(METHODS)
                    lines.append(
                        Line(
                            f"Pinocchio {method}" if theirs else method,
                            x,
                            y,
                            LIKE[method] if theirs else k,
                            theirs,
                        )
                    )
                panels.append(
                    Panel(
                        f"{kind}, {_iterations(iterations)}", "links", "ns per link, one state", lines, "xy"
                    )
                )
        head = (
            "mechanism", "iterations", "links", "rows", *(f"{m}: operations per link" for m in METHODS),
            *(f"{m}: one, ns per link" for m in METHODS), "caba: batch, ns per link",
            *(f"Pinocchio {s}, ns per link" for s in SOLVERS),
        )  # fmt: skip
        title = "Constrained dynamics against the size of chains and trees (Constrained Fig. 3)"
        return Figure("fig03_scaling", title, head, rows, page(title, panels, note), tuple(remarks))

    def _scaled(self, kind: str, n: int, small: dict[int, list[str]]) -> Iterator[tuple[Any, ...]]:
        case = self.sets.case(f"{kind}{n}")
        with closing(case.peer()) as peer:
            for iterations, algorithm in DYNAMICS.items():
                held = case.constraints
                asked = {m: (constrained_dynamics, options(held, m, iterations)) for m in small[iterations]}
                turns = self.sizes.turns
                max_operations = self.sizes.timed
                found = costs(
                    asked,
                    case.model,
                    turns=turns,
                    max_operations=max_operations,
                    always=("caba",),
                    between=peer.turn,
                )
                small[iterations] = [
                    m for m in asked if m == "caba" or found[m].operations <= 2 * self.sizes.timed
                ]
                each = [found.get(m) for m in METHODS]
                row = (kind, iterations, n, case.rows, *(c and round(c.operations / n, 1) for c in each))
                batch = found["caba"].batch
                row = (*row, *(c and c.one and c.one / n for c in each), batch and batch / n)
                theirs = (peer.variants.get(f"{algorithm}/{s}") for s in SOLVERS)
                yield (*row, *(ns and ns / n for ns in theirs))

    def _flatness(self, rows: list[tuple[Any, ...]]) -> Iterator[str]:
        for kind in ("chain", "tree"):
            for iterations in DYNAMICS:
                own = [r for r in rows if r[:2] == (kind, iterations)]
                n = [r[2] for r in own]
                counts = [r[2] * r[4] for r in own]
                slope, _, square = linear_fit(n, counts)
                ns = [r[9] for r in own if r[9]]
                spread = (
                    f"; {ns[0]:.1f} to {ns[-1]:.1f} ns per link from {n[0]} to {n[-1]} links, " if ns else ""
                )
                spread += f"{max(ns) / min(ns) - 1:.0%} between the least and the most" if ns else ""
                yield f"caba, {kind}, {_iterations(iterations)}: {slope:.1f} operations per link, R² = {square:.6f}{spread}"

    def _in_rows(self) -> str:
        """Return the growth of operations with the number of constrained points of a chain."""
        links = max(self.sizes.points)
        model = SHIPPED.case(f"chain{links}").model
        counts = []
        for held in self.sizes.points:
            places = [round((k + 1) * links / held) - 1 for k in range(held)]
            points = tuple(Connect(model.bodies[k].name) for k in places)
            counts.append(operations(constrained_dynamics, model, **options(points, "caba", ITERATIONS)))
        slope, _, square = linear_fit([3 * held for held in self.sizes.points], counts)
        return f"caba, chain of {links} held at points: {slope:.1f} operations for each row more, R² = {square:.6f}"

    def convergence(self, note: str) -> Figure:
        """Return Fig. 4; velocities satisfy the constraints, since redundant rows would contradict each other
        otherwise.
        """
        case = self.sets.case(self.sets.redundant)
        rng = np.random.default_rng(4)
        q = np.array([case.model.random_state(rng)[0] for _ in range(self.sizes.states)])
        free, tau = rng.normal(size=(2, self.sizes.states, case.model.nv))
        projected = impact.program(case.model, constraints=case.constraints, method="ltl")
        v = interpret(lower(projected), q, free)[0]
        v, free = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (v, free))
        rows: list[tuple[Any, ...]] = []
        panels = []
        remarks = []
        for method in METHODS:
            program = residuals.program(
                case.model, constraints=case.constraints, by=method, steps=self.sizes.steps
            )
            left = np.maximum(interpret(lower(program), q, v, tau), 1e-16)
            whiskers = np.percentile(left, WHISKERS, axis=0)
            rows += [
                (method, step + 1, *(f"{x:.2e}" for x in whiskers[:, step]))
                for step in range(self.sizes.steps)
            ]
            steps = range(1, self.sizes.steps + 1)
            lines = [
                Line(f"{p} %" if p != 50 else "median", steps, y, c, p in (1, 99), p == 50)
                for p, y, c in zip(WHISKERS, whiskers, (5, 3, 0, 3, 5))
            ]
            panels.append(Panel(method, "iterations", "largest error, rad/s² or m/s²", lines, "y"))
            needed = np.where((left <= GOOD).any(axis=1), 1.0 + np.argmax(left <= GOOD, axis=1), np.inf)
            ends = options(case.constraints, method, 20) | {"tolerance": GOOD, "details": True}
            own = interpret(lower(constrained_dynamics.program(case.model, **ends)), q, free, tau)[3]
            told = [f"median {_higher(n, 50)}, 99th percentile {_higher(n, 99)}" for n in (needed, own)]
            remarks.append(
                f"{method}: iterations to {GOOD:g}: {told[0]}; until it ends where rows contradict: {told[1]}"
            )
        title = f"Convergence on {case.name}, {case.rows} redundant rows (Constrained Fig. 4)"
        head = ("method", "iterations", *(f"{p} %" for p in WHISKERS))
        return Figure(
            "fig04_convergence", title, head, rows, page(title, panels, note, columns=3), tuple(remarks)
        )


def options(constraints: tuple[Constraint, ...], method: str, iterations: int) -> dict[str, Any]:
    """Return options of constrained dynamics with a fixed number of iterations."""
    fixed = {"compliance": MU, "tolerance": None}
    return {"constraints": constraints, "method": method, "iterations": iterations, **fixed}


def parts(case: Case, method: str, whole: int) -> tuple[int, ...]:
    """Return the operations of PARTS; operations shared by two forces are those needed without forces."""
    bare = "articulated_body" if method in SWEPT else "mass_matrix"
    once = operations(constrained_dynamics, case.model, **options(case.constraints, method, 1))
    shared = 2 * once - operations(under_two_forces, case.model, constraints=case.constraints, by=method)
    free = 2 * operations(forward_dynamics, case.model, method=bare)
    free -= operations(under_two_forces, case.model, constraints=(), by=bare)
    return free, shared - free, once - shared, whole - once


@model_function(q="nq", v="nv", tau="nv", other="nv")
def under_two_forces(
    model: Model, q: Any, v: Any, tau: Any, other: Any, *, constraints: Any, by: str
) -> tuple[Any, ...]:
    """Return constrained dynamics with one iteration, or forward dynamics under two joint forces."""
    if not constraints:
        return tuple(forward_dynamics(model, q, v, x, method=by) for x in (tau, other))
    fixed = {"method": by, "iterations": 1, "tolerance": None, "compliance": MU}
    first, second = (
        constrained_dynamics(model, q, v, x, constraints=constraints, **fixed) for x in (tau, other)
    )
    return (*first, *second)


@model_function(q="nq", v="nv", tau="nv")
def residuals(model: Model, q: Any, v: Any, tau: Any, *, constraints: Any, by: str, steps: int) -> Any:
    """Return the largest constraint residual [rad/s² or m/s²] after 1, 2, ... iterations, (..., steps), by
    the accelerations.
    """
    held = ConstraintRows(nodes_for(model, constraints, q, v), constraints)
    J = held.jacobian()
    rest = held.at_rest()
    R = np.full(held.m, MU)
    start = np.zeros(held.m)
    found = [METHODS[by](held, tau, start, Settings(R, n + 1, None)).ddtheta for n in range(steps)]
    return np.array([infinity_norm(J @ a + rest) for a in found])


def _compared(
    case: Case, ours: dict[str, Cost], theirs: dict[str, float], algorithm: str, solvers: tuple[str, ...]
) -> tuple[Any, ...]:
    """Return a row: the best times of one state, in a batch, and of Pinocchio, the speedups, and all times."""
    ns = {s: theirs[f"{algorithm}/{s}"] for s in solvers if f"{algorithm}/{s}" in theirs}
    whole = [cost for method, cost in ours.items() if method != AT_BASE]
    best = [
        min((x for x in times if x), default=None)
        for times in ([c.one for c in whole], [c.batch for c in whole])
    ]
    fastest = min(ns, key=lambda s: ns[s]) if ns else None
    ratios = [round(ns[fastest] / x, 2) if fastest and x else None for x in best]
    row = (case.name, case.model.nv, case.rows, fastest, *best, ns[fastest] if fastest else None, *ratios)
    return (
        *row,
        *(c.one for c in ours.values()),
        *(c.batch for c in ours.values()),
        *(ns.get(s) for s in solvers),
    )


def _iterations(n: int) -> str:
    return "1 iteration" if n == 1 else f"{n} iterations"


def _robot(name: str) -> str:
    """Return the robot in the name of a set."""
    return name.partition(" ")[0]


def _rest(name: str) -> str:
    """Return the name of a set without its robot."""
    return name.partition(" ")[2] or name


def _higher(x: np.ndarray, percent: float) -> str:
    """Return a percentile, rounded up to an existing value."""
    return f"{np.percentile(x, percent, method='higher'):g}"
