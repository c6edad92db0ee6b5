"""Contexts of tracing: the stack of active builders of this thread, and a pause of the garbage collector.

Loops on plain numbers use the stack to find the program that they belong to.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from linkwork.compiler.ir.builder import Builder
from linkwork.compiler.ir.symbol import Symbol, shared_builder


class _Stack(threading.local):
    """Active builders of traces and loop bodies, innermost last, per thread."""

    def __init__(self) -> None:
        self.builders: list[Builder] = []


_stack = _Stack()


@contextmanager
def tracing(builder: Builder) -> Iterator[None]:
    """Make `builder` the owner of loops that start from plain numbers while the block runs."""
    _stack.builders.append(builder)
    try:
        yield
    finally:
        _stack.builders.pop()


@contextmanager
def untraced() -> Iterator[None]:
    """Compute with plain numbers while the block runs, also within a trace, without adding to the program."""
    builders = _stack.builders
    _stack.builders = []
    try:
        yield
    finally:
        _stack.builders = builders


def builder_around(symbols: list[Symbol]) -> Builder | None:
    """Return the innermost builder of the symbols and the active traces; None outside of any trace."""
    active = [Symbol(b, -1) for b in _stack.builders[-1:]]
    return shared_builder(active + symbols) if active or symbols else None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable garbage collection: tracing and passes make many small tuples and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
