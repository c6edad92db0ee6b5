"""Recorded motions: samples of positions, velocities and forces over time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linkwork.errors import LinkworkError, ShapeError
from linkwork.model import Model


@dataclass(frozen=True, eq=False)
class Recording:
    """One recorded motion of a model.

    Parameters
    ----------
    q : array_like, shape (samples, nq)
        Measured configurations. Of joints that are not measured (``sigma_q=inf``), any value that leads to
        the right assembly mode.
    v : array_like, shape (samples, nv), optional
        Measured independent velocities [rad/s, m/s].
    tau : array_like, shape (samples, nv) or (samples - 1, nv), optional
        Joint forces that act [N m, N]. Default zero.
    f_ext : array_like, shape (samples, bodies, 6) or (samples - 1, bodies, 6), optional
        External forces that act on bodies, as in `forward_dynamics`, constant over each interval.
    dt : float, optional
        Time between samples [s].
    t : array_like, shape (samples,), optional
        Times of samples [s], instead of `dt`.
    hold : {"zero", "linear"}, optional
        Whether `tau` is constant over each interval, or linear between samples.
    sigma_q, sigma_v : float or array_like, optional
        Standard deviations of the noise, one or one per velocity of the spanning tree and per independent
        velocity. ``inf`` for channels that are not measured. By default estimated.
    """

    q: Any
    v: Any = None
    tau: Any = None
    f_ext: Any = None
    dt: float | None = None
    t: Any = field(default=None, kw_only=True)
    hold: str = field(default="zero", kw_only=True)
    sigma_q: Any = field(default=None, kw_only=True)
    sigma_v: Any = field(default=None, kw_only=True)
    _before: Any = field(
        default=None, kw_only=True, repr=False
    )  # of a part: times from its start, and forces

    def split(self, samples: int) -> list[Recording]:
        """Return consecutive parts of at most `samples` samples,
        each with an initial state of its own in a fit.
        """
        q = np.asarray(self.q)
        if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 2:
            raise LinkworkError(f"Recording.split: expected at least 2 samples, got {samples!r}")
        parts = [slice(k, min(k + samples, len(q))) for k in range(0, len(q), samples)]
        return [self._part(part) for part in parts if part.stop - part.start > 1]

    def _part(self, part: slice) -> Recording:
        arrays = {name: getattr(self, name) for name in ("q", "v", "tau", "f_ext", "t")}
        part_arrays: dict[str, Any] = {
            name: np.asarray(x)[part] for name, x in arrays.items() if x is not None
        }
        if part.start > 0 and self.tau is not None:  # forces that act late began before
            t = (
                np.arange(part.start + 1) * self.dt
                if self.t is None
                else np.asarray(self.t)[: part.start + 1]
            )
            part_arrays["_before"] = _earlier(self._before, t - t[0], np.asarray(self.tau)[: part.start])
        return replace(self, **part_arrays)


@dataclass(frozen=True, eq=False)
class Signals:
    """The arrays of a recording, checked: times (samples,), forces of intervals,
    and standard deviations or None.
    """

    name: str
    q: np.ndarray
    v: np.ndarray | None
    tau: np.ndarray
    f_ext: np.ndarray | None
    t: np.ndarray
    hold: str
    sigma_q: np.ndarray | None
    sigma_v: np.ndarray | None
    before: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def intervals(self) -> int:
        """Number of intervals between samples."""
        return len(self.q) - 1

    def parts(self, starts: np.ndarray) -> list[Signals]:
        """Return parts from each start to the next, with the samples at both ends."""
        ends = np.append(starts[1:], self.intervals)
        cut = ("q", "v", "tau", "f_ext", "t")
        parts = []
        for a, b in zip(starts, ends):
            arrays = {name: x[a : b + 1] for name in cut if (x := getattr(self, name)) is not None}
            before = _earlier(self.before, self.t[: a + 1] - self.t[0], self.tau[:a])
            parts.append(replace(self, **arrays, before=before))
        return parts


def _earlier(
    before: tuple[np.ndarray, np.ndarray] | None, t: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return times and forces before the last of the times t, from which times are counted."""
    if before is not None:
        t = np.concatenate([before[0], t])
        tau = np.concatenate([before[1], tau])
    return (t[:-1] - t[-1], tau) if len(tau) else None


def checked(model: Model, recording: Recording, name: str) -> Signals:
    """Return the arrays of a recording; raise if one has the wrong shape or is not finite."""
    q = _array(name, "q", recording.q, (None, model.nq))
    n = len(q)
    if n < 2:
        raise ShapeError(f"{name}: q: expected at least 2 samples, got {n}")
    v = None if recording.v is None else _array(name, "v", recording.v, (n, model.nv))
    tau = np.zeros((n, model.nv))
    f_ext = None
    if recording.tau is not None:
        tau = _inputs(name, "tau", recording.tau, n, (model.nv,), recording.hold)
    if recording.f_ext is not None:
        f_ext = _inputs(name, "f_ext", recording.f_ext, n, (len(model.bodies), 6), "zero")
    if recording.hold not in ("zero", "linear"):
        raise LinkworkError(f"{name}: hold: expected 'zero' or 'linear', got {recording.hold!r}")
    sigma_q = _deviations(name, "sigma_q", recording.sigma_q, model.nv_spanning)
    sigma_v = _deviations(name, "sigma_v", recording.sigma_v, model.nv)
    if sigma_v is not None and v is None:
        raise LinkworkError(f"{name}: sigma_v is given without v")
    t = _times(name, recording, n)
    return Signals(name, q, v, tau, f_ext, t, recording.hold, sigma_q, sigma_v, recording._before)


