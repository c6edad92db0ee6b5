"""The pages are true: they show the lines of the files that they name, name what is there, and tell the walk as it is."""

from __future__ import annotations

import pkgutil
import re
import sys
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import numpy as np
import pytest

import linkwork as lw

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/linkwork"
ROOMS = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
EVERY = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))]
NAMED = re.compile(r"`(\w+)`\s+\(`(\w[\w/]*\.py)`")  # `trace` (`ir/trace.py`)
PAGES = sorted((ROOT / "docs/algorithms").glob("*.md"))


def shown(page: Path) -> list[tuple[str, str]]:
    """Each line of code on a page, with the file that the table's head names."""
    found, file, inside = [], "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        if head := re.fullmatch(r"\s+- `(\w+/\w+\.py)`", line):
            file = head[1]
        elif line.strip().endswith("```python"):
            inside = True
        elif line.strip() == "```":
            inside = False
        elif inside and line.strip():
            found.append((file, line.strip()))
    return found


def test_pages_show_code() -> None:
    assert len(PAGES) >= 7 and sum(len(shown(page)) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lines_are_those_of_the_file(page: Path) -> None:
    for file, line in shown(page):
        source = (SOURCE / file).read_text(encoding="utf-8")
        assert line in map(str.strip, source.splitlines()), f"{file} has no line {line!r}"


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_the_files_and_names_of_a_page_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for file in re.findall(r"`((\w+)/[\w/]*(?:\.py)?)`", text):
        if file[1] in ROOMS or file[0].endswith(".py"):
            assert (SOURCE / file[0]).exists() or (ROOT / file[0]).exists() or "test_" in file[0], file[0]
    for name, file in NAMED.findall(text):
        if (SOURCE / file).exists():
            source = (SOURCE / file).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(?:def|class) {name}\b", source, flags=re.MULTILINE), f"{file} has no {name}"


def test_rooms_of_the_design_are_those_of_the_package() -> None:
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    table = "".join(line for line in text.splitlines(keepends=True) if line.startswith("| `"))
    assert set(re.findall(r"^\| `(\w+)/`", table, flags=re.MULTILINE)) == ROOMS


def test_the_walk_is_what_a_first_call_does() -> None:
    """Every function and class that the page names, up to the answer, is called by first calls of a chain and of a loop."""
    text = (ROOT / "docs/walk.md").read_text(encoding="utf-8")
    told = set(NAMED.findall(text[: text.index("## The second call")]))
    assert len(told) > 30
    codes: set[CodeType] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        codes.add(frame.f_code)

    for model in (lw.robots.chain(2), lw.robots.four_bar()):
        own = model.with_parameters({"mass": 1.0625 * model.parameters()["mass"]})  # that no other test has compiled
        q, v = own.random_state(0)
        sys.setprofile(watch)
        try:
            lw.forward_dynamics(own, q, v, np.zeros(own.nv))
        finally:
            sys.setprofile(None)
    files = [(code.co_qualname, Path(code.co_filename)) for code in codes]
    ours = [(name, file.relative_to(SOURCE).as_posix()) for name, file in files if file.is_relative_to(SOURCE)]
    called = {(part, file) for name, file in ours for part in name.split(".")}
    missing = sorted(told - called)
    values = {("KernelKey", "functions/model_function.py"), ("HingeNode", "sko/contracts.py")}  # without calls of their own
    assert set(missing) <= values, missing


def test_public_names_of_the_api_page_are_there() -> None:
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    for name, rest in re.findall(r"^\.\. auto\w+:: ([\w.]+).*\n((?:   :.*\n)*)", text, flags=re.MULTILINE):
        found = pkgutil.resolve_name(name)
        members = re.search(r":members: (.+)", rest)
        for member in members[1].split(", ") if members else ():
            known = hasattr(found, member) or member in getattr(found, "__dataclass_fields__", {})
            assert known, f"{name} has no {member}"
    listed = set(re.findall(r"^\.\. auto\w+:: linkwork\.(\w+)\W*$", text, flags=re.MULTILINE))
    rooms = {name for name in lw.__all__ if isinstance(getattr(lw, name), ModuleType)}
    others = {*rooms, "__version__", *(name for name in lw.__all__ if name.endswith("Error"))}
    assert set(lw.__all__) - others <= listed, sorted(set(lw.__all__) - others - listed)


PUBLIC_ROOMS = ("flexible", "joints", "robots", "sko", "spatial", "view")


@pytest.mark.parametrize("room", PUBLIC_ROOMS)
def test_every_public_name_of_a_room_is_on_the_api_page(room: str) -> None:
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    names = set(pkgutil.resolve_name(f"linkwork.{room}").__all__)
    if f".. automodule:: linkwork.{room}\n   :members:\n" in text:
        return
    listed = set(re.findall(rf"^\.\. auto\w+:: linkwork\.{room}\.(\w+)", text, flags=re.MULTILINE))
    assert names <= listed, sorted(names - listed)


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_every_name_that_a_page_says_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"\blw\.([A-Za-z_]\w*)", text))):
        assert hasattr(lw, name), f"lw.{name}"
    for room, name in sorted(set(re.findall(r"\blw\.(view|joints|robots|spatial|sko)\.([A-Za-z_]\w*)", text))):
        assert hasattr(getattr(lw, room), name), f"lw.{room}.{name}"


RETIRED = ("lw.Nodes", "k.children", "resistance", "add_closure", "asked for ahead", "do not notice", "wait in memory")


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [word for word in RETIRED if word in text] == []
