"""Ways in: loops and couplings added to models and files, between links and frames; choices of motors; mimics
in loops.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from holding import close, held, solved
from linkages import LOOP_KINDS, floats, linkage
from linkwork.errors import ModelError
from linkwork.formats import urdf
from linkwork.joints import Fixed, Free, Helical, Revolute, Rod
from linkwork.loops.analysis import ClusterAnalysis
from linkwork.mechanism.loops import Loop
from linkwork.model import GROUND, Model, ModelBuilder
from linkwork.spatial import Pose

HINGE = Revolute((0, 0, 1))
ENDS = {"predecessor": "rod tip", "successor": "rocker tip"}
INERTIA = '<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/>'


def bars(*, base: bool = False) -> ModelBuilder:
    """Three bars of a four-bar that is open, with frames at their tips; one tip is a link that is held fast."""
    b = ModelBuilder("bars")
    ground = "world"
    if base:
        b.add_body("base", mass=2.0, inertia=(0.1, 0.1, 0.1)).add_joint(
            "root", Free(), parent="world", child="base"
        )
        ground = "base"
    for name, length in (("crank", 0.2), ("rod", 0.6), ("rocker", 0.5), ("arm", 0.4)):
        b.add_body(
            name, mass=length, center=(length / 2, 0, 0), inertia=(0.001, length**3 / 12, length**3 / 12)
        )
    b.add_joint("motor", HINGE, parent=ground, child="crank")
    b.add_joint("elbow", HINGE, parent="crank", child="rod", xyz=(0.2, 0, 0))
    b.add_joint("pivot", HINGE, parent=ground, child="rocker", xyz=(0.6, 0, 0))
    b.add_joint("shoulder", HINGE, parent=ground, child="arm", xyz=(0, 0, 0.2))
    b.add_body("rod tip").add_joint(
        "rod end", Fixed(), parent="rod", child="rod tip", xyz=(0.6, 0, 0), rpy=(0.0, 0.0, 0.3)
    )
    b.add_frame("rocker tip", body="rocker", xyz=(0.5, 0, 0))
    return b


def name_of(model: Model, body: int) -> str:
    return "world" if body == GROUND else model.bodies[body].name


# loops added to a model


@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_a_loop_of_any_kind_is_added(kind: str) -> None:
    """To the spanning tree of a model that was built with it, it makes the same model again."""
    model = linkage(f"ring {kind}")
    (loop,) = model.loops
    assert isinstance(loop, Loop)
    places = {"place": loop.predecessor.place, "successor_place": loop.successor.place}
    ends = {
        "predecessor": name_of(model, loop.predecessor.body),
        "successor": name_of(model, loop.successor.body),
    }
    found = model.spanning_tree().with_loop(loop.name, loop.kind, **ends, **places)
    assert found == model and found.nv == model.nv and pickle.loads(pickle.dumps(found)) == found
    held = model.spanning_tree().with_loop(loop.name, loop.kind, **ends, **places, embed=False)
    assert held.nv == model.nv_spanning and held.with_loops(embed=[loop.name]) == model


def test_a_loop_between_frames_is_one_between_links_at_their_places() -> None:
    """Of a link that is held fast, of a frame, and of both; in the builder, on a model, and to the world."""
    by_links = bars().add_loop(
        "pin",
        HINGE,
        predecessor="rod",
        successor="rocker",
        xyz=(0.6, 0, 0),
        rpy=(0, 0, 0.3),
        successor_xyz=(0.5, 0, 0),
    )
    model = bars().build()
    assert (
        bars().add_loop("pin", HINGE, **ENDS).build()
        == by_links.build()
        == model.with_loop("pin", HINGE, **ENDS)
    )
    assert model.nv == 4 and model == bars().build()  # as it was
    moved = model.with_loop("pin", HINGE, **ENDS, xyz=(0.1, 0, 0), successor_xyz=(0.0, 0.1, 0.0))
    ends = moved.embedded[0].ends
    assert np.allclose(ends[0].place.p, (0.6 + 0.1 * np.cos(0.3), 0.1 * np.sin(0.3), 0))
    assert np.allclose(ends[1].place.p, (0.5, 0.1, 0))
    tied = model.with_loop(
        "rope", Rod(0.4), predecessor="world", successor="rod end", xyz=(0.5, 0.3, 0.0)
    )  # a joint's name
    q = tied.random_state(0)[0]
    away = lw.frame_pose(tied, q, frame="rod tip")[:3, 3] - (0.5, 0.3, 0.0)
    assert tied.nv == 3 and np.isclose(np.linalg.norm(away), 0.4)


def test_two_loops_one_after_the_other() -> None:
    both = (
        bars().build().with_loop("pin", HINGE, **ENDS).with_coupling("belt", {"shoulder": 1.0, "motor": -2.0})
    )
    assert both.nv == 1 and [c.name for c in both.loops] == ["pin", "belt"]
    built = (
        bars().add_loop("pin", HINGE, **ENDS).add_coupling("belt", {"shoulder": 1.0, "motor": -2.0}).build()
    )
    between = bars().build().with_coupling("belt", predecessor="crank", successor="arm", ratio=2.0)
    assert both == built and between.nv == 3
    q, v = between.random_state(1)
    V = lw.spanning_velocity(between, q, v)
    assert V[between.joint("shoulder").v_slice] == 2.0 * V[between.joint("motor").v_slice]


def test_parameters_of_an_added_loop() -> None:
    model = bars().build().with_loop("pin", HINGE, **ENDS)
    places = model.parameters()["loop_placement"].copy()
    assert places.shape == (1, 2, 7)
    places[0, 1, 0] = 0.45
    other = model.with_parameters({"loop_placement": places})
    q = other.random_state(0)[0]
    gap = lw.frame_pose(other, q, frame="rod tip") - lw.frame_pose(other, q, frame="rocker tip")
    assert np.isclose(np.linalg.norm(gap[:3, 3]), 0.05)


def test_choices_that_still_fit_stay() -> None:
    """Mimics and loops chosen before: a further loop takes freedoms, and what was independent may be no more."""
    chosen = bars().build().with_loop("pin", HINGE, **ENDS).with_independent("pivot")
    assert "pivot" in chosen.with_coupling("belt", {"shoulder": 1.0, "pivot": -2.0}).v_names
    b = ModelBuilder("five bar")
    for name, on, at in (("a", "world", 0.0), ("b", "a", 0.5), ("c", "world", 0.3), ("d", "c", 0.5)):
        b.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.add_joint(f"to {name}", HINGE, parent=on, child=name, xyz=(at, 0, 0), independent=name in "ac")
    b.add_loop("pin", HINGE, predecessor="b", successor="d", xyz=(0.5, 0, 0), successor_xyz=(0.5, 0, 0))
    five = b.build()
    assert five.v_names == ("to a", "to c")
    assert five.with_loop("bar", Rod(0.6), predecessor="a", successor="c", xyz=(0.3, 0, 0)).nv == 1


WRONG: dict[str, tuple[Any, str]] = {
    "unknown end": (
        lambda m: m.with_loop("pin", HINGE, predecessor="rod tpi", successor="crank"),
        "no frame named 'rod tpi' ",
    ),
    "no name": (lambda m: m.with_loop("", HINGE, **ENDS), "name of a loop: expected a non-empty string"),
    "no end": (
        lambda m: m.with_loop("pin", HINGE, predecessor=3, successor="crank"),
        "predecessor: expected the name of",
    ),
    "one body": (
        lambda m: m.with_loop("pin", HINGE, predecessor="rod", successor="rod tip"),
        "loop 'pin': expected two different bodies, got 'rod' and 'rod tip'",
    ),
    "no joint": (
        lambda m: m.with_loop("pin", "hinge", **ENDS),
        "loop 'pin': kind: expected one of linkwork.joints",
    ),
    "a screw": (lambda m: m.with_loop("pin", Helical(0.1), **ENDS), "loop 'pin': "),
    "out of reach": (lambda m: m.with_loop("pin", HINGE, **ENDS, xyz=(9.0, 0, 0)), "'pin' cannot be closed"),
    "embed?": (
        lambda m: m.with_loop("pin", HINGE, **ENDS, embed="no"),
        "loop 'pin': embed: expected True or False",
    ),
    "twice": (
        lambda m: m.with_loop("pin", HINGE, **ENDS).with_loop("pin", HINGE, **ENDS),
        "already has a loop or coupling named 'pin'",
    ),
    "coupled fixed joint": (
        lambda m: m.with_coupling("belt", {"rod end": 1.0}),
        "moving joint, got 'rod end' .it is",
    ),
    "coupled nothing": (
        lambda m: m.with_coupling("belt", {"motr": 1.0}),
        "moving joint, got 'motr' .did you mean 'motor'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_loops_are_told(case: str) -> None:
    with pytest.raises(ModelError, match=WRONG[case][1]):
        WRONG[case][0](bars().build())


# loops added to a file


def link(name: str) -> str:
    return (
        f'<link name="{name}"><inertial><origin xyz="0.25 0 0"/><mass value="1"/>{INERTIA}</inertial></link>'
    )


def joint(
    name: str, parent: str, child: str, at: str = "0 0 0", more: str = "", kind: str = "continuous"
) -> str:
    axis = "" if kind == "fixed" else '<axis xyz="0 0 1"/>'
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}<origin xyz="{at}"/>{axis}{more}</joint>'


def pin(name: str, first: str, second: str, at: str, there: str) -> str:
    one = f'<predecessor link="{first}"><origin xyz="{at}"/></predecessor>'
    two = f'<successor link="{second}"><origin xyz="{there}"/></successor>'
    return f'<loop name="{name}" type="continuous">{one}{two}<axis xyz="0 0 1"/></loop>'


def mimic(joint: str, multiplier: float = 1.0, offset: float = 0.0) -> str:
    return f'<mimic joint="{joint}" multiplier="{multiplier}" offset="{offset}"/>'


def robot(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


BARS = [link(name) for name in ("base", "a", "b", "c")]
BARS += [joint("ja", "base", "a"), joint("jb", "a", "b", "0.2 0 0"), joint("jc", "base", "c", "0.6 0 0")]
TIPS = ['<link name="b_tip"/>', '<link name="c_tip"/>']
TIPS += [
    joint("bt", "b", "b_tip", "0.6 0 0", kind="fixed"),
    joint("ct", "c", "c_tip", "0.5 0 0", kind="fixed"),
]
PIN = lw.LoopJoint("pin", HINGE, predecessor="b_tip", successor="c_tip")


def test_couplings_and_functions_are_added_to_a_file_whose_loops_are_given_elsewhere() -> None:
    """As URDF+ files have them: joints that are marked as dependent, and nothing in the file that determines
    them.
    """
    dependent = [part.replace('name="jb"', 'name="jb" independent="false"') for part in BARS]
    dependent = [part.replace('name="jc"', 'name="jc" independent="false"') for part in dependent]
    text = robot(*dependent)
    with pytest.raises(
        ModelError,
        match=r"'jb': .* expected a joint in a loop.*lw.load\(path, loops=\[...\]\) takes loop joints, couplings",
    ):
        lw.load(text)
    gear = {"name": "gear", "terms": {"ja": 6.0, "jb": -1.0}}
    crank = {"name": "crank", "function": lambda q: q[1] - lw.sin(q[0]), "joints": ["ja", "jc"]}
    model = lw.load(text, loops=[gear, crank])
    assert model.v_names == ("ja",) and {c.name for c in model.embedded} == {"gear", "crank"}
    q, _ = model.random_state(3)
    np.testing.assert_allclose(q[1:], [6.0 * q[0], np.sin(q[0])], atol=1e-12)
    assert lw.load(robot(*BARS), loops=[{**gear, "embed": False}]).constrained_loops[0].name == "gear"
    between = {"name": "belt", "predecessor": "a", "successor": "c", "ratio": 2.0}
    assert lw.load(robot(*BARS), loops=[between]).nv == 2
    for loops, told in (
        ([{"terms": {"ja": 1.0}}], "a coupling to add: missing name"),
        ([{**gear, "ratios": 2}], "a coupling to add: unknown key 'ratios'; expected name, terms, "),
        ([{**gear, "terms": {"ja": 6.0, "je": -1.0}}], "'gear': .*moving joint, got 'je'"),
        ([{"name": "crank", "function": np.sin}], "an implicit constraint to add: missing joints"),
        ([{**crank, "function": 3}], "'crank': function: expected a callable, got 3"),
    ):
        with pytest.raises(ModelError, match=told):
            lw.load(robot(*BARS), loops=loops)


def test_loops_are_added_to_a_file(tmp_path: Path) -> None:
    opened = tmp_path / "open.urdf"
    closed = tmp_path / "closed.urdf"
    opened.write_text(robot(*BARS, *TIPS))
    closed.write_text(robot(*BARS, *TIPS, pin("pin", "b", "c", "0.6 0 0", "0.5 0 0")))
    wanted = lw.load(closed)
    words = {"name": "pin", "kind": HINGE, "predecessor": "b_tip", "successor": "c_tip"}
    for loops in ([PIN], (PIN,), [words], iter([PIN])):
        assert lw.load(opened, loops=loops) == wanted
    assert lw.load(opened, loops=[]) == lw.load(opened) and wanted.nv == 1
    assert lw.load(opened, loops=[{**words, "embed": False}]).nv == 3
    assert lw.load(opened, base="free", loops=[PIN]) == lw.load(closed, base="free")
    further = lw.load(
        closed, loops=[lw.LoopJoint("bar", Rod(0.5), predecessor="a", successor="c", embed=False)]
    )
    assert [c.name for c in further.loops] == ["pin", "bar"] and further.nv == 1
    for loops, told in (
        ("both", "loops: expected one of embed, constrain, auto, or loops to add"),
        (PIN, "or a sequence of loops to add, got LoopJoint"),
        (3, "or a sequence of loops to add, got 3"),
        (["pin"], "loops: expected LoopJoint.* got 'pin'"),
        ([{**words, "parent": "a"}], "a loop to add: unknown key 'parent'; expected name, kind, "),
        ([{"name": "pin", "kind": HINGE}], "a loop to add: missing predecessor, successor"),
        (
            [lw.LoopJoint("pin", HINGE, predecessor="b_tip", successor="d")],
            "'pin': .*link or frame, got 'd'",
        ),
        ([PIN, PIN], "'pin': the name is already taken"),
    ):
        with pytest.raises(ModelError, match=told):
            lw.load(opened, loops=loops)  # type: ignore[arg-type]


def test_constrained_loops_of_a_file_need_no_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep only equations that do not follow from others, as embedded ones do; also where none can be
    embedded.
    """

    def refused(*_: Any) -> Any:
        raise ModelError("no velocities are independent")

    file = tmp_path / "closed.urdf"
    file.write_text(robot(*BARS, *TIPS, pin("pin", "b", "c", "0.6 0 0", "0.5 0 0")))
    wanted = lw.choose_loops(lw.load(file), "constrain")
    monkeypatch.setattr(ClusterAnalysis, "_analyse", refused)
    with pytest.raises(ModelError, match="no velocities"):
        lw.load(file)
    found = lw.load(file, loops="constrain")
    assert found == wanted and len(found.constrained_loops[0].independent_rows) == 2  # type: ignore[attr-defined]
    monkeypatch.undo()
    file.write_text(robot(*BARS, pin("pin", "b", "c", "9 0 0", "0.5 0 0")))
    with pytest.raises(ModelError, match="'pin' cannot be closed"):
        lw.load(file, loops="constrain")


