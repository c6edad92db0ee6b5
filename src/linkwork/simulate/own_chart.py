"""Whether a row can go on in the model's own coordinates, told by its state: for kernels that have no others.

n steps before a turning point of an independent joint, velocities that follow from it change by 1 / n of themselves in a step,
though the mechanism moves on evenly. A method of first order loses such a part of the speed in each step: rows would creep
towards the turning point, and stay there without a word. So they stop before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linkwork.algorithms.closing import places_of
from linkwork.algorithms.conditioning import looped
from linkwork.functions.model_function import model_function
from linkwork.ir.functions import absolute, maximum, where
from linkwork.model import Model
from linkwork.simplify.trees import tree
from linkwork.simulate.charts import Charts
from linkwork.topology.scales import length_of, velocity_units

LARGE = 10.0  # entry of unit-free G from which on a turning point may be near
SOON = 0.1  # part of a velocity by which it changes in a step then: ten steps before that point
TINY = 1e-30


@model_function(q="nq", v="nv", dt="")
def turns_back(model: Model, q: Any, v: Any, dt: Any) -> Any:
    """Above 1 where an independent joint turns back within some ten steps of dt, (...); at most 1 elsewhere.

    It is the largest dt |g| / (|G| |ẏ|) of a joint that has a large entry of G, with its velocity G ẏ and acceleration G ÿ + g,
    relative to `SOON`.
    """
    found: Any = 0.0 * dt
    charts = Charts(model)
    if not charts.moving:
        return found
    nodes, units, clusters = tree(model, q, v), _units(charts.whole), charts.clusters
    own = np.concatenate([units[places_of(model, c)[list(c.independent)]] for c in model.clusters])
    for body in (nodes.bodies[k] for n in charts.moving for k in clusters[n].bodies):
        for G, g, unit in zip(body.G, body.g, units[body.joint.v_slice]):
            speed: Any = 0.0
            large: Any = 0.0
            for x, y, by in zip(G, v[body.dofs], own[body.dofs]):
                speed, large = speed + absolute(x * y), maximum(large, absolute(x) * (by / (LARGE * unit)))
            found = maximum(found, where(large > 1.0, dt * absolute(g) / maximum(SOON * speed, TINY), 0.0))
    return found


def _units(model: Model) -> np.ndarray:
    """What velocities of loops are compared with, (nv_spanning,): a radian, or the size of the loop where they slide."""
    found, structure = np.ones(model.nv_spanning), model.structure
    named = {constraint.name: constraint for constraint in structure.embedded}
    for cluster in looped(model):
        size = length_of(structure, cluster.bodies, [named[c.name] for c in cluster.constraints])
        found[places_of(model, cluster)] = velocity_units(structure, cluster.bodies, size)
    return found
