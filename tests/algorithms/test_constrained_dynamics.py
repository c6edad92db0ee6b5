"""Constrained dynamics: every solver against one dense system, Pinocchio, and what impacts and soft
constraints obey.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from holding import FEET, METHODS, Dense, allowed, close, dense, off, relative_pose, rows, solved, two_frames
from linkages import floats, linkage
from linkwork import (
    Connect,
    Coupled,
    Gains,
    Hold,
    LinkworkError,
    Locked,
    ModelError,
    OnPlane,
    Rolling,
    ShapeError,
    Weld,
)
from linkwork.algorithms.constrained.caba import eliminate_locally
from linkwork.algorithms.constrained.constraint_rows import ConstraintRows, nodes_for
from linkwork.algorithms.constrained.proximal_tree import ProximalTree
from linkwork.algorithms.constrained.pv import eliminate_at_base
from linkwork.constraints import Constraint, total
from linkwork.constraints.frames import NAMES
from linkwork.joints import Revolute
from linkwork.model import Frame, Model, ModelBuilder
from linkwork.spatial import Pose
from mechanisms import Random, every_kind, heavy, random_model, skew_axis, state_of

# The compliance 1/μ is a choice. With 1e-5 three or four iterations converge below rounding, and what
# rounding does to caba and ltls, about 1e-16 times μ over the inertias, stays below 1e-9 for links of some
# ten grams. The lightest want more.
methods = pytest.mark.parametrize("method", METHODS)


@cache
def robot(name: str, *options: Any) -> Model:
    return getattr(lw.robots, name)(*options)


HUMANOID_FEET = (Weld("left_sole"), Weld("right_sole"))
REDUNDANT = (
    *HUMANOID_FEET,
    Weld("left_palm"),
    Weld("right_palm"),
    Connect("left_forearm"),
    Connect("right_forearm"),
)


def random_rows(model: Model, rng: Random, *, most: int) -> list[Constraint]:
    """Constraints of all kinds at random places, that leave some freedom."""
    single = [j.name for j in model.joints if j.nv == 1]
    found: list[Constraint] = []
    while True:
        frame, other = two_frames(model, rng)
        to = other if rng.random() < 0.5 else "world"
        some = tuple(rng.permutation(NAMES)[: rng.integers(1, 4)])
        choice: list[Constraint] = [
            Weld(frame, to),
            Connect(frame, to),
            Hold(frame, some, to),
            Hold(frame, some, to, axes="frame"),
            OnPlane(frame, to, skew_axis(rng)),
            Rolling(frame, 0.2, to, skew_axis(rng)),
            Locked(model.joints[rng.integers(len(model.joints))].name),
        ]
        if single:
            choice.append(Coupled(dict(zip(rng.permutation(single)[:2].tolist(), rng.normal(size=2)))))
        new = choice[rng.integers(len(choice))]
        if total(model, [*found, new]) > most:
            return found
        found.append(new)


def problem(model: Model, constraints: Any, seed: int) -> tuple[Any, Dense, np.ndarray]:
    """A state with all that acts, its dense system, and targets; away from states where the rows nearly
    depend.
    """
    rng = np.random.default_rng(seed)
    for _ in range(3):
        s = state_of(model, rng)
        targets = rng.normal(size=total(model, constraints))
        system = dense(model, s.q, s.v, s.tau, constraints, s.f_ext, targets)
        if system.condition < 1e5:
            break
    return s, system, targets


# regular sets

SETS: dict[str, tuple[Callable[[], Model], list[Any]]] = {
    "arm, weld": (lambda: robot("arm"), [Weld("tool")]),
    "arm, connect": (lambda: robot("arm"), [Connect("tool")]),
    "quadruped on four feet": (lambda: robot("quadruped"), [Connect(f) for f in FEET]),
    "quadruped, a foot and a loop": (lambda: robot("quadruped"), [Weld(FEET[0]), Connect(FEET[1], FEET[2])]),
    "quadruped, loops that cross": (
        lambda: robot("quadruped"),
        [Connect(FEET[0], FEET[2]), Connect(FEET[3], FEET[1]), OnPlane(FEET[2], FEET[1]), Hold(FEET[0], "z wx")],
    ),
    "quadruped, single rows": (
        lambda: robot("quadruped"),
        [Hold(FEET[0], "z wx"), Hold(FEET[1], "y", axes="frame"), OnPlane(FEET[2], FEET[3], (1.0, 2.0, 3.0))],
    ),
    "quadruped, wheels and joints": (
        lambda: robot("quadruped"),
        [Rolling(FEET[0], 0.1), Locked("front_right_hip"), Connect("trunk"),
         Coupled({"rear_left_knee": 1.0, "rear_right_knee": -2.0})],
    ),
    "quadruped, locked to the world": (lambda: robot("quadruped"), [Locked("trunk"), Connect(FEET[0]), Hold(FEET[1], "z")]),
    "humanoid on two feet": (lambda: robot("humanoid"), list(HUMANOID_FEET)),
    "humanoid, hand in hand": (lambda: robot("humanoid"), [*HUMANOID_FEET, Weld("left_palm", "right_palm")]),
    "the trunk, and what hangs on it": (
        lambda: robot("quadruped"), [Connect("trunk"), Connect(FEET[0], "trunk"), Hold("trunk", "wz")],
    ),
    "a foot against its own hip": (lambda: robot("quadruped"), [Hold(FEET[0], "x z", "front_left_hip"), Connect(FEET[0])]),
    "mini_cheetah": (lambda: robot("mini_cheetah"), [Connect(f"{leg}_knee_link") for leg in ("FR", "FL", "HR")]),
    "mini_cheetah, a rotor": (
        lambda: robot("mini_cheetah"), [Hold("HL_hip_rotor", "wx wy wz"), Connect("FL_knee_link", "FR_knee_link")],
    ),
    "tello": (lambda: robot("tello"), [Weld("left-foot"), Connect("right-foot")]),
    "four_bar_chain": (lambda: robot("four_bar_chain", 3, 2), [Hold("output_1_2", "x y")]),
    "delta": (lambda: robot("delta"), [Hold("platform", "x y")]),
    "loaded four-bar": (lambda: linkage("loaded four-bar"), [Weld("tip"), Connect("on coupler", "ball")]),
    "one body": (lambda: linkage("one body"), [Connect("body4")]),
}  # fmt: skip
LIGHT = {"tello": 3e-2, "humanoid, hand in hand": 1e-4}  # compliances for links of some grams


@cache
def of_set(name: str, seed: int = 1) -> tuple[Model, list[Any], Any, Dense, np.ndarray]:
    model = SETS[name][0]()
    constraints = SETS[name][1]
    return model, constraints, *problem(model, constraints, seed)


def check(
    model: Model,
    constraints: list[Any],
    s: Any,
    system: Dense,
    targets: np.ndarray,
    method: str,
    compliance: float = 1e-5,
) -> None:
    a, f = system.solved()
    assert off(system.J @ a, system.k) < 1e-9
    found = solved(
        model, s.q, s.v, s.tau, constraints, s.f_ext, targets, method=method, compliance=compliance
    )
    assert close(found[0], a, 1e-9) and close(found[1], f, 1e-8)
    assert found[2] < 1e-9 * max(1.0, np.abs(system.k).max())


@methods
@pytest.mark.parametrize("name", SETS)
def test_regular_sets(name: str, method: str) -> None:
    check(*of_set(name), method, compliance=LIGHT.get(name, 1e-5))


@pytest.mark.parametrize("seed", range(8))
def test_any_rows_on_any_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = every_kind(rng) if seed < 2 else random_model(rng, 6, massless=False)
    while True:
        constraints = random_rows(model, rng, most=max(3, model.nv // 2))
        found = problem(model, constraints, seed)
        if found[1].condition < 1e5:
            break
    for method in METHODS:
        check(model, constraints, *found, method)


@methods
def test_gains_are_targets(method: str) -> None:
    model = robot("quadruped")
    plain = [
        Connect(FEET[0]),
        Hold(FEET[1], "wx z", FEET[2]),
        Rolling(FEET[3], 0.1),
        Coupled({"rear_left_knee": 1.0}),
    ]
    gains = Gains(30.0, 4.0)
    s, system, _ = problem(model, plain, 2)
    J, gamma, error = rows(model, s.q, s.v, plain)
    a = replace_targets(system, -gamma - 30.0 * error - 4.0 * (J @ s.v)).solved()[0]
    stiff = [replace(c, gains=gains) for c in plain]
    assert close(solved(model, s.q, s.v, s.tau, stiff, s.f_ext, method=method)[0], a, 1e-9)


def replace_targets(system: Dense, k: np.ndarray) -> Dense:
    return system._replace(k=k)


@methods
def test_no_rows_at_all(method: str) -> None:
    model = robot("quadruped")
    s = state_of(model, np.random.default_rng(0))
    a, f, residual, _ = solved(model, s.q, s.v, s.tau, [], s.f_ext, method=method)
    assert close(
        a, floats(lw.forward_dynamics, model, s.q, s.v, s.tau, s.f_ext, method="articulated_body"), 1e-11
    )
    assert f.shape == (0,) and residual == 0.0


def test_nothing_to_hold_is_an_error() -> None:
    model = robot("arm")
    q, v = model.random_state(0)
    for call in (
        lambda: lw.constrained_dynamics(model, q, v, v, constraints=()),
        lambda: lw.impact(model, q, v, constraints=[]),
        lambda: lw.delassus(model, q, constraints=()),
    ):
        with pytest.raises(lw.ModelError, match="no constraint is given"):
            call()


@pytest.mark.parametrize("name", ["arm, weld", "arm, connect", "quadruped on four feet"])
def test_pv_early_needs_no_iterations(name: str) -> None:
    """Joints decide the forces with their own stiffness: a tiny compliance does no harm, and one iteration is
    enough.
    """
    model, constraints, s, system, targets = of_set(name)
    options: Any = {"compliance": 1e-11, "iterations": 1, "method": "pv_early"}
    assert close(
        solved(model, s.q, s.v, s.tau, constraints, s.f_ext, targets, **options)[0], system.solved()[0], 1e-8
    )


def test_where_forces_are_eliminated() -> None:
    """caba: at the constrained body, or where the two ways of a loop meet; pv: at a free base, or at the
    ground.
    """

    def places(model: Model, constraints: list[Any], at: Any) -> set[str]:
        held = ConstraintRows(nodes_for(model, constraints, model.neutral(), np.zeros(model.nv)), constraints)
        tree = ProximalTree(held, np.ones(held.m), at)
        return {getattr(k, "name", "ground") for k in tree.eliminated}

    quadruped = robot("quadruped")
    arm = robot("arm")
    three = [Connect(FEET[0]), Connect(FEET[1], FEET[2]), Weld(FEET[3], "rear_right_hip")]
    assert places(quadruped, three, eliminate_locally) == {"front_left_knee", "trunk", "rear_right_abduction"}
    assert places(quadruped, three, eliminate_at_base) == {"trunk"}
    assert places(quadruped, [Locked("trunk")], eliminate_locally) == {"ground"}
    assert places(arm, [Weld("tool")], eliminate_locally) == {"hand_yaw"}
    assert places(arm, [Weld("tool")], eliminate_at_base) == {"ground"}


def test_pv_early_keeps_its_digits() -> None:
    """Also where a joint moves one row and hardly the other: reflections must not cancel."""
    builder = ModelBuilder("planar arm")
    rng = np.random.default_rng(0)
    for k in range(4):
        builder.add_body(f"link{k}", **heavy(rng))
        on = f"link{k - 1}" if k else "world"
        builder.add_joint(f"joint{k}", Revolute(), parent=on, child=f"link{k}", xyz=(0.5 * (k > 0), 0.0, 0.0))
    model = builder.add_frame("tip", body="link3", xyz=(0.5, 0.0, 0.0)).build()
    v, tau = rng.normal(size=(2, 4))
    for q in ([0.3, -0.5, 0.9, -0.7 + 1e-8], [0.3, -0.5, 0.9, -0.7 - 1e-8], [0.3, -0.5, 0.9, -0.7]):
        for sides in ("y x", "x y"):
            q = np.array(q)
            constraints = [Hold("tip", sides)]
            right = dense(model, q, v, tau, constraints).solved()[0]
            assert close(solved(model, q, v, tau, constraints, method="pv_early")[0], right, 1e-10)


# rows that depend on one another, or contradict


def consistent(model: Model, constraints: Any, seed: int, q: Any = None) -> tuple[Any, ...]:
    """A state whose velocities the constraints allow."""
    s = state_of(model, np.random.default_rng(seed))
    q = s.q if q is None else q
    v = allowed(rows(model, q, s.v, constraints).J, s.v)
    return q, v, s.tau


DEPENDENT: dict[str, Callable[[], tuple[Model, list[Any]]]] = {
    "twice the same": lambda: (robot("arm"), [Connect("tool"), Connect("tool")]),
    "twice the same loop": lambda: (robot("quadruped"), [Connect(FEET[0], FEET[1]), Weld(FEET[2]), Connect(FEET[0], FEET[1])]),
    "a loop both ways": lambda: (robot("quadruped"), [Weld(FEET[0], FEET[1]), Weld(FEET[1], FEET[0])]),
    "a ring of welds": lambda: (robot("quadruped"), [Weld(a, b) for a, b in zip(FEET[:3], (*FEET[1:3], FEET[0]))]),
    "more rows than freedoms": lambda: (robot("arm"), [Weld("tool"), Connect("forearm"), Connect("elbow")]),
    "the same joint": lambda: (robot("arm"), [Locked(robot("arm").joints[0].name), Locked(robot("arm").joints[0].name)]),
    "humanoid": lambda: (robot("humanoid"), list(REDUNDANT)),
    "mini_cheetah": lambda: (robot("mini_cheetah"), [Weld("FR_knee_link"), Weld("FL_knee_link"), Weld("HL_knee_link")]),
    "delta": lambda: (robot("delta"), [Weld("platform"), Connect("arm_0")]),
}  # fmt: skip


@methods
@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.sweep(2)
def test_redundant_rows(name: str, method: str) -> None:
    model, constraints = DEPENDENT[name]()
    q, v, tau = consistent(model, constraints, 3)
    system = dense(model, q, v, tau, constraints)
    assert np.linalg.matrix_rank(system.J, 1e-9) < len(system.J)
    right = system.solved(1e-8)[0]
    a, f, residual, _ = solved(model, q, v, tau, constraints, method=method)
    assert close(a, right, 1e-7)
    assert off(system.J @ a - system.k, 0.0) < 1e-8 * max(1.0, np.abs(system.k).max()) and residual < 1e-8
    assert close(system.M @ a, system.force + system.J.T @ f, 1e-8)


@methods
def test_a_stretched_arm(method: str) -> None:
    """Where the arm is straight its rows depend on one another, exactly."""
    model = robot("arm")
    q = model.neutral()
    tau = np.random.default_rng(0).normal(size=7)
    constraints = [Weld("tool")]
    system = dense(model, q, np.zeros(7), tau, constraints)
    s = np.linalg.svd(system.J, compute_uv=False)
    assert s[-1] < 1e-12
    a, _, residual, _ = solved(model, q, np.zeros(7), tau, constraints, method=method)
    assert close(a, system.solved(1e-8)[0], 1e-7) and residual < 1e-8


@methods
@pytest.mark.parametrize("weighted", [False, True])
def test_contradicting_rows(method: str, weighted: bool) -> None:
    """Least squares: the accelerations whose rows miss their targets least, weighed by 1 / compliance."""
    model = robot("quadruped")
    constraints = [Connect(FEET[0]), Connect(FEET[1]), Weld(FEET[0])]
    s = state_of(model, np.random.default_rng(4))
    targets = np.random.default_rng(5).normal(size=12)
    R = 1e-4 * np.where(weighted, np.linspace(1.0, 3.0, 12), 1.0)
    system = dense(model, s.q, s.v, s.tau, constraints, None, targets)
    weight = np.sqrt(1e-4 / R)
    right = system._replace(J=(system.J.T * weight).T, k=system.k * weight).solved(1e-8)[0]
    a, _, residual, count = solved(
        model,
        s.q,
        s.v,
        s.tau,
        constraints,
        None,
        targets,
        compliance=R,
        method=method,
        iterations=100,
        tolerance=1e-9,
    )
    assert (
        np.linalg.norm(system.J @ right - system.k) > 0.5 and count < 100
    )  # forces grow for ever, iterations do not
    assert close(a, right, 1e-7)
    assert close(residual, np.abs(system.J @ a - system.k).max(), 1e-7)


# iterations


@methods
def test_one_iteration_is_soft(method: str) -> None:
    """Constrained Eq. 42, each row with a compliance of its own, and forces that act already."""
    for name in ("quadruped, loops that cross", "quadruped, wheels and joints", "tello"):
        model, constraints, s, system, targets = of_set(name, 6)
        rng = np.random.default_rng(7)
        R = 10.0 ** rng.uniform(-3.0, 0.0, size=len(targets))
        R[:3] = R[0]
        f0 = rng.normal(size=len(R))
        for start, given in ((0.0, ()), (f0, (f0,))):
            a, f = system.soft(R, start)
            found = solved(
                model,
                s.q,
                s.v,
                s.tau,
                constraints,
                s.f_ext,
                targets,
                *given,
                compliance=R,
                iterations=1,
                method=method,
            )
            assert close(found[0], a, 1e-9) and close(found[1], f, 1e-9) and found[3] == 1.0
            assert close(found[2], np.abs(system.J @ a - system.k).max(), 1e-8)


@methods
def test_iterations_are_proximal_steps(method: str) -> None:
    """Each one is soft about the forces of the last; the residual and their number are told as they are."""
    model, constraints, s, system, targets = of_set("quadruped, loops that cross", 8)
    R = np.full(len(targets), 0.3)
    f = np.zeros(len(R))
    for n in range(1, 5):
        a, f = system.soft(R, f)
        for tolerance in (None, 0.0):
            found = solved(model, s.q, s.v, s.tau, constraints, s.f_ext, targets,
                           compliance=R, iterations=n, tolerance=tolerance, method=method)  # fmt: skip
            assert close(found[0], a, 1e-10) and close(found[1], f, 1e-10) and found[3] == n
            assert close(found[2], np.abs(system.J @ a - system.k).max(), 1e-10)


@methods
def test_they_end_at_the_tolerance(method: str) -> None:
    model, constraints, s, system, targets = of_set("quadruped on four feet", 9)
    R = np.full(len(targets), 0.05)
    counts = []
    for tolerance in (1e-2, 1e-5, 1e-8):
        a, _, residual, count = solved(model, s.q, s.v, s.tau, constraints, s.f_ext, targets,
                                       compliance=R, iterations=200, tolerance=tolerance, method=method)  # fmt: skip
        left = []
        f = np.zeros(len(R))
        for _ in range(int(count)):
            x, f = system.soft(R, f)
            left.append(system.J @ x - system.k)
        counts.append(count)
        ends = [
            min(np.abs(y).max(), np.abs(x - y).max()) for x, y in pairwise(left)
        ]  # it misses little, or as before
        assert ends[-1] <= 1.5 * tolerance and (ends[:-1] == [] or min(ends[:-1]) > tolerance / 1.5)
        assert close(residual, np.abs(system.J @ a - system.k).max(), 1e-9)
    assert counts[0] < counts[1] < counts[2] < 200


@methods
def test_a_warm_start_is_the_end(method: str) -> None:
    model, constraints, s, _, targets = of_set("humanoid, hand in hand", 1)
    given = (model, s.q, s.v, s.tau, constraints, s.f_ext, targets)
    a, f, _, cold = solved(*given, compliance=1e-3, method=method)
    again, same, residual, warm = solved(*given, f, compliance=1e-3, method=method)
    assert warm < cold and residual < 1e-9 and close(again, a, 1e-9) and close(same, f, 1e-9)
    near, _, _, some = solved(*given, f * 1.01, compliance=1e-3, method=method)
    assert some <= cold and close(near, a, 1e-9)
    one = solved(*given, f, compliance=1e-3, method=method, iterations=1)
    assert one[3] == 1.0 and close(one[0], a, 1e-9)


@methods
def test_compliance_says_how_fast_not_where_to(method: str) -> None:
    model, constraints, s, system, targets = of_set("quadruped, loops that cross", 11)
    R = 10.0 ** np.random.default_rng(0).uniform(-6.0, -2.0, size=len(targets))
    a = system.solved()[0]
    found = solved(
        model, s.q, s.v, s.tau, constraints, s.f_ext, targets, compliance=R, iterations=100, method=method
    )
    assert close(found[0], a, 1e-8)


def interpreted(
    fn: Any, model: Model, *arrays: np.ndarray, optional: tuple[str, ...] = (), **options: Any
) -> Any:
    """A public function on a batch by the interpreter, which gives the bits of the kernel sooner."""
    return lw.interpret(lw.lower(fn.program(model, optional=optional, **options)), *arrays)


def velocities_allowed(model: Model, constraints: Any, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Velocities of a batch less what moves the constraints' frames: welds and connections to the world."""
    J = np.concatenate(
        [
            interpreted(lw.frame_jacobian, model, q, frame=c.frame)[:, 0 if isinstance(c, Weld) else 3 :]
            for c in constraints
        ],
        axis=1,
    )
    return v - (np.linalg.pinv(J, rcond=1e-10) @ (J @ v[..., None]))[..., 0]