def test_start_and_tolerance_are_those_of_the_builder(tmp_path: Path) -> None:
    """In `load` and in `with_loop`: which way a loop is assembled, and how nearly redundant equations must
    hold.
    """
    file = tmp_path / "open.urdf"
    file.write_text(robot(*BARS, *TIPS))
    opened = lw.load(file)
    found = []
    for start in ({"ja": 0.5, "jb": 0.7, "jc": 1.2}, {"ja": 0.5, "jb": -1.8, "jc": -1.5}):
        loaded = lw.load(file, loops=[PIN], start=start)
        added = opened.with_loop("pin", HINGE, predecessor="b_tip", successor="c_tip", start=start)
        assert np.array_equal(loaded.neutral(), added.neutral()) and loaded == added
        by_array = lw.load(file, loops=[PIN], start=[start[name] for name in ("ja", "jb", "jc")])
        assert by_array == loaded
        found.append(loaded.neutral())
    assert found[0][2] > 0.5 and found[1][2] < -0.5
    tilted = {"predecessor": "b_tip", "successor": "c_tip", "rpy": (1e-3, 0.0, 0.0)}
    with pytest.raises(ModelError, match="'pin'.* rad"):
        opened.with_loop("pin", HINGE, **tilted)
    near = opened.with_loop("pin", HINGE, **tilted, tolerance=0.01)
    assert near.nv == 1 and "loop 'pin' closes to" in near.report()
    assert lw.load(file, loops=[{"name": "pin", "kind": HINGE, **tilted}], tolerance=0.01) == near
    for wrong in ({"start": {"jx": 0.0}}, {"start": [0.0]}, {"tolerance": -1.0}):
        with pytest.raises(ModelError, match="start|tolerance"):
            lw.load(file, loops=[PIN], **wrong)


