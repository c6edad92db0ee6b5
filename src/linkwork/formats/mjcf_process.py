"""Runs MuJoCo's compiler in a process of its own, within bounds, and reads what it gives."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from typing import Any

import numpy as np

from linkwork.errors import LimitError, MissingPackageError, ModelError
from linkwork.formats.mjcf_child import MESHES

MEMORY = 450 * 2**20  # bytes that a file may make the compiler take, beside those for its meshes
SECONDS = 60  # of processor time
CHILD = "linkwork.formats.mjcf_child"


class Compiled:
    """What the compiler made of a file: arrays in MuJoCo's words, and the rest as `told`."""

    def __init__(self, arrays: dict[str, np.ndarray], told: dict[str, Any]) -> None:
        self.arrays, self.told = arrays, told
        self.names: dict[str, list[str]] = told["names"]

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.arrays[name]
        except KeyError:
            raise AttributeError(name) from None

    def given(self, name: str) -> np.ndarray:
        """An array that older versions do not have: empty then."""
        return self.arrays.get(name, np.zeros(0))


class CompilerError(ModelError):
    """What is wrong where MuJoCo compiles, to be told with the element that it means."""


def compile_mjcf(xml: str, models: dict[str, str], meshes: dict[str, list[str]]) -> Compiled:
    """The compiled model of a checked text."""
    if not sys.executable:
        raise ModelError("MJCF is compiled in a process of its own, and this Python does not know its own program")
    request = {"path": sys.path, "xml": xml, "models": models, "meshes": meshes, "memory": MEMORY, "seconds": SECONDS}
    with tempfile.TemporaryDirectory(prefix="linkwork-mjcf-") as folder:  # where MuJoCo writes its log
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _source()],
                input=json.dumps(request).encode(),
                capture_output=True,
                cwd=folder,
                env={**os.environ, "MUJOCO_GL": "disable"},  # what draws takes time to import
                timeout=2 * SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise LimitError(f"MuJoCo's compiler takes more than {2 * SECONDS} s for it, the most that it may") from None
    return _answer(done)


def _source() -> str:
    """The child's own source, wherever the package was loaded from."""
    found = importlib.util.find_spec(CHILD)
    source = found.loader.get_source(CHILD) if found and hasattr(found.loader, "get_source") else None  # type: ignore[union-attr]
    if source is None:
        raise ModelError("MJCF cannot be compiled here: linkwork's own source is not to be had")
    return source


def _answer(done: subprocess.CompletedProcess[bytes]) -> Compiled:
    kind, body = done.stdout[:1], done.stdout[1:]
    if kind == b"N":
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise ModelError(f"MuJoCo's compiler gave no model: {error}") from None
        return Compiled(arrays, json.loads(arrays.pop("told").tobytes()))
    told = json.loads(body) if kind == b"E" else {}
    if told.get("missing") == "mujoco":
        raise MissingPackageError("to read MJCF, linkwork needs MuJoCo's own compiler: pip install 'linkwork[mjcf]'")
    allowed = f"{MEMORY >> 20} MB, and {MESHES} times the size of its meshes"
    if told.get("memory"):
        raise LimitError(f"MuJoCo's compiler takes more memory for it than it may: {allowed}")
    if "error" in told:
        raise CompilerError(f"MuJoCo's compiler says: {told['error']}")
    if "needed" in told:
        raise CompilerError(told["needed"])
    if "missing" in told:
        raise MissingPackageError(f"MuJoCo needs the package {told['missing']}, which is not installed")
    if b"alloc" in done.stderr or b"memory" in done.stderr:
        raise LimitError(f"MuJoCo's compiler takes more memory for it than it may: {allowed}")
    raise LimitError(
        f"MuJoCo's compiler ended without an answer (exit code {done.returncode}): the file makes it crash, or takes more than "
        f"{SECONDS} s or {allowed}"
    )
