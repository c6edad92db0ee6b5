"""Folders of studies: whole files or none, resumed after any kill, refused where they belong to something
else.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork import studies
from linkwork.studies import storage
from linkwork.studies.fingerprint import digest
from study_kills import CHUNK, SAMPLES, small_study

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'linkwork[study]'")
parquet = pytest.importorskip("pyarrow.parquet")
PROGRAM = Path(__file__).parents[1] / "helpers" / "study_kills.py"
POINTS = ("write", "fsync", "rename", "renamed")


@pytest.fixture(scope="module")
def expected() -> bytes:
    return small_study().run(workers=1, progress=False).state_bytes()


def killed(folder: Path, point: str, write: int, executor: str = "threads") -> None:
    """Run the study in a process that is killed at a point."""
    command = [sys.executable, str(PROGRAM), str(folder), point, str(write), executor]
    done = subprocess.run(command, capture_output=True, text=True)
    wanted = 0 if point == "none" else -signal.SIGKILL
    assert done.returncode == wanted, done.stderr


def check_folder(folder: Path) -> None:
    """Every sample has one row, with the numbers of the study."""
    table = parquet.read_table(folder).to_pydict()
    index = np.array(table["index"])
    assert (np.sort(index) == np.arange(SAMPLES)).all()
    rows = small_study().evaluate(0, SAMPLES)
    assert (np.array(table["energy"])[np.argsort(index)] == rows.outputs["energy"]).all()
    assert (np.array(table["mass[1]"])[np.argsort(index)] == rows.values["mass"][:, 1]).all()
    assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]


def whole_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("chunk-*.parquet"))


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("point", "write"),
    [
        ("fsync", 2),
        ("renamed", 4),
        *[pytest.param(p, w, marks=pytest.mark.slow) for p in POINTS for w in (1, 3, 6)],
    ],
)
def test_a_study_goes_on_after_its_driver_was_killed(
    point: str, write: int, tmp_path: Path, expected: bytes
) -> None:
    folder = tmp_path / "study"
    killed(folder, point, write)
    written = whole_files(folder)
    assert len(written) == (write if point == "renamed" else write - 1)
    before = {name: (folder / name).stat().st_mtime_ns for name in written}
    result = lw.Study.resume(folder, small_study(), progress=False)
    assert result.state_bytes() == expected and result.completed == SAMPLES
    assert before == {name: (folder / name).stat().st_mtime_ns for name in written}, (
        "a whole chunk was written again"
    )
    check_folder(folder)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_study_goes_on_after_kill_upon_kill(tmp_path: Path, expected: bytes) -> None:
    """Killed at its first and second write, again and again, by processes too."""
    folder = tmp_path / "study"
    for k in range(8):
        executor = "processes" if k % 3 == 2 else "threads"
        command = [sys.executable, str(PROGRAM), str(folder), POINTS[k % 4], str(1 + k % 2), executor]
        assert subprocess.run(command, capture_output=True).returncode in (0, -signal.SIGKILL)
    result = lw.Study.resume(folder, small_study(), progress=False)
    assert result.state_bytes() == expected
    check_folder(folder)


def test_a_folder_holds_what_its_study_is(tmp_path: Path, expected: bytes) -> None:
    folder = tmp_path / "new" / "study"
    result = small_study().run(folder, progress=False)
    assert result.state_bytes() == expected and result.folder == folder
    check_folder(folder)
    manifest = json.loads((folder / storage.MANIFEST).read_text())
    assert manifest["models"][0]["digest"] == lw.robots.chain(2).digest
    assert (manifest["seed"], manifest["samples"], manifest["linkwork"]) == (3, SAMPLES, lw.__version__)
    assert manifest["sampler"]["kind"] == "Random" and manifest["function"] == "RolloutTask"
    again = lw.Study.resume(folder, progress=False)  # by the stored study; nothing is left to do
    assert again.state_bytes() == expected
    assert (
        lw.Study.load(folder).sample(17).outputs()["energy"] == small_study().sample(17).outputs()["energy"]
    )


@pytest.mark.parametrize("rows", ["outputs", "failed", "none"])
def test_folders_keep_the_rows_that_are_asked_for(rows: str, tmp_path: Path) -> None:
    sampler = studies.Grid({"v": [[0.0, 0.0], [1e300, 1e300], [0.1, 0.1]]})
    task = studies.RolloutTask(dt=2e-3, steps=5)
    study = lw.Study(
        lw.robots.chain(2), sampler, task, outputs={"v": "v"}, reductions=[studies.Mean("v")], rows=rows
    )
    first = study.run(tmp_path / "a", progress=False)
    table = parquet.read_table(tmp_path / "a")
    assert table.num_rows == {"outputs": 3, "failed": 1, "none": 0}[rows]
    assert ("v[0]" in table.column_names) == (rows != "values")
    assert lw.Study.resume(tmp_path / "a", study, progress=False).state_bytes() == first.state_bytes()


def test_quantities_and_outputs_of_one_name_have_a_column_each(tmp_path: Path) -> None:
    sampler = studies.Grid({"v@joint_0": [0.0, 1.0, 2.0]})
    outputs = {"v@joint_0": lambda batch: 10.0 + batch.v[:, 0, 0]}
    task = studies.RolloutTask(dt=2e-3, steps=5)
    lw.Study(lw.robots.chain(2), sampler, task, outputs=outputs).run(tmp_path / "a", progress=False)
    table = parquet.read_table(tmp_path / "a")
    assert table["v@joint_0"].to_pylist() == [10.0, 11.0, 12.0]
    assert table["sampled v@joint_0"].to_pylist() == [0.0, 1.0, 2.0]


def test_whole_trajectories_are_kept(tmp_path: Path) -> None:
    task = studies.RolloutTask(dt=2e-3, steps=100, record_every=1)
    sampler = studies.Random({"dq": studies.Normal(0.0, 0.5)})
    study = lw.Study(lw.robots.chain(2), sampler, task, samples=10, outputs={"path": "trajectory_q"})
    study.run(tmp_path / "a", progress=False)
    path = parquet.read_table(tmp_path / "a")["path"].to_pylist()
    q = np.array(path).reshape(10, 101, 2)
    assert (q == study.evaluate(0, 10).outputs["path"]).all() and (q[3] == study.sample(3).run().q).all()
    lw.Study.resume(tmp_path / "a", study, progress=False)


def test_pandas_polars_and_duckdb_read_the_folder(tmp_path: Path) -> None:
    small_study(samples=2000).run(tmp_path / "a", progress=False)
    energy = small_study(samples=2000).evaluate(0, 2000).outputs["energy"].mean()
    pattern = str(tmp_path / "a" / "*.parquet")
    if (pandas := pytest.importorskip("pandas")) is not None:
        assert abs(pandas.read_parquet(tmp_path / "a")["energy"].mean() - energy) < 1e-12
    polars, duckdb = (pytest.importorskip(name) for name in ("polars", "duckdb"))
    assert abs(polars.read_parquet(pattern)["energy"].mean() - energy) < 1e-12
    assert abs(duckdb.sql(f"select avg(energy) from '{pattern}'").fetchall()[0][0] - energy) < 1e-12


def test_damaged_files_are_computed_again(tmp_path: Path, expected: bytes) -> None:
    folder = tmp_path / "study"
    small_study().run(folder, progress=False)
    names = whole_files(folder)
    data = bytearray((folder / names[1]).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / names[1]).write_bytes(bytes(data))
    (folder / names[2]).write_bytes((folder / names[2]).read_bytes()[:-100])
    (folder / names[3]).write_bytes((folder / names[4]).read_bytes())
    (folder / names[4]).write_bytes(b"")
    with pytest.warns(UserWarning, match="computed again") as told:
        result = lw.Study.resume(folder, small_study(), progress=False)
    assert len(told) == 4 and result.state_bytes() == expected
    check_folder(folder)


OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 4},
    "samples": {"samples": SAMPLES - 1},
    "outputs": {"outputs": {"energy": lambda batch: batch.v[:, -1, 0]}},
    "reductions": {"reductions": []},
    "chunk": {"chunk": 2048},
    "rows": {"rows": "none"},
}


def test_folders_of_other_studies_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    small_study().run(folder, progress=False)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for part, changes in OTHERS.items():
        with pytest.raises(lw.StudyError, match=f"belongs to another study: .*{part}"):
            lw.Study.resume(folder, small_study(**changes), progress=False)
    heavier = lw.robots.chain(2).with_parameters({"mass": 2.0 * lw.robots.chain(2).parameters()["mass"]})
    study = small_study()
    study.models = (heavier,)
    with pytest.raises(lw.StudyError, match="another study: model differ"):
        lw.Study.resume(folder, study, progress=False)
    with pytest.raises(lw.StudyError, match="holds a study already"):
        small_study().run(folder, progress=False)
    assert files == {path.name: path.read_bytes() for path in folder.iterdir()}


SCRIPT = """
from functools import partial
LIMIT = 0.5
def double(x):
    return 2.0 * x