# all motors


def test_all_motors_are_independent() -> None:
    """Also those in no loop, and a free base."""
    model = bars(base=True).build().with_loop("pin", HINGE, **ENDS)
    for motor in ("motor", "elbow", "pivot"):
        found = model.with_independent(motor, "shoulder")
        assert {motor, "shoulder"} < set(found.v_names) and found.nv == 8
        assert found == model.with_independent("root", motor, "shoulder") == model.with_independent(motor)
    assert model.with_independent("shoulder") == model
    for chosen, told in (
        (
            ("motor", "pivot", "shoulder"),
            "'pin' leave 1 degrees of freedom, but 2 .* chosen: 'motor', 'pivot'; choose 1 of ",
        ),
        (("motr",), "no joint named 'motr' .did you mean 'motor'"),
    ):
        with pytest.raises(ModelError, match=told):
            model.with_independent(*chosen)


# mimics in loops

FIVE = [joint("ja", "base", "a"), joint("jb", "a", "b", "0.5 0 0")]
FIVE += [link(name) for name in ("base", "a", "b", "c", "d")]
FIVE += [pin("pin", "b", "d", "0.5 0 0", "0.5 0 0")]
MIMICS: dict[str, tuple[int, str]] = {
    "one side follows the other": (
        1,
        robot(
            *FIVE,
            joint("jc", "base", "c", "0.3 0 0", mimic("ja", -1.0, 0.3)),
            joint("jd", "c", "d", "0.5 0 0"),
        ),
    ),
    "a follower beside a loop": (
        1,
        robot(
            *BARS,
            pin("pin", "b", "c", "0.6 0 0", "0.5 0 0"),
            link("f"),
            joint("jf", "base", "f", more=mimic("jb", 2.0)),
        ),
    ),
    "a follower on a loop": (
        2,
        robot(
            *FIVE,
            joint("jc", "base", "c", "0.3 0 0"),
            joint("jd", "c", "d", "0.5 0 0"),
            link("e"),
            joint("je", "d", "e", "0.1 0 0", mimic("jd", 0.5)),
        ),
    ),
    "between two inner joints": (
        1,
        robot(
            *FIVE, joint("jc", "base", "c", "0.3 0 0"), joint("jd", "c", "d", "0.5 0 0", mimic("jb", -1.0))
        ),
    ),
    "a parallelogram, said twice": (
        1,
        robot(
            *(link(name) for name in ("base", "a", "b", "c")),
            joint("ja", "base", "a"),
            joint("jb", "a", "b", "0.5 0 0", mimic("ja", -1.0)),
            joint("jc", "base", "c", "0.3 0 0", mimic("ja")),
            pin("pin", "b", "c", "0.3 0 0", "0.5 0 0"),
        ),
    ),
    "two loops": (
        1,
        robot(
            *BARS,
            *(link(name) for name in "xyz"),
            joint("jx", "base", "x", "0 1 0", mimic("ja", -1.0)),
            joint("jy", "x", "y", "0.2 0 0"),
            joint("jz", "base", "z", "0.6 1 0"),
            pin("pin", "b", "c", "0.6 0 0", "0.5 0 0"),
            pin("pin2", "y", "z", "0.6 0 0", "0.5 0 0"),
        ),
    ),
}


