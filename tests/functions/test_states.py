"""States keep the promise: closed, on one assembly mode, within limits; what cannot be closed is said, and
never guessed.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkages import floats, four_bar, numbers, phi, tree
from linkwork.joints import Prismatic, Revolute, Spherical, Universal
from linkwork.loops.continuation import LoopRows
from linkwork.loops.numeric import NumericPosture
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.spatial import Pose

SOLID: dict[str, Any] = {"mass": 1.0, "inertia": (0.1, 0.1, 0.1)}
ALONG = (1.0, 0.0, 0.0)


def bar(
    builder: ModelBuilder,
    name: str,
    on: str,
    x: float = 0.0,
    independent: bool | None = None,
    scale: float = 1.0,
    **more: Any,
) -> None:
    builder.add_body(name, **SOLID)
    place = (x * scale, 0.0, 0.0)
    builder.add_joint(
        f"to {name}", Revolute(), parent=on, child=name, xyz=place, independent=independent, **more
    )


@cache
def planar(crank: float, coupler: float, rocker: float, ground: float, scale: float = 1.0) -> Model:
    """A planar four-bar, all of whose bars point along x at zero; the crank is independent."""
    builder = ModelBuilder("four-bar")
    bar(builder, "crank", "world", 0.0, True)
    bar(builder, "coupler", "crank", crank, False, scale)
    bar(builder, "rocker", "world", ground, False, scale)
    ends = {"xyz": (coupler * scale, 0.0, 0.0), "successor_xyz": (rocker * scale, 0.0, 0.0)}
    return builder.add_loop("pin", Revolute(), predecessor="coupler", successor="rocker", **ends).build()


@cache
def ankle(independent: str = "motors") -> Model:
    """A foot on a universal joint, moved by two motors through cranks and rods."""
    builder = ModelBuilder("ankle")
    by_motors = independent == "motors"
    builder.add_body("foot", **SOLID)
    limits: dict[str, Any] = {"lower": (-0.6, -0.6), "upper": (0.6, 0.6)}
    builder.add_joint("ankle", Universal(), parent="world", child="foot", independent=not by_motors, **limits)
    for side, y in (("left", 0.05), ("right", -0.05)):
        builder.add_body(f"{side} crank", **SOLID).add_body(f"{side} rod", **SOLID)
        crank = f"{side} crank"
        turning = Revolute((0.0, 1.0, 0.0))
        hinged = {"xyz": (-0.06, 0.0, 0.0), "independent": False}
        builder.add_joint(
            f"{side} motor", turning, parent="world", child=crank, xyz=(0.0, y, 0.25), independent=by_motors
        )
        builder.add_joint(f"{side} rod", Universal(), parent=crank, child=f"{side} rod", **hinged)
        ends: dict[str, Any] = {"xyz": (0.0, 0.0, -0.25), "successor_xyz": (-0.06, y, 0.0)}
        builder.add_loop(f"{side} ball", Spherical(), predecessor=f"{side} rod", successor="foot", **ends)
    return builder.build()


def errors(model: Model, rows: Any) -> np.ndarray:
    """The largest error of any loop in each state, from poses of the spanning tree."""
    rows = np.atleast_2d(rows)
    found = []
    for q, T in zip(rows, lw.forward_kinematics(tree(model), rows)):
        at = {GROUND: Pose.identity()} | {k: Pose(T[k, :3, :3], T[k, :3, 3]) for k in range(len(T))}
        found.append(np.abs(numbers(phi(model, q, model.loops, at))).max(initial=0.0))
    return np.array(found)


def error(model: Model, q: np.ndarray) -> float:
    return float(errors(model, q)[0])


def within(model: Model, q: np.ndarray) -> bool:
    lower, upper = (
        np.concatenate([np.array(getattr(j, word)) for j in model.joints]) for word in ("lower", "upper")
    )
    return bool(np.all(q >= lower - 1e-9) and np.all(q <= upper + 1e-9))


def turns(model: Model, rows: Any, one: str, other: str, axis: int = 2) -> np.ndarray:
    """The component of the cross product of two bars' directions, which point along their own x, about an
    axis.
    """
    T = lw.forward_kinematics(tree(model), np.atleast_2d(rows))
    a, b = (T[:, model.body(name).index, :3, 0] for name in (one, other))
    return np.cross(a, b)[:, axis]


def heights(model: Model, rows: Any, body: str) -> np.ndarray:
    return lw.forward_kinematics(tree(model), np.asarray(rows))[:, model.body(body).index, 2, 3]


def states(model: Model, count: int = 200, **options: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [model.random_state(rng, **options)[0] for _ in range(count)]


# states of a model


def test_a_four_bar_stays_on_its_branch() -> None:
    model = four_bar(independent=True).build()
    found = states(model)
    assert errors(model, found).max() < 1e-12
    assert len(set(np.sign(turns(model, [model.neutral(), *found], "coupler", "rocker")))) == 1
    assert np.ptp([q[0] for q in found]) > 6.0  # its crank turns all round
    other = states(model, 40, branch="any")
    assert errors(model, other).max() < 1e-12
    assert set(np.sign(turns(model, other, "coupler", "rocker"))) == {-1.0, 1.0}
    with pytest.raises(lw.ModelError, match="branch"):
        model.random_state(0, branch="mirrored")


def test_a_rocker_is_left_where_it_can_be() -> None:
    """Of a linkage without a full turn, states lie on both sides of neutral, up to near its dead points."""
    model = planar(0.5, 0.4, 0.45, 0.9)
    found = states(model)
    assert errors(model, found).max() < 1e-12
    assert len(set(np.sign(turns(model, [model.neutral(), *found], "coupler", "rocker")))) == 1
    assert np.ptp([q[0] for q in found]) > 0.5


@pytest.mark.parametrize("scale", [1e-7, 1e8])
def test_states_do_not_depend_on_units(scale: float) -> None:
    model = planar(0.3, 0.8, 0.6, 0.9)
    other = planar(0.3, 0.8, 0.6, 0.9, scale)
    for seed in range(5):
        np.testing.assert_allclose(other.random_state(seed)[0], model.random_state(seed)[0], atol=1e-6)
        q, v = other.random_state(seed)
        assert np.array_equal(floats(lw.close_loops, other, q)[0], q)
        assert np.isfinite(floats(lw.integrate, other, q, 0.1 * v)).all()


@pytest.mark.parametrize("independent", ["motors", "foot"])
def test_rods_of_an_ankle_are_not_turned_over(independent: str) -> None:
    model = ankle(independent)
    found = states(model)
    assert errors(model, found).max() < 1e-12 and all(within(model, q) for q in found)
    for side in ("left", "right"):
        rods = np.array([q[model.joint(f"{side} rod").q_slice] for q in found])
        assert np.all(np.cos(rods[:, 1]) > 0.0)  # (a + π, π - b) is the same pose, turned over
        motor = np.array([q[model.joint(f"{side} motor").q_start] for q in found])
        assert np.abs(motor).max() < np.pi and np.ptp(motor) > 0.5
    foot = np.array([q[model.joint("ankle").q_slice] for q in found])
    assert np.all(np.ptp(foot, axis=0) > 0.4)


@pytest.mark.parametrize("name", ["slider_crank", "watt", "delta", "stewart", "bricard"])
def test_robots_with_loops_stay_on_their_branch(name: str) -> None:
    model = getattr(lw.robots, name)()
    found = states(model, 30 if name in ("stewart", "delta") else 60)
    assert errors(model, found).max() < 1e-12 and all(within(model, q) for q in found)
    assert np.linalg.matrix_rank(np.array(found) - found[0], 1e-6) >= model.nv
    if name == "slider_crank":
        assert (
            min(q[model.joint("slider_joint").q_start] for q in found) > -0.21
        )  # never on the crank's other side
    if name == "watt":
        assert len(set(np.sign(turns(model, [model.neutral(), *found], "coupler", "rocker", axis=1)))) == 1
    if name in ("delta", "stewart"):
        assert np.all(heights(model, found, "platform") * (-1.0 if name == "delta" else 1.0) > 0.0)


def test_families_of_clusters_are_walked_together() -> None:
    model = lw.robots.scissor_lift(4)
    assert any(c.below for c in model.clusters)
    found = states(model, 30)
    assert errors(model, found).max() < 1e-12 and all(within(model, q) for q in found)
    rise = heights(model, found, "platform")
    assert min(rise) > 0.0 and np.ptp(rise) > 0.5


@pytest.mark.parametrize("name", ["four_bar", "ankle", "stewart"])
def test_constrained_loops_are_closed_too(name: str) -> None:
    whole = {
        "four_bar": lambda: four_bar(independent=True).build(),
        "ankle": ankle,
        "stewart": lw.robots.stewart,
    }[name]()
    model = whole.with_loops(constrain=[c.name for c in whole.embedded])
    assert error(model, model.neutral()) < 1e-12
    rng = np.random.default_rng(3)
    q, v = map(np.array, zip(*(model.random_state(rng) for _ in range(20))))
    assert errors(model, q).max() < 1e-12 and all(within(model, x) for x in q)
    ahead = lw.integrate(tree(model).spanning_tree(), q, 1e-6 * v) if name != "stewart" else q
    assert np.all(errors(model, ahead) < 1e-10 * (1.0 + np.abs(v).max() ** 2))
    if name == "four_bar":
        assert len(set(np.sign(turns(model, [model.neutral(), *q], "coupler", "rocker")))) == 1


def test_couplings_keep_limits() -> None:
    builder = ModelBuilder("fingers")
    for name, independent in (("one", True), ("two", False)):
        bar(builder, name, "world", independent=independent, lower=-0.5, upper=0.5)
    model = builder.add_coupling("tendon", {"to one": 2.0, "to two": -1.0}).build()
    found = states(model, 50)
    assert (
        all(within(model, q) and abs(2.0 * q[0] - q[1]) < 1e-14 for q in found)
        and np.ptp(found, axis=0)[1] > 0.8
    )


def test_narrow_limits_of_dependent_joints_leave_random_states() -> None:
    """The crank could go anywhere, the rocker only a tenth of a radian: walks are short, and end anywhere on
    the way.
    """
    builder = ModelBuilder("narrow")
    bar(builder, "crank", "world", independent=True)
    bar(builder, "coupler", "crank", 0.3, False)
    bar(builder, "rocker", "world", 0.9, False, lower=-0.05, upper=0.05)
    ends: dict[str, Any] = {"xyz": (0.9, 0.4, 0.0), "successor_xyz": (0.3, 0.4, 0.0)}
    model = builder.add_loop("pin", Revolute(), predecessor="coupler", successor="rocker", **ends).build()
    found = np.array(states(model, 40))
    assert errors(model, found).max() < 1e-12 and all(within(model, q) for q in found)
    assert len({round(q[2], 6) for q in found}) > 30 and np.ptp(found[:, 2]) > 0.05


def test_neutral_is_found_once_and_given_as_a_copy() -> None:
    model = four_bar(independent=True).build()
    one = model.neutral()
    again = one.copy()
    one[:] = 7.0
    assert np.array_equal(model.neutral(), again) and error(model, again) < 1e-12
    assert np.array_equal(pickle.loads(pickle.dumps(model)).neutral(), again)


def test_neutral_keeps_limits_where_it_can() -> None:
    """Nearest to zero, the elbow of this linkage bends the way that its limits forbid."""
    builder = ModelBuilder("elbow")
    bar(builder, "upper", "world", independent=True)
    bar(builder, "lower", "upper", 0.4, False, lower=0.2, upper=2.5)
    builder.add_body("slider", **SOLID)
    builder.add_joint(
        "slide", Prismatic(ALONG), parent="world", child="slider", xyz=(0.6, 0.0, 0.0), independent=False
    )
    model = builder.add_loop(
        "pin", Revolute(), predecessor="lower", successor="slider", xyz=(0.4, 0.0, 0.0)
    ).build()
    q = model.neutral()
    assert error(model, q) < 1e-12 and within(model, q)
    assert all(within(model, q) and error(model, q) < 1e-12 for q in states(model, 20))


def test_what_cannot_be_closed_is_an_error() -> None:
    builder = ModelBuilder("too short")
    bar(builder, "crank", "world")
    bar(builder, "rocker", "world", 1.0)
    ends: dict[str, Any] = {"xyz": (0.2, 0.0, 0.0), "successor_xyz": (-0.3, 0.0, 0.0)}
    builder.add_loop("rope", Revolute(), predecessor="crank", successor="rocker", **ends)
    with pytest.raises(lw.ModelError, match="rope"):
        builder.build()
    parts = planar(0.3, 0.8, 0.6, 0.9).with_loops(constrain=["pin"])
    torn = parts.with_parameters({"loop_placement": _moved(parts)})
    with pytest.raises(lw.ClosureError, match=r"'pin'.* by \d.* m and .* rad"):
        torn.neutral()


def _moved(model: Model) -> np.ndarray:
    """The places of a loop's ends, one of them out of reach."""
    found = np.array(model.parameters()["loop_placement"])
    found[0, 0, :3] = (50.0, 0.0, 0.0)
    return found


def test_threads_may_ask_for_states_at_once() -> None:
    model = four_bar(independent=True).build()
    want = [model.random_state(seed)[0] for seed in range(24)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda seed: model.random_state(seed)[0], range(24)))
    assert np.array_equal(want, got)


@pytest.mark.parametrize("name", ["delta", "bricard", "stewart"])
def test_quick_equations_are_those_of_the_loops(name: str) -> None:
    model = getattr(lw.robots, name)()
    bodies = [k for c in model.clusters if c.constraints for k in c.bodies]
    posture = NumericPosture(model, bodies)
    posture.move(model.tree_random(np.random.default_rng(0)))
    for loop in model.embedded:
        value, K = LoopRows(loop, posture).evaluate()
        np.testing.assert_allclose(value, numbers(loop.residual(posture)), atol=1e-13)
        np.testing.assert_allclose(K, numbers(loop.equations(posture)[0]), atol=1e-13)


# closing and integrating


def test_a_closed_state_is_returned_as_it_is() -> None:
    flat = planar(0.3, 0.9, 0.3, 0.9)  # a parallelogram, all of whose bars lie on a line
    assert np.array_equal(flat.neutral(), np.zeros(3))
    for model in (ankle(), lw.robots.five_bar(), lw.robots.stewart()):
        rows = np.array([model.neutral(), *(model.random_state(seed)[0] for seed in range(3))])
        closed, left = zip(*(floats(lw.close_loops, model, q) for q in rows))
        assert np.array_equal(closed, rows) and max(map(float, left)) < 1e-12
    closed, left = lw.close_loops(flat, np.zeros(3))
    assert np.array_equal(closed, np.zeros(3)) and left < 1e-15
    assert np.array_equal(lw.close_loops(flat, np.zeros((9, 3)))[0], np.zeros((9, 3)))


