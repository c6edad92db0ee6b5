"""Robots of installed packages by name: `linkwork.load("g1")`.

Only the file lists of installed packages are searched; nothing is imported or downloaded. A name is that of a
file without suffix, or of the folder of a robot ("g1" for g1_description); "package/name" selects a package.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator

from linkwork.errors import ModelError
from linkwork.mechanism.names import did_you_mean, join_names, printable

PACKAGES = (
    "example-robot-data",
    "frax",
    "mujoco_menagerie",
    "mjlab",
    "robosuite",
    "genesis-world",
    "dm_control",
    "mujoco",
    "mujoco-mjx",
    "pybullet",
)
SUFFIXES = (".urdf", ".sdf", ".xml")
NOT_ROBOTS = ("package", "scene", "schema")


def installed_robot(name: str) -> tuple[str, str]:
    """Return the file of a robot and the common folder of its package's robots.

    Raises ModelError if there is none, or if the name is ambiguous.
    """
    package, _, robot = name.rpartition("/")
    packages = [package] if package else list(PACKAGES)
    known: dict[str, list[str]] = {}
    for package_name in packages:
        for path in _files(package_name):
            for alias in _names(path):
                known.setdefault(alias, []).append(path)
        if robot.lower() in known:
            path = _best(name, robot.lower(), known[robot.lower()])
            return path, os.path.commonpath([os.path.dirname(file) for file in _files(package_name)])
    installed = [package_name for package_name in packages if any(_files(package_name))]
    searched = (
        f"no robot of that name in the packages {join_names(installed)}"
        if installed
        else f"none of the packages with robots is installed ({join_names(list(packages), 4)})"
    )
    hint = did_you_mean(robot, sorted(known, key=lambda word: (_letters_apart(word, robot.lower()), word)))
    raise ModelError(f"file not found: {printable(name)!r}, and {searched}{hint}")


def _letters_apart(one: str, two: str) -> int:
    """Return the number of letters that differ between two words, a fast lower bound of edit distance."""
    return sum(abs(one.count(letter) - two.count(letter)) for letter in {*one, *two})


def _files(package: str) -> Iterator[str]:
    """Yield the robot files of a package, unopened."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        stem, suffix = os.path.splitext(file.name)
        if suffix.lower() in SUFFIXES and not stem.lower().startswith(NOT_ROBOTS):
            yield str(file.locate())


def _names(path: str) -> set[str]:
    """Return the names under which a file can be loaded."""
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    folders = [part.lower() for part in path.replace("\\", "/").split("/")[-4:-1]]
    robots = {
        part.removesuffix("_description").removesuffix("_robot")
        for part in folders
        if part.endswith("_description")
    }
    return {stem, *robots}


def _best(name: str, robot: str, paths: list[str]) -> str:
    """Return the file whose stem is the name, else the shortest that begins with it; URDF first."""
    stems = {path: os.path.splitext(os.path.basename(path))[0].lower() for path in paths}
    for matches in (lambda stem: stem == robot, lambda stem: stem.startswith(robot), lambda stem: True):
        for suffix in SUFFIXES:
            candidates = [path for path in paths if matches(stems[path]) and path.lower().endswith(suffix)]
            candidates.sort(key=lambda path: len(stems[path]))
            if candidates and (
                len(candidates) == 1
                or len(stems[candidates[0]]) < len(stems[candidates[1]])
                or stems[candidates[0]] == stems[candidates[1]]
            ):
                return candidates[0]
            if candidates:
                files = join_names([printable(path, 200) for path in candidates], 5)
                raise ModelError(f"{printable(name)!r} is ambiguous: load one of the files {files}")
    return paths[0]
