"""Logs of simulations: arrays with named columns, and the states from which simulations can continue."""

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
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.simulation.status import Status

MAX_ARRAY_BYTES = 1 << 30  # of one array of a file
MAX_PLOT_LINES = 12


class EventRecord(NamedTuple):
    """Record of an event: its name, time [s], number of steps, row of the batch, and state of the row."""

    name: str
    t: float
    step: int
    row: int
    q: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False)
class State:
    """Everything that determines how a simulation continues after a step; arrays have batch dimensions first.

    `a` and `tau` belong to the last step. `hidden` has the arrays that steps pass on (warm starts of contact,
    charts of loops), and `memory` is that of the controller. `t` is the time [s]; None means `step` times the
    dt that follows. `origin` is the time before the first step, in steps: zero unless dt changed.
    """

    step: int
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray
    hidden: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: Any = None
    t: float | None = None
    origin: float = 0.0

    def origin_in_steps_of(self, dt: float) -> float:
        """Return `origin` in steps of `dt` [s] from here; unchanged if earlier steps had this dt."""
        if self.t is None or self.t == (self.step + self.origin) * dt:
            return self.origin
        return 0.0 if self.t == self.step * dt else self.t / dt - self.step


@dataclass(frozen=True, eq=False)
class Log:
    """Recorded motion. Unknown arrays are None or empty; rows that stopped early are NaN from there on.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Times of the recorded states [s].
    q, v : ndarray, shape (..., n, nq) and (..., n, nv)
        Recorded states.
    a, tau : ndarray, shape (..., n, nv)
        Mean acceleration, and joint forces of the controller, in the step that led to each state. Before the
        first step both are zero, but `a` with constrained loops is the least that keeps them closed.
    forces, points : ndarray, shape (..., n, k, 3)
        Forces of that step at the candidates `contacts` [N] and their points [m], in the world.
    status, steps : ndarray, shape (...)
        Why each row ended, and after how many steps.
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
    events: tuple[EventRecord, ...] = ()
    status: np.ndarray | None = None
    steps: np.ndarray | None = None
    name: str = ""
    q_names: tuple[str, ...] = ()
    v_names: tuple[str, ...] = ()
    step: np.ndarray | None = None
    hidden: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: tuple[Any, ...] = ()
    origin: float = 0.0

    def __len__(self) -> int:
        return len(self.t)

    def __str__(self) -> str:
        """Return the contents in one line, and how the rows ended."""
        rows = f"{int(np.prod(self.q.shape[:-2]))} rows of " if self.q.ndim > 2 else ""
        span = f"{self.t[0]:g} to {self.t[-1]:g} s"
        text = f"log of {self.name or 'a motion'}: {rows}{len(self)} states from {span}"
        codes, counts = np.unique(np.zeros(0) if self.status is None else self.status, return_counts=True)
        for status, count in zip((Status(int(code)) for code in codes), counts):
            text += (
                f"; {f'{count} ' if rows else ''}{status.name}{f': {status.advice}' if status.advice else ''}"
            )
        return text

    def at(self, time: float) -> int:
        """Return the index of the last state at a time [s]."""
        if np.ndim(time) or np.isnan(time):
            raise ModelError(f"Log.at: time: expected a number, got {time!r}")
        return int(np.clip(np.searchsorted(self.t, time + 1e-9, side="right") - 1, 0, len(self.t) - 1))

    def state(self, k: int = -1) -> State:
        """Return the k-th logged state, from which `simulate(..., start=)` continues with the same bits."""
        if self.step is None or self.v is None or self.a is None or self.tau is None:
            raise ModelError("this log is not from a simulation and has no state to continue from")
        if not isinstance(k, (int, np.integer)) or not -len(self) <= k < len(self):
            raise ModelError(f"state {k!r}: expected an index of the {len(self)} states of the log")
        k %= len(self)
        q, v, a, tau = (x[..., k, :].copy() for x in (self.q, self.v, self.a, self.tau))
        arrays = dict(self.hidden)
        if self.points is not None and self.forces is not None:
            arrays |= {"points": self.points, "forces": self.forces}
        hidden = {name: np.take(x, k, axis=q.ndim - 1) for name, x in arrays.items()}
        memory = copy.deepcopy(self.memory[k]) if self.memory else None
        return State(int(self.step[k]), q, v, a, tau, hidden, memory, float(self.t[k]), self.origin)

    # columns

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return all columns by name, (..., n) each.

        Names are "t", "q.knee", "v.knee", "a.knee", "tau.knee", "imu.fz", "contact.foot.z".
        """
        columns = {"t": self.t}
        names = {"q": self.q_names, "v": self.v_names, "a": self.v_names, "tau": self.v_names}
        for kind, component_names in names.items():
            x = getattr(self, kind)
            if x is not None:
                component_names = component_names or tuple(map(str, range(x.shape[-1])))
                columns |= {f"{kind}.{name}": x[..., k] for k, name in enumerate(component_names)}
        for sensor, x in self.sensors.items():
            columns |= {f"{sensor}.{name}": x[..., k] for k, name in enumerate(self.sensor_columns[sensor])}
        if self.forces is not None:
            for k in range(self.forces.shape[-2]):
                contact = self.contacts[k] if k < len(self.contacts) else str(k)
                columns |= {
                    f"contact.{contact}.{axis}": self.forces[..., k, n] for n, axis in enumerate("xyz")
                }
        return columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(self.to_dict())

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column by name, (..., n)."""
        columns = self.to_dict()
        if column not in columns:
            raise ModelError(f"the log has no column {printable(column)!r}{did_you_mean(column, columns)}")
        return columns[column]

    def _table(self) -> dict[str, np.ndarray]:
        """Return columns of equal length; the rows of a batch follow each other, with a column "row"."""
        columns = self.to_dict()
        batch = self.q.shape[:-2]
        if not batch:
            return columns
        rows = int(np.prod(batch))
        flat = {name: x.reshape(-1) for name, x in columns.items() if name != "t"}
        return {"row": np.repeat(np.arange(rows), len(self)), "t": np.tile(self.t, rows), **flat}

    # to other software

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with a line for each state.

        The rows of a batch follow each other, with a column "row".
        """
        return _import_optional("pandas", "to_pandas").DataFrame(self._table())

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write the columns to a Parquet file with pandas and pyarrow; return its path."""
        _import_optional("pyarrow", "to_parquet")
        self.to_pandas().to_parquet(path, engine="pyarrow", index=False)
        return Path(path)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the columns to a CSV file with all digits; return its path."""
        table = self._table()
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*(map(repr, x.tolist()) for x in table.values())))
        return Path(path)

    def plot(self, *names: str, axes: Any = None) -> Any:
        """Plot columns over time with matplotlib; return its axes.

        A name is that of a column, "q.knee", or of a group of columns: a joint, a sensor, "tau". Each row of
        a batch is a line.
        """
        columns = {name: x for name, x in self.to_dict().items() if name != "t"}
        selected = [column for name in names or ("q",) for column in _matching(name, columns)]
        if axes is None:
            _, axes = _import_optional("matplotlib.pyplot", "plot").subplots()
        for column in list(dict.fromkeys(selected))[:MAX_PLOT_LINES]:
            lines = axes.plot(self.t, columns[column].reshape(-1, len(self)).T)
            lines[0].set_label(column)
        axes.set_xlabel("t [s]")
        axes.legend()
        return axes

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the log to an .npz file; return its path.

        `Log.load` and `linkwork view --log` read it.
        """
        target = Path(path)
        with open(target, "wb") as file:
            np.savez_compressed(file, **_arrays(self))  # type: ignore[arg-type]
        return target

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Log:
        """Return the log that `save` wrote."""
        words = read_arrays(path)
        try:
            return _from_arrays(words)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ModelError(
                f"{printable(os.fspath(path))} is not a log of a simulation: {printable(repr(error))}"
            ) from None


def read_arrays(path: str | os.PathLike[str], words: Container[str] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, or those of some names.

    The sizes are limited and nothing in the file is executed.
    """
    if not os.path.exists(path):
        raise ModelError(f"{printable(os.fspath(path))}: file not found")
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take other files too
            raise ValueError("not an .npz file")
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
        raise ModelError(f"{printable(os.fspath(path))} is not a log: {printable(error)}") from None


