"""Files named by other files, which are opened only inside folders that the caller allows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from linkwork.errors import ModelError
from linkwork.mechanism.limits import Limits
from linkwork.mechanism.names import join_names, printable

PATH = 1000  # characters of a path in a message
NO_FILE = "file not found"


class Found(NamedTuple):
    """A file that may be opened, or the reason why not."""

    path: str
    why: str = ""


def checked_folders(argument: Any) -> list[str]:
    """Return the folders given by a caller as absolute paths; raise ModelError if one is invalid."""
    try:
        folders = [argument] if isinstance(argument, (str, bytes, os.PathLike)) else argument
        paths: list[Any] = [os.path.abspath(os.fspath(folder)) for folder in folders]
    except TypeError:
        raise ModelError(f"folders: expected a sequence of paths, got {argument!r}") from None
    for folder in paths:
        if not isinstance(folder, str) or not os.path.isdir(folder):
            raise ModelError(f"folders: {printable(folder, PATH)} is not a folder")
    return paths


class Folders:
    """The folders whose files may be opened: that of the model file, and those given by the caller."""

    def __init__(
        self, file: str | None, named: Iterable[str | os.PathLike[str]] = (), limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        file_folder = [os.path.dirname(os.path.abspath(file))] if file is not None else []
        self.all = [*file_folder, *(folder for folder in checked_folders(named) if folder not in file_folder)]
        self._real = [os.path.realpath(folder) for folder in self.all]

    def inside(self, path: str) -> str:
        """Return a path relative to the first folder that contains it."""
        folder = next(
            each for each in self._real if path == each or path.startswith(each.rstrip(os.sep) + os.sep)
        )
        return os.path.relpath(path, folder).replace(os.sep, "/")

    def find(self, name: str, *below: str) -> Found:
        """Return the file of this name in a subfolder (`below`) of an allowed folder, or by its path.

        As in MuJoCo, a backslash is also taken as a separator.
        """
        if not self.all:
            return Found("", "relative to XML text: pass its folder with folders=")
        outside: list[str] = []
        written = dict.fromkeys((name, name.replace("\\", "/")))
        try:
            for real in self._places(
                [os.path.join(inner, word) for word in written for inner in (*below, "")]
            ):
                if not any(
                    real == allowed or real.startswith(allowed.rstrip(os.sep) + os.sep)
                    for allowed in self._real
                ):
                    outside.append(real)
                elif os.path.isfile(real):
                    if os.path.getsize(real) > self.limits.size:
                        return Found(
                            "", f"larger than {self.limits.size} bytes: {self.limits.raised('size')}"
                        )
                    return Found(real)
            return Found("", self._outside(outside) if outside else NO_FILE)
        except (OSError, ValueError) as error:
            return Found("", f"cannot be opened: {error}")

    def _places(self, names: list[str]) -> Iterator[str]:
        """Yield the paths of files with these names in each of the folders."""
        for folder in self.all:
            yield from (os.path.realpath(os.path.join(folder, name)) for name in names)

    def _outside(self, places: list[str]) -> str:
        """Return a message that a file is outside the allowed folders, with a folder that would allow it."""
        message = f"outside the folder {printable(self.all[0], PATH)}: allow others with folders="
        folder = next((os.path.dirname(place) for place in places if os.path.isfile(place)), None)
        if folder is None:
            return message
        common = os.path.commonpath([self._real[0], folder])
        example = common if common != os.path.dirname(common) else folder
        return f"{message}, such as folders=[{printable(example, PATH)!r}]"


def find_mesh(uri: str, folders: Folders) -> Path:
    """Return the path of a mesh inside the allowed folders; raise ModelError if it is not found.

    package://NAME/path is searched as NAME/path and as path in each folder.
    """
    path = re.sub(r"^(package|model|file)://", "", uri)
    names = [path] if path == uri or uri.startswith("file://") else [path, path.partition("/")[2]]
    results = [folders.find(name) for name in names if name]
    for result in results:
        if result.path:
            return Path(result.path)
    why = results[0].why if results else "the name is empty"
    if why == NO_FILE and folders.all:
        searched = join_names([printable(folder, PATH) for folder in folders.all])
        why += f": no {' or '.join(printable(name) for name in names if name)} in {searched}"
    raise ModelError(f"mesh {printable(uri)!r}: {why}")