@pytest.mark.parametrize("case", MIMICS)
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_mimics_in_loops(case: str, base: str) -> None:
    """They close, and move as the same mechanism does with everything held by forces."""
    freedoms, text = MIMICS[case]
    model = urdf.read(text, base=base)
    assert model.nv == freedoms + 6 * (base == "free")
    held = model.with_loops(constrain=[c.name for c in model.loops])
    q, v = model.random_state(3)
    V = floats(lw.spanning_velocity, model, q, v)
    for c in model.loops:
        if c.name.startswith("j"):  # jd follows jb
            names = c.name.split(" follows ")
            rates = [V[model.joint(name).v_slice][0] for name in names]
            ratio = next(-x for k, _, x in c.terms if model.joints[k].name == names[1])  # type: ignore[attr-defined]
            assert np.isclose(rates[0], ratio * rates[1])
    tau = np.random.default_rng(0).normal(size=model.nv)
    spanning = [name for joint in model.joints for name in joint.v_names]
    force = np.zeros(len(spanning))
    force[[spanning.index(name) for name in model.v_names]] = tau
    a = floats(lw.forward_dynamics, model, q, v, tau, method="articulated_body")
    A = floats(lw.spanning_acceleration, model, q, v, a)
    found = solved(held, q, V, force, [], compliance=1e-4, iterations=50)[0]
    assert close(found, A, 1e-8)


