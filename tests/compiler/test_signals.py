"""Exceptions of signal handlers, such as deadlines and Ctrl-C, reach the caller from every line of a call."""

from __future__ import annotations

import functools
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import linkwork as lw
from linkwork.compiler.runtime.results import POOL
from linkwork.compiler.runtime.signals import reraise_signal
from linkwork.errors import ModelError

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="POSIX signals")

ROWS = 9_500  # enough for results in recycled memory, and for several threads


NUMPY = str(Path(np.__file__).parent)


class LateError(Exception):
    pass


KINDS = [
    KeyboardInterrupt, SystemExit, LateError, TimeoutError, ValueError, TypeError, KeyError, IndexError,
    AttributeError, RuntimeError, ModelError,
]  # fmt: skip


@pytest.fixture(autouse=True)
def pending() -> Iterator[list[BaseException]]:
    """Exceptions that a signal handler raises next."""
    exceptions: list[BaseException] = []

    def handle(*_: Any) -> None:
        raise exceptions.pop()

    before = signal.signal(signal.SIGUSR1, handle)
    gc.collect()
    gc.disable()  # Python ignores exceptions in finalisers and in callbacks of the collector, as of Hypothesis
    yield exceptions
    gc.enable()
    signal.signal(signal.SIGUSR1, before)


def interrupted(call: Callable[[], Any], line: int, error: BaseException, pending: list[Any]) -> Any:
    """Call with a signal at the n-th executed line; return what was raised, and None if there is no such
    line.
    """
    count = 0
    place = ""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, place
        if event == "line" and not frame.f_code.co_filename.startswith(NUMPY):  # which catches some itself
            if count == line:
                place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                sys.settrace(None)
                pending.append(error)
                signal.raise_signal(signal.SIGUSR1)
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except BaseException as raised:
        return raised
    finally:
        sys.settrace(before)
    assert not place, f"{error!r} was lost in {place}"
    return None


@pytest.fixture(scope="module")
def calls() -> dict[str, Callable[[], Any]]:
    arm = lw.robots.arm()
    states = np.random.default_rng(0).normal(size=(ROWS, arm.nq))
    out = np.empty((ROWS, arm.nv))
    few = states[:5]
    kernel = lw.inverse_dynamics.kernel(arm, wait=True)
    return {
        "one state": lambda: lw.inverse_dynamics(arm, states[0], states[0], states[0]),
        "lists": lambda: lw.inverse_dynamics(arm, few.tolist(), few, few),
        "large": lambda: lw.inverse_dynamics(arm, states, states, states),
        "threads": lambda: lw.inverse_dynamics(arm, states, states, states, threads=2),
        "out": lambda: lw.inverse_dynamics(arm, states, states, states, out=out),
        "kernel": lambda: kernel(states, states, states),
        "parameters": lambda: lw.inverse_dynamics(arm, few, few, few, parameters={"gravity": np.ones(3)}),
        "rollout": lambda: lw.rollout(arm, few, few, few, dt=1e-3, steps=2).q,
    }


@pytest.mark.parametrize(
    "name", ["one state", "lists", "large", "threads", "out", "kernel", "parameters", "rollout"]
)
def test_an_exception_of_a_signal_handler_reaches_the_caller(
    calls: dict[str, Callable[[], Any]], name: str, pending: list[Any]
) -> None:
    """Each line once for each kind, in turn: kinds that calls themselves expect and others."""
    call = calls[name]
    expected = call()
    stride = 3 if name == "rollout" else 1
    for kind in KINDS:
        line = 0
        while (raised := interrupted(call, line, error := kind("late"), pending)) is not None:
            assert raised is error, (line, raised)
            line += stride
        assert line > 3
    assert call().tobytes() == expected.tobytes()


def test_memory_of_interrupted_calls_is_used_again(
    calls: dict[str, Callable[[], Any]], pending: list[Any]
) -> None:
    POOL.release()
    for line in range(1000):
        if interrupted(calls["large"], line, KeyboardInterrupt(), pending) is None:
            break
    assert line > 50 and POOL.unused_bytes < 4 * ROWS * 7 * 8


@pytest.mark.parametrize("wrap", ["function", "partial", "method", "object"])
def test_handlers_of_all_kinds_are_recognised(wrap: str) -> None:
    class Handler:
        def method(self, *_: Any) -> None:
            raise ValueError("late")

        __call__ = method

    handler = Handler()
    handlers = {
        "function": lambda *args: handler.method(*args),
        "partial": functools.partial(Handler.method, handler),
        "method": handler.method,
        "object": handler,
    }
    signal.signal(signal.SIGUSR1, handlers[wrap])
    with pytest.raises(ValueError, match="late"):
        try:
            signal.raise_signal(signal.SIGUSR1)
        except ValueError as error:
            reraise_signal(error)


def test_errors_of_calls_are_not_taken_for_those_of_signals() -> None:
    """A function that raises the same class, also while a handler is installed."""
    try:
        int("x")
    except ValueError as error:
        reraise_signal(error)
    try:
        np.broadcast_shapes((2,), (3,))
    except ValueError as error:
        reraise_signal(error)
