"""Events of a simulation: conditions of the state that are looked at after every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.parts.names import shown


@dataclass(frozen=True)
class Event:
    """A condition(q, v, t) of all states, (...) of bool. Where it comes true it is noted, and the row stops if `stop`.

    What is true already at the start of a simulation has not come true: first it must be false.
    """

    condition: Callable[[Any, Any, float], Any]
    stop: bool = True


class Watch:
    """All events of a simulation, and what they last said, (rows,) each."""

    def __init__(self, given: Mapping[str, Any] | None, batch: tuple[int, ...]) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise ModelError(f"simulate: events are given by name: {{'fell': condition}}, not as {type(given).__name__}")
        self._events = {str(n): e if isinstance(e, Event) else Event(e) for n, e in (given or {}).items()}
        for name, event in self._events.items():
            if not callable(event.condition):
                raise ModelError(f"simulate: the condition of event {shown(name)} must be a function (q, v, t)")
        self._batch, self._before = batch, dict[str, np.ndarray]()

    def __bool__(self) -> bool:
        return bool(self._events)

    def begin(self, q: np.ndarray, v: np.ndarray, t: float) -> None:
        """What is true at the start."""
        self._before = {name: self._asked(name, q, v, t) for name in self._events}

    def look(self, q: np.ndarray, v: np.ndarray, t: float) -> list[tuple[str, bool, np.ndarray]]:
        """The events that came true somewhere: name, whether rows stop, and which, (rows,)."""
        found = []
        for name, event in self._events.items():
            now = self._asked(name, q, v, t)
            came, self._before[name] = now & ~self._before[name], now
            if came.any():
                found.append((name, event.stop, came))
        return found

    def _asked(self, name: str, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        here, fast = (x.reshape(*self._batch, x.shape[1]).copy() for x in (q, v))
        said = np.asarray(self._events[name].condition(here, fast, t))
        if said.dtype != bool or said.shape not in ((), self._batch):
            raise ShapeError(
                f"simulate: the condition of event {shown(name)} must return bool of shape {self._batch}, "
                f"not {said.dtype} of {said.shape}"
            )
        return np.broadcast_to(said, self._batch).reshape(-1)
