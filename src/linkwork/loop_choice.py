"""Which loops to embed and which to hold by forces: the choice with the fewest operations."""

from __future__ import annotations

from linkwork.constrained import constrained_dynamics
from linkwork.errors import ModelError
from linkwork.functions import forward_dynamics
from linkwork.model import Model
from linkwork.passes.count import count_operations

CHOICES = ("embed", "constrain", "auto")
ITERATIONS = 3  # proximal iterations that are counted


def with_loops(model: Model, loops: str) -> Model:
    """The same mechanism with its loops embedded ("embed"), upheld by forces ("constrain"), or each as is cheaper ("auto").

    For "auto" the operations of forward dynamics are counted: beginning with all loops embedded, each is held by forces if
    that makes the program shorter, those in the largest clusters first. Embedding is best for local loops, forces for those
    that reach far.
    """
    if loops not in CHOICES:
        raise ModelError(f"loops must be one of {', '.join(CHOICES)}, not {loops!r}")
    names = [c.name for c in (*model.constraints, *model.held)]
    if loops == "constrain":
        return model.with_loops(constrain=names)
    best = model.with_loops(embed=names)
    if loops == "embed" or not names:
        return best
    least = operations(best)
    for name in [c.name for cluster in sorted(best.clusters, key=_size) for c in cluster.constraints]:
        other = best.with_loops(constrain=[name])
        count = operations(other)
        if count < least:
            best, least = other, count
    return best


def _size(cluster: object) -> int:
    return -len(cluster.bodies)  # type: ignore[attr-defined]


def operations(model: Model) -> int:
    """How many operations forward dynamics needs, with so many proximal iterations where loops are held by forces."""
    if not model.held:
        return count_operations(forward_dynamics.program(model))["total"]
    program = constrained_dynamics.program(model, constraints=(), iterations=ITERATIONS, tolerance=None)
    return count_operations(program)["total"]
