"""Diagnosis: what is unsound is found and named, counts add up, and a dense cluster is known."""

from __future__ import annotations

import json
import xml.dom.minidom
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork.cli.cli import main
from linkwork.functions.load import operations
from linkwork.model.report import merge_similar
from linkwork.visualization import draw_graph, draw_tree

LINK = (
    '<link name="{}"><inertial><mass value="{}"/>'
    '<inertia ixx="{}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = '<joint name="{}" type="continuous"><parent link="{}"/><child link="{}"/></joint>'


def file(folder: Path, *bodies: tuple[float, float]) -> Path:
    """A chain of links, each with a mass and a moment ixx beside 1 and 1."""
    links = ['<link name="base"/>', *(LINK.format(f"b{k}", *each) for k, each in enumerate(bodies))]
    joints = [JOINT.format(f"j{k}", f"b{k - 1}" if k else "base", f"b{k}") for k in range(len(bodies))]
    path = folder / "chain.urdf"
    path.write_text(f'<robot name="chain">{"".join(links + joints)}</robot>', encoding="utf-8")
    return path


def branches(count: int, change: Callable[[int], dict[str, float]]) -> lw.Model:
    builder = lw.ModelBuilder("branches")
    for k in range(count):
        words = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0), **change(k)}
        builder.add_body(f"b{k}", **{w: x for w, x in words.items() if w in ("mass", "inertia")})
        builder.add_joint(
            f"j{k}", lw.joints.Revolute(), parent="world", child=f"b{k}", friction=words.get("friction", 0.0)
        )
    return builder.build()


def test_sound_and_unsound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(file(tmp_path, (1.0, 1.0), (2.0, 1.0)))]) == 0
    assert "sound, and nothing unusual" in capsys.readouterr().out.replace("no <limit>", "")
    assert main(["info", str(file(tmp_path, (1.0, 1.0), (2.0, 7.0)))]) == 1  # 7 > 1 + 1
    said = capsys.readouterr().out
    assert "unsound:" in said and "larger than the sum of the others" in said and "'b1'" in said
    assert main(["info", str(file(tmp_path, (1.0, 1.0), (0.0, 0.0))).replace("chain", "chain")]) == 1
    assert main(["info", str(tmp_path / "nowhere.urdf")]) == 3


def test_every_kind_of_impossible_inertia_is_found() -> None:
    for mass, inertia in ((-1.0, (1, 1, 1)), (1.0, (1, 1, 3)), (1.0, (-1, 1, 1))):
        builder = lw.ModelBuilder("odd").add_body("good", mass=1.0, inertia=(1, 1, 1))
        builder.add_body("odd", mass=mass, inertia=inertia, check=False)
        builder.add_joint("a", lw.joints.Revolute(), parent="world", child="good")
        builder.add_joint("b", lw.joints.Revolute(), parent="good", child="odd")
        found = lw.diagnose(builder.build())
        assert (
            not found.sound
            and "'odd'" in found.problems[0]
            and not any("'odd'" in note for note in found.notes)
        )
    changed = lw.robots.arm().with_parameters({"inertia@hand": [1.0, 1.0, 9.0, 0.0, 0.0, 0.0]})
    assert any("'hand'" in problem for problem in lw.diagnose(changed).problems)
    assert lw.diagnose(lw.robots.mit_humanoid_leg()).sound  # rotors without mass, whose moment counts


@pytest.mark.slow
def test_shipped_robots_are_sound() -> None:
    """Also where rotors are idealised, without mass; but not where published inertias break the triangle
    inequality.
    """
    found = {name: lw.diagnose(getattr(lw.robots, name)(), costs=False) for name in lw.robots.names()}
    assert {name for name, each in found.items() if not each.sound} == {
        "mini_cheetah",
        "jvrc1",
        "planar_leg_linkage",
    }