def _bounded(file: Any, word: str) -> np.ndarray:
    info = file.zip.getinfo(f"{word}.npy")
    if info.file_size > MAX_ARRAY_BYTES:
        raise ValueError(f"{word} is larger than {MAX_ARRAY_BYTES} bytes")
    return np.asarray(file[word])


def _import_optional(name: str, by: str) -> Any:
    package = name.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackageError(
            f"Log.{by} needs the package {package}, which is not installed; run: pip install 'linkwork[log]'"
        ) from None


def _matching(name: str, columns: Mapping[str, Any]) -> list[str]:
    """Return the columns of a name: that column, those of one kind or sensor, or those of a joint."""
    if name in columns:
        return [name]
    matches = [column for column in columns if column.partition(".")[0] == name]
    matches = matches or [column for column in columns if column.partition(".")[2].partition("[")[0] == name]
    matches = matches or [
        column for column in columns if column.partition(".")[2].startswith((f"{name}[", f"{name}."))
    ]
    if not matches:
        known = {
            part
            for column in columns
            for part in (column, column.partition(".")[0], column.partition(".")[2])
        }
        raise ModelError(f"the log has no column {printable(name)!r}{did_you_mean(name, sorted(known))}")
    return matches


# files

TRAJECTORIES = ("q", "v", "tau", "a", "points", "forces")
PLAIN = ("t", "q", "v", "tau", "a", "points", "forces", "status", "steps", "step")


