"""Which trace or loop body is under way in this thread, so that loops on plain numbers know where they belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from linkwork.ir.builder import Builder
from linkwork.ir.symbol import Symbol, shared_builder


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []


_stack = _Stack()


@contextmanager
def tracing(builder: Builder) -> Iterator[None]:
    """While the block runs, loops that start from plain numbers belong to this builder."""
    _stack.builders.append(builder)
    try:
        yield
    finally:
        _stack.builders.pop()


def builder_around(symbols: list[Symbol]) -> Builder | None:
    """The innermost builder of some symbols and of what is under way; None outside of any trace."""
    here = [Symbol(b, -1) for b in _stack.builders[-1:]]
    return shared_builder(here + symbols) if here or symbols else None