def few_iterations(method: str, count: int) -> None:
    model = robot("humanoid")
    rng = np.random.default_rng(0)
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(count))))
    v = velocities_allowed(model, REDUNDANT, q, v)
    found = interpreted(lw.constrained_dynamics, model, q, v, rng.normal(size=v.shape),
                        constraints=REDUNDANT, compliance=1e-6, method=method, details=True)  # fmt: skip
    assert found[2].max() < 1e-10
    assert np.median(found[3]) <= 3.0 and np.percentile(found[3], 99) <= 5.0


def test_redundant_humanoids_need_few_iterations() -> None:
    few_iterations("caba", 100)


@pytest.mark.slow
@methods
def test_a_thousand_redundant_humanoids(method: str) -> None:
    few_iterations(method, 1000)


# impacts


@methods
@pytest.mark.parametrize(
    "name",
    ["quadruped on four feet", "quadruped, wheels and joints", "humanoid, hand in hand", "loaded four-bar"],
)
@pytest.mark.sweep(3)
def test_impacts(name: str, method: str) -> None:
    """J v⁺ = -e J v⁻ and M Δv = Jᵀ p; nothing that takes time has a part in it."""
    model, constraints, s, system, _ = of_set(name, 2)
    m = len(system.k)
    for e in (0.0, 0.5, np.linspace(0.0, 1.0, m)):
        after, p = hit(model, s.q, s.v, constraints, e, method)
        assert close(system.J @ after, -np.broadcast_to(e, m) * (system.J @ s.v), 1e-9)
        assert close(system.M @ (after - s.v), system.J.T @ p, 1e-8)
        energy = [0.5 * v @ system.M @ v for v in (s.v, after)]
        assert np.ndim(e) or energy[1] <= energy[0] * (1.0 + 1e-12)
    # velocities that the constraints allow stay as they are
    assert close(
        hit(model, s.q, allowed(system.J, s.v), constraints, 0.0, method)[0], allowed(system.J, s.v), 1e-9
    )


