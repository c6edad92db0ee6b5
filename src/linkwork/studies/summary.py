"""Pictures of a study: distributions of outputs, pairs of quantities and outputs,
films of extreme samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.studies.packages import import_optional
from linkwork.studies.reductions.ordered import ExtremesResult
from linkwork.studies.tasks import RolloutTask

if TYPE_CHECKING:
    from linkwork.studies.result import StudyResult

SHOWN_SAMPLES = 5000
SHOWN_COLUMNS = 6  # of quantities, and of outputs
BINS = 60


def write_summary(result: StudyResult, folder: Path, films: int = 1) -> list[Path]:
    """Write pictures of a study into a folder, and return their paths.

    Shown are evenly spaced samples, computed again. Of each `Extremes` of rollouts, `films` samples at either
    end are filmed.
    """
    plots = import_optional("matplotlib.figure", "pictures of a study")
    folder.mkdir(parents=True, exist_ok=True)
    quantities, outputs = shown_samples(result)
    paths = []
    if outputs:
        paths.append(folder / "distributions.png")
        _distributions(plots, outputs, result).savefig(paths[-1], dpi=120)
    if quantities and outputs:
        paths.append(folder / "pairs.png")
        _pairs(plots, quantities, outputs).savefig(paths[-1], dpi=120)
    if isinstance(result.study.task, RolloutTask):
        for label in result:
            if isinstance(result[label], ExtremesResult):
                paths += _films(result, label, folder, films)
    return paths


def shown_samples(result: StudyResult) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return scalar quantities and outputs of accepted samples, a few of each."""
    study = result.study
    chunk = study.block
    starts = (
        np.unique(np.linspace(0, (study.samples - 1) // chunk, max(1, SHOWN_SAMPLES // chunk)).astype(int))
        * chunk
    )
    parts = [study.evaluate(int(first), min(int(first) + chunk, study.samples)) for first in starts]
    accepted = [np.isin(part.status, study.accepted) for part in parts]
    found_values: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] = ({}, {})
    for columns, field in zip(found_values, ("values", "outputs")):
        for name in getattr(parts[0], field):
            rows = [getattr(part, field)[name][good] for part, good in zip(parts, accepted)]
            if any(x.shape[1:] != rows[0].shape[1:] for x in rows):
                continue
            full = np.concatenate(rows)
            flat = full.reshape(len(full), -1)
            for k in range(flat.shape[1]):
                if len(columns) < SHOWN_COLUMNS:
                    columns[name if full.ndim == 1 else f"{name}[{k}]"] = flat[:, k]
    return found_values


def _distributions(plots: Any, outputs: dict[str, np.ndarray], result: StudyResult) -> Any:
    figure = plots.Figure(figsize=(4.0 * len(outputs), 3.2), layout="constrained")
    for axis, (name, x) in zip(np.atleast_1d(figure.subplots(1, len(outputs))), outputs.items()):
        axis.hist(x[np.isfinite(x)], bins=BINS, color="#4477aa")
        axis.set_xlabel(name)
        axis.set_ylabel("samples")
    figure.suptitle(f"{result.study.name}: {result.completed} of {result.study.samples} samples")
    return figure


def _pairs(plots: Any, quantities: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Any:
    size = (2.6 * len(quantities), 2.2 * len(outputs))
    figure = plots.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(outputs), len(quantities), sharex="col", sharey="row", squeeze=False)
    for row, (output, y) in zip(axes, outputs.items()):
        for axis, (name, x) in zip(row, quantities.items()):
            axis.plot(x, y, ".", markersize=2, alpha=0.3, color="#4477aa")
            axis.set_xlabel(name if axis in axes[-1] else "")
            axis.set_ylabel(output if axis is row[0] else "")
    return figure


def _films(result: StudyResult, label: str, folder: Path, films: int) -> list[Path]:
    extremes = result[label]
    paths = []
    for end in ("smallest", "largest"):
        for index in getattr(extremes, f"{end}_samples")[:films].tolist():
            name = "".join(c if c.isalnum() else "_" for c in label).strip("_")
            path = folder / f"{name}_{end}_{index}.gif"
            result.study.sample(index).film(path)
            paths.append(path)
    return paths
