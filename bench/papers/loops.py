"""The benchmarks of the paper Loops (Sec. VI): `PYTHONPATH=bench python -m papers loops`.

Fig. 8: growth of forward dynamics with depth and branches of a mechanism with loops. Fig. 10: growth with the
size of one loop. Fig. 12: cost of exact rotors. Fig. 13: torque errors without rotors. Each is a table, a CSV
file and a picture, with operations and measured times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from linkwork import joints, robots
from linkwork.cli.measure import Cost, cost, operations
from linkwork.functions import load as loading
from linkwork.functions.approximations import APPROXIMATIONS, EXACT, Comparison, compare_approximations
from linkwork.functions.constrained import constrained_dynamics
from linkwork.functions.dynamics import forward_dynamics
from linkwork.functions.kinematics import forward_kinematics
from linkwork.functions.states import integrate
from linkwork.joints import Joint
from linkwork.mechanism.loops import End, Loop
from linkwork.model import GROUND, Model
from linkwork.spatial import Pose
from papers.figures import Figure, columns, show
from papers.kkt import forward_dynamics_kkt
from papers.peers import pinocchio_times
from papers.picture import Bars, Line, Panel, page

MECHANISMS: dict[str, Callable[..., Model]] = {
    "link and rotor": robots.link_rotor_chain,
    "parallel belt": robots.belt_chain,
    "four-bar": robots.four_bar_chain,
}
LOOPS: dict[str, Callable[..., Model]] = {
    "transmission": robots.transmission_loop,
    "connecting rod": robots.connecting_rod_loop,
}
# exact and approximate, and what the paper says that exact costs more in operations
ROBOTS: dict[str, tuple[Callable[..., Model], float]] = {
    "Mini Cheetah": (robots.mini_cheetah, 1.63),
    "MIT Humanoid": (robots.mit_humanoid, 1.98),
    "Tello": (lambda **more: robots.tello(arms=True, **more), 2.23),
    "JVRC-1": (robots.jvrc1, 1.46),
}
# what the paper's experiment gives (Fig. 13): RMS of torque errors [N m]
PAPER_RMS = {
    "ignored": (0.288, 0.266, 0.989, 4.310, 1.588),
    "diagonal": (0.206, 0.178, 0.365, 1.045, 0.826),
    "block": (0.206, 0.178, 0.365, 0.301, 0.070),
}
NEAR = 5  # depth from which on operations grow by the same for each more
OURS = "embedding"
FACTORED = "embedding, by mass matrix"
KKT = "KKT, sparse"
PROXIMAL = "proximal and sparse"
HYBRID = "the cheaper for each loop"
ITERATIONS = 3  # of the proximal and sparse way


@dataclass(frozen=True)
class Sizes:
    """How large the mechanisms are, and how long is measured."""

    depths: tuple[int, ...] = (1, 2, 5, 10, 15, 20, 25, 30, 35, 40)
    branches: tuple[int, ...] = (1, 2, 4, 6)
    trees: tuple[int, ...] = (5, 10, 20, 40)
    loops: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40)
    robots: tuple[str, ...] = tuple(ROBOTS)
    both: tuple[str, ...] = ("Mini Cheetah, standing", "Tello, standing", "two geared arms, one thing")
    embedded_loop: int = (
        20  # longest path of a loop from the ground for sweeps, whose operations grow as its cube
    )
    kkt_bodies: int = 90  # most bodies for the KKT way
    timed: int = (
        25_000  # most operations of what is compiled and timed; a quarter of it in Fig. 10, which has many
    )
    turns: int = 12
    step: float = 5e-4  # [s] of Fig. 13


QUICK = Sizes(
    depths=(2, 5, 7, 10),
    branches=(1,),
    trees=(3,),
    loops=(1, 3),
    robots=("Mini Cheetah",),
    both=(),
    timed=600,
    turns=1,
    step=5e-3,
)


def run(folder: Path, *, quick: bool = False, sizes: Sizes | None = None) -> int:
    """Measure, print, and write all figures into a folder."""
    sizes = sizes or (QUICK if quick else Sizes())
    figures = (depth, locality, *((both_kinds,) if sizes.both else ()), exactness, torques)
    return show(folder, [partial(figure, sizes) for figure in figures])


# Fig. 8


def depth(sizes: Sizes, note: str) -> Figure:
    """Return operations of forward dynamics against depth, for branches and kinds of mechanism."""
    rows: list[tuple[Any, ...]] = []
    for kind, make in MECHANISMS.items():
        for branches in sizes.branches:
            for d in sizes.depths:
                model = make(d, branches=branches)
                timed = sizes.turns if branches == sizes.branches[0] else 0
                ours = cost(
                    forward_dynamics,
                    model,
                    method="articulated_body",
                    turns=timed,
                    max_operations=sizes.timed,
                )
                kkt = Cost(0)
                if len(model.bodies) <= sizes.kkt_bodies:
                    kkt = cost(forward_dynamics_kkt, model, turns=timed, max_operations=sizes.timed)
                theirs = pinocchio_times(model, timed if d <= 20 else 0)
                row = (
                    kind,
                    branches,
                    d,
                    len(model.bodies),
                    model.nv,
                    ours.operations,
                    kkt.operations or None,
                )
                rows.append((*row, *ours[1:], *kkt[1:], min(theirs.values(), default=None), _fastest(theirs)))
    fits: dict[str, float] = {}
    remarks = []
    for kind in MECHANISMS:
        for b in sizes.branches:
            x, y = columns(rows, (2, 5), lambda r, kind=kind, b=b: r[:2] == (kind, b))  # type: ignore[misc]
            slope, _, all_of_them = linear_fit(x, y)
            far = [k for k, d in enumerate(x) if d >= NEAR]
            if len(far) > 2:
                slope, _, fits[kind] = linear_fit([x[k] for k in far], [y[k] for k in far])
            behind = f", {fits[kind]:.7f} from {NEAR} on" if len(far) > 2 else ""
            remarks.append(
                f"{kind}, {_branches(b)}: {slope:.1f} operations for each more, R² = {all_of_them:.5f}{behind}"
            )
    remarks.append(f"Up to about {NEAR} from the ground, what does not move there saves operations.")
    remarks.append(f"{KKT}: all joints' velocities and forces are given, {OURS}: the independent ones.")
    panels = []
    for kind in MECHANISMS:
        lines = []
        for k, b in enumerate(sizes.branches):
            x, y = columns(rows, (2, 5), lambda r, kind=kind, b=b: r[:2] == (kind, b))  # type: ignore[misc]
            lines.append(Line(f"{OURS}, {_branches(b)}", x, y, k))
            x, y = columns(rows, (2, 6), lambda r, kind=kind, b=b: r[:2] == (kind, b))  # type: ignore[misc]
            lines.append(Line(f"{KKT}, {_branches(b)}", x, y, k, dashed=True))
        told = f" (R² = {fits[kind]:.6f} from {NEAR} on)" if kind in fits else ""
        panels.append(Panel(f"{kind}{told}", "depth", "operations", lines))
    head = (
        "mechanism", "branches", "depth", "bodies", "nv", "operations", f"{KKT}: operations", "one state, ns",
        "batch, ns", f"{KKT}: one state, ns", "batch, ns", "Pinocchio, ns", "by",
    )  # fmt: skip
    title = "Forward dynamics against depth (Loops Fig. 8)"
    return Figure("fig08_depth", title, head, rows, page(title, panels, note, columns=3), tuple(remarks))


def linear_fit(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Return slope and intercept of the least-squares line, and R²."""
    slope, start = np.polyfit(x, y, 1)
    left = np.asarray(y) - (slope * np.asarray(x) + start)
    spread = np.asarray(y) - np.mean(y)
    return float(slope), float(start), float(1.0 - left @ left / (spread @ spread))


