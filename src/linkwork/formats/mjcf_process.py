"""MuJoCo's compiler in a separate process with bounded memory and time."""

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

MAX_MEMORY = 450 * 2**20  # bytes of the compiler without meshes
MAX_SECONDS = 60  # processor time
CHILD = "linkwork.formats.mjcf_child"


class Compiled:
    """A compiled model: arrays named as in MuJoCo, and other data in `info`."""

    def __init__(self, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> None:
        self.arrays = arrays
        self.info = info
        self.names: dict[str, list[str]] = info["names"]

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.arrays[name]
        except KeyError:
            raise AttributeError(name) from None

    def optional(self, name: str) -> np.ndarray:
        """Return an array, empty if this version of MuJoCo does not have it."""
        return self.arrays.get(name, np.zeros(0))


class CompilerError(ModelError):
    """An error of MuJoCo's compiler, to be raised with the element that it concerns."""


def compile_mjcf(xml: str, models: dict[str, str], meshes: dict[str, list[str]], *, free: bool) -> Compiled:
    """Return the compiled model of a checked text.

    `free`: add a free joint to the body that the file fixes in the world.
    """
    if not sys.executable:
        raise ModelError("MJCF is compiled in a separate process, but sys.executable is not set")
    request = {"path": sys.path, "xml": xml, "models": models, "meshes": meshes, "free": free}
    request |= {"memory": MAX_MEMORY, "seconds": MAX_SECONDS}
    with tempfile.TemporaryDirectory(prefix="linkwork-mjcf-") as folder:  # for MuJoCo's log
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _source()],
                input=json.dumps(request).encode(),
                capture_output=True,
                cwd=folder,
                env={**os.environ, "MUJOCO_GL": "disable"},  # rendering takes time to import
                timeout=2 * MAX_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise LimitError(f"MuJoCo's compiler exceeded {2 * MAX_SECONDS} s") from None
    return _answer(done)


def _source() -> str:
    """Return the source of the child process, wherever the package was loaded from."""
    spec = importlib.util.find_spec(CHILD)
    get_source = getattr(spec.loader, "get_source", None) if spec else None
    source: str | None = get_source(CHILD) if get_source else None
    if source is None:
        raise ModelError("cannot compile MJCF: cannot locate the linkwork sources")
    return source


def _answer(done: subprocess.CompletedProcess[bytes]) -> Compiled:
    kind = done.stdout[:1]
    body = done.stdout[1:]
    if kind == b"N":
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as npz:
                arrays = {name: npz[name] for name in npz.files}
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise ModelError(f"MuJoCo's compiler returned no model: {error}") from None
        return Compiled(arrays, json.loads(arrays.pop("info").tobytes()))
    info = json.loads(body) if kind == b"E" else {}
    if info.get("missing") == "mujoco":
        raise MissingPackageError("MJCF files require MuJoCo: pip install 'linkwork[mjcf]'")
    allowed = f"{MAX_MEMORY >> 20} MB, and {MESHES} times the size of its meshes"
    if info.get("memory"):
        raise LimitError(f"MuJoCo's compiler exceeded its memory of {allowed}")
    if "error" in info:
        raise CompilerError(f"MuJoCo's compiler: {info['error']}")
    if "needed" in info:
        raise CompilerError(info["needed"])
    if "missing" in info:
        raise MissingPackageError(f"MuJoCo requires the package {info['missing']}, which is not installed")
    if b"alloc" in done.stderr or b"memory" in done.stderr:
        raise LimitError(f"MuJoCo's compiler exceeded its memory of {allowed}")
    raise LimitError(
        f"MuJoCo's compiler failed (exit code {done.returncode}): the file makes it crash, or exceeds "
        f"{MAX_SECONDS} s or {allowed}"
    )
