"""Attributes computed on first use, and objects imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """Attribute computed once for each object and stored in its `__dict__`.

    Unlike `functools.cached_property` of Python 3.11 it holds no lock: a process forked while another thread
    holds one would deadlock. Two threads may compute the same value; both then use that of the first to
    finish.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__
        self.__module__ = compute.__module__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))


def resolve(path: str) -> Any:
    """Import and return the object named by "package.module:name"; the module alone without a name."""
    module, _, name = path.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded
