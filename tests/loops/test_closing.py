"""Closing loops over numbers: what can be closed is found, at any scale, with few digits, from a start,
within limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.errors import ModelError
from linkwork.joints import (
    Cylindrical,
    Fixed,
    Gimbal,
    Joint,
    Planar,
    PointOnLine,
    Prismatic,
    Revolute,
    Rod,
    Spherical,
    Universal,
)
from linkwork.loops.closing import CLOSURE_TOL, close
from linkwork.loops.closing_problem import ClosureProblem
from linkwork.mechanism import Loop
from linkwork.model import Model, ModelBuilder
from linkwork.spatial import Pose

SOLID = {"mass": 1.0, "inertia": (0.1, 0.12, 0.14), "center": (0.1, 0.05, 0.02)}
KINDS: dict[str, Joint] = {
    "fixed": Fixed(),
    "prismatic": Prismatic((0.6, 0.0, 0.8)),
    "revolute": Revolute((0.0, 0.6, 0.8)),
    "cylindrical": Cylindrical((0.0, 1.0, 0.0)),
    "planar": Planar(),
    "universal": Universal(),
    "spherical": Spherical(),
    "gimbal": Gimbal(),
    "rod": Rod(0.3),
    "point on line": PointOnLine((1.0, 0.0, 0.0)),
}


def arm(
    builder: ModelBuilder, name: str, rng: np.random.Generator, size: float = 1.0, joints: int = 6
) -> str:
    """So many hinges about skew axes, one behind the other; the name of the last link."""
    on = "world"
    for k in range(joints):
        builder.add_body(f"{name}{k}", **SOLID)
        kind = Revolute(tuple(rng.normal(size=3)))
        xyz = size * rng.uniform(-0.4, 0.4, 3)
        builder.add_joint(f"{name} joint {k}", kind, parent=on, child=f"{name}{k}", xyz=xyz)
        on = f"{name}{k}"
    return on


def pose(model: Model, q: np.ndarray, frame: str) -> Pose:
    X = np.array(lw.frame_pose.body(model, q, frame=frame), dtype=float)
    return Pose(X[:3, :3], X[:3, 3])


def is_closed(model: Model, q: np.ndarray | None = None) -> bool:
    """Whether the frames of every loop joint stand as its kind demands, by forward kinematics: its equations,
    written out.
    """
    q = model.neutral() if q is None else q
    for cluster in model.clusters:
        for loop in cluster.constraints:
            assert isinstance(loop, Loop)
            ends = []
            for end in loop.ends:
                there = pose(model, q, model.bodies[end.body].name) if end.body >= 0 else Pose.identity()
                ends.append(there.then(end.place))
            seen = ends[0].inverse().then(ends[1])
            assert isinstance(loop.kind, Fixed)
            if max(np.abs(seen.p).max(), np.abs(seen.R - np.eye(3)).max()) > 1e-10:
                return False
    return True


def welded(seed: int, size: float = 1.0, spread: float = 1.0) -> ModelBuilder:
    """Seven hinges whose tip is welded to where it is in some posture."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    tip = arm(builder, "link", rng, size, joints=7)
    model = builder.build()
    there = pose(model, spread * rng.uniform(-1.0, 1.0, model.nq), tip)
    return builder.add_loop("weld", Fixed(), predecessor="world", successor=tip, place=there)


