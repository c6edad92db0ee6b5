"""A chunk of a study whose outputs stay on the GPU, as far as its sampler and its reductions are computed
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linkwork.compiler.runtime.cuda.device_arrays import DeviceArray, DeviceScope
from linkwork.simulation.status import has_status
from linkwork.studies.accumulate import BLOCK, State, tree_nodes
from linkwork.studies.cuda.sampling import DeviceDraws, draws_on_device
from linkwork.studies.cuda.summaries import DeviceOutput, summarizes_on_device
from linkwork.studies.encoding import Nodes
from linkwork.studies.outputs import Batch, check_shapes, evaluate_outputs
from linkwork.studies.reductions import Reduction
from linkwork.studies.rows import Rows, StatusCounts, compute_batch, run_batch, summarize

if TYPE_CHECKING:
    from linkwork.studies.study import Study


def compute_on_device(study: Study, first: int, last: int) -> tuple[Nodes, np.ndarray]:
    """Return the summaries of samples `first` to `last - 1` of a single model, and their status."""
    rows = last - first
    with DeviceScope() as scope:
        drawn = None
        if draws_on_device(study):
            drawn = DeviceDraws(study, scope, first, rows)
            batch = run_batch(study, 0, range(first, last), drawn.values, scope)
        else:
            values = study.sampler.draw(study.space, first, rows)
            batch = compute_batch(study, 0, np.arange(first, last), values, scope=scope)
        outputs = evaluate_outputs(study.outputs, batch, _device_outputs(study))
        check_shapes(study, outputs, first, last)
        if drawn is not None:
            drawn.check()
        accepted = has_status(batch.status, study.accepted)
        places = {
            name: DeviceOutput(scope, x, accepted, first)
            for name, x in outputs.items()
            if isinstance(x, DeviceArray)
        }
        states_of_host = _host_states(study, batch, first, outputs, places)
        nodes: Nodes = []
        for k, (level, number) in enumerate(_nodes(study, first, last)):
            begin = number * study.block * 2**level - first
            part = begin, min(begin + study.block * 2**level, rows)
            states = []
            for each in study.summaries:
                if _is_on_device(each, places):
                    states.append(places[each.outputs[0]].summarize(each, part))
                elif isinstance(each, StatusCounts):
                    states.append(each.counts(batch.status[slice(*part)]))
                else:
                    states.append(states_of_host[k][id(each)])
            nodes.append((level, number, states))
        return nodes, batch.status


def _host_states(
    study: Study, batch: Batch, first: int, outputs: dict[str, Any], places: dict[str, DeviceOutput]
) -> list[dict[int, State]]:
    """Return the states of summaries that the host computes, for each node by the summary's identity."""
    summaries = [
        each
        for each in study.summaries
        if not isinstance(each, StatusCounts) and not _is_on_device(each, places)
    ]
    if not summaries:
        return []
    rows = len(batch.status)
    on_host = {name: x for name, x in outputs.items() if name not in places}
    index = np.arange(first, first + rows)
    values = Rows(index, np.zeros(rows, np.int64), batch.status, batch.steps, {}, on_host)
    nodes = summarize(study, values, summaries)
    return [dict(zip(map(id, summaries), states, strict=True)) for _, _, states in nodes]


def _is_on_device(reduction: Reduction, places: dict[str, DeviceOutput]) -> bool:
    return bool(reduction.outputs) and reduction.outputs[0] in places


def _nodes(study: Study, first: int, last: int) -> list[tuple[int, int]]:
    return list(tree_nodes(first // study.block, -(-last // study.block)))


def _device_outputs(study: Study) -> frozenset[str]:
    """Return the outputs that only reductions on the GPU read."""
    if study.block != BLOCK:
        return frozenset()
    staying = set(study.outputs)
    for each in study.summaries:
        for name in each.outputs:
            if not summarizes_on_device(each, study.output_shape(name)):
                staying.discard(name)
    return frozenset(staying)
