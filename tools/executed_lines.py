"""Plugin of pytest for `mutants.py`: records the lines that each test executes and its time, and orders tests.

LINKWORK_LINES names the file for the records; LINKWORK_ORDER a file with the names of the tests and test files
to run, and after a minus of tests to skip.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src/linkwork"


class Recorder:
    """Measures each test; its fixtures count as the test that uses them first."""

    def __init__(self, path: Path) -> None:
        import coverage

        self.path, self.seconds, self.failed = path, {}, set()
        self.coverage = coverage.Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begin = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - begin
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {}
        for file in data.measured_files():
            of_file = {
                line: sorted(filter(None, names)) for line, names in data.contexts_by_lineno(file).items()
            }
            lines[Path(file).relative_to(SOURCE).as_posix()] = {
                line: names for line, names in of_file.items() if names
            }
        digests = {file: hashlib.sha256((SOURCE / file).read_bytes()).hexdigest() for file in lines}
        found = {"seconds": self.seconds, "failed": sorted(self.failed), "lines": lines, "digests": digests}
        self.path.write_text(json.dumps(found))


def pytest_configure(config: Any) -> None:
    """Start measuring."""
    if path := os.environ.get("LINKWORK_LINES"):
        config.pluginmanager.register(Recorder(Path(path)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the named tests and test files first, in their order, and leave out all others."""
    if path := os.environ.get("LINKWORK_ORDER"):
        place = {name: k for k, name in enumerate(Path(path).read_text().splitlines())}

        def rank(item: pytest.Item) -> int:
            if f"-{item.nodeid}" in place:
                return len(place)
            return place.get(item.nodeid, place.get(item.nodeid.partition("::")[0], len(place)))

        items[:] = sorted((item for item in items if rank(item) < len(place)), key=rank)
