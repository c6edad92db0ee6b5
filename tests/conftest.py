"""For all tests: kernels are cached in a folder of this run, never in the user's; of long sweeps `make test` runs a share."""

from __future__ import annotations

import os
import tempfile
import zlib

import pytest

_folder = tempfile.TemporaryDirectory(prefix="linkwork-tests-", ignore_cleanup_errors=True)
os.environ["LINKWORK_CACHE"] = _folder.name  # before linkwork is imported; child processes inherit it


@pytest.hookimpl(tryfirst=True)  # before -m "not slow" chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sweep(n)`, every n-th case is quick and the rest are slow; which of them depends on the test's name.

    So that a mechanism which one law leaves to `make test-all` is met by other laws in `make test`.
    """
    seen: dict[str, int] = {}
    for item in items:
        mark = item.get_closest_marker("sweep")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        place = seen.get(test, zlib.crc32(test.encode()) % mark.args[0])
        seen[test] = place + 1
        if place % mark.args[0]:
            item.add_marker(pytest.mark.slow)
