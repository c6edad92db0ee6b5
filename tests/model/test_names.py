"""Names out of files, wherever they are printed: nothing in them steers a terminal, or turns the text around
it.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.cli.cli import main
from linkwork.formats import urdf
from linkwork.interop.matching import PeerJoint, matched
from linkwork.joints import Prismatic, Revolute, Spherical
from linkwork.mechanism.names import did_you_mean, plain, printable
from linkwork.visualization import draw_graph

HIDDEN = (
    "Cc",
    "Cf",
    "Zl",
    "Zp",
    "Co",
    "Cs",
    "Cn",
)  # controls, marks of direction, separators, private and no characters
BAD = "\x1b[31m\x9b2J\u202e\u200b\u2066\u2028\ufeff\ue000\U000e0041\u0378"
IN_FILE = BAD.replace("\x1b", "")  # XML takes no such character


def clean(text: str) -> bool:
    return not any(unicodedata.category(c) in HIDDEN for c in text.replace("\n", ""))


def test_every_hidden_character_is_shown_as_python_writes_it() -> None:
    for code in (*range(0x3000), *range(0x3000, sys.maxunicode + 1, 97)):
        c = chr(code)
        if unicodedata.category(c) in HIDDEN:
            assert clean(printable(f"a{c}b")) and "\\" in printable(c)
    assert printable("knee") == plain("knee") == "knee" and printable("Hüfte 膝 \\x1b") == "Hüfte 膝 \\x1b"
    assert len(printable("x" * 500)) == 120 and len(plain("x" * 500)) == 500
    assert (
        clean(did_you_mean(f"kne{BAD}", [f"knee{BAD}"]))
        and did_you_mean("kne", ["knee"]) == " (did you mean 'knee'?)"
    )


def hostile() -> lw.Model:
    """A machine with a loop and a gear, all of whose names are hostile."""
    builder = lw.ModelBuilder(f"machine{BAD}")
    x = Revolute((0, 0, 1))
    y = Prismatic((1, 0, 0))
    for name, on in (
        ("crank", "world"),
        ("rod", "crank"),
        ("slide", "world"),
        ("rotor", "crank"),
        ("ball", "rod"),
    ):
        builder.add_body(f"{name}{BAD}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        kind = y if name == "slide" else Spherical() if name == "ball" else x
        at = (1.0, 0.0, 0.0) if on != "world" else (0.0, 0.0, 0.0)
        parent = on if on == "world" else f"{on}{BAD}"
        builder.add_joint(f"j_{name}{BAD}", kind, parent=parent, child=f"{name}{BAD}", xyz=at, friction=0.1)
    builder.add_loop(f"pin{BAD}", x, predecessor=f"rod{BAD}", successor=f"slide{BAD}", xyz=(2.0, 0, 0))
    builder.add_coupling(f"gear{BAD}", {f"j_rotor{BAD}": 1.0, f"j_crank{BAD}": -6.0})
    builder.add_frame(f"tip{BAD}", body=f"rod{BAD}")
    builder.notes.append(f"a note{BAD}")
    return builder.build()


def calls(m: lw.Model) -> Iterator[Callable[[], Any]]:
    """All that is wrong with names, as far as one can think of it."""
    q, v = m.random_state(0)
    names = [f"j_crank{BAD}", f"tip{BAD}", f"pin{BAD}", f"nothing{BAD}", f"ti{BAD}", "tip"]
    for name in names:
        yield from (
            lambda ask=ask, name=name: ask(name) for ask in (m.body, m.joint, m.frame, m.with_independent)
        )  # type: ignore[misc]
        yield lambda name=name: m.with_loops(constrain=[name])  # type: ignore[misc]
        yield lambda name=name: m.with_loop(name, Spherical(), predecessor=name, successor=f"rod{BAD}")  # type: ignore[misc]
        yield lambda name=name: m.with_coupling(f"gear{BAD}", {name: 1.0})  # type: ignore[misc]
        yield lambda name=name: lw.constrained_dynamics(m, q, v, v, constraints=lw.Weld(name, at=[0.0]))  # type: ignore[misc]
        yield lambda name=name: lw.Weld(name, gains=lw.Gains(1.0))  # type: ignore[misc]
        for function in (lw.frame_pose, lw.frame_jacobian):
            yield lambda function=function, name=name: function(m, q, frame=name)  # type: ignore[misc]
        yield lambda name=name: lw.hybrid_dynamics(m, q, v, v, v, prescribed=[name])  # type: ignore[misc]
        yield lambda name=name: lw.actuator_force(m, q, v, actuators=[name])  # type: ignore[misc]
        for make in (
            lambda name: lw.Weld(name, to=f"rod{BAD}"),
            lambda name: lw.Connect(name, to=name),
            lambda name: lw.Hold(name, f"x {BAD}"),
            lambda name: lw.OnPlane(name, normal=(0, 0, 0)),
            lambda name: lw.Rolling(name, -1.0),
            lambda name: lw.Locked(name, at=(1.0, 2.0, 3.0, 4.0)),
            lambda name: lw.Coupled({name: 1.0, f"j_ball{BAD}": 1.0}),
        ):
            yield lambda make=make, name=name: lw.constrained_dynamics(m, q, v, v, constraints=[make(name)])  # type: ignore[misc]
        yield lambda name=name: lw.compare_approximations(m, {"q": q, "v": v, "a": v}, rotors=[name])  # type: ignore[misc]
        yield lambda name=name: lw.choose_loops(m, "constrain", among=[name])  # type: ignore[misc]
        yield lambda name=name: lw.load(name)  # type: ignore[misc]
        yield lambda name=name: lw.load(f"{name}.urdf{BAD}")  # type: ignore[misc]
        yield lambda name=name: lw.load(f"{name}.urdf")  # type: ignore[misc]
    yield lambda: lw.compare_approximations(m, {"q": q, "v": v, "a": v})
    yield lambda: matched(m, [PeerJoint(f"j_crank{BAD}", "x", 0, 0)], {"x": Prismatic}, "other")
    yield lambda: matched(m, [], {}, "other")
    massless = lw.ModelBuilder(f"nothing{BAD}").add_body(f"b{BAD}")
    massless.add_joint(f"j{BAD}", Revolute((0, 0, 1)), parent="world", child=f"b{BAD}")
    yield lambda: lw.center_of_mass(massless.build(), [0.0])
    yield lambda: lw.mass_matrix_inverse(massless.build(), [0.0])
    yield lambda: lw.forward_dynamics(massless.build(), [0.0], [0.0], [0.0])


def mistakes(b: lw.ModelBuilder) -> Iterator[Callable[[], Any]]:
    """What a builder refuses, with hostile names."""
    one, two, x = f"one{BAD}", f"two{BAD}", Revolute((0, 0, 1))
    b.add_body(one, mass=1.0).add_body(two, mass=1.0).add_joint(one, x, parent="world", child=one)
    yield lambda: b.add_body(one)
    yield lambda: b.add_body(f"c{BAD}", mass=-1.0)
    yield lambda: b.add_body(f"c{BAD}", inertia=BAD)
    yield lambda: b.add_frame(one)
    yield lambda: b.add_joint(one, x, parent=one, child=two)
    yield lambda: b.add_joint(two, BAD, parent=one, child=two)  # type: ignore[arg-type]
    yield lambda: b.add_joint(two, x, parent=one, child=one)
    yield lambda: b.add_joint(two, x, parent=one, child=two, lower=BAD)
    yield lambda: b.add_coupling(two, {one: BAD})  # type: ignore[dict-item]
    yield lambda: b.add_coupling(two, BAD)  # type: ignore[arg-type]
    yield lambda: b.add_implicit_constraint(two, BAD, joints=[one])  # type: ignore[arg-type]
    yield b.build
    b.add_joint(two, x, parent=one, child=two)
    for wrong in (
        lambda: b.add_frame(f"f{BAD}", body=f"on{BAD}"),
        lambda: b.add_loop(f"l{BAD}", x, predecessor=f"on{BAD}", successor=two),
        lambda: b.add_loop(f"l{BAD}", x, predecessor=one, successor=two, xyz=(9, 9, 9)),
        lambda: b.add_coupling(f"l{BAD}", {f"on{BAD}": 1.0}),
        lambda: b.add_implicit_constraint(f"l{BAD}", lambda q: q[5], joints=[one]),
    ):
        b._frames.clear()
        b._constraints.clear()
        wrong()
        yield b.build


def told(call: Callable[[], Any]) -> str | None:
    """What an error of linkwork says; None where nothing is wrong."""
    try:
        call()
    except lw.LinkworkError as error:
        return str(error)
    return None


def test_hostile_names_in_errors() -> None:
    model = hostile()
    said = [told(call) for call in (*calls(model), *mistakes(lw.ModelBuilder(f"b{BAD}")))]
    errors = [text for text in said if text is not None]
    assert len(errors) > 90
    for text in errors:
        assert clean(text) and "\n" not in text, ascii(text)


def test_hostile_names_in_reports_and_pictures() -> None:
    model = hostile()
    rng = np.random.default_rng(0)
    motion = {"q": model.random_state(rng)[0], "v": rng.normal(size=model.nv), "a": rng.normal(size=model.nv)}
    compared = lw.compare_approximations(model, motion, rotors=[f"rotor{BAD}"])
    for text in (model.report(), repr(model), draw_graph(model), compared.table(), repr(compared)):
        assert clean(text) and "\\x9b" in text
    assert len(model.report().splitlines()) == len(model.report().split("\n"))  # nothing else ends a line


def test_hostile_names_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = f"""<robot name="r{IN_FILE}"><link name="a{IN_FILE}"/><link name="b{IN_FILE}"/>
        <joint name="j{IN_FILE}" type="continuous"><parent link="a{IN_FILE}"/><child link="b{IN_FILE}"/></joint></robot>"""
    path = tmp_path / "r.urdf"
    path.write_text(good, encoding="utf-8")
    assert main(["info", str(path), "--graph", str(tmp_path / "graph.svg")]) == 1  # its joint moves no mass
    printed = capsys.readouterr()
    assert clean(printed.out) and clean((tmp_path / "graph.svg").read_text(encoding="utf-8"))
    count = 0
    for name in (
        f"a{IN_FILE}",
        f"b{IN_FILE}",
        f"j{IN_FILE}",
        "continuous",
        "parent",
        "child",
        "link",
        "joint",
        "robot",
    ):
        for other in (f"c{IN_FILE}", ""):
            changed = good.replace(f'"{name}"', f'"{other}"', 1).replace(f"<{name} ", f"<c{IN_FILE[4:5]} ", 1)
            text = told(lambda changed=changed: urdf.read(changed))  # type: ignore[misc]
            count += text is not None
            assert text is None or clean(text), ascii(text)
    assert count > 6
    assert main(["info", f"nothing{BAD}"]) == 3 and main(["info", f"nothing{BAD}.urdf"]) == 3
    assert clean(capsys.readouterr().err)


def test_info_suggests_robots(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "humaniod"]) == 3
    assert "did you mean 'humanoid'" in capsys.readouterr().err
    assert main(["info", "nothing_like_it"]) == 3
    assert "file not found: 'nothing_like_it'" in capsys.readouterr().err