# anchors of gains


def test_gains_pull_to_where_a_frame_stood() -> None:
    """In the state `at`: no pull there, and back to it from elsewhere, with `to` the world or another frame."""
    model = lw.robots.quadruped()
    rng = np.random.default_rng(0)
    q, v = model.random_state(rng)
    gains = lw.Gains(50.0, 0.0)
    foot = "front_left_foot"
    hand = "rear_right_foot"
    for to in (None, "world", hand):
        for make in (
            lambda **more: lw.Weld(foot, **more),
            lambda **more: lw.Connect(foot, **more),
            lambda **more: lw.Hold(foot, "wx wz x z", **more),
            lambda **more: lw.OnPlane(foot, **more),
            lambda **more: lw.Rolling(foot, 0.1, **more),
        ):
            soft = make(to=to, gains=gains, at=q)
            plain = make(to=to)
            J, rest = held(model, [plain], q, 0.0 * v)
            assert np.abs(held(model, [soft], q, 0.0 * v)[1] - rest).max() < 1e-12
            h = 1e-5
            near = [floats(lw.integrate, model, q, s * h * v) for s in (1.0, -1.0)]
            pulls = [held(model, [soft], x, 0.0 * v)[1] - held(model, [plain], x, 0.0 * v)[1] for x in near]
            n = np.outer(plain.normal, plain.normal) if isinstance(plain, lw.Rolling) else np.eye(len(J))
            assert close((pulls[0] - pulls[1]) / (2.0 * h), 50.0 * (n @ J @ v), 1e-6)


