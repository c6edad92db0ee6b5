"""Studies on a real Ray cluster of three nodes, from which workers, nodes and the driver are taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import linkwork as lw
from study_kills import SAMPLES, small_study

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'linkwork[study]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'linkwork[study]'")
HERE = Path(__file__).parents[1] / "helpers"


@pytest.fixture(scope="module")
def expected() -> bytes:
    return small_study().run(workers=1, progress=False).state_bytes()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of three nodes with one core each, which import linkwork and these tests from here."""
    from ray.cluster_utils import Cluster

    source = str(Path(lw.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    for _ in range(2):
        made.add_node(wait=False, num_cpus=1, object_store_memory=100 << 20)
    made.wait_for_nodes(timeout=300.0)  # machines that tests run on are busy
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def rows_of(folder: Path) -> list[int]:
    from pyarrow import parquet

    index: list[int] = parquet.read_table(folder)["index"].to_pylist()
    return sorted(index)


def test_three_nodes_give_the_same_bits(cluster: Any, tmp_path: Path, expected: bytes) -> None:
    ray.init(address=cluster.address, log_to_driver=False)
    result = small_study().run(tmp_path / "a", executor="ray", progress=False)
    assert result.state_bytes() == expected and rows_of(tmp_path / "a") == list(range(SAMPLES))
    assert small_study(chunk=2048).run(executor="ray", workers=1, progress=False).state_bytes() == expected


def _slow_and_deadly(mark: str, driver: int, plain: Any) -> Any:
    """Return an output that kills its worker the first time that it is asked for the third chunk."""

    def output(batch: Any) -> Any:
        if os.getpid() != driver and 2048 <= batch.index[0] < 3072 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(batch)

    return output


def test_chunks_of_a_worker_that_died_are_computed_again(
    cluster: Any, tmp_path: Path, expected: bytes
) -> None:
    ray.init(address=cluster.address, log_to_driver=False)
    study = small_study()
    outputs = {"energy": _slow_and_deadly(str(tmp_path / "mark"), os.getpid(), study.outputs["energy"])}
    result = small_study(outputs=outputs).run(tmp_path / "a", executor="ray", progress=False)
    assert (tmp_path / "mark").exists() and result.state_bytes() == expected
    assert rows_of(tmp_path / "a") == list(range(SAMPLES))


def _slow(plain: Any) -> Any:
    def output(batch: Any) -> Any:
        time.sleep(0.5 if len(batch.index) > 10 else 0.0)
        return plain(batch)

    return output


def test_chunks_of_a_node_that_died_are_computed_again(cluster: Any, tmp_path: Path, expected: bytes) -> None:
    ray.init(address=cluster.address, log_to_driver=False)
    folder = tmp_path / "a"
    nodes = [node for node in cluster.list_all_nodes() if not node.head]

    def remove() -> None:
        while not list(folder.glob("chunk-*.parquet")):
            time.sleep(0.02)
        cluster.remove_node(nodes[0], allow_graceful=False)  # SIGKILL of its processes

    thread = threading.Thread(target=remove)
    thread.start()
    outputs = {"energy": _slow(small_study().outputs["energy"])}
    result = small_study(outputs=outputs).run(folder, executor="ray", progress=False)
    thread.join()
    assert len(cluster.list_all_nodes()) == 2
    assert result.state_bytes() == expected and rows_of(folder) == list(range(SAMPLES))


@pytest.mark.parametrize("point", ["write", "fsync", "rename", "renamed"])
def test_a_driver_that_died_is_followed_by_another(
    point: str, cluster: Any, tmp_path: Path, expected: bytes
) -> None:
    folder = tmp_path / "a"
    command = [sys.executable, str(HERE / "study_kills.py"), str(folder), point, "3", "ray"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    ray.init(address=cluster.address, log_to_driver=False)
    assert len(list(folder.glob("chunk-*.parquet"))) == (3 if point == "renamed" else 2)
    result = lw.Study.resume(folder, small_study(), executor="ray", progress=False)
    assert result.state_bytes() == expected and rows_of(folder) == list(range(SAMPLES))


def test_other_versions_on_a_node_are_one_error(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkwork.studies.executors import ray as executor

    ray.init(address=cluster.address, log_to_driver=False)
    monkeypatch.setattr(executor, "__version__", "0.0.0")
    with pytest.raises(lw.StudyError, match=r"the driver has linkwork 0\.0\.0, a node"):
        small_study().run(executor="ray", progress=False)


def test_no_cluster_is_one_error() -> None:
    with pytest.raises(lw.StudyError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        small_study().run(executor="ray", address="127.0.0.1:1", progress=False)
