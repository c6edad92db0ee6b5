"""Events of a simulation: conditions of the state that are evaluated after every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism.names import printable


@dataclass(frozen=True)
class Event:
    """Condition (q, v, t) of all states, (...) of bool, which is recorded when it becomes true.

    The row then stops if `stop`. A condition that holds at the start must become false before it can become
    true.
    """

    condition: Callable[[Any, Any, float], Any]
    stop: bool = True

    def __post_init__(self) -> None:
        if not callable(self.condition):
            raise ModelError(
                f"Event: condition: expected a function (q, v, t), got {type(self.condition).__name__}"
            )


class EventMonitor:
    """Events of a simulation and the last values of their conditions, (rows,) each."""

    def __init__(self, events: Mapping[str, Any] | None, batch: tuple[int, ...]) -> None:
        if events is not None and not isinstance(events, Mapping):
            raise ModelError(
                f"simulate: events: expected a dict by name such as {{'fell': condition}}, got "
                f"{type(events).__name__}"
            )
        for name, event in (events or {}).items():
            if not isinstance(event, Event) and not callable(event):
                raise ModelError(
                    f"simulate: event {printable(name)}: expected a function (q, v, t) as condition"
                )
        self._events = {str(n): e if isinstance(e, Event) else Event(e) for n, e in (events or {}).items()}
        self._batch = batch
        self._last_values = dict[str, np.ndarray]()

    def __bool__(self) -> bool:
        return bool(self._events)

    def begin(self, q: np.ndarray, v: np.ndarray, t: float) -> None:
        """Evaluate the conditions at the start."""
        self._last_values = {name: self._evaluate(name, q, v, t) for name in self._events}

    def look(self, q: np.ndarray, v: np.ndarray, t: float) -> list[tuple[str, bool, np.ndarray]]:
        """Return the events that became true: name, whether rows stop, and which rows, (rows,)."""
        triggered = []
        for name, event in self._events.items():
            value = self._evaluate(name, q, v, t)
            rising = value & ~self._last_values[name]
            self._last_values[name] = value
            if rising.any():
                triggered.append((name, event.stop, rising))
        return triggered

    def _evaluate(self, name: str, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        positions, velocities = (x.reshape(*self._batch, x.shape[1]).copy() for x in (q, v))
        value = np.asarray(self._events[name].condition(positions, velocities, t))
        if value.dtype != bool or value.shape not in ((), self._batch):
            raise ShapeError(
                f"simulate: event {printable(name)}: expected a condition that returns bool of shape "
                f"{self._batch}, got {value.dtype} of {value.shape}"
            )
        return np.broadcast_to(value, self._batch).reshape(-1)
