"""Pages are followed as a reader would: their Python and their commands, from top to bottom, print what the
page says.
"""

from __future__ import annotations

import codeop
import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import linkwork as lw
from linkwork.cli.cli import main

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {  # pages whose blocks other tests run, or compare with the source
    "docs/interop.md": "test_interop.py",
    "docs/extending.md": "test_extending.py",
    "docs/performance.md": "figures of make bench",
    "CONTRIBUTING.md": "test_readme.py",
    **{path.relative_to(ROOT).as_posix(): "test_docs.py" for path in (ROOT / "docs/algorithms").glob("*.md")},
}
ONLY_PYTHON = (
    "README.md",
    "docs/kernels.md",
    "docs/guide/functions.md",
)  # test_readme.py runs their commands, each alone
NEEDS = {"docs/how_to/studies.md": "pyarrow",
         "docs/from_pinocchio.md": "pinocchio", "docs/from_mujoco.md": "mujoco", "docs/viewer.md": "viser",
         "docs/how_to/environments.md": "gymnasium", "docs/how_to/learn_to_trot.md": "cma",
         "docs/how_to/learn_to_balance.md": "cma gymnasium"}  # fmt: skip
SLOW = ("docs/ilqr.md", "docs/from_mujoco.md", "docs/from_pinocchio.md", "docs/how_to/gradients.md", "docs/partition.md",
        "docs/how_to/learn_to_trot.md", "docs/how_to/learn_to_balance.md", "docs/guide/loops.md",
        "docs/how_to/simulate.md", "docs/control.md", "docs/flexible.md", "docs/operators.md", "docs/viewer.md")  # fmt: skip
SHOWN = (
    "text",
    "xml",
    "yaml",
    "c",
    "toctree",
    "eval-rst",
    "list-table",
    "image",
    "figure",
    "include",
    "",
)  # fences that are not run


class Step(NamedTuple):
    """A block of a page: its language, the number of the line before it, and its text."""

    language: str
    line: int
    text: str


def steps(page: str) -> list[Step]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```(?:\{?)([\w-]*)(?:\}?)[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Step(match[1], text[: match.start(2)].count("\n"), match[2]) for match in found]


def all_pages() -> list[str]:
    return [
        "README.md",
        *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
    ]


PAGES = [
    page for page in all_pages() if page not in ELSEWHERE and any(s.language == "python" for s in steps(page))
]


@pytest.mark.parametrize("page", [page for page in all_pages() if page not in ELSEWHERE])
def test_every_block_is_run_or_is_no_code(page: str) -> None:
    assert [step for step in steps(page) if step.language not in (*SHOWN, "python", "console")] == []


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in PAGES]
)
def test_a_page_can_be_followed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay from block to block, and files in one folder. A block of text is what the block before it
    prints.
    """
    for package in NEEDS.get(page, "").split():
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    printed = ""
    for step in steps(page):
        if step.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * step.line + step.text, str(ROOT / page), "exec"), names)
            printed = out.getvalue()
        elif step.language == "console" and page not in ONLY_PYTHON:
            printed = "".join(followed(line) for line in step.text.splitlines())
        elif step.language == "text":
            check_printed(step, printed, page)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_can_be_typed_at_the_prompt(page: str) -> None:
    """Statements end where the interactive interpreter expects them to: bodies have no empty lines, an empty
    line follows.
    """
    for step in steps(page):
        typed: list[str] = []
        for line in [*step.text.splitlines(), ""] if step.language == "python" else ():
            if typed or line.strip():
                typed.append(line)
                if codeop.compile_command("\n".join(typed), symbol="single") is not None:
                    typed = []


def followed(line: str) -> str:
    """Run a line of a block of commands, if it is one; what it prints."""
    words = shlex.split(line, comments=True)
    if words[:1] != ["$"]:
        raise AssertionError(f"a line of commands begins with '$ ', not {line!r}")
    match words[1:]:
        case ["linkwork", *arguments]:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                assert main(arguments) == 0, line
            return out.getvalue()
        case ["cc", *_]:
            if shutil.which("cc") is None:
                pytest.skip("no C compiler")
        case [command, *_] if not command.startswith("./"):
            return ""  # installing, fetching: that is done before
    done = subprocess.run(words[1:], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, line + done.stdout + done.stderr
    return done.stdout


def check_printed(step: Step, printed: str, page: str) -> None:
    """Lines of a page are among the printed ones, in their order; … stands for anything, such as a time."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    for told in filter(None, map(str.rstrip, step.text.splitlines())):
        pattern = ".*".join(map(re.escape, told.split("…")))
        assert any(re.fullmatch(pattern, line) for line in lines), (
            f"{page}:{step.line}: not printed: {told!r}\n{printed}"
        )


def test_the_gallery_has_every_mechanism_that_ships() -> None:
    """`make pictures` draws it; functions of `linkwork.robots` that are no mechanisms are `names` only."""
    text = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    for name in sorted(set(lw.robots.__all__) - {"names"}):
        assert f"### {name}\n" in text, f"{name}: run make pictures"
        assert (ROOT / f"docs/gallery/{name}.png").stat().st_size < 40_000


def test_the_check_of_printed_lines_notices_what_is_not_there() -> None:
    told = Step("text", 1, "one … three\nfour\n")
    check_printed(told, "zero\none two three\n\nfour\n", "page")
    for wrong in ("one two three\n", "four\none two three\n", "one three\nfour 4\n"):
        with pytest.raises(AssertionError):
            check_printed(told, wrong, "page")
