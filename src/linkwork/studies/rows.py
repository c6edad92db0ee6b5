"""Rows of samples: values, computation, outputs and summaries, on the host or with states on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.arguments import is_on_gpu
from linkwork.errors import StudyError
from linkwork.simulation.status import Status, has_status
from linkwork.studies.accumulate import State, tree_nodes
from linkwork.studies.encoding import Nodes
from linkwork.studies.outputs import Batch, Final, evaluate_outputs
from linkwork.studies.quantities import arguments_of, check_values
from linkwork.studies.reductions.base import Blocks, Reduction

if TYPE_CHECKING:
    from linkwork.studies.study import Study

STATUS_CODES = 64


@dataclass(frozen=True, eq=False)
class Rows:
    """All samples of a chunk, in order; arrays have the rows first."""

    index: np.ndarray
    model: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    values: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


class StatusCounts(Reduction):
    """The number of samples of each status; every study has it."""

    @property
    def key(self) -> str:
        return "status"

    def summarize(self, blocks: Blocks) -> State:
        return self.counts(blocks.values["status"][blocks.real].astype(np.int64))

    def counts(self, status: np.ndarray) -> State:
        """Return the summary of samples of a status, (rows,)."""
        return {"counts": np.bincount(status, minlength=STATUS_CODES)[None]}

    def merge(self, left: State, right: State) -> State:
        return {"counts": left["counts"] + right["counts"]}

    def result(self, state: State, shape: tuple[int, ...]) -> dict[Status, int]:
        return {Status(k): int(n) for k, n in enumerate(state["counts"][0]) if n}


def compute_rows(study: Study, first: int, last: int) -> Rows:
    """Return values, status and outputs of samples `first` to `last - 1`."""
    space = study.space
    sampler = study.sampler
    rows = last - first
    drawn = sampler.draw(space, first, rows)
    index = np.arange(first, last)
    if len(study.models) == 1 and "model" not in sampler.names:
        status, steps, values, outputs = _compute_model(study, 0, index, drawn)
        return Rows(index, np.zeros(rows, dtype=np.int64), status, steps, values, outputs)
    numbers = model_numbers(study, index, drawn)
    result = Rows(index, numbers, np.zeros(rows, np.int64), np.zeros(rows, np.int64), {}, {})
    for k in np.unique(numbers).tolist():
        selected = np.flatnonzero(numbers == k)
        part = _compute_model(study, k, index[selected], {name: x[selected] for name, x in drawn.items()})
        result.status[selected] = part[0]
        result.steps[selected] = part[1]
        for target, source in ((result.values, part[2]), (result.outputs, part[3])):
            for name, x in source.items():
                if name not in target:
                    target[name] = np.full((rows, *x.shape[1:]), np.nan)
                if target[name].shape[1:] == x.shape[1:]:
                    target[name][selected] = x
                elif target is result.outputs:
                    shapes = f"{target[name].shape[1:]} and {x.shape[1:]}"
                    raise StudyError(
                        f"study: output {name!r}: expected one shape for all models, got {shapes}"
                    )
                else:
                    target[name] = _widened(target[name], selected, x)
    return result


def _widened(target: np.ndarray, selected: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return values of models of different sizes in one array, filled up with NaN."""
    shape = np.maximum(target.shape[1:], x.shape[1:])
    wide = np.full((len(target), *shape), np.nan)
    inside: Any = tuple(map(slice, target.shape[1:]))
    filled: Any = tuple(map(slice, x.shape[1:]))
    wide[(slice(None), *inside)] = target
    wide[(selected, *filled)] = x
    return wide


def model_numbers(study: Study, index: np.ndarray, drawn: dict[str, np.ndarray]) -> np.ndarray:
    """Return the model of each sample: chosen by the sampler, or cyclically."""
    count = len(study.models)
    if "model" not in study.sampler.names:
        return index % count
    copies = {name: np.array(x) for name, x in drawn.items()}  # `assign` may overwrite what was drawn
    values = study.sampler.assign(study.space, 0, copies)["model"]
    numbers = np.asarray(values, dtype=float).reshape(len(index))
    known = np.isin(numbers, np.arange(count))
    if not known.all():
        k = int(np.argmin(known))
        label = f"got {numbers[k]:g} in sample {index[k]}"
        raise StudyError(f"sampler: model: expected integers from 0 to {count - 1}, {label}")
    return numbers.astype(np.int64)