# Fig. 10


def locality(sizes: Sizes, note: str) -> Figure:
    """Return operations of forward dynamics against the size of a loop in two chains."""
    rows: list[tuple[Any, ...]] = []
    for kind, make in LOOPS.items():
        for tree in sizes.trees:
            for at in (n for n in sizes.loops if n <= tree):
                model = make(tree, at)
                swept = at <= sizes.embedded_loop
                ours = operations(forward_dynamics, model, method="articulated_body") if swept else None
                by_matrix = operations(forward_dynamics, model, method="mass_matrix")
                better = "articulated_body" if ours is not None and ours <= by_matrix else "mass_matrix"
                timed = cost(
                    forward_dynamics, model, method=better, turns=sizes.turns, max_operations=sizes.timed // 4
                )
                kkt = cost(forward_dynamics_kkt, model, turns=sizes.turns, max_operations=sizes.timed // 4)
                held = model.with_loops(constrain=[loop.name for loop in model.embedded])
                sparse = constrained(held, method="ltl", iterations=ITERATIONS)
                counted = constrained(held, method="auto")
                hybrid = counted
                if min(timed.operations, ours or timed.operations) <= counted.operations:
                    hybrid = timed
                elif sizes.turns and counted.operations <= sizes.timed // 4:
                    hybrid = constrained(
                        held, method="auto", turns=sizes.turns, max_operations=sizes.timed // 4
                    )
                theirs = pinocchio_times(model, sizes.turns)
                row: tuple[Any, ...] = (
                    kind,
                    tree,
                    at,
                    2 * at + (kind != "transmission"),
                    len(model.bodies),
                    model.nv,
                )
                row = (*row, ours, by_matrix, kkt.operations, sparse.operations, hybrid.operations)
                row = (*row, *timed[1:], *kkt[1:], *hybrid[1:])
                rows.append(
                    (*row, *(theirs.get(w) for w in ("constraintDynamics", "lcaba", "forwardDynamics")))
                )
    panels = []
    for kind in LOOPS:
        for tree in sizes.trees:
            lines = []
            for k, (name, column) in enumerate(
                ((OURS, 6), (FACTORED, 7), (KKT, 8), (PROXIMAL, 9), (HYBRID, 10))
            ):
                x, y = columns(rows, (2, column), lambda r, kind=kind, tree=tree: r[:2] == (kind, tree))  # type: ignore[misc]
                lines.append(Line(name, x, y, k, dashed=k in (2, 3)))
            panels.append(
                Panel(f"{kind}, two chains of {tree}", "depth of the loop", "operations", lines, "y")
            )
    head = (
        "loop", "chains", "at", "loop size", "bodies", "nv", f"{OURS}: operations", "by mass matrix", KKT,
        PROXIMAL, HYBRID, "better embedding: one state, ns", "batch, ns", f"{KKT}: one state, ns", "batch, ns",
        f"{HYBRID}: one state, ns", "batch, ns",
        "constraintDynamics, ns", "lcaba, ns", "forwardDynamics, ns",
    )  # fmt: skip
    title = "Forward dynamics against the size of a loop (Loops Fig. 10)"
    remarks = [_crossing(kind, tree, rows) for kind in LOOPS for tree in sizes.trees]
    return Figure("fig10_locality", title, head, rows, page(title, panels, note), tuple(remarks))


def constrained(
    model: Model,
    *,
    turns: int = 0,
    max_operations: int = 0,
    iterations: int = loading.COUNTED_ITERATIONS,
    **options: Any,
) -> Cost:
    """Return the cost of forward dynamics with constrained loops, with a number of proximal iterations."""
    fixed = {"constraints": (), "iterations": iterations, "tolerance": None, **options}
    return cost(constrained_dynamics, model, turns=turns, max_operations=max_operations, **fixed)


def _crossing(kind: str, tree: int, rows: list[tuple[Any, ...]]) -> str:
    own = [r for r in rows if r[:2] == (kind, tree)]
    words = []
    for name, column in ((OURS, 6), (FACTORED, 7), (HYBRID, 10)):
        more = next((r[2] for r in own if r[column] is None or r[column] > r[8]), None)
        words.append(f"{name} {'always less' if more is None else f'more from {more} on'}")
    return f"{kind}, chains of {tree}, operations against {KKT}: {', '.join(words)}"


# loops of both kinds at once


def standing(model: Model, soles: Mapping[str, Sequence[float]], kind: Joint) -> Model:
    """Return a robot with soles, at points of links [m], fixed in a configuration near the neutral one."""
    away = np.random.default_rng(3).uniform(-0.3, 0.3, model.nv)
    poses = forward_kinematics(model, integrate(model, model.neutral(), away))
    loops = []
    for link, point in soles.items():
        foot = End(model.body(link).index, Pose.translation(np.array(point)))
        T = poses[foot.body]
        loops.append(
            Loop(f"{link} on the ground", kind, End(GROUND, Pose(T[:3, :3], T[:3, 3]).then(foot.place)), foot)
        )
    return replace(model, embedded=(*model.embedded, *loops), kernels={})


def holding(links: int) -> Model:
    """Return two arms of geared links on the ground, the last link of one fixed to that of the other."""
    arms = robots.link_rotor_chain(links, branches=2)
    tips = [arms.body(f"link_{branch}_{links - 1}").index for branch in (0, 1)]
    T0, T1 = (Pose(T[:3, :3], T[:3, 3]) for T in forward_kinematics(arms, arms.neutral())[tips])
    held = Loop(
        "one thing", joints.Fixed(), End(tips[0], T0.inverse().then(T1)), End(tips[1], Pose.identity())
    )
    return replace(arms, embedded=(*arms.embedded, held), kernels={})


BOTH: dict[str, Callable[[], Model]] = {
    "Mini Cheetah, standing": lambda: standing(
        robots.mini_cheetah(),
        {f"{leg}_knee_link": (0.0, 0.0, -0.18) for leg in ("FR", "FL", "HR", "HL")},
        joints.Spherical(),
    ),
    "Tello, standing": lambda: standing(
        robots.tello(), {f"{side}-foot": (0.0, 0.0, -0.02) for side in ("left", "right")}, joints.Fixed()
    ),
    "two geared arms, one thing": lambda: holding(7),
}


def both_kinds(sizes: Sizes, note: str) -> Figure:
    """Return operations of mechanisms with local and long loops: all embedded, all constrained, local ones
    embedded.
    """
    rows: list[tuple[Any, ...]] = []
    for name in sizes.both:
        model = BOTH[name]()
        names = [c.name for c in model.embedded]
        far = [c.name for c in model.embedded if c.name == "one thing" or c.name.endswith("on the ground")]
        bare = replace(model, embedded=tuple(c for c in model.embedded if c.name not in far), kernels={})
        every = replace(bare, constrained_loops=tuple(c for c in model.embedded if c.name in far), kernels={})
        chosen = loading.choose_loops(every, among=[name for name in names if name not in far])
        hybrid = constrained(chosen, iterations=ITERATIONS).operations
        apart = constrained(every.with_loops(constrain=names), iterations=ITERATIONS).operations
        embedded = operations(forward_dynamics, model.with_any_independent())
        rows.append((name, len(model.bodies), every.nv, embedded, apart, hybrid))
    ways = ("all embedded", "all constrained", "far ones constrained, others as is cheaper")
    bars = {r[0]: [(r[k], f"{r[k]}") for k in (3, 4, 5)] for r in rows}
    head = ("mechanism", "bodies", "nv", *(f"{w}: operations" for w in ways))
    title = "Local and far-reaching loops in one mechanism"
    remarks = (f"Forces by constrainedABA with {ITERATIONS} proximal iterations, on the tree of clusters.",)
    return Figure(
        "both_kinds", title, head, rows, page(title, [Bars("Operations", ways, bars)], note), remarks
    )


# Fig. 12


def exactness(sizes: Sizes, note: str) -> Figure:
    """Return the cost of exact rotors and differentials relative to robots without them."""
    rows: list[tuple[Any, ...]] = []
    for name in sizes.robots:
        make, paper = ROBOTS[name]
        models = [make(), make(approximate="ignored"), make(approximate="diagonal")]
        exact, ignored, diagonal = (
            cost(forward_dynamics, m, turns=sizes.turns, max_operations=sizes.timed) for m in models
        )
        swept = [operations(forward_dynamics, m, method="articulated_body") for m in models[:2]]
        theirs = pinocchio_times(models[0], sizes.turns)
        plain = pinocchio_times(models[1], sizes.turns)
        row: tuple[Any, ...] = (name, len(models[0].bodies), models[0].nv, exact.operations)
        row = (*row, ignored.operations, round(exact.operations / ignored.operations, 3))
        row = (*row, diagonal.operations, round(exact.operations / diagonal.operations, 3))
        row = (*row, round(swept[0] / swept[1], 3), paper)
        for a, b in ((exact.one, ignored.one), (exact.batch, ignored.batch)):
            row = (*row, a, b, round(a / b, 3) if a and b else None)
        rows.append((*row, min(theirs.values(), default=None), min(plain.values(), default=None)))
    bars = {r[0]: [(r[k], f"{r[k]:.2f}") for k in (5, 7, 9)] for r in rows}
    names = ("over rotors ignored", "over diagonal reflected inertia", "the paper, over rotors ignored")
    panels = [Bars("Operations of exact over approximate", names, bars)]
    if all(r[12] and r[15] for r in rows):
        bars = {r[0]: [(r[k], f"{r[k]:.2f}") for k in (12, 15)] for r in rows}
        panels.append(
            Bars("Time of exact over rotors ignored", ("time, one state", "time, batch"), bars, colour=3)
        )
    head = (
        "robot", "bodies", "nv", "exact: operations", "rotors ignored", "ratio", "diagonal", "ratio", "ratio of sweeps",
        "the paper's ratio", "exact: one state, ns", "rotors ignored", "ratio", "exact: batch, ns", "rotors ignored", "ratio",
        "Pinocchio, exact, ns", "rotors ignored (aba), ns",
    )  # fmt: skip
    title = "Exact robots over approximate ones, forward dynamics (Loops Fig. 12)"
    remarks = (
        "Each by the cheaper of both methods; sweeps: articulated bodies in both. The paper leaves rotors out with their mass.",
    )
    return Figure("fig12_robots", title, head, rows, page(title, panels, note, columns=2), remarks)


# Fig. 13


def leg_motion(step: float) -> dict[str, np.ndarray]:
    """Return a motion of five seconds in which every joint follows 0.5 sin(2π 1.5 t) [rad]."""
    t = np.arange(0.0, 5.0, step)
    w = 2.0 * np.pi * 1.5
    s, c = (np.repeat(0.5 * f(w * t)[:, None], 5, axis=1) for f in (np.sin, np.cos))
    return {"t": t, "q": s, "v": w * c, "a": -(w**2) * s}


def torques(sizes: Sizes, note: str) -> Figure:
    """Return torques of the MIT Humanoid's leg in a swing, by models with and without rotors."""
    found = compare_approximations(robots.mit_humanoid_leg(), leg_motion(sizes.step))
    rows = []
    for way, words in APPROXIMATIONS.items():
        rows.append((words, "here", *(round(float(x), 4) for x in found.rms[way])))
        rows.append((words, "the paper's figures", *PAPER_RMS[way]))
    names = ("hipRz", "hipRx", "hipRy", "knee", "ankle")
    title = "Torque error of a leg without its rotors, RMS in N m (Loops Fig. 13)"
    picture = page(
        "Torques of a leg with and without its rotors (Loops Fig. 13)",
        _profiles(found, names),
        note,
        columns=3,
    )
    share = found.rms["ignored"][3] / found.largest[3], found.rms["diagonal"][3] / found.largest[3]
    remark = f"of the knee's largest torque: {share[0]:.1%} with rotors ignored, {share[1]:.1%} with diagonal reflected inertia"
    heads = ("t, s", *(f"{name}, {way}, N m" for way in found.torques for name in names))
    curves = (heads, np.column_stack([found.t, *found.torques.values()]))
    return Figure(
        "fig13_torques", title, ("model", "", *names), rows, picture, (remark, found.table()), curves
    )


def _profiles(found: Comparison, names: Sequence[str]) -> list[Panel]:
    """Return the picture of torques and their errors over one and a half swings."""
    shown = found.t <= 1.0
    some = slice(None, None, max(1, int(np.count_nonzero(shown) // 200)))
    t = found.t[shown][some]
    panels = []
    for k in (3, 4):
        ways = {EXACT: "exact", **APPROXIMATIONS}
        lines = [
            Line(words, t, found.torques[way][shown][some, k], c, dashed=c > 0, marked=False)
            for c, (way, words) in enumerate(ways.items())
        ]
        panels.append(Panel(f"torque of the {names[k]}", "time, s", "N m", lines))
    lines = [
        Line(words, t, found.errors[way][shown][some, 3], c + 1, dashed=True, marked=False)
        for c, (way, words) in enumerate(APPROXIMATIONS.items())
    ]
    return [*panels, Panel(f"error at the {names[3]}", "time, s", "N m", lines)]


def _branches(n: int) -> str:
    return "one branch" if n == 1 else f"{n} branches"


def _fastest(times: dict[str, float]) -> str | None:
    return min(times, key=lambda name: times[name]) if times else None
