"""Modules import each other one way: no cycles, also between modules of one room."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import linkwork

ROOT = Path(linkwork.__file__).parent


def imports(path: Path, known: set[str]) -> set[str]:
    """The package's modules that one imports, also within functions; those for types only do not count."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found & known


def graph(root: Path) -> dict[str, set[str]]:
    """For every module of a package, what it imports; a package's `__init__` goes by the package's name and
    ".__init__".
    """
    files: dict[str, Path] = {}
    for path in root.rglob("*.py"):
        name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts))
        files[name] = path
    packages = {name.removesuffix(".__init__"): name for name in files if name.endswith(".__init__")}
    known = {*files, *packages}
    return {name: {packages.get(x, x) for x in imports(path, known)} - {name} for name, path in files.items()}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other in a circle: what is left when modules without imports are taken away,
    again and again.
    """
    left = {name: set(out) for name, out in edges.items()}
    for into in (False, True):  # those that lead nowhere, then those that nothing leads to
        while True:
            used = set().union(*left.values()) if left else set()
            gone = {name for name, out in left.items() if (name not in used if into else not out)}
            if not gone:
                break
            left = {name: out - gone for name, out in left.items() if name not in gone}
    return [sorted(left)] if left else []


def test_no_import_cycles() -> None:
    edges = graph(ROOT)
    edges.pop("linkwork.__init__")  # it imports everything, and modules may name the package
    edges = {name: out - {"linkwork.__init__"} for name, out in edges.items()}
    for (
        name,
        out,
    ) in edges.items():  # a package's own modules are imported through it, while it is being imported
        room = name.rpartition(".")[0] + ".__init__"
        out.discard(room)
    assert cycles(edges) == []


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b"}, "b": set()}) == []


def test_every_test_file_can_run_alone() -> None:
    """What tests import from each other lies in their own folder or in one of pytest's `pythonpath`."""
    tests = Path(__file__).parents[1]
    settings = tomllib.loads((tests.parent / "pyproject.toml").read_text())
    searched = [tests.parent / folder for folder in settings["tool"]["pytest"]["ini_options"]["pythonpath"]]
    files = {path.stem: path for path in tests.rglob("*.py")}
    missing = [
        f"{path.name}: {name}"
        for path in files.values()
        for name in imports(path, set(files))
        if files[name].parent not in (path.parent, *searched)
    ]
    assert not missing, missing
