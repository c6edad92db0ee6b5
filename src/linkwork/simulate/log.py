"""Logs: what became of a simulation, as arrays with named columns, and the states from which it can go on."""

from __future__ import annotations

import copy
import csv
import importlib
import os
import zipfile
import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkwork.errors import MissingPackageError, ModelError
from linkwork.parts.names import did_you_mean, shown
from linkwork.simulate.status import Status

LARGEST = 1 << 30  # bytes of one array of a file
PLOTTED = 12  # lines in one plot


class Occurrence(NamedTuple):
    """An event that came true: its name, when [s], after how many steps, in which row of a batch, and the state there."""

    name: str
    t: float
    step: int
    row: int
    q: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False)
class State:
    """All that decides how a simulation goes on after so many steps; arrays have the batch's dimensions first.

    `a` and `tau` are those of the last step, `hidden` is what steps hand on (warm starts of contact, charts of loops), and
    `memory` is the controller's own.
    """

    step: int
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    hidden: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: Any = None


@dataclass(frozen=True, eq=False)
class Log:
    """t [s], (n,), and q, (..., n, nq); what else is known is None or empty where it is not.

    Row k is the state at t[k]; v are its velocities, `a` the mean acceleration of the last step before it, and tau the
    controller's joint forces in that step, (..., n, nv) each; both are zero before the first step. Contact forces [N] of that
    step, (..., n, k, 3), act at `points` [m], both in the world, at the candidates that `contacts` names. `sensors` has what
    each sensor said, (..., n, columns). Rows of a batch that stopped are NaN from then on; `status`, (...), says how they
    ended, and `steps` when.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray | None = None
    tau: np.ndarray | None = None
    a: np.ndarray | None = None
    points: np.ndarray | None = None
    forces: np.ndarray | None = None
    contacts: tuple[str, ...] = ()
    sensors: Mapping[str, np.ndarray] = field(default_factory=dict)
    sensor_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: tuple[Occurrence, ...] = ()
    status: np.ndarray | None = None
    steps: np.ndarray | None = None
    name: str = ""
    q_names: tuple[str, ...] = ()
    v_names: tuple[str, ...] = ()
    step: np.ndarray | None = None
    hidden: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.t)

    def __str__(self) -> str:
        """What is in it, and how it ended."""
        rows = f"{int(np.prod(self.q.shape[:-2]))} rows of " if self.q.ndim > 2 else ""
        told = f"log of {self.name or 'a motion'}: {rows}{len(self)} states from {self.t[0]:g} to {self.t[-1]:g} s"
        codes, counts = np.unique(np.zeros(0) if self.status is None else self.status, return_counts=True)
        for status, count in zip((Status(int(code)) for code in codes), counts):
            told += f"; {f'{count} ' if rows else ''}{status.name}{f': {status.advice}' if status.advice else ''}"
        return told

    def at(self, time: float) -> int:
        """The number of the state that is shown at a time [s]."""
        return int(np.clip(np.searchsorted(self.t, time + 1e-9, side="right") - 1, 0, len(self.t) - 1))

    def state(self, k: int = -1) -> State:
        """The k-th logged state, from which `simulate(..., start=)` goes on with the same bits."""
        if self.step is None or self.v is None or self.a is None or self.tau is None:
            raise ModelError("a log that no simulation made has no state to go on from")
        if not -len(self) <= k < len(self):
            raise ModelError(f"the log has {len(self)} states, and no state {k}")
        k %= len(self)
        q, v, a, tau = (x[..., k, :].copy() for x in (self.q, self.v, self.a, self.tau))
        batch = q.ndim - 1
        kept = dict(self.hidden)
        if self.points is not None and self.forces is not None:
            kept |= {"points": self.points, "forces": self.forces}
        hidden = {name: np.take(x, k, axis=batch) for name, x in kept.items()}
        return State(int(self.step[k]), q, v, a, tau, hidden, copy.deepcopy(self.memory[k]) if self.memory else None)

    # columns

    def to_dict(self) -> dict[str, np.ndarray]:
        """Every column by its name, (..., n): "t", "q.knee", "v.knee", "a.knee", "tau.knee", "imu.fz", "contact.foot.z"."""
        found = {"t": self.t}
        names = {"q": self.q_names, "v": self.v_names, "a": self.v_names, "tau": self.v_names}
        for word, own in names.items():
            x = getattr(self, word)
            if x is not None:
                own = own or tuple(map(str, range(x.shape[-1])))
                found |= {f"{word}.{name}": x[..., k] for k, name in enumerate(own)}
        for sensor, x in self.sensors.items():
            found |= {f"{sensor}.{name}": x[..., k] for k, name in enumerate(self.sensor_columns[sensor])}
        if self.forces is not None:
            for k in range(self.forces.shape[-2]):
                who = self.contacts[k] if k < len(self.contacts) else str(k)
                found |= {f"contact.{who}.{axis}": self.forces[..., k, n] for n, axis in enumerate("xyz")}
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self.to_dict())

    def __getitem__(self, column: str) -> np.ndarray:
        """A column by its name, (..., n)."""
        found = self.to_dict()
        if column not in found:
            raise ModelError(f"the log has no column {shown(column)!r}{did_you_mean(column, found)}")
        return found[column]

    def _table(self) -> dict[str, np.ndarray]:
        """Columns of one length each: of a batch one row after the other, with a column "row"."""
        found, batch = self.to_dict(), self.q.shape[:-2]
        if not batch:
            return found
        rows = int(np.prod(batch))
        flat = {name: x.reshape(-1) for name, x in found.items() if name != "t"}
        return {"row": np.repeat(np.arange(rows), len(self)), "t": np.tile(self.t, rows), **flat}

    # to other software

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a line for each state; of a batch one row after the other, with a column "row"."""
        return _needed("pandas", "to_pandas").DataFrame(self._table())

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write the columns into a Parquet file, by pandas and pyarrow; return its path."""
        _needed("pyarrow", "to_parquet")
        self.to_pandas().to_parquet(path, engine="pyarrow", index=False)
        return Path(path)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the columns into a CSV file, with all digits; return its path."""
        table = self._table()
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*(map(repr, x.tolist()) for x in table.values())))
        return Path(path)

    def plot(self, *names: str, axes: Any = None) -> Any:
        """Plot columns over time by matplotlib; return its axes.

        A name is that of a column, "q.knee", or of what several columns have: a joint, a sensor, "tau". Of a batch each row is
        a line.
        """
        columns = {name: x for name, x in self.to_dict().items() if name != "t"}
        chosen = [column for name in names or ("q",) for column in _matching(name, columns)]
        if axes is None:
            _, axes = _needed("matplotlib.pyplot", "plot").subplots()
        for column in list(dict.fromkeys(chosen))[:PLOTTED]:
            lines = axes.plot(self.t, columns[column].reshape(-1, len(self)).T)
            lines[0].set_label(column)
        axes.set_xlabel("t [s]")
        axes.legend()
        return axes

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything into an .npz file, which `Log.load` and `linkwork view --log` read; return its path."""
        where = Path(path)
        with open(where, "wb") as file:
            np.savez_compressed(file, **_arrays(self))  # type: ignore[arg-type]
        return where

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Log:
        """The log that `save` wrote."""
        words = read_arrays(path)
        try:
            return _from_arrays(words)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ModelError(f"{shown(os.fspath(path))} is no log of a simulation: {shown(repr(error))}") from None


def read_arrays(path: str | os.PathLike[str], words: Container[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or those of some names; none may be too large, and nothing in it is run."""
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take other files too
            raise ValueError("it is no .npz file" if os.path.exists(path) else "there is no such file")
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {word: _bounded(file, word) for word in file.files if words is None or word in words}
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        AttributeError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ModelError(f"{shown(os.fspath(path))} is no log: {shown(error)}") from None


