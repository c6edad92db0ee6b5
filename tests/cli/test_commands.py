"""The command line: every command runs, mistakes name what may have been meant, and output suits who reads
it.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linkwork as lw
from linkwork.cli import terminal
from linkwork.cli.cli import COMMANDS, EXAMPLES, main, make_parser
from linkwork.cli.completion import script
from waiting import PATIENCE

DOOR = """<robot name="door"><link name="frame"/>
<link name="leaf"><inertial><origin xyz="0.4 0 1"/><mass value="20"/>
  <inertia ixx="6.7" iyy="7.8" izz="1.3" ixy="0.1" ixz="0" iyz="0"/></inertial></link>
<link name="knob"><inertial><mass value="1"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="revolute"><parent link="frame"/><child link="leaf"/><axis xyz="0 0 1"/>
  <limit lower="0" upper="1.6" effort="50" velocity="2"/><dynamics damping="0.3"/></joint>
<joint name="turn" type="continuous"><parent link="leaf"/><child link="knob"/><origin xyz="0.8 0 1" rpy="0.3 0.2 0.1"/>
  <axis xyz="1 0 0"/></joint></robot>"""


@pytest.fixture
def door(tmp_path: Path) -> str:
    (tmp_path / "door.urdf").write_text(DOOR, encoding="utf-8")
    return str(tmp_path / "door.urdf")


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error message of a command that fails, with its hint."""
    try:
        status = main(argv)
    except SystemExit as stop:
        status = int(str(stop.code))
    assert status in (2, 3)
    return " ".join(capsys.readouterr().err.strip().splitlines())


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in (
        (["--version"], lw.__version__),
        (["--help"], "simulate"),
        (["simulate", "--help"], "--film"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == 0 and words in capsys.readouterr().out
    names = {command.__name__ for command in COMMANDS}
    assert {"bench", "cache", "compare", "completion", "demo", "export", "info", "simulate"} <= names


def test_help_without_a_command_and_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    overview = capsys.readouterr().out
    assert all(f"  {command.__name__} " in overview for command in COMMANDS)
    assert main(["help"]) == 0 and capsys.readouterr().out == overview
    assert main(["help", "simulate"]) == 0
    described = capsys.readouterr().out
    assert "--film" in described and "example:" in described and "exit status:" in described


def test_the_example_of_simulate_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = EXAMPLES["simulate"].split()[1:]
    words[words.index("--duration") + 1] = "0.01"
    assert main(words) == 0 and (tmp_path / "motion.npz").exists()


def test_options_of_other_commands_are_not_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--log" not in refused(["info", "arm", "--lo"], capsys)
    assert "did you mean '--graph'" in refused(["info", "arm", "--grahp", "x"], capsys)


def test_exit_status_tells_unsound_from_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unsound = tmp_path / "unsound.urdf"
    joint = '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>'
    unsound.write_text(f'<robot name="r"><link name="a"/><link name="b"/>{joint}</robot>', encoding="utf-8")
    assert main(["info", str(unsound), "--quick"]) == 1
    assert main(["info", str(tmp_path / "missing.urdf")]) == 3
    assert "missing.urdf: file not found" in capsys.readouterr().err


def test_a_file_that_says_how_its_base_stands_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco")
    ball = '<mujoco><worldbody><body name="ball"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    (tmp_path / "ball.xml").write_text(ball, encoding="utf-8")
    assert main(["info", str(tmp_path / "ball.xml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nv"] == 6


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["inof"], "did you mean 'info'"),
        (["info", "humaniod"], "did you mean 'humanoid'"),
        (["info", "arm", "--jsn"], "did you mean '--json'"),
        (["info", "--wrong"], "unknown option --wrong"),
        (["info", "arm", "extra"], "unexpected argument extra"),
        (["info", "arm", "--base", "free"], "--base: expected a file"),
        (["info", "arm", "--strict"], "--strict: expected a file"),
        (["simulate", "arm", "--out", "motion.txt"], "expected a .npz file"),
        (["view", "arm", "--log", "none.npz"], "linkwork: none.npz: file not found"),
        (["info", "--jsn"], "did you mean '--json'"),
        (["cache", "verfy"], "did you mean 'verify'"),
        (["info"], "linkwork help info"),
        (["export", "arm", "--function", "frame_jacobian"], "--frame"),
        (["bench", "humaniod"], "did you mean 'humanoid'"),
        (["export", "arm", "--function", "invers_dynamics"], "did you mean 'inverse_dynamics'"),
        (["export", "arm", "--function", "frame_pose", "--frame", "hnad"], "did you mean 'hand'"),
        (["simulate", "arm", "--set", "elbow_ptich=1"], "did you mean 'elbow_pitch'"),
        (["simulate", "arm", "--force", "elbow_pitch"], "expected JOINT=NUMBER"),
        (["simulate", "arm", "--speed", "elbow_pitch=fast"], "expected JOINT=NUMBER, got 'elbow_pitch=fast'"),
        (["simulate", "four_bar", "--force", "joint2=1"], "not a component of v"),
        (["simulate", "arm", "--integrator", "semi_implicit"], "did you mean 'semi_implicit_euler'"),
        (["simulate", "arm", "--dt", "0"], "positive number of seconds"),
        (["info", "arm", "--xacro", "gripper=true"], "got 'arm'"),
        (["info", "arm.xacro", "--xacro", "gripper"], "expected NAME=VALUE"),
    ],
)
def test_mistakes_are_told_with_what_may_have_been_meant(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(argv, capsys)


def test_names_of_robots_and_of_parts_that_are_misspelt() -> None:
    with pytest.raises(AttributeError, match="did you mean 'humanoid'"):
        _ = lw.robots.humaniod  # type: ignore[attr-defined]
    leg = lw.ModelBuilder("leg").add_body("thigh", mass=1.0, inertia=(1, 1, 1))
    with pytest.raises(lw.ModelError, match="did you mean 'thigh'"):
        leg.add_joint("hip", lw.joints.Revolute(), parent="world", child="tihgh").build()


def test_robots_of_installed_packages(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(door).read_text(encoding="utf-8")
    for name, content in {
        "frax/gatehouse.urdf": text,
        "frax-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: frax\nVersion: 9.9\n",
        "frax-9.9.dist-info/RECORD": "frax/gatehouse.urdf,,\n",
    }.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in ("gatehouse", "frax/gatehouse"):
        assert main(["info", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["nv"] == lw.load(door).nv
    for name in ("gatehuose", "frax/gatehuose"):
        assert "did you mean 'gatehouse'" in refused(["info", name], capsys)


def test_arguments_of_xacro_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xacro")
    text = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"> <xacro:arg name="kind" default="fixed"/>
      <link name="a"/> <link name="b"> <inertial> <mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
      <joint name="j" type="$(arg kind)"> <parent link="a"/> <child link="b"/> <axis xyz="0 0 1"/> </joint> </robot>"""
    (tmp_path / "r.xacro").write_text(text, encoding="utf-8")
    for word, nv in ((), 0), (("--xacro", "kind=continuous"), 1), (("--xacro", "kind:=continuous"), 1):
        main(["info", str(tmp_path / "r.xacro"), "--json", *word])
        assert json.loads(capsys.readouterr().out)["nv"] == nv


def test_a_file_that_is_misspelt(door: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'door.urdf'" in refused(["info", door.replace("door.urdf", "doro.urdf")], capsys)


def test_simulate_writes_what_rollout_finds(
    door: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "log.npz"
    argv = [
        "simulate",
        door,
        "--duration",
        "0.2",
        "--set",
        "hinge=0.5",
        "--speed",
        "turn=2",
        "--force",
        "hinge=3",
    ]
    assert (
        main([*argv, "--integrator", "semi_implicit_euler", "--every", "0.01", "--out", str(out), "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    model = lw.load(door)
    asked = lw.rollout(model, [0.5, 0.0], [0.0, 2.0], [3.0, 0.0], dt=1e-3, steps=200, record_every=10)
    with np.load(out) as log:
        assert (
            np.array_equal(log["q"][0], asked.q)
            and np.array_equal(log["v"][0], asked.v)
            and np.allclose(log["t"][-1], 0.2)
        )
        assert tuple(log["v_names"]) == model.v_names
    assert told["finished"] == told["rows"] == 1 and "drift" not in told["energy"]


def test_simulate_names_joints_outside_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["simulate", "arm", "--duration", "0.002"]
    assert main([*argv, "--set", "hand_yaw=4"]) == 0
    assert "hand_yaw starts at 4, outside its limits -3.05 to 3.05" in capsys.readouterr().out
    assert main(argv) == 0
    assert "outside" not in capsys.readouterr().out


def test_simulate_with_contact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ball.urdf"
    inertia = '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
    path.write_text(
        f'<robot name="ball"><link name="ball"><inertial><mass value="1"/>{inertia}</inertial>'
        '<collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>',
        encoding="utf-8",
    )
    out = tmp_path / "log.npz"
    argv = [
        "simulate",
        str(path),
        "--base",
        "free",
        "--duration",
        "0.1",
        "--contact",
        "--out",
        str(out),
        "--json",
    ]
    assert main(argv) == 0
    assert "drift" not in json.loads(capsys.readouterr().out)["energy"]
    log = lw.Log.load(out)
    assert (
        np.allclose(log.q[0, :, 2], 0.1, rtol=0.0, atol=1e-9) and log.forces[0, -1, 0, 2] > 0.0
    )  # it was put on the ground


def test_what_cannot_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "one.urdf")
    Path(path).write_text('<robot name="one"><link name="a"/></robot>', encoding="utf-8")
    assert (
        main(["info", path, "--graph", str(tmp_path / "one.svg")]) == 0
        and "0 bodies" in capsys.readouterr().out
    )
    assert "has no degrees of freedom" in refused(["simulate", path], capsys)


def test_simulate_keeps_loops_closed_and_says_how_rows_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "slider_crank", "--duration", "0.05", "--rows", "3", "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert sum(told["ended"].values()) == 3 and told.get("open", 0.0) < 1e-9


def test_export_and_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "export",
        "arm",
        "--function",
        "frame_pose",
        "--frame",
        "hand",
        "--out",
        str(tmp_path / "c"),
        "--json",
    ]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["header"]).read_text(encoding="utf-8") and len(told["files"]) >= 3
    assert main(["cache", "--json"]) == 0
    assert "entries" in json.loads(capsys.readouterr().out)


def test_every_action_on_the_cache_can_be_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKWORK_CACHE", str(tmp_path / "cache"))
    told = {}
    for action in ("path", "verify", "clear"):
        assert main(["cache", action, "--json"]) == 0
        told[action] = json.loads(capsys.readouterr().out)
    assert told["path"]["folder"] == str(tmp_path / "cache")
    assert told["verify"]["good"] is True and told["clear"]["removed"] == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["simulate", "arm", "--rows", "1e3"], "--rows: expected an integer of at least 1, got 1e3"),
        (["simulate", "arm", "--dt", "soon"], "--dt: expected a positive number of seconds, got soon"),
        (
            ["view", "arm", "--port", "99999999"],
            "--port: expected an integer from 1 to 65535, got 99999999",
        ),
    ],
)
def test_arguments_that_are_no_numbers(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_folders_and_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected a file, got a folder" in refused(["info", str(tmp_path)], capsys)
    told = refused(["info", "arm", "--quick", "--graph", str(tmp_path)], capsys)
    assert told.strip() == f"linkwork: {tmp_path}: Is a directory"
    missing = refused(["view", "arm", "--log", str(tmp_path / "motion.npz")], capsys)
    assert "motion.npz: file not found" in missing


def test_advice_on_losses_of_exports_is_in_options_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    robot = tmp_path / "shell.urdf"
    robot.write_text(
        '<robot name="shell"><link name="base"><collision><geometry><mesh filename="a.stl"/></geometry>'
        "</collision></link></robot>"
    )
    command = ["export", str(robot), "--format", "mjcf", "--out", str(tmp_path)]
    message = refused(command, capsys)
    assert "--meshes; --allow-loss 'collision shapes' omits it" in message
    assert main([*command, "--allow-loss", "collision shapes"]) == 0
    assert (tmp_path / "shell.xml").exists()


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_a_robot_can_be_written_and_read_again(
    kind: str, door: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not hasattr(lw, f"export_{kind}"):
        assert "does not write" in refused(["export", door, "--format", kind], capsys)
        return
    assert main(["export", door, "--format", kind, "--out", str(tmp_path / "new"), "--json"]) == 0
    (path,) = json.loads(capsys.readouterr().out)["files"]
    assert "door" in path
    if kind == "urdf":
        one = lw.load(door)
        other = lw.load(path)
        q, v = one.random_state(0)
        assert np.allclose(lw.forward_dynamics(one, q, v, v), lw.forward_dynamics(other, q, v, v), rtol=1e-12)


def test_compare(door: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pinocchio")
    pytest.importorskip("mujoco")
    assert main(["compare", door, "--states", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {(row["peer"], row["function"]) for row in told["compared"]} == {
        (peer, name)
        for peer in ("Pinocchio", "MuJoCo")
        for name in ("inverse_dynamics", "mass_matrix", "forward_dynamics")
    }
    assert told["same"] and max(row["difference"] for row in told["compared"]) < 1e-12


FLOATING = """<mujoco><compiler boundmass="0.5"/><option density="1000"/><worldbody>
  <body name="trunk" pos="0 0 1" euler="10 20 30" gravcomp="1"><freejoint/><geom type="box" size=".2 .1 .05" pos=".1 .2 0"/>
    <body name="leg" pos=".1 0 0"><joint name="hip" axis="0 1 0" ref="20" stiffness="3" damping=".2"/>
      <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3" mass=".1"/></body></body></worldbody></mujoco>"""


def test_compare_on_a_free_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the compiler's settings say, and without what linkwork has not; a robot that is no file is compared
    by its export.
    """
    pytest.importorskip("mujoco")
    (tmp_path / "floating.xml").write_text(FLOATING)
    for robot in (str(tmp_path / "floating.xml"), "arm"):
        main(["compare", robot, "--states", "3", "--json"])
        rows = [row for row in json.loads(capsys.readouterr().out)["compared"] if row["peer"] == "MuJoCo"]
        assert len(rows) == 3 and max(row["difference"] for row in rows) < 1e-12


WEIGHTLESS = """<robot name="r"><link name="base"/><link name="a"><inertial><mass value="1"/><origin xyz="0.1 0 0"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><dynamics damping="0.3"/></joint>
  <gazebo reference="a"><gravity>false</gravity></gazebo></robot>"""
TENDON = """<mujoco><worldbody><body name="a"><joint name="j1" axis="0 1 0" damping=".1"/><site name="s1" pos=".1 0 -.1"/>
  <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3" mass=".1"/><body name="b" pos="0 0 -.3" gravcomp=".5">
  <joint name="j2" axis="0 1 0" armature=".01"/><site name="s2" pos="0 .05 -.1"/>
  <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3" mass=".1"/></body></body></worldbody>
  <tendon><spatial stiffness="7" damping=".2"><site site="s1"/><site site="s2"/></spatial></tendon></mujoco>"""


FIXED_TENDON = (
    TENDON.partition("<tendon>")[0]
    + """<tendon><fixed stiffness="7" springlength=".3" damping=".2">
  <joint joint="j1" coef="2"/><joint joint="j2" coef="-.7"/></fixed></tendon>
  <actuator><motor joint="j1" armature=".02"/></actuator></mujoco>"""
)


@pytest.mark.parametrize(
    "name, text",
    [("weightless.urdf", WEIGHTLESS), ("tendon.xml", TENDON), ("fixed_tendon.xml", FIXED_TENDON)],
)
def test_compare_with_forces_that_peers_lack(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("pinocchio")
    (tmp_path / name).write_text(text)
    assert main(["compare", str(tmp_path / name), "--states", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["compared"]
    assert len(rows) == 6 and max(row["difference"] for row in rows) < 1e-12


def test_compare_sees_a_difference(
    door: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pinocchio")
    right = lw.mass_matrix
    monkeypatch.setattr(lw, "mass_matrix", lambda model, q: right(model, q) * (1 + 1e-6))
    assert main(["compare", door, "--states", "5"]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_completion_knows_commands_options_and_robots() -> None:
    for shell in ("bash", "zsh", "fish"):
        text = script(make_parser(), shell)
        assert all(word in text for word in ("simulate", "duration", "humanoid", "semi_implicit_euler"))
    bash = script(make_parser(), "bash")
    for line, wanted in (("linkwork si", "simulate"), ("linkwork info hum", "humanoid"), ("linkwork info arm --j", "--json"),
                         ("linkwork simulate arm --integrator se", "semi_implicit_euler")):  # fmt: skip
        words = line.split(" ")
        array = " ".join(f'"{word}"' for word in words)
        command = f'{bash}\nCOMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _shtab_linkwork; echo "${{COMPREPLY[@]}}"'
        found = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        assert found.stdout.split() == [wanted]


def test_completion_without_shtab_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 3
    assert "pip install 'linkwork[completion]'" in capsys.readouterr().err


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert (
        terminal.Paint(Screen())("x", "red") == "\x1b[31mx\x1b[0m"
        and terminal.Paint(io.StringIO())("x", "red") == "x"
    )
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.Paint(Screen())("x", "red") == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.Paint(Screen())("x", "red") == "x"


def test_progress_is_told_where_it_takes_long() -> None:
    wait = terminal.threading.Event()
    for screen in (Screen(), io.StringIO()):
        with terminal.working("compiling", screen, patience=60.0):
            pass
        assert screen.getvalue() == ""
        with terminal.working("compiling", screen, patience=0.0) as progress:
            progress.part = 0.25
            while "compiling" not in screen.getvalue():
                wait.wait(0.01)
        said = screen.getvalue()
        assert (
            ("25%" in said and said.endswith("\r\x1b[K"))
            if screen.isatty()
            else said == "linkwork: compiling ...\n"
        )