def plate(arms: int, seed: int) -> ModelBuilder:
    """Arms of six hinges that all hold one plate; where they hold it is taken from one posture."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    tips = [arm(builder, f"arm{n} ", rng) for n in range(arms)]
    model = builder.build()
    q = rng.uniform(-1.0, 1.0, model.nq)
    for tip in tips[1:]:
        place = pose(model, q, tips[0]).inverse().then(pose(model, q, tip))
        builder.add_loop(f"{tip} on plate", Fixed(), predecessor=tips[0], successor=tip, place=place)
    return builder


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_welds_are_closed_wherever_they_are(spread: float) -> None:
    for seed in range(4):
        model = welded(seed, spread=spread).build()
        assert model.nv == 1 and is_closed(model)


@pytest.mark.parametrize(("arms", "freedoms"), [(2, 6), (3, 6), (6, 6)])
def test_arms_hold_a_plate(arms: int, freedoms: int) -> None:
    for seed in range(2 if arms < 6 else 1):
        model = plate(arms, seed).build()
        assert model.nv == freedoms and is_closed(model)


def ring(kind: Joint, seed: int = 0) -> ModelBuilder:
    """A spatial ring of joints of several kinds, closed by one of `kind`, drawn at some posture of its
    joints.
    """
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    on = "world"
    kinds = [
        Revolute(tuple(rng.normal(size=3))),
        Universal(),
        Spherical(),
        Cylindrical((0.0, 0.0, 1.0)),
        Prismatic((1, 0, 0)),
    ]
    for k, each in enumerate(kinds):
        builder.add_body(f"link{k}", **SOLID)
        builder.add_joint(f"joint{k}", each, parent=on, child=f"link{k}", xyz=rng.uniform(-0.4, 0.4, 3))
        on = f"link{k}"
    model = builder.build()
    q = model.tree_neutral()
    for j in model.joints:
        q[j.q_slice] = j.kind.integrate(q[j.q_slice], rng.uniform(-1.0, 1.0, j.nv))
    reach = Pose.translation((0.3, 0.0, 0.0)) if isinstance(kind, Rod) else Pose.identity()
    there = pose(model, q, on).then(reach)
    return builder.add_loop("ring", kind, predecessor="world", successor=on, place=there)


@pytest.mark.parametrize("name", KINDS)
def test_rings_of_every_kind_of_loop_joint_are_closed(name: str) -> None:
    model = ring(KINDS[name]).build()
    (loop,) = model.embedded
    assert model.nv == 9 - loop.count(model.joints)


@pytest.mark.parametrize("name", KINDS)
def test_closing_errors_have_true_jacobians(name: str) -> None:
    model = ring(KINDS[name]).build().spanning_tree()
    (loop,) = ring(KINDS[name]).build().embedded
    problem = ClosureProblem(model, range(len(model.joints)), (loop,))
    for seed in range(3):
        q = model.tree_random(np.random.default_rng(seed))
        e, J = problem.at(q)
        h = 1e-6
        for c in range(J.shape[1]):
            step = h * np.eye(J.shape[1])[c]
            ahead = problem.at(problem.retract(q, step))[0]
            back = problem.at(problem.retract(q, -step))[0]
            assert np.allclose((ahead - back) / (2 * h), J[:, c], atol=1e-6 * (1.0 + np.abs(J).max()))
        assert np.isfinite(e).all()


@pytest.mark.parametrize(
    "kind", [Fixed(), Prismatic((1, 0, 0)), Revolute((0, 0, 1)), Cylindrical((0, 0, 1)), Planar()]
)
def test_what_is_turned_over_is_far_from_closed(kind: Joint) -> None:
    builder = ModelBuilder().add_body("flap", **SOLID)
    builder.add_joint("hinge", Revolute((1, 0, 0)), parent="world", child="flap")
    model = builder.add_loop("shut", kind, predecessor="world", successor="flap", embed=False).build()
    for angle in (np.pi, np.pi - 1e-4, 3.0, 2.0):
        problem = ClosureProblem(model, [0], model.constrained_loops)
        assert np.isclose(np.linalg.norm(problem.at(np.array([angle]))[0]), angle, atol=1e-3)
    q, left = close(model, [0], model.constrained_loops, np.array([3.0]))
    assert left < CLOSURE_TOL and np.isclose(np.cos(q[0]), 1.0)


def four_bar(size: float = 1.0, crank: float = 0.4, ground: float = 1.1, **limits: Any) -> ModelBuilder:
    builder = ModelBuilder("four-bar")
    for name, parent, x in (
        ("crank", "world", 0.0),
        ("coupler", "crank", crank),
        ("rocker", "world", ground),
    ):
        builder.add_body(name, **SOLID)
        own = limits if name == "rocker" else {}
        builder.add_joint(
            f"to {name}", Revolute(), parent=parent, child=name, xyz=(size * x, 0.0, 0.0), **own
        )
    ends = {"xyz": (1.0 * size, 0.0, 0.0), "successor_xyz": (0.8 * size, 0.0, 0.0)}
    return builder.add_loop("pin", Revolute(), predecessor="coupler", successor="rocker", **ends)


@pytest.mark.parametrize("size", [1e-7, 1e-3, 1e3, 1e8])
def test_no_scale_is_special(size: float) -> None:
    usual = four_bar().build()
    model = four_bar(size).build()
    assert [(c.rows, c.independent) for c in model.clusters] == [
        (c.rows, c.independent) for c in usual.clusters
    ]
    assert model.nv == 1 and np.allclose(model.neutral(), usual.neutral(), atol=1e-9) and not model.notes
    assert welded(0, size).build().nv == 1
    slider = ModelBuilder().add_body("crank", **SOLID).add_body("rod", **SOLID).add_body("slider", **SOLID)
    slider.add_joint("a", Revolute(), parent="world", child="crank")
    slider.add_joint("b", Revolute(), parent="crank", child="rod", xyz=(0.3 * size, 0.0, 0.0))
    slider.add_joint(
        "c", Prismatic((1, 0, 0)), parent="world", child="slider", xyz=(0.4 * size, 0.1 * size, 0.0)
    )
    slider.add_loop("pin", Revolute(), predecessor="rod", successor="slider", xyz=(0.8 * size, 0.0, 0.0))
    assert slider.build().nv == 1


def turned_back(angle: float, crank: float = 0.4) -> ModelBuilder:
    """A planar four-bar whose frames are turned by an angle and back."""
    builder = ModelBuilder("turned")
    turn = (angle, 0.0, 0.0)
    back = (-angle, 0.0, 0.0)
    for name in ("crank", "coupler", "rocker"):
        builder.add_body(name, **SOLID)
    builder.add_joint("a", Revolute(), parent="world", child="crank", rpy=turn)
    builder.add_joint(
        "b", Revolute((0, 1, 0)), parent="crank", child="coupler", xyz=(crank, 0.0, 0.0), rpy=back
    )
    builder.add_joint("c", Revolute(), parent="world", child="rocker", xyz=(1.1, 0.0, 0.0), rpy=turn)
    ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.8, 0.0, 0.0), "successor_rpy": back}
    return builder.add_loop("pin", Revolute((0, 1, 0)), predecessor="coupler", successor="rocker", **ends)


@pytest.mark.parametrize("digits", [4, 6, 9])
def test_few_digits_are_enough(digits: int) -> None:
    model = turned_back(round(np.pi / 2, digits)).build()
    (cluster,) = model.clusters
    assert model.nv == 1 and len(cluster.rows) == 2
    length, angle = cluster.gaps[0]
    off = abs(round(np.pi / 2, digits) - np.pi / 2)
    assert 0.1 * off < max(length, angle) < 10.0 * off
    assert (
        any("loop 'pin' closes to" in note and " rad" in note for note in model.notes)
        and "pin" in model.report()
    )
    assert all(x == 0.0 for x in np.array(cluster.slack)[list(cluster.rows)]) and max(cluster.slack) > 1e-5
    q = model.neutral()
    problem = ClosureProblem(model, cluster.bodies, cluster.constraints)
    e = problem.at(q)[0]
    assert np.abs(e[list(cluster.rows)]).max() < 1e-12 and np.abs(e).max() < 10.0 * off


def test_full_digits_need_no_note() -> None:
    model = turned_back(np.pi / 2).build()
    assert (
        model.nv == 1 and not model.notes and model.clusters[0].slack == () and model.clusters[0].gaps == ()
    )


def test_a_tolerance_can_be_given() -> None:
    with pytest.raises(
        ModelError, match=r"'pin' cannot be closed: .* is open by \d.*e-06 m and .*tolerance="
    ):
        turned_back(1.5708).build(tolerance=1e-9)
    for wrong in (0.0, -1e-3, 2.0):
        with pytest.raises(ModelError, match="tolerance: expected a number between 0 and 1"):
            four_bar().build(tolerance=wrong)
    with pytest.raises(ModelError, match="tolerance: expected finite numbers"):
        four_bar().build(tolerance=np.nan)


@pytest.mark.parametrize("angle", [1.5708, np.pi / 2])
def test_a_short_crank_is_not_taken_for_redundant(angle: float) -> None:
    model = turned_back(angle, crank=1e-3).build()
    assert model.nv == 1 and len(model.clusters[0].rows) == 2
    turned = model.with_independent("a")
    assert turned.v_names == ("a",)


@pytest.mark.parametrize("digits", [4, 6])
@pytest.mark.parametrize("bars", [3, 8])
def test_polygons_of_bars_with_rounded_coordinates(bars: int, digits: int) -> None:
    rng = np.random.default_rng(bars + digits)
    angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, bars + 1))
    points = np.stack([np.cos(angles), np.sin(angles), np.zeros(bars + 1)], axis=1)
    tilt = (0.3, 0.2, 0.1)
    R = Pose.from_xyz_rpy(rpy=tilt).R
    builder = ModelBuilder()
    on = "world"
    for k in range(bars):
        builder.add_body(f"bar{k}", **SOLID)
        xyz, rpy = (points[k] - points[k - 1], (0.0, 0.0, 0.0)) if k else (R @ points[0], tilt)
        builder.add_joint(
            f"joint{k}", Revolute(), parent=on, child=f"bar{k}", xyz=np.round(xyz, digits), rpy=rpy
        )
        on = f"bar{k}"
    ends = {
        "xyz": np.round(points[-1] - points[-2], digits),
        "successor_xyz": np.round(R @ points[-1], digits),
    }
    model = builder.add_loop(
        "pin", Revolute(), predecessor=on, successor="world", successor_rpy=tilt, **ends
    ).build()
    assert model.nv == bars - 2 and 0.0 < max(model.clusters[0].gaps[0]) < 10.0 ** (1 - digits)


def test_what_only_closes_stretched_cannot_move() -> None:
    with pytest.raises(
        ModelError, match="'pin' close in singular configurations only, .* cannot move: .*start="
    ):
        four_bar(ground=2.2).build()
    assert four_bar(ground=2.1).build().nv == 1


# trusses


def truss(on: str, *, brace: bool = False) -> ModelBuilder:
    """A triangle of two bars on a link that turns, or on the world, and a pendulum on one of them; with a
    brace in it.
    """
    builder = ModelBuilder("truss").add_body("base", **SOLID)
    builder.add_joint("to base", Revolute((0, 1, 1)), parent="world", child="base")
    for name, parent, x in (("left", on, 0.1), ("right", on, 1.0)):
        builder.add_body(name, **SOLID)
        builder.add_joint(f"to {name}", Revolute(), parent=parent, child=name, xyz=(x, 0.0, 0.0))
    ends = {"xyz": (0.8, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    builder.add_loop("pin", Revolute(), predecessor="left", successor="right", **ends)
    if brace:
        model = builder.build()
        at = pose(model, model.neutral(), "left").point(np.array([0.4, 0.0, 0.0]))
        foot = pose(model, model.neutral(), on).point(np.array([0.6, 0.0, 0.0]))
        builder.add_body("brace", **SOLID)
        builder.add_joint("to brace", Revolute(), parent=on, child="brace", xyz=(0.6, 0.0, 0.0))
        long = round(float(np.linalg.norm(at - foot)), 4)
        builder.add_loop(
            "stay",
            Revolute(),
            predecessor="left",
            successor="brace",
            xyz=(0.4, 0, 0),
            successor_xyz=(long, 0, 0),
        )
    builder.add_body("bob", **SOLID)
    return builder.add_joint("to bob", Revolute((1, 0, 0)), parent="right", child="bob", xyz=(0.2, 0.1, 0.3))


def as_fixed(builder: ModelBuilder, model: Model, on: str) -> Model:
    """The same with fixed joints in the truss."""
    fixed = ModelBuilder("fixed").add_body("base", **SOLID)
    q = model.neutral()
    fixed.add_joint("to base", Revolute((0, 1, 1)), parent="world", child="base")
    for joint in model.joints:
        name = model.bodies[joint.child].name
        if name in ("base", "bob"):
            continue
        place = joint.place.then(joint.kind.transform(q[joint.q_slice]))
        fixed.add_body(name, **SOLID)
        fixed.add_joint(
            f"to {name}",
            Fixed(),
            parent=on,
            child=name,
            place=Pose(place.R.astype(float), place.p.astype(float)),
        )
    fixed.add_body("bob", **SOLID)
    return fixed.add_joint(
        "to bob", Revolute((1, 0, 0)), parent="right", child="bob", xyz=(0.2, 0.1, 0.3)
    ).build()


@pytest.mark.parametrize(("on", "brace"), [("base", False), ("base", True), ("world", False)])
def test_a_truss_is_a_rigid_body(on: str, brace: bool) -> None:
    builder = truss(on, brace=brace)
    model = builder.build()
    fixed = as_fixed(builder, model, on)
    assert model.v_names == fixed.v_names == ("to base", "to bob") and "a truss" in model.report()
    assert any("they are rigid, as a truss is" in note for note in model.notes)
    q, v = model.random_state(3)
    same = np.concatenate([q[model.joint(j.name).q_slice] for j in fixed.joints])
    a = np.array([0.3, -0.7])
    for function in (lw.inverse_dynamics, lw.forward_dynamics):
        assert np.allclose(function(model, q, v, a), function(fixed, same, v, a), atol=1e-9)
    assert np.allclose(lw.mass_matrix(model, q), lw.mass_matrix(fixed, same), atol=1e-9)
    assert np.allclose(
        lw.forward_dynamics(model, q, v, a, method="articulated_body"), lw.forward_dynamics(fixed, same, v, a)
    )
    spanning = lw.spanning_velocity(model, q, v)
    assert np.allclose(
        spanning[[k for k, j in enumerate(model.joints) if j.name not in model.v_names]], 0.0, atol=1e-12
    )
    assert np.allclose(
        lw.integrate(model, q, v)[model.joint("to left").q_slice], q[model.joint("to left").q_slice]
    )


def test_a_model_that_cannot_move_at_all_is_an_error() -> None:
    builder = ModelBuilder().add_body("left", **SOLID).add_body("right", **SOLID)
    builder.add_joint("a", Revolute(), parent="world", child="left").add_joint(
        "b", Revolute(), parent="world", child="right", xyz=(1.0, 0.0, 0.0)
    )
    ends = {"xyz": (0.8, 0.0, 0.0), "successor_xyz": (0.5, 0.0, 0.0)}
    with pytest.raises(ModelError, match="'pin' leave the links 'left', 'right' no degree of freedom"):
        builder.add_loop("pin", Revolute(), predecessor="left", successor="right", **ends).build()


# where to begin, and limits


def test_a_start_chooses_the_assembly_mode() -> None:
    usual = four_bar().build()
    other = four_bar().build(start={"to rocker": -1.5})
    assert usual.neutral()[2] > 0.5 and other.neutral()[2] < -0.5
    assert other == four_bar().build(start=[0.0, 0.0, -1.5]) and usual != other
    assert usual == four_bar().build() and usual.digest == four_bar().build(start=None).digest
    ball = ring(Spherical()).build(start={"joint2": (0.0, 0.0, 1.0, 0.0), "joint0": 0.3})
    assert ball.start is not None and ball.start[:1] == (0.3,) and ball.nv == 6


WRONG_STARTS: list[tuple[Any, str]] = [
    ({"to rokcer": 1.0}, "start: .*moving joints, got 'to rokcer' .did you mean 'to rocker'"),
    ({"to rocker": (1.0, 2.0)}, "start: joint 'to rocker': expected 1 numbers, got 2"),
    ({"to rocker": np.nan}, "start: joint 'to rocker': expected finite numbers"),
    ([0.0, 1.0], "start: expected 3 numbers, got 2"),
    ("to rocker", "start: expected a model with keyframes; got 'to rocker'"),
]


@pytest.mark.parametrize(("start", "words"), WRONG_STARTS)
def test_wrong_starts_are_told(start: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        four_bar().build(start=start)


def test_limits_are_kept_where_they_can_be() -> None:
    model = four_bar(lower=-2.0, upper=-0.5).build()
    assert -2.0 <= model.neutral()[2] <= -0.5 and not model.notes
    outside = four_bar(lower=0.9, upper=1.0).build()
    assert outside.nv == 1 and any("'to rocker' is beyond its limits" in note for note in outside.notes)


def test_what_cannot_be_closed_is_told_with_its_gap_and_limits() -> None:
    builder = four_bar(ground=2.3, lower=3.141592, upper=3.2)
    with pytest.raises(ModelError) as told:
        builder.build()
    for words in (
        "'pin' cannot be closed",
        "'pin' is open by 0.1 m and 0 rad",
        "'to rocker' at the limits",
        "start=",
        'loops="con',
    ):
        assert words in str(told.value), str(told.value)


def test_loops_that_cannot_be_embedded_can_be_held() -> None:
    builder = four_bar(ground=2.2)  # closes stretched only
    model = builder.build(embed=False)
    assert not model.embedded and [c.name for c in model.constrained_loops] == ["pin"] and model.nv == 3
    held = four_bar().build(embed=False)
    assert held == four_bar().build().with_loops(constrain=["pin"])


# many bars


def ladder(count: int) -> ModelBuilder:
    """Upright bars on the world, and bars between their tips: so many four-bars in a row."""
    builder = ModelBuilder("ladder")
    across = Revolute((0, 1, 0))
    for k in range(count + 1):
        builder.add_body(f"post{k}", **SOLID).add_joint(
            f"a{k}", across, parent="world", child=f"post{k}", xyz=(k, 0.0, 0.0)
        )
    for k in range(count):
        builder.add_body(f"bar{k}", **SOLID)
        builder.add_joint(f"b{k}", across, parent=f"post{k}", child=f"bar{k}", xyz=(0.0, 0.0, 1.0))
        ends = {"xyz": (1.0, 0.0, 0.0), "successor_xyz": (0.0, 0.0, 1.0)}
        builder.add_loop(f"pin{k}", across, predecessor=f"bar{k}", successor=f"post{k + 1}", **ends)
    return builder


def test_forty_bars_in_a_row_are_within_the_usual_limits() -> None:
    model = ladder(40).build(limits=lw.Limits())
    assert model.nv == 1 and len(model.clusters) == 1 and len(model.clusters[0].rows) == 80


def linkage_of_size(size: float, slider: bool) -> lw.Model:
    """Return a four-bar linkage or a slider-crank, `size` times as large."""
    hinge = lw.joints.Revolute((0, 0, 1))
    builder = lw.ModelBuilder("linkage")
    for name, length in (("crank", 0.2 * size), ("coupler", 0.6 * size), ("output", 0.5 * size)):
        inertia = (0, length**3 / 12, length**3 / 12)
        builder.add_body(name, mass=length, center=(length / 2, 0, 0), inertia=inertia)
    builder.add_joint("a", hinge, parent="world", child="crank")
    builder.add_joint("b", hinge, parent="crank", child="coupler", xyz=(0.2 * size, 0, 0))
    output = lw.joints.Prismatic((1, 0, 0)) if slider else hinge
    builder.add_joint("d", output, parent="world", child="output", xyz=(0.6 * size, 0, 0))
    end = 0.0 if slider else 0.5 * size
    ends = {"xyz": (0.6 * size, 0, 0), "successor_xyz": (end, 0, 0)}
    builder.add_loop("close", hinge, predecessor="coupler", successor="output", **ends)
    return builder.build()


@pytest.mark.parametrize("slider", [False, True], ids=["four-bar", "slider-crank"])
@pytest.mark.parametrize("exponent", [-20, 20])
def test_constrained_loops_of_any_size_are_closed_alike(exponent: int, slider: bool) -> None:
    """The unit of length is free: powers of two change no bit of angles."""
    size = 2.0**exponent
    results = []
    for scale in (1.0, size):
        embedded = linkage_of_size(scale, slider).with_independent("a")
        model = embedded.with_loops(constrain=["close"])
        units = np.array([1.0, 1.0, scale if slider else 1.0])
        q = np.array([0.3, 0.9, 0.1 if slider else 1.7]) * units
        closed, residual = lw.close_loops(model, q)
        v = lw.spanning_velocity(embedded, closed, [0.7])
        moved = lw.integrate(model, closed, 0.05 * v)
        assert lw.closure_error(model, moved)[:, 0].max() < 1e-12 * scale
        motion = lw.rollout(
            model, closed, v, dt=1e-3, steps=40, integrator="rk4", parameters={"gravity": [0.0] * 3}
        )
        assert motion.status == lw.Status.OK
        results.append([closed / units, residual / scale, moved / units, motion.q[-1] / units])
    for nominal, scaled in zip(*results):
        assert np.allclose(nominal, scaled, rtol=0.0, atol=1e-13)
