"""Broken and hostile files end soon, in little memory, in an error that names the element."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import linkwork as lw
from hostile_files import FILES, MJCF, SDF, URDF
from waiting import PATIENCE

COMPILED = {
    "open loop",
    "keyframe",
    "huge mass",
    "no mass",
    "bad number",
    "armature nan",
}  # by the compiler, some
COMPILED |= {"friction nan", "gravity nan", "equality nan", "keyframes", "height field"}  # before it is asked
NAMED = re.compile(r"(<text>|\.xml|\.sdf|\.urdf):\d+")

LOADS = """
import json, resource, sys, time
import linkwork as lw
path = sys.argv[1]
begin = time.process_time()
try:
    lw.load(path)
    told = "it was read"
except lw.LinkworkError as error:
    told = str(error)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = time.process_time() - begin + children.ru_utime + children.ru_stime
own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))  # ru_maxrss counts what forked it, too
memory = max(int(own.split()[1]), children.ru_maxrss)
print(json.dumps({"told": told, "seconds": seconds, "memory": memory}))
"""


def suffix(name: str) -> str:
    return {"mjcf": ".xml", "sdf": ".sdf", "urdf": ".urdf"}[name.split(maxsplit=1)[0]]


def test_there_are_a_hundred() -> None:
    assert len(FILES) >= 100


QUICK = [name for name in FILES if not name.startswith("mjcf") or name.removeprefix("mjcf ") in COMPILED]


@pytest.mark.parametrize("name", QUICK)
def test_each_is_refused(name: str, tmp_path: Path) -> None:
    if name.startswith("mjcf"):
        pytest.importorskip("mujoco")
    path = tmp_path / f"file{suffix(name)}"
    path.write_text(FILES[name])
    with pytest.raises(lw.LinkworkError) as told:
        lw.load(path)
    assert NAMED.search(str(told.value)), str(told.value)
    assert "Traceback" not in str(told.value) and len(str(told.value)) < 2000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux tells it")
@pytest.mark.parametrize("name", FILES)
def test_each_ends_soon_and_in_little_memory(name: str, tmp_path: Path) -> None:
    """Processor time and memory of a process that loads it, with the compiler's."""
    if name.startswith("mjcf") and importlib.util.find_spec("mujoco") is None:
        pytest.skip("mujoco is not installed")
    path = tmp_path / f"file{suffix(name)}"
    path.write_text(FILES[name])
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(path)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert NAMED.search(found["told"]), found["told"]
    assert found["memory"] < 500 * 1024


def test_all_kinds_are_there() -> None:
    assert min(len(MJCF), len(SDF), len(URDF)) >= 20
