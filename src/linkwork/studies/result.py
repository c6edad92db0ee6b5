"""Results of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.simulation.status import Status
from linkwork.studies.accumulate import State

if TYPE_CHECKING:
    from linkwork.studies.study import Study


class StudyResult(Mapping[str, Any]):
    """Results of reductions by name, and what became of the samples.

    Attributes
    ----------
    study : Study
        The study.
    folder : Path or None
        Where rows are kept.
    status : dict of Status to int
        The number of samples by status.
    completed : int
        The number of samples that were computed.
    seconds : float
        How long this run took [s].
    """

    def __init__(self, study: Study, states: list[State] | None, folder: Any, seconds: float) -> None:
        self.study = study
        self.folder = folder
        self.seconds = seconds
        self._states = {} if states is None else {each.key: x for each, x in zip(study.summaries, states)}
        counts = study.summaries[0]
        self.status: dict[Status, int] = counts.result(self._states[counts.key], ()) if self._states else {}
        self.completed = sum(self.status.values())

    def __getitem__(self, label: str) -> Any:
        reduction = self.study.reductions[label]
        names = reduction.outputs
        shape = self.study.output_shape(names[0]) if names else ()
        if not self._states:
            raise KeyError(label)
        return reduction.result(self._states[reduction.key], shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.study.reductions)

    def __len__(self) -> int:
        return len(self.study.reductions)

    def state_bytes(self) -> bytes:
        """Return all summaries as bytes: equal for equal results."""
        parts = [np.ascontiguousarray(x).tobytes() for state in self._states.values() for x in state.values()]
        return b"".join(parts)

    def __str__(self) -> str:
        lines = [
            f"{self.study.name}: {self.completed} of {self.study.samples} samples in {self.seconds:.1f} s"
        ]
        lines += [f"  {status.name:<24} {count}" for status, count in self.status.items()]
        for label in self:
            lines.append(f"  {label:<24} {_summary(self[label])}" if self._states else f"  {label}")
        return "\n".join(lines)


def _summary(result: Any) -> str:
    """Return a result in one line."""
    if not is_dataclass(result):
        return str(result)
    parts = []
    for name in (each.name for each in fields(result)):
        array = np.asarray(getattr(result, name))
        if array.size > 12:
            parts.append(f"{name} {array.shape}")
        elif array.dtype.kind == "f":
            parts.append(f"{name} {np.array2string(array, precision=6)}")
        else:
            parts.append(f"{name} {array.tolist()}")
    return ", ".join(parts)