def hit(model: Model, q: Any, v: Any, constraints: Any, e: Any, method: str) -> Any:
    m = total(model, constraints)
    R = np.full(m, 1e-4)
    e = np.broadcast_to(np.asarray(e, dtype=float), m)
    options = {"restitution": e, "method": method, "compliance": R, "iterations": 20, "tolerance": 1e-12}
    return floats(lw.impact, model, q, v, constraints=tuple(constraints), **options)


def test_springs_and_weight_have_no_part_in_impacts() -> None:
    rng = np.random.default_rng(3)
    model = random_model(rng, 6, massless=False)
    constraints = random_rows(model, rng, most=4)
    s, *_ = problem(model, constraints, 1)
    light = model.without_passive_forces()
    assert model != light and light.gravity == (0.0, 0.0, 0.0)
    for x, y in zip(*(hit(one, s.q, s.v, constraints, 0.3, "caba") for one in (model, light))):
        assert np.array_equal(x, y)


# as compiled


def test_compiled() -> None:
    """The same as on floats, in a batch and alone; "auto" is one of the five, and no longer than caba."""
    model, constraints, s, system, targets = of_set("quadruped on four feet", 1)
    q, v, tau = (np.stack([x, x + 0.1]) for x in (s.q, s.v, s.tau))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    forces = np.broadcast_to(s.f_ext, (2, *s.f_ext.shape))
    found = lw.constrained_dynamics(
        model, q, v, tau, forces, np.stack([targets, targets]), constraints=constraints, details=True
    )
    assert [x.shape for x in found] == [(2, 18), (2, 12), (2,), (2,), (2,), (2,)]
    assert close(found[0][0], system.solved()[0], 1e-9) and close(found[1][0], system.solved()[1], 1e-8)
    given: Any = (model, q[1], v[1], tau[1], forces[1], targets)
    alone = lw.constrained_dynamics(*given, constraints=constraints, details=True)
    assert all(np.array_equal(x, y[1]) for x, y in zip(alone, found))
    plain = lw.constrained_dynamics(*given, constraints=constraints)
    assert len(plain) == 2 and close(plain[0], alone[0], 1e-9) and close(plain[1], alone[1], 1e-9)
    counts = {
        m: lw.count_operations(lw.constrained_dynamics.program(model, constraints=constraints, method=m))[
            "total"
        ]
        for m in METHODS
    }
    auto = lw.constrained_dynamics.program(model, constraints=constraints, method="auto")
    assert (
        lw.count_operations(auto)["total"] in counts.values()
        and lw.count_operations(auto)["total"] <= counts["caba"]
    )


