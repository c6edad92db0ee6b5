"""The demos run, say so when a law is broken, and draw pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import linkwork as lw
from linkwork import robots
from linkwork.cli import balance, biped, cli, demo, demo_picture, somersault

SVG = "{http://www.w3.org/2000/svg}"
SMALL: dict[str, Any] = {"side": 4, "states": 64, "patience": 0.002, "wait": False}


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo.run(tmp_path / "new", **SMALL) == 0
    said = capsys.readouterr().out
    assert "13 of 13 checks passed" in said and "FAILED" not in said
    assert 40 <= len(said.splitlines()) <= 70 and max(map(len, said.splitlines())) <= 120
    _check_picture((tmp_path / "new" / "demo.svg").read_text(encoding="utf-8"))

    right = lw.bias_force
    monkeypatch.setattr(lw, "bias_force", lambda model, q, v: right(model, q, v) * (1 + 1e-6))
    assert demo.run(tmp_path, **SMALL) == 1
    said = capsys.readouterr().out
    assert re.search(r"M a \+ bias = tau .* FAILED", said) and "12 of 13 checks passed" in said


def _check_picture(text: str) -> None:
    root = ElementTree.fromstring(text)
    width, height = (float(x) for x in root.attrib["viewBox"].split()[2:])
    assert len(root.findall(f".//{SVG}path")) > 9 * 2 * 20  # nine poses of the robot, its bodies with a rim
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "A somersault, found among 16" in words and "0.8 s" in words
    assert "nan" not in text
    for d in (
        element.attrib["d"] for element in root.findall(f"{SVG}path")
    ):  # what is outside of the plots is in the picture
        points = np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", d), dtype=float)
        assert (points > 0).all() and (points < (width, height)).all()


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(demo, "run", lambda folder: asked.append(folder) or 3)
    assert cli.main(["demo", "somersaults", "--out", str(tmp_path)]) == 3
    assert asked == [tmp_path]


def test_checks_count_what_is_broken() -> None:
    checks = demo.Checks()
    checks.small("a", [1e-9, -1e-3], 1e-2)
    checks.same("b", [1.0, np.nan], [1.0, np.nan])
    checks.between("c", 3.0, 2.0, 4.0)
    assert (checks.count, checks.failed) == (3, 0)
    checks.small("d", [1e-9, -1e-3], 1e-4)
    checks.small("e", [np.nan], 1.0)
    checks.same("f", [0.0], [-0.0])
    checks.same("g", [0.0], [0.0, 0.0])
    checks.between("h", 5.0, 2.0, 4.0)
    assert (checks.count, checks.failed) == (8, 5)


def test_pose_is_symmetric() -> None:
    model = robots.humanoid()
    q = somersault.pose(model, shoulder_roll=0.2, knee=0.5, waist_pitch=0.1)
    at = {joint.name: q[joint.q_start] for joint in model.joints[1:]}
    bent = {name: angle for name, angle in at.items() if angle}
    knees = {"left_knee": 0.5, "right_knee": 0.5}
    assert bent == {"left_shoulder_roll": 0.2, "right_shoulder_roll": -0.2, "waist_pitch": 0.1, **knees}


def test_motors_do_no_more_than_they_can() -> None:
    model = robots.humanoid()
    rng = np.random.default_rng(0)
    limit = np.array([joint.max_effort[0] for joint in model.joints[1:]])
    for t in (0.0, 0.2, 0.6):
        q, v = model.random_state(rng)
        tau = somersault.torques(model, q, 30 * v, t, 1.0).astype(float)
        assert not tau[:6].any() and (np.abs(tau[6:]) <= limit).all() and np.abs(tau[6:] / limit).max() > 0.9


# the picture's own parts


def test_hull() -> None:
    points = np.array([(0, 0), (2, 0), (1, 1), (2, 2), (0, 2), (1, 0)], dtype=float)
    assert {*map(tuple, demo_picture.hull(points))} == {(0, 0), (2, 0), (2, 2), (0, 2)}
    assert len(demo_picture.hull(np.array([(0.0, 0.0), (1.0, 1.0)]))) == 2


def test_camera_sees_what_is_near_larger() -> None:
    camera = demo_picture.Camera((0.0, -5.0, 1.0), (0.0, 0.0, 1.0), 100, (300, 200))
    places, scale = camera.see([(0, 0, 1), (1, 0, 1), (0, 0, 2), (0, -2.5, 1), (1, -2.5, 1)])
    assert np.allclose(places, [(300, 200), (400, 200), (300, 100), (300, 200), (500, 200)])
    assert np.allclose(scale, [100, 100, 100, 200, 200])


def test_cells_cover_the_map_once() -> None:
    share = np.random.default_rng(0).uniform(size=(3, 5))
    drawn = " ".join(demo_picture.cells(share, 10.0, 4.0, 2.0))
    corners = {(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)", drawn)}
    assert corners == {(10.0 + 4.0 * column, 2.0 * row) for row in range(3) for column in range(5)}
    assert drawn.count("M") == 15


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.5, "1.50 s"),
        (0.0123, "12.3 ms"),
        (2.5e-6, "2.50 µs"),
        (2.63e-7, "263 ns"),
        (1e-6, "1.00 µs"),
        (9.999e-4, "1.00 ms"),
    ],
)
def test_duration(seconds: float, said: str) -> None:
    assert demo_picture.duration(seconds) == said


def test_nice() -> None:
    assert demo_picture.nice(0, 1550).tolist() == [0, 500, 1000, 1500, 2000]
    assert demo_picture.nice(2, 8).tolist() == [2, 4, 6, 8]


def test_colours() -> None:
    colours = ("#000000", "#ffffff", "#ff0000")
    assert [demo_picture.blend(colours, x) for x in (-1, 0, 0.25, 0.5, 1, 2)] == [
        "#000000", "#000000", "#808080", "#ffffff", "#ff0000", "#ff0000",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_biped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert biped.run(tmp_path / "new", rows=3, duration=0.02, standing=4, turns=1) == 0
    said = capsys.readouterr().out
    for words in ("left knee-ankle differential", "costliest clusters", "3 of 3 took all steps", "rotors ignored",
                  "4 robots stand on their soles", "2 of 2 unperturbed robots remain standing, and 2 of 2 that were pushed",
                  "one core [states/s]", "linkwork view tello --log", "All checks passed."):  # fmt: skip
        assert words in said
    for name in ("biped.gif", "standing.gif"):
        assert (tmp_path / "new" / name).read_bytes().startswith(b"GIF89a")
    model = robots.tello()
    with np.load(tmp_path / "new" / "biped.npz") as log:
        assert np.max(lw.close_loops(model, log["q"])[1]) < 1e-9 and log["tau"].shape == (
            len(log["t"]),
            model.nv,
        )
    right_balance = biped.balance
    with monkeypatch.context() as planted:  # all have fallen
        planted.setattr(
            biped, "balance", lambda *args: replace(right_balance(*args), up=np.zeros(1, dtype=bool))
        )
        assert biped.run(tmp_path, rows=1, duration=0.02, standing=1, turns=1) == 1
    assert "0 of 1 unperturbed robots remain standing" in capsys.readouterr().out
    right = lw.inverse_dynamics
    monkeypatch.setattr(lw, "inverse_dynamics", lambda *args: right(*args) * (1 + 1e-6))
    assert biped.run(tmp_path, rows=1, duration=0.02, standing=1, turns=1) == 1
    assert "CHECKS FAILED" in capsys.readouterr().out


def test_the_biped_follows_what_it_is_told() -> None:
    model = robots.tello()
    control = biped.swing(model, 2)
    motion = lw.rollout(
        model, np.tile(control.q0, (2, 1)), np.zeros((2, model.nv)), control.torque, dt=2e-3, steps=250
    )
    where, _ = control.target(0.5)
    moved = lw.difference(model, np.tile(control.q0, (2, 1)), motion.q[:, -1])
    assert (motion.status == lw.Status.OK).all() and np.abs(
        moved[:, :6]
    ).max() < 0.05  # the gantry holds the torso
    assert np.abs(moved - where).max() < 0.25 * np.abs(where).max()


def test_the_biped_stands_with_its_centre_of_mass_above_level_soles() -> None:
    model = robots.tello()
    q = balance.stance(model)
    gap, point, _ = lw.contact_points(model, q, contacts=balance.CONTACTS)
    assert len(gap) == 8 and gap.min() == pytest.approx(0.0, abs=1e-12) and gap.max() < 1e-5
    center = lw.center_of_mass(model, q)
    assert (point[:, :2].min(axis=0) + 0.03 < center[:2]).all() and (
        center[:2] < point[:, :2].max(axis=0) - 0.03
    ).all()
    knee = model.joint("left-thigh-to-shin")
    assert q[knee.q_start] == pytest.approx(0.5, abs=1e-3)  # bent


@pytest.mark.slow
def test_bipeds_on_the_ground_stand_until_they_are_pushed_too_much() -> None:
    model = robots.tello()
    stood = balance.balance(model, 16, 1.5)
    weak = stood.push < 0.2
    assert weak.sum() > 8 and stood.up[weak].all() and stood.depth < 1e-4
    start = stood.q[0, 0]
    assert np.abs(lw.difference(model, start, stood.q[0, -1])[:6]).max() < 0.03  # nobody pushed it
    assert stood.push[stood.film_row] > 0.0 and stood.residuals[0] < 5e-3
