"""Pictures of models: well-formed, with every body, joint and loop in them."""

from __future__ import annotations

import xml.dom.minidom
from pathlib import Path

import linkwork as lw
from linkwork.cli.cli import main
from linkwork.visualization import draw_graph


def looped() -> lw.Model:
    builder = lw.ModelBuilder("loop <&> graph")
    for name in ("one", "two\x1b", "three", "wheel"):
        builder.add_body(name, mass=1.0, center=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))
    hinge = lw.joints.Revolute()
    builder.add_joint("a", hinge, parent="world", child="one")
    builder.add_joint("b", hinge, parent="one", child="two\x1b", xyz=(0.5, 0, 0))
    builder.add_joint("c", hinge, parent="world", child="three", xyz=(0.7, 0, 0))
    builder.add_joint("w", hinge, parent="three", child="wheel")
    builder.add_loop(
        "closing", hinge, predecessor="two\x1b", successor="three", xyz=(0.6, 0, 0), successor_xyz=(0.5, 0, 0)
    )
    return builder.add_coupling("gear", {"c": 3.0, "w": -1.0}).build()


def test_the_graph_shows_everything(tmp_path: Path) -> None:
    model = looped()
    text = draw_graph(model, tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == text
    tree = xml.dom.minidom.parseString(text)
    words = [node.firstChild.data for node in tree.getElementsByTagName("text")]
    assert {"world", "one", "two\\x1b", "three", "wheel"} < set(words) and any(
        word.startswith("loop <&> graph:") for word in words
    )
    titles = [node.firstChild.data for node in tree.getElementsByTagName("title") if node.firstChild]
    assert titles.count("closing") == 1 and titles.count("gear") == 1 and "revolute a" in titles
    solid = [p for p in tree.getElementsByTagName("path") if not p.getAttribute("stroke-dasharray")]
    assert len(solid) == len(model.joints) + 1  # and one in the legend


def test_every_shipped_robot_can_be_drawn() -> None:
    for name in lw.robots.names():
        xml.dom.minidom.parseString(draw_graph(getattr(lw.robots, name)()))


def test_the_command_draws(tmp_path: Path) -> None:
    assert main(["info", "arm", "--graph", str(tmp_path / "arm.svg")]) == 0
    xml.dom.minidom.parseString((tmp_path / "arm.svg").read_text(encoding="utf-8"))