def _bounded(file: Any, word: str) -> np.ndarray:
    info = file.zip.getinfo(f"{word}.npy")
    if info.file_size > LARGEST:
        raise ValueError(f"{word} is larger than {LARGEST} bytes")
    return np.asarray(file[word])


def _needed(name: str, by: str) -> Any:
    package = name.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackageError(
            f"Log.{by} needs the package {package}, which is not installed: pip install 'linkwork[log]'"
        ) from None


def _matching(name: str, columns: Mapping[str, Any]) -> list[str]:
    """The columns of a name: that column itself, those of one kind or sensor, or those of a joint."""
    if name in columns:
        return [name]
    found = [column for column in columns if column.partition(".")[0] == name]
    found = found or [column for column in columns if column.partition(".")[2].partition("[")[0] == name]
    found = found or [column for column in columns if column.partition(".")[2].startswith((f"{name}[", f"{name}."))]
    if not found:
        known = {part for column in columns for part in (column, column.partition(".")[0], column.partition(".")[2])}
        raise ModelError(f"the log has no column {shown(name)!r}{did_you_mean(name, sorted(known))}")
    return found


# files

TRAJECTORIES = ("q", "v", "tau", "a", "points", "forces")
PLAIN = ("t", "q", "v", "tau", "a", "points", "forces", "status", "steps", "step")


