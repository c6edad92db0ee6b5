"""Motions for the viewer: logs, rollouts, mappings of arrays, and files written by `linkwork simulate`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from linkwork.errors import ModelError, ShapeError
from linkwork.mechanism.names import did_you_mean, printable
from linkwork.model import Model
from linkwork.simulation.log import Log, read_arrays

WORDS = ("t", "q", "v", "tau", "points", "forces")


def as_log(model: Model, source: Any, *, row: int = 0) -> Log:
    """Return one row of a motion as a log, up to the first state that is not finite.

    `source` is a `Log`, a `Rollout`, a mapping with "q" and optionally "t", "tau", "points" and "forces", or
    an .npz file. Without times, states are 1/60 s apart.
    """
    words = _words(source)
    if "q" not in words:
        raise ModelError(
            f"log: expected 'q'{did_you_mean('q', words)}: it has "
            f"{', '.join(map(printable, words)) or 'nothing'}"
        )
    q = _row(words["q"], 2, row)
    if q.ndim != 2 or q.shape[1] != model.nq or not len(q):
        raise ShapeError(f"log: q: expected shape (n, {model.nq}), got {np.shape(words['q'])}")
    t = np.asarray(words["t"], dtype=float) if "t" in words else np.arange(len(q)) / 60.0
    if t.shape != (len(q),) or not np.isfinite(t).all() or np.any(np.diff(t) < 0):
        raise ShapeError(f"log: t: expected finite increasing times of shape ({len(q)},), got {t.shape}")
    more: dict[str, np.ndarray] = {}
    for word, shape in (("tau", (model.nv,)), ("points", (None, 3)), ("forces", (None, 3))):
        if word in words:
            x = _row(words[word], 1 + len(shape), row)
            fits = x.ndim == 1 + len(shape) and all(n in (None, m) for n, m in zip(shape, x.shape[1:]))
            if not fits or len(x) != len(q):
                raise ShapeError(
                    f"log: {word}: expected one row for each of the {len(q)} states, got shape "
                    f"{np.shape(words[word])}"
                )
            more[word] = x
    if ("points" in more) != ("forces" in more) or (
        "points" in more and more["points"].shape != more["forces"].shape
    ):
        raise ShapeError("log: expected 'points' and 'forces' of the same shape")
    fine = np.isfinite(q).all(axis=1)
    n = len(q) if fine.all() else int(np.argmin(fine))
    if not n:
        raise ModelError("log: the first state is not finite")
    retained = {word: x[:n] for word, x in more.items()}
    return Log(
        t[:n], q[:n], tau=retained.get("tau"), points=retained.get("points"), forces=retained.get("forces")
    )


def _row(x: Any, dims: int, row: int) -> np.ndarray:
    """Return one row of a batch, or an array without a batch dimension."""
    array = np.asarray(x, dtype=float)
    if array.ndim <= dims:
        return array
    flat = array.reshape(-1, *array.shape[array.ndim - dims :])
    if not 0 <= row < len(flat):
        raise ModelError(f"log: row: expected 0 to {len(flat) - 1}, got {row}")
    return flat[row]


def _words(source: Any) -> dict[str, Any]:
    if isinstance(source, (str, os.PathLike)):
        return read_arrays(source, WORDS)
    if isinstance(source, Log):
        return {word: x for word in WORDS if (x := getattr(source, word)) is not None}
    if isinstance(source, Mapping):
        return {str(word): x for word, x in source.items() if x is not None}
    if hasattr(source, "_asdict"):
        return {word: x for word, x in source._asdict().items() if word in WORDS}
    raise ModelError(
        f"log: expected a Log, a mapping, a Rollout or an .npz file, got {type(source).__name__}"
    )
