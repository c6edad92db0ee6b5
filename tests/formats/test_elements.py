"""The tables of elements and attributes: one file for each row says what the row says; what is in no table is
reported.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import linkwork as lw
from element_rows import nested, rows, shown
from linkwork.errors import ModelError
from linkwork.formats.elements import STATUSES, check, table
from linkwork.formats.elements_mjcf import mjcf
from linkwork.formats.elements_sdf import sdf
from linkwork.formats.elements_urdf import urdf
from linkwork.formats.urdf_parts import Notes
from linkwork.formats.xml import parse
from sdf_names import NAMES

TABLES = {"robot": urdf(), "sdf": sdf(), "mujoco": mjcf()}
FORMATS = {"robot": "URDF", "sdf": "SDF", "mujoco": "MJCF"}


@pytest.mark.parametrize("root", TABLES)
def test_rows_have_one_meaning(root: str) -> None:
    found = rows(TABLES[root])
    assert len(found) > 80 and {path[-1].status for path in found} <= {*STATUSES}
    for path in found:
        assert all(len([x for x in several if not x.types]) <= 1 for several in path[-1].rows.values()), (
            shown(path)
        )


@pytest.mark.parametrize("root", TABLES)
def test_every_row_says_what_a_file_of_it_means(root: str) -> None:
    """A file with only the path of a row: what is reported or rejected is noted by its name, and what is not is
    not.
    """
    for path in rows(TABLES[root]):
        if any(row.status in ("reported", "rejected") or row.everything for row in path[:-1]):
            continue
        row = path[-1]
        told = notes_of(root, nested(path, "something"))
        if row.status in ("reported", "rejected"):
            name = row.name[1:] if row.name.startswith("@") else f"<{row.name}>"
            assert len(told) == 1 and told[0].startswith(f"{name} in <{path[-2].name}> "), (shown(path), told)
        else:
            assert not told, (shown(path), told)
        for neutral in row.neutral:
            assert not notes_of(root, nested(path, neutral.replace(",", " ").replace('""', ""))), (
                shown(path),
                neutral,
            )


def notes_of(root: str, text: str) -> list[str]:
    """What a check of a text tells, also by an error."""
    notes = Notes()
    try:
        check(parse(text, "<text>"), TABLES[root], notes, FORMATS[root], strict=False)
    except ModelError as error:
        return [re.sub(r"^<text>:1: (<[^>]*>( in )?(\.\.\.)?)+: ", "", str(error))]
    if notes.lines():
        with pytest.raises(ModelError, match="<text>:1: "):
            check(parse(text, "<text>"), TABLES[root], Notes(), FORMATS[root], strict=True)
    return notes.lines()


UNKNOWN = {
    "robot": '<robot name="r">\n<link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"'
    ' iyz="0" IXX="2"/></inertial></link>\n<dampng/></robot>',
    "sdf": '<sdf version="1.9"><model name="m">\n<link name="a" IXX="2"/><joint name="j" type="revolute"><parent>world</parent>'
    "<child>a</child><axis><dynamics>\n<dampng>3</dampng></dynamics></axis></joint></model></sdf>",
    "mujoco": "<mujoco/>",
}


def test_the_table_of_mjcf_has_all_of_the_schema() -> None:
    """Every element and attribute that MuJoCo's own compiler accepts, as it prints them."""
    mujoco = pytest.importorskip("mujoco")
    missing: list[str] = []
    pairs = 0
    within: list[
        tuple[int, Any]
    ] = []  # indents of elements with their rows; None below one whose row is for everything in it
    row: Any = None
    for line in mujoco.mj_printSchema(False, False).splitlines():
        head = re.match(r"( *)(\(world\)body|\w+) \(.\)(.*)", line)
        if head is not None:
            name = {"(world)body": "worldbody"}.get(head[2], head[2])
            depth = 3 if name == "worldbody" else len(head[1])
            within = [(indent, each) for indent, each in within if indent < depth]
            if not within:
                row = mjcf()
            elif within[-1][1] is not None:
                row = within[-1][1].find(name)
                missing += [f"<{name}>"] if row is None else []
                row = None if row is None or row.everything else row
            else:
                row = None
            within.append((depth, row))
        for attribute in (line if head is None else head[3]).split():
            pairs += 1
            if row is not None and row.find(f"@{attribute}") is None:
                missing.append(f"{attribute} in {row.name}")
    assert not missing and pairs > 1000


# model/@version is written by older tools
NOT_IN_SPECIFICATION = {"sdf/model": {"@version"}, "world/model": {"@version"}, "model/model": {"@version"}}


def test_the_table_of_sdf_has_all_of_the_specification() -> None:
    listed = dict(line.split(": ") for line in NAMES.replace("\n    ", " ").strip().splitlines())
    seen = set()
    waiting = [("", sdf())]
    for parent, row in waiting:  # which grows
        key = f"{parent}/{row.name}" if parent else row.name
        if key in seen or row.everything or row.status in ("reported", "rejected"):
            continue
        if key in listed:
            names = set(listed[key].split())
            assert names <= set(row.rows), key
            assert set(row.rows) <= names | NOT_IN_SPECIFICATION.get(key, set()), key
        seen.add(key)
        waiting += [(row.name, each) for several in row.rows.values() for each in several]
    assert seen >= set(listed)


@pytest.mark.parametrize("root", ["robot", "sdf"])
def test_what_is_in_no_table_is_reported_with_its_line(root: str) -> None:
    report = lw.load(UNKNOWN[root]).report()
    for word, line in (("IXX", 2), ("<dampng>", 3)):
        assert re.search(
            rf"{word} in <[a-z]+> is unknown in {FORMATS[root]} and ignored: line {line}", report
        )
    with pytest.raises(ModelError, match="<text>:[23]: .* is unknown in "):
        lw.load(UNKNOWN[root], strict=True)