def test_a_pose_as_an_anchor_is_a_frame_in_the_world() -> None:
    """As a `Pose` or its matrix; the same program, and the same digits as a frame that stands there."""
    T = Pose.from_xyz_rpy((0.3, -0.2, 0.5), (0.4, 0.1, -0.3))
    b = (
        ModelBuilder("brick")
        .add_body("brick", mass=2.0, inertia=(0.1, 0.2, 0.25))
        .add_frame("there", place=T)
    )
    model = b.add_joint("root", Free(), parent="world", child="brick").build()
    q, v = model.random_state(1)
    tau = np.zeros(6)
    for kind in (lw.Weld, lw.Connect):
        found = [
            lw.constrained_dynamics(model, q, v, tau, constraints=kind("brick", to, lw.Gains(40.0, 9.0)))[0]
            for to in ("there", T, T.matrix())
        ]
        assert np.array_equal(found[0], found[1]) and np.array_equal(found[1], found[2])
    assert len({lw.Weld("brick", T), lw.Weld("brick", T.matrix()), lw.Weld("brick")}) == 2
    assert pickle.loads(pickle.dumps(lw.Weld("brick", T, at=q))) == lw.Weld("brick", T, at=tuple(q))
    soft = lw.Weld("brick", at=q, gains=lw.Gains(400.0, 40.0))
    x = lw.integrate(model, q, 0.05 * v)
    dx = 0.0 * v
    for _ in range(400):  # back to where it stood
        dx = dx + 1e-3 * 2.0 * lw.constrained_dynamics(model, x, dx, tau, constraints=soft)[0]
        x = lw.integrate(model, x, 2e-3 * dx)
    assert np.abs(lw.difference(model, q, x)).max() < 1e-3