def _compute_model(
    study: Study, model_number: int, index: np.ndarray, drawn: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return status, steps, values and outputs of samples of one model."""
    with _gpu_scope(study) as scope:
        batch = compute_batch(study, model_number, index, drawn, scope=scope)
        return batch.status, batch.steps, dict(batch.values), evaluate_outputs(study.outputs, batch)


def stays_on_gpu(study: Study) -> bool:
    """Return whether all outputs are computed on the GPU, where trajectories stay."""
    task: Any = study.task
    if getattr(task, "device", None) != "cuda" or task.dtype not in (None, "float64"):
        return False
    if task.contacts is not None:  # impulses are read on the host
        return False
    return all(isinstance(each, (str, Final)) for each in study.outputs.values())


def _gpu_scope(study: Study) -> Any:
    if not stays_on_gpu(study):
        return nullcontext()
    from linkwork.compiler.runtime.cuda.device_arrays import DeviceScope

    return DeviceScope()


def compute_batch(
    study: Study,
    number: int,
    index: np.ndarray,
    drawn: dict[str, np.ndarray],
    record_every: int | None = None,
    scope: Any = None,
) -> Batch:
    """Return the samples of one model as arguments of outputs; in a `scope` of a GPU, states stay there."""
    assigned = study.sampler.assign(study.space, number, drawn)
    values = check_values(study.sampler.names, assigned, study.space.described[number], index)
    return run_batch(study, number, index, values, scope, record_every)


def run_batch(
    study: Study,
    number: int,
    index: Any,
    values: dict[str, Any],
    scope: Any = None,
    record_every: int | None = None,
) -> Batch:
    """Return samples of given values as arguments of outputs; in a `scope`, values may be on the GPU."""
    model = study.models[number]
    rows = len(index)
    arguments = arguments_of(model, values, study.starts[number], rows)
    inputs = arguments
    if scope is not None:
        states = {name: _uploaded(scope, arguments.arrays[name], rows) for name in ("q", "v")}
        inputs = arguments._replace(arrays={**arguments.arrays, **states})
    done = study.task.run(model, inputs, rows, record_every=record_every)
    q, v = (None, None) if done.motion is None else (done.motion.q, done.motion.v)
    if scope is None and done.motion is not None:
        q = np.asarray(q)
        v = np.asarray(v)
    parameters = arguments.parameters
    arrays = arguments.arrays
    status = done.status
    if model.loops and "q" in arrays:  # values are finite: NaN is what `integrate` returns for open loops
        unclosed = (status == Status.NOT_FINITE) & np.isnan(arrays["q"]).any(axis=1)
        status = np.where(unclosed, int(Status.NOT_CLOSED), status)
    return Batch(
        model,
        index,
        values,
        parameters,
        status,
        done.steps,
        q,
        v,
        done.motion,
        done.results,
        arrays,
        study.task,
    )


def _uploaded(scope: Any, x: Any, rows: int) -> Any:
    """Return a state of all rows on the GPU."""
    if is_on_gpu(x):
        return x
    return scope.upload_row(x[0], rows) if rows and x.strides[0] == 0 else scope.upload(x)


def summarize(study: Study, rows: Rows, summaries: Sequence[Reduction] | None = None) -> Nodes:
    """Return the summaries of the rows' nodes of the tree, by default all of the study."""
    summaries = study.summaries if summaries is None else summaries
    block = study.block
    first = int(rows.index[0]) // block
    count = -(-len(rows.index) // block)
    accepted = has_status(rows.status, study.accepted)
    read = {"status": rows.status.astype(float)}
    read |= {name: rows.outputs[name] for each in summaries for name in each.outputs}
    nodes: Nodes = []
    for level, number in tree_nodes(first, first + count):
        begin = (number << level) * block - int(rows.index[0])
        blocks = 1 << level
        part = slice(begin, min(begin + blocks * block, len(rows.index)))
        values = {name: _in_blocks(x[part], blocks, block) for name, x in read.items()}
        real = _in_blocks(np.ones(part.stop - part.start, dtype=bool), blocks, block)
        result = Blocks(
            _in_blocks(rows.index[part], blocks, block),
            real,
            _in_blocks(accepted[part], blocks, block),
            values,
        )
        with np.errstate(all="ignore"):
            nodes.append((level, number, [each.summarize(result) for each in summaries]))
    return nodes


def _in_blocks(x: np.ndarray, blocks: int, block: int) -> np.ndarray:
    """Return rows as (blocks, block, ...), the last block filled up with zeros."""
    missing = blocks * block - len(x)
    if missing:
        x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
    return x.reshape(blocks, block, *x.shape[1:])