def test_closing_gives_finite_states_and_an_honest_residual() -> None:
    flat = planar(0.3, 0.9, 0.3, 0.9)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.normal(size=(40, 3)) * 3.0, [[np.pi, 0.0, 0.0], [0.0, np.pi, 0.0], [1e9, 0.0, 0.0]]]
    )
    rows[0, 1:] = rows[0, 0] * np.array([-1.0, 1.0])
    closed, left = lw.close_loops(flat, rows)
    assert np.isfinite(closed).all() and np.isfinite(left).all()
    assert np.allclose(errors(flat, closed), left, rtol=1e-10, atol=1e-10)
    assert np.all(left <= 1.5 * errors(flat, rows) + 1e-12)  # never worse than what was given
    assert np.mean(left < 1e-12) > 0.7
    assert np.isnan(lw.close_loops(flat, np.full(3, np.nan))[0]).all() and np.isinf(
        lw.close_loops(flat, np.full(3, np.nan))[1]
    )


def test_integrating_through_loops_says_where_they_cannot_follow() -> None:
    model = planar(0.5, 0.4, 0.45, 0.9)
    q = model.neutral()
    reach = max(states(model, 60), key=lambda q: q[0])
    for far in (0.5, 3.0):
        with pytest.raises(lw.ClosureError, match="'pin' cannot be closed after this motion"):
            lw.integrate(model, reach, np.array([far]))
        place = reach.copy()
        with pytest.raises(lw.ClosureError, match="'pin' cannot be closed after this motion"):
            lw.integrate(model, place, np.array([far]), out=place)
    rows = lw.integrate(model, np.array([q, reach, q]), np.array([[1e-3], [0.5], [0.0]]))
    assert np.isfinite(rows).all(axis=1).tolist() == [True, False, True] and np.isnan(rows[1]).all()
    assert np.array_equal(rows[2], q) and error(model, rows[0]) < 1e-12
    kernel = lw.compile(lw.integrate, model)
    assert np.isnan(kernel(reach, np.array([0.5]))).all()
    assert np.isnan(lw.integrate(model, np.full(3, np.nan), np.zeros(1))).all()  # nothing was asked


