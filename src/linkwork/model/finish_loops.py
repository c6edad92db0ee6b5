"""Last steps of building models with loops: dependent joints, and the rows of constrained loops."""

from __future__ import annotations

from dataclasses import replace

from linkwork.errors import ModelError
from linkwork.loops.closure_messages import closure_notes
from linkwork.loops.cluster_search import constrained_clusters
from linkwork.loops.independent_rows import loops_with_independent_rows
from linkwork.mechanism.limits import Limits
from linkwork.model.model import Model


def check_dependent_joints(model: Model) -> None:
    """Raise ModelError if a joint marked dependent is in no loop."""
    for cluster in model.clusters:
        joint = model.joints[cluster.bodies[0]]
        if not cluster.constraints and joint.independent is False and not model.constrained_loops:
            raise ModelError(
                f"joint {joint.name!r}: independent=False: expected a joint in a loop, since nothing else "
                "determines its motion. Add loops that are given elsewhere: lw.load(path, loops=[...]) takes "
                'loop joints, couplings {"name": ..., "terms": {joint: coefficient}} and functions '
                '{"name": ..., "function": ..., "joints": [...]}'
            )


def constrain_all(model: Model, limits: Limits | None) -> Model:
    """Return a copy with all loops constrained by their independent equations at closed states."""
    loops = {c.name: c for c in model.embedded}
    clusters = constrained_clusters(model, limits)
    loops |= {c.name: c for cluster in clusters for c in loops_with_independent_rows(model, cluster)}
    notes = (*model.notes, *closure_notes(model, clusters))
    return replace(
        model,
        embedded=(),
        constrained_loops=(*model.constrained_loops, *loops.values()),
        notes=notes,
        kernels={},
    )
