"""Assumption of functions that loops are closed: its note in docstrings, and the check of `check=True`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linkwork.errors import ClosureError, ModelError
from linkwork.functions.engine.call_arguments import has_symbols
from linkwork.lazy import resolve
from linkwork.mechanism.names import printable
from linkwork.model import Model

ASSUMED = (
    "Loops are assumed to be closed at {}; `check=True` raises ClosureError where one is open "
    "(see `closure_error`)."
)
LOOP_PARAMETERS = ("placement", "ratio", "loop_placement")  # kinds on which closure depends
CLOSURE_ERROR = "linkwork.functions.conditioning:closure_error"  # imported on first use
EXCESS_RANK = "linkwork.functions.conditioning:excess_rank"
FLOAT32_FACTOR = 10.0  # on the closure tolerance where coordinates are float32
SECTION = re.compile(r"\n\n    \w[\w ]*\n    -{3,}\n")  # header of the first numpydoc section


def with_closed_states_note(text: str | None, states: Sequence[str]) -> str | None:
    """Return a docstring with the assumption added, before its first numpydoc section."""
    if not text or not states:
        return text
    section = SECTION.search(text)
    end = section.start() if section else len(text.rstrip())
    return f"{text[:end]}\n\n    {ASSUMED.format(' and '.join(states))}{text[end:].rstrip()}\n    "


def raise_if_open(
    function: str,
    model: Any,
    check: Any,
    states: Mapping[str, Any],
    parameters: Mapping[str, Any],
    device: str,
) -> None:
    """Raise ClosureError where loops are open in configurations of a call, as `check=True` requests."""
    if check is not True:
        raise ModelError(f"{function}: check: expected True or False, got {check!r}")
    if not states:
        raise ModelError(
            f"{function}: check=True has no effect: no argument is a configuration whose loops must be closed"
        )
    if not isinstance(model, Model) or not model.loops:
        return
    loop_parameters = {name: x for name, x in parameters.items() if name.partition("@")[0] in LOOP_PARAMETERS}
    if device != "cpu" or any(map(has_symbols, (*states.values(), *loop_parameters.values()))):
        raise ModelError(
            f"{function}: check=True requires numbers on the CPU; elsewhere call lw.closure_error"
        )
    closure_error = resolve(CLOSURE_ERROR)
    for name, q in states.items():
        gaps = closure_error(
            model, np.asarray(q, dtype=float), **({"parameters": loop_parameters} if loop_parameters else {})
        )
        _raise_if_gaps(
            f"{function}: {name}", model, gaps, FLOAT32_FACTOR if np.asarray(q).dtype == np.float32 else 1.0
        )
        for cluster, is_excess in resolve(EXCESS_RANK)(model, np.asarray(q, dtype=float), loop_parameters):
            _raise_if_excess(f"{function}: {name}", cluster, is_excess)


def _raise_if_excess(label: str, cluster: Any, is_excess: np.ndarray) -> None:
    """Raise ClosureError with row and loops if more equations are independent than the model uses."""
    if not is_excess.any():
        return
    names = ", ".join(repr(printable(constraint.name)) for constraint in cluster.constraints)
    raise ClosureError(
        f"{label} is closed on another branch of the mechanism{_location(np.argwhere(is_excess)[0])}: "
        f"expected {len(cluster.rows)} independent equations of loops {names}, as in neutral(), got more; "
        "build a model with start= on that branch"
    )


def _location(row: np.ndarray) -> str:
    """Return the words for a row of a batch; nothing for one state."""
    if not len(row):
        return ""
    return f" in row {int(row[0]) if len(row) == 1 else tuple(map(int, row))}"


def _raise_if_gaps(label: str, model: Model, gaps: np.ndarray, factor: float) -> None:
    """Raise ClosureError with row, loop and amount if gaps, (..., loops, 2), exceed the tolerance."""
    limits = model.closure_tolerance * factor
    open_loops = ~(gaps <= limits).all(axis=-1)
    if not open_loops.any():
        return
    *row, loop = (int(i) for i in np.argwhere(open_loops)[0])
    location = _location(np.array(row, dtype=int))
    rows = int(open_loops.any(axis=-1).sum())
    other_rows = f"; {rows} rows are open" if rows > 1 else ""
    (length, angle), (max_length, max_angle) = gaps[(*row, loop)], limits[loop]
    raise ClosureError(
        f"{label} is not closed{location}: loop {printable(model.loops[loop].name)!r} is open by "
        f"{length:.2g} m and {angle:.2g} rad, expected at most {max_length:.2g} m and {max_angle:.2g} "
        f"rad{other_rows}; close it with lw.close_loops"
    )