def helper(x):
    return double(x) - LIMIT
def again(x, depth=1):
    return known["again"](x, 0) if depth else helper(x)
known = {"again": again}
class Speed:
    def __call__(self, batch):
        return batch.v[:, -1, 0] - LIMIT
def plain(batch):
    return again(batch.v[:, -1, 0])
import linkwork as lw
@lw.model_function(q="nq")
def cost(model, q):
    return LIMIT * double(q[0])
outputs = {"cost": cost, "plain": plain, "nested": lambda batch: [helper(x) for x in batch.v[:, -1, 0]],
           "part": partial(lambda scale, batch: scale * batch.v[:, -1, 0], LIMIT), "object": Speed()}
"""


def test_functions_are_known_with_what_they_use() -> None:
    """A constant or a function of a script that outputs use is a part of the study, as is a class's code."""

    def parts(text: str) -> dict[str, str]:
        names: dict[str, Any] = {"__name__": "script"}
        exec(text, names)
        return {name: digest(each) for name, each in names["outputs"].items()}

    first = parts(SCRIPT)
    assert first == parts(SCRIPT + "\nOTHER = 3.0\n")
    for old, new, names in (
        ("LIMIT = 0.5", "LIMIT = 0.25", {"cost", "plain", "nested", "part", "object"}),
        ("2.0 * x", "3.0 * x", {"cost", "plain", "nested"}),
        ("0] - LIMIT\ndef plain", "0] + LIMIT\ndef plain", {"object"}),
    ):
        changed = parts(SCRIPT.replace(old, new))
        assert {name for name in first if changed[name] != first[name]} == names


