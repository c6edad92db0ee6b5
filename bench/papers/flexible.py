"""Operations and times of chains of flexible bodies, compared with Exudyn: `PYTHONPATH=bench python -m papers flexible`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from linkwork.cli.measure import costs
from linkwork.functions.dynamics import forward_dynamics
from papers.boom import spectrum, tip
from papers.exudyn_chain import ExudynChain, chain, exudyn_chain, missing, moving_state
from papers.figures import Figure, columns, show
from papers.picture import Line, Panel, page


@dataclass(frozen=True)
class Sizes:
    """Bodies and modes of the chains, and how long is measured."""

    chains: tuple[tuple[int, int], ...] = ((2, 6), (5, 6), (10, 2), (10, 4), (10, 6), (20, 6))
    turns: int = 10
    max_operations: int = 60_000  # operations of what is timed
    duration: float = 60.0  # [s] of the boom's motion


QUICK = Sizes(((2, 2), (5, 2)), 1, duration=2.0)


def chains(sizes: Sizes, note: str) -> Figure:
    """Return the figure of forward dynamics of chains: ns of one state and in batches, and of one evaluation
    by Exudyn.
    """
    rows: list[tuple[Any, ...]] = []
    peer: ExudynChain | None = None
    for bodies, modes in sizes.chains:
        model = chain(bodies, modes)
        peer = exudyn_chain(bodies, modes)
        asked: dict[str, Any] = {"ours": (forward_dynamics, {})}
        ours = costs(
            asked,
            model,
            turns=sizes.turns,
            max_operations=sizes.max_operations,
            between=peer.turn if peer else lambda: None,
        )["ours"]
        theirs = (1e9 * peer.evaluation, 1e9 * peer.accelerations()) if peer and ours.one else (None, None)
        pairs = ((theirs[0], ours.one), (theirs[0], ours.batch), (theirs[1], ours.batch))
        faster = [x / y if x and y else None for x, y in pairs]
        of_ours = ours.operations, ours.operations / bodies, ours.one, ours.batch
        rows.append((bodies, modes, model.nv, *of_ours, *theirs, *faster, peer and gap(peer, bodies, modes)))
    head = (
        "bodies", "modes a body", "nv", "operations", "a body", "one state: ns", "in batches: ns", "Exudyn: evaluation, ns",
        "accelerations, ns", "times faster: one state than its evaluation", "in batches than its evaluation",
        "in batches than its accelerations", "modal accelerations differ, relative",
    )  # fmt: skip
    line = Line("articulated bodies", *columns(rows, (0, 3), lambda row: row[1] == rows[0][1]), 0)
    panel = Panel("operations of forward dynamics", "flexible bodies", "operations", [line])
    if gone := missing():
        remark = f"Exudyn is not measured, since {' and '.join(gone)} cannot be imported: pip install exudyn scipy."
    else:
        remark = f"{peer.version if peer else 'Exudyn'}, one state at a time, on one thread as all else."
    title = "Chains of flexible bodies: forward dynamics"
    return Figure("flexible", title, head, rows, page(title, [panel], note), (remark,))


def gap(peer: ExudynChain, bodies: int, modes: int) -> float:
    """Return the largest relative difference of modal accelerations between Exudyn and linkwork in one state."""
    model, (q, v) = chain(bodies, modes), moving_state(bodies, modes)
    ours = forward_dynamics(model, q, v, np.zeros(model.nv)).reshape(bodies, 1 + modes)[:, 1:]
    return float(np.abs(peer.modal_accelerations - ours).max() / np.abs(ours).max())


def run(folder: Path, *, quick: bool) -> int:
    """Print the table, and write it into a folder."""
    sizes = QUICK if quick else Sizes()
    return show(
        folder, [partial(chains, sizes), partial(tip, sizes.duration), partial(spectrum, sizes.duration)]
    )