def _arrays(log: Log) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name."""
    arrays = {field: x for field in PLAIN if (x := getattr(log, field)) is not None}
    arrays["origin"] = np.array(log.origin)
    arrays |= {
        field: np.array(getattr(log, field), dtype=str)
        for field in ("name", "q_names", "v_names", "contacts")
    }
    for name, x in log.sensors.items():
        arrays[f"sensor/{name}"] = x
        arrays[f"columns/{name}"] = np.array(log.sensor_columns[name], dtype=str)
    arrays |= {f"hidden/{name}": x for name, x in log.hidden.items()}
    if log.memory:
        arrays |= _memory_arrays(log.memory)
    if log.events:
        arrays["events/name"] = np.array([event.name for event in log.events], dtype=str)
        for n, field in enumerate(EventRecord._fields[1:], start=1):
            arrays[f"events/{field}"] = np.array([event[n] for event in log.events])
    return arrays


def _memory_arrays(memory: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """Return the memory of a controller, a number, an array or a mapping of these, over the states."""
    try:
        if isinstance(memory[0], Mapping):
            if any(sorted(m) != sorted(map(str, memory[0])) for m in memory):
                raise ValueError  # names that are not text, or not the same in all states
            return {f"memory/{name}": np.stack([_number(m[name]) for m in memory]) for name in memory[0]}
        return {"memory": np.stack([_number(m) for m in memory])}
    except (TypeError, ValueError, KeyError, AttributeError):
        raise ModelError(
            "Log.save: memory of the controller: expected an array of constant shape, or a mapping of such "
            "arrays by name"
        ) from None


def _number(x: Any) -> np.ndarray:
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError
    return array


def _from_arrays(words: Mapping[str, np.ndarray]) -> Log:
    def part(head: str) -> dict[str, np.ndarray]:
        return {word.removeprefix(head): x for word, x in words.items() if word.startswith(head)}

    memories = part("memory/")
    events = part("events/")
    n = len(words["t"])
    batch = words["q"].ndim - 2
    over_time = (
        {word: words[word] for word in TRAJECTORIES if word in words} | part("sensor/") | part("hidden/")
    )
    mismatched = [
        word
        for word, x in over_time.items()
        if x.ndim <= batch or x.shape[: batch + 1] != (*words["q"].shape[:-2], n)
    ]
    if mismatched or batch < 0 or words["t"].ndim != 1:
        raise ValueError(f"the shape of {', '.join(mismatched) or 't or q'} does not match t and q")
    memory: tuple[Any, ...] = (
        tuple({name: x[k] for name, x in memories.items()} for k in range(n)) if memories else ()
    )
    if "memory" in words:
        memory = tuple(words["memory"])
    records = (
        EventRecord(str(name), float(t), int(step), int(row), q, v)
        for name, t, step, row, q, v in zip(*(events[word] for word in EventRecord._fields))
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
        events=tuple(records),
        origin=float(words["origin"].item()) if "origin" in words else 0.0,
    )