def test_folders_that_are_no_study_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lw.StudyError, match="holds no study"):
        lw.Study.resume(tmp_path, progress=False)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(lw.StudyError, match="new or an empty folder"):
        small_study().run(tmp_path, progress=False)
    with pytest.raises(lw.StudyError, match="found a file"):
        small_study().run(tmp_path / "notes.txt", progress=False)
    with pytest.raises(lw.StudyError, match="cannot make folder"):
        small_study().run(tmp_path / "notes.txt" / "a", progress=False)
    (tmp_path / storage.MANIFEST).write_text("{")
    with pytest.raises(lw.StudyError, match="damaged"):
        lw.Study.resume(tmp_path, progress=False)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_versions_and_stored_studies_are_checked(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    small_study(samples=100).run(folder, progress=False)
    manifest = folder / storage.MANIFEST
    text = manifest.read_text()
    manifest.write_text(text.replace(f'"linkwork": "{lw.__version__}"', '"linkwork": "0.0.1"'))
    with pytest.raises(lw.StudyError, match=r"written by linkwork 0\.0\.1"):
        lw.Study.resume(folder, small_study(samples=100), progress=False)
    manifest.write_text(text)
    with open(folder / storage.PICKLE, "ab") as file:
        file.write(b"x")
    with pytest.raises(lw.StudyError, match="damaged: give the study"):
        lw.Study.resume(folder, progress=False)
    lw.Study.resume(folder, small_study(samples=100), progress=False)


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    folder = storage.StudyFolder.create(tmp_path / "study", small_study())
    with folder.locked(), pytest.raises(lw.StudyError, match="another process"):
        lw.Study.resume(tmp_path / "study", small_study(), progress=False)


def test_a_full_disk_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes) -> None:
    folder = tmp_path / "study"
    count = 0
    fsync = os.fsync

    def full(number: int) -> None:
        nonlocal count
        count += 1
        if count > 6:  # two for each of study, manifest and chunks
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(lw.StudyError, match="the disk is full"):
            small_study().run(folder, progress=False)
    assert len(whole_files(folder)) == 1 and not list(folder.glob("*.tmp"))
    assert lw.Study.resume(folder, small_study(), progress=False).state_bytes() == expected
    check_folder(folder)


@pytest.mark.skipif(os.name == "nt", reason="no signals")
def test_ctrl_c_leaves_a_folder_that_can_be_resumed(
    tmp_path: Path, interruptible: None, expected: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "study"
    plain = storage.StudyFolder.write
    written = 0

    def interrupted(self: Any, first: int, data: bytes) -> None:
        nonlocal written
        plain(self, first, data)
        written += 1
        if written == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.StudyFolder, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            small_study().run(folder, workers=1, progress=True)
    told = capsys.readouterr().err
    assert "stopped after" in told and "lw.Study.resume" in told
    assert len(whole_files(folder)) == 2
    assert lw.Study.resume(folder, progress=False).state_bytes() == expected
    check_folder(folder)


def test_chunks_have_their_place(tmp_path: Path) -> None:
    assert storage.chunk_name(CHUNK) == "chunk-000000000001024.parquet"
    small_study(samples=100).run(tmp_path / "a", progress=False)
    (tmp_path / "a" / storage.chunk_name(77)).write_bytes(b"")
    with pytest.raises(lw.StudyError, match="no chunk that starts with sample 77"):
        lw.Study.resume(tmp_path / "a", small_study(samples=100), progress=False)
