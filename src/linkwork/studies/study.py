"""Studies: one task for many samples of a model or a family of models. Reductions do not depend on the
executor, the number of workers or the chunk size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.errors import StudyError
from linkwork.functions.engine.model_function import ModelFunction
from linkwork.lazy import cached_property
from linkwork.model import Model
from linkwork.simulation.status import Status
from linkwork.studies import fingerprint
from linkwork.studies.accumulate import block_size
from linkwork.studies.outputs import check_outputs
from linkwork.studies.quantities import Quantity, describe_quantity
from linkwork.studies.reductions.base import Reduction
from linkwork.studies.result import StudyResult
from linkwork.studies.rows import Rows, StatusCounts, compute_rows
from linkwork.studies.sample import Sample
from linkwork.studies.samplers import Sampler, Space
from linkwork.studies.tasks import FunctionTask, Task
from linkwork.version import __version__

ROWS = ("all", "outputs", "failed", "none")
DEFAULT_CHUNK = 16_384  # samples: states of one chunk stay in a core's cache
DEVICE_CHUNK = 262_144  # samples on a GPU: smaller chunks leave it waiting for the host
MAX_RECORDED = 64 << 20  # bytes of recorded states of one chunk, by default
PROBED = 3  # samples that are computed beforehand, to know outputs and to check them


class Study:
    """A task for many samples: a parameter study, a Monte Carlo experiment, an evaluation of a policy.

    Results are identical bits for any chunk size, any number of threads or processes, and a Ray cluster.

    Parameters
    ----------
    model : Model or sequence of Model
        The model, or a family of models; each is compiled once. Without a quantity "model", sample i has
        model i modulo their number.
    sampler : Sampler
        What varies: `Random`, `Grid`, `LatinHypercube`, `Sobol`, `Saltelli` or `FromFunction`.
    task : RolloutTask, FunctionTask or ModelFunction
        What is computed for every sample.
    samples : int, optional
        The number of samples; a grid has its own.
    seed : int
        Numbers of sample i follow from the seed and i alone.
    outputs : dict of str to callable or str, optional
        Numbers of every sample: functions of a `Batch` that treat each row by itself, `Final(function)`, or
        the names "q", "v" (last state, also where the initial one varies), "steps", "trajectory_q",
        "trajectory_v", "out" (of a `FunctionTask`), or of a quantity.
    reductions : sequence or dict of Reduction, optional
        What becomes of outputs: `Mean`, `Variance`, `Quantiles`, `Histogram`, `Extremes`, `SuccessRate`,
        `SobolIndices`.
    chunk : int, optional
        Samples that are computed together, rounded up to whole blocks. Results do not depend on it.
    rows : str
        What folders keep of each sample: "all" values and outputs, "outputs", only samples that "failed", or
        "none".
    accept : sequence of Status
        Samples with another status are excluded from reductions.
    name : str
        What it is called in progress lines and in Ray's dashboard.

    Raises
    ------
    StudyError
        If a quantity, an output or a reduction is unknown, or shapes do not fit.

    Examples
    --------
    >>> arm = lw.robots.arm()
    >>> study = lw.Study(
    ...     arm,
    ...     lw.studies.Random({"mass@hand": lw.studies.Uniform(0.5, 3.0), "dq": lw.studies.Normal(0.0, 0.1)}),
    ...     lw.studies.RolloutTask(dt=1e-3, steps=100),
    ...     samples=2000,
    ...     outputs={"energy": lw.studies.Final(lw.kinetic_energy)},
    ...     reductions=[lw.studies.Mean("energy")],
    ... )
    >>> result = study.run(progress=False)
    >>> result["mean(energy)"].count
    2000
    """

    def __init__(
        self,
        model: Model | Sequence[Model],
        sampler: Sampler,
        task: Task | ModelFunction,
        *,
        samples: int | None = None,
        seed: int = 0,
        outputs: Mapping[str, Callable[..., Any] | str] | None = None,
        reductions: Mapping[str, Reduction] | Iterable[Reduction] = (),
        chunk: int | None = None,
        rows: str = "all",
        accept: Sequence[int] = (Status.OK,),
        name: str = "study",
    ) -> None:
        self.models = _checked_models(model)
        self.sampler = sampler
        self.task = _checked_task(task)
        self.name = name
        if not isinstance(sampler, Sampler):
            raise StudyError(f"study: sampler: expected a sampler of lw.studies, got {sampler!r}")
        self.seed = _checked_integer("seed", seed, 0)
        requested = None if samples is None else _checked_integer("samples", samples, 1)
        self.samples = sampler.count(requested)
        self.outputs = check_outputs(outputs)
        self.reductions = _labelled(reductions)
        self.block = block_size(sampler.group)
        self.accepted = tuple(_checked_status(each) for each in accept)
        if rows not in ROWS:
            raise StudyError(f"study: rows: expected one of {', '.join(ROWS)}, got {rows!r}")
        self.rows = rows
        self.starts = tuple(self.task.start(each) for each in self.models)
        self.space = Space(self.seed, self.samples, tuple(self._described(each) for each in self.models))
        sampler.prepare(self.space)
        size = self._default_chunk() if chunk is None else _checked_integer("chunk", chunk, 1)
        self.chunk = -(-min(size, self.samples) // self.block) * self.block
        for label, reduction in self.reductions.items():
            if not isinstance(reduction, Reduction):
                raise StudyError(
                    f"study: reduction {label!r}: expected a reduction of lw.studies, got {reduction!r}"
                )

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.models)
        return f"<linkwork study {self.name!r}: {self.samples} samples of {names}>"

    def _described(self, model: Model) -> dict[str, Quantity]:
        return {
            name: describe_quantity(model, name, self.task, self.sampler.shape(name))
            for name in self.sampler.names
        }

    def _default_chunk(self) -> int:
        every = getattr(self.task, "record_every", None)
        states = 2 if every is None else self.task.steps // every + 1  # type: ignore[attr-defined]
        size = 8 * states * max(each.nq + each.nv for each in self.models)
        usual = DEVICE_CHUNK if getattr(self.task, "device", None) == "cuda" else DEFAULT_CHUNK
        return max(1, min(usual, MAX_RECORDED // max(size, 1)))

    # properties that are determined before a run

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of outputs, from a few samples; StudyError where an output depends on other rows."""
        count = min(PROBED * len(self.models), self.samples)
        together = compute_rows(self, 0, count)
        alone = compute_rows(self, count - 1, count)
        for name, x in together.outputs.items():
            if not np.array_equal(x[-1:], alone.outputs[name], equal_nan=True):
                raise StudyError(
                    f"study: output {name!r} of a sample differs between a batch of {count} and a batch of "
                    "one: expected a function that treats each row by itself"
                )
        return {name: x.shape[1:] for name, x in together.outputs.items()}

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of all outputs."""
        return tuple(self._shapes)

    def output_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one sample's output."""
        return self._shapes[name]

    @cached_property
    def summaries(self) -> tuple[Reduction, ...]:
        """Summaries of the samples: the number of samples by status, and each reduction that shares no
        other's summary.
        """
        _ = self._shapes
        for reduction in self.reductions.values():
            reduction.check(self)
        result = {each.key: each for each in (StatusCounts(), *self.reductions.values())}
        return tuple(result.values())

    @cached_property
    def parts(self) -> dict[str, str]:
        """Digests of all parts that determine its results and its files, by name."""
        values: dict[str, Any] = {
            "model": list(self.models),
            "sampler": self.sampler,
            "task": self.task,
            "outputs": self.outputs,
            "reductions": self.reductions,
            "accept": list(self.accepted),
            "seed": self.seed,
            "samples": self.samples,
            "chunk": self.chunk,
            "rows": self.rows,
            "version": __version__,
        }
        return {name: fingerprint.digest(value) for name, value in values.items()}

    @cached_property
    def digest(self) -> str:
        """A hash of all parts that determine its results and its files."""
        return fingerprint.digest(self.parts)

    def chunks(self) -> list[tuple[int, int]]:
        """Return the first sample of each chunk, and the one after its last."""
        return [
            (first, min(first + self.chunk, self.samples)) for first in range(0, self.samples, self.chunk)
        ]

    # running and resuming

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        executor: str = "threads",
        workers: int | None = None,
        address: str | None = None,
        retries: int = 3,
        progress: bool | None = None,
    ) -> StudyResult:
        """Compute all samples, and return the results of all reductions.

        Parameters
        ----------
        folder : path, optional
            A folder that does not exist or is empty: rows and summaries are kept there, and `resume`
            continues after any interruption. Needs pyarrow.
        executor : str
            "threads" of this process, "processes" on this machine, or a "ray" cluster.
        workers : int, optional
            Threads, processes, or Ray tasks at a time. Default: the processor's cores (Ray: those of the
            cluster), or 4 threads for a GPU.
        address : str, optional
            The address of a Ray cluster. Default: the one that is connected, else a local one.
        retries : int
            How often a chunk is computed again whose worker died.
        progress : bool, optional
            Whether progress is printed. Default: if standard error is a terminal or in a notebook.

        Returns
        -------
        StudyResult
            Results by the names of the reductions, and the number of samples by status.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C; the folder can be resumed.
        """
        from linkwork.studies.driver import run_study
        from linkwork.studies.storage import StudyFolder

        place = None if folder is None else StudyFolder.create(Path(folder), self)
        how: dict[str, Any] = {
            "executor": executor,
            "workers": workers,
            "address": address,
            "retries": retries,
        }
        return run_study(self, place, progress=progress, **how)

    @classmethod
    def resume(
        cls, folder: str | os.PathLike[str], study: Study | None = None, **options: Any
    ) -> StudyResult:
        """Continue a study whose run was interrupted, and return its results.

        Chunks in the folder are verified by their checksums and not computed again; damaged ones are.

        Parameters
        ----------
        folder : path
            The folder that `run` was given.
        study : Study, optional
            The same study. Default: the one that was stored in the folder, by pickle: name only folders that
            you trust.
        **options
            As for `run`: executor, workers, address, retries, progress.

        Raises
        ------
        StudyError
            If the folder belongs to another study, model or version of linkwork, or another process works on
            it.
        """
        from linkwork.studies.driver import run_study
        from linkwork.studies.storage import StudyFolder

        place = StudyFolder.open(Path(folder), study)
        return run_study(place.study, place, **options)

    @classmethod
    def results(cls, folder: str | os.PathLike[str], study: Study | None = None) -> StudyResult:
        """Return the results of what a folder holds so far; nothing is computed or written.

        Parameters
        ----------
        folder : path
            The folder that `run` was given.
        study : Study, optional
            As for `resume`.
        """
        from linkwork.studies.driver import collect_results
        from linkwork.studies.storage import StudyFolder

        return collect_results(StudyFolder.open(Path(folder), study))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Study:
        """Return the study that is stored in a folder, by pickle: name only folders that you trust."""
        from linkwork.studies.storage import load_study

        return load_study(Path(folder))

    def sample(self, index: int) -> Sample:
        """Return the model, the state and the inputs of a sample, with the same bits as in the study.

        Parameters
        ----------
        index : int
            The sample's number, as in the column "index" of a folder.
        """
        index = _checked_integer("sample", index, 0)
        if index >= self.samples:
            raise StudyError(f"study: sample: expected an integer below {self.samples}, got {index}")
        return Sample.of(self, index)

    def evaluate(self, first: int, last: int) -> Rows:
        """Return values, status and outputs of samples `first` to `last - 1`, as arrays."""
        first = _checked_integer("evaluate: first", first, 0)
        last = _checked_integer("evaluate: last", last, first + 1)
        if last > self.samples:
            raise StudyError(f"study: evaluate: expected at most {self.samples} samples, got last={last}")
        return compute_rows(self, first, last)


