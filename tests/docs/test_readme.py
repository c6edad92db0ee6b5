"""Commands of the README and the guide exist, and links of all pages resolve. `test_pages.py` runs their
Python.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/kernels.md", "docs/guide/functions.md")


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """The number of the line before, and the text, of every block in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def commands() -> list[str]:
    lines = [line for page in PAGES for _, text in blocks(page, "console") for line in text.splitlines()]
    return sorted(
        {line[2:].partition(" #")[0].strip() for line in lines if line.startswith(("$ make", "$ linkwork"))}
    )


@pytest.mark.parametrize("command", commands())
def test_command(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        if shutil.which("make") is None:
            pytest.skip("no make")
        words, folder = [*words, "-n"], ROOT  # say what would be done, and do nothing
    else:
        words, folder = [sys.executable, "-m", *words], tmp_path
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}  # the sources under test, whatever is installed
    done = subprocess.run(
        words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


LINKED = [
    *PAGES,
    "SECURITY.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as myst and GitHub make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", sorted(set(LINKED)))
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        there = (ROOT / page).parent.joinpath(link) if link else ROOT / page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), f"{link}#{anchor}"
