"""Progress is shown where a kernel takes long, on a terminal or where it is asked for, and nowhere else."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime import progress
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.background


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def made(number: float) -> None:
    """A kernel that no other test has made, long enough to be compiled in two tiers."""

    def slow(x: Any) -> Any:
        for k in range(150):
            x = np.array([lw.fma(x[0], number + k, x[1] * x[2]), x[2] + x[0], lw.sqrt(x[1] * x[1] + k)])
        time.sleep(0.02)  # longer than FIRST_MESSAGE_SECONDS
        return x

    lw.compile(slow, {"x": 3})(np.ones(3))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_MESSAGE_SECONDS", 1e-3)
    monkeypatch.setattr(progress, "MESSAGE_INTERVAL_SECONDS", 5e-3)
    monkeypatch.delenv("LINKWORK_PROGRESS", raising=False)


def each_stage_is_told(told: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each stage last until it is told."""
    begin = progress.Progress.stage

    def last(self: progress.Progress, words: str) -> None:
        begin(self, words)
        wait_until(lambda: words in told.getvalue())

    monkeypatch.setattr(progress.Progress, "stage", last)


@pytest.mark.usefixtures("soon")
def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    each_stage_is_told(told, monkeypatch)
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
    each_stage_is_told(told, monkeypatch)
    made(2.5)
    lines = told.getvalue().splitlines()
    assert lines and all(line.startswith("linkwork: ") for line in lines) and "\r" not in told.getvalue()


def test_not_before_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.FIRST_MESSAGE_SECONDS == 2.0
    monkeypatch.setattr(
        progress, "FIRST_MESSAGE_SECONDS", PATIENCE
    )  # a busy machine may let a process rest for two seconds
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
        wait_until(lambda: under_way._has_printed)
        raise RuntimeError
    assert "failed after" in told.getvalue()
