"""Arrays as bytes, without pickle: summaries of reductions inside of chunk files."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from linkwork.errors import StudyError
from linkwork.studies.accumulate import State

Nodes = list[tuple[int, int, list[State]]]
"""Level and number of each node of the tree, and its summary for each reduction."""

_KINDS = "bifu"  # of dtypes that are numbers


def encode_nodes(nodes: Nodes) -> bytes:
    """Return summaries as one header line of JSON and the arrays' bytes."""
    header = []
    parts = []
    for level, number, states in nodes:
        described = []
        for state in states:
            arrays = {name: np.ascontiguousarray(x) for name, x in state.items()}
            described.append([[name, x.dtype.str, list(x.shape)] for name, x in arrays.items()])
            parts += [x.tobytes() for x in arrays.values()]
        header.append([level, number, described])
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(parts)


def decode_nodes(data: bytes) -> Nodes:
    """Return the summaries that `encode_nodes` wrote; StudyError if the bytes are not such."""
    try:
        line, _, body = data.partition(b"\n")
        nodes: Nodes = []
        place = 0
        header = json.loads(line)
        if not isinstance(header, list):
            raise ValueError("expected a list of nodes")
        for level, number, described in header:
            states = []
            for arrays in described:
                state, place = _decode_state(arrays, body, place)
                states.append(state)
            nodes.append((int(level), int(number), states))
        if place != len(body):
            raise ValueError("unexpected bytes at the end")
    except (ValueError, TypeError, KeyError) as error:
        raise StudyError(f"summaries of a chunk are damaged: {error}") from None
    return nodes


def _decode_state(arrays: Sequence[Sequence[object]], body: bytes, place: int) -> tuple[State, int]:
    state: State = {}
    for name, kind, shape in arrays:
        dtype = np.dtype(str(kind))
        sizes = [int(n) for n in shape]  # type: ignore[attr-defined]
        if dtype.kind not in _KINDS or min(sizes, default=0) < 0:
            raise ValueError(f"unexpected array {kind} {shape}")
        count = int(np.prod(sizes, dtype=np.int64))
        state[str(name)] = np.frombuffer(body, dtype, count, place).reshape(sizes).copy()
        place += count * dtype.itemsize
    return state, place
