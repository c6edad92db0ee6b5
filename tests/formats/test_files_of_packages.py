"""Every URDF, MJCF and SDF in the wheels of public packages loads, or says in one sentence why not: tables in
out/files_*.csv.

Installed packages are swept; LINKWORK_ROBOTS names folders of unpacked wheels besides, separated as paths
are.
"""

from __future__ import annotations

import csv
import importlib.metadata
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.algorithms.tree import inverse_dynamics, mass_matrix
from linkwork.interop.mujoco import States
from linkwork.model import Model

PACKAGES = (
    "example-robot-data",
    "mujoco",
    "mujoco-core",
    "mujoco-mjx",
    "dm_control",
    "robosuite",
    "mjlab",
    "genesis-world",
)
TABLE = Path(__file__).parents[2] / "out" / "files.csv"
RIGID = "no degree of freedom"
# bodies: dynamics of larger models are not compiled, which would take long, but computed as the algorithms
# stand
LARGE = 50


def files(package: str) -> tuple[list[Path], Path]:
    """The URDF, MJCF and SDF files of a package, and the folder that they are all in."""
    found: list[Path] = []
    try:
        found = [Path(str(file.locate())) for file in importlib.metadata.files(package) or []]
    except importlib.metadata.PackageNotFoundError:
        for folder in filter(None, os.environ.get("LINKWORK_ROBOTS", "").split(os.pathsep)):
            found += sorted((Path(folder) / package.replace("-", "_")).rglob("*"))
    models = [
        path
        for path in found
        if path.suffix in (".urdf", ".sdf", ".xml") and path.is_file() and is_model(path)
    ]
    return sorted(models), Path(os.path.commonpath([path.parent for path in models] or ["/"]))


def is_model(path: Path) -> bool:
    """Whether a file is one of the three formats, and no part of another."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return path.suffix != ".xml" or "<mujoco" in text.replace("<mujocoinclude", "") or "<robot" in text


def difference(model: Model, path: Path) -> tuple[float, float]:
    """How much MuJoCo's own mass matrix and joint forces differ, relative to the largest, and how much they
    may.

    NaN where MuJoCo cannot read the file. It neglects small centres of mass [m] of bodies that it calls
    simple.

    Forces of given accelerations are compared, and not accelerations: mass matrices of some files are
    singular.
    """
    import mujoco

    try:
        peer: Any = mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return np.nan, 0.0
    bits = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(bits.mjDSBL_CONSTRAINT) | int(bits.mjDSBL_ACTUATION)
    peer.opt.density = peer.opt.viscosity = 0.0
    peer.opt.gravity[:] = model.gravity
    for values in (peer.body_gravcomp, peer.tendon_stiffness, peer.tendon_damping, peer.tendon_armature):
        values[:] = 0.0
    tree = model.spanning_tree()
    convert = States(tree, peer)
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(0)
    q, v = tree.random_state(rng)
    a = rng.normal(size=tree.nv)
    data.qpos[:], data.qvel[:], data.qacc[:] = convert.q_to(q), convert.v_to(q, v), convert.a_to(q, v, a)
    mujoco.mj_inverse(peer, data)
    force = convert.tau_from(q, data.qfrc_inverse)
    mass = np.zeros((peer.nv, peer.nv))
    for row, unit in zip(mass, np.eye(peer.nv)):
        mujoco.mj_mulM(peer, data, row, unit)
    mass = convert.matrix_from(q, mass)
    if len(tree.bodies) <= LARGE:
        ours = lw.inverse_dynamics(tree, q, v, a), lw.mass_matrix(tree, q)
    else:
        nodes: Any = lw.nodes(tree, q, v)
        ours = (
            inverse_dynamics.inverse_dynamics(nodes, a).astype(float),
            mass_matrix.mass_matrix(nodes).astype(float),
        )
    off = max(float(np.abs(x - y).max() / (1.0 + np.abs(y).max())) for x, y in zip(ours, (force, mass)))
    return off, 1e-9 + float(np.abs(peer.body_ipos[peer.body_simple > 0]).max(initial=0.0))


def refused_by_mujoco(path: Path) -> bool:
    import mujoco

    try:
        mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return True
    return False


def row_of(package: str, path: Path, folder: Path) -> tuple[dict[str, Any], bool]:
    """A file's row in the table, and whether all is well: it loads as MuJoCo says, or is told why not with a
    place in a file.

    What MuJoCo reads must load, unless its equalities leave it no motion.
    """
    file = path.relative_to(folder).as_posix()
    row: dict[str, Any] = {
        "package": package,
        "file": file,
        "bodies": "",
        "nv": "",
        "loops": "",
        "difference": "",
    }
    try:
        model = lw.load(path, folders=[folder])
    except lw.LinkworkError as error:
        row["told"] = str(error).replace(f"{folder}{os.sep}", "")
        placed = re.match(r"[^:]+:\d+: <", row["told"]) is not None
        return row, placed and (path.suffix != ".xml" or RIGID in row["told"] or refused_by_mujoco(path))
    row |= {
        "bodies": len(model.bodies),
        "nv": model.nv,
        "loops": len(model.loops),
        "told": "; ".join(model.notes),
    }
    if path.suffix != ".xml" or not model.bodies:
        return row, True
    row["difference"], allowed = difference(model, path)
    return row, not row["difference"] > allowed


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_loads_or_says_why_not(package: str) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo, which reads MJCF, is not installed")
    found, folder = files(package)
    if not found:
        pytest.skip(f"{package} is not installed, and not in LINKWORK_ROBOTS")
    rows = [row_of(package, path, folder) for path in found]
    TABLE.parent.mkdir(exist_ok=True)
    with open(TABLE.with_name(f"files_{package}.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["package", "file", "bodies", "nv", "loops", "difference", "told"])
        writer.writeheader()
        writer.writerows(row for row, _ in rows)
    assert not [row for row, well in rows if not well]


CASSIE = ("cassie_v2.sdf", "cassie.sdf", "cassie.xml")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASSIE)
def test_cassie_closes_and_runs(name: str) -> None:
    """Ten seconds of free flight in steps of 1 ms, which are too long for its springs and dampers unless
    these are implicit.
    """
    path = next(
        (p for package in (*PACKAGES, "mujoco_menagerie") for p in files(package)[0] if p.name == name), None
    )
    if path is None:
        pytest.skip(f"{name} is not installed, and not in LINKWORK_ROBOTS")
    model = lw.load(path)
    q = model.neutral()
    gap = max((max(gaps) for cluster in model.clusters for gaps in cluster.gaps), default=0.0)
    assert lw.close_loops(model, q)[1] < max(1e-12, gap)
    motion = lw.rollout(
        model,
        q,
        np.zeros(model.nv),
        dt=1e-3,
        steps=10_000,
        record_every=1000,
        integrator="linearly_implicit_euler",
    )
    assert motion.status == lw.Status.OK
    assert lw.close_loops(model, motion.q[-1])[1] < max(1e-12, gap)
