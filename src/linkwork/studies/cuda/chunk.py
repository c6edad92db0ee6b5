"""A chunk of a study whose outputs stay on the GPU, as far as its sampler and its reductions are computed
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from linkwork.compiler.runtime.cuda.device_arrays import DeviceArray, DeviceScope
from linkwork.simulation.status import has_status
from linkwork.studies import chunks
from linkwork.studies.accumulate import BLOCK, tree_nodes
from linkwork.studies.cuda.sampling import DeviceDraws, draws_on_device
from linkwork.studies.cuda.summaries import DeviceOutput, summarizes_on_device
from linkwork.studies.encoding import Nodes
from linkwork.studies.outputs import check_shapes, evaluate_outputs

if TYPE_CHECKING:
    from linkwork.studies.study import Study


def compute_on_device(study: Study, first: int, last: int) -> tuple[Nodes, np.ndarray]:
    """Return the summaries of samples `first` to `last - 1` of a single model, and their status."""
    rows = last - first
    index = np.arange(first, last)
    on_device = _device_outputs(study)
    with DeviceScope() as scope:
        drawn = None
        if draws_on_device(study):
            drawn = DeviceDraws(study, scope, first, rows)
            batch = chunks.run_batch(study, 0, index, drawn.values, scope)
        else:
            batch = chunks.compute_batch(
                study, 0, index, study.sampler.draw(study.space, first, rows), scope=scope
            )
        outputs = evaluate_outputs(study.outputs, batch, on_device)
        check_shapes(study, outputs, first, last)
        if drawn is not None:
            drawn.check()
        accepted = has_status(batch.status, study.accepted)
        places = {
            name: DeviceOutput(scope, x, accepted, first)
            for name, x in outputs.items()
            if isinstance(x, DeviceArray)
        }
        on_host = {name: x for name, x in outputs.items() if name not in places}
        host_rows = chunks.Rows(index, np.zeros(rows, np.int64), batch.status, batch.steps, {}, on_host)
        of_host = [each for each in study.summaries if not _is_on_device(each.outputs, places)]
        host_nodes = chunks.summarize(study, host_rows, of_host)
        nodes: Nodes = []
        for (level, number), (_, _, host_states) in zip(_nodes(study, first, last), host_nodes, strict=True):
            begin = number * BLOCK * 2**level - first
            part = begin, min(begin + BLOCK * 2**level, rows)
            states = iter(host_states)
            nodes.append(
                (
                    level,
                    number,
                    [
                        places[each.outputs[0]].summarize(each, part)
                        if _is_on_device(each.outputs, places)
                        else next(states)
                        for each in study.summaries
                    ],
                )
            )
        return nodes, batch.status


def _is_on_device(names: tuple[str, ...], places: dict[str, DeviceOutput]) -> bool:
    return bool(names) and names[0] in places


def _nodes(study: Study, first: int, last: int) -> list[tuple[int, int]]:
    return list(tree_nodes(first // study.block, -(-last // study.block)))


def _device_outputs(study: Study) -> frozenset[str]:
    """Return the outputs that only reductions on the GPU read."""
    if study.block != BLOCK:
        return frozenset()
    kept = set(study.outputs)
    for each in study.summaries:
        for name in each.outputs:
            if not summarizes_on_device(each, study.output_shape(name)):
                kept.discard(name)
    return frozenset(kept)