def _checked_models(model: Any) -> tuple[Model, ...]:
    models = (
        (model,) if isinstance(model, Model) else tuple(model) if isinstance(model, (list, tuple)) else ()
    )
    if not models or not all(isinstance(each, Model) for each in models):
        raise StudyError(f"study: model: expected a model or a list of models, got {type(model).__name__}")
    return models


def _checked_task(task: Any) -> Task:
    result = FunctionTask(task) if isinstance(task, ModelFunction) else task
    if not isinstance(result, Task):
        raise StudyError(
            f"study: task: expected RolloutTask, FunctionTask or a function of a model, got {task!r}"
        )
    return result


def _checked_status(value: Any) -> Status:
    try:
        return Status(value)
    except ValueError:
        raise StudyError(f"study: accept: expected values of lw.Status, got {value!r}") from None


def _checked_integer(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise StudyError(f"study: {name}: expected an integer >= {least}, got {value!r}")
    return int(value)


def _labelled(reductions: Any) -> dict[str, Reduction]:
    if isinstance(reductions, Mapping):
        return dict(reductions)
    if isinstance(reductions, Reduction):
        reductions = [reductions]
    result: dict[str, Reduction] = {}
    for each in reductions:
        label = each.label if isinstance(each, Reduction) else repr(each)
        if label in result:
            raise StudyError(
                f"study: two reductions are called {label!r}; give reductions as a dict with names"
            )
        result[label] = each
    return result
