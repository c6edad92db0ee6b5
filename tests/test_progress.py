"""Progress is shown where a kernel takes long, on a terminal or where it is asked for, and nowhere else."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.runtime import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def made(number: float) -> None:
    """A kernel that no other test has made, long enough to be compiled in two tiers."""

    def slow(x: Any) -> Any:
        for k in range(150):
            x = np.array([lw.fma(x[0], number + k, x[1] * x[2]), x[2] + x[0], lw.sqrt(x[1] * x[1] + k)])
        time.sleep(0.02)  # tracing takes longer than AFTER
        return x

    lw.compile(slow, {"x": 3})(np.ones(3))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER", 1e-3)
    monkeypatch.setattr(progress, "EVERY", 5e-3)
    monkeypatch.delenv("LINKWORK_PROGRESS", raising=False)


@pytest.mark.usefixtures("soon")
def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    made(1.25)
    text = told.getvalue()
    assert "linkwork: slow: " in text and "instructions" in text
    assert "ready after" in text


@pytest.mark.usefixtures("soon")
def test_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    made(1.5)
    monkeypatch.setattr(sys, "stderr", quiet := Terminal())
    monkeypatch.setenv("LINKWORK_PROGRESS", "0")
    made(1.75)
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    monkeypatch.delenv("LINKWORK_PROGRESS")
    made(2.25)
    assert told.getvalue() == "" and quiet.getvalue() == ""


@pytest.mark.usefixtures("soon")
def test_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setenv("LINKWORK_PROGRESS", "1")
    made(2.5)
    lines = told.getvalue().splitlines()
    assert lines and all(line.startswith("linkwork: ") for line in lines) and "\r" not in told.getvalue()


def test_not_before_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.AFTER == 2.0
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    with progress.Progress("quick") as quick:
        quick.stage("compiling")
    assert told.getvalue() == ""


@pytest.mark.usefixtures("soon")
def test_what_is_given_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    with pytest.raises(RuntimeError), progress.Progress("kernel") as under_way:
        while not under_way._shown:
            pass
        raise RuntimeError
    assert "given up after" in told.getvalue()
