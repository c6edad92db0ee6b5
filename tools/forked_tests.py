"""Run tests of a copy of the working tree in processes forked from one with all imports done.

A run of few tests takes a fraction of the time of a new interpreter.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

IMPORTED = ["numpy", "numpy.testing", "llvmlite.binding", "hypothesis", "mpmath", "pytest", "_pytest.doctest",
            "unittest.mock", "concurrent.futures"]  # fmt: skip
PATIENCE = 10  # seconds of wall time for each of processor time, on a busy machine
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(IMPORTED)


class Run(NamedTuple):
    """The exit status of pytest, less than zero after a signal, and what it printed."""

    returncode: int
    output: str


def run_pytest(copy: Path, arguments: list[str], most: int, environment: Mapping[str, str]) -> Run:
    """Run pytest in a copy with `most` seconds of processor time; TimeoutExpired after many times that."""
    output = copy / "output.txt"
    process = CONTEXT.Process(target=_pytest, args=(copy, output, arguments, most, dict(environment)))
    process.start()
    process.join(PATIENCE * most)
    if process.exitcode is None:
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        raise subprocess.TimeoutExpired(arguments, PATIENCE * most)
    return Run(process.exitcode, output.read_text(errors="replace"))


def _pytest(
    copy: Path, output: Path, arguments: list[str], most: int, environment: Mapping[str, str]
) -> None:
    os.setsid()  # with its children, to be killed together
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    paths = [str(copy / "src"), str(copy / "tools"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update({**environment, "PYTHONPATH": os.pathsep.join(paths)})
    sys.path[:] = [*paths, *(path for path in sys.path if not path.endswith("/tools"))]
    sys.dont_write_bytecode = False  # modules that stay as they are shall be compiled once
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    import pytest

    status = int(pytest.main(arguments))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as it is done: threads of tests need not end