def _arrays(log: Log) -> dict[str, np.ndarray]:
    """The arrays of a file, by name."""
    found = {word: x for word in PLAIN if (x := getattr(log, word)) is not None}
    found |= {word: np.array(getattr(log, word), dtype=str) for word in ("name", "q_names", "v_names", "contacts")}
    for name, x in log.sensors.items():
        found[f"sensor/{name}"], found[f"columns/{name}"] = x, np.array(log.sensor_columns[name], dtype=str)
    found |= {f"hidden/{name}": x for name, x in log.hidden.items()}
    if log.memory:
        found |= _memory_arrays(log.memory)
    if log.events:
        found["events/name"] = np.array([event.name for event in log.events], dtype=str)
        for n, word in enumerate(Occurrence._fields[1:], start=1):
            found[f"events/{word}"] = np.array([event[n] for event in log.events])
    return found


def _memory_arrays(memory: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """What a controller remembers, as arrays over the states: of numbers, of an array, or of a mapping of these."""
    try:
        if isinstance(memory[0], Mapping):
            return {f"memory/{name}": np.stack([_number(m[name]) for m in memory]) for name in memory[0]}
        return {"memory": np.stack([_number(m) for m in memory])}
    except (TypeError, ValueError, KeyError, AttributeError):
        raise ModelError(
            "a controller's memory can be saved where it is an array, always of one shape, or a mapping of such by name"
        ) from None


def _number(x: Any) -> np.ndarray:
    found = np.asarray(x)
    if found.dtype.kind not in "fiub":
        raise TypeError
    return found


def _from_arrays(words: Mapping[str, np.ndarray]) -> Log:
    def part(head: str) -> dict[str, np.ndarray]:
        return {word.removeprefix(head): x for word, x in words.items() if word.startswith(head)}

    kept, events, n = part("memory/"), part("events/"), len(words["t"])
    batch = words["q"].ndim - 2
    over_time = {word: words[word] for word in TRAJECTORIES if word in words} | part("sensor/") | part("hidden/")
    wrong = [word for word, x in over_time.items() if x.ndim <= batch or x.shape[: batch + 1] != (*words["q"].shape[:-2], n)]
    if wrong or batch < 0 or words["t"].ndim != 1:
        raise ValueError(f"the shape of {', '.join(wrong) or 't or q'} does not go with t and q")
    memory: tuple[Any, ...] = tuple({name: x[k] for name, x in kept.items()} for k in range(n)) if kept else ()
    if "memory" in words:
        memory = tuple(words["memory"])
    happened = (
        Occurrence(str(name), float(t), int(step), int(row), q, v)
        for name, t, step, row, q, v in zip(*(events[word] for word in Occurrence._fields))
    ) if events else ()  # fmt: skip
    return Log(
        **{word: words[word] for word in PLAIN if word in words},
        name=str(words["name"]),
        q_names=tuple(map(str, words["q_names"])),
        v_names=tuple(map(str, words["v_names"])),
        contacts=tuple(map(str, words["contacts"])),
        sensors=part("sensor/"),
        sensor_columns={name: tuple(map(str, x)) for name, x in part("columns/").items()},
        hidden=part("hidden/"),
        memory=memory,
        events=tuple(happened),
    )