def test_a_bad_row_harms_no_other() -> None:
    model = robot("quadruped")
    rng = np.random.default_rng(0)
    constraints = [Connect(f) for f in FEET]
    q, v = (np.array(x) for x in zip(*(model.random_state(rng) for _ in range(19))))
    tau = rng.normal(size=(19, 18))
    targets = rng.normal(size=(19, 12))
    options: Any = {"constraints": constraints, "details": True}
    right = lw.constrained_dynamics(model, q, v, tau, targets=targets, **options)
    targets[5, 3], q[9, 8], v[13, 2] = np.nan, np.nan, np.inf
    found = lw.constrained_dynamics(model, q, v, tau, targets=targets, **options)
    bad = [5, 9, 13]
    for x, y in zip(found, right):
        assert np.array_equal(np.delete(x, bad, axis=0), np.delete(y, bad, axis=0))
    assert np.isnan(found[0][bad]).any(axis=1).all() and np.isnan(found[1][bad]).any(axis=1).all()


def test_float32() -> None:
    model, constraints, s, system, _ = of_set("quadruped on four feet", 1)
    a, _ = lw.constrained_dynamics(
        model, *(x.astype(np.float32) for x in (s.q, s.v, s.tau, s.f_ext)),
        constraints=constraints, compliance=1e-2, tolerance=1e-3, dtype="float32",
    )  # fmt: skip
    _, gamma, _ = rows(model, s.q, s.v, constraints)
    assert a.dtype == np.float32 and close(a, system._replace(k=-gamma).solved()[0], 1e-3)


