"""What all bridges to other software share: optional packages, and pages whose examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import linkwork as lw
from linkwork.errors import ModelError
from waiting import PATIENCE

PAGE = Path(__file__).resolve().parents[2] / "docs/interop.md"
PACKAGES = ("jax", "torch", "casadi", "sympy", "gymnasium")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_one_sentence(name: str) -> None:
    text = f"""
import sys
sys.modules[{name!r}] = None  # as if it were not installed
import linkwork as lw
try:
    lw.interop.{name}.function
except lw.MissingPackageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    wanted = f"linkwork.interop.{name} needs the package {name}, which is not installed: pip install 'linkwork[{name}]'"
    assert done.stdout.strip() == wanted, done.stderr


def test_importing_linkwork_imports_none_of_them() -> None:
    text = f"import sys, linkwork; print([name for name in {PACKAGES} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_package_is_an_extra() -> None:
    text = (PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name} = \[", text, flags=re.MULTILINE) for name in PACKAGES)
    assert set(PACKAGES) <= set(dir(lw.interop))


def sections() -> dict[str, list[tuple[int, str]]]:
    """The Python of each section of the page, with the number of the line before."""
    text = PAGE.read_text(encoding="utf-8")
    found: dict[str, list[tuple[int, str]]] = {}
    for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        head = re.findall(r"^## (.+)$", text[: match.start()], flags=re.MULTILINE)[-1]
        found.setdefault(head, []).append((text[: match.start(1)].count("\n"), match[1]))
    return found


@pytest.mark.parametrize("head", sections())
def test_the_examples_run(head: str) -> None:
    """Each section by itself, in a process of its own, where its package is installed."""
    pytest.importorskip({"PyTorch": "torch"}.get(head, head.lower()))
    text = "".join(block for _, block in sections()[head])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("normal", ["1 0 0", "0 1 0", "0 0 -1", "0 0.6 0.8"])
def test_a_planar_joint_whose_normal_pinocchio_ignores_is_refused(normal: str) -> None:
    pin = pytest.importorskip("pinocchio")
    text = """<robot name="sledge"><link name="base"/><link name="a"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
      <inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="slide" type="planar"><parent link="base"/><child link="a"/><axis xyz="{}"/></joint></robot>"""
    there = pin.buildModelFromXML(text.format(normal))
    with pytest.raises(ModelError, match="joint 'slide' .* the normal of a planar joint is z"):
        lw.interop.pinocchio.States(lw.load(text.format(normal)), there)
    lw.interop.pinocchio.States(lw.load(text.format("0 0 2")), there)