def test_integrating_an_open_state_is_noticed() -> None:
    model = four_bar(independent=True).build()
    q = model.neutral()
    with pytest.raises(lw.ClosureError):
        lw.integrate(model, q + np.array([0.0, 1.0, -0.7]), np.zeros(1))
    there = lw.integrate(model, q + np.array([0.0, 1e-6, -1e-6]), np.full(1, 0.01))
    assert error(model, there) < 1e-12


def test_integrating_keeps_the_branch() -> None:
    model = four_bar(independent=True).build()
    rng = np.random.default_rng(2)
    rows = np.array([model.random_state(rng)[0] for _ in range(200)])
    moved = lw.integrate(model, rows, rng.uniform(-1.0, 1.0, size=(200, 1)))
    done = np.isfinite(moved).all(axis=1)
    assert done.mean() > 0.7
    assert errors(model, moved[done]).max() < 1e-12
    assert len(set(np.sign(turns(model, [model.neutral(), *moved[done]], "coupler", "rocker")))) == 1


def test_single_precision_closes_as_far_as_it_can() -> None:
    model = four_bar(independent=True).build()
    rng = np.random.default_rng(4)
    rows = np.array([model.random_state(rng)[0] for _ in range(50)]).astype("float32")
    moved = lw.integrate(model, rows, np.full((50, 1), 0.05, "float32"), dtype="float32")
    assert np.isfinite(moved).all() and errors(model, moved.astype(float)).max() < 1e-5


def test_a_linkage_that_lies_flat_says_how_to_leave_that_state() -> None:
    """A parallelogram whose bars are in one line can go two ways: `integrate` refuses, and what its error
    says works.
    """
    model = lw.robots.planar_leg_linkage()
    flat = model.neutral()
    assert lw.loop_conditioning(model, flat) < 1e-9
    with pytest.raises(
        lw.ClosureError, match="singular .*set the independent joints in q and close it with lw.close_loops"
    ):
        lw.integrate(model, flat, np.full(model.nv, 0.2))
    for name in model.v_names:
        flat[model.joint(name).q_slice] = 0.8
    q, gap = lw.close_loops(model, flat)
    assert gap < 1e-9 and lw.loop_conditioning(model, q) > 0.1
    assert error(model, lw.integrate(model, q, np.full(model.nv, 0.1))) < 1e-12