def _array(name: str, label: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(
            f"{name}: {label}: expected an array of numbers, got {type(value).__name__}"
        ) from None
    fits = array.ndim == len(shape) and all(m is None or m == k for m, k in zip(shape, array.shape))
    if not fits:
        expected = ", ".join("samples" if m is None else str(m) for m in shape)
        raise ShapeError(f"{name}: {label}: expected shape ({expected}), got {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise LinkworkError(f"{name}: {label}: expected finite numbers, got {array[where]} at {list(where)}")
    return array


def _inputs(name: str, label: str, value: Any, n: int, shape: tuple[int, ...], hold: str) -> np.ndarray:
    """Return forces at all samples; one row fewer than samples is allowed where forces are constant over
    intervals.
    """
    short = np.ndim(value) and len(value) == n - 1 and hold == "zero"
    array = _array(name, label, value, (n - 1 if short else n, *shape))
    return np.concatenate([array, array[-1:]]) if short else array


def _deviations(name: str, label: str, value: Any, size: int) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.broadcast_to(np.asarray(value, dtype=float), (size,))
    except (TypeError, ValueError):
        raise ShapeError(f"{name}: {label}: expected a number or shape ({size},), got {value!r}") from None
    if not (array > 0.0).all():
        raise LinkworkError(f"{name}: {label}: expected positive numbers, got {value!r}")
    return array


def _times(name: str, recording: Recording, n: int) -> np.ndarray:
    if (recording.dt is None) == (recording.t is None):
        raise LinkworkError(f"{name}: expected either dt or t")
    if recording.t is not None:
        t = _array(name, "t", recording.t, (n,))
        if not (np.diff(t) > 0.0).all():
            raise LinkworkError(f"{name}: t: expected increasing times")
        return t
    dt = recording.dt
    if isinstance(dt, bool) or not isinstance(dt, int | float | np.number) or not 0.0 < dt < np.inf:
        raise LinkworkError(f"{name}: dt: expected a positive number of seconds, got {dt!r}")
    return np.arange(n) * float(dt)


def step_forces(signals: Signals, substeps: int, delay: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean joint force of each step, (steps, nv), and its derivative by the delay of each joint.

    The force of a step is the mean of the recorded force over it, `delay` [s] earlier, so that it is a
    continuous function of the delay. Before the first sample, also of a recording that this one is a part of,
    forces are those of the first.
    """
    t = signals.t
    tau = signals.tau
    part = np.arange(substeps + 1) / substeps
    edges = np.append((t[:-1, None] + np.diff(t)[:, None] * part[:-1]).ravel(), t[-1])
    if not delay.any() and signals.hold == "zero":
        mean = np.repeat(tau[:-1], substeps, axis=0)
        first = mean[:1] if signals.before is None else signals.before[1][-1:]
        before = np.concatenate([first, mean[:-1]])
        return mean, (before - mean) / np.diff(edges)[:, None]
    if signals.before is not None:
        t = np.concatenate([signals.t[0] + signals.before[0], t])
        tau = np.concatenate([signals.before[1], tau])
    mean = np.empty((len(edges) - 1, tau.shape[1]))
    slope = np.empty((len(edges) - 1, tau.shape[1]))
    for j in range(tau.shape[1]):
        at = edges - delay[j]
        area, value = _integral(t, tau[:, j], at, signals.hold)
        h = np.diff(edges)
        mean[:, j] = np.diff(area) / h
        slope[:, j] = -np.diff(value) / h
    return mean, slope


def _integral(t: np.ndarray, x: np.ndarray, at: np.ndarray, hold: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the integral of a sampled signal from the first sample to each time,
    and the signal's value just before.
    """
    h = np.diff(t)
    middle = 0.5 * (x[1:] + x[:-1]) if hold == "linear" else x[:-1]
    total = np.concatenate([[0.0], np.cumsum(h * middle)])
    k = np.clip(np.searchsorted(t, at, side="left") - 1, 0, len(h) - 1)
    s = at - t[k]
    rate = (x[k + 1] - x[k]) / h[k] if hold == "linear" else np.zeros(len(at))
    early = s < 0.0
    value = np.where(early, x[0], x[k] + rate * s)
    area = np.where(early, x[0] * s, total[k] + x[k] * s + 0.5 * rate * s * s)
    return area, value
