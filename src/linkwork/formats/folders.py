"""Other files that a file names: they are opened only inside the folders that the user named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from linkwork.errors import ModelError
from linkwork.parts.limits import Limits
from linkwork.parts.names import shown, some

PATH = 1000  # characters of a path in a message
NO_FILE = "there is no such file"


class Found(NamedTuple):
    """A file that may be opened, or why it may not."""

    path: str
    why: str = ""


def checked_folders(named: Any) -> list[str]:
    """The folders that a user named, in a sequence or as one path."""
    try:
        several = [named] if isinstance(named, (str, bytes, os.PathLike)) else named
        given: list[Any] = [os.path.abspath(os.fspath(folder)) for folder in several]
    except TypeError:
        raise ModelError(f"folders must be a sequence of paths, not {named!r}") from None
    for folder in given:
        if not isinstance(folder, str) or not os.path.isdir(folder):
            raise ModelError(f"folders: {shown(folder, PATH)} is no folder")
    return given


class Folders:
    """The folders whose files may be opened: that of the file itself, and those named by the user."""

    def __init__(self, file: str | None, named: Iterable[str | os.PathLike[str]] = (), limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        own = [os.path.dirname(os.path.abspath(file))] if file is not None else []
        self.all = [*own, *(folder for folder in checked_folders(named) if folder not in own)]
        self._real = [os.path.realpath(folder) for folder in self.all]

    def inside(self, path: str) -> str:
        """A path that was found, as it is written from the first folder that it is in."""
        folder = next(each for each in self._real if path == each or path.startswith(each.rstrip(os.sep) + os.sep))
        return os.path.relpath(path, folder).replace(os.sep, "/")

    def find(self, name: str, *below: str) -> Found:
        """The file of this name, in a folder below one of these (`below`, tried in turn), or as a path of its own.

        Names that were written on Windows are taken as MuJoCo takes them: a backslash separates folders.
        """
        if not self.all:
            return Found("", "a text is in no folder: name one with folders=")
        outside: list[str] = []
        written = dict.fromkeys((name, name.replace("\\", "/")))
        try:
            for real in self._places([os.path.join(inner, word) for word in written for inner in (*below, "")]):
                if not any(real == allowed or real.startswith(allowed.rstrip(os.sep) + os.sep) for allowed in self._real):
                    outside.append(real)
                elif os.path.isfile(real):
                    if os.path.getsize(real) > self.limits.size:
                        return Found("", f"it is larger than {self.limits.size} bytes: {self.limits.raised('size')}")
                    return Found(real)
            return Found("", self._outside(outside) if outside else NO_FILE)
        except (OSError, ValueError) as error:
            return Found("", f"it cannot be opened: {error}")

    def _places(self, names: list[str]) -> Iterator[str]:
        """Where files of these names would be, in each of the folders."""
        for folder in self.all:
            yield from (os.path.realpath(os.path.join(folder, name)) for name in names)

    def _outside(self, places: list[str]) -> str:
        """That a file is in no folder that may be read, and which folder would hold it and those that may be read."""
        told = f"it is not in the folder {shown(self.all[0], PATH)}: name others with folders="
        there = next((os.path.dirname(place) for place in places if os.path.isfile(place)), None)
        if there is None:
            return told
        both = os.path.commonpath([self._real[0], there])
        return f"{told}, such as folders=[{shown(both if both != os.path.dirname(both) else there, PATH)!r}]"


def find_mesh(uri: str, folders: Folders) -> Path:
    """The path of the mesh that a robot's file names, inside one of these folders; ModelError where there is none in them.

    package://NAME/rest is looked for as NAME/rest and as rest, below each folder.
    """
    rest = re.sub(r"^(package|model|file)://", "", uri)
    tries = [rest] if rest == uri or uri.startswith("file://") else [rest, rest.partition("/")[2]]
    found = [folders.find(name) for name in tries if name]
    for each in found:
        if each.path:
            return Path(each.path)
    why = found[0].why if found else "this names no file"
    if why == NO_FILE and folders.all:
        looked = some([shown(folder, PATH) for folder in folders.all])
        why += f": in {looked} there is no {' and no '.join(shown(name) for name in tries if name)}"
    raise ModelError(f"mesh {shown(uri)!r}: {why}")
