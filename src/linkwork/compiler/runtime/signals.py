"""Exceptions that signal handlers raise, such as those of deadlines.

Python runs a handler between any two instructions of the main thread, so its exception may come inside a
`try` block that expects others of the same class. Code that catches exceptions and goes on calls
`reraise_signal` first; else a deadline that a user sets by `signal.alarm` would have no effect.
"""

from __future__ import annotations

import functools
import inspect
import signal
from types import CodeType
from typing import Any


def reraise_signal(error: BaseException) -> None:
    """Raise an exception again if a signal handler of the user raised it."""
    if error.__traceback__ is None or error.__traceback__.tb_next is None:
        return  # raised where it was caught
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while codes and trace is not None:
        if trace.tb_frame.f_code in codes:
            raise error
        trace = trace.tb_next  # type: ignore[assignment]


def _code(handler: Any) -> CodeType | None:
    """Return the code of a signal handler written in Python, or None."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__func__", inspect.getattr_static(type(handler), "__call__", None))
    return getattr(handler, "__code__", None)
