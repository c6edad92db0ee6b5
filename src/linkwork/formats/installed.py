"""Robots of installed packages, by name: `linkwork.load("g1")`.

Only packages that are installed are looked at, and nothing is imported or fetched. A name is that of a file without its suffix,
or of the folder of a robot ("g1" for g1_description); "package/name" says which package is meant.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator

from linkwork.errors import ModelError
from linkwork.parts.names import did_you_mean, shown, some

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
    """The path of the file of a robot, and the folder of its package's robots; ModelError where there is none, or several."""
    package, _, robot = name.rpartition("/")
    packages = [package] if package else list(PACKAGES)
    known: dict[str, list[str]] = {}
    for each in packages:
        for path in _files(each):
            for called in _names(path):
                known.setdefault(called, []).append(path)
        if robot.lower() in known:
            path = _best(name, robot.lower(), known[robot.lower()])
            return path, os.path.commonpath([os.path.dirname(file) for file in _files(each)])
    there = [each for each in packages if any(_files(each))]
    where = f"in the packages {some(there)}" if there else f"since none of {some(list(packages), 4)} is installed"
    hint = did_you_mean(robot, sorted(known, key=lambda word: (_letters_apart(word, robot.lower()), word)))
    raise ModelError(f"{shown(name)!r} is no file, and there is no robot of that name {where}{hint}")


def _letters_apart(one: str, two: str) -> int:
    """How many letters one word has and the other has not: packages may have more names than can be compared in order."""
    return sum(abs(one.count(letter) - two.count(letter)) for letter in {*one, *two})


def _files(package: str) -> Iterator[str]:
    """Files of robots in a package, without looking into them."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        stem, suffix = os.path.splitext(file.name)
        if suffix.lower() in SUFFIXES and not stem.lower().startswith(NOT_ROBOTS):
            yield str(file.locate())


def _names(path: str) -> set[str]:
    """What a file can be called by."""
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    folders = [part.lower() for part in path.replace("\\", "/").split("/")[-4:-1]]
    robots = {part.removesuffix("_description").removesuffix("_robot") for part in folders if part.endswith("_description")}
    return {stem, *robots}


def _best(name: str, robot: str, paths: list[str]) -> str:
    """The file that is called as the robot itself, or begins so and is the shortest; URDF first."""
    stems = {path: os.path.splitext(os.path.basename(path))[0].lower() for path in paths}
    for fits in (lambda stem: stem == robot, lambda stem: stem.startswith(robot), lambda stem: True):
        for suffix in SUFFIXES:
            same = [path for path in paths if fits(stems[path]) and path.lower().endswith(suffix)]
            same.sort(key=lambda path: len(stems[path]))
            if same and (len(same) == 1 or len(stems[same[0]]) < len(stems[same[1]]) or stems[same[0]] == stems[same[1]]):
                return same[0]
            if same:
                files = some([shown(path, 200) for path in same], 5)
                raise ModelError(f"{shown(name)!r} could be any of several robots: load one of the files {files}")
    return paths[0]