def test_a_mass_matrix_that_is_not_definite_is_found() -> None:
    """Of inertias that nobody checked."""
    builder = lw.ModelBuilder("light").add_body("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("slide", lw.joints.Prismatic(), parent="world", child="a")
    builder.add_body("b", mass=-3.0, inertia=(1, 1, 1), check=None)
    found = lw.diagnose(builder.add_joint("turn", lw.joints.Revolute(), parent="a", child="b").build())
    assert not found.sound and "not positive definite" in found.problems[0] and "'slide'" in found.problems[0]
    assert found.costs == ()


def test_a_motion_that_moves_no_mass_is_found() -> None:
    """A free base without mass, whose turns move two point masses at its origin only: forward dynamics has no
    answer.
    """
    builder = lw.ModelBuilder("points").add_body("base").add_body("a", mass=1.0).add_body("b", mass=1.0)
    builder.add_joint("floating", lw.joints.Free(), parent="world", child="base")
    for name in "ab":
        builder.add_joint(f"j{name}", lw.joints.Revolute(), parent="base", child=name, armature=1.0)
    found = lw.diagnose(builder.add_coupling("gear", {"ja": 1.0, "jb": -2.0}).build())
    assert (
        not found.sound
        and "massless degree of freedom" in found.problems[0]
        and "floating" in found.problems[0]
        and found.costs == ()
    )


def test_costs_add_up_and_follow_the_tree() -> None:
    for model in (lw.robots.humanoid(), lw.robots.four_bar(), lw.robots.mini_cheetah()):
        found = lw.diagnose(model)
        total = lw.count_operations(lw.forward_dynamics, model, method="articulated_body")["total"]
        assert found.operations == total == sum(cost.operations for cost in found.costs)
        assert [cost.bodies for cost in found.costs] == [
            tuple(model.bodies[k].name for k in c.bodies) for c in model.clusters
        ]
        assert abs(sum(cost.share for cost in found.costs) - 1.0) < 1e-9
    humanoid = lw.diagnose(lw.robots.humanoid())
    cost = {c.bodies[0]: c.operations for c in humanoid.costs}
    assert humanoid.costliest(1)[0].bodies == ("pelvis",) and cost["left_thigh"] == pytest.approx(
        cost["right_thigh"], rel=0.1
    )


def test_costs_are_those_of_the_tree_that_they_belong_to() -> None:
    """Two mechanisms that share nothing but the ground cost together what each costs alone."""

    def chain(builder: lw.ModelBuilder, name: str, joints: int, first: lw.joints.Joint) -> lw.ModelBuilder:
        for k in range(joints):
            parent = "world" if k == 0 else f"{name}{k - 1}"
            builder.add_body(f"{name}{k}", mass=1.0 + k, center=(0.1, 0.2, 0.3), inertia=(0.3, 0.4, 0.5))
            kind = first if k == 0 else lw.joints.Revolute((0, 1, 0))
            builder.add_joint(
                f"{name}{k}",
                kind,
                parent=parent,
                child=f"{name}{k}",
                xyz=(0.3, 0.1, 0.2),
                rpy=(0.1, 0.2, 0.3),
            )
        return builder

    def total(model: lw.Model) -> int:
        return lw.count_operations(lw.forward_dynamics, model, method="articulated_body")["total"]

    long = (4, lw.joints.Free())
    short = (2, lw.joints.Revolute((0, 0, 1)))
    both = chain(chain(lw.ModelBuilder("both"), "a", *long), "b", *short).build()
    costs = lw.diagnose(both).costs
    for name, words in (("a", long), ("b", short)):
        own = sum(cost.operations for cost in costs if cost.bodies[0].startswith(name))
        assert own == pytest.approx(total(chain(lw.ModelBuilder(name), name, *words).build()), rel=0.05)


def test_a_dense_cluster_is_told_with_both_counts() -> None:
    model = lw.robots.stewart()
    (suggestion,) = lw.diagnose(model).suggestions
    assert suggestion.embedded > suggestion.constrained == operations(lw.choose_loops(model, "constrain"))
    assert set(suggestion.loops) == {loop.name for loop in model.loops}
    assert (
        str(suggestion.embedded) in str(suggestion)
        and str(suggestion.constrained) in str(suggestion)
        and 'loops="constrain"' in str(suggestion)
    )
    assert lw.diagnose(lw.robots.four_bar()).suggestions == ()


def test_forces_that_hold_loops_are_counted() -> None:
    held = lw.choose_loops(lw.robots.four_bar(), "constrain")
    found = lw.diagnose(held)
    assert (
        found.sound
        and found.constraint_operations + found.operations == operations(held)
        and found.constraint_operations > found.operations > 0
    )


def test_notes_of_one_kind_are_one_line() -> None:
    model = branches(12, lambda k: {"friction": 0.5})
    (line,) = [line for line in model.report().splitlines() if "dry friction" in line]
    assert (
        line.strip().startswith("12 joints have dry friction")
        and "'j0', 'j1'" in line
        and "and 4 more" in line
    )
    lines = merge_similar(
        ["loop 'a' closes to 1e-05 m only", "loop 'b' closes to 3e-06 m only", "something else"]
    )
    assert len(lines) == 2 and "'b'" in lines[0] and "1 more of this kind" in lines[0]
    assert merge_similar(["joint 'a' is odd", "body 'a' is odd"]) == ["joint 'a' is odd", "body 'a' is odd"]


def test_the_tree_shows_every_joint_loop_and_cluster() -> None:
    for name in ("four_bar", "stewart", "tello", "humanoid"):
        model = getattr(lw.robots, name)()
        for unicode in (True, False):
            text = draw_tree(model, unicode=unicode)
            lines = text.splitlines()
            assert len(lines) == len(model.bodies) + 1 and lines[0] == "world" and (unicode or text.isascii())
            for body, joint in zip(model.bodies, model.joints):
                (line,) = [
                    x
                    for x in lines
                    if f" {body.name} " in x.replace("─", " ").replace("-  ", "   ") and joint.name in x
                ]
                looped = any(c.constraints and body.index in c.bodies for c in model.clusters)
                assert ("[" in line) == looped
            assert all(loop.name in text for loop in model.loops)
    held = draw_tree(lw.choose_loops(lw.robots.four_bar(), "constrain"))
    assert "constrained" in held


def test_the_graph_has_names_of_joints_and_a_legend() -> None:
    model = lw.robots.four_bar()
    tree = xml.dom.minidom.parseString(draw_graph(model))
    words = [node.firstChild.data for node in tree.getElementsByTagName("text")]
    assert {"revolute joint1*", "revolute joint2", "loop1"} <= set(words)
    assert (
        "a loop joint, embedded in the coordinates" in words
        and "connected by a joint of the spanning tree" in words
    )
    assert any("5 equations, rank 2, 3 redundant; independent: joint1" in word for word in words)
    assert not any("enforced by forces" in word for word in words)
    assert not any("inertia" in word for word in words)
    bad = lw.robots.arm().with_parameters({"inertia@hand": [1.0, 1.0, 9.0, 0.0, 0.0, 0.0]})
    assert "a physically inconsistent inertia" in draw_graph(bad)


def test_json_says_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["info", "four_bar", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = lw.robots.four_bar()
    (cluster,) = told["clusters"]
    assert (
        told["sound"]
        and cluster["rank"] == 2
        and cluster["redundant"] == 3
        and cluster["independent"] == ["joint1"]
    )
    assert [joint["name"] for joint in told["joints"]] == [joint.name for joint in model.joints]
    assert np.allclose([joint["mass"] for joint in told["joints"]], [body.mass for body in model.bodies])
    assert main(["info", str(file(tmp_path, (1.0, 9.0))), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["sound"] is False and "'b0'" in told["problems"][0]
    assert main(["info", str(tmp_path / "gone.urdf"), "--json"]) == 3
    assert "gone.urdf" in json.loads(capsys.readouterr().out)["error"]


def bars(crank: float, coupler: float, rocker: float, ground: float) -> lw.ModelBuilder:
    """A four-bar of these lengths [m]."""
    builder = lw.ModelBuilder("bars")
    hinge = lw.joints.Revolute((0, 0, 1))
    for name, length in (("crank", crank), ("coupler", coupler), ("rocker", rocker)):
        builder.add_body(name, mass=1.0, center=(length / 2, 0, 0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint("a", hinge, parent="world", child="crank")
    builder.add_joint("b", hinge, parent="crank", child="coupler", xyz=(crank, 0, 0))
    builder.add_joint("d", hinge, parent="world", child="rocker", xyz=(ground, 0, 0))
    more = {"xyz": (coupler, 0, 0), "successor_xyz": (rocker, 0, 0)}
    return builder.add_loop("c", hinge, predecessor="coupler", successor="rocker", **more)


def test_a_neutral_state_that_is_singular_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All bars in line: no velocities are good. A slider at its turning point: the crank's are."""
    flat = bars(0.2, 0.5, 0.2, 0.5).build()
    assert np.isnan(lw.mass_matrix(flat, flat.neutral())).any()
    (tmp_path / "flat.urdf").write_text(lw.export_urdf(flat), encoding="utf-8")
    assert main(["info", str(tmp_path / "flat.urdf"), "--quick"]) == 0
    assert "the neutral state is singular: loops 'c' are at a dead point" in capsys.readouterr().out

    builder = lw.ModelBuilder("slider crank")
    hinge = lw.joints.Revolute((0, 0, 1))
    for name in ("crank", "rod", "slider"):
        builder.add_body(name, mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_joint("turn", hinge, parent="world", child="crank")
    builder.add_joint("pin", hinge, parent="crank", child="rod", xyz=(0.2, 0, 0))
    builder.add_joint(
        "slide", lw.joints.Prismatic((1, 0, 0)), parent="world", child="slider", xyz=(0.7, 0, 0)
    )
    straight = builder.add_loop("end", hinge, predecessor="rod", successor="slider", xyz=(0.5, 0, 0)).build()
    assert lw.diagnose(straight.with_independent("turn"), costs=False).notes == ()
    (note,) = lw.diagnose(straight.with_independent("slide"), costs=False).notes
    assert "the neutral state is singular for the independent velocities 'slide' of loops 'end'" in note