def test_an_included_file_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "arm.sdf").write_text(
        '<sdf version="1.9"><model name="m"><link name="a">\n<kinematic>1</kinematic></link></model></sdf>'
    )
    include = "<include><uri>arm.sdf</uri>\n<experimental:params/></include>"
    (tmp_path / "all.sdf").write_text(f'<sdf version="1.9"><world name="w">{include}</world></sdf>')
    report = lw.load(tmp_path / "all.sdf").report()
    assert "<experimental:params> in <include> is unknown in SDF and ignored: line 2" in report
    assert "<kinematic> in <link> is not supported and ignored: line 2" in report


def test_rows_of_a_text() -> None:
    own = table(
        "a supported =g =h\n  b c[x,y] reported 0 1,2 ; why\n    @d ignored\n  c supported **",
        {"g": "e supported", "h": ""},
    ).find("a")
    assert own is not None and [row.name for row in (own.find("b"), own.find("e")) if row] == ["b", "e"]
    special = own.find("c", "x")
    usual = own.find("c", "z")
    assert special is not None and usual is not None and special.types == ("x", "y") and usual.everything
    assert special.neutral == ("0", "1,2") and special.remark == "why" and special.find("@d") is not None
    with pytest.raises(AssertionError, match="f supported: rows below one group would be in the group"):
        table("a supported =g\n  f supported", {"g": "e supported"})


# what acts

INERTIA = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
LINKS = f'<link name="base"/><link name="a"><inertial><mass value="2"/>{INERTIA}</inertial></link>'
HINGE = '<joint name="j" type="{}"><parent link="base"/><child link="a"/>{}</joint>'
MOTOR = (
    '<transmission name="t"><type>SimpleTransmission</type>'
    '<joint name="{}"/><actuator name="m">{}</actuator></transmission>'
)
DRAKE = '<drake:gear_ratio value="30"/><drake:rotor_inertia value="0.002"/>'


@pytest.mark.parametrize("armature", [0.0, 0.5])
def test_joints_feel_the_rotors_of_their_transmissions(armature: float) -> None:
    dynamics = f'<dynamics damping="1" armature="{armature}"/>' if armature else ""
    text = f'<robot name="r">{LINKS}{HINGE.format("continuous", dynamics)}{{}}</robot>'
    two = MOTOR.format("j", DRAKE) + MOTOR.format("j", '<drake:rotor_inertia value="0.25"/>')
    assert lw.load(text.format(two)).joint("j").armature == (pytest.approx(armature + 1.8 + 0.25),)
    assert lw.load(text.format("")).joint("j").armature == (armature,)
    for lost in (
        MOTOR.format("k", DRAKE),
        MOTOR.format("j", DRAKE).replace("<actuator", '<joint name="k"/><actuator'),
    ):
        assert "rotor inertia is ignored" in lw.load(text.format(lost)).report()
        with pytest.raises(ModelError, match="<text>:1: <drake:rotor_inertia>"):
            lw.load(text.format(lost), strict=True)
    with pytest.raises(ModelError, match="rotor inertia: expected a non-negative number, got -1"):
        lw.load(text.format(MOTOR.format("j", '<drake:rotor_inertia value="-1"/>')))


@pytest.mark.parametrize("kind", ["SPHERICAL", "UJOINT_XY", "FIXED"])
def test_what_a_joint_loses_to_a_loop_file_is_reported(kind: str, tmp_path: Path) -> None:
    hinge = HINGE.format(
        "revolute", '<limit lower="-1" upper="1" effort="1" velocity="1"/><dynamics damping="1"/>'
    )
    (tmp_path / "r.urdf").write_text(f'<robot name="r">{LINKS}{hinge}</robot>')
    (tmp_path / "r.yaml").write_text(f"joint_name: [j]\njoint_type: [{kind}]\n")
    report = lw.load(tmp_path / "r.urdf", loops=str(tmp_path / "r.yaml")).report()
    assert re.search(
        r"max_effort, max_velocity, lower, upper, damping of a joint whose type the loop file changes is ignored",
        report,
    )


def test_gravity_of_old_worlds() -> None:
    world = '<sdf version="{}"><world name="w"><physics type="ode"><gravity>0 0 -3</gravity></physics>{}</world></sdf>'
    model = '<model name="m"><link name="a"/></model>'
    assert lw.load(world.format("1.5", model)).gravity == (0.0, 0.0, -3.0)
    assert lw.load(world.format("1.6", model)).gravity == (0.0, 0.0, -9.81)


def test_shapes_in_any_frame() -> None:
    ball = "<geometry><sphere><radius>1</radius></sphere></geometry>"
    shape = f'<collision name="s"><pose relative_to="f">0 0 1 0 0 0</pose>{ball}</collision>'
    link = f'<link name="a"><pose>1 0 0 0 0 0</pose>{shape}</link>'
    found = lw.load(
        f'<sdf version="1.9"><model name="m">{link}<frame name="f"><pose>0 5 0 0 0 0</pose></frame></model></sdf>'
    )
    assert [float(x) for x in found.geometries[0].place.p] == [-1.0, 5.0, 1.0]


# the page


def test_the_page_shows_the_tables() -> None:
    root = Path(__file__).resolve().parents[2]
    found = importlib.util.spec_from_file_location("elements_page", root / "tools" / "elements.py")
    assert found is not None and found.loader is not None
    tool = importlib.util.module_from_spec(found)
    found.loader.exec_module(tool)
    told = "python tools/elements.py writes docs/elements.md"
    assert (root / "docs" / "elements.md").read_text(encoding="utf-8") == tool.page(), told
