"""Print the modules that a call enters, in order of entry: python tools/call_path.py [--packages].

The calls are those of docs/walk.md: one forward dynamics call, one rollout with contact, one rollout with
loops, and one load of a file with loops, each for a model that has not been seen before, with all modules
imported. With --packages, also the packages that are entered again below themselves, A > B > A, with the
functions that return to them. Traces, symbols and caches run functions that they are given, which is no
way back: what these call counts as called by the package before them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

os.environ["LINKWORK_CACHE"] = "off"

import numpy as np

import linkwork as lw

TRANSPARENT = ("compiler.ir", "lazy")  # packages that call functions that were given to them
CACHES = ("cached_on_model.<locals>.remembered",)  # functions that do


def package_of(module: str) -> str:
    """Return the package of a module; those of the compiler are packages of their own."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "compiler" else 1])


class CallPath:
    """Modules entered by a call, in order, and ways back into packages: (packages, function) in order."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.modules: dict[str, None] = {}
        self.returns: dict[tuple[str, ...], str] = {}
        self._stack: list[str] = []  # packages of running functions; empty text for code of others
        sys.setprofile(self._record)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return" and self._stack:
            self._stack.pop()
        if event != "call":
            return
        name = str(frame.f_globals.get("__name__", ""))
        is_function = bool(frame.f_code.co_flags & 1)  # neither a module's code nor the body of a class
        if not name.startswith("linkwork.") or not is_function:
            self._stack.append("")
            return
        module = name.removeprefix("linkwork.")
        self.modules.setdefault(module)
        package = package_of(module)
        if package in TRANSPARENT or frame.f_code.co_qualname in CACHES:
            self._stack.append("")
            return
        path = [package for package, _ in groupby(filter(None, self._stack))]
        if path and path[-1] != package and package in path:
            start = len(path) - 1 - path[::-1].index(package)
            self.returns.setdefault((*path[start:], package), f"{module}.{frame.f_code.co_name}")
        self._stack.append(package)


def _calls(folder: Path) -> dict[str, Callable[[float], Callable[[], Any]]]:
    """Return the calls by name: each takes a factor of masses, by which its model is new."""

    def heavier(model: lw.Model, factor: float) -> lw.Model:
        return model.with_parameters({"mass": factor * np.asarray(model.parameters()["mass"])})

    def dynamics(factor: float) -> Callable[[], Any]:
        arm = heavier(lw.robots.arm(), factor)
        q, v = arm.random_state(0)
        return lambda: lw.forward_dynamics(arm, q, v, v)

    def contact(factor: float) -> Callable[[], Any]:
        robot = heavier(lw.robots.quadruped(), factor)
        q = np.array(robot.neutral())
        q[2] += 1.0
        v = np.zeros(robot.nv)
        return lambda: lw.rollout(robot, q, v, dt=1e-3, steps=5, contacts=lw.Contacts())

    def loops(factor: float) -> Callable[[], Any]:
        model = heavier(lw.robots.four_bar(), factor)
        q = model.neutral()
        return lambda: lw.rollout(model, q, np.zeros(model.nv), dt=1e-3, steps=5)

    def file(factor: float) -> Callable[[], Any]:
        path = folder / f"four_bar{factor}.urdf"
        path.write_text(lw.export_urdf(heavier(lw.robots.four_bar(), factor)))
        return lambda: lw.load(path)

    return {
        "forward_dynamics": dynamics,
        "rollout with contact": contact,
        "rollout with loops": loops,
        "load of a file with loops": file,
    }


def main() -> None:
    """Print the paths of all calls."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in _calls(Path(folder)).items():
            make(1.25)()  # imports modules
            path = CallPath(make(1.5))
            print(f"{name}: {len(path.modules)} modules\n  {' '.join(path.modules)}")
            if "--packages" in sys.argv[1:]:
                for packages, function in path.returns.items():
                    print(f"  {' > '.join(packages)}: {function}")


if __name__ == "__main__":
    main()
