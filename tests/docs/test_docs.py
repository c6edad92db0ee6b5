"""Pages agree with the source: quoted lines, file names, public names and the life of a call."""

from __future__ import annotations

import pkgutil
import re
import sys
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import numpy as np
import pytest

import linkwork as lw

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/linkwork"
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
ALL_PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
]
NAMED_IN_FILE = re.compile(r"`(\w+)`\s+\(`(\w[\w/]*\.py)`")  # `trace` (`compiler/ir/trace.py`)
THEORY_PAGES = sorted((ROOT / "docs/algorithms").glob("*.md"))


def quoted_lines(page: Path) -> list[tuple[str, str]]:
    """Return each line of code on a page with the file that the head of its table names."""
    lines: list[tuple[str, str]] = []
    file = ""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if head := re.fullmatch(r"\s+- `([\w/]+\.py)`", line):
            file = head[1]
        elif line.strip().endswith("```python"):
            inside = True
        elif line.strip() == "```":
            inside = False
        elif inside and line.strip():
            lines.append((file, line.strip()))
    return lines


def test_pages_show_code() -> None:
    assert len(THEORY_PAGES) >= 7 and sum(len(quoted_lines(page)) for page in THEORY_PAGES) > 50


@pytest.mark.parametrize("page", THEORY_PAGES, ids=lambda page: page.stem)
def test_quoted_lines_are_in_the_file(page: Path) -> None:
    for file, line in quoted_lines(page):
        source = (SOURCE / file).read_text(encoding="utf-8")
        assert line in map(str.strip, source.splitlines()), f"{file} has no line {line!r}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_files_and_names_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for file in re.findall(r"`((\w+)/[\w/]*(?:\.py)?)`", text):
        if file[1] in PACKAGES or file[0].endswith(".py"):
            assert (SOURCE / file[0]).exists() or (ROOT / file[0]).exists() or "test_" in file[0], file[0]
    for name, file in NAMED_IN_FILE.findall(text):
        if (SOURCE / file).exists():
            source = (SOURCE / file).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(?:def|class) {name}\b", source, flags=re.MULTILINE), (
                f"{file} has no {name}"
            )


def test_packages_of_the_design_exist() -> None:
    """The table of packages lists every package and no other."""
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)/`", text, flags=re.MULTILINE)
    assert [row for row in rows if not (SOURCE / row / "__init__.py").exists()] == []
    assert {row.split("/")[0] for row in rows} == PACKAGES


def test_life_of_a_call_is_what_a_first_call_does() -> None:
    """Every function and class that the page names up to the result is called by first calls of a chain and
    of a loop.
    """
    text = (ROOT / "docs/walk.md").read_text(encoding="utf-8")
    named = set(NAMED_IN_FILE.findall(text[: text.index("## The second call")]))
    assert len(named) > 30
    codes: set[CodeType] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        codes.add(frame.f_code)

    for model in (lw.robots.chain(2), lw.robots.four_bar()):
        own = model.with_parameters(
            {"mass": 1.0625 * model.parameters()["mass"]}
        )  # that no other test has compiled
        q, v = own.random_state(0)
        sys.setprofile(watch)
        try:
            lw.forward_dynamics(own, q, v, np.zeros(own.nv))
        finally:
            sys.setprofile(None)
    files = [(code.co_qualname, Path(code.co_filename)) for code in codes]
    ours = [
        (name, file.relative_to(SOURCE).as_posix()) for name, file in files if file.is_relative_to(SOURCE)
    ]
    called = {(part, file) for name, file in ours for part in name.split(".")}
    missing = sorted(named - called)
    never_called = {("KernelKey", "functions/engine/model_function.py"), ("HingeNode", "sko/contracts.py")}
    assert set(missing) <= never_called, missing


API_PAGES = sorted((ROOT / "docs/api").glob("*.md"))
API = "".join(page.read_text(encoding="utf-8") for page in API_PAGES)


def test_public_names_of_the_api_pages_exist() -> None:
    for name, rest in re.findall(r"^\.\. auto\w+:: ([\w.]+).*\n((?:   :.*\n)*)", API, flags=re.MULTILINE):
        documented = pkgutil.resolve_name(name.replace(".", ":", 1))
        members = re.search(r":members: (.+)", rest)
        for member in members[1].split(", ") if members else ():
            known = hasattr(documented, member) or member in getattr(documented, "__dataclass_fields__", {})
            assert known, f"{name} has no {member}"
    listed = set(re.findall(r"^\.\. auto\w+:: linkwork\.(\w+)\W*$", API, flags=re.MULTILINE))
    packages = {name for name in lw.__all__ if isinstance(getattr(lw, name), ModuleType)}
    others = {*packages, "__version__", *(name for name in lw.__all__ if name.endswith(("Error", "Warning")))}
    assert set(lw.__all__) - others <= listed, sorted(set(lw.__all__) - others - listed)


PUBLIC_PACKAGES = ("flexible", "joints", "robots", "simulation", "sko", "spatial", "visualization")


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_every_public_name_of_a_package_is_on_an_api_page(package: str) -> None:
    names = set(pkgutil.resolve_name(f"linkwork.{package}").__all__)
    if f".. automodule:: linkwork.{package}\n   :members:\n" in API:
        return
    listed = set(re.findall(rf"^\.\. auto\w+:: linkwork\.(?:{package}\.)?(\w+)", API, flags=re.MULTILINE))
    assert names <= listed, sorted(names - listed)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_public_names_on_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"\blw\.([A-Za-z_]\w*)", text))):
        assert hasattr(lw, name), f"lw.{name}"
    packages = "visualization|simulation|joints|robots|spatial|sko"
    for package, name in sorted(set(re.findall(rf"\blw\.({packages})\.([A-Za-z_]\w*)", text))):
        assert hasattr(getattr(lw, package), name), f"lw.{package}.{name}"


def wide_lines(page: Path) -> list[str]:
    """Return the lines of code blocks, not of directives, that are wider than a page shows."""
    wide: list[str] = []
    fence = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fence = line if fence is None else None
        elif fence is not None and not fence.startswith("```{") and len(line) > MAX_CODE_COLUMNS:
            wide.append(line)
    return wide


MAX_CODE_COLUMNS = 84
SOURCE_LINES = ROOT / "docs/algorithms"  # show lines of source files as they are there


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_code_blocks_fit_the_width_of_a_page(page: Path) -> None:
    assert SOURCE_LINES in page.parents or wide_lines(page) == []


RETIRED = (
    "lw.Nodes",
    "k.children",
    "resistance",
    "add_closure",
    "asked for ahead",
    "do not notice",
    "wait in memory",
)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("@resistance", "")  # an attribute of MJCF
    assert [word for word in RETIRED if word in text] == []
