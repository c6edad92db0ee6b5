"""A small study with a folder, driven by a process that kills itself with SIGKILL at a chosen write: a
program for tests.

    python study_kills.py FOLDER POINT WRITE EXECUTOR

POINT is "write" (before any byte), "fsync" (bytes are written, not renamed), "rename" (just before),
"renamed" (just after), or "none"; WRITE is the number of the file. The manifest is written before the chunks.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import linkwork as lw
from linkwork import studies

SAMPLES = 6000
CHUNK = 1024


def small_study(**changes: Any) -> lw.Study:
    """Return a study of seconds: six chunks of a double pendulum."""
    arguments: dict[str, Any] = {
        "samples": SAMPLES,
        "chunk": CHUNK,
        "seed": 3,
        "outputs": {"energy": studies.Final(lw.kinetic_energy)},
        "reductions": [
            studies.Mean("energy"),
            studies.Variance("energy"),
            studies.Quantiles("energy"),
            studies.Extremes("energy"),
        ],
    }
    sampler = studies.Random(
        {"dq": studies.Normal(0.0, 0.5), "mass": studies.Scale(studies.Uniform(0.5, 2.0))}
    )
    return lw.Study(
        lw.robots.chain(2), sampler, studies.RolloutTask(dt=2e-3, steps=10), **(arguments | changes)
    )


def kill_at(point: str, write: int) -> None:
    """Have this process killed at a point of a write of a chunk."""
    from linkwork.studies import storage

    count = 0
    plain = storage.write_atomically
    replace = os.replace
    fsync = os.fsync

    def kill(here: str) -> None:
        if here == point and count == write:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(path: Any, data: bytes) -> None:
        nonlocal count
        if path.suffix == ".parquet":
            count += 1
            kill("write")
        plain(path, data)

    def synced(number: int) -> None:
        kill("fsync")
        fsync(number)

    def renamed(old: Any, new: Any) -> None:
        kill("rename")
        replace(old, new)
        kill("renamed")

    storage.write_atomically = counted  # type: ignore[assignment]
    os.replace, os.fsync = renamed, synced  # type: ignore[assignment]


if __name__ == "__main__":
    folder, point, write, executor = sys.argv[1:]
    if point != "none":
        kill_at(point, int(write))
    options: dict[str, Any] = {"executor": executor, "workers": 2, "progress": False}
    if os.path.exists(folder):
        lw.Study.resume(folder, small_study(), **options)
    else:
        small_study().run(folder, **options)
