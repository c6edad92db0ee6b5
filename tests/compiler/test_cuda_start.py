"""The driver's early start: once, only where nobody has started it, and without a word where there is none."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from linkwork.compiler.runtime import cuda_start


class Driver:
    """A driver that notes what it is asked; `count` is what it answers to the first question."""

    def __init__(self, count: int, init: int = 0) -> None:
        self.asked: list[str] = []
        self.answers = {"cuDeviceGetCount": count, "cuInit": init}

    def __getattr__(self, name: str) -> Any:
        def answer(*args: Any) -> int:
            self.asked.append(name)
            return self.answers.get(name, 0)

        return answer


def started(driver: Driver | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Driver:
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    cuda_start.start_driver.cache_clear()
    for _ in range(2):
        cuda_start.start_driver()
    for thread in threading.enumerate():
        if thread.name.startswith("linkwork"):
            thread.join()


@pytest.mark.parametrize(
    ("driver", "asked"),
    [
        (
            Driver(cuda_start.NOT_INITIALIZED),
            ["cuDeviceGetCount", "cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"],
        ),
        (Driver(cuda_start.NOT_INITIALIZED, init=100), ["cuDeviceGetCount", "cuInit"]),  # no GPU
        (Driver(0), ["cuDeviceGetCount"]),  # PyTorch, say, has started it
    ],
)
def test_asked_once(driver: Driver, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started(driver, monkeypatch)
    assert driver.asked == asked


@pytest.mark.filterwarnings("error")  # of threads, too
def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    started(None, monkeypatch)