def test_gains_without_an_anchor_are_refused() -> None:
    """Never pulled to the origin of the world by mistake; it can be asked for."""
    stiff = lw.Gains(1.0)
    damped = lw.Gains(0.0, 1.0)
    told = r"expected an anchor for the stiffness of gains, got none; give at=q .* or to= a pose"
    for kind in (lw.Weld, lw.Connect, lambda frame, **more: lw.Hold(frame, "x", **more)):
        with pytest.raises(ModelError, match=told):
            kind("foot", gains=stiff)
        assert kind("foot", gains=damped).to == "world" == kind("foot", to="world", gains=stiff).to
    assert lw.Hold("wheel", "y", axes="frame", gains=stiff).to == "world"  # no position is held
    assert (
        lw.OnPlane("foot", gains=stiff).to == lw.Rolling("foot", 0.1, gains=stiff).to == "world"
    )  # the ground
    arm = lw.robots.arm()
    q = arm.neutral()
    name = arm.bodies[-1].name
    for mistake, words in (
        (lambda: lw.Weld(name, at="q"), "`at`: expected the coordinates q of one state"),
        (lambda: lw.Weld(name, at=[q, q]), "`at`: expected the coordinates q of one state"),
        (lambda: lw.Weld(name, at=q * np.nan), "`at`: expected the coordinates q of one state"),
        (lambda: lw.Weld(name, to=3), "`to`: expected the name of a frame, or a pose"),
        (lambda: lw.Weld(name, to=np.eye(3)), "`to`: expected the name of a frame, or a pose"),
        (lambda: lw.Weld(name, to=2.0 * np.eye(4)), "`to`: expected a pose: a rotation"),
        (
            lambda: lw.constrained_dynamics(arm, q, q, q, constraints=lw.Weld(name, at=[0.0])),
            "`at`: expected the 7 coordinates",
        ),
    ):
        with pytest.raises(ModelError, match=words):
            mistake()
