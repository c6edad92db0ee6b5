"""For all tests: one cache of kernels for the run, never the user's; what `make test` leaves to `make
test-all`.

`make test` runs a share of long sweeps, and optimises kernels only where somebody waits for them: most tests
would end before the compiler in the background has done. Outside tests/compiler, which compares both tiers
bit by bit, short programs too begin as bytecode, which LLVM has soon done. `make test-all` compiles in every
test as for users.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import zlib
from collections.abc import Iterator

import pytest

from waiting import quiet_background

PREFIX = "linkwork-tests-"
if PREFIX not in os.environ.get(
    "LINKWORK_CACHE", ""
):  # else a worker or a run of tools/mutants.py, which share it
    _folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    os.environ["LINKWORK_CACHE"] = _folder.name  # before linkwork is imported; child processes inherit it


OPTIMISED_AT_ONCE = (
    "compiler",
    "docs",
    "gpu",
    "interop",
)  # folders in which short programs are, as for users


@pytest.fixture(autouse=True, scope="module")
def _optimise_when_awaited(request: pytest.FixtureRequest) -> Iterator[None]:
    """The compiler in the background is given nothing to do: whoever waits for optimised code makes it."""
    if os.environ.get("LINKWORK_TEST_ALL") or request.node.get_closest_marker("background"):
        yield
        return
    from linkwork.compiler.runtime import kernel
    from linkwork.compiler.runtime.compiler import Background

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Background, "submit", lambda self, job: None)
        if request.path.parent.name not in OPTIMISED_AT_ONCE:
            patch.setattr(kernel, "MAX_IMMEDIATE_SIZE", 0)
        yield


@pytest.fixture(autouse=True)
def _quiet_background(request: pytest.FixtureRequest) -> None:
    """Where tests look at the compiler in the background, each begins when no kernel of another test is being
    compiled.
    """
    if request.node.get_closest_marker("background"):
        quiet_background()


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collection, which would visit them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, here and in child processes, also in tests that a shell runs in the background, where it
    is ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(tryfirst=True)  # before -m "not slow" chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sweep(n)`, every n-th case is quick and the rest are slow; which of them depends on
    the test's name.

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