# bad input

OPTIONS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no compliance": (
        {"compliance": 0.0},
        ModelError,
        "compliance: expected a number above zero, or 12 of them",
    ),
    "compliance": ({"compliance": np.ones(11)}, ModelError, "or 12 of them"),
    "a row's compliance": ({"compliance": [1.0] * 11 + [np.nan]}, ModelError, "or 12 of them"),
    "no iterations": ({"iterations": 0}, ModelError, "iterations: expected an integer of at least 1"),
    "half an iteration": ({"iterations": 1.5}, ModelError, "iterations: expected an integer"),
    "true": ({"iterations": True}, ModelError, "iterations: expected an integer"),
    "tolerance": (
        {"tolerance": -1.0},
        ModelError,
        "tolerance: expected a non-negative number, None or 'auto'",
    ),
    "NaN": ({"tolerance": float("nan")}, ModelError, "tolerance: expected"),
    "method": (
        {"method": "pvs"},
        LinkworkError,
        "method: expected one of auto, caba, pv, pv_early, ltls, ltl, got 'pvs'",
    ),
    "a name": ({"constraints": "left_foot"}, ModelError, "such as Weld"),
    "a number": ({"constraints": 3}, ModelError, "constraints: expected a constraint or several"),
    "names": ({"constraints": ["left_foot"]}, ModelError, "'left_foot' is not a constraint"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(name: str) -> None:
    options, kind, message = OPTIONS[name]
    with pytest.raises(kind, match=message):
        lw.constrained_dynamics.program(
            robot("quadruped"), **{"constraints": [Connect(f) for f in FEET], **options}
        )


@pytest.mark.parametrize("e", [-0.1, float("nan"), np.ones(3)])
def test_bad_restitution(e: Any) -> None:
    with pytest.raises(ModelError, match="restitution: expected a non-negative number, or 12 of them"):
        lw.impact.program(robot("quadruped"), constraints=[Connect(f) for f in FEET], restitution=e)


def test_wrong_shapes() -> None:
    model = robot("arm")
    constraints = Connect("tool")
    q, v = model.random_state(0)
    for name in ("targets", "warm_start"):
        assert lw.constrained_dynamics(model, q, v, v, constraints=constraints, **{name: np.zeros(3)})[
            1
        ].shape == (3,)
        with pytest.raises(ShapeError, match=name):
            lw.constrained_dynamics(model, q, v, v, constraints=constraints, **{name: np.zeros(4)})
    with pytest.raises(TypeError, match="needs constraints="):
        lw.constrained_dynamics(model, q, v, v)


# Pinocchio


def without_resistance(model: Model) -> Model:
    return replace(
        model.without_passive_forces(), gravity=model.gravity, name=f"{model.name} without springs"
    )


PEERS: dict[str, Callable[[], tuple[Model, list[Any]]]] = {
    "quadruped": lambda: (robot("quadruped"), [Connect(f) for f in FEET]),
    "humanoid": lambda: (robot("humanoid"), list(HUMANOID_FEET)),
    "humanoid with hands": lambda: (robot("humanoid"), [*HUMANOID_FEET, Weld("left_palm"), Weld("right_palm")]),
    "hand in hand": lambda: (robot("humanoid"), [*HUMANOID_FEET, Weld("left_palm", "right_palm")]),
    "a ball between feet": lambda: (robot("quadruped"), [Connect(FEET[0], "mate"), Connect(FEET[2]), Weld(FEET[3])]),
}  # fmt: skip


@pytest.mark.parametrize("name", PEERS)
def test_pinocchio(name: str) -> None:
    pin = pytest.importorskip("pinocchio")
    from test_loops_against_peers import in_pinocchio, swapped

    model, constraints = PEERS[name]()
    model = without_resistance(model)
    start = model.random_state(1)[0]
    # a frame where the other foot is: apart from one another, a ball's two ends mean something else there
    mate = Frame("mate", model.body("rear_left_shank").index) if name == "a ball between feet" else None
    if mate:
        T = relative_pose(model, start, FEET[0], "rear_left_shank")
        model = replace(
            model, frames=(*model.frames, replace(mate, place=Pose(T[:3, :3], T[:3, 3]))), kernels={}
        )
    theirs, _ = in_pinocchio(pin, model)
    contacts = pin.StdVec_RigidConstraintModel()
    for c in constraints:
        ends = []
        for end in (model.frame(c.frame), model.frame(c.to)):
            ends += [
                end.body + 1,
                pin.SE3(np.asarray(end.place.R, dtype=float), np.asarray(end.place.p, dtype=float)),
            ]
        kind = pin.ContactType.CONTACT_6D if isinstance(c, Weld) else pin.ContactType.CONTACT_3D
        contacts.append(pin.RigidConstraintModel(kind, theirs, *ends, pin.ReferenceFrame.LOCAL))
    order = swapped(model)
    for seed in range(2):
        q, v, tau = consistent(model, constraints, seed, start)
        data = theirs.createData()
        datas = pin.StdVec_RigidConstraintData()
        for contact in contacts:
            datas.append(contact.createData())
        pin.initConstraintDynamics(theirs, data, contacts, datas)
        tight = pin.ProximalSettings(1e-14, 1e-10, 300)
        right = pin.constraintDynamics(theirs, data, q, v[order], tau[order], contacts, datas, tight)
        for method in METHODS:
            assert close(solved(model, q, v, tau, constraints, method=method)[0][order], right, 1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_a_row_that_is_not_a_number_is_told(method: str) -> None:
    model = robot("arm")
    q, v = model.random_state(0)
    targets = np.zeros((3, 6))
    targets[1, 2] = np.nan
    held: Any = {"constraints": [lw.Weld("tool")], "method": method, "details": True}
    a, _, residual, _, imbalance, converged = lw.constrained_dynamics(model, q, v, v, targets=targets, **held)
    assert np.isnan(a).any(axis=1).tolist() == [False, True, False]
    assert np.isinf(residual).tolist() == [False, True, False]
    assert np.isinf(imbalance).tolist() == [False, True, False] and converged.tolist() == [1.0, 0.0, 1.0]


def test_a_program_does_not_depend_on_what_was_evaluated_before() -> None:
    """Numbers that decide a program are evaluated outside of its trace, also for loops that iterations close."""
    model = lw.robots.tello()
    weld = lw.Weld(model.frames[-1].name)
    first, second = (lw.constrained_dynamics.program(model, constraints=weld) for _ in range(2))
    assert first.digest == second.digest
